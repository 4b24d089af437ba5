"""The key-encryption keys of simple_crypto: one replaces another in steps that never leave a secret unreadable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class KeyRing:
    """Keys by generation, in one Secret, so that a step is done completely or not at all."""

    keys: Mapping[int, str]
    active: int
    """Generation with which programs encrypt; they can decrypt with every key."""

    @property
    def newest(self) -> int:
        """Last generation that was made."""
        return max(self.keys)

    @property
    def is_waiting_for_readers(self) -> bool:
        """True while a new key may not be used yet, since some programs may not have it."""
        return self.newest > self.active

    @property
    def needs_rewrap(self) -> bool:
        """True while keys of projects may be encrypted with an old key."""
        return not self.is_waiting_for_readers and len(self.keys) > 1

    @property
    def options(self) -> list[str]:
        """Values of `kek`: simple_crypto encrypts with the first, and decrypts with all."""
        decrypting = sorted((generation for generation in self.keys if generation != self.active), reverse=True)
        return [self.keys[generation] for generation in (self.active, *decrypting)]

    @property
    def data(self) -> dict[str, str]:
        """Content of the Secret."""
        return {**{f"kek.{generation}": key for generation, key in self.keys.items()}, "active": str(self.active)}


def read(data: Mapping[str, str]) -> KeyRing | None:
    """Return the keys in the content of a Secret; None if it has none."""
    keys = {
        int(name.removeprefix("kek.")): key
        for name, key in data.items()
        if name.startswith("kek.") and name.removeprefix("kek.").isdecimal() and key
    }
    if not keys:
        return None
    active = int(data["active"]) if data.get("active", "").isdecimal() else 0
    # Keys that a user brought from another cluster have no such note: the newest one encrypts.
    return KeyRing(keys, active if active in keys else max(keys))


def recovered(conf: str, generation: int) -> KeyRing | None:
    """Return the keys from a configuration, the last copy of them if their Secret is gone; None if it has none. It has
    no generations: the first key counts as `generation`, and others as older ones, which a rewrap makes needless.
    """
    lines = [line.partition("=") for line in conf.splitlines()]
    keys = [value.strip() for name, _, value in lines if name.strip() == "kek" and value.strip()]
    newest = max(generation, len(keys))
    return KeyRing({newest - age: key for age, key in enumerate(keys)}, newest) if keys else None


def next_ring(
    ring: KeyRing | None, desired: int, new_key: Callable[[], str], *, all_read_it: bool, is_rewrapped: bool
) -> KeyRing:
    """Return the keys one step further towards the desired generation. `all_read_it` is True if every program that runs
    has exactly these keys, `is_rewrapped` if the job has encrypted the keys of all projects with the active one.
    """
    if ring is None:
        return KeyRing({desired: new_key()}, desired)
    if ring.is_waiting_for_readers:
        return replace(ring, active=ring.newest) if all_read_it else ring
    if ring.needs_rewrap:
        is_old_key_unused = all_read_it and is_rewrapped
        return replace(ring, keys={ring.active: ring.keys[ring.active]}) if is_old_key_unused else ring
    if desired > ring.newest:
        return replace(ring, keys={**ring.keys, desired: new_key()})
    return ring
