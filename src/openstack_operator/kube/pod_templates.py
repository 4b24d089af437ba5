"""Pod templates: tight by default, opened only where a program says it needs more."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .. import agents
from ..api import ComponentSettings, PodSettings
from ..plan import Context, Object, ReleaseEntry, node_labels
from .objects import NAME, VERSION, drop_none, fitting, labels
from .pod_extras import PodExtras, pod_extras
from .resources import resources, storage_limit

CONTROL_PLANE = {"openstack-control-plane": "enabled"}
COMPUTE = {"openstack-compute-node": "enabled"}
NETWORK = {"openvswitch": "enabled"}
GATEWAY = {"openstack-gateway": "enabled"}

CONFIG_DIGEST = "openstack.k8s.io/config-digest"


@dataclass(frozen=True, kw_only=True)
class Mount:
    """Place of a file or folder in a container, and the volume it comes from."""

    name: str
    path: str
    volume: Mapping[str, Any] = field(default_factory=lambda: {"emptyDir": {}})
    """The volume's source as in a pod spec; empty where a StatefulSet brings the volume itself."""
    sub_path: str | None = None
    read_only: bool = False
    propagation: str | None = None
    large: bool = False
    """True if whole images, sorted tables or copies of volumes are written there."""


def scratch(*paths: str, large: bool = False) -> list[Mount]:
    """Return writable folders that vanish with the pod."""
    return [Mount(name="scratch", path=path, sub_path=path.strip("/").replace("/", "-"), large=large) for path in paths]


def in_memory(name: str, path: str, size: str = "1Mi") -> Mount:
    """Return a folder in memory for small files, each of which takes at least 4Ki: keys that a program reads as another
    user.
    """
    return Mount(name=name, path=path, volume={"emptyDir": {"medium": "Memory", "sizeLimit": size}})


def host(name: str, path: str, *, propagation: str | None = None, kind: str = "DirectoryOrCreate") -> Mount:
    """Return a folder of the node under the same path."""
    return Mount(name=name, path=path, volume={"hostPath": {"path": path, "type": kind}}, propagation=propagation)


def files(name: str, secret: str, directory: str, *keys: str) -> list[Mount]:
    """Return mounts of single files of a Secret among those that an image already has in `directory`."""
    volume = {"secret": {"secretName": secret, "defaultMode": 0o440}}
    return [Mount(name=name, path=f"{directory}/{key}", volume=volume, sub_path=key, read_only=True) for key in keys]


