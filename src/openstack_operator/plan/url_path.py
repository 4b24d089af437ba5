"""Names from outside within the path of a URL."""

from __future__ import annotations

from urllib.parse import quote

from .errors import SpecError

_DOTS = {".", ".."}


def segment(name: str) -> str:
    """Return a name as one segment of a path, which neither ends there nor leads elsewhere."""
    # Clients take two dots for the folder above, and leave them as they are if they are escaped.
    return name.replace(".", "%2E") if name in _DOTS else quote(name, safe=":")


def object_segment(name: str, field: str) -> str:
    """Return a name as a segment of a path in the Kubernetes API. Raises SpecError, which begins with `field`, for
    one that is no name there: the API server reads an escaped slash as a slash.
    """
    if name in _DOTS or "/" in name or "%" in name or not name.isprintable():
        raise SpecError(field, f"{name!r} is not an object name; use lower case letters, digits, dashes and dots")
    return segment(name)
