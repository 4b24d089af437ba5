"""The writes of a pass: objects as a plan describes them, and only what differs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import cast

import msgspec

from ...kube import HANDED_OVER, LAST_FAILURE, annotated, failure, fitting
from ...kube.objects import refused_of_owner
from ...plan import Object, SpecError, Step, Transient
from ...plan.steps import WORKLOADS
from ..cache.entries import Cached, Request, entry
from ..cache.trimmed_pods import trimmed
from ..cache.world import World
from ..guards.node_claims import NodeClaims
from ..kubernetes.errors import Conflict, Forbidden, Missing, NotAdmitted
from ..kubernetes.kinds import DAEMON_SET, DEPLOYMENT, JOB, POD, SECRET, SERVICE, STATEFUL_SET, VOLUME_CLAIM, Kind
from ..process import gather_errors
from .apply_cache import ApplyCache
from .compare import covers
from .finalizers import delete, is_alive, is_deletion_pending, orphan_pods
from .foreign_fields import ForeignFields
from .handover import hand_over, is_handed_over
from .jobs import has_message, message, retry_pause
from .live_fields import with_last_node_ports, with_live_volume_claims
from .missing_pods import nudge
from .owned import owned, stamp_of
from .refused_writes import not_admitted, not_served

APPLIED = "openstack.k8s.io/applied"
"""Annotation: digest of what was last applied, so that a pass without changes need not write."""

_STRANGER = "exists but was not created by the operator; delete or rename it"
_CLUSTER_IP = "ClusterIP"
_CONFLICTED = 5.0
"""Seconds after which to write again what a conflict kept from being written."""
_UNWATCHED = 60.0
"""Seconds after which to look again at something without a watch."""


class Applier:
    """A writer of the objects of one resource during one pass."""

    def __init__(  # noqa: PLR0913  (what a pass works with)
        self,
        world: World,
        apply_cache: ApplyCache,
        request: Request,
        owner: Cached,
        owner_kind: Kind,
        now: datetime,
        planned_from: Iterable[tuple[Kind, Cached]] = (),
        steady: datetime | None = None,
        *,
        node_claims: NodeClaims,
    ) -> None:
        self._world, self._node_claims, self._apply_cache = world, node_claims, apply_cache
        self._request = request
        self._owner, self._owner_kind = owner, owner_kind
        # By the clock of the machine, and by the one that only grows (`clock.steady`).
        self._now, self._steady = now, steady or now
        self._versions = {(kind, child.meta.name): child.meta.resource_version for kind, child in planned_from}
        """Versions of the objects the plan was made from."""
        self._labels = owner.meta.namespace, owner_kind.role.lower(), fitting(owner.meta.name)
        self.is_forbidden = False
        """True where the operator lacked a permission."""
        self.recheck_after: float | None = None
        """Seconds after which to look again, since no watch tells that it is time or that the way is free."""
        self.rotations: list[str] = []
        """Guarded objects whose content was replaced: keys that were rotated."""
        self.changes: list[str] = []
        """Objects that were written or deleted, as `Kind/name created`."""
        self.rollouts: list[str] = []
        """Workloads whose pods are replaced from now on, as Kind/name."""
        self.foreign = ForeignFields(world, apply_cache, request, owner.meta.uid, self._steady)
        self.contended_objects: list[tuple[Kind, str]] = []
        """Objects that another program keeps changing, each by its kind and name."""

    def is_present(self, step: Step) -> bool:
        """Return whether the workloads of the step exist, or all of it where it has none; others make its pods."""
        objects = step.workloads or [obj for obj in step.objects if obj["kind"] != POD.kind]
        return all(self._child(self._world.catalog.of(obj), obj) is not None for obj in objects)

    def replaces_pods(self, desired: Object) -> bool:
        """Return whether a workload exists and is to have another template than the operator applied last."""
        kind = self._world.catalog.of(desired)
        if (child := self._child(kind, desired)) is None:
            return False
        if child.meta.annotations.get(APPLIED) == stamp_of(self._body(kind, desired, child)):
            return False
        return not covers(desired["spec"]["template"], child.decode()["spec"]["template"])

    async def apply(self, step: Step) -> Sequence[Object]:
        """Write what differs and return the objects as they are now. Raises Transient when the API is out of reach,
        SpecError when it refuses or another owner has the object.
        """
        try:
            return await gather_errors(self._apply_object(obj, guarded=step.guarded) for obj in step.objects)
        except Forbidden:
            self.is_forbidden = True
            raise

    def _child(self, kind: Kind, obj: Object) -> Cached | None:
        return self._world.stores[kind].get(self._owner.meta.namespace, obj["metadata"]["name"])

    async def _apply_object(self, desired: Object, *, guarded: bool) -> Object:
        if desired["kind"] == POD.kind:
            return await self._apply_labels(desired)
        kind = self._world.catalog.of(desired)
        if is_handed_over(desired):
            return await hand_over(self._world, self._request, kind, desired, self._owner.meta.uid)
        child = await self._claim_nodes(kind, desired, guarded=guarded)
        if child and kind is JOB:
            child, desired = await self._retry_job(kind, child, desired)
        elif child and kind is STATEFUL_SET:
            desired, remaining = nudge(child, desired, self._apply_cache.lacks_pods_since, self._steady)
            if remaining:
                self.recheck_in(remaining)
        body = self._body(kind, desired, child)
        stamp = stamp_of(body)
        body["metadata"]["annotations"] = {**body["metadata"].get("annotations", {}), APPLIED: stamp}
        if child and (unchanged := await self._leave(kind, body, child, stamp)):
            return unchanged
        new = await self._replace(kind, body, child, stamp, guarded=guarded)
        return await self._with_log(kind, new, new.decode())

    async def _claim_nodes(self, kind: Kind, desired: Object, *, guarded: bool) -> Cached | None:
        """Return the object of this name, None if there is none yet. Raises SpecError for an object of another owner
        and for nodes that run agents of another cloud, Transient for an object that is being deleted.
        """
        child = self._child(kind, desired)
        # What is guarded is created, which fails where the name is taken.
        existing = child or (None if guarded else await self._find_unlabeled(kind, desired))
        if child and is_deletion_pending(kind, child) and child.meta.owner_labels == self._labels:
            await self._orphan_pods(kind, child)
        if existing:
            self._check(kind, existing, desired)
        if not child and kind is DAEMON_SET:
            self._node_claims.check(self._request, desired)
        return child

    async def _leave(self, kind: Kind, body: Object, child: Cached, stamp: str) -> Object | None:
        """Return the live object if nothing is to be written: it is as the operator applied it, or another program
        keeps changing it and has its pause. None for an object that differs.
        """
        live = child.decode()
        is_applied = child.meta.annotations.get(APPLIED) == stamp
        if is_applied and self._is_unchanged(body, child, live, stamp):
            child = await self.foreign.remove(kind, child, stamp)
            return await self._with_log(kind, child, child.decode())
        if pause := self._apply_cache.contention.pause(child.meta.uid, stamp, self._steady):
            self.recheck_in(pause)
            return await self._with_log(kind, child, live)
        return None

    async def _replace(self, kind: Kind, body: Object, child: Cached | None, stamp: str, *, guarded: bool) -> Cached:
        """Write the object, and return it as it is now."""
        written = await self._write(kind, body, child, guarded=guarded)
        new = entry(written, kind)
        self._world.stores[kind].put(new, by=self._request)
        new = await self.foreign.remove(kind, new, stamp)
        self._remember(kind, body, child)
        if child and self._apply_cache.contention.note(child.meta.uid, stamp, self._steady):
            self.contended_objects.append((kind, child.meta.name))
        if child is None and kind is SERVICE and body["spec"].get("type", _CLUSTER_IP) != _CLUSTER_IP:
            # It was given a port, which this plan could not know.
            self.recheck_in(0.0)
        if not covers(body, new.decode()):
            self._apply_cache.note_noop(new, stamp)
        return new

    async def _orphan_pods(self, kind: Kind, child: Cached) -> None:
        """Keep the pods of a workload that a user deleted. Raises Transient where its owner is being deleted, too."""
        if not await is_alive(self._world, self._request):
            raise Transient(f"{self._owner_kind.kind}/{self._owner.meta.name} is being deleted")
        await orphan_pods(self._world, self._request, kind, child)

    def _remember(self, kind: Kind, body: Object, child: Cached | None) -> None:
        """Note a write, and a roll-out that begins with it; the log and Events have them once the pass is over."""
        name = f"{kind.kind}/{body['metadata']['name']}"
        self.changes.append(f"{name} {'changed' if child else 'created'}")
        if not child or kind.kind not in WORKLOADS:
            return
        if not covers(body["spec"]["template"], child.decode()["spec"]["template"]):
            self._apply_cache.announced_rollouts.add(child.meta.uid)
            self.rollouts.append(name)

    def _is_unchanged(self, body: Object, child: Cached, live: Object, stamp: str) -> bool:
        """Return whether the object is as the operator applied it. Metadata may change without a new generation."""
        return covers(body, live) or (
            self._apply_cache.is_noop(child, stamp) and covers(body["metadata"], live["metadata"])
        )

    async def _apply_labels(self, desired: Object) -> Object:
        """Return the pod with its desired labels and annotations. One that is gone is no error: the pod in its place
        has another uid, and is in the next plan.
        """
        meta = desired["metadata"]
        pod = self._world.pods.get(self._owner.meta.namespace, meta["name"])
        if pod is None or pod.meta.uid != meta["uid"]:
            return desired
        stamp = stamp_of(desired)
        body = annotated(desired, {APPLIED: stamp})
        if pod.meta.annotations.get(APPLIED) == stamp and covers(body, pod.decode()):
            return pod.decode()
        try:
            written = await self._world.client.apply(POD, body)
        except (Conflict, Missing):
            # Of a pod that others write to all the time no watch may tell.
            self.recheck_in(_CONFLICTED)
            return desired
        new = trimmed(msgspec.json.encode(written), POD)
        self._world.pods.put(new, by=self._request)
        return new.decode()

    async def _retry_job(self, kind: Kind, job: Cached, desired: Object) -> tuple[Cached | None, Object]:
        """Return the live Job and the desired one. Delete one that failed some time ago, since its cause may be gone:
        it is tried again under the same name, and remembers how the last try ended.
        """
        live = await self._with_log(kind, job, job.decode())
        remaining = retry_pause(job.meta.uid, live, self._now, self._steady, self._apply_cache.failed_since)
        child, last_failure = cast("Cached | None", job), job.meta.annotations.get(LAST_FAILURE, "")
        if remaining:
            self.recheck_in(remaining)
        elif remaining is not None:
            await delete(self._world, kind, job, "Background", by=self._request)
            self.changes.append(f"{kind.kind}/{job.meta.name} deleted")
            child, last_failure = self._child(kind, desired), failure(live)
            if child:
                raise Transient(f"{kind.kind}/{job.meta.name} is being deleted")
        return child, annotated(desired, {LAST_FAILURE: last_failure}) if last_failure else desired

    def recheck_in(self, seconds: float) -> None:
        """Look again at the resource after so many seconds at the latest."""
        self.recheck_after = seconds if self.recheck_after is None else min(self.recheck_after, seconds)

    async def _find_unlabeled(self, kind: Kind, desired: Object) -> Cached | None:
        """Return another program's object of this name, without the label we watch by. To apply would take it over."""
        namespace, name = self._owner.meta.namespace, desired["metadata"]["name"]
        if kind in self._world.catalog.resources:
            return None
        if kind is SECRET and not self._world.budget.lacks(kind, namespace):
            return self._world.foreign.get(namespace, name)
        live = await self._world.client.get(kind, namespace, name)
        return entry(live, kind) if live else None

    def _body(self, kind: Kind, desired: Object, child: Cached | None) -> Object:
        """Return the object as it is to be; a StatefulSet keeps the claims it was made with."""
        body = owned(desired, self._owner.meta, self._owner_kind, self._labels)
        return with_live_volume_claims(body, child.decode()) if child and kind is STATEFUL_SET else body

    def _check(self, kind: Kind, existing: Cached, desired: Object) -> None:
        """Raise SpecError for an object of another owner, Transient for one that is being deleted."""
        name, controller = f"{kind.kind}/{existing.meta.name}", existing.meta.controller
        # A StatefulSet may control the claims of its members; what is wanted of them is only that they grow.
        is_of_set = kind is VOLUME_CLAIM and controller is not None and controller.kind == STATEFUL_SET.kind
        if controller is not None and controller.uid != self._owner.meta.uid and not is_of_set:
            is_resource = self._world.is_ours(controller.handle)
            role = self._world.resource(controller.handle).role if is_resource else ""
            # Of another group, too: one that is still there would have kept this one from being planned.
            if (role, controller.name) == (self._owner_kind.role, self._request.name):
                raise Transient(f"{name} of an earlier {controller.kind} of this name still exists")
            raise self._unwatched(
                SpecError(name, f"belongs to {controller.kind}/{controller.name}; rename one of the two")
            )
        # An object that stands for a Node may have been written before the Node came.
        precedes_owner = "ownerReferences" in desired["metadata"] and not existing.meta.owner_labels[1]
        if controller is None and existing.meta.owner_labels != self._labels and not precedes_owner:
            raise self._unwatched(SpecError(name, _STRANGER))
        # A claim that is still mounted serves until its pod ends; its verdict warns of that.
        if existing.meta.deletion_timestamp is not None and kind is not VOLUME_CLAIM:
            raise Transient(f"{name} is being deleted")

    async def _write(self, kind: Kind, body: Object, child: Cached | None, *, guarded: bool) -> Object:
        try:
            if guarded:
                return await self._write_guarded(kind, body, child)
            if kind is DEPLOYMENT and child and "replicas" not in body["spec"]:
                await self._disown_replicas(body, child)
            return await self._apply_body(kind, body, child)
        except NotAdmitted as error:
            raise self._unwatched(not_admitted(self._world.catalog, kind, body, error)) from None
        except SpecError as error:
            raise refused_of_owner(body, error) if kind in self._world.catalog.resources else error from None
        except Missing as error:
            raise self._unwatched(not_served(self._world.catalog, kind, body, error)) from None

    def _unwatched(self, error: Exception) -> Exception:
        """Return the error, and look again later: no watch tells when its cause is gone. A Transient one is tried again
        soon anyway.
        """
        if not isinstance(error, Transient):
            self.recheck_in(_UNWATCHED)
        return error

    async def _apply_body(self, kind: Kind, body: Object, child: Cached | None) -> Object:
        """Apply the body. Where the server refuses that since a user added entries to a list beside ours, as a port
        with another number and the same name, take over the lists first.
        """
        client = self._world.client
        last = self._world.stores[kind].last_deleted(self._owner.meta.namespace, body["metadata"]["name"])
        if last and kind is SERVICE and child is None:
            # Another Service may have one of them by now.
            with contextlib.suppress(SpecError):
                return await client.apply(kind, with_last_node_ports(body, last))
        try:
            return await client.apply(kind, body)
        except NotAdmitted:
            raise
        except SpecError:
            if child is None or "spec" not in body:
                raise
            metadata = {name: body["metadata"][name] for name in ("name", "namespace")} | {"uid": child.meta.uid}
            try:
                await client.merge(kind, {"metadata": metadata, "spec": body["spec"]})
            except SpecError:
                # It was not that; what the first answer says is right.
                pass
            else:
                return await client.apply(kind, body)
            raise

    async def _disown_replicas(self, body: Object, child: Cached) -> None:
        """Keep the number of pods when an autoscaler takes over: it would first fall to Kubernetes' default of one."""
        spec = {"replicas": child.decode()["spec"]["replicas"]}
        metadata = {name: body["metadata"][name] for name in ("name", "namespace")} | {"uid": child.meta.uid}
        with contextlib.suppress(Conflict):
            await self._world.client.disown_fields(DEPLOYMENT, {**body, "metadata": metadata, "spec": spec})

    async def _write_guarded(self, kind: Kind, body: Object, child: Cached | None) -> Object:
        """Create the object, or replace exactly the version that was read. Raises Conflict, a Transient."""
        client, name = self._world.client, body["metadata"]["name"]
        if (read := self._versions.get((kind, name))) and (child is None or read != child.meta.resource_version):
            # What was planned does not know of it yet, and would undo it: bring back the key that a user just deleted.
            raise Conflict(f"{kind.kind}/{name} was {'changed' if child else 'deleted'} meanwhile")
        if child is not None:
            if body.get("data") != child.decode().get("data"):
                self.rotations.append(f"{kind.kind}/{child.meta.name}")
            live_metadata = {"resourceVersion": child.meta.resource_version, "finalizers": list(child.meta.finalizers)}
            if mark := child.meta.annotations.get(HANDED_OVER):
                # By this a restore that is not over recognizes what it created.
                body = annotated(body, {HANDED_OVER: mark})
            return await client.replace(kind, {**body, "metadata": {**body["metadata"], **live_metadata}})
        try:
            return await client.create(kind, body)
        except Conflict:
            live = await client.get(kind, self._owner.meta.namespace, name)
            if live is None or entry(live, kind).meta.owner_labels == self._labels:
                # The store lacks it: for a moment, or since the cluster was put back and nothing showed it.
                self._world.list_again(kind)
                raise
            controller = entry(live, kind).meta.controller
            if controller is None or controller.uid != self._owner.meta.uid:
                raise SpecError(f"{kind.kind}/{name}", _STRANGER) from None
            # Ours, but a user removed its labels, so that no watch shows it; its content stays.
            labels = {**(live["metadata"].get("labels") or {}), **body["metadata"]["labels"]}
            return await client.replace(kind, {**live, "metadata": {**live["metadata"], "labels": labels}})

    async def _with_log(self, kind: Kind, child: Cached, live: Object) -> Object:
        """Return the object, a Job that has ended with what it said in `status.log`, where the readiness rule looks."""
        if kind is not JOB or not has_message(child, live):
            return live
        if child.meta.uid not in self._apply_cache.logs:
            self._apply_cache.logs[child.meta.uid] = await message(self._world, child, live)
        return {**live, "status": {**live["status"], "log": self._apply_cache.logs[child.meta.uid]}}
