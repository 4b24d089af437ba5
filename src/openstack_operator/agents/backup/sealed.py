"""Objects that are encrypted and bound to their place: AES-256-GCM of the libcrypto that Python itself uses."""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import hmac
import os
from functools import cache
from typing import Any

from .run import RunError

_MAGIC = b"OSARCHIVE1\n"
"""First bytes of each object, with the number of its format."""
_SALT, _TAG = 32, 16
_NONCE = bytes(12)
"""Each object has a key of its own, with which nothing else is encrypted."""
_SET_TAG, _GET_TAG = 0x11, 0x10
"""EVP_CTRL_AEAD_SET_TAG and EVP_CTRL_AEAD_GET_TAG."""
_CHUNK = 1 << 30
"""Bytes in one call of libcrypto, which takes an int."""


class UnsealError(Exception):
    """An object was changed, is not where it was stored, or was encrypted with another key."""


def derive(secret: bytes, purpose: str) -> bytes:
    """Return a key of 32 bytes for one purpose (HKDF-Expand of RFC 5869, one block)."""
    return hmac.digest(secret, purpose.encode() + b"\x01", hashlib.sha256)


def seal(key: bytes, place: str, content: bytes) -> bytes:
    """Return content encrypted with a key of 32 bytes, which `unseal` returns for the same key and place alone."""
    salt = os.urandom(_SALT)
    encrypted, tag = _gcm(derive(key + salt, "object"), place, content, None)
    return b"".join((_MAGIC, salt, encrypted, tag))


def unseal(key: bytes, place: str, data: bytes) -> bytes:
    """Return the content that was sealed. Raise UnsealError if a byte of it, its place or the key is another one."""
    begin = len(_MAGIC) + _SALT
    if len(data) < begin + _TAG or not data.startswith(_MAGIC):
        raise UnsealError
    salt = data[len(_MAGIC) : begin]
    return _gcm(derive(key + salt, "object"), place, data[begin:-_TAG], data[-_TAG:])[0]


@cache
def _crypto() -> Any:
    try:
        library = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
    except OSError:
        raise RunError("the image has no libcrypto; use an image of MariaDB that has OpenSSL") from None
    pointer = ctypes.c_void_p
    for name in ("EVP_CIPHER_CTX_new", "EVP_aes_256_gcm"):
        getattr(library, name).restype = pointer
    library.EVP_CIPHER_CTX_free.argtypes = [pointer]
    library.EVP_CIPHER_CTX_free.restype = None
    library.EVP_CIPHER_CTX_ctrl.argtypes = [pointer, ctypes.c_int, ctypes.c_int, pointer]
    for mode in ("Encrypt", "Decrypt"):
        getattr(library, f"EVP_{mode}Init_ex").argtypes = [pointer, pointer, pointer, ctypes.c_char_p, ctypes.c_char_p]
        update = getattr(library, f"EVP_{mode}Update")
        update.argtypes = [pointer, pointer, ctypes.POINTER(ctypes.c_int), pointer, ctypes.c_int]
        getattr(library, f"EVP_{mode}Final_ex").argtypes = [pointer, pointer, ctypes.POINTER(ctypes.c_int)]
    return library


def _gcm(key: bytes, place: str, data: bytes, tag: bytes | None) -> tuple[bytes, bytes]:
    """Encrypt, or decrypt what has a tag; return the result and its tag. Raise UnsealError for another tag."""
    crypto, mode = _crypto(), "Encrypt" if tag is None else "Decrypt"
    context = crypto.EVP_CIPHER_CTX_new()
    if not context:
        raise MemoryError
    written, done = ctypes.c_int(), 0
    result, source = ctypes.create_string_buffer(len(data) + 1), ctypes.create_string_buffer(data, len(data) + 1)
    label = ctypes.create_string_buffer(place.encode())

    def call(name: str, *words: Any) -> bool:
        return bool(getattr(crypto, f"EVP_{name}")(context, *words) == 1)

    def update(target: Any, begin: Any, size: int) -> bool:
        return call(f"{mode}Update", target, ctypes.byref(written), begin, size)

    try:
        is_done = call(f"{mode}Init_ex", crypto.EVP_aes_256_gcm(), None, key, _NONCE)
        is_done = is_done and update(None, label, len(place.encode()))
        while is_done and done < len(data):
            size = min(_CHUNK, len(data) - done)
            is_done = update(ctypes.byref(result, done), ctypes.byref(source, done), size)
            done += size
        # The last call compares the tag: what was decrypted before counts for nothing without it.
        end_tag = ctypes.create_string_buffer(tag or b"", _TAG)
        is_done = is_done and (tag is None or call("CIPHER_CTX_ctrl", _SET_TAG, _TAG, end_tag))
        is_done = is_done and call(f"{mode}Final_ex", ctypes.byref(result, done), ctypes.byref(written))
        is_done = is_done and (tag is not None or call("CIPHER_CTX_ctrl", _GET_TAG, _TAG, end_tag))
    finally:
        crypto.EVP_CIPHER_CTX_free(context)
    if not is_done:
        raise UnsealError
    return result.raw[: len(data)], end_tag.raw
