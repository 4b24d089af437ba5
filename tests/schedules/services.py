"""The smallest services that use each mechanism of the engine: the toy cloud of the cluster tests, with bare pods."""

from __future__ import annotations

from typing import Any

from openstack_operator import kube, parts
from openstack_operator.plan import Context, Object, Plan, Service, Step
from tests.cluster import toy


def pod(ctx: Context[Any], component: str, config: str = "") -> Object:
    """Return a template of one container; the API server stores its CPU in another form."""
    container = {"name": "main", "image": "example.org/app:1", "resources": {"requests": {"cpu": "1000m"}}}
    return {
        "metadata": {"labels": kube.selector(ctx, component), "annotations": {kube.CONFIG_DIGEST: config}},
        "spec": {"containers": [container]},
    }


def plan_server(ctx: Context[toy.ServerSpec]) -> Plan:
    """Plan what must not be lost, and what uses it."""
    password = parts.credentials(ctx, "root", suffix="password", of_data=True)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = kube.obj(ctx, "PersistentVolumeClaim", ctx.name("data"), spec=claim)
    data = Step(name="Data", objects=(kube.annotated(volume, {kube.RETAIN: "true"}),))
    run = kube.workload(ctx, "StatefulSet", "db", pod(ctx, "db"), replicas=ctx.spec.replicas, serviceName=ctx.owner)
    published = {"host": ctx.host(ctx.owner), "adminSecret": password.secret}
    return Plan(password, data, Step(name="Server", objects=(run,), after=(password, data)), published=published)


def plan_app(ctx: Context[toy.AppSpec]) -> Plan:
    """Plan a Job before a Deployment, with a configuration that rolls it out, and a Service."""
    server = Step(name="Database", verdict=ctx.refs[ctx.spec.server].verdict)
    data = {"app.conf": f"host = {ctx.refs[ctx.spec.server]['host']}\n{ctx.spec.options}"}
    config = Step(name="Config", objects=(kube.secret(ctx, ctx.name("config"), data),))
    job = kube.job(ctx, "db-sync", pod(ctx, "db-sync", ctx.spec.options.get("schema", "")), retries=0)
    sync = Step(name="Schema", objects=(job,), after=(server, config), barrier=True)
    run = kube.workload(ctx, "Deployment", "api", pod(ctx, "api", kube.digest(data)), replicas=ctx.spec.replicas)
    port = kube.service(ctx, ctx.name("api"), {"api": 80}, kube.selector(ctx, "api"))
    url = "http://" + ctx.host(ctx.name("api"))
    api = Step(name="API", objects=(run, port), after=(sync,))
    return Plan(server, config, sync, api, published={"url": url}, endpoint=url)


SERVICES = (
    Service(resource=toy.SERVER, plan=plan_server),
    Service(resource=toy.APP, plan=plan_app),
    Service(resource=toy.STACK, plan=toy.plan_stack, teardown=True),
)
