"""Release notes: the changes of a version, and the digests of its images."""

from __future__ import annotations

import re
from collections.abc import Mapping


def changes(changelog: str, version: str) -> str:
    """Return the entries of a version in CHANGELOG.md. Raises LookupError if it has none."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for section in sections:
        title, _, text = section.partition("\n")
        if re.split(r"[,\s]", title)[0] == version:
            return text.strip()
    raise LookupError(f"CHANGELOG.md has no section of version {version}")


def notes(version: str, changelog: str, images: Mapping[str, str], upgrade: str, new: str = "") -> str:
    """Return the notes in Markdown; `images` are full names with digests, `upgrade` is the section about one, and `new`
    has entries that the changelog does not have yet.
    """
    rows = [f"| {name} | `{reference}` |" for name, reference in sorted(images.items())]
    return "\n".join(
        [
            f"# openstack-operator {version}",
            "",
            "Install it with `kubectl apply --server-side -f install.yaml`, or with the chart in `charts/`.",
            "Verify the files with `sha256sum --check SHA256SUMS`.",
            "",
            "## Changes",
            "",
            "\n".join(filter(None, [new, changes(changelog, version)])),
            "",
            upgrade,
            "",
            "## Images",
            "",
            "| image | reference |",
            "| --- | --- |",
            *rows,
            "",
        ]
    )
