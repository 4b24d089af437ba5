"""Tempest: runs on schedule and on order, each a pod whose termination message is its result."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import agents, kube, oslo, parts
from ...api import KeystoneRef, Sections
from ...parts.connect import sources
from ...parts.connect.clouds_yaml import cloud_auth, credential_identity
from ...parts.secrets.tls import authority, trust_of
from ...plan import Context, MissingReference, Object, Plan, SpecError, Step, key
from . import results
from .model import TempestSpec

PACKAGE = "cloud_tests"
DIRECTORY = f"/etc/openstack-tempest/{PACKAGE}"
TRUST = "ca.crt"
_MODULES = ("cloud.py", "runner.py")
_MARGIN = 600
"""Seconds after its own timeout at which Kubernetes ends a run that has not ended itself."""


def plan(ctx: Context[TempestSpec]) -> Plan:
    """Return everything a Tempest consists of."""
    spec = ctx.spec
    _check(spec)
    identity, login = _login(ctx)
    conf = _config(ctx, login)
    dependencies = sources.waits(ctx)
    run = results.last_run(ctx)
    after = (*identity, conf, *dependencies)
    return Plan(
        *parts.policies(ctx),
        *identity,
        conf,
        *dependencies,
        *_schedule(ctx, conf, after=after),
        *_ordered_run(ctx, conf, after=after),
        results.record(ctx, run),
        details=run.details if run else {},
        extra_conditions={results.PASSED: results.verdict(run)},
    )


def _check(spec: TempestSpec) -> None:
    """Raise SpecError for a text that is no regular expression."""
    patterns = {"includeRegex": spec.tests.include_regex, "excludeRegex": spec.tests.exclude_regex}
    for name, regex in patterns.items():
        try:
            re.compile(regex or "")
        except re.error as error:
            raise SpecError(f"spec.tests.{name}", f"not a regular expression of Python's: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Login:
    """Login of a run to the cloud."""

    url: str
    auth: Mapping[str, Any]
    """Body of the request for a token."""
    options: Mapping[str, str]
    """[auth] of tempest.conf: the administrator that creates the tests' users."""
    trust: str = ""
    """Path of the file with authorities that verify its APIs."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files that it needs beside its configuration."""
    administrator: str = ""
    """Name of the administrator that a run creates for itself; empty if one exists."""


def _login(ctx: Context[TempestSpec]) -> tuple[tuple[Step, ...], Login]:
    """Return the steps that come before it, and the login."""
    ref = ctx.spec.keystone.local
    return _as_user(ctx, ref) if ref else ((), _by_credential(ctx))


def _as_user(ctx: Context[TempestSpec], ref: KeystoneRef) -> tuple[tuple[Step, ...], Login]:
    """Return KeystoneUser `<owner>-user`, an administrator of a Keystone in this namespace, and the login."""
    creds, keystone = parts.credentials(ctx, "identity"), ctx.refs[ref]
    resource = parts.remote(
        ctx,
        "KeystoneUser",
        ctx.name("user"),
        {
            "keystoneRef": {"name": ref.name},
            "user": ctx.owner,
            "passwordSecretRef": creds.ref("identity"),
            "roles": ["admin"],
        },
    )
    user = Step(name="Identity", objects=(resource,), after=(creds,))
    default, password, project = {"name": "Default"}, creds["identity"], "service"
    account = {"name": ctx.owner, "domain": default, "password": password}
    login = Login(
        url=keystone["internalURL"],
        auth={
            "identity": {"methods": ["password"], "password": {"user": account}},
            "scope": {"project": {"name": project, "domain": default}},
        },
        options={
            "admin_username": ctx.owner,
            "admin_password": oslo.Verbatim(password),
            "admin_project_name": project,
            "admin_domain_name": default["name"],
        },
        trust=trust_of(keystone.published),
    )
    return (creds, user), login


def _by_credential(ctx: Context[TempestSpec]) -> Login:
    """Return the login by the application credential of a Secret. Raise SpecError with the key that it lacks."""
    source = ctx.spec.keystone
    path = "spec.keystone.appCredentialRef"
    if source.app_credential_ref is None:
        # A rule of the definition refuses that; what was stored before the rule came has to have an answer, too.
        raise SpecError(path, "authUrl and appCredentialRef go together; set both, or neither")
    name = source.app_credential_ref.name
    if (data := ctx.secrets.get(name)) is None:
        raise MissingReference(f"{path}.name", f"there is no Secret {name!r} in this namespace")
    entries = _cloud(data["clouds.yaml"], path, name) if "clouds.yaml" in data else data
    try:
        identity = credential_identity(entries)
    except ValueError as error:
        raise SpecError(path, f"Secret {name!r} lacks {error}, or a clouds.yaml with it") from None
    trusted = authority(data)
    return Login(
        url=source.auth_url or "",
        auth={"identity": identity},
        options={},
        trust=f"{DIRECTORY}/{TRUST}" if trusted else "",
        files={TRUST: data[trusted]} if trusted else {},
        administrator=f"tempest-{ctx.namespace}-{ctx.owner}",
    )


