"""Heat: a schema, two APIs, an engine, the domain for users of stacks, and the purge of deleted stacks."""

from __future__ import annotations

from collections.abc import Sequence

from ... import kube, oslo, parts
from ...api import KEYSTONE
from ...parts.connect import sources
from ...parts.connect.broker_move import with_moves
from ...parts.run.purge import purge
from ...parts.run.workloads import Api
from ...parts.secrets.keys import fernet_key
from ...plan import Context, Incomplete, Plan, Step, UnsupportedError
from . import config
from .model import HeatSpec

_SERVICE_TYPE, _CFN_TYPE = "orchestration", "cloudformation"
_FILE = "heat.conf"
_DOMAIN_ADMIN, _TRUSTEE = "domain-identity", "trustee"
"""Names of passwords. The first is replaced as that of the service's own user is. The second is not: trusts of stacks
that exist name the user by its id, so another user could not use them."""
_ROLES = ("heat_stack_owner", "heat_stack_user")
_KEY = "auth_encryption_key"
_ENGINE_CONFIG = "engine-config"


@with_moves
def plan(ctx: Context[HeatSpec]) -> Plan:
    """Return everything that a Heat consists of; published: internalURL, publicURL."""
    if ctx.spec.keystone.auth_url:
        message = "Heat needs an administrator for its domain and trusts; use keystoneRef"
        raise UnsupportedError("spec.keystone.authUrl", message)
    base = parts.foundation(ctx, _DOMAIN_ADMIN, _TRUSTEE, service_type=_SERVICE_TYPE)
    trustee = sources.identity(ctx, base.credentials, _TRUSTEE, program=_TRUSTEE, roles=["reader"], retained=True)
    domain = _domain(ctx, base.credentials)
    encryption, key = _encryption(ctx)
    shared = config.shared_options(ctx, base)
    rules = parts.policy_files(ctx)
    conf = parts.config(ctx, _FILE, shared, extra_files=rules)
    # With the type of the other API, access rules for GET there would allow any action here, which is in the query.
    of_cfn = oslo.merge(shared, {"keystone_authtoken": {"service_type": _CFN_TYPE}})
    cfn_conf = parts.config(ctx, _FILE, of_cfn, suffix=f"{config.CFN}-config", extra_files=rules)
    sync = parts.schema(ctx, ["heat-manage", "db_sync"], conf, after=base.schema)
    after = (*base.steps, sync)
    api = _api(ctx, "api", config.API_PORT, conf, after=after)
    cfn = _api(ctx, config.CFN, config.CFN_PORT, cfn_conf, after=after)
    engine_options = config.engine_options(ctx, cfn, trustee.options, _domain_options(ctx, base.credentials), key)
    engine_conf = parts.config(
        ctx,
        _FILE,
        oslo.merge(shared, engine_options),
        defaults=config.DEFAULTS,
        suffix=_ENGINE_CONFIG,
        extra_files=rules,
    )
    engine = parts.worker(
        ctx,
        "engine",
        engine_conf,
        settings=ctx.spec.engine,
        after=(*after, trustee, domain, encryption),
        ready=base.connected,
        # Engines hand work to each other, and one of 2025.1 drops what one of 2026.1 asks for.
        program=parts.ProgramSettings(memory="192Mi", grace=config.GRACE, copied=True, one_release=True),
    )
    entries = [
        parts.catalog(ctx, type_, description, each, path=path, name=name, after=(*base.steps, each))
        for each, type_, description, path, name in (
            (api, _SERVICE_TYPE, "Orchestration", "/v1/%(project_id)s", "catalog"),
            (cfn, _CFN_TYPE, "CloudFormation", "/v1", f"catalog-{config.CFN}"),
        )
    ]
    command = ["heat-manage", "purge_deleted", "--granularity", "days", str(ctx.spec.purge.days)]
    return Plan(
        *parts.policies(ctx),
        *base.steps,
        trustee,
        domain,
        encryption,
        conf,
        cfn_conf,
        engine_conf,
        sync,
        api,
        cfn,
        engine,
        *entries,
        *purge(ctx, ctx.spec.purge, command, conf, after=(sync,)),
        endpoint=f"{api.public}/v1",
        published={**base.credentials.published, **api.published},
        preflight=parts.preflight(ctx, conf),
    )


def _api(ctx: Context[HeatSpec], component: str, port: int, conf: parts.Config, *, after: Sequence[Step]) -> Api:
    settings = ctx.spec.api_cfn if component == config.CFN else ctx.spec.api
    program = parts.ProgramSettings(workers=parts.Workers(processes=4, threads=1))
    return parts.api(ctx, component, port, conf, settings=settings, after=after, program=program)


def _domain(ctx: Context[HeatSpec], creds: parts.Credentials) -> Step:
    """Return KeystoneDomain `<owner>-domain`: the domain named after the owner, with its administrator and the roles of
    stacks; two of them while the administrator is replaced.
    """
    ref = ctx.spec.keystone.keystone_ref or KEYSTONE
    objects = [
        parts.remote(
            ctx,
            "KeystoneDomain",
            each.resource(ctx.name("domain")),
            {
                "keystoneRef": {"name": ref.name},
                "domain": ctx.owner,
                "description": "Users and projects of stacks",
                "administrator": each.called(_administrator(ctx)),
                "passwordSecretRef": creds.ref(each.key),
                "roles": [*_ROLES],
            },
        )
        for each in creds.of(_DOMAIN_ADMIN)
    ]
    # A barrier: an engine that runs keeps its administrator until its own one exists.
    return Step(name="Domain", objects=tuple(objects), after=(creds,), barrier=True)


def _administrator(ctx: Context[HeatSpec]) -> str:
    return f"{ctx.owner}_domain_admin"


def _domain_options(ctx: Context[HeatSpec], creds: parts.Credentials) -> dict[str, str]:
    return {
        "stack_user_domain_name": ctx.owner,
        "stack_domain_admin": creds.of(_DOMAIN_ADMIN)[0].called(_administrator(ctx)),
        "stack_domain_admin_password": oslo.Verbatim(creds[_DOMAIN_ADMIN]),
    }


def _encryption(ctx: Context[HeatSpec]) -> tuple[Step, str]:
    """Return Secret `<owner>-encryption`, which outlives the Heat, as its schema does, and the key in it. Heat has no
    second key, so this one is never replaced: if the Secret lacks it, it comes from the engine's configuration. Raise
    Incomplete if engines run and their key is nowhere.
    """
    stored, configured = (ctx.secret(name, or_deleted=True) for name in ("encryption", _ENGINE_CONFIG))
    key = stored.get(_KEY) or _configured(configured.get(_FILE, ""))
    if not key and ("Deployment", ctx.name("engine")) in ctx.children:
        name = ctx.name("encryption")
        text = f"Secret {name!r} has lost {_KEY}, which stacks need; restore it from a backup"
        raise Incomplete("spec", text)
    # Heat demands 32 characters: of base64, these are 192 bits.
    key = key or fernet_key(ctx.draw)[:32]
    secret = kube.retained(kube.irreplaceable(kube.secret(ctx, ctx.name("encryption"), {_KEY: key})))
    # A barrier: nothing may be encrypted with a key that is not stored yet.
    return Step(name="EncryptionKey", objects=(secret,), guarded=True, barrier=True), key


def _configured(conf: str) -> str:
    """Return the key from the engine's configuration; empty if it has none."""
    values = [
        value.strip() for name, _, value in (line.partition("=") for line in conf.splitlines()) if name.strip() == _KEY
    ]
    return values[0] if values else ""
