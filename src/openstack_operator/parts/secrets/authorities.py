"""Authorities that sign and that are trusted: one replaces another in steps, each of which waits for proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ... import kube, pki
from ...plan import READY, Context, State, Step, Verdict, out_of_service


@dataclass(frozen=True, kw_only=True)
class Authorities:
    """State of the authorities, in one Secret, so that a step is done completely or not at all."""

    signer: pki.Pair
    successor: pki.Pair | None = None
    """Trusted beside the signer, and signs nothing yet."""
    predecessors: str = ""
    """Certificates of authorities that are still trusted but sign nothing any more: their keys are deleted."""
    generation: int = 1
    """Last generation that was ordered."""
    phase_began: datetime
    """Time at which the present step of a replacement began, or the last replacement ended."""

    @property
    def trusted(self) -> list[str]:
        """Certificates to trust, oldest first."""
        return [self.predecessors, self.signer.cert, *([self.successor.cert] if self.successor else [])]

    @property
    def files(self) -> dict[str, str]:
        """Content of the Secret that keeps them."""
        successor = {"next.crt": self.successor.cert, "next.key": self.successor.key} if self.successor else {}
        return {
            "tls.crt": self.signer.cert,
            "tls.key": self.signer.key,
            **successor,
            **({"previous.crt": self.predecessors} if self.predecessors else {}),
            "generation": str(self.generation),
            "since": self.phase_began.isoformat(),
        }


def read(files: Mapping[str, str], now: datetime) -> Authorities | None:
    """Return the authorities that a Secret keeps; None if none of them can sign."""
    signer, successor = _pair(files, "tls"), _pair(files, "next")
    if signer is None:
        return None
    try:
        phase_began = datetime.fromisoformat(files.get("since", ""))
    except ValueError:
        phase_began = None
    generation = files.get("generation", "")
    return Authorities(
        signer=signer,
        successor=successor,
        predecessors="".join(sorted(pki.split(files.get("previous.crt", "")))),
        # A Secret of an earlier version of the operator has no generation.
        generation=int(generation) if generation.isdecimal() else 1,
        # A wait without a valid beginning starts again.
        phase_began=phase_began if phase_began and phase_began.tzinfo and phase_began <= now else now,
    )


def _pair(files: Mapping[str, str], name: str) -> pki.Pair | None:
    pair = pki.Pair(files.get(f"{name}.key", ""), files.get(f"{name}.crt", ""))
    return None if pki.read_error(pair) else pair


def next_state(
    state: Authorities,
    *,
    generation: int,
    now: datetime,
    overlap: timedelta,
    blockers: Sequence[str],
    new_authority: Callable[[], pki.Pair],
) -> Authorities:
    """Return the next state, at most one step further; one authority in it signs. `generation` is what a user requests,
    `blockers` names those for whom the present step has to wait, `new_authority` draws one. If the signer has ended,
    there is nothing left to wait for: no client trusts it any more.
    """
    if now >= state.signer.ends:
        if state.successor and now < state.successor.ends:
            return _promote(state, state.successor, now)
        return Authorities(signer=new_authority(), generation=max(generation, state.generation), phase_began=now)
    if state.successor:
        ready = now >= signing_time(state, overlap) and not blockers
        return _promote(state, state.successor, now) if ready else state
    if state.predecessors:
        return state if blockers else replace(state, predecessors="", phase_began=now)
    if generation > state.generation or now >= state.signer.due:
        return replace(state, successor=new_authority(), generation=max(generation, state.generation), phase_began=now)
    return state


def _promote(state: Authorities, successor: pki.Pair, now: datetime) -> Authorities:
    return replace(state, signer=successor, successor=None, predecessors=state.signer.cert, phase_began=now)


def signing_time(state: Authorities, overlap: timedelta) -> datetime:
    """Time at which the successor begins to sign: until then it is only trusted, for `overlap`, but enough time must be
    left to replace the signer's certificates.
    """
    return state.phase_began + max(timedelta(0), min(overlap, (state.signer.ends - state.phase_began) / 2))


SECRET_PROPAGATION = timedelta(minutes=5)
"""Time within which ready pods have read a change in a Secret they mount: kubelets take up to two minutes."""
_OVERLAP = timedelta(days=1)
"""Minimum time for which a service's own new authority is only trusted."""
_MARGIN = timedelta(days=30)
"""Time before its end at which an authority is removed: libvirt and QEMU do not start with one that has ended."""


