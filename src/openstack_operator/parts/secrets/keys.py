"""Keys that services encrypt with."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable


def fernet_key(draw: Callable[[], str]) -> str:
    """Return a new fernet key: 32 random bytes, in URL-safe base64. Each of two draws has 192 bits of randomness."""
    return base64.urlsafe_b64encode(hashlib.sha256(f"{draw()} {draw()}".encode()).digest()).decode()
