"""The bundle for the Operator Lifecycle Manager, with images of a registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from openstack_operator.generate.olm_bundle import CSV
from openstack_operator.plan import Object
from openstack_operator.yaml_text import dump, load_text

from . import install_manifests

PACKAGE = "openstack-operator"
NAME = f"{PACKAGE}-bundle"
"""The image of the bundle."""
ANNOTATIONS = "metadata/annotations.yaml"
ROOT = Path(__file__).parents[2]


def files(
    root: Path,
    references: Mapping[str, str],
    releases: Mapping[str, str],
    version: str,
    created: datetime,
    earlier: Sequence[str] = (),
) -> dict[str, bytes]:
    """Return all files of the bundle of a checkout by path. `references` are the images by name, that of the operator
    among them; a mirror for a network without the internet copies these. `earlier` are the versions before, the oldest
    first.
    """
    folder = root / CSV.parent.parent
    texts = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.glob("*/*.yaml")}
    for path in (root / "deploy" / "crds").glob("*.yaml"):
        texts[f"manifests/{path.stem}.crd.yaml"] = path.read_text(encoding="utf-8")
    (generated,) = load_text(install_manifests.renumbered((root / CSV).read_text(encoding="utf-8"), version))
    texts[f"manifests/{CSV.name}"] = dump(_filled(generated, references, created, earlier))
    config_map = install_manifests.release_files(releases)
    texts[f"manifests/{install_manifests.RELEASES}.configmap.yaml"] = dump(_without_namespace(config_map))
    return {path: text.encode() for path, text in sorted(texts.items())}


def channel(version: str, earlier: Sequence[str]) -> str:
    """Return the package and its channel in a catalog: each version replaces the one before, and may be installed over
    any older one, since it accepts what that stored.
    """
    (annotations,) = load_text((ROOT / CSV.parent.parent / ANNOTATIONS).read_text(encoding="utf-8"))
    name = annotations["annotations"]["operators.operatorframework.io.bundle.channels.v1"]
    entries = [
        {"name": _name(each), **_replaces([*earlier, version][:index]), "skipRange": f"<{each}"}
        for index, each in enumerate([*earlier, version])
    ]
    package = {"schema": "olm.package", "name": PACKAGE, "defaultChannel": name}
    blobs = [package, {"schema": "olm.channel", "package": PACKAGE, "name": name, "entries": entries}]
    return "---\n".join(map(dump, blobs))


def _name(version: str) -> str:
    return f"{PACKAGE}.v{version}"


def _replaces(earlier: Sequence[str]) -> Object:
    return {"replaces": _name(earlier[-1])} if earlier else {}


def _filled(version: Object, references: Mapping[str, str], created: datetime, earlier: Sequence[str]) -> Object:
    metadata, spec, image = version["metadata"], version["spec"], references["operator"]
    annotations = {
        **metadata["annotations"],
        "containerImage": image,
        "createdAt": created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    (deployment,) = spec["install"]["spec"]["deployments"]
    filled = install_manifests.with_image({"kind": "Deployment", "spec": deployment["spec"]}, image)
    install = {**spec["install"]["spec"], "deployments": [{**deployment, "spec": filled["spec"]}]}
    related = [{"name": name, "image": reference} for name, reference in sorted(references.items())]
    return {
        **version,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {
            **spec,
            **_replaces(earlier),
            "install": {**spec["install"], "spec": install},
            "relatedImages": related,
        },
    }


def _without_namespace(obj: Object) -> Object:
    metadata: dict[str, Any] = obj["metadata"]
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "namespace"}}
