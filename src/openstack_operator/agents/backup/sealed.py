"""Objects that are encrypted and bound to their place, by AES-256-GCM."""

from __future__ import annotations

import hashlib
import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MAGIC = b"OSARCHIVE1\n"
"""First bytes of each object, with the number of its format."""
_SALT, _TAG = 32, 16
_NONCE = bytes(12)
"""Each object has a key of its own, with which nothing else is encrypted."""


class UnsealError(Exception):
    """An object was changed, is not where it was stored, or was encrypted with another key."""


def derive(secret: bytes, purpose: str) -> bytes:
    """Return a key of 32 bytes for one purpose (HKDF-Expand of RFC 5869, one block)."""
    return hmac.digest(secret, purpose.encode() + b"\x01", hashlib.sha256)


def seal(key: bytes, place: str, content: bytes) -> bytes:
    """Return content encrypted with a key of 32 bytes, which `unseal` returns for the same key and place alone."""
    salt = os.urandom(_SALT)
    encrypted = AESGCM(derive(key + salt, "object")).encrypt(_NONCE, content, place.encode())
    return b"".join((_MAGIC, salt, encrypted))


def unseal(key: bytes, place: str, data: bytes) -> bytes:
    """Return the content that was sealed. Raise UnsealError if a byte of it, its place or the key is another one."""
    begin = len(_MAGIC) + _SALT
    if len(data) < begin + _TAG or not data.startswith(_MAGIC):
        raise UnsealError
    salt = data[len(_MAGIC) : begin]
    try:
        return AESGCM(derive(key + salt, "object")).decrypt(_NONCE, data[begin:], place.encode())
    except InvalidTag:
        raise UnsealError from None
