"""The fields of resources that decide about pods, by the names under which the user of the cloud wrote them."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from ...api import Model, PodSettings
from ...kube import COMPONENT, owner_path
from ...plan import Object, spec_images
from ..kind_index import BY_TYPE
from .state import subject

_SERVERS = "server"
"""Component of a database, broker or cache whose pods have no settings but those of the resource."""


def spec_of(live: Object) -> Model | None:
    """Return the spec of a resource of ours; None if it is invalid, which its condition says."""
    resource = BY_TYPE.get((live["apiVersion"], live["kind"]))
    try:
        return resource.load_spec().from_spec(live.get("spec") or {}) if resource else None
    except ValidationError:
        return None


def image_places(owner: Object, spec: Model) -> dict[str, str]:
    """Return the fields that set images, as the user of the cloud wrote them, by the image."""
    places: dict[str, list[str]] = {}
    for path, image in spec_images(spec).items():
        places.setdefault(image, []).append(_written(owner, path))
    return {image: " and ".join(fields) for image, fields in places.items()}


def release_of_image(owner: Object, spec: Model, said: str) -> str:
    """Return to which release the image that `said` names belongs; empty if a field sets the image."""
    if not hasattr(spec, "release") or any(image in said.split() for image in spec_images(spec).values()):
        return ""
    checked = getattr(getattr(spec, "upgrade", None), "check_release", None)
    if checked and checked in said:
        return f"the check of release {checked!r} needs it; load its images on the nodes: docs/how-to/upgrade.md"
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
