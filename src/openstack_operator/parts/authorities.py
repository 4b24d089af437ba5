"""Which authority signs and which are trusted: one takes the place of another in steps that each wait for proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from .. import kube, pki
from ..plan import READY, Context, State, Step, Verdict


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
    """Since then it is so."""

    @property
    def trusted(self) -> list[str]:
        """Certificates to trust, oldest first."""
        return [self.going, self.signs.cert, *([self.coming.cert] if self.coming else [])]

    @property
    def files(self) -> dict[str, str]:
        """Content of the Secret that keeps them."""
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
    """The authorities that a Secret keeps; None where there is none that can sign."""
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
    pair = pki.Pair(files.get(f"{name}.key", ""), files.get(f"{name}.crt", ""))
    return None if pki.unreadable(pair) else pair


def advance(
    held: Authorities,
    *,
    wanted: int,
    now: datetime,
    overlap: timedelta,
    waits: Sequence[str],
    make: Callable[[], pki.Pair],
) -> Authorities:
    """The authorities that come next, at most one step further; one of them signs. `waits` names those for whom the
    present step has to wait, `make` draws an authority. Where the one that signs has ended there is nothing left to
    wait for: nobody trusts it any more.
    """
    if now >= held.signs.ends:
        if held.coming and now < held.coming.ends:
            return replace(held, signs=held.coming, coming=None, going=held.signs.cert, since=now)
        return Authorities(signs=make(), generation=max(wanted, held.generation), since=now)
    if held.coming:
        ready = now >= patience(held, overlap) and not waits
        return replace(held, signs=held.coming, coming=None, going=held.signs.cert, since=now) if ready else held
    if held.going:
        return held if waits else replace(held, going="", since=now)
    if wanted > held.generation or now >= held.signs.due:
        return replace(held, coming=make(), generation=max(wanted, held.generation), since=now)
    return held


def patience(held: Authorities, overlap: timedelta) -> datetime:
    """Until when the one that is coming is only trusted: as long as is wanted, but there must be time left to replace
    what the other one has signed.
    """
    return held.since + max(timedelta(0), min(overlap, (held.signs.ends - held.since) / 2))


FOLLOWED = timedelta(minutes=5)
"""Within which pods that are ready have read what changed in a Secret they mount: kubelets take up to two minutes."""
_OVERLAP = timedelta(days=1)
"""For how long a service's own new authority is only trusted, at least."""
_MARGIN = timedelta(days=30)
"""Time before its end at which an authority is taken away: libvirt and QEMU start with none that has ended."""


@dataclass(frozen=True, kw_only=True)
class OwnAuthority:
    """An authority of a service's own, and whom its users have to trust."""

    signs: pki.Pair
    bundle: str
    """In PEM."""
    step: Step
    """Writes it down; before that nobody may have a certificate by it."""
    replacement: Step
    """Progress of a replacement: no fault of the service, which works all the while."""


def own_authority(ctx: Context[Any], purpose: str, uses: str, *, waits: Verdict = READY) -> OwnAuthority:
    """Secret `<owner>-<purpose>-ca`, for whose users files that follow a Secret are enough: nothing restarts.

    It is replaced at two thirds of its life, once all trust the next one: `waits` says whether all are there to read.
    The one before is trusted until shortly before its end, since nobody has its key any more. `uses` names what fails
    without it.
    """
    name = ctx.name(f"{purpose}-ca")
    known = ctx.children.get(("Secret", kube.fitting(name))) or ctx.lost.get(kube.fitting(name))
    data, now, owner = kube.secret_data(known), ctx.now, f"{ctx.namespace}/{ctx.owner} {purpose}"
    # Versions before knew one authority and no state.
    files = {"tls.crt": data.get("cert", ""), "tls.key": data.get("key", ""), **data}

    def make() -> pki.Pair:
        # By names of their own, no program takes one for another.
        return pki.authority(ctx.draw(), f"{now:%Y-%m-%dT%H:%MZ} {owner}" if known else owner, now)

    held = read(files, now) or Authorities(signs=make(), since=now)
    holds: list[str] = []
    if held.coming and not waits.ready and now < held.signs.ends - _MARGIN:
        holds = [waits.message]
    elif held.going and now < _until(held):
        holds = ["its end"]
    after = advance(held, wanted=1, now=now, overlap=_OVERLAP, waits=holds, make=make)
    if now >= held.signs.ends:
        # So that it can be told, as long as something fails for it.
        after = replace(after, going=held.signs.cert)
    secret = kube.irreplaceable(kube.secret(ctx, name, after.files))
    bundle = pki.bundle(after.trusted, now)
    wake = min(at for at in _moments(after) if at > now)
    title = f"{purpose.capitalize()}Authority"
    return OwnAuthority(
        signs=after.signs,
        bundle=bundle,
        step=Step(name=title, objects=(secret,), guarded=True, barrier=True, wake=wake),
        replacement=Step(name=title, verdict=_progress(after, uses, waits, now)),
    )


def _moments(held: Authorities) -> list[datetime]:
    """Moments at which time alone changes what is to be done."""
    coming = [patience(held, _OVERLAP), held.signs.ends - _MARGIN] if held.coming else [held.signs.due]
    return [*coming, *([_until(held)] if held.going else []), held.signs.ends]


def _until(held: Authorities) -> datetime:
    """Until when one that signs nothing any more is kept; one that had ended, so long as something fails for it."""
    return max(held.since + FOLLOWED, *(pki.ends(cert) - _MARGIN for cert in pki.each(held.going)))


def _progress(held: Authorities, uses: str, waits: Verdict, now: datetime) -> Verdict:
    if held.going and not pki.bundle([held.going], now) and now < held.since + FOLLOWED:
        ended = max(pki.ends(cert) for cert in pki.each(held.going))
        cause = f"the authority of {uses} ended at {ended:%Y-%m-%d %H:%M} UTC, before another could replace it"
        return Verdict(State.PROGRESSING, f"{cause}; {uses} fail until all nodes have read the new one, in 5 minutes")
    if held.coming:
        rest = "" if waits.ready else f"; waits for {waits.message}"
        text = f"nodes are given a new authority of {uses} before certificates are by it{rest}"
        return Verdict(State.READY, text, "Trusting")
    return Verdict(State.READY, f"the authority of {uses} is replaced from {held.signs.due:%Y-%m-%d} on")
