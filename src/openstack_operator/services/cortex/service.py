"""Cortex: pods that answer at one address; what they decide by is a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import kube, parts
from ...api import OptionalSecretRef
from ...plan import READY, Context, MissingReference, Plan, SpecError, State, Step, Verdict
from .model import CortexSpec, Pipeline

PORT = 8080
FOLDER = "/etc/cortex"
FILTERS = ("AvailabilityZoneFilter", "ComputeCapabilitiesFilter")
WEIGHERS = ("CPUWeigher", "DiskWeigher", "IoOpsWeigher", "NumInstancesWeigher", "RAMWeigher")
"""What the reference implementation knows."""


def plan(ctx: Context[CortexSpec]) -> Plan:
    """Everything a Cortex is made of; published: internalURL, and trustSecret (key `ca.crt`) where clients are to check
    its certificate. Raises SpecError for a filter or weigher nobody has, MissingReference for a Secret that is missing.
    """
    spec, service, enabled = ctx.spec, kube.fitting(ctx.owner), _enabled(ctx.spec)
    needed = parts.waits(ctx)
    program = ctx.release["cortex-api"]
    if spec.image:
        # Whatever it is started by.
        program = replace(program, commands={})
    else:
        _known(enabled)
    # Until no node sends it another connection; what it was asked it answers after that.
    ending = {"preStop": {"sleep": {"seconds": 3}}}
    tls = parts.front(ctx, "api", PORT, program, host="", lifecycle=ending, service=service)
    told = {"listen": f"{tls.listens}:{PORT}", "pipelines": _told(enabled), **(_learning(spec) if spec.image else {})}
    conf = parts.written(ctx, {"cortex.json": json.dumps(told, indent=2) + "\n"}, directory=FOLDER)
    main = kube.Container(
        component=program,
        ports={"http": PORT},
        mounts=(*conf.mounts, *_logins(ctx), *kube.scratch("/tmp")),  # noqa: S108
        ready=kube.Probe.of_api("/up", PORT, tls=bool(tls)),
        alive=None if tls else kube.Probe(tcp=PORT),
        lifecycle=ending,
        memory="32Mi",
    )
    pods = _pods(ctx, (main, *tls.containers), conf)
    reached = kube.selector(ctx, "api")
    address = kube.service(ctx, service, {"http": PORT}, reached)
    objects = (pods, address, kube.disruption_budget(ctx, service, reached), *tls.watched)
    after = (conf, *tls.certificate.pending, *needed)
    url = f"{tls.scheme}://{ctx.host(service)}:{PORT}"
    live = ctx.children.get(("Deployment", pods["metadata"]["name"]), {})
    answers = (live.get("status") or {}).get("readyReplicas", 0) > 0
    return Plan(
        *parts.policies(ctx, parts.Way("api", [PORT], "namespace")),
        *needed,
        _datasources(spec),
        conf,
        *tls.certificate.steps,
        Step(name="Pipelines", objects=objects, after=after),
        endpoint=url,
        published={"internalURL": url, **tls.certificate.published},
        details={"activePipelines": list(enabled) if answers else []},
    )


def _enabled(spec: CortexSpec) -> dict[str, Pipeline]:
    """Pipelines that are to answer, by service."""
    found: Mapping[str, Pipeline] = {"nova": spec.pipelines.nova, "cinder": spec.pipelines.cinder}
    return {name: pipeline for name, pipeline in found.items() if pipeline.enabled}


def _known(pipelines: Mapping[str, Pipeline]) -> None:
    """Raises SpecError for what the reference implementation does not know."""
    for service, pipeline in pipelines.items():
        for field, found, choices in (
            ("filters", pipeline.filters, FILTERS),
            ("weighers", pipeline.weighers, WEIGHERS),
        ):
            for index, each in enumerate(found):
                if each.name not in choices:
                    message = (
                        f"there is no {each.name!r}; choose from {', '.join(choices)}, or name an image that has it"
                    )
                    raise SpecError(f"spec.pipelines.{service}.{field}[{index}].name", message)


def _told(pipelines: Mapping[str, Pipeline]) -> dict[str, Any]:
    return {name: pipeline.model_dump(exclude={"enabled"}) for name, pipeline in pipelines.items()}


def _learning(spec: CortexSpec) -> dict[str, Any]:
    """What an image of Cortex itself is told besides; secrets are beside it."""
    sources = {"prometheus": spec.datasources.prometheus, "nova": spec.datasources.nova}
    return {
        "datasources": {name: {"endpoint": source.endpoint} for name, source in sources.items() if source.enabled},
        **({"database": {"database": spec.database.database, "login": f"{FOLDER}/database"}} if spec.database else {}),
        **({"keystone": {"authUrl": spec.keystone.auth_url, "login": f"{FOLDER}/keystone"}} if spec.keystone else {}),
    }


def _logins(ctx: Context[CortexSpec]) -> list[kube.Mount]:
    """Secrets of an image of Cortex itself, each a folder. Raises MissingReference."""
    spec = ctx.spec
    if spec.image is None:
        return []
    wanted: dict[str, tuple[str, OptionalSecretRef]] = {}
    if spec.database:
        wanted["database"] = "spec.database.secretRef", spec.database.secret_ref
    if spec.keystone:
        wanted["keystone"] = "spec.keystone.appCredentialRef", spec.keystone.app_credential_ref
    for path, ref in wanted.values():
        if ref.name not in ctx.secrets:
            raise MissingReference(f"{path}.name", f"there is no Secret {ref.name!r} in this namespace")
    return [kube.folder(name, ref.name, f"{FOLDER}/{name}") for name, (_, ref) in wanted.items()]


def _datasources(spec: CortexSpec) -> Step:
    """Says what is written and nobody reads."""
    learns = spec.datasources.prometheus.enabled or spec.datasources.nova.enabled
    given = {"database": spec.database, "keystone": spec.keystone, "datasources": learns}
    unread = [f"spec.{field}" for field, value in given.items() if value] if spec.image is None else []
    text = (
        f"the reference implementation learns nothing and reads no {', '.join(unread)}; name an image of Cortex itself"
    )
    return Step(name="Datasources", verdict=Verdict(State.READY, text) if unread else READY)


def _pods(ctx: Context[CortexSpec], containers: Sequence[kube.Container], conf: parts.Config) -> kube.Object:
    spec, selector = ctx.spec, kube.selector(ctx, "api")
    wanted = kube.settings(spec)
    template = kube.pod(ctx, "api", *containers, wanted=wanted, annotations={kube.CONFIG_DIGEST: conf.digest}, grace=45)
    placed = kube.placed(template, wanted, selector, several=spec.replicas > 1, replaceable=True)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    return kube.workload(ctx, "Deployment", "api", placed, replicas=spec.replicas, strategy=strategy)
