"""Keystone: keys that age, a bootstrap, an API; every other service leans on it."""

from __future__ import annotations

from datetime import datetime

from ... import kube, oslo, parts
from ...api import Sections
from ...plan import Context, Plan, Step
from .client import client, clouds_yaml
from .keys import KeyRing, due, fernet_key, new_ring
from .model import KeystoneSpec, Rotation

ROTATED = "openstack.k8s.io/rotated"
RINGS = ("fernet", "credential")


def keystone_conf(ctx: Context[KeystoneSpec]) -> Sections:
    """What the operator wires besides the database."""
    cached = parts.memcached(ctx)
    return {
        "token": {"provider": "fernet"},
        "fernet_tokens": {
            "key_repository": "/etc/keystone/fernet-keys",
            "max_active_keys": ctx.spec.fernet.max_active_keys,
        },
        "credential": {"key_repository": "/etc/keystone/credential-keys"},
        "cache": {"enabled": bool(cached), "backend": "oslo_cache.memcache_pool", "memcache_servers": cached},
    }


def plan(ctx: Context[KeystoneSpec]) -> Plan:
    """Everything a Keystone is made of; published: internalURL, publicURL, region, adminSecret."""
    spec = ctx.spec
    base = parts.foundation(ctx)
    admin = _admin(ctx)
    fernet, fernet_due = _keys(ctx, "fernet", spec.fernet, "spec.fernet.rotationSchedule")
    credential, credential_due = _keys(ctx, "credential", spec.credential_keys, "spec.credentialKeys.rotationSchedule")
    conf = parts.config(ctx, "keystone.conf", oslo.merge(base.sections, keystone_conf(ctx)))
    mounts = [kube.folder(f"{ring}-keys", ctx.name(ring, "keys"), f"/etc/keystone/{ring}-keys") for ring in RINGS]
    internal = f"http://{ctx.host(ctx.name('api'))}:5000/v3"
    setup = parts.job(
        ctx,
        "bootstrap",
        ["sh", "-ec", _bootstrap(ctx, internal)],
        conf,
        after=(*base.schema, admin, fernet, credential),
        mounts=mounts,
        # A password that changed is told to Keystone by another run; salted, since a user's own may be easy to guess.
        env={"OS_BOOTSTRAP_PASSWORD": admin.env("password"), "ADMIN_DIGEST": kube.digest(admin.values)},
    )
    api = parts.api(ctx, "api", 5000, conf, settings=spec.api, after=(fernet, credential, setup), mounts=mounts)
    entry = parts.catalog(ctx, "identity", "Identity", api, path="/v3", keystone=ctx.owner, after=(api,))
    public = f"{api.public}/v3"
    clouds = parts.written(
        ctx,
        {"clouds.yaml": clouds_yaml(admin.values, spec.region, internal=internal, public=public)},
        suffix="clouds",
        directory="/etc/openstack",
    )
    return Plan(
        *base.steps,
        admin,
        fernet,
        credential,
        conf,
        setup,
        api,
        entry,
        clouds,
        client(ctx, clouds, after=(api,)),
        endpoint=public,
        published={
            "internalURL": internal,
            "publicURL": public,
            "region": spec.region,
            "adminSecret": admin.secret,
        },
        wake=min(fernet_due, credential_due),
    )


def _admin(ctx: Context[KeystoneSpec]) -> parts.Credentials:
    """The administrator's name and password, the user's own where the spec points at one."""
    boot = ctx.spec.bootstrap
    given = {"username": boot.admin_user, "project": boot.admin_project}
    if ref := boot.admin_password_secret_ref:
        given["password"] = ctx.secrets[ref.name][ref.key]
    return parts.credentials(ctx, "password", "salt", suffix="admin", given=given)


def _bootstrap(ctx: Context[KeystoneSpec], internal: str) -> str:
    """One script: two jobs would pay Python's start twice, and bootstrap changes nothing that is already there."""
    boot = ctx.spec.bootstrap
    return (
        "keystone-manage db_sync\n"
        f"exec keystone-manage bootstrap --bootstrap-username {boot.admin_user}"
        f" --bootstrap-project-name {boot.admin_project}"
        f" --bootstrap-service-name {ctx.owner} --bootstrap-region-id '{ctx.spec.region}'"
        f" --bootstrap-internal-url {internal} --bootstrap-public-url {internal}\n"
    )


def _held(ctx: Context[KeystoneSpec], name: str) -> KeyRing:
    """The ring as the cluster holds it, completed where somebody took of it; a new one where there is none."""
    live = ctx.children.get(("Secret", name), {})
    found = {int(index): key for index, key in kube.secret_data(live).items() if index.isdecimal()}
    keys = dict(new_ring(ctx.now, lambda: fernet_key(ctx.draw())).keys) if len(found) < 2 or 0 not in found else {}
    rotated = live.get("metadata", {}).get("annotations", {}).get(ROTATED)
    return KeyRing(keys | found, datetime.fromisoformat(rotated) if rotated else ctx.now)


def _keys(ctx: Context[KeystoneSpec], ring: str, rotation: Rotation, field: str) -> tuple[Step, datetime]:
    """The Secret of a key repository and the moment its next rotation is due."""
    name = ctx.name(ring, "keys")
    keys = _held(ctx, kube.fitting(name))
    if due(rotation.rotation_schedule, keys.rotated, field) <= ctx.now:
        keys = keys.rotate(ctx.now, rotation.max_active_keys, lambda: fernet_key(ctx.draw()))
    wanted = kube.secret(ctx, name, {str(index): key for index, key in keys.keys.items()})
    wanted = kube.annotated(wanted, {ROTATED: keys.rotated.isoformat()})
    if ring == "credential":
        # What they encrypt lies in the database, and that may outlive this resource.
        wanted = kube.retained(wanted)
    step = Step(name=f"{ring.capitalize()}Keys", objects=(wanted,), guarded=True)
    return step, due(rotation.rotation_schedule, keys.rotated, field)
