"""Names that fit: the same for the same words, different for different ones, however long."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

NAME_LIMIT = 63
"""DNS labels, label values and pod hostnames stop here (RFC 1035)."""
STATEFUL_SET_LIMIT = NAME_LIMIT - 11
"""A StatefulSet labels its pods with its name, a dash and ten characters (controller-revision-hash)."""


def digest(value: Any) -> str:
    """Return eight hexadecimal characters that depend on any JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def keyed_digest(key: str, value: Any) -> str:
    """Return sixteen hexadecimal characters that depend on any JSON value, and hide it without the key."""
    return hmac.new(key.encode(), json.dumps(value, sort_keys=True).encode(), hashlib.sha256).hexdigest()[:16]


def url_host(host: str) -> str:
    """Return the host as it is written before a port and in URLs: an IPv6 address in brackets, any other as it is."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def split_port(server: str) -> tuple[str, str]:
    """Return the host, without brackets, and the port of `host:port`; an empty port if it has none."""
    if server.startswith("["):
        host, _, rest = server[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = server.partition(":")
    return host, port


def fitting(name: str, limit: int = NAME_LIMIT) -> str:
    """Return the name itself, or its beginning and a digest of the whole where it exceeds the limit."""
    return name if len(name) <= limit else f"{name[: limit - 9].rstrip('-.')}-{digest(name)}"
