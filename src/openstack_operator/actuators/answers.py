"""Checks of servers' answers before their use: an address may lead to another program, or to another owner's server."""

from __future__ import annotations

from typing import TypeVar

import httpx2
import msgspec

from ..plan import Transient

ShapeT = TypeVar("ShapeT")


def read(server: str, response: httpx2.Response, shape: type[ShapeT]) -> ShapeT:
    """Return the JSON of an answer, by its shape; fields that the shape does not name are left out. Raises Transient
    for what is no JSON, or of another shape. Values are not quoted: they may be secrets, or of a server that only the
    operator reaches.
    """
    try:
        return msgspec.json.decode(response.content, type=shape)
    except msgspec.ValidationError as error:
        why = fault(error)
    except (ValueError, RecursionError):
        why = "it is not JSON"
    raise _strange(server, response, why)


def member(server: str, response: httpx2.Response, name: str, shape: type[ShapeT]) -> ShapeT:
    """Return what an object has under a name, as `users`. Raises as `read` does."""
    values = read(server, response, dict[str, msgspec.Raw])
    if name not in values:
        raise _strange(server, response, f"it has no {name!r}")
    try:
        return msgspec.json.decode(values[name], type=shape)
    except msgspec.ValidationError as error:
        why = f"{name}: {fault(error)}"
    except (ValueError, RecursionError):
        why = "it is not JSON"
    raise _strange(server, response, why)


def _strange(server: str, response: httpx2.Response, why: str) -> Transient:
    return strange(server, f"{response.extensions['call']}: {why}")


def strange(server: str, why: str) -> Transient:
    """Return the error for an answer that this server never gives."""
    return Transient(f"the address of {server} does not answer like {server} ({why}); check the address")


def fault(error: msgspec.ValidationError) -> str:
    """Describe what is wrong with the shape of an answer, without its values."""
    # The only message of msgspec's with a value in it.
    return "a value is not one of those allowed" if str(error).startswith("Invalid enum value") else str(error)
