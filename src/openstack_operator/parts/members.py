"""Clusters: pods that keep their name and so their volume: members of a database, a broker, a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import kube
from ..api import PodSettings, UsesVolume
from ..plan import Context, Object, SpecError, Step
from .component_names import title
from .run.config import Config
from .secrets.tls import Certified

_VOLUME = "data"

POD_NAME = {"POD_NAME": {"fieldRef": {"fieldPath": "metadata.name"}}}
"""Environment of a member that needs to know its name; other variables may say `$(POD_NAME)` after it."""
PEER_TLS_PHASE = "openstack.k8s.io/among-members"
"""Annotation of pods whose members speak TLS to each other: the result of `Cluster.peer_tls` for them."""


@dataclass(frozen=True)
class Cluster:
    """Members of a service: the pods of StatefulSet `<owner>-<component>`, each with an address by a headless Service.

    A plan starts with it, gives the names to certificates, records and configuration, and ends with the step of the
    members (`step`), whose pod template is `template`.
    """

    ctx: Context[Any]
    component: str
    service: str
    """Name of the headless Service."""
    settings: PodSettings
    storage: UsesVolume | None
    """Size and class of the volume of each member; None if members have none."""
    path: str
    """Field of the spec that has `storage`."""

    @property
    def name(self) -> str:
        """Name of the StatefulSet."""
        return kube.fitting(self.ctx.name(self.component), kube.STATEFUL_SET_LIMIT)

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name of the StatefulSet."""
        return ("StatefulSet", self.name)

    @property
    def live(self) -> Object | None:
        """The StatefulSet in the cluster of Kubernetes."""
        return self.ctx.live("StatefulSet", self.component)

    @property
    def ready_replicas(self) -> int:
        """Number of members that are ready."""
        return kube.Rollout(self.live).ready

    @property
    def domain(self) -> str:
        """End of the host name of each member."""
        return self.ctx.host(self.service)

    @property
    def wildcard(self) -> str:
        """Name by which a certificate is valid for each member."""
        return f"*.{self.domain}"

    @property
    def own_host(self) -> str:
        """Host name of a member in its own environment, after POD_NAME."""
        return f"$(POD_NAME).{self.domain}"

    @property
    def host(self) -> str:
        """Host name of the Service of `endpoint`."""
        return self.ctx.host(self.ctx.name())

    def pod_names(self, count: int) -> list[str]:
        """Return the names of so many members, in order."""
        return [f"{self.name}-{ordinal}" for ordinal in range(count)]

    def hosts(self, count: int) -> list[str]:
        """Return the host names of so many members, in order."""
        return [f"{pod}.{self.domain}" for pod in self.pod_names(count)]

    def peer_tls(self, certificate: Certified, *, closes: bool, plain: bool = False) -> str:
        """Return how members speak to each other: empty is plain text, `tls` once every pod accepts both, and `only`,
        if plain text `closes`, once every pod speaks TLS. A new cluster begins with the last, unless its members speak
        `plain` text from before it.
        """
        if not certificate.published:
            return ""
        live = self.live
        if not closes or (live is None and plain):
            return "tls"
        if live is None:
            return "only"
        phase = (live["spec"]["template"]["metadata"].get("annotations") or {}).get(PEER_TLS_PHASE)
        return "only" if phase == "only" or (phase and not kube.Rollout(live).is_running) else "tls"

    def lasting_secret(self, suffix: str, data: Mapping[str, str]) -> Object:
        """Return Secret `<owner>-<suffix>` with what must be known as long as the volumes are there."""
        secret = kube.secret(self.ctx, self.ctx.name(suffix), data)
        return kube.retained(secret) if self.storage and self.storage.retention == "Retain" else secret

    def template(
        self,
        *containers: kube.Container,
        config: Config | None = None,
        annotations: Mapping[str, str] | None = None,
        grace: int = 30,
        watched: bool = False,
    ) -> Object:
        """Return the pod template of a member, which is replaced when `config` changes; the plan sees the pods in
        `ctx.pods` if they are `watched`.
        """
        notes = {**({kube.CONFIG_DIGEST: config.digest} if config else {}), **(annotations or {})}
        template = kube.pod(
            self.ctx, self.component, *containers, settings=self.settings, annotations=notes, grace=grace
        )
        if watched:
            template["metadata"]["labels"][kube.WATCHED] = "true"
        return template

    def step(
        self,
        template: Object,
        *,
        ports: Mapping[str, int],
        replicas: int,
        condition: str = "",
        after: Sequence[Step] = (),
        keeps_volumes: bool = True,
    ) -> Step:
        """Return the step of the StatefulSet and its headless Service; a drain evicts one of the pods at a time, and
        they run on different nodes if enough are available. Unless it `keeps_volumes`, that of a removed member goes
        with the member.
        """
        ctx, target = self.ctx, kube.selector(self.ctx, self.component)
        stateful_set = kube.workload(
            ctx,
            "StatefulSet",
            self.component,
            kube.placed(template, self.settings, target, several=replicas > 1, replaceable=False),
            replicas=replicas,
            serviceName=self.service,
            # Members that wait for one another must all be started; and starting them one by one only takes longer.
            podManagementPolicy="Parallel",
            **(_claims(self.storage, "Retain" if keeps_volumes else "Delete") if self.storage else {}),
        )
        return Step(
            name=condition or title(self.component),
            objects=(
                kube.service(ctx, self.service, ports, target, headless=True),
                stateful_set,
                kube.disruption_budget(ctx, ctx.name(self.component), target),
                *(self._larger_volume_claims(self.storage, replicas) if self.storage else ()),
            ),
            after=tuple(after),
        )

    def endpoint(
        self, ports: Mapping[str, int], *, labels: Mapping[str, str] | None = None, extra_objects: Sequence[Object] = ()
    ) -> Step:
        """Return the step of Service `<owner>`, behind which clients find any member that is ready, or those with
        further `labels`; `extra_objects` are of the same step.
        """
        target = {**kube.selector(self.ctx, self.component), **(labels or {})}
        return Step(name="Endpoint", objects=(kube.service(self.ctx, self.ctx.name(), ports, target), *extra_objects))

    def _larger_volume_claims(self, storage: UsesVolume, replicas: int) -> Sequence[Object]:
        """Return the members' claims, if they are to be larger than Kubernetes made them: a StatefulSet never changes
        its claims. They are marked as retained, since they belong to the StatefulSet and must not be deleted once they
        have their size.
        """
        if self.live is None:
            return ()
        requested_size = self.live["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
        if requested_size == storage.storage_size:
            return ()
        names = (f"{_VOLUME}-{pod}" for pod in self.pod_names(replicas))
        claims = [kube.obj(self.ctx, "PersistentVolumeClaim", name, spec=_claim(storage)) for name in names]
        return [kube.retained(kube.annotated(claim, {kube.FIELD: f"{self.path}.storageSize"})) for claim in claims]


def cluster(
    ctx: Context[Any],
    component: str = "server",
    service: str = "",
    *,
    settings: PodSettings | None = None,
    storage: UsesVolume | None = None,
    path: str = "spec",
) -> Cluster:
    """Return the cluster of a service, behind the headless Service `<owner>-members` unless it names another one.
    `settings` and `storage` replace those of the spec, for members with a section of their own, at `path`.
    """
    spec = ctx.spec
    return Cluster(
        ctx,
        component,
        service or ctx.name("members"),
        settings or kube.settings(spec),
        storage or (spec if isinstance(spec, UsesVolume) else None),
        path,
    )


def volume(path: str, folder: str) -> kube.Mount:
    """Return the mount of a member's own volume. It is a folder of the volume, since a new file system has a
    lost+found.
    """
    return kube.Mount(name=_VOLUME, path=path, volume={}, sub_path=folder)


def ordered_member(ctx: Context[Any], annotation: str, pods: Sequence[str]) -> str:
    """Return the member that the user's annotation names, for an order that one of them is to carry out; empty without
    the annotation. Raises SpecError if it names no member.
    """
    pod = ctx.annotations.get(annotation, "")
    if pod and pod not in pods:
        choice = f"choose from {', '.join(pods)}" if pods else "the service has one member only; remove this"
        raise SpecError(f"metadata.annotations[{annotation}]", f"there is no member {pod!r}; {choice}")
    return pod


def _claim(storage: UsesVolume) -> Object:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage.storage_class_name,
        "resources": {"requests": {"storage": storage.storage_size}},
    }


def _claims(storage: UsesVolume, when_scaled: str) -> Object:
    """Return the fields of a StatefulSet for one volume a member, and what becomes of that of a removed member."""
    return {
        "volumeClaimTemplates": [{"metadata": {"name": _VOLUME}, "spec": _claim(storage)}],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": storage.retention, "whenScaled": when_scaled},
    }
