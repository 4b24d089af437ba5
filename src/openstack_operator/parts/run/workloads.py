"""The programs of a service: jobs, APIs and workers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ... import agents, kube
from ...api import ComponentSettings as Settings
from ...api import Expose, HttpApi
from ...plan import CLIENTS, RELEASE_ANNOTATION, SERVERS, Context, Key, Step, UnsupportedError, url_host
from ..component_names import release_entry, title
from ..expose.exposure import api_service, last_public_url, public_endpoint, public_host, public_url, through_proxy
from ..expose.front import SERVES, Clients, Queue, front
from ..expose.policies import api_ingress, ingress_policies
from ..secrets.tls import Certified
from .config import Config
from .size import Size, size_of


def state(ctx: Context[Any]) -> str:
    """Return the folder of a service's state in its image."""
    return f"/var/lib/{(ctx.programs or ctx.kind).lower()}"


@dataclass(frozen=True)
class Workers:
    """Processes and threads of an API's pod, and the share of a CPU they request."""

    processes: int = 1
    """Maximum; the user may set another number."""
    threads: int = 4
    """Threads of each process."""
    as_needed: bool = True
    """True if it begins with one process and starts more while all are busy, and ends them again. Not for APIs that
    need every process, and never for processes with several threads: uWSGI cannot wake the thread that waits for a
    connection, lets it take one more request, and kills the process in the middle of it.
    """
    cpu: str = "10m"
    """Request, by which CPUs are shared when all pods start at once, as after a power cut."""


@dataclass(frozen=True, kw_only=True)
class ReverseProxy:
    """A server in an API's pods that clients, or the TLS proxy, call in place of the program."""

    container: kube.Container
    """It listens at the address in its variable LISTEN: address:port."""
    command: str
    """Name of the program's command that serves only this server."""
    to: str
    """Address of the program in the pod: address:port."""


@dataclass(frozen=True, kw_only=True)
class ProgramSettings:
    """Settings of the pods of a program, besides its configuration and what the user sets."""

    memory: str = "160Mi"
    """Request of an API or a worker."""
    mounts: Sequence[kube.Mount] = ()
    """Beside those of its configuration."""
    env: Mapping[str, Any] = field(default_factory=dict[str, Any])
    containers: Sequence[kube.Container] = ()
    """Beside the program."""
    reverse_proxy: ReverseProxy | None = None
    wrapper: Sequence[str] = ()
    """Command of an API or a worker that becomes the program of the words after it."""
    cpu: str = "10m"
    """Request of a job, and of each of several workers, by which CPUs are shared when all start at once, as after a
    power cut."""
    self_url_env: str = ""
    """Variable of an API whose pods call each other, by address: the URL at which the others call this one."""
    init: Sequence[kube.Container] = ()
    """Containers of an API's pods that run, one after the other, before the program starts."""
    large: bool = False
    """True if an API writes whole images to the node's disk."""
    release_component: str = ""
    """Component of the release that an API or a job runs, if that has another name."""
    workers: Workers = Workers()
    """Processes of an API."""
    exposed: bool = True
    """True if clients outside reach an API as the spec says."""
    expose: Expose | None = None
    """Access for clients outside in place of the one in the spec."""
    alone: bool = False
    """True if a worker's pod has to be gone before another one starts."""
    one_release: bool = False
    """True if pods of a worker must not run beside those of another release, because they call each other."""
    stable: bool = False
    """True if a worker's pods keep their names (a StatefulSet), for services that list themselves in a database by host
    name and would leave a dead entry with every new pod."""
    copied: bool = False
    """True if a worker answers RPC and shares only a database with others of its kind (`Step.copied`)."""
    turn: int | None = None
    """Turn of a worker when it moves to another broker; unset is before clients if it is copied, else with them."""
    grace: int = 30
    """Seconds that a worker has to end."""
    retries: int = 6
    """Number of failures of a job after which its condition says why. It is tried again every few minutes."""


