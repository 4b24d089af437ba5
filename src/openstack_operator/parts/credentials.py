"""Passwords drawn once and kept: what the cluster holds wins over a new draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import kube
from ..plan import Context, Step
from .rotation import Account, Replaced, replaced


@dataclass(frozen=True, kw_only=True, eq=False)
class Credentials(Step):
    """A Secret of generated passwords."""

    secret: str
    values: Mapping[str, str]
    accounts: Mapping[str, Sequence[Account]] = field(default_factory=dict[str, Sequence[Account]])
    published: Mapping[str, str] = field(default_factory=dict[str, str])
    """How far what was ordered of it is, by `<sort>Rotation`."""

    def of(self, name: str) -> Sequence[Account]:
        """The accounts there are to be with the password of that name, the one in use first."""
        return self.accounts.get(name) or (Account(key=name),)

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def ref(self, name: str) -> dict[str, str]:
        """A SecretKeyRef to one of the passwords."""
        return {"name": self.secret, "key": name}

    def env(self, name: str) -> dict[str, Any]:
        """A `valueFrom` structure for an environment variable."""
        return {"secretKeyRef": self.ref(name)}


def credentials(
    ctx: Context[Any],
    *names: str,
    suffix: str = "credentials",
    given: Mapping[str, str] | None = None,
    retain: bool = False,
    of_data: bool = False,
    rotates: bool = False,
) -> Credentials:
    """Secret `<owner>-<suffix>` with a password each for `names`; `given` are known values stored beside them.

    `retain` keeps the Secret when its owner goes: passwords are part of data that outlives it. Those `of_data` stand in
    the owner's own volumes alone, which no other password opens. Those of accounts are replaced by order where it
    `rotates`. A Secret that somebody deletes comes back as it was, a password that is taken
    out of it is drawn anew.
    """
    secret = ctx.name(suffix)
    live = ctx.children.get(("Secret", kube.fitting(secret)))
    held = kube.secret_data(live or ctx.lost.get(kube.fitting(secret)))
    if rotates:
        found = replaced(ctx, kube.fitting(secret), held, names)
    else:
        found = Replaced(values={**held, **{name: held.get(name) or ctx.draw() for name in names}})
    values = {**found.values, **(given or {})}
    made = kube.secret(ctx, secret, values)
    wanted = kube.irreplaceable(made) if of_data else kube.remembered(made)
    return Credentials(
        name="Credentials",
        objects=(kube.retained(wanted) if retain else wanted,),
        guarded=True,
        secret=kube.fitting(secret),
        values=values,
        accounts=found.accounts,
        published=found.published,
        wake=found.wake,
    )
