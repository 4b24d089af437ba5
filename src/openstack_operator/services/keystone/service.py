"""Keystone: keys that rotate, a bootstrap and an API, on which every other service depends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ... import agents, kube, oslo, parts
from ...api import Sections
from ...parts.connect.coordinates import check_migration_reads
from ...parts.connect.korc import KORC
from ...parts.expose import exposure
from ...parts.run.workloads import Api
from ...parts.secrets import rotation
from ...parts.secrets.keys import fernet_key
from ...plan import Context, Plan, Step
from .admin import Administrator, administrator
from .application import APPLICATION, application
from .client import FOLDER, client, clouds_yaml
from .federation.objects import federation_parts
from .keys import KeyRing, due, new_ring
from .korc import CLOUDS, delegated_entry, uses_korc
from .korc import steps as korc_steps
from .ldap.objects import domain_options, domain_parts
from .model import KeystoneSpec, Rotation
from .serving import DEFAULTS, cache, programs

ROTATED = "openstack.k8s.io/rotated"
RINGS = ("fernet", "credential")
# No threads: Keystone keeps a request's token where the process's next one puts its own, so that one acted with the
# rights of the other (docs/decisions/0046). A client's first request is for a token, which keeps two processes busy; to
# end and start the second one with each burst took a second of CPU every half minute.
_PROCESSES = parts.Workers(processes=2, threads=1, as_needed=False, cpu="100m")


def keystone_conf(ctx: Context[KeystoneSpec]) -> Sections:
    """Return the options that the operator sets besides the database."""
    return {
        "token": {"provider": "fernet"},
        "fernet_tokens": {
            "key_repository": "/etc/keystone/fernet-keys",
            "max_active_keys": ctx.spec.fernet.max_active_keys,
        },
        "credential": {"key_repository": "/etc/keystone/credential-keys"},
        **domain_options(ctx.spec),
        **cache(ctx),
    }


def plan(ctx: Context[KeystoneSpec]) -> Plan:
    """Return everything a Keystone consists of; published: internalURL, publicURL, region, adminSecret,
    korcClouds if K-ORC manages the catalog, and federation if it is enabled.
    """
    spec = ctx.spec
    delegated = uses_korc(ctx)
    logs_in = delegated or spec.bootstrap.application_credential
    base = parts.foundation(ctx, *([APPLICATION] if logs_in else []))
    check_migration_reads(ctx)
    fed = federation_parts(ctx)
    admin = administrator(ctx)
    fernet = _keys(ctx, "fernet", spec.fernet, "spec.fernet.rotationSchedule")
    credential = _keys(ctx, "credential", spec.credential_keys, "spec.credentialKeys.rotationSchedule")
    fixed_options = oslo.merge(base.sections, keystone_conf(ctx), fed.fixed_options)
    files = {**programs(), **parts.policy_files(ctx)}
    conf = parts.config(
        ctx, "keystone.conf", fixed_options, defaults=oslo.merge(DEFAULTS, fed.defaults), extra_files=files
    )
    mounts = [kube.folder(f"{ring}-keys", ctx.name(ring, "keys"), f"/etc/keystone/{ring}-keys") for ring in RINGS]
    setup = _bootstrap(ctx, admin, conf, mounts, after=(*base.schema, admin, fernet, credential))
    folders = parts.ProgramSettings(mounts=mounts)
    migration = _migration(ctx, credential, conf, mounts, after=(*base.schema, fernet, credential, setup))
    domains = domain_parts(ctx, conf, mounts, after=(setup,))
    dependencies = (*base.waits, fernet, credential, setup, *fed.steps, *domains.steps)
    pod_extras = replace(fed.pod_extras, env={**fed.pod_extras.env, **domains.env})
    api = _api(ctx, conf, dependencies, [*mounts, *domains.mounts], pod_extras)
    entry = parts.catalog(ctx, "identity", "Identity", api, path="/v3", keystone=ctx.owner, after=(api,))
    entry = delegated_entry(entry) if delegated else entry
    internal, public = f"{api.internal}/v3", f"{api.public}/v3"
    clouds_files = clouds_yaml(
        admin.values,
        spec.region,
        internal=internal,
        public=public,
        authorities=api.certificate.authorities,
        proxied=exposure.through_proxy(spec.expose),
    )
    clouds = parts.written(ctx, clouds_files, suffix="clouds", directory=FOLDER)
    login = application(ctx, base.credentials, admin, api, internal) if logs_in else None
    korc = korc_steps(ctx, login, entry) if delegated and login else ()
    return Plan(
        *parts.policies(ctx),
        *base.steps,
        admin,
        fernet,
        credential,
        conf,
        setup,
        *migration,
        *fed.steps,
        *domains.steps,
        api,
        entry,
        *fed.provider_steps(after=(api,)),
        clouds,
        client(ctx, clouds, after=(api,)),
        *([login] if login else []),
        *parts.completion(ctx, ["keystone-manage", "db_sync", "--contract"], conf, program=folders),
        # Last, so that it is deleted first: it needs all the others until then.
        *korc,
        endpoint=public,
        published={
            **base.credentials.published,
            **admin.published,
            **fernet.published,
            **api.published,
            "internalURL": internal,
            "publicURL": public,
            "region": spec.region,
            "adminSecret": admin.secret,
            **({KORC: CLOUDS} if delegated else {}),
            **fed.published,
        },
        wake=min((keys.due for keys in (fernet, credential) if not keys.migration), default=None),
        preflight=parts.preflight(ctx, conf, program=folders),
    )


def _api(
    ctx: Context[KeystoneSpec],
    conf: parts.Config,
    after: Sequence[Step],
    mounts: Sequence[kube.Mount],
    pod_extras: parts.ProgramSettings,
) -> Api:
    """Return the API. Each of its processes has 80 MiB of its own."""
    program = replace(pod_extras, memory="224Mi", mounts=mounts, workers=_PROCESSES)
    return parts.api(ctx, "api", 5000, conf, settings=ctx.spec.api, after=after, program=program)


def _bootstrap(
    ctx: Context[KeystoneSpec],
    admin: Administrator,
    conf: parts.Config,
    mounts: Sequence[kube.Mount],
    *,
    after: Sequence[Step],
) -> Step:
    """Return the job that makes the schema and the first administrator. A new password makes another run of it. In an
    upgrade, the job that extends the schema: the administrator exists.
    """
    if ctx.upgrades_from:
        words, program = agents.shell("keystone/extend_schema.sh"), parts.ProgramSettings(mounts=mounts)
        return parts.job(ctx, "bootstrap", words, conf, after=after, program=program)
    env = {
        "OS_BOOTSTRAP_USERNAME": ctx.spec.bootstrap.admin_user,
        "OS_BOOTSTRAP_PROJECT_NAME": ctx.spec.bootstrap.admin_project,
        "OS_BOOTSTRAP_SERVICE_NAME": ctx.owner,
        "OS_BOOTSTRAP_REGION_ID": ctx.spec.region,
        **admin.setup,
    }
    # Every other service waits for it.
    program = parts.ProgramSettings(mounts=mounts, env=env, cpu="100m")
    return parts.job(ctx, "bootstrap", agents.shell("keystone/bootstrap.sh"), conf, after=after, program=program)


def _live_ring(ctx: Context[KeystoneSpec], name: str) -> KeyRing:
    """Return the ring in the cluster, completed if a user removed keys of it; a new one if there is none."""
    live = ctx.children.get(("Secret", name)) or ctx.deleted_secrets.get(name, {})
    keys = {int(index): key for index, key in kube.secret_data(live).items() if index.isdecimal()}
    added = dict(new_ring(ctx.now, lambda: fernet_key(ctx.draw)).keys) if len(keys) < 2 or 0 not in keys else {}
    rotated = live.get("metadata", {}).get("annotations", {}).get(ROTATED)
    return KeyRing(added | keys, kube.not_ahead(kube.valid_time(rotated) or ctx.now, ctx.now))


@dataclass(frozen=True, kw_only=True, eq=False)
class Keys(Step):
    """The Secret of a key repository."""

    due: datetime
    """Time of its next rotation."""
    migration: str = ""
    """Job that the rotation waits for."""
    published: Mapping[str, str] = field(default_factory=dict[str, str])
    """Progress of an ordered rotation."""


def _keys(ctx: Context[KeystoneSpec], ring: str, aging: Rotation, path: str) -> Keys:
    """Return the key repository as it should be now."""
    name = ctx.name(ring, "keys")
    keys = _live_ring(ctx, kube.fitting(name))
    # The ring of stored credentials has no such order: the operator could not report when that is completed.
    ordered = rotation.time(rotation.order(ctx, ring).at)
    migration = ""
    if due(aging.rotation_schedule, keys.rotated, path, ordered) <= ctx.now:
        # Each rotation has a migration of its own, named after the key it leaves everything encrypted with.
        needed = f"credential-migrate-{max(keys.keys)}" if ring == "credential" else ""
        if needed and not _is_completed(ctx, needed):
            migration = needed
        else:
            keys = keys.rotate(ctx.now, aging.max_active_keys, lambda: fernet_key(ctx.draw))
    secret = kube.secret(ctx, name, {str(index): key for index, key in keys.keys.items()})
    secret = kube.annotated(secret, {ROTATED: keys.rotated.isoformat()})
    if ring == "credential":
        # What they encrypt lies in the database, and that may outlive this resource.
        secret = kube.irreplaceable(kube.retained(secret))
    return Keys(
        name=f"{ring.capitalize()}Keys",
        objects=(secret,),
        guarded=True,
        due=due(aging.rotation_schedule, keys.rotated, path, ordered),
        migration=migration,
        published=_progress(keys, ordered) if ring in rotation.SORTS else {},
    )


def _progress(keys: KeyRing, ordered: datetime | None) -> dict[str, str]:
    """Return the progress. Servers read a staged key before it signs, so rotating the keys completes an order."""
    completed = rotation.stamp(ordered) if ordered and ordered <= keys.rotated else ""
    at = rotation.stamp(keys.rotated)
    return {"fernetRotation": rotation.Rotation(since=at, order=completed, completed_at=at).published()}


def _is_completed(ctx: Context[KeystoneSpec], component: str) -> bool:
    """Return True if a job of that component was completed, with any image."""
    jobs = (live for (kind, _), live in ctx.children.items() if kind == "Job")
    return any(live["metadata"]["labels"][kube.COMPONENT] == component and kube.judge(live).ready for live in jobs)


def _migration(
    ctx: Context[KeystoneSpec], keys: Keys, conf: parts.Config, mounts: Sequence[kube.Mount], *, after: Sequence[Step]
) -> Sequence[Step]:
    """Encrypt every stored credential with the primary key, since a rotation removes the oldest key: Keystone allows
    one only then (its administrator guide, credential encryption). Done before the rotation, not after it, when every
    server has long had the primary key, so that nothing is stored meanwhile with an older one.
    """
    if not keys.migration:
        return ()
    # It logs an error about a folder of keys it cannot write, and goes on: it writes none.
    command = ["keystone-manage", "credential_migrate"]
    program = parts.ProgramSettings(mounts=mounts)
    return (parts.job(ctx, keys.migration, command, conf, after=after, condition=keys.name, program=program),)