def job(
    ctx: Context[Any],
    name: str,
    command: Sequence[str],
    config: Config,
    *,
    after: Sequence[Step] = (),
    condition: str = "",
    program: ProgramSettings = ProgramSettings(),
) -> Step:
    """Work done once per image and command; not repeated when only the configuration changes. It runs in the image of
    the API, if the program names no other component.
    """
    main = kube.Container(
        entry=replace(release_entry(ctx, program.release_component or "api"), env={}),
        command=command,
        env=program.env,
        mounts=(*config.mounts, *program.mounts, *kube.scratch("/tmp", "/run", state(ctx))),  # noqa: S108
        cpu=program.cpu,
        memory="192Mi",
    )
    template = kube.pod(ctx, name, main, settings=kube.settings(ctx.spec), node_selector=kube.CONTROL_PLANE)
    return Step(
        name=condition or title(name),
        objects=(kube.job(ctx, name, template, retries=program.retries),),
        after=(config, *after),
        barrier=True,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Api(Step):
    """An HTTP API: pods, address, protection from disruption."""

    internal: str
    """URL inside the cluster, without a path."""
    public: str
    """URL for clients outside; the internal one if the API is not exposed."""
    certificate: Certified
    """Certificate that it presents to clients."""

    @property
    def published(self) -> dict[str, str]:
        """Contract for other resources."""
        return {"internalURL": self.internal, "publicURL": self.public, **self.certificate.published}


def api(
    ctx: Context[Any],
    component: str,
    port: int,
    config: Config,
    *,
    settings: Settings | None,
    health: str = "/healthcheck",
    after: Sequence[Step] = (),
    program: ProgramSettings = ProgramSettings(),
) -> Api:
    """Return Deployment, Service and PodDisruptionBudget `<owner>-<component>`; GET `health` tells that the API works.
    The kernel takes connections even while every worker is busy; only a dead master refuses them. Its HOME is a scratch
    folder unless it is a mount. Raises UnsupportedError if the image takes no number of processes.
    """
    spec, name, entry = ctx.spec, ctx.name(component), release_entry(ctx, program.release_component or component)
    expose: Expose = program.expose or (spec.expose if program.exposed else Expose())
    homes = () if any(mount.path == state(ctx) for mount in program.mounts) else (state(ctx),)
    size = size_of(ctx, "Deployment", component, settings)
    ending, last = ({"preStop": _hook(name, port)} for name in ("await_clients", "await_proxy"))
    proxy = program.reverse_proxy
    words = entry.commands[proxy.command] if proxy else entry.command
    queue = _queue(health, words, program, settings)
    clients = Clients(host=public_host(ctx, name, expose), proxied=through_proxy(expose), queue=queue)
    tls = front(ctx, component, port, entry, clients=clients, lifecycle=ending, self_url_env=program.self_url_env)
    at = f"{url_host(tls.listens)}:{port}"
    alive = None if tls else kube.Probe(tcp=port)
    main = kube.Container(
        entry=entry,
        command=[*program.wrapper, *_command(component, words, program.workers, settings, proxy.to if proxy else at)],
        env={"OS_OSLO_MESSAGING_RABBIT__PROCESSNAME": f"{ctx.kind.lower()}-{component}", **tls.env, **program.env},
        ports={"http": port},
        mounts=(*config.mounts, *kube.scratch("/tmp", "/run", *homes, large=program.large), *program.mounts),  # noqa: S108
        started=(started := kube.Probe.of_api(health, port, tls=bool(tls))),
        ready=kube.Probe.of_proxy(SERVES, port) if tls else started,
        alive=None if proxy else alive,
        lifecycle=last if tls or proxy else ending,
        memory=program.memory,
        peak=_peak(settings),
        cpu=program.workers.cpu,
    )
    beside = (*tls.containers, *_served(proxy, at, alive, last if tls else ending), *program.containers)
    pods = _pods(ctx, ("Deployment", component), (main, *beside), config, settings, size, program, **_SURGING)
    internal = f"{tls.scheme}://{ctx.host(name)}:{port}"
    return Api(
        name=title(component),
        substeps=(*tls.certificate.steps, *public_endpoint(ctx, component, port, expose, tls.certificate)),
        after=(config, *tls.certificate.pending, *after),
        objects=(
            pods,
            *_reached(ctx, component, port, expose, exposed=program.exposed or program.expose is not None),
            *tls.watched,
            *size.autoscaler(ctx, pods),
        ),
        internal=internal,
        public=public_url(ctx, component, port, expose, tls.scheme)
        or last_public_url(ctx, component, expose)
        or internal,
        certificate=tls.certificate,
    )


def _served(
    proxy: ReverseProxy | None, at: str, alive: kube.Probe | None, lifecycle: Mapping[str, Any]
) -> tuple[kube.Container, ...]:
    """Return the container that clients call instead of the program, if there is one."""
    if proxy is None:
        return ()
    env = {**proxy.container.env, "LISTEN": at}
    return (replace(proxy.container, env=env, alive=alive, lifecycle=lifecycle),)


def _reached(ctx: Context[Any], component: str, port: int, expose: Expose, *, exposed: bool) -> tuple[kube.Object, ...]:
    """Return an API's Service, its PodDisruptionBudget, and its NetworkPolicies."""
    name, target = ctx.name(component), kube.selector(ctx, component)
    short_names = [ctx.api_service] if ctx.api_service and component == "api" else []
    return (
        api_service(ctx, name, {"http": port}, target, expose),
        *(kube.service(ctx, each, {"http": port}, target) for each in short_names),
        kube.disruption_budget(ctx, name, target),
        *(ingress_policies(ctx, api_ingress(component, port, expose)) if exposed else ()),
    )


def _pods(
    ctx: Context[Any],
    workload: Key,
    containers: Sequence[kube.Container],
    config: Config,
    settings: Settings | None,
    size: Size,
    program: ProgramSettings,
    **spec: Any,
) -> kube.Object:
    """Return the workload `<owner>-<name>` of these containers."""
    kind, name = workload
    pod_settings = kube.settings(ctx.spec, settings)
    digest = {kube.CONFIG_DIGEST: config.digest}
    template = kube.placed(
        kube.pod(
            ctx, name, *containers, settings=pod_settings, init=program.init, annotations=digest, grace=program.grace
        ),
        pod_settings,
        kube.selector(ctx, name),
        several=size.several,
        replaceable=kind == "Deployment",
    )
    return kube.workload(ctx, kind, name, template, replicas=size.replicas, **spec)


_SLOWEST, _SLOWEST_IMAGE = 90, 600
"""Seconds that one request to an API may take: one that waits a minute for a compute node that is lost, and one that
sends or takes an image, for which the TLS proxy waits ten minutes."""


def _queue(health: str, words: Sequence[str], program: ProgramSettings, settings: Settings | None) -> Queue:
    """Return what the TLS proxy of an API has to know of it; no number of workers for one that serves by itself."""
    takes = any("{processes}" in word for word in words)
    return Queue(
        health=health,
        concurrency=_processes(program.workers, settings) * program.workers.threads if takes else 0,
        slowest=_SLOWEST_IMAGE if program.large else _SLOWEST,
    )


def _processes(workers: Workers, settings: Settings | None) -> int:
    return (settings.processes if isinstance(settings, HttpApi) else None) or workers.processes


def _command(
    component: str, words: Sequence[str], workers: Workers, settings: Settings | None, listens: str
) -> list[str]:
    """Return the command of an API, with its port and numbers of processes and threads filled in."""
    setting = settings.processes if isinstance(settings, HttpApi) else None
    takes = any("{processes}" in word for word in words)
    if setting and not takes:
        message = "this image has its own server; set its workers in spec.config"
        raise UnsupportedError(f"spec.{component}.processes", message)
    processes = _processes(workers, settings)
    command = [word.format(listen=listens, processes=processes, threads=workers.threads) for word in words]
    grows = takes and workers.as_needed and workers.threads == 1 and processes > 1
    return [*command, *(_AS_NEEDED if grows else ())]


def _peak(settings: Settings | None) -> str:
    """Return the memory of as many processes as the user sets; the largest take 200 MiB each. Empty if none are set."""
    processes = settings.processes if isinstance(settings, HttpApi) else None
    return f"{256 * processes}Mi" if processes else ""


_SURGING: Mapping[str, Any] = {
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
}

# Not Recreate: a Deployment that exists has limits of a rolling update, which the API server refuses beside that.
_AT_ONCE: Mapping[str, Any] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0}}
"""Strategy by which Kubernetes ends all old pods when it starts the first new one."""


