"""The secret keys of a dashboard: one replaces another in steps that log no user out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

_KEY = "key."


@dataclass(frozen=True)
class KeyRing:
    """Keys by generation, in one Secret, so that a step is done completely or not at all."""

    keys: Mapping[int, str]
    active: int
    """Generation with which pods write sessions; they read sessions with every key."""
    until: str = ""
    """Time at which the last session with an old key has ended, RFC 3339; empty while pods write with one, or without
    an old key."""

    @property
    def newest(self) -> int:
        """Last generation that was made."""
        return max(self.keys)

    @property
    def is_waiting_for_readers(self) -> bool:
        """True while a new key may not be used yet, since some pods may not have it."""
        return self.newest > self.active

    @property
    def fallbacks(self) -> list[str]:
        """Keys besides the active one, the newest first."""
        return [self.keys[number] for number in sorted(self.keys, reverse=True) if number != self.active]

    @property
    def data(self) -> dict[str, str]:
        """Content of the Secret."""
        times = {"until": self.until} if self.until else {}
        return {**{f"{_KEY}{number}": key for number, key in self.keys.items()}, "active": str(self.active), **times}

    @property
    def has_old_keys(self) -> bool:
        """True while sessions with another key may exist."""
        return len(self.keys) > 1 and not self.is_waiting_for_readers

    @property
    def ends(self) -> datetime | None:
        """Time at which the last session with an old key has ended; None if no old key is left, or it is not known."""
        return datetime.fromisoformat(self.until) if self.has_old_keys and self.until else None


def read(data: Mapping[str, str]) -> KeyRing | None:
    """Return the keys in the content of a Secret; None if it has none."""
    numbers = {name.removeprefix(_KEY): key for name, key in data.items() if name.startswith(_KEY) and key}
    keys = {int(number): key for number, key in numbers.items() if number.isdecimal()}
    if not keys:
        return None
    active = int(data["active"]) if data.get("active", "").isdecimal() else 0
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
    now: datetime,
    all_read_it: bool,
    lifetime: timedelta,
) -> KeyRing:
    """Return the keys one step further towards the desired generation. `all_read_it` is True if every pod that runs has
    exactly these keys; a session lives for `lifetime` at most.
    """
    if ring is None:
        return KeyRing({desired: new_key()}, desired)
    if ring.is_waiting_for_readers:
        return replace(ring, active=ring.newest, until="") if all_read_it else ring
    if ring.has_old_keys:
        return _retired(ring, now, lifetime) if all_read_it else ring
    if desired > ring.newest:
        return replace(ring, keys={**ring.keys, desired: new_key()})
    return ring


def _retired(ring: KeyRing, now: datetime, lifetime: timedelta) -> KeyRing:
    """Return the keys without the old ones, after the life of the sessions that the last pod with one has written."""
    if ring.ends is None:
        return replace(ring, until=f"{now + lifetime:%Y-%m-%dT%H:%M:%S%z}")
    return replace(ring, keys={ring.active: ring.keys[ring.active]}, until="") if now >= ring.ends else ring
