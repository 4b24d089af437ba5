"""The fields of resources that decide about pods, by the names under which the user of the cloud wrote them."""

from __future__ import annotations

from pydantic.alias_generators import to_camel

from ..api import Model, PodSettings
from ..kube import COMPONENT, owner_path
from ..plan import Object, spec_images
from .state import subject

_SERVERS = "server"
"""Component of a database, broker or cache whose pods have no settings but those of the resource."""


def image_fields(owner: Object, spec: Model, said: str) -> str:
    """Return which field sets the image that `said` names, or that it is the release's."""
    words = said.split()
    paths = [path for path, image in spec_images(spec).items() if image in words]
    if paths:
        return f"this image is set in {' and '.join(_written(owner, path) for path in paths)}"
    if not hasattr(spec, "release"):
        return ""
    checked = getattr(getattr(spec, "upgrade", None), "check_release", None)
    if checked and checked in said:
        return f"it belongs to release {checked!r}, which is checked; give the nodes its images: docs/how-to/upgrade.md"
    release = f"{getattr(spec, 'release', '')!r} in profile {getattr(spec, 'image_profile', '')!r}"
    return f"no `image` sets it: it belongs to release {release}, set in {_written(owner, 'spec.release')}"


def size_fields(owner: Object, spec: Model, workload: Object) -> str:
    """Return where the number and the requests of a workload's pods are set; empty if no field is its own."""
    component = (workload["metadata"].get("labels") or {}).get(COMPONENT, "")
    field = to_camel(component.replace("-", "_"))
    settings = {info.alias or name: getattr(spec, name) for name, info in type(spec).model_fields.items()}
    if isinstance(settings.get(field), PodSettings):
        path = f"spec.{field}"
    elif component == _SERVERS and isinstance(spec, PodSettings):
        path = "spec"
    else:
        return ""
    return f"`replicas` and `resources` of these pods are set in {_written(owner, path)}"


def volume_fields(owner: Object, spec: Model) -> str:
    """Return where the size of a resource's volumes is set; empty if it has none, or several of them."""
    if hasattr(spec, "storage_size"):
        return f"the size of the volume is set in {_written(owner, 'spec.storageSize')}"
    if hasattr(getattr(spec, "storage", None), "size"):
        return f"the size of the volume is set in {_written(owner, 'spec.storage.size')}"
    return ""


def _written(resource: Object, path: str) -> str:
    """Return a field of a resource, by its place in the control plane where that makes the resource."""
    owners = (each for each in resource["metadata"].get("ownerReferences") or () if each.get("controller"))
    owner, place = next(owners, None), owner_path(resource, path)
    if owner is None or place is None:
        return f"{path} of {subject(resource)}"
    return f"{place} of {owner['kind']}/{owner['name']} ({path} of {subject(resource)})"
