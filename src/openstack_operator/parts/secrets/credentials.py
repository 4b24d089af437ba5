"""Passwords that are drawn once: a value in the cluster wins over a new draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import wraps
from typing import Any

from ... import kube
from ...plan import Context, Object, Plan, Step
from ...plan.times import valid_time
from .one_line import one_line
from .rotation import Account, Replaced, replaced, stamp

REDRAWN_AT = "openstack.k8s.io/redrawn-at"
"""Annotation of a Secret: the time (RFC 3339) at which a password was drawn in place of one that was removed. Accounts
follow within seconds, and refuse programs that run with the removed one."""
NAMES = "openstack.k8s.io/drawn"
"""Annotation of a Secret: the names of the passwords in it, by which a removed one differs from a new one."""
_REMOVE = "remove the key, and the operator writes a new value"
_RESTORE = "restore the previous value"
_URGENT = timedelta(minutes=30)
"""Time after that in which the programs go before others, at most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Credentials(Step):
    """A Secret of generated passwords."""

    secret: str
    values: Mapping[str, str]
    accounts: Mapping[str, Sequence[Account]] = field(default_factory=dict[str, Sequence[Account]])
    published: Mapping[str, str] = field(default_factory=dict[str, str])
    """State of each ordered replacement, by `<sort>Rotation`."""

    def of(self, name: str) -> Sequence[Account]:
        """Return the accounts to make with the password of that name, the one in use first."""
        return self.accounts.get(name) or (Account(key=name),)

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def ref(self, name: str) -> dict[str, str]:
        """Return a SecretKeyRef to one of the passwords."""
        return {"name": self.secret, "key": name}

    def env(self, name: str) -> dict[str, Any]:
        """Return a `valueFrom` structure for an environment variable."""
        return {"secretKeyRef": self.ref(name)}


def credentials(
    ctx: Context[Any],
    *names: str,
    suffix: str = "credentials",
    extra_values: Mapping[str, str] | None = None,
    retain: bool = False,
    of_data: bool = False,
    rotates: bool = False,
) -> Credentials:
    """Return Secret `<owner>-<suffix>` with a password for each of `names`, and `extra_values`.

    `retain` keeps the Secret when its owner is deleted: passwords are part of data that outlives it. Passwords
    `of_data` exist only in the owner's own volumes, which no other password opens. With `rotates`, an order replaces
    those of accounts. A deleted Secret is restored with its content; a password removed from it is drawn again. Raise
    Incomplete for a password of several lines, which a user wrote into the Secret.
    """
    secret = ctx.name(suffix)
    live = ctx.children.get(("Secret", kube.fitting(secret)))
    stored = kube.secret_data(live or ctx.deleted_secrets.get(kube.fitting(secret)))
    for key, value in stored.items():
        # A password that is replaced is in several keys: behind its name, they have a dot.
        if key not in (extra_values or {}) and any(f"{key}.".startswith(f"{name}.") for name in names):
            one_line(value, "spec", kube.fitting(secret), key, advice=_RESTORE if of_data else _REMOVE)
    if rotates:
        replacement = replaced(ctx, kube.fitting(secret), stored, names)
    else:
        replacement = Replaced(values={**stored, **{name: stored.get(name) or ctx.draw() for name in names}})
    values = {**replacement.values, **(extra_values or {})}
    new_secret = kube.secret(ctx, secret, values)
    marked_secret = kube.irreplaceable(new_secret) if of_data else kube.remembered(new_secret)
    redrawn_at = _redrawn_at(ctx, live, names)
    marked_secret = kube.annotated(
        marked_secret, {NAMES: ",".join(sorted(names))} | ({REDRAWN_AT: redrawn_at} if redrawn_at else {})
    )
    return Credentials(
        name="Credentials",
        objects=(kube.retained(marked_secret) if retain else marked_secret,),
        guarded=True,
        secret=kube.fitting(secret),
        values=values,
        accounts=replacement.accounts,
        published=replacement.published,
        wake=replacement.wake,
    )


def _redrawn_at(ctx: Context[Any], live: Object | None, names: Sequence[str]) -> str:
    """Return the time of the last draw in place of a removed password; empty if there was none."""
    if live is None:
        return ""
    annotations = live["metadata"].get("annotations") or {}
    if set(annotations.get(NAMES, "").split(",")) & set(names) - kube.secret_data(live).keys():
        return stamp(ctx.now)
    return annotations.get(REDRAWN_AT, "")


def with_urgent_logins(planner: Callable[[Context[Any]], Plan]) -> Callable[[Context[Any]], Plan]:
    """Return the function that plans a service, with its programs before those of others while they may run with a
    password that was removed from its Secret.
    """

    @wraps(planner)
    def planned(ctx: Context[Any]) -> Plan:
        plan = planner(ctx)
        if not any(_is_redrawn(ctx, obj) for obj in plan.objects):
            return plan
        urgent = {step: replace(step, urgent=True) for step in plan if step.workloads}
        return plan.rearranged(urgent, name="")

    return planned


def _is_redrawn(ctx: Context[Any], obj: Object) -> bool:
    at = valid_time((obj["metadata"].get("annotations") or {}).get(REDRAWN_AT))
    # A clock that was put back leaves times in the future.
    return at is not None and at <= ctx.now < at + _URGENT
