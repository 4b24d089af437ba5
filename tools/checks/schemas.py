"""JSON schemas for kubeconform, of the very Kubernetes that clusters here run, and of the operator's own kinds."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.localcluster.build import KUBERNETES, SOURCES, BuildError

_KINDS = "x-kubernetes-group-version-kind"
_ANY_NUMBER = {"anyOf": [{"type": "string"}, {"type": "number"}]}
_SPECIAL = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _ANY_NUMBER,
}
_SHARED = "definitions.json"

Schema = dict[str, Any]


def write(folder: Path, definitions: Iterable[Path]) -> None:
    """Write a file for each kind, named as kubeconform looks for it; `definitions` are CustomResourceDefinitions.

    Raises BuildError where the sources of Kubernetes cannot be had.
    """
    shared = json.loads(_swagger().read_text(encoding="utf-8"))["definitions"]
    (folder / _SHARED).write_text(
        json.dumps({"definitions": {name: _closed(name, each) for name, each in shared.items()}})
    )
    for name, schema in shared.items():
        for kind in schema.get(_KINDS, ()):
            _save(folder, kind, {"$ref": f"{_SHARED}#/definitions/{name}"})
    for path in definitions:
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            names, group = document["spec"]["names"], document["spec"]["group"]
            for version in document["spec"]["versions"]:
                kind = {"group": group, "version": version["name"], "kind": names["kind"]}
                content = strict(version["schema"]["openAPIV3Schema"])
                metadata = {"$ref": f"{_SHARED}#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
                content["properties"] |= {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": metadata,
                }
                _save(folder, kind, content)


def _swagger() -> Path:
    """Return the path in the Go module, whose content the checksum database confirms."""
    command = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}"]
    result = subprocess.run(command, cwd=SOURCES / "kubernetes", capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"`{' '.join(command)}` failed: {result.stderr.strip()[-500:]}")
    return Path(json.loads(result.stdout)["Dir"]) / "api" / "openapi-spec" / "swagger.json"


def _save(folder: Path, kind: Mapping[str, str], schema: Schema) -> None:
    group = kind["group"].partition(".")[0]
    name = "-".join([kind["kind"].lower(), *([group] if group else []), kind["version"].lower()])
    (folder / f"{name}.json").write_text(json.dumps(schema))


def _closed(name: str, schema: Schema) -> Schema:
    """Return a definition that refuses fields that it does not name."""
    return _SPECIAL.get(name) or strict(schema)


def strict(schema: Any) -> Any:
    """Return the schema of an object that refuses fields it does not name, down to its leaves; one that has fields of
    any name (`additionalProperties`, or Kubernetes' x-kubernetes-preserve-unknown-fields) still takes them.
    """
    if not isinstance(schema, dict):
        return [strict(each) for each in schema] if isinstance(schema, list) else schema
    closed = {key: strict(value) for key, value in schema.items() if key != "properties"}
    if "properties" in schema:
        closed["properties"] = {name: strict(each) for name, each in schema["properties"].items()}
        closed.setdefault("additionalProperties", bool(closed.get("x-kubernetes-preserve-unknown-fields")))
    if closed.pop("x-kubernetes-int-or-string", False):
        pattern = {"pattern": closed.pop("pattern")} if "pattern" in closed else {}
        closed.pop("type", None)
        closed["anyOf"] = [{"type": "string", **pattern}, {"type": "integer"}]
    return closed
