"""Cortex: pods that answer at one address, and a file with the pipelines that decide."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import kube, parts
from ...api import OptionalSecretRef
from ...parts.connect.sources import waits
from ...parts.expose.front import front
from ...parts.expose.short_name import with_cloud_pki
from ...plan import READY, Context, MissingReference, Plan, SpecError, State, Step, Verdict, url_host
from .model import CortexSpec, Pipeline

PORT = 8080
FOLDER = "/etc/cortex"
FILTERS = ("AvailabilityZoneFilter", "ComputeCapabilitiesFilter")
WEIGHERS = ("CPUWeigher", "DiskWeigher", "IoOpsWeigher", "NumInstancesWeigher", "RAMWeigher")
"""Filters and weighers of the reference implementation."""


def plan(ctx: Context[CortexSpec]) -> Plan:
    """Return everything a Cortex consists of; published: internalURL, and trustSecret (key `ca.crt`) if clients have to
    verify its certificate. Raise SpecError for an unknown filter or weigher, MissingReference for a missing Secret.
    """
    ctx = with_cloud_pki(ctx)
    spec, service, enabled = ctx.spec, ctx.name(), _enabled(ctx.spec)
    dependencies = waits(ctx)
    entry = ctx.release["cortex-api"]
    if spec.image:
        # The image has its own command.
        entry = replace(entry, commands={})
    else:
        _check_names(enabled)
    # It waits until no node sends new connections, and answers open requests after that.
    lifecycle = {"preStop": {"sleep": {"seconds": 3}}}
    tls = front(ctx, "api", PORT, entry, lifecycle=lifecycle, service=service)
    listen = f"{url_host(tls.listens)}:{PORT}"
    data = {"listen": listen, "pipelines": _dump(enabled), **(_inputs(spec) if spec.image else {})}
    conf = parts.written(ctx, {"cortex.json": json.dumps(data, indent=2) + "\n"}, directory=FOLDER)
    main = kube.Container(
        entry=entry,
        ports={"http": PORT},
        mounts=(*conf.mounts, *_logins(ctx), *kube.scratch("/tmp")),  # noqa: S108
        ready=kube.Probe.of_api("/up", PORT, tls=bool(tls)),
        alive=None if tls else kube.Probe(tcp=PORT),
        lifecycle=lifecycle,
        memory="32Mi",
    )
    pods = _pods(ctx, (main, *tls.containers), conf)
    selector = kube.selector(ctx, "api")
    address = kube.service(ctx, service, {"http": PORT}, selector)
    objects = (pods, address, kube.disruption_budget(ctx, service, selector), *tls.watched)
    after = (conf, *tls.certificate.pending, *dependencies)
    url = f"{tls.scheme}://{ctx.host(service)}:{PORT}"
    is_serving = kube.Rollout(ctx.live("Deployment", "api")).ready > 0
    return Plan(
        *parts.policies(ctx, parts.IngressRule("api", [PORT], "namespace")),
        *dependencies,
        _datasources(spec),
        conf,
        *tls.certificate.steps,
        Step(name="Pipelines", objects=objects, after=after),
        endpoint=url,
        published={"internalURL": url, **tls.certificate.published},
        details={"activePipelines": list(enabled) if is_serving else []},
    )


def _enabled(spec: CortexSpec) -> dict[str, Pipeline]:
    """Return the enabled pipelines, by service."""
    pipelines: Mapping[str, Pipeline] = {"nova": spec.pipelines.nova, "cinder": spec.pipelines.cinder}
    return {name: pipeline for name, pipeline in pipelines.items() if pipeline.enabled}


def _check_names(pipelines: Mapping[str, Pipeline]) -> None:
    """Raise SpecError for a filter or weigher that the reference implementation does not have."""
    for service, pipeline in pipelines.items():
        for field, items, choices in (
            ("filters", pipeline.filters, FILTERS),
            ("weighers", pipeline.weighers, WEIGHERS),
        ):
            for index, each in enumerate(items):
                if each.name not in choices:
                    message = (
                        f"the image has no {each.name!r}; choose from {', '.join(choices)}, or use an image with it"
                    )
                    raise SpecError(f"spec.pipelines.{service}.{field}[{index}].name", message)


def _dump(pipelines: Mapping[str, Pipeline]) -> dict[str, Any]:
    return {name: pipeline.model_dump(exclude={"enabled"}) for name, pipeline in pipelines.items()}


def _inputs(spec: CortexSpec) -> dict[str, Any]:
    """Return the further configuration of an image of Cortex itself, without secrets, which are in other files."""
    sources = {"prometheus": spec.datasources.prometheus, "nova": spec.datasources.nova}
    return {
        "datasources": {name: {"endpoint": source.endpoint} for name, source in sources.items() if source.enabled},
        **({"database": {"database": spec.database.database, "login": f"{FOLDER}/database"}} if spec.database else {}),
        **({"keystone": {"authUrl": spec.keystone.auth_url, "login": f"{FOLDER}/keystone"}} if spec.keystone else {}),
    }


def _logins(ctx: Context[CortexSpec]) -> list[kube.Mount]:
    """Return mounts of the Secrets of an image of Cortex itself, each a folder. Raise MissingReference."""
    spec = ctx.spec
    if spec.image is None:
        return []
    refs: dict[str, tuple[str, OptionalSecretRef]] = {}
    if spec.database:
        refs["database"] = "spec.database.secretRef", spec.database.secret_ref
    if spec.keystone:
        refs["keystone"] = "spec.keystone.appCredentialRef", spec.keystone.app_credential_ref
    for path, ref in refs.values():
        if ref.name not in ctx.secrets:
            raise MissingReference(f"{path}.name", f"there is no Secret {ref.name!r} in this namespace")
    return [kube.folder(name, ref.name, f"{FOLDER}/{name}") for name, (_, ref) in refs.items()]


def _datasources(spec: CortexSpec) -> Step:
    """Return a step that names the fields which the reference implementation does not read."""
    learns = spec.datasources.prometheus.enabled or spec.datasources.nova.enabled
    fields = {"database": spec.database, "keystone": spec.keystone, "datasources": learns}
    unread = [f"spec.{field}" for field, value in fields.items() if value] if spec.image is None else []
    text = f"the reference implementation does not use {', '.join(unread)}; set image to one of Cortex"
    return Step(name="Datasources", verdict=Verdict(State.READY, text) if unread else READY)


def _pods(ctx: Context[CortexSpec], containers: Sequence[kube.Container], conf: parts.Config) -> kube.Object:
    spec, selector = ctx.spec, kube.selector(ctx, "api")
    settings = kube.settings(spec)
    pod = kube.pod(ctx, "api", *containers, settings=settings, annotations={kube.CONFIG_DIGEST: conf.digest}, grace=45)
    template = kube.placed(pod, settings, selector, several=spec.replicas > 1, replaceable=True)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    return kube.workload(ctx, "Deployment", "api", template, replicas=spec.replicas, strategy=strategy)
