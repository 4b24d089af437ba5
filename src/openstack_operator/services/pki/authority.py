"""Which authority signs and which are trusted: one takes the place of another in steps that each wait for proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ... import pki


@dataclass(frozen=True, kw_only=True)
class Authorities:
    """All that is known of them, as one Secret holds it, so that a step is done whole or not at all."""

    signs: pki.Pair
    coming: pki.Pair | None = None
    """Trusted beside the one that signs, and signs nothing yet."""
    going: str = ""
    """Certificates of those that are trusted still, and sign nothing any more: nobody has their keys."""
    generation: int = 1
    """The last one that was asked for."""
    since: datetime
    """When it became so."""

    @property
    def trusted(self) -> list[str]:
        """Who is to be trusted, oldest first."""
        return [self.going, self.signs.cert, *([self.coming.cert] if self.coming else [])]

    @property
    def files(self) -> dict[str, str]:
        """What its Secret holds."""
        coming = {"next.crt": self.coming.cert, "next.key": self.coming.key} if self.coming else {}
        return {
            "tls.crt": self.signs.cert,
            "tls.key": self.signs.key,
            **coming,
            **({"previous.crt": self.going} if self.going else {}),
            "generation": str(self.generation),
            "since": self.since.isoformat(),
        }


def read(files: Mapping[str, str], now: datetime) -> Authorities | None:
    """What a Secret holds; None where there is none that can sign."""
    signs, coming = _pair(files, "tls"), _pair(files, "next")
    if signs is None:
        return None
    try:
        since = datetime.fromisoformat(files.get("since", ""))
    except ValueError:
        since = None
    generation = files.get("generation", "")
    return Authorities(
        signs=signs,
        coming=coming,
        going="".join(sorted(pki.each(files.get("previous.crt", "")))),
        # One that an earlier version of the operator made does not say.
        generation=int(generation) if generation.isdecimal() else 1,
        # A wait that nobody knows the beginning of begins anew.
        since=since if since and since.tzinfo and since <= now else now,
    )


def _pair(files: Mapping[str, str], name: str) -> pki.Pair | None:
    found = pki.Pair(files.get(f"{name}.key", ""), files.get(f"{name}.crt", ""))
    return None if pki.unreadable(found) else found


def turned(
    held: Authorities,
    *,
    wanted: int,
    now: datetime,
    overlap: timedelta,
    waits: Sequence[str],
    make: Callable[[], pki.Pair],
) -> Authorities:
    """What comes next, at most one step further. `waits` says for whom the present step has to wait, `make` draws an
    authority. Where the one that signs has ended there is nothing left to wait for: nobody trusts it any more.
    """
    if held.coming:
        ready = now >= patience(held, overlap) and not waits
        if not ready and now < held.signs.ends:
            return held
        return replace(held, signs=held.coming, coming=None, going=held.signs.cert, since=now)
    if held.going:
        over = not waits or not pki.bundle([held.going], now)
        return replace(held, going="", since=now) if over else held
    if now >= held.signs.ends:
        return Authorities(signs=make(), generation=max(wanted, held.generation), since=now)
    if wanted > held.generation or now >= held.signs.due:
        return replace(held, coming=make(), generation=max(wanted, held.generation), since=now)
    return held


def patience(held: Authorities, overlap: timedelta) -> datetime:
    """Until when the one that is coming is only trusted: as long as is wanted, but there must be time left to replace
    what the other one has signed.
    """
    return held.since + max(timedelta(0), min(overlap, (held.signs.ends - held.since) / 2))