def folder(
    name: str, secret: str, directory: str, *, files: Mapping[str, str] | None = None, mode: int = 0o440
) -> Mount:
    """Return a whole Secret as a folder, or `files` made of its keys. It follows changes of the Secret without a
    restart.
    """
    items = {"items": [{"key": key, "path": file} for file, key in files.items()]} if files else {}
    volume = {"secret": {"secretName": secret, "defaultMode": mode, **items}}
    return Mount(name=name, path=directory, volume=volume, read_only=True)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Probe of a container; periods in seconds. A startup probe of one second keeps roll-outs short, since the kubelet
    probes readiness the moment it passes. Not on a node whose kubelet is younger than the period, though: there the
    first probe waits for up to a whole one (kubelet's prober spreads its probes after its own start).

    To start a program in a container costs some 60 ms of CPU, and after a power cut dozens of containers wait for
    others for a minute. So a startup probe's command retries by itself before it fails.
    """

    http: tuple[str, int] | None = None
    """(path, port)"""
    tls: bool = False
    """True if that port speaks HTTPS. Kubelet does not look at the certificate."""
    tcp: int | None = None
    command: Sequence[str] = ()
    timeout: int = 5
    period: int = 10
    failures: int = 3

    @classmethod
    def of_api(cls, path: str, port: int, *, tls: bool = False) -> Probe:
        """Return the probe of an API. Its few processes answer earlier requests first, so a busy one needs its time.
        Taken out of its Service, it would leave clients refused where it is the only one, and other pods busier still.
        """
        return cls(http=(path, port), tls=tls, timeout=60)

    @classmethod
    def of_proxy(cls, path: str, port: int) -> Probe:
        """Return the probe of an API whose TLS proxy asks it, and says at this path whether it works."""
        return cls(http=(path, port), tls=True, failures=2)

    @classmethod
    def of_worker(cls, command: Sequence[str], timeout: int = 5) -> Probe:
        """Return the probe of a program behind no Service. Only the status shows its result, and each probe is a
        process: a long period is enough, and two failures in a row count (docs/decisions/0042).
        """
        return cls(command=command, timeout=timeout, period=30, failures=2)

    @classmethod
    def of_connection(cls, port: int, command: Sequence[str]) -> Probe:
        """Return the probe of a program that takes connections, as the kernel does for a busy one: at a port for plain
        text, or where there is none (0) by a command that connects inside the container, since a TLS server logs a
        connection without a handshake as an error.
        """
        return cls(tcp=port) if port else cls(command=command)

    def render(self, **changes: int) -> Object:
        """Return the probe as a container spec has it."""
        return drop_none(
            {
                "httpGet": self._get() if self.http else None,
                "tcpSocket": {"port": self.tcp} if self.tcp else None,
                "exec": {"command": list(self.command)} if self.command else None,
                "timeoutSeconds": changes.get("timeout", self.timeout),
                "periodSeconds": changes.get("period", self.period),
                "failureThreshold": changes.get("failures", self.failures),
            }
        )

    def _get(self) -> Object:
        assert self.http is not None
        return {"path": self.http[0], "port": self.http[1], **({"scheme": "HTTPS"} if self.tls else {})}

    def render_alive(self) -> Object:
        """Return the probe as a liveness probe: a container that gives no answer for three minutes is restarted. A
        command is a process each time, and runs half as often.
        """
        often = {"period": 60, "failures": 3} if self.command else {"period": 30, "failures": 6}
        return self.render(**often, timeout=10)

    def render_start(self) -> Object:
        """Return the probe as a startup probe: every second, a command every three after a while, for about ten
        minutes.
        """
        if not self.command:
            return self.render(period=1, failures=600, timeout=min(self.timeout, 5))
        words = (*(str(number) for number in (self.timeout, _FAST_RUNS, _RUNS)), *self.command)
        repeated = replace(self, command=agents.shell(_PROGRAM, words=words, options="-c"))
        return repeated.render(period=1, failures=600 // _SECONDS, timeout=_SECONDS + _RUNS * self.timeout)


_PROGRAM = "probes/await_success.sh"
# Each run starts four processes.
_FAST_RUNS, _RUNS = 20, 40
_SECONDS = _FAST_RUNS + (_RUNS - _FAST_RUNS) * 3


def fails_after(probe: Mapping[str, Any]) -> int:
    """Return the least number of seconds for which a probe of a pod spec lets a container live that never answers."""
    is_repeated = agents.text(_PROGRAM) in ((probe.get("exec") or {}).get("command") or ())
    seconds = _SECONDS if is_repeated else probe.get("periodSeconds") or 10
    # The first run may come at once; 3 and 10 are Kubernetes' defaults.
    return probe.get("initialDelaySeconds", 0) + seconds * ((probe.get("failureThreshold") or 3) - 1)


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container of a pod."""

    entry: ReleaseEntry
    """Image, user and default command."""
    name: str = "main"
    command: Sequence[str] = ()
    """Unset takes the component's."""
    env: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict[str, "str | Mapping[str, Any]"])
    """Values, or `valueFrom` structures."""
    ports: Mapping[str, int] = field(default_factory=dict[str, int])
    mounts: Sequence[Mount] = ()
    ready: Probe | None = None
    started: Probe | None = None
    """Probe that ends its start, where it may take longer than ten minutes to be ready; unset takes `ready`."""
    alive: Probe | None = None
    """Must not fail for a program that is only busy."""
    lifecycle: Mapping[str, Any] | None = None
    memory: str = "128Mi"
    """Request, from what the program was measured to use; the limit follows from it."""
    peak: str = ""
    """Memory that its configuration allows the program, where that is more."""
    cpu: str = "10m"
    privileged: bool = False
    root: bool = False
    """Runs as uid 0."""
    capabilities: Sequence[str] = ()
    """Added to none."""
    writable_root: bool = False
    settings: PodSettings | None = None
    """Image and resources where they are not those of the pod: of a container beside the main one."""


