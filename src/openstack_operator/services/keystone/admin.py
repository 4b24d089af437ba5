"""The administrator's password, and how Keystone gets a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ... import kube, parts
from ...parts.secrets import rotation
from ...plan import Context
from .model import KeystoneSpec

NEXT = "password.next"
_STATE = "rotation.admin"


@dataclass(frozen=True, kw_only=True, eq=False)
class Administrator(parts.Credentials):
    """The Secret of the administrator's name and password."""

    setup: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Environment of the job that sets both in Keystone; a new password makes another run of the job."""


def administrator(ctx: Context[KeystoneSpec]) -> Administrator:
    """Return the administrator's name and password, the user's own if the spec refers to one.

    An order to replace the password takes three steps, each of which may be interrupted: store a new one, set it in
    Keystone by the job of `setup`, and put it in the place of the previous one. The account stays, since key pairs and
    application credentials belong to an account, and it has one password: between the last two steps logins fail.
    """
    boot = ctx.spec.bootstrap
    preset = {"username": boot.admin_user, "project": boot.admin_project}
    if ref := boot.admin_password_secret_ref:
        preset["password"] = ctx.secrets[ref.name][ref.key]
    creds = parts.credentials(ctx, "password", "salt", suffix="admin", extra_values=preset)
    values = {name: value for name, value in creds.values.items() if name not in {NEXT, _STATE}}
    if ref:
        return _administrator(ctx, creds, values, values)
    stored = rotation.read(creds.values.get(_STATE))
    draft = creds.values.get(NEXT, "")
    ready = bool(stored and stored.step == rotation.PREPARING and draft and _is_set(ctx, {**values, "password": draft}))
    state = rotation.turned(stored, rotation.order(ctx, "admin"), ctx.now, has_remains=False, prepared=ready, waits=())
    if state is None:
        return _administrator(ctx, creds, values, values, {"adminRotation": rotation.Rotation().published()})
    if state.step == rotation.MIGRATING:
        # There is nothing to move: no program has another account.
        state = replace(state, step=rotation.IDLE, second=False, completed_at=state.since)
        values["password"] = draft or values["password"]
    content, account = {**values, _STATE: state.text}, values
    if state.step == rotation.PREPARING:
        content[NEXT] = draft or ctx.draw()
        account = {**values, "password": content[NEXT]}
    return _administrator(ctx, creds, content, account, {"adminRotation": state.published()})


def _administrator(
    ctx: Context[KeystoneSpec],
    creds: parts.Credentials,
    content: Mapping[str, str],
    account: Mapping[str, str],
    published: Mapping[str, str] | None = None,
) -> Administrator:
    """Return the Secret with this `content`, and the setup of this `account` in Keystone."""
    key = NEXT if NEXT in content else "password"
    return Administrator(
        name=creds.name,
        objects=(kube.remembered(kube.secret(ctx, creds.secret, content)),),
        guarded=True,
        secret=creds.secret,
        values=content,
        published=published or {},
        setup={"OS_BOOTSTRAP_PASSWORD": creds.env(key), "ADMIN_DIGEST": _digest(account)},
    )


def _digest(account: Mapping[str, str]) -> str:
    """Return a digest of the account; salted, since a user's own password may be easy to guess."""
    return kube.digest(dict(account))


def _is_set(ctx: Context[KeystoneSpec], account: Mapping[str, str]) -> bool:
    """Return True if a job has set exactly this account in Keystone."""
    digest = _digest(account)
    jobs = (live for (kind, _), live in ctx.children.items() if kind == "Job" and kube.judge(live).ready)
    return any(
        variable.get("value") == digest
        for live in jobs
        for variable in live["spec"]["template"]["spec"]["containers"][0].get("env") or ()
    )