@dataclass(frozen=True, kw_only=True)
class OwnAuthority:
    """An authority of a service's own, and the bundle that its clients have to trust."""

    signer: pki.Pair
    bundle: str
    """Trusted certificates in PEM."""
    step: Step
    """Step that stores it; before that it must not sign any certificate."""
    replacement: Step
    """Progress of a replacement: no failure of the service, which keeps working."""


def own_authority(ctx: Context[Any], purpose: str, operation: str, *, readers: Verdict = READY) -> OwnAuthority:
    """Return Secret `<owner>-<purpose>-ca`. Its clients reload files when the Secret changes: nothing restarts.

    It is replaced at two thirds of its life, once all trust the next one: `readers` is ready if all of them can read
    it. The previous one is trusted until shortly before its end, since its key is deleted. `operation` names what fails
    without it.
    """
    name = ctx.name(f"{purpose}-ca")
    live = ctx.live("Secret", f"{purpose}-ca") or ctx.deleted_secrets.get(name)
    data, now, owner = kube.secret_data(live), ctx.now, f"{ctx.namespace}/{ctx.owner} {purpose}"
    # Earlier versions stored one authority and no state.
    files = {"tls.crt": data.get("cert", ""), "tls.key": data.get("key", ""), **data}

    def new_authority() -> pki.Pair:
        # Different names, so that no program confuses two of them.
        return pki.authority(ctx.draw(), f"{now:%Y-%m-%dT%H:%MZ} {owner}" if live else owner, now)

    state = read(files, now) or Authorities(signer=new_authority(), phase_began=now)
    blockers: list[str] = []
    if state.successor and not readers.ready and now < state.signer.ends - _MARGIN:
        blockers = [readers.message]
    elif state.predecessors and now < _removal_time(state):
        blockers = ["its end"]
    new_state = next_state(
        state, generation=1, now=now, overlap=_OVERLAP, blockers=blockers, new_authority=new_authority
    )
    if now >= state.signer.ends:
        # Kept so that `_progress` can report it as long as something fails because of it.
        new_state = replace(new_state, predecessors=state.signer.cert)
    secret = kube.irreplaceable(kube.secret(ctx, name, new_state.files))
    bundle = pki.bundle(new_state.trusted, now)
    wake = min(at for at in _deadlines(new_state) if at > now)
    title = f"{purpose.capitalize()}Authority"
    return OwnAuthority(
        signer=new_state.signer,
        bundle=bundle,
        step=Step(name=title, objects=(secret,), guarded=True, barrier=True, wake=wake),
        replacement=Step(name=title, verdict=_progress(new_state, operation, readers, now)),
    )


def _deadlines(state: Authorities) -> list[datetime]:
    """Return the times at which the next step changes without any other event."""
    deadlines = [signing_time(state, _OVERLAP), state.signer.ends - _MARGIN] if state.successor else [state.signer.due]
    return [*deadlines, *([_removal_time(state)] if state.predecessors else []), state.signer.ends]


def _removal_time(state: Authorities) -> datetime:
    """Time until which a predecessor is kept; one that had ended, for as long as something fails because of it."""
    ends = [pki.ends(cert) - _MARGIN for cert in pki.split(state.predecessors)]
    return max(state.phase_began + SECRET_PROPAGATION, *ends)


def _progress(state: Authorities, operation: str, readers: Verdict, now: datetime) -> Verdict:
    has_ended = state.predecessors and not pki.bundle([state.predecessors], now)
    if has_ended and now < state.phase_began + SECRET_PROPAGATION:
        ended = max(pki.ends(cert) for cert in pki.split(state.predecessors))
        cause = f"the authority of {operation} ended at {ended:%Y-%m-%d %H:%M} UTC, before another could replace it"
        effect = f"{operation} fail until all nodes have loaded the new one, in 5 minutes"
        return out_of_service(f"{cause}; {effect}")
    if state.successor:
        rest = "" if readers.ready else f"; waits for {readers.message}"
        text = f"nodes receive a new authority of {operation} before it signs certificates{rest}"
        return Verdict(State.READY, text, "Trusting")
    return Verdict(State.READY, f"the authority of {operation} is replaced from {state.signer.due:%Y-%m-%d} on")