def _env(env: Mapping[str, Any]) -> list[Object] | None:
    entries = [
        {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": dict(value)}
        for name, value in env.items()
    ]
    return entries or None


def _security(container: Container) -> Object:
    root = container.root or container.entry.uid == 0
    if container.privileged:
        return {"privileged": True, "runAsUser": 0 if root else container.entry.uid}
    return drop_none(
        {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": not container.writable_root,
            "runAsNonRoot": not root,
            "runAsUser": 0 if root else container.entry.uid,
            "runAsGroup": 0 if container.root else container.entry.gid,
            "capabilities": {"drop": ["ALL"], "add": list(container.capabilities) or None},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    )


def _container(container: Container, settings: PodSettings, user_env: Mapping[str, Any]) -> Object:
    ready, alive = container.ready, container.alive
    started = container.started or ready
    return drop_none(
        {
            "name": container.name,
            "image": settings.image or container.entry.image,
            "imagePullPolicy": "IfNotPresent",
            "command": list(container.command or container.entry.command) or None,
            "env": _env({**user_env, **container.entry.env, **container.env}),
            "ports": [{"name": name, "containerPort": port} for name, port in container.ports.items()] or None,
            "resources": resources(
                settings,
                cpu=container.cpu,
                memory=container.memory,
                peak=container.peak,
                storage=_storage(container.mounts),
            ),
            "securityContext": _security(container),
            # The last lines of a failed container's log stand in its status, where the operator reads them.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "startupProbe": started.render_start() if started else None,
            "readinessProbe": ready.render() if ready else None,
            "livenessProbe": alive.render_alive() if alive else None,
            "lifecycle": dict(container.lifecycle) if container.lifecycle else None,
            "volumeMounts": [_mount(mount) for mount in container.mounts] or None,
        }
    )


def _containers(containers: Sequence[Container], settings: PodSettings, extras: PodExtras) -> list[Object]:
    return [_container(each, extras.completed(each.settings or settings), extras.env) for each in containers]


def _storage(mounts: Sequence[Mount]) -> str:
    """Return how much a container may write to the disk of its node: its logs, and folders that vanish with the pod."""
    sizes = [str((mount.volume.get("emptyDir") or {}).get("sizeLimit", "0")) for mount in mounts]
    return storage_limit(sizes, large=any(mount.large for mount in mounts))


def _mount(mount: Mount) -> Object:
    return {
        "name": mount.name,
        "mountPath": mount.path,
        # Kubernetes replaces variables of the container in the latter.
        "subPathExpr" if "$(" in (mount.sub_path or "") else "subPath": mount.sub_path,
        "readOnly": mount.read_only or None,
        "mountPropagation": mount.propagation,
    }


def settings(service: PodSettings, component: PodSettings | None = None) -> PodSettings:
    """Return the settings of a component, completed by those of its service."""
    component_settings = component.model_dump(exclude_none=True) if component else {}
    merged = service.model_dump(exclude_none=True) | component_settings
    return PodSettings(**{name: merged[name] for name in PodSettings.model_fields if name in merged})


def replicas(service_replicas: int, component: ComponentSettings | None) -> int:
    """Return a component's own number of pods, or that of its service."""
    return service_replicas if component is None or component.replicas is None else component.replicas


def exclude_nodes(affinity: Mapping[str, Any] | None, labels: Mapping[str, str]) -> Object:
    """Return the affinity without the nodes that have all of the labels."""
    user_affinity: Object = dict(affinity or {})
    nodes: Object = user_affinity.get("nodeAffinity", {})
    required: Object = nodes.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    without = [{"key": key, "operator": "NotIn", "values": [value]} for key, value in labels.items()]
    # Terms are alternatives; the expressions in one hold together.
    terms = [
        {**term, "matchExpressions": [*term.get("matchExpressions", ()), expression]}
        for term in required.get("nodeSelectorTerms") or [{}]
        for expression in without
    ]
    required = {**required, "nodeSelectorTerms": terms}
    return {**user_affinity, "nodeAffinity": {**nodes, "requiredDuringSchedulingIgnoredDuringExecution": required}}


def pod(
    ctx: Context[Any],
    component: str,
    *containers: Container,
    settings: PodSettings,
    node_selector: Mapping[str, str] = CONTROL_PLANE,
    init: Sequence[Container] = (),
    annotations: Mapping[str, str] | None = None,
    grace: int = 30,
    **spec: Any,
) -> Object:
    """Return a pod template of a component. `spec` adds fields of a pod spec (hostNetwork, hostPID …)."""
    everyone = [*init, *containers]
    volumes = {mount.name: {"name": mount.name, **mount.volume} for c in everyone for mount in c.mounts if mount.volume}
    groups = {c.entry.gid for c in containers if not c.root and not c.privileged}
    host_network, labels_of_nodes = spec.get("hostNetwork"), ctx.permissions.node_labels
    recommended_labels = {
        NAME: fitting(f"{ctx.kind.lower()}-{component}"),
        VERSION: version_label(containers[0].entry, containers[0].settings or settings),
    }
    own_labels = labels(ctx, component) | recommended_labels
    own_variables = {name for c in everyone for name in (*c.entry.env, *c.env)}
    is_root_on_node = bool(host_network) or any(map(_reaches_node, everyone))
    extras = pod_extras(ctx, own_labels, own_variables, is_root_on_node=is_root_on_node)
    return drop_none(
        {
            "metadata": {
                "labels": {**extras.labels, **own_labels},
                "annotations": {**extras.annotations, **(annotations or {})} or None,
            },
            "spec": {
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "terminationGracePeriodSeconds": grace,
                "nodeSelector": node_labels.selector(
                    node_selector if settings.node_selector is None else settings.node_selector, labels_of_nodes
                ),
                "tolerations": settings.tolerations,
                "affinity": node_labels.affinity(settings.affinity, labels_of_nodes),
                "priorityClassName": settings.priority_class_name,
                "securityContext": {"fsGroup": groups.pop(), "fsGroupChangePolicy": "OnRootMismatch"}
                if len(groups) == 1
                else None,
                "dnsPolicy": "ClusterFirstWithHostNet" if host_network else None,
                # Names are written in full; a search through every domain would triple the lookups.
                "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
                # They run the image of the program.
                "initContainers": _containers(init, _without_size(settings), extras) or None,
                "containers": [
                    *_containers(containers[:1], settings, extras),
                    *_containers(containers[1:], _shared(settings), extras),
                ],
                "volumes": list(volumes.values()) or None,
                **spec,
            },
        }
    )


def _reaches_node(container: Container) -> bool:
    """Return True if a container is privileged, or has a folder of its node."""
    return container.privileged or any("hostPath" in mount.volume for mount in container.mounts)


_LABEL = re.compile("[A-Za-z0-9]([-A-Za-z0-9_.]{,61}[A-Za-z0-9])?")


def version_label(entry: ReleaseEntry, pod_settings: PodSettings) -> str | None:
    """Return the version for a pod's label: the tag, for an image of the user's. None if that cannot be a label."""
    image = pod_settings.image
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2] if image else entry.version
    return tag if _LABEL.fullmatch(tag) else None


def running_version(live: Object | None) -> str:
    """Return the version in the labels of a live workload's pods; empty if they have none."""
    template: Object = (live or {}).get("spec", {}).get("template", {})
    return str(((template.get("metadata") or {}).get("labels") or {}).get(VERSION, ""))


def _shared(pod_settings: PodSettings) -> PodSettings:
    """Return the settings of containers beside the main one: all but its image and size."""
    return pod_settings.model_copy(update={"image": None, "resources": None})


def _without_size(pod_settings: PodSettings) -> PodSettings:
    """Return the settings of containers that run the main one's image before it."""
    return pod_settings.model_copy(update={"resources": None})
