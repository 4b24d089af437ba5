"""Images that a change needs and that no node can have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...kube import own_images
from ...plan import Object
from ..inspection.deciding_fields import image_places, spec_of
from .client import Address, Write

_MOST = 50
"""Images that a kubelet reports of its node; a node with as many may have more."""


def missing_images(written: Mapping[Address, Write], nodes: Sequence[Object], places: Mapping[str, str]) -> list[str]:
    """Return a sentence for each image that a field sets, and for each release, whose images are written into pods,
    are of this project, and are on no node. No registry has them. Nothing is said of nodes that may have more images
    than they report. `places` has the fields that set an image, by it.
    """
    reported = [[name for image in _images(node) for name in image.get("names") or ()] for node in nodes]
    may_have_more = any(len(_images(node)) >= _MOST for node in nodes)
    lacking: dict[str, list[str]] = {}
    for image in dict.fromkeys(image for write in written.values() for image in _pod_images(write.after)):
        is_somewhere = any(image in names for names in reported)
        if (
            nodes
            and not is_somewhere
            and (own_images.is_unbuilt(image) or (own_images.is_own(image) and not may_have_more))
        ):
            remedy = _correction(image, places, reported) + own_images.advice(image)
            lacking.setdefault(remedy, []).append(image)
    return [
        f"no node has {'the image' if len(images) == 1 else f'{len(images)} images, such as'} {images[0]},"
        f" and no registry does; {remedy}"
        for remedy, images in lacking.items()
    ]


def fields_of_images(written: Mapping[Address, Write]) -> dict[str, str]:
    """Return the fields of changed resources that set images, by the image."""
    fields: dict[str, list[str]] = {}
    for live in (write.after for write in written.values() if write.after):
        if spec := spec_of(live):
            for image, place in image_places(live, spec).items():
                fields.setdefault(image, []).append(place)
    return {image: " and ".join(places) for image, places in fields.items()}


def _correction(image: str, places: Mapping[str, str], reported: Iterable[Sequence[str]]) -> str:
    """Return where to correct an image, with the tags of it that nodes have; empty if no field sets it."""
    if image not in places:
        return ""
    name, tagged = own_images.repository(image), {each for names in reported for each in names if "@" not in each}
    tags = ", ".join(sorted(each for each in tagged if own_images.repository(each) == name))
    return f"{places[image]}: {f'correct it, since nodes have {tags}; or ' if tags else own_images.CORRECT}"


def _images(node: Object) -> Sequence[Object]:
    return (node.get("status") or {}).get("images") or ()


def _pod_images(live: Object | None) -> Iterable[str]:
    """Yield the images of the pods of a workload or a Job."""
    spec = (((live or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if image := container.get("image"):
            yield str(image)
