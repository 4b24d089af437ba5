"""A MariaDB that mariadb-operator runs, or an external one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ... import kube, parts
from ...parts import delegate
from ...parts.connect.remote import MARIADB, MARIADB_KINDS, WATCHED_BY_MARIADB, labeled
from ...plan import Context, IgnoredFields, Kind, Plan, SpecError, Step
from .binary_log import binary_log
from .config import PORT, provided_cnf
from .model import MariaDBSpec

API, KIND = "k8s.mariadb.com/v1alpha1", "MariaDB.k8s.mariadb.com"
OPERATOR = "mariadb-operator"
KINDS = (Kind(API, "MariaDB", "mariadbs", project=OPERATOR, operator=OPERATOR), *MARIADB_KINDS)
_RUNS = "ran"
"""Key in the Secret with the root password, which it has once there are data."""


def _delegated(ctx: Context[MariaDBSpec]) -> Plan:
    """Return the plan of a MariaDB of k8s.mariadb.com with a root password of ours; published as of a builtin one, with
    the name of that resource, which makes databases and accounts.
    """
    spec, name = ctx.spec, ctx.name()
    is_cluster = spec.replicas > 1
    live = ctx.live(KIND)
    if live and is_cluster and not live["spec"].get("galera"):
        raise SpecError("spec.replicas", "mariadb-operator cannot turn a single server into a cluster; set 1 again")
    # An account of the data directory, written into SQL without quoting: a generated password has no quotes.
    creds = parts.credentials(
        ctx,
        "root",
        suffix="root",
        extra_values={_RUNS: "true"} if live else None,
        retain=spec.retention == "Retain",
        of_data=True,
    )
    creds = replace(creds, objects=_with_watch_label(creds))
    # A cluster's first Service reaches any member, and one member is to take all writes.
    service = f"{name}-primary" if is_cluster else name
    certificate = parts.certified(
        ctx,
        service,
        workloads=[(KIND, name)],
        members=f"{name}-internal",
        also=[ctx.host(each) for each in (name, f"{name}-primary", f"{name}-secondary")],
        calls=True,
    )
    certificate_steps = tuple(replace(step, objects=_with_watch_label(step)) for step in certificate.steps)
    resource = delegate.resource(ctx, "MariaDB", name, API, _spec(ctx, creds, certificate))
    server = Step(name="Server", objects=(resource,), after=(creds, *certificate_steps))
    host = ctx.host(service)
    return Plan(
        creds,
        *certificate_steps,
        server,
        endpoint=f"{host}:{PORT}",
        published={
            "host": host,
            "port": str(PORT),
            "adminSecret": creds.secret,
            MARIADB: name,
            **certificate.published,
        },
    )


def _with_watch_label(step: Step) -> tuple[kube.Object, ...]:
    """Return the step's objects, Secrets with a label by which mariadb-operator sees them change."""
    return tuple(labeled(each, WATCHED_BY_MARIADB) if each["kind"] == "Secret" else each for each in step.objects)


def _spec(ctx: Context[MariaDBSpec], creds: parts.Credentials, certificate: parts.Certified) -> dict[str, Any]:
    spec, is_cluster = ctx.spec, ctx.spec.replicas > 1
    pods = {"app.kubernetes.io/name": "mariadb", "app.kubernetes.io/instance": ctx.name()}
    # If unset, it would encrypt, by an authority that no client knows.
    tls: dict[str, Any] = {"enabled": bool(certificate)}
    if certificate:
        secret = {"name": certificate.secret}
        tls |= {"required": certificate.required, "serverCertSecretRef": secret, "serverCASecretRef": secret}
    return {
        "image": delegate.image(ctx, "mariadb", spec.version or ""),
        "imagePullPolicy": "IfNotPresent",
        "replicas": spec.replicas,
        # What it keeps of Galera's configuration needs no volume of its own.
        "galera": {"enabled": True, "config": {"reuseStorageVolume": True}} if is_cluster else None,
        "podDisruptionBudget": {"maxUnavailable": 1} if is_cluster else None,
        "rootPasswordSecretKeyRef": creds.ref("root"),
        "storage": {
            "size": spec.storage_size,
            "storageClassName": spec.storage_class_name,
            "pvcRetentionPolicy": {"whenDeleted": spec.retention, "whenScaled": "Retain"},
        },
        "myCnf": provided_cnf(spec.config),
        "tls": tls,
        "resources": delegate.resources(ctx, cpu="100m", memory="256Mi"),
        **delegate.placement(ctx, pods, several=is_cluster),
    }


def _external(ctx: Context[MariaDBSpec]) -> Plan:
    """Return the plan of an external MariaDB, with whose administrator our actuators make databases and accounts."""
    server = delegate.declared_server(ctx.spec.external)
    admin = delegate.external(ctx, server, "user", "root")
    host, port = server.host, server.port or PORT
    published = {"host": host, "port": str(port), **admin.published}
    return Plan(*admin.steps, endpoint=f"{host}:{port}", published=published)


def provided(ctx: Context[MariaDBSpec]) -> Plan | None:
    """Return the plan of a MariaDB that another provider runs; None for a builtin one. Raises SpecError if another
    provider has run it before.
    """
    stored = ctx.secret("root")
    return delegate.plan(ctx, OPERATOR, KIND, _delegated, _external, mariadb_operator=_RUNS in stored)


def ignored(ctx: Context[MariaDBSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the provider leaves without effect."""
    monitors = f"{OPERATOR} has its own monitors; see `metrics` of its MariaDB"
    log = f"{OPERATOR} runs the server; set log_bin in config"
    delegated = delegate.ignored_when_delegated(plan, OPERATOR, KIND, monitoring=monitors, binaryLog=log)
    elsewhere = delegate.ignored_elsewhere(ctx)
    if delegated or elsewhere or binary_log(ctx):
        return delegated | elsewhere
    return {"binaryLog.keepFor": "the server has no binary log; set binaryLog.enabled"}
