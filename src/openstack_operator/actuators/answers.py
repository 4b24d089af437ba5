"""What servers answer, checked before it is used: an address may lead to something else, or to somebody else."""

from __future__ import annotations

from typing import TypeVar

import httpx2
import msgspec

from ..kube import quote
from ..plan import Transient

ShapeT = TypeVar("ShapeT")


def read(server: str, response: httpx2.Response, shape: type[ShapeT]) -> ShapeT:
    """The JSON of an answer, by its shape; fields that the shape does not name are left out. Raises Transient for what
    is no JSON, or of another shape. Values are not quoted: they may be secrets.
    """
    try:
        return msgspec.json.decode(response.content, type=shape)
    except msgspec.ValidationError as error:
        why = str(error)
    except (ValueError, RecursionError):
        why = "it is no JSON"
    raise _strange(server, response, why)


def member(server: str, response: httpx2.Response, name: str, shape: type[ShapeT]) -> ShapeT:
    """As `read`, of what stands under a name in an object: `users`."""
    values = read(server, response, dict[str, msgspec.Raw])
    if name not in values:
        raise _strange(server, response, f"there is no {name!r}")
    try:
        return msgspec.json.decode(values[name], type=shape)
    except msgspec.ValidationError as error:
        why = f"{name}: {error}"
    except (ValueError, RecursionError):
        why = "it is no JSON"
    raise _strange(server, response, why)


def _strange(server: str, response: httpx2.Response, why: str) -> Transient:
    return strange(server, f"{response.request.method} {response.request.url.path}: {why}")


def strange(server: str, why: str) -> Transient:
    """The error for an answer that this server never gives."""
    return Transient(f"the address of {server} does not answer as {server} does ({quote(why, 300)}); check the address")


def called(name: str, longest: int = 100) -> str:
    """A name that a server says, short enough for a condition."""
    return quote(name[: 4 * longest], longest)
