"""Bodies of requests to the API server."""

from __future__ import annotations

import re
from typing import Any

import msgspec

APPLY = "application/apply-patch+yaml"
"""Content type of server-side apply. The API server reads its JSON as YAML."""
# Characters that may stand in JSON as they are: YAML refuses some, and takes others for the end of a line.
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def encoded(body: Any, content_type: str) -> bytes:
    """Return a body as JSON of which the API server reads every character, with that content type."""
    content = msgspec.json.encode(body)
    if content_type != APPLY or (content.isascii() and b"\x7f" not in content):
        return content
    return _NOT_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", content.decode()).encode()
