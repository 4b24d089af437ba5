"""A cloud small enough to test the engine with: a Stack of a Server and an App, and an account outside Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

from pydantic import field_validator

from openstack_operator import kube, parts
from openstack_operator.api import Model, PodSettings, Ref, Replicas, Resource, SecretKeyRef
from openstack_operator.plan import Context, NameClaim, Outcome, Plan, Release, ReleaseEntry, SpecError, Step, Transient
from openstack_operator.plan.service import Actuator, Service

RELEASE = Release("2025.1", "debian", {"app": ReleaseEntry(image="example.org/app:1", uid=1000, gid=1000)})


class ServerRef(Ref):
    """A Server in the same namespace."""

    kind: ClassVar[str] = "Server"


class ServerSpec(Model):
    """Runs a server."""

    replicas: Replicas = 1
    """Number of pods."""
    exposed: bool = False
    """Whether it has a port on the nodes, and says which."""


class AppSpec(Model):
    """Runs an app against a server."""

    server: ServerRef = ServerRef(name="server")
    """The server."""
    replicas: Replicas = 1
    """Number of pods."""
    password: SecretKeyRef | None = None
    """A password of the user's own."""
    options: dict[str, str] = {}
    """Goes into the configuration."""

    @field_validator("options")
    @classmethod
    def _refused(cls, options: dict[str, str]) -> dict[str, str]:
        if "refused" in options:
            raise ValueError("refused is no option")
        return options


class StackSpec(Model):
    """A server with its app."""

    replicas: Replicas = 1
    """Number of pods of each."""
    options: dict[str, str] = {}
    """Handed to the app."""


class AccountSpec(Model):
    """An account on a server."""

    server: ServerRef = ServerRef(name="server")
    """The server."""
    user: str = "app"
    """Name of the account."""


class AccountStatus(Model):
    """What is known of an account besides."""

    accounts: int = 0
    """How many the server has."""


SERVER = Resource(kind="Server", plural="servers", spec=ServerSpec)
APP = Resource(kind="App", plural="apps", spec=AppSpec)
STACK = Resource(kind="Stack", plural="stacks", spec=StackSpec)
ACCOUNT = Resource(kind="Account", plural="accounts", spec=AccountSpec, status=AccountStatus)


def pod(ctx: Context[Any], component: str, config: str = "") -> dict[str, Any]:
    # 1000m is stored as 1: what the engine must not take for a difference.
    main = kube.Container(entry=ctx.release["app"], command=["sleep", "inf"], cpu="1000m")
    annotations = {kube.CONFIG_DIGEST: config} if config else None
    return kube.pod(ctx, component, main, settings=PodSettings(), annotations=annotations)


def plan_server(ctx: Context[ServerSpec]) -> Plan:
    password = parts.credentials(ctx, "root", suffix="password", of_data=True)
    run = kube.workload(ctx, "StatefulSet", "db", pod(ctx, "db"), replicas=ctx.spec.replicas, serviceName=ctx.owner)
    type_ = "NodePort" if ctx.spec.exposed else "ClusterIP"
    port = kube.service(ctx, ctx.owner, {"sql": 3306}, kube.selector(ctx, "db"), type_=type_)
    volume = kube.obj(
        ctx,
        "PersistentVolumeClaim",
        ctx.name("data"),
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    )
    data = Step(name="Data", objects=(kube.annotated(volume, {"openstack.k8s.io/retain": "true"}),))
    server = Step(name="Server", objects=(run, port), after=(password, data))
    published = {"host": ctx.host(ctx.owner), "adminSecret": password.secret}
    if (live := ctx.children.get(("Service", ctx.owner))) and ctx.spec.exposed:
        published["port"] = str(live["spec"]["ports"][0]["nodePort"])
    primary = next((live["metadata"]["name"] for live in ctx.pods if serving(live)), "")
    roles = {live["metadata"]["name"]: "primary" for live in ctx.pods if live["metadata"]["name"] == primary}
    labeled = [
        kube.labeled_pod(live, {"role": roles[name]} if name in roles else {}, {"seen": "yes"})
        for live in ctx.pods
        if (name := live["metadata"]["name"])
    ]
    members = [
        {"name": name, "role": roles.get(name, ""), "state": "serving" if serving(live) else "down"}
        for live in ctx.pods
        if (name := live["metadata"]["name"])
    ]
    roled = Step(name="Roles", objects=tuple(labeled))
    return Plan(password, data, server, roled, published=published, members=members)


