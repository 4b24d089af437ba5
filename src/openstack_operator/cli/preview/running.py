"""The operator that runs in a cluster: its options, its version and its release files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...kube import MANAGED_BY
from ...plan import SpecError
from ...runtime.kubernetes.client import Client
from ...runtime.kubernetes.errors import Forbidden
from ...runtime.kubernetes.kinds import DEPLOYMENT, Kind

_CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
_CONTAINER = "operator"
_KEY = re.compile("[-_a-zA-Z0-9][-._a-zA-Z0-9]*")
"""Name of an entry of a ConfigMap, but those of hidden files."""


@dataclass(frozen=True, kw_only=True)
class RunningOperator:
    """The command of the operator's container, and the files of its ConfigMaps."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    files: Mapping[str, Mapping[str, str]]
    """Texts by name, by the folder at which they are mounted."""


async def read(client: Client, namespace: str) -> RunningOperator | None:
    """Return the operator of that namespace; None if there is none, or the user may not read its Deployment. Raises
    Transient.
    """
    try:
        live = await client.get(DEPLOYMENT, namespace, MANAGED_BY)
    except Forbidden:
        return None
    if live is None:
        return None
    pod = live["spec"]["template"]["spec"]
    container = next((each for each in pod["containers"] if each["name"] == _CONTAINER), pod["containers"][0])
    environment = {each["name"]: each["value"] for each in container.get("env") or () if "value" in each}
    return RunningOperator(
        arguments=list(container.get("args") or ()),
        environment={"POD_NAMESPACE": namespace, **environment},
        files=await _files(client, namespace, pod, container),
    )


async def _files(
    client: Client, namespace: str, pod: Mapping[str, Any], container: Mapping[str, Any]
) -> dict[str, Mapping[str, str]]:
    volumes = {each["name"]: each["configMap"]["name"] for each in pod.get("volumes") or () if "configMap" in each}
    folders: dict[str, Mapping[str, str]] = {}
    for mount in container.get("volumeMounts") or ():
        if mount["name"] in volumes:
            try:
                live = await client.get(_CONFIG_MAP, namespace, volumes[mount["name"]])
            except Forbidden:
                continue
            folders[mount["mountPath"]] = (live or {}).get("data") or {}
    return folders


def write_releases(operator: RunningOperator, mounted: Path, folder: Path) -> Path | None:
    """Write the release files that the operator has at `mounted` to a folder, and return that; None if it has none
    there. Raises SpecError for what is not a file name.
    """
    texts = operator.files.get(str(mounted), {})
    for name, text in texts.items():
        file = Path(name).name
        if not _KEY.fullmatch(file):
            raise SpecError(f"ConfigMap of release files: {name!r}", "is not a file name")
        (folder / file).write_text(text, encoding="utf-8")
    return folder if texts else None
