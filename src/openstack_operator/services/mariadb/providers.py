"""A MariaDB that mariadb-operator runs, or that is not looked after here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ... import kube, parts
from ...plan import Context, Plan, SpecError, Step
from .config import PORT, provided_cnf
from .model import MariaDBSpec

API, THEIRS = "k8s.mariadb.com/v1alpha1", "MariaDB.k8s.mariadb.com"
OPERATOR = "mariadb-operator"
_RUNS = "ran"
"""Key of the Secret with the root password: since when there is data."""


def provider(ctx: Context[MariaDBSpec]) -> str:
    """Who runs it. Raises SpecError where that was somebody else before."""
    held = kube.secret_data(ctx.children.get(("Secret", kube.fitting(ctx.name("root")))))
    return parts.provider(
        ctx,
        OPERATOR,
        THEIRS,
        builtin=("Secret", kube.fitting(ctx.name("credentials"))) in ctx.children,
        mariadb_operator=(THEIRS, kube.fitting(ctx.owner)) in ctx.children or _RUNS in held,
        external=("Secret", kube.fitting(ctx.name("admin"))) in ctx.children,
    )


def delegated(ctx: Context[MariaDBSpec]) -> Plan:
    """MariaDB of k8s.mariadb.com with a root password of ours; published as of a builtin one, with the name of that
    resource, which makes databases and accounts.
    """
    spec, name = ctx.spec, kube.fitting(ctx.owner)
    several = spec.replicas > 1
    live = ctx.children.get((THEIRS, name))
    if live and several and not live["spec"].get("galera"):
        raise SpecError("spec.replicas", "mariadb-operator makes no cluster of a single server; set 1 again")
    # An account of the data directory, written in SQL as it is: what is drawn has no quotes.
    creds = parts.credentials(
        ctx,
        "root",
        suffix="root",
        given={_RUNS: "true"} if live else None,
        retain=spec.retention == "Retain",
        of_data=True,
    )
    creds = replace(creds, objects=_watched(creds))
    # A cluster's first Service reaches any member, and one member is to take all writes.
    service = f"{name}-primary" if several else name
    shown = parts.certified(
        ctx,
        service,
        workloads=[(THEIRS, name)],
        members=f"{name}-internal",
        also=[ctx.host(each) for each in (name, f"{name}-primary", f"{name}-secondary")],
        calls=True,
    )
    certificate = tuple(replace(step, objects=_watched(step)) for step in shown.steps)
    wanted = parts.served_by(ctx, "MariaDB", name, API, _spec(ctx, creds, shown))
    server = Step(name="Server", objects=(wanted,), after=(creds, *certificate))
    host = ctx.host(service)
    return Plan(
        creds,
        *certificate,
        server,
        endpoint=f"{host}:{PORT}",
        published={
            "host": host,
            "port": str(PORT),
            "adminSecret": creds.secret,
            parts.MARIADB: name,
            **shown.published,
        },
    )


def _watched(step: Step) -> tuple[kube.Object, ...]:
    """The step's objects, Secrets so that mariadb-operator sees them change."""
    return tuple(
        parts.labeled(each, parts.WATCHED_BY_MARIADB) if each["kind"] == "Secret" else each for each in step.objects
    )


def _spec(ctx: Context[MariaDBSpec], creds: parts.Credentials, shown: parts.Certified) -> dict[str, Any]:
    spec, several = ctx.spec, ctx.spec.replicas > 1
    pods = {"app.kubernetes.io/name": "mariadb", "app.kubernetes.io/instance": kube.fitting(ctx.owner)}
    # Unset would be encrypted, by an authority nobody else knows.
    tls: dict[str, Any] = {"enabled": bool(shown)}
    if shown:
        secret = {"name": shown.secret}
        tls |= {"required": shown.required, "serverCertSecretRef": secret, "serverCASecretRef": secret}
    return {
        "image": parts.image(ctx, "mariadb"),
        "imagePullPolicy": "IfNotPresent",
        "replicas": spec.replicas,
        # What it keeps of Galera's configuration needs no volume of its own.
        "galera": {"enabled": True, "config": {"reuseStorageVolume": True}} if several else None,
        "podDisruptionBudget": {"maxUnavailable": 1} if several else None,
        "rootPasswordSecretKeyRef": creds.ref("root"),
        "storage": {
            "size": spec.storage_size,
            "storageClassName": spec.storage_class_name,
            "pvcRetentionPolicy": {"whenDeleted": spec.retention, "whenScaled": "Retain"},
        },
        "myCnf": provided_cnf(spec.config),
        "tls": tls,
        "resources": parts.sized(ctx, cpu="100m", memory="256Mi"),
        **parts.placed_by_others(ctx, pods, several=several),
    }


def external(ctx: Context[MariaDBSpec]) -> Plan:
    """The address of a MariaDB and its administrator, by whom our actuators make databases and accounts."""
    server = parts.declared_server(ctx.spec.external)
    found = parts.external(ctx, server, "user", "root")
    host, port = server.host, server.port or PORT
    published = {"host": host, "port": str(port), **found.published}
    return Plan(*found.steps, endpoint=f"{host}:{port}", published=published)
