"""Contents of an image as a document of SPDX 2.3: packages of Debian and of Python."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

_STATUS = "var/lib/dpkg/status"
_PARTS = "var/lib/dpkg/status.d"
_METADATA = ("*.dist-info/METADATA", "*.egg-info/PKG-INFO")
_PYTHON = ("usr/lib/python3/dist-packages", "usr/local/lib", "opt", "usr/share")


class Package(NamedTuple):
    """A package in an image."""

    ecosystem: str
    """`deb` or `pypi`, as in package URLs."""
    name: str
    version: str

    @property
    def url(self) -> str:
        """The package URL (https://github.com/package-url/purl-spec)."""
        namespace = "debian/" if self.ecosystem == "deb" else ""
        return f"pkg:{self.ecosystem}/{namespace}{quote(self.name, safe='')}@{quote(self.version, safe='')}"


def packages(root: Path) -> list[Package]:
    """Return the packages in the root of an image, each once, by name."""
    return sorted({*_debian(root), *_python(root)})


def _debian(root: Path) -> Iterator[Package]:
    parts = sorted((root / _PARTS).glob("*")) if (root / _PARTS).is_dir() else []
    for path in [root / _STATUS, *parts]:
        if path.is_file() and _is_inside(path, root):
            for paragraph in path.read_text(encoding="utf-8", errors="replace").split("\n\n"):
                fields = HeaderParser().parsestr(paragraph)
                if fields["Package"] and "installed" in (fields["Status"] or "installed").split():
                    yield Package("deb", fields["Package"], fields["Version"] or "")


def _python(root: Path) -> Iterator[Package]:
    for folder in _PYTHON:
        for pattern in _METADATA:
            for path in (root / folder).rglob(pattern):
                if not _is_inside(path, root):
                    continue
                fields = HeaderParser().parsestr(path.read_text(encoding="utf-8", errors="replace"))
                if fields["Name"]:
                    name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
                    yield Package("pypi", name, fields["Version"] or "")


def _is_inside(path: Path, root: Path) -> bool:
    """Return True unless a link of the image leads to a file of this machine."""
    return path.resolve().is_relative_to(root.resolve())


def document(image: str, contents: Iterable[Package], created: datetime) -> dict[str, Any]:
    """Return the document about an image; the same for the same contents and time."""
    entries = [_entry(number, package) for number, package in enumerate(contents, 1)]
    identity = hashlib.sha256(f"{image} {[entry['externalRefs'] for entry in entries]}".encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": image,
        "documentNamespace": f"https://spdx.org/spdxdocs/openstack-operator-{identity}",
        "creationInfo": {
            "created": created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: openstack-operator"],
        },
        "packages": [
            {
                "SPDXID": "SPDXRef-Image",
                "name": image.partition("@")[0],
                "versionInfo": image.partition("@")[2],
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False,
            },
            *entries,
        ],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image"),
            *(_relation("SPDXRef-Image", "CONTAINS", entry["SPDXID"]) for entry in entries),
        ],
    }


def _entry(number: int, package: Package) -> dict[str, Any]:
    return {
        "SPDXID": f"SPDXRef-Package-{number}",
        "name": package.name,
        "versionInfo": package.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": package.url,
            }
        ],
    }


def _relation(element: str, kind: str, related: str) -> dict[str, str]:
    return {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": related}
