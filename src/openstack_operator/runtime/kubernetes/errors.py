"""Errors for the answers of the API server."""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

import msgspec

from ...kube import MANAGED_BY, one_line, quote
from ...plan import Object, SpecError, Transient
from .kinds import Kind, optional_role
from .limits import cut_deep

# What the authorizer and the check of owner references answer; any other 403 is admission refusing the content.
_NOT_ALLOWED = re.compile(r'User "[^"]*" cannot |cannot set blockOwnerDeletion')
# A field that the schema of the object does not have is answered as an error of the server where it is applied.
_NOT_IN_SCHEMA = re.compile(
    r"failed to create typed patch object \([^/]*/(?P<name>[^;]*);[^=]*Kind=(?P<kind>\w+)\): (?:errors:\s*)?"
    r"(?P<field>[^:]+): (?P<text>.*)",
    re.DOTALL,
)


class LeadershipLostError(Exception):
    """The lease could not be renewed in time; another replica may act from now on."""


class Conflict(Transient):
    """A stale view of the object, or an object that exists already."""


class Forbidden(Transient):
    """A missing permission of the operator; an administrator has to grant it, so asking again soon is no use."""


@contextmanager
def naming_role(kind: Kind) -> Generator[None]:
    """Make Forbidden say, of an optional kind, which role is to be bound."""
    try:
        yield
    except Forbidden as error:
        # A right to the owner of an object is none to its kind.
        if "blockOwnerDeletion" in str(error) or not kind.optional:
            raise
        raise Forbidden(not_permitted(kind)) from error


def not_permitted(kind: Kind) -> str:
    """Return what to do where the operator has no right to an optional kind."""
    role, name = optional_role(kind), f"{kind.plural}.{kind.group}"
    manifest = f"deploy/optional-roles/{role.removeprefix(f'{MANAGED_BY}-')}.yaml"
    return f"the operator has no right to {name}; bind it to the role {role} ({manifest})"


class NotAdmitted(SpecError):
    """Content that admission refused: a plugin, a quota or a webhook, which may change its answer without an event."""


class ResourceExpired(Transient):
    """The version to continue from is no longer kept (410)."""


class WatchSilent(Transient):
    """A watch that brought nothing, not even a bookmark, for longer than a server is silent that knows its version."""


class TooLarge(Transient):
    """A page of a list holds more than this process keeps at once; fewer objects may not."""


class Missing(Transient):
    """The object, its namespace or its whole kind does not exist (404)."""


def retry_after(text: str, now: datetime) -> float:
    """Return the seconds that a server says to wait, in seconds or as a date (RFC 9110, 10.2.3); 1 for neither."""
    try:
        return max(0.0, (parsedate_to_datetime(text).replace(tzinfo=UTC) - now).total_seconds())
    except ValueError:
        pass
    try:
        seconds = float(text)
    except ValueError:
        return 1.0
    return max(0.0, seconds) if math.isfinite(seconds) else 1.0


def error_of(code: int, content: bytes, request: str) -> Exception:
    """Return the error of an answer: SpecError where the server refused the content, a Transient otherwise."""
    try:
        status = cast("Object", msgspec.json.decode(cut_deep(content)))
    except msgspec.DecodeError:
        status = {}
    message = status.get("message") or quote(content.decode(errors="replace"), 200)
    details = status.get("details") or {}
    if code in (400, 422) and "resourceVersion" not in message:
        return _refusal(details, message)
    if code == 500 and (match := _NOT_IN_SCHEMA.search(message)):
        return SpecError(f"{match['kind']}/{match['name']} {match['field']}", one_line(match["text"]))
    if code == 403 and "is being terminated" in message:
        return Transient(message)
    if code == 403 and _NOT_ALLOWED.search(message):
        return Forbidden(f"the operator lacks a permission: {message}")
    if code == 403:
        return NotAdmitted(_object_name(details), message.partition(" is forbidden: ")[2] or message)
    kind = {404: Missing, 409: Conflict, 410: ResourceExpired}.get(code, Transient)
    return kind(f"{request}: {code} {message}")


def _refusal(details: Mapping[str, Any], message: str) -> SpecError:
    """Return the error for content that the API server refused, as `Kind/name field: message`."""
    causes, name = details.get("causes") or [], _object_name(details)
    if not causes:
        return SpecError(name, message)
    fields = "; ".join(f"{cause.get('field', '')}: {cause.get('message', '')}" for cause in causes[:3])
    field, _, rest = fields.partition(": ")
    return SpecError(f"{name} {field}".strip(), rest)


def _object_name(details: Mapping[str, Any]) -> str:
    return f"{details.get('kind', 'object')}/{details.get('name', '')}".rstrip("/")
