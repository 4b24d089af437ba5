"""Charts of helm, made into objects on this machine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.localcluster.build import KUBERNETES
from tools.localcluster.kubernetes import run

from . import build
from .catalog import Chart
from .crds import documents

Object = dict[str, Any]


def rendered(module: Path, release: str, chart: Chart, references: Mapping[str, str]) -> list[Object]:
    """Return the namespace, and the objects that `helm template` makes of a chart in a module, as that release.

    In the chart's values `{NAME}` stands for the reference of that name. Raises BuildError where helm cannot be built.
    """
    program = build.helm()
    with tempfile.TemporaryDirectory() as folder:
        copy, values = Path(folder) / "chart", Path(folder) / "values.yaml"
        shutil.copytree(module / chart.folder, copy, copy_function=shutil.copyfile)
        _writable(copy)
        add_local_dependencies(copy, module / chart.folder)
        _writable(copy)
        values.write_text(yaml.safe_dump(valued(chart.values, references)), encoding="utf-8")
        where = (f"--namespace={chart.namespace}", f"--kube-version={KUBERNETES}", f"--values={values}")
        text = run(str(program), "template", release, str(copy), *where)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": chart.namespace}}
    return [namespace, *documents(text)]


def valued(values: Any, references: Mapping[str, str]) -> Any:
    """Return values with the references that their texts name."""
    match values:
        case str():
            return values.format(**references)
        case list():
            return [valued(each, references) for each in values]
        case Mapping():
            return {name: valued(each, references) for name, each in values.items()}
        case _:
            return values


def _writable(folder: Path) -> None:
    """Make a copy of a module writable: modules are read-only, and what is removed afterwards must not be."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def add_local_dependencies(copy: Path, chart: Path) -> None:
    """Add to the copy the charts that it needs and that are beside it in the module. It no longer names those in
    registries: a chart may list them first, and helm refuses to go on without them.
    """
    path = copy / "Chart.yaml"
    described: Object = yaml.safe_load(path.read_text(encoding="utf-8"))
    for each in described.pop("dependencies", []):
        scheme, _, folder = each.get("repository", "").partition("://")
        if scheme == "file":
            shutil.copytree(chart / folder, copy / "charts" / each["name"], copy_function=shutil.copyfile)
    path.write_text(yaml.safe_dump(described), encoding="utf-8")
