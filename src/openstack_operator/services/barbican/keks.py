"""The key-encryption keys of simple_crypto, where their Secret is gone."""

from __future__ import annotations

from ...parts.secrets.key_ring import KeyRing


def recovered(conf: str, generation: int) -> KeyRing | None:
    """Return the keys from a configuration, the last copy of them if their Secret is gone; None if it has none. It has
    no generations: the first key counts as `generation`, and others as older ones, which a rewrap makes needless.
    """
    lines = [line.partition("=") for line in conf.splitlines()]
    keys = [value.strip() for name, _, value in lines if name.strip() == "kek" and value.strip()]
    newest = max(generation, len(keys))
    return KeyRing({newest - age: key for age, key in enumerate(keys)}, newest) if keys else None
