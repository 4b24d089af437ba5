"""Images of users: which commands, files and users the operator assumes in them, since it cannot look inside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..api import Model, Template
from ..api.model import named_fields
from .context import Context
from .verdict import State, Verdict

IMAGE_PROFILE = "ImageProfile"
"""Condition of a resource with an image whose name does not show its profile; True, and only there while it has one."""

_PATTERNS = {"debian": re.compile(r"(^|/)openstack-operator/"), "kolla": re.compile(r"(^|[/.])kolla/")}
"""Patterns in the names of images, by profile: `registry.example.org/openstack-operator/keystone:…`."""
_LIST_LIMIT = 8


def image_verdict(ctx: Context[Model]) -> dict[str, Verdict]:
    """Return the condition that names images of the spec which may be of another family than its profile; none without
    one.
    """
    profile = ctx.release.profile
    images = {path: image for path, image in spec_images(ctx.spec).items() if not _fits(image, profile)}
    if not profile or not images:
        return {}
    families = {name for image in images.values() for name, pattern in _PATTERNS.items() if pattern.search(image)}
    advice = "set another imageProfile, or remove them"
    if len(families) == 1:
        advice = f"set imageProfile: {min(families)}"
    fields = ", ".join(f"{path} {image}" for path, image in list(images.items())[:_LIST_LIMIT])
    text = (
        f"{fields}: these images run with the commands, files and users of profile {profile} and "
        f"release {ctx.release.name}; if an image differs, {advice}"
    )
    return {IMAGE_PROFILE: Verdict(State.READY, text, "ImageMismatch" if families else "ImageAssumed")}


def _fits(image: str, profile: str) -> bool:
    """Return True if the name of an image shows the profile."""
    pattern = _PATTERNS.get(profile)
    return pattern is None or bool(pattern.search(image))


def spec_images(spec: Model) -> dict[str, str]:
    """Return each image that a spec or a template names for programs of a release, by its path; not those of templates
    in it.
    """
    return dict(_of_model(spec, "spec"))


def image_fields(spec: Model) -> dict[str, str]:
    """Return the fields that set an image for programs of a release, with commas between, by the image."""
    fields: dict[str, list[str]] = {}
    for path, image in spec_images(spec).items():
        fields.setdefault(image, []).append(path)
    return {image: ", ".join(paths) for image, paths in fields.items()}


def _images(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from _images(each, f"{path}[{index}]")
    elif isinstance(value, Model) and not isinstance(value, Template):
        yield from _of_model(value, path)


def _of_model(model: Model, path: str) -> Iterator[tuple[str, str]]:
    for name, field, may_hold_models in named_fields(type(model)):
        inner = getattr(model, name)
        if may_hold_models:
            yield from _images(inner, f"{path}.{field}")
        elif inner and name in model.image_fields:
            yield f"{path}.{field}", str(inner)
