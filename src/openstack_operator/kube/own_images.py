"""Images that this project builds and that no registry has: they are loaded onto the nodes."""

from __future__ import annotations

import re

_PREFIX = "localhost/openstack-operator/"
_UNBUILT = ":build"
"""Tag of an image in a release file that was not filled in."""
_RELEASE = re.compile(r"-(\d{4}\.\d)(?:-pristine)?[:@]")
"""Release in the name of an image that is not of the first release that this project had."""
BUILD = "python -m images build"
CORRECT = "correct it, or "
"""Words before what else helps, if a field sets the image."""


def is_own(image: str) -> bool:
    """Return True for an image that a node can only have because a user loaded it there."""
    return image.startswith(_PREFIX)


def is_unbuilt(image: str) -> bool:
    """Return True for an image of a release file as it is in the repository, which no node can have."""
    return is_own(image) and image.endswith(_UNBUILT)


def repository(image: str) -> str:
    """Return the name of an image without its tag and digest."""
    name = image.partition("@")[0]
    return name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name


def advice(image: str) -> str:
    """Return the commands that bring an image of this project to the nodes."""
    release = _RELEASE.search(image)
    option = f" --release {release[1]}" if release else ""
    images = f"the images of {release[1]}" if release else "the images"
    return (
        f"build and load {images}: `{BUILD}{option}`, then `python -m images load{option}`, or push them to a registry"
        " (docs/how-to/upgrade.md)"
    )
