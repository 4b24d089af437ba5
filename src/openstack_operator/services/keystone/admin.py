"""The administrator's password, and how Keystone is told of another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ... import kube, parts
from ...parts import rotation
from ...plan import Context
from .model import KeystoneSpec

NEXT = "password.next"
_STATE = "rotation.admin"


@dataclass(frozen=True, kw_only=True, eq=False)
class Administrator(parts.Credentials):
    """The Secret of the administrator's name and password."""

    setup: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Environment of the job that tells Keystone of them; a password that changed is told by another run."""


def administrator(ctx: Context[KeystoneSpec]) -> Administrator:
    """The administrator's name and password, the user's own where the spec points at one.

    Ordered to replace it, a new one is written down, then told to Keystone by the job of `setup`, and then it takes the
    place of the one before, all in steps that may be cut off anywhere. The account stays, since key pairs and
    application credentials are an account's, and it has one password: between the last two steps logins fail.
    """
    boot = ctx.spec.bootstrap
    given = {"username": boot.admin_user, "project": boot.admin_project}
    if ref := boot.admin_password_secret_ref:
        given["password"] = ctx.secrets[ref.name][ref.key]
    made = parts.credentials(ctx, "password", "salt", suffix="admin", given=given)
    values = {name: value for name, value in made.values.items() if name not in {NEXT, _STATE}}
    if ref:
        return _administrator(ctx, made, values, values)
    before = rotation.read(made.values.get(_STATE))
    coming = made.values.get(NEXT, "")
    done = bool(before and before.step == rotation.PREPARING and coming and _told(ctx, {**values, "password": coming}))
    after = rotation.turned(before, rotation.order(ctx, "admin"), ctx.now, left=False, prepared=done, waits=())
    if after is None:
        return _administrator(ctx, made, values, values, {"adminRotation": rotation.Rotation().published()})
    if after.step == rotation.MOVING:
        # There is nothing to move: nobody else has another account.
        after = replace(after, step=rotation.IDLE, second=False, done=after.since)
        values["password"] = coming or values["password"]
    held, told = {**values, _STATE: after.text}, values
    if after.step == rotation.PREPARING:
        held[NEXT] = coming or ctx.draw()
        told = {**values, "password": held[NEXT]}
    return _administrator(ctx, made, held, told, {"adminRotation": after.published()})


def _administrator(
    ctx: Context[KeystoneSpec],
    made: parts.Credentials,
    held: Mapping[str, str],
    told: Mapping[str, str],
    published: Mapping[str, str] | None = None,
) -> Administrator:
    """What the Secret holds, and what Keystone is told."""
    key = NEXT if NEXT in held else "password"
    return Administrator(
        name=made.name,
        objects=(kube.remembered(kube.secret(ctx, made.secret, held)),),
        guarded=True,
        secret=made.secret,
        values=held,
        published=published or {},
        setup={"OS_BOOTSTRAP_PASSWORD": made.env(key), "ADMIN_DIGEST": _digest(told)},
    )


def _digest(told: Mapping[str, str]) -> str:
    """Follows what Keystone is told; salted, since a user's own password may be easy to guess."""
    return kube.digest(dict(told))


def _told(ctx: Context[KeystoneSpec], told: Mapping[str, str]) -> bool:
    """Whether a job has told Keystone exactly that."""
    wanted = _digest(told)
    jobs = (live for (kind, _), live in ctx.children.items() if kind == "Job" and kube.judge(live).ready)
    return any(
        variable.get("value") == wanted
        for live in jobs
        for variable in live["spec"]["template"]["spec"]["containers"][0].get("env") or ()
    )