def _cloud(text: str, path: str, secret: str) -> Mapping[str, str]:
    try:
        return cloud_auth(text)
    except ValueError as error:
        raise SpecError(path, f"clouds.yaml of Secret {secret!r} {error}") from None


def _config(ctx: Context[TempestSpec], login: Login) -> parts.Config:
    """Return Secret `<owner>-config`: tempest.conf, what a run looks for in the cloud, and the program."""
    spec, tests = ctx.spec, ctx.spec.tests
    interface = spec.keystone.interface
    sections = ("compute", "image", "network", "object-storage", "placement", "volume")
    # The result of a test that fails has its log; the others would log a line for each request.
    defaults: Sections = {
        "DEFAULT": {"use_stderr": False},
        **{name: {"endpoint_type": interface} for name in sections},
        **_plugins(spec.region, interface),
    }
    fixed_options: Sections = {
        "auth": dict(login.options),
        "identity": {
            "uri_v3": login.url,
            "auth_version": "v3",
            "region": spec.region,
            "v3_endpoint_type": interface,
            **({"ca_certificates_file": login.trust} if login.trust else {}),
        },
    }
    run = {
        "url": login.url,
        "auth": login.auth,
        "trust": login.trust,
        "administrator": login.administrator,
        "region": spec.region,
        "interface": interface,
        **{name: getattr(tests, name) for name in ("services", "concurrency", "seconds", "image", "flavor", "network")},
        "loadBalancerProvider": spec.config.get("load_balancer", {}).get("provider"),
        "include": tests.include_regex,
        "exclude": tests.exclude_regex,
    }
    programs = {name: agents.text(f"tempest/{name}") for name in _MODULES}
    files = {"run.json": json.dumps(run, indent=2, sort_keys=True), **programs, **login.files}
    return parts.config(ctx, "tempest.conf", fixed_options, defaults=defaults, extra_files=files, directory=DIRECTORY)


def _plugins(region: str, interface: str) -> Sections:
    """Return defaults of plug-ins, which know less of a cloud than Tempest: their own are those of upstream's tests."""
    of_region = {"region": region, "endpoint_type": interface}
    return {
        "dns": {"endpoint_type": interface},
        "dns_feature_enabled": {
            "api_v2_root_recordsets": True,
            "api_v2_quotas": True,
            "enforce_new_defaults": True,
        },
        "enforce_scope": {"barbican": True, "designate": True, "octavia": True},
        "heat_plugin": of_region,
        "key_manager": of_region,
        "load_balancer": of_region,
    }


def _template(ctx: Context[TempestSpec], conf: parts.Config, component: str, **labels: str) -> Object:
    """Return the pod of a run."""
    spec, entry = ctx.spec, ctx.release["tempest"]
    main = kube.Container(
        entry=entry,
        command=[*entry.command, "-m", f"{PACKAGE}.runner"],
        env={"PYTHONPATH": DIRECTORY.rpartition("/")[0], "HOME": "/tmp"},  # noqa: S108
        mounts=(*conf.mounts, *kube.scratch("/tmp", large=True)),  # noqa: S108
        memory="512Mi",
        cpu="100m",
    )
    settings = kube.settings(spec)
    deadline = spec.tests.seconds + _MARGIN
    template = kube.pod(ctx, component, main, settings=settings, activeDeadlineSeconds=deadline)
    template["metadata"]["labels"] |= {kube.WATCHED: "true", **labels}
    return template


def _schedule(ctx: Context[TempestSpec], conf: parts.Config, *, after: Sequence[Step]) -> tuple[Step, ...]:
    """Return CronJob `<owner>-run`."""
    spec = ctx.spec
    if not spec.schedule:
        return ()
    cron_job = kube.cron_job(
        ctx,
        "run",
        _template(ctx, conf, "run"),
        spec.schedule,
        once=True,
        suspend=spec.suspend,
        successfulJobsHistoryLimit=spec.successful_jobs_history_limit,
        failedJobsHistoryLimit=spec.failed_jobs_history_limit,
    )
    return (Step(name="Runs", objects=(cron_job,), after=tuple(after)),)


def _ordered_run(ctx: Context[TempestSpec], conf: parts.Config, *, after: Sequence[Step]) -> tuple[Step, ...]:
    """Return Job `<owner>-run-now-<digest>` for the present order. The job of an obeyed order stays for users to look
    at, until the pods of runs change; it does not run again then.
    """
    if not (order := results.order(ctx)):
        return ()
    job = kube.job(ctx, "run-now", _template(ctx, conf, "run-now", **{results.ORDER: order}), retries=0)
    if results.obeyed_order(ctx) == order and key(job) not in ctx.children:
        return ()
    return (Step(name="Runs", objects=(kube.annotated(job, {kube.BESIDE: "true"}),), after=tuple(after)),)
