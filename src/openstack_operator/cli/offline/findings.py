"""Errors and warnings about manifests, said in one way by every command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An error, or a warning, about one place in one file."""

    message: str
    """The mistake, and what to write instead; never the value of something that may be a secret."""
    file: str = ""
    line: int = 0
    """Counted from 1; 0 is not known."""
    document: int = 0
    """Number of the document in the file, counted from 1; 0 if it has only one."""
    resource: str = ""
    """Kind/name."""
    path: str = ""
    """The field, as the user wrote it: `spec.nova.config.database.connection`."""
    warning: bool = False

    def __str__(self) -> str:
        """Return `cloud.yaml:7: document 2: Keystone/keystone: spec.region: what to do`, on one line."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        document = f"document {self.document}" if self.document else ""
        parts = (place, "warning" if self.warning else "", document, self.resource, self.path, self.message)
        return " ".join(": ".join(part for part in parts if part).split())

    def as_json(self) -> dict[str, Any]:
        """Return the finding for programs; all keys are always there."""
        kind, _, name = self.resource.partition("/")
        return {
            "file": self.file,
            "document": self.document or 1,
            "line": self.line or None,
            "kind": kind,
            "name": name,
            "path": self.path,
            "message": self.message,
        }


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return each finding once, in the order of the files, errors before warnings."""
    return sorted(dict.fromkeys(findings), key=lambda each: (each.warning, each.file, each.document, each.line))