def serving(live: dict[str, Any]) -> bool:
    """Whether a pod counts."""
    ready = kube.conditions(live).get("Ready", {})
    return ready.get("status") == "True" and "deletionTimestamp" not in live["metadata"]


def plan_app(ctx: Context[AppSpec]) -> Plan:
    if "boom" in ctx.spec.options:
        raise KeyError(ctx.spec.options["boom"])
    server = Step(name="Database", verdict=ctx.refs[ctx.spec.server].verdict)
    data = {"app.conf": f"host = {ctx.refs[ctx.spec.server]['host']}\n{ctx.spec.options}"}
    config = Step(name="Config", objects=(kube.secret(ctx, ctx.name("config"), data),))
    job = kube.job(ctx, "db-sync", pod(ctx, "db-sync", ctx.spec.options.get("schema", "")), retries=0)
    sync = Step(name="Schema", objects=(job,), after=(server, config), barrier=True)
    count = None if "autoscaled" in ctx.spec.options else ctx.spec.replicas
    run = kube.workload(ctx, "Deployment", "api", pod(ctx, "api", kube.digest(data)), replicas=count)
    port = kube.service(ctx, ctx.name("api"), {"api": 80}, kube.selector(ctx, "api"))
    agents = kube.workload(ctx, "DaemonSet", "agent", pod(ctx, "agent"))
    url = "http://" + ctx.host(ctx.name("api"))
    return Plan(
        server,
        config,
        sync,
        Step(name="API", objects=(run, port), after=(sync,)),
        Step(name="Agents", objects=(agents,), after=(sync,)),
        published={"url": url},
        endpoint=url,
    )


def plan_stack(ctx: Context[StackSpec]) -> Plan:
    def child(kind: str, name: str, **spec: Any) -> dict[str, Any]:
        return kube.obj(ctx, kind, name, SERVER.api_version, spec=spec)

    if "unplannable" in ctx.spec.options:
        raise ValueError("a fault of ours")
    return Plan(
        Step(name="Server", objects=(child("Server", "server", replicas=ctx.spec.replicas),)),
        Step(name="Account", objects=(child("Account", "account"),)),
        Step(name="App", objects=(child("App", "app", replicas=ctx.spec.replicas, options=ctx.spec.options),)),
    )


@dataclass
class Remote:
    """The server's accounts as they are out there, and whether it can be reached."""

    accounts: dict[str, str] = field(default_factory=dict[str, str])
    """Name to the root password it was made with."""
    down: bool = False
    removed: list[str] = field(default_factory=list[str])

    def ensure(self, ctx: Context[AccountSpec]) -> Sequence[str]:
        if self.down:
            raise Transient("server does not answer")
        if ctx.spec.user == "refused":
            raise SpecError("spec.user", "the server has no such name")
        password = ctx.secrets[ctx.refs[ctx.spec.server]["adminSecret"]]["root"]
        if self.accounts.get(ctx.spec.user) == password:
            return ()
        self.accounts[ctx.spec.user] = password
        return (f"account {ctx.spec.user} created",)

    def observe(self, ctx: Context[AccountSpec]) -> Outcome:
        del ctx
        return Outcome(details={"accounts": len(self.accounts)})

    def remove(self, ctx: Context[AccountSpec]) -> None:
        if self.down:
            raise Transient("server does not answer")
        self.accounts.pop(ctx.spec.user, None)
        self.removed.append(ctx.spec.user)


SERVICES = (
    Service(resource=SERVER, plan=plan_server),
    Service(resource=APP, plan=plan_app),
    Service(resource=STACK, plan=plan_stack, teardown=True),
)
RESOURCES = (SERVER, APP, STACK, ACCOUNT)


def claims(spec: Mapping[str, Any]) -> Sequence[NameClaim]:
    """The account's name, whatever its case."""
    name: str = spec.get("user", "app")
    return (NameClaim("spec.user", f"account {name!r}", ("Server", "server", name.lower())),)


def actuators(remote: Remote, interval: float = 60) -> tuple[Actuator, ...]:
    period = timedelta(seconds=interval)
    return (
        Actuator(
            resource=ACCOUNT,
            ensure=remote.ensure,
            remove=remote.remove,
            observe=remote.observe,
            claims=claims,
            interval=period,
        ),
    )
