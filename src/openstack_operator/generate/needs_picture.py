"""A picture of what the services of a cloud need of each other, as `graph` draws it."""

from __future__ import annotations

from pathlib import Path

from ..cli.inspection.graph import as_svg
from ..cli.render import OfflineCluster
from ..plan import Object
from ..registry import ACTUATORS, RESOURCES, SERVICES
from ..release_files import ReleaseFiles
from ..yaml_text import load

_READY = {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]}


def needs_picture(sample: Path, releases: Path) -> str:
    """Return the picture of the cloud in a file, as one that is Ready."""
    kinds = {(each.api_version, each.kind) for each in RESOURCES}
    resources: dict[tuple[str, str], Object] = {}
    for planned in OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(releases)).render(load(sample)):
        for each in planned.objects:
            if (each["apiVersion"], each["kind"]) in kinds:
                resources[each["kind"], each["metadata"]["name"]] = {**each, "status": _READY}
    return as_svg(list(resources.values())) + "\n"
