"""Keys of which one replaces another in steps, so that nothing made with either is ever unreadable: first all programs
can read with the new key, then they write with it, then the old one is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True)
class KeyRing:
    """Keys by generation, in one Secret, so that a step is done completely or not at all."""

    keys: Mapping[int, str]
    active: int
    """Generation with which programs write; they read with every key."""
    until: str = ""
    """Time from which on nothing that an old key made is valid any more, RFC 3339; empty if it is not known."""

    @property
    def newest(self) -> int:
        """Last generation that was made."""
        return max(self.keys)

    @property
    def is_waiting_for_readers(self) -> bool:
        """True while a new key may not be used yet, since some programs may not have it."""
        return self.newest > self.active

    @property
    def has_old_keys(self) -> bool:
        """True while programs write with the newest key, and others may still be needed."""
        return len(self.keys) > 1 and not self.is_waiting_for_readers

    @property
    def in_order(self) -> Sequence[str]:
        """The active key, then the others, the newest first."""
        inactive = sorted((generation for generation in self.keys if generation != self.active), reverse=True)
        return [self.keys[generation] for generation in (self.active, *inactive)]

    @property
    def ends(self) -> datetime | None:
        """`until` as a time; None without an old key."""
        return datetime.fromisoformat(self.until) if self.has_old_keys and self.until else None

    def data(self, name: str) -> dict[str, str]:
        """Return the content of the Secret; the keys in it are called `name` with the generation behind a dot."""
        times = {"until": self.until} if self.until else {}
        return {**{f"{name}.{number}": key for number, key in self.keys.items()}, "active": str(self.active), **times}

    def without_old_keys(self) -> KeyRing:
        """Return the active key alone."""
        return KeyRing({self.active: self.keys[self.active]}, self.active)


def read_ring(data: Mapping[str, str], name: str) -> KeyRing | None:
    """Return the keys of that name in the content of a Secret; None if it has none."""
    pairs = [(entry.partition(".")[2], key) for entry, key in data.items() if entry.startswith(f"{name}.") and key]
    keys = {int(number): key for number, key in pairs if number.isdecimal()}
    if not keys:
        return None
    active = int(data["active"]) if data.get("active", "").isdecimal() else 0
    # Keys that a user brought from another cluster have no such note: programs write with the newest one.
    return KeyRing(keys, active if active in keys else max(keys), _time(data.get("until", "")))


def _time(text: str) -> str:
    try:
        return text if datetime.fromisoformat(text).tzinfo else ""
    except ValueError:
        return ""


def next_ring(
    ring: KeyRing | None,
    desired: int,
    new_key: Callable[[], str],
    *,
    all_read_it: bool,
    retire: Callable[[KeyRing], KeyRing],
) -> KeyRing:
    """Return the keys one step further towards the desired generation. `all_read_it` is True if every program that runs
    has exactly these keys; then `retire` gets keys of which old ones may be needless, and returns what stays.
    """
    if ring is None:
        return KeyRing({desired: new_key()}, desired)
    if ring.is_waiting_for_readers:
        return replace(ring, active=ring.newest, until="") if all_read_it else ring
    if ring.has_old_keys:
        return retire(ring) if all_read_it else ring
    if desired > ring.newest:
        return replace(ring, keys={**ring.keys, desired: new_key()})
    return ring
