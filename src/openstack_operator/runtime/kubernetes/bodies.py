"""Bodies of requests to the API server."""

from __future__ import annotations

import re
from typing import Any

import msgspec

APPLY = "application/apply-patch+yaml"
"""Content type of server-side apply. The API server reads its JSON as YAML."""
# JSON allows these without an escape. YAML refuses some of them, and reads others as the end of a line.
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def encode_body(body: Any, content_type: str) -> bytes:
    """Return a body as JSON. For server-side apply, escape the characters that YAML refuses or changes, so that the API
    server stores each as it is (YAML 1.2, 5.1 and 5.4).
    """
    content = msgspec.json.encode(body)
    if content_type != APPLY or (content.isascii() and b"\x7f" not in content):
        return content
    return _NOT_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", content.decode()).encode()
