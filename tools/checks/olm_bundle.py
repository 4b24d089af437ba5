"""The bundle for OLM, looked at by OLM's own validators."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from images import catalog
from openstack_operator import __version__
from tools.localcluster.build import BUNDLE, ensure
from tools.publish import olm_bundle

EXPLAINED: Mapping[str, str] = {
    "csv.Spec.Icon not specified": "the project has no icon",
    "APIs which were deprecated and removed in v1.25": "rules of roles name no versions: the validator takes"
    " those of cronjobs and poddisruptionbudgets for their first versions",
}
"""Parts of findings that stay, with the reasons."""


class BundleError(Exception):
    """The validators do not come to an end."""


def check() -> tuple[int, list[str]]:
    """Return the number of the validators' findings, and what is wrong: findings without an explanation, and
    explanations without a finding. Raises BundleError.
    """
    names = catalog.deployed()
    with tempfile.TemporaryDirectory() as folder:
        references = {name: catalog.reference(name) for name in names}
        files = olm_bundle.files(catalog.ROOT, references, {}, __version__, datetime.now(UTC))
        for path, content in files.items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_bytes(content)
        command = [str(ensure(BUNDLE) / "validate"), str(Path(folder) / "manifests")]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BundleError(f"the bundle cannot be read: {result.stderr.strip()}")
    return judge(result.stdout.splitlines())


def judge(findings: list[str]) -> tuple[int, list[str]]:
    """Return the number of findings, and what is wrong."""
    faults = [finding for finding in findings if not any(part in finding for part in EXPLAINED)]
    unused = [part for part in EXPLAINED if not any(part in finding for finding in findings)]
    return len(findings), [
        *(f"bundle: {fault}" for fault in faults),
        *(f"tools/checks/olm_bundle.py explains a finding that is not there any more: {part}" for part in unused),
    ]
