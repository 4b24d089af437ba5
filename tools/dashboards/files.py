"""The files of the dashboards, and the queries in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from . import caches, cloud, clusters, networks
from .operator import operator

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "dashboards"
_DASHBOARDS: tuple[Callable[[], Dashboard], ...] = (
    cloud.overview,
    cloud.service,
    cloud.node,
    clusters.mariadb,
    clusters.rabbitmq,
    clusters.etcd,
    caches.valkey,
    caches.memcached,
    networks.ovn,
    operator,
)
_KUSTOMIZATION = """\
# Made by `python -m tools.dashboards`; change the dashboards there.
# kubectl apply -k deploy/dashboards -n monitoring
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
generatorOptions:
  disableNameSuffixHash: true
  labels: {grafana_dashboard: "1"}
configMapGenerator:
"""

RANGE = "$__rate_interval"
"""Variable of Grafana in the place of a length of time; the others are values of labels."""

Object = dict[str, Any]


@dataclass(frozen=True)
class PanelQuery:
    """A query of a panel."""

    dashboard: str
    """Name of its file without the ending."""
    section: str
    panel: str
    kind: str
    """Type of the panel: timeseries, stat or table."""
    unit: str
    expression: str
    legend: str


def built() -> dict[str, Object]:
    """Return the dashboards as Grafana reads them, by the name of their file without the ending."""
    boards = (json.loads(json.dumps(make().build(), cls=JSONEncoder)) for make in _DASHBOARDS)
    return {board["uid"]: board for board in boards}


def queries(boards: dict[str, Object]) -> Iterator[PanelQuery]:
    """Yield the queries of all panels."""
    for name, board in boards.items():
        section = ""
        for panel in board["panels"]:
            section = panel["title"] if panel["type"] == "row" else section
            for target in panel.get("targets") or ():
                unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
                legend = target.get("legendFormat", "")
                yield PanelQuery(name, section, panel["title"], panel["type"], unit, target["expr"], legend)


def _contents() -> dict[str, str]:
    boards = built()
    files = {f"{name}.json": json.dumps(board, indent=1, sort_keys=True) + "\n" for name, board in boards.items()}
    maps = "".join(f"  - {{name: {name}, files: [{name}.json]}}\n" for name in boards)
    return {**files, "kustomization.yaml": _KUSTOMIZATION + maps}


def stale(folder: Path) -> list[Path]:
    """Return the files in the folder that differ from what the code makes, or that it does not make."""
    contents = _contents()
    existing = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    differ = {name for name, text in contents.items() if name not in existing or (folder / name).read_text() != text}
    return [folder / name for name in sorted(differ | (existing - contents.keys()))]


def write(folder: Path) -> list[Path]:
    """Write the files that are stale, remove those that nothing makes, and return both."""
    contents, paths = _contents(), stale(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        if path.name in contents:
            path.write_text(contents[path.name], encoding="utf-8")
        else:
            path.unlink()
    return paths
