"""Sessions of users in Memcached, which can neither be read nor made without the dashboard's secret key.

A session holds the token of a user, in an object of Horizon's own, so that Horizon stores sessions as pickles: a
program that writes to the cache could run code in the dashboard, and one that reads it could act as the users. Here a
session is encrypted, if the image has the library for it, and signed in any case. It may contain data, tokens and
times; an object of any other class is stored as its text, and never loaded.

It is bound to its key: a copy under another key is no session. The name of an entry in Memcached is a digest of the
key, since the key is the user's cookie, and names of entries are less secret than their content.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import logging
import pickle
from collections.abc import Iterator
from typing import Any

from django.conf import settings  # pyright: ignore[reportMissingImports]
from django.contrib.sessions.backends import cache as sessions  # pyright: ignore[reportMissingImports]
from django.utils.functional import Promise  # pyright: ignore[reportMissingImports]

try:
    from cryptography.fernet import Fernet, InvalidToken
except ImportError:
    Fernet, InvalidToken = None, ValueError

LOG = logging.getLogger(__name__)

CLASSES = frozenset(
    {
        ("openstack_auth.user", "Token"),
        # With domains, the token for a domain is kept as keystoneauth has it.
        ("keystoneauth1.access.access", "AccessInfoV3"),
        ("keystoneauth1.access.service_catalog", "ServiceCatalogV3"),
        ("keystoneauth1.access.service_providers", "ServiceProviders"),
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "timedelta"),
        ("datetime", "timezone"),
        ("builtins", "set"),
        ("builtins", "frozenset"),
        ("builtins", "str"),
    }
)
"""Classes that a session may contain besides plain data, each after the name of its module."""


class TextOnly:
    """Values of the cache as text or JSON: what another program has written as a pickle is not loaded."""

    def serialize(self, _key: str, value: Any) -> tuple[bytes, int]:
        """Return the bytes of a value, and their kind."""
        return (value.encode(), 16) if isinstance(value, str) else (json.dumps(value).encode(), 64)

    def deserialize(self, _key: str, value: bytes, flags: int) -> Any:
        """Return the value; None, as if it were not there, for one of another program."""
        try:
            return value.decode() if flags == 16 else json.loads(value) if flags == 64 else None
        except ValueError:
            return None


class _Writer(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        """Replace an object that no session may contain by its text."""
        kind = obj if isinstance(obj, type) else type(obj)
        if (kind.__module__, kind.__qualname__) in CLASSES:
            return NotImplemented
        if isinstance(obj, Promise):
            # Text that waits for the language of a page.
            return str, (str(obj),)
        LOG.warning("A session contains a %s.%s, which is stored as its text", kind.__module__, kind.__qualname__)
        return str, (str(obj),)


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return a class that sessions may contain."""
        if (module, name) not in CLASSES:
            raise pickle.UnpicklingError(f"a session contains no {module}.{name}")
        return super().find_class(module, name)


def _keys() -> Iterator[bytes]:
    """Return a key for sessions from each secret key, the one in use first."""
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        yield hashlib.sha256(b"sessions " + key.encode()).digest()


def seal(session_key: str, data: dict[str, Any]) -> str:
    """Return a session as it is stored."""
    buffer = io.BytesIO()
    _Writer(buffer, protocol=4).dump((session_key, data))
    key = next(_keys())
    if Fernet is not None:
        return Fernet(base64.urlsafe_b64encode(key)).encrypt(buffer.getvalue()).decode()
    signature = hmac.new(key, buffer.getvalue(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(signature + buffer.getvalue()).decode()


def unseal(session_key: str, stored: str) -> dict[str, Any] | None:
    """Return a session; None if it was not stored by a dashboard with a secret key of this one, under this key."""
    for key in _keys():
        content = _decrypt(key, stored)
        if content is None:
            continue
        try:
            owner, data = _Reader(io.BytesIO(content)).load()
        except (pickle.UnpicklingError, AttributeError, EOFError, ImportError, LookupError, TypeError, ValueError):
            # Also a class of an earlier image.
            return None
        return data if owner == session_key else None
    return None


def _decrypt(key: bytes, stored: str) -> bytes | None:
    if Fernet is not None:
        try:
            return Fernet(base64.urlsafe_b64encode(key)).decrypt(stored.encode())
        except InvalidToken:
            return None
    try:
        content = base64.urlsafe_b64decode(stored.encode())
    except ValueError:
        return None
    signature = hmac.new(key, content[32:], hashlib.sha256).digest()
    return content[32:] if hmac.compare_digest(signature, content[:32]) else None


class SessionStore(sessions.SessionStore):  # pyright: ignore[reportUntypedBaseClass]
    """Django's sessions in a cache, sealed."""

    @property
    def cache_key(self) -> str:
        """Name of the entry of this session."""
        return self._entry(self._get_or_create_session_key())

    def _entry(self, session_key: str) -> str:
        return self.cache_key_prefix + hashlib.sha256(b"session " + session_key.encode()).hexdigest()

    def exists(self, session_key: str) -> bool:
        """Return True if there is a session with this key."""
        return bool(session_key) and self._entry(session_key) in self._cache

    def delete(self, session_key: str | None = None) -> None:
        """Delete the session with this key, or this one."""
        if key := session_key or self.session_key:
            self._cache.delete(self._entry(key))

    def load(self) -> dict[str, Any]:
        """Return the session; a new and empty one if there is none, or it cannot be opened."""
        stored = self._cache.get(self.cache_key) if self.session_key else None
        data = unseal(self.session_key, stored) if isinstance(stored, str) else None
        if data is not None:
            return data
        self._session_key = None
        return {}

    def create(self) -> None:
        """Make a session with a new key. Raises RuntimeError if the cache takes none."""
        for _ in range(100):
            self._session_key = self._get_new_session_key()
            try:
                self.save(must_create=True)
            except sessions.CreateError:
                continue
            self.modified = True
            return
        raise RuntimeError("Memcached stores no session: it cannot be reached, or is full")

    def save(self, must_create: bool = False) -> None:  # noqa: FBT001, FBT002  (as Django calls it)
        """Store the session. Raises CreateError or UpdateError, as Django's does."""
        if self.session_key is None:
            self.create()
            return
        store = self._cache.add if must_create else self._cache.set
        if not must_create and self._cache.get(self.cache_key) is None:
            raise sessions.UpdateError
        data = self._get_session(no_load=must_create)
        if not store(self.cache_key, seal(self.session_key, data), self.get_expiry_age()) and must_create:
            raise sessions.CreateError