def _changes_release(ctx: Context[Any], name: str) -> bool:
    """Return True while a worker's Deployment goes to another release, or back."""
    live = ctx.live("Deployment", name)
    runs = str((live["metadata"].get("annotations") or {}).get(RELEASE_ANNOTATION, "")) if live else ""
    return bool(ctx.upgrades_from) or runs not in ("", ctx.release.name)


# Processes that wait are no use while requests do not; each takes memory, and CPU to start.
_AS_NEEDED = ("--cheaper", "1", "--cheaper-overload", "3")


def _hook(program: str, port: int) -> dict[str, Any]:
    """Return a preStop hook. The TLS proxy, or a program without one, stops when no client is connected; a program
    behind the proxy stops after it.
    """
    return {"exec": {"command": agents.shell(f"api/{program}.sh", words=(str(port),), options="-c")}}


def worker(
    ctx: Context[Any],
    component: str,
    config: Config,
    *,
    settings: Settings | None,
    after: Sequence[Step] = (),
    ready: kube.Probe | None = None,
    name: str = "",
    program: ProgramSettings = ProgramSettings(),
) -> Step:
    """Return a Deployment of pods without an address: schedulers, conductors, agents; with a PodDisruptionBudget if
    there are several. `name` is given if it differs from the component's, as for each cell's conductor.
    """
    name = name or component
    kind = "StatefulSet" if program.stable else "Deployment"
    names: dict[str, Any] = {"serviceName": ctx.name(name), "podManagementPolicy": "Parallel"} if program.stable else {}
    if program.alone:
        names["strategy"] = {"type": "Recreate"}
    elif program.one_release and _changes_release(ctx, name):
        names["strategy"] = _AT_ONCE
    size, entry = size_of(ctx, kind, name, settings), release_entry(ctx, component)
    main = kube.Container(
        entry=entry,
        command=[*program.wrapper, *entry.command] if program.wrapper else (),
        env={"EVENTLET_NO_GREENDNS": "yes", **program.env},
        mounts=(*config.mounts, *kube.scratch("/tmp", "/run", state(ctx)), *program.mounts),  # noqa: S108
        ready=ready,
        memory=program.memory,
        cpu=program.cpu if size.several else "10m",
    )
    pods = _pods(ctx, (kind, name), (main, *program.containers), config, settings, size, program, **names)
    budget = [kube.disruption_budget(ctx, ctx.name(name), kube.selector(ctx, name))] if size.several else []
    turn = program.turn if program.turn is not None else SERVERS if program.copied else CLIENTS
    return Step(
        name=title(name),
        objects=(pods, *budget, *size.autoscaler(ctx, pods)),
        after=(config, *after),
        turn=turn,
        copied=program.copied,
    )


def connected(ports: Collection[int] = ()) -> kube.Probe:
    """Return the readiness probe of a program that only uses RPC: it has an established (01) connection to one of these
    ports of its broker, or to 5671 or 5672 (hexadecimal 1628). Without one it does nothing.
    """
    other_ports = [f"{port:04X}" for port in sorted(ports) if port not in _AMQP]
    hex_ports = "|".join([*other_ports, *(["162[78]"] if len(other_ports) < len(ports) else [])])
    pattern = ["-Eqs", f":({hex_ports}) 01 "] if other_ports else ["-qs", ":162[78] 01 "]
    return kube.Probe.of_worker(["grep", *pattern, "/proc/net/tcp", "/proc/net/tcp6"])


_AMQP = (5671, 5672)
