"""Makes objects as a plan wants them, and writes only what differs."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from ..kube import (
    FIELD,
    INSTANCE,
    KIND,
    LAST_FAILURE,
    MANAGED_BY,
    RECREATED,
    RETAIN,
    annotated,
    failure,
    fitting,
    next_try,
)
from ..kube.objects import refused_of_owner
from ..plan import Incomplete, Key, Object, Plan, SpecError, Step, Transient, key
from ..plan.steps import WORKLOADS
from .carry_over import with_last_node_ports, with_live_claims
from .client import Conflict, Forbidden, Missing, NotAdmitted
from .compare import covers
from .finalizers import delete, finish_deletion, is_deletion_pending, is_there, orphan_pods
from .jobs import last_words
from .kinds import CLAIM, DAEMON_SET, DEPLOYMENT, JOB, OTHERS, POD, SECRET, SERVICE, STATEFUL_SET, Kind
from .memo import Memo
from .pods import trimmed
from .process import together
from .shortage import asked
from .store import Cached, Request
from .world import World, entry

APPLIED = "openstack.k8s.io/applied"
"""Annotation: digest of what was last applied, so that a pass without changes need not write."""

_STRANGER = "exists and was not made by the operator; delete it, or give one of the two another name"
_GROW = "; a volume grows where its StorageClass has allowVolumeExpansion: true, and stays as it is until then"
_INSIDE = "ClusterIP"
_C5C3 = "kubectl apply --server-side -f deploy/crds-c5c3"
_UNWATCHED = 60.0
"""Seconds after which to look again at what no watch tells of."""


class Applier:
    """Writes the objects of one resource during one pass."""

    def __init__(
        self,
        world: World,
        memo: Memo,
        request: Request,
        owner: Cached,
        owner_kind: Kind,
        now: datetime,
        seen: Iterable[tuple[Kind, Cached]] = (),
    ) -> None:
        self._world = world
        self._memo = memo
        self._request = request
        self._owner = owner
        self._owner_kind = owner_kind
        self._now = now
        self._seen = {(kind, child.meta.name): child.meta.resource_version for kind, child in seen}
        """Versions of the objects the plan was made from."""
        self._labels = owner.meta.namespace, owner_kind.role.lower(), fitting(owner.meta.name)
        self.forbidden = False
        """Whether a permission was missing."""
        self.again: float | None = None
        """Seconds after which to come again, since no watch will tell that it is time or that the way is free."""
        self.renewed: list[str] = []
        """Guarded objects whose content was replaced: keys that were rotated."""
        self.changes: list[str] = []
        """Objects that were written or deleted, as `Kind/name created`."""
        self.rollouts: list[str] = []
        """Workloads whose pods are replaced from now on, as Kind/name."""
        self.contended: list[tuple[Kind, str]] = []
        """Objects that another program keeps changing, each by its kind and name."""

    def present(self, step: Step) -> bool:
        """Whether the workloads of the step exist, all of it where it has none; pods do, since others make them."""
        made = step.workloads or [obj for obj in step.objects if obj["kind"] != POD.kind]
        return all(self._held(self._world.catalog.of(obj), obj) is not None for obj in made)

    def replaces_pods(self, wanted: Object) -> bool:
        """Whether a workload that exists is to have another template than was applied last."""
        kind = self._world.catalog.of(wanted)
        if (held := self._held(kind, wanted)) is None:
            return False
        if held.meta.annotations.get(APPLIED) == _stamp(self._body(kind, wanted, held)):
            return False
        return not covers(wanted["spec"]["template"], held.decode()["spec"]["template"])

    async def apply(self, step: Step) -> Sequence[Object]:
        """Writes what differs and returns the objects as they are now.

        Raises Transient when the API is out of reach, SpecError when it refuses or another owner has the object.
        """
        try:
            return await together(self._one(obj, guarded=step.guarded) for obj in step.objects)
        except Forbidden:
            self.forbidden = True
            raise

    async def prune(self, plan: Plan, children: Iterable[tuple[Kind, Cached]]) -> None:
        """Deletes owned objects the plan does not hold. Raises Transient."""
        wanted = {key(obj) for obj in plan.objects}
        there = [each for each in children if each[0] not in self._world.forbidden(self._owner.meta.namespace)]
        await together(self._delete(kind, child) for kind, child in there if self._obsolete(kind, child, wanted))
        await together(
            finish_deletion(self._world, self._request, kind, child)
            for kind, child in there
            if (kind.handle, child.meta.name) not in wanted
        )

    def _obsolete(self, kind: Kind, child: Cached, wanted: set[Key]) -> bool:
        meta = child.meta
        kept = (meta.controller is None and meta.node is None) or meta.annotations.get(RETAIN) == "true"
        return not kept and meta.deletion_timestamp is None and (kind.handle, meta.name) not in wanted

    async def _delete(self, kind: Kind, child: Cached) -> None:
        await delete(self._world, kind, child, "Background", by=self._request)
        if left := self._world.stores[kind].get(child.meta.namespace, child.meta.name):
            await finish_deletion(self._world, self._request, kind, left)
        self._world.stores[kind].give_up(child)
        self.changes.append(f"{kind.kind}/{child.meta.name} deleted")

    def _held(self, kind: Kind, obj: Object) -> Cached | None:
        return self._world.stores[kind].get(self._owner.meta.namespace, obj["metadata"]["name"])

    async def _one(self, wanted: Object, *, guarded: bool) -> Object:
        if wanted["kind"] == POD.kind:
            return await self._labeled(wanted)
        kind = self._world.catalog.of(wanted)
        held: Cached | None = self._held(kind, wanted)
        # What is guarded is created, which fails where the name is taken.
        found = held or (None if guarded else await self._unlabeled(kind, wanted))
        if held and is_deletion_pending(kind, held) and held.meta.owner_labels == self._labels:
            await self._orphan_pods(kind, held)
        if found:
            self._check(kind, found, wanted)
        if not held and kind is DAEMON_SET:
            self._world.claims.check(self._request, wanted)
        if held and kind is JOB:
            held, wanted = await self._tried(kind, held, wanted)
        elif held and kind is STATEFUL_SET:
            wanted, left = asked(held, wanted, self._memo.short, self._now)
            if left:
                self._come_again(left)
        live = held.decode() if held else None
        body = self._body(kind, wanted, held)
        stamp = _stamp(body)
        body["metadata"]["annotations"] = {**body["metadata"].get("annotations", {}), APPLIED: stamp}
        applied = held is not None and held.meta.annotations.get(APPLIED) == stamp
        if held and live and applied and self._as_applied(body, held, live, stamp):
            return await self._judged(kind, held, live)
        if held and live and (pause := self._memo.contention.pause(held.meta.uid, stamp, self._now)):
            self._come_again(pause)
            return await self._judged(kind, held, live)
        written = await self._write(kind, body, held, guarded=guarded)
        new = entry(written, kind)
        self._world.stores[kind].put(new, by=self._request)
        result = new.decode()
        self._remember(kind, body, held, live)
        if held and self._memo.contention.note(held.meta.uid, stamp, self._now):
            self.contended.append((kind, held.meta.name))
        if held is None and kind is SERVICE and body["spec"].get("type", _INSIDE) != _INSIDE:
            # It was given a port, which this plan could not know.
            self._come_again(0.0)
        if not covers(body, result):
            self._memo.learn(new, stamp)
        return await self._judged(kind, new, result)

    async def _orphan_pods(self, kind: Kind, held: Cached) -> None:
        """Keeps the pods of a workload that somebody deleted; Transient where its owner goes as well."""
        if not await is_there(self._world, self._request):
            raise Transient(f"{self._owner_kind.kind}/{self._owner.meta.name} is being deleted")
        await orphan_pods(self._world, self._request, kind, held)

    def _remember(self, kind: Kind, body: Object, held: Cached | None, live: Object | None) -> None:
        """Notes a write, and a roll-out that begins with it; the log and Events have them once the pass is over."""
        name = f"{kind.kind}/{body['metadata']['name']}"
        self.changes.append(f"{name} {'changed' if held else 'created'}")
        if held and live and kind.kind in WORKLOADS and not covers(body["spec"]["template"], live["spec"]["template"]):
            self._memo.announced_rollouts.add(held.meta.uid)
            self.rollouts.append(name)

    def _as_applied(self, body: Object, held: Cached, live: Object, stamp: str) -> bool:
        """Whether nobody changed what was applied. Metadata may change without a new generation."""
        return covers(body, live) or (self._memo.settled(held, stamp) and covers(body["metadata"], live["metadata"]))

    async def _labeled(self, wanted: Object) -> Object:
        """The pod with the labels and annotations wanted of it. One that is gone is no error: who comes in its place
        has another uid, and is in the next plan.
        """
        meta = wanted["metadata"]
        held = self._world.pods.get(self._owner.meta.namespace, meta["name"])
        if held is None or held.meta.uid != meta["uid"]:
            return wanted
        stamp = _stamp(wanted)
        body = annotated(wanted, {APPLIED: stamp})
        if held.meta.annotations.get(APPLIED) == stamp and covers(body, held.decode()):
            return held.decode()
        try:
            written = await self._world.client.apply(POD, body)
        except (Conflict, Missing):
            return wanted
        new = trimmed(msgspec.json.encode(written), POD)
        self._world.pods.put(new, by=self._request)
        return new.decode()

    async def _tried(self, kind: Kind, job: Cached, wanted: Object) -> tuple[Cached | None, Object]:
        """The Job there is, and the one there should be: one that failed some time ago is deleted, for its cause may be
        gone. It is tried again under the same name, and remembers how the last try ended.
        """
        live = await self._judged(kind, job, job.decode())
        again, before = next_try(live), job.meta.annotations.get(LAST_FAILURE, "")
        held: Cached | None = job
        if again and again > self._now:
            self._come_again((again - self._now).total_seconds())
        elif again:
            await delete(self._world, kind, job, "Background", by=self._request)
            self.changes.append(f"{kind.kind}/{job.meta.name} deleted")
            held, before = self._held(kind, wanted), failure(live)
            if held:
                raise Transient(f"{kind.kind}/{job.meta.name} is being deleted")
        return held, annotated(wanted, {LAST_FAILURE: before}) if before else wanted

    def _come_again(self, seconds: float) -> None:
        self.again = seconds if self.again is None else min(self.again, seconds)

    async def _unlabeled(self, kind: Kind, wanted: Object) -> Cached | None:
        """What bears the name without the label we watch by: somebody else's, which applying would take over."""
        namespace, name = self._owner.meta.namespace, wanted["metadata"]["name"]
        if kind in self._world.catalog.resources:
            return None
        if kind is SECRET and not self._world.budget.lacks(kind, namespace):
            return self._world.foreign.get(namespace, name)
        live = await self._world.client.get(kind, namespace, name)
        return entry(live, kind) if live else None

    def _body(self, kind: Kind, wanted: Object, held: Cached | None) -> Object:
        """The object with its namespace, labels and owner; a StatefulSet with the claims it was made with."""
        body = self._complete(wanted)
        return with_live_claims(body, held.decode()) if held and kind is STATEFUL_SET else body

    def _complete(self, wanted: Object) -> Object:
        owner, metadata = self._owner.meta, wanted["metadata"]
        labels = {
            **metadata.get("labels", {}),
            "app.kubernetes.io/managed-by": MANAGED_BY,
            KIND: self._labels[1],
            INSTANCE: self._labels[2],
        }
        added: Object = {"namespace": owner.namespace, "labels": labels}
        if wanted["kind"] in WORKLOADS:
            # When a user deletes the workload by mistake, its pods run on (decision 0047).
            added["finalizers"] = [RECREATED]
        if "ownerReferences" not in metadata and metadata.get("annotations", {}).get(RETAIN) != "true":
            reference = {
                "apiVersion": self._owner_kind.api_version,
                "kind": self._owner_kind.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
            added["ownerReferences"] = [reference]
        return {**wanted, "metadata": {**metadata, **added}}

    def _check(self, kind: Kind, held: Cached, wanted: Object) -> None:
        """Raises SpecError for an object of another owner, Transient for one on its way out."""
        what, controller = f"{kind.kind}/{held.meta.name}", held.meta.controller
        # A StatefulSet may control the claims of its members; what is wanted of them is only that they grow.
        claimed = kind is CLAIM and controller is not None and controller.kind == STATEFUL_SET.kind
        if controller is not None and controller.uid != self._owner.meta.uid and not claimed:
            ours = self._world.ours(controller.handle)
            role = self._world.resource(controller.handle).role if ours else ""
            # Of another group, too: one that is still there would have kept this one from being planned.
            if (role, controller.name) == (self._owner_kind.role, self._request.name):
                raise Transient(f"{what} of an earlier {controller.kind} of this name is not gone yet")
            self._come_again(_UNWATCHED)
            raise SpecError(what, f"belongs to {controller.kind}/{controller.name}; rename one of the two")
        # What stands for a Node may have been written before that came.
        ahead = "ownerReferences" in wanted["metadata"] and not held.meta.owner_labels[1]
        if controller is None and held.meta.owner_labels != self._labels and not ahead:
            self._come_again(_UNWATCHED)
            raise SpecError(what, _STRANGER)
        # A claim that is still mounted serves until its pod ends; its verdict warns of that.
        if held.meta.deletion_timestamp is not None and kind is not CLAIM:
            raise Transient(f"{what} is being deleted")

    async def _write(self, kind: Kind, body: Object, held: Cached | None, *, guarded: bool) -> Object:
        try:
            if guarded:
                return await self._guarded(kind, body, held)
            if kind is DEPLOYMENT and held and "replicas" not in body["spec"]:
                await self._leave_replicas(body, held)
            return await self._applied(kind, body, held)
        except NotAdmitted as error:
            field = body["metadata"]["annotations"].get(FIELD)
            if kind in OTHERS and not field:
                # Their webhooks look into caches that may not have yet what was made just before.
                raise Transient(str(error)) from None
            self._come_again(_UNWATCHED)
            raise SpecError(field, f"{error}{_GROW if kind is CLAIM else ''}") if field else error from None
        except SpecError as error:
            raise refused_of_owner(body, error) if kind in self._world.catalog.resources else error from None
        except Missing as error:
            if kind.optional and kind in self._world.catalog.resources:
                self._come_again(_UNWATCHED)
                what = f"this cluster serves no {kind.full_name}; install them: {_C5C3}"
                raise Incomplete(f"{kind.kind}/{body['metadata']['name']}", what) from error
            field = body["metadata"]["annotations"].get(FIELD)
            if not kind.optional or not field:
                raise
            self._come_again(_UNWATCHED)
            what = f"this cluster serves no {kind.full_name} of version {kind.version}"
            choice = f"install {kind.by}, or choose builtin" if kind.by else "install what does, or remove the field"
            raise Incomplete(field, f"{what}; {choice}") from None

    async def _applied(self, kind: Kind, body: Object, held: Cached | None) -> Object:
        """Applies; where that is refused since entries somebody put into a list stand beside ours, as a port by another
        number and the same name does, the lists become ours first.
        """
        client = self._world.client
        last = self._world.stores[kind].last(self._owner.meta.namespace, body["metadata"]["name"])
        if last and kind is SERVICE and held is None:
            # Another Service may have one of them by now.
            with contextlib.suppress(SpecError):
                return await client.apply(kind, with_last_node_ports(body, last))
        try:
            return await client.apply(kind, body)
        except NotAdmitted:
            raise
        except SpecError:
            if held is None or "spec" not in body:
                raise
            metadata = {name: body["metadata"][name] for name in ("name", "namespace")} | {"uid": held.meta.uid}
            try:
                await client.merge(kind, {"metadata": metadata, "spec": body["spec"]})
            except SpecError:
                # It was not that; what the first answer says is right.
                pass
            else:
                return await client.apply(kind, body)
            raise

    async def _leave_replicas(self, body: Object, held: Cached) -> None:
        """The number of pods stays when it is no longer ours: without this, one that an autoscaler takes over would
        first fall to Kubernetes' default of one.
        """
        spec = {"replicas": held.decode()["spec"]["replicas"]}
        metadata = {name: body["metadata"][name] for name in ("name", "namespace")} | {"uid": held.meta.uid}
        with contextlib.suppress(Conflict):
            await self._world.client.hand_over(DEPLOYMENT, {**body, "metadata": metadata, "spec": spec})

    async def _guarded(self, kind: Kind, body: Object, held: Cached | None) -> Object:
        """Creates, or replaces exactly the version that was read. Raises Conflict, a Transient."""
        client, name = self._world.client, body["metadata"]["name"]
        if (read := self._seen.get((kind, name))) and (held is None or read != held.meta.resource_version):
            # What was planned does not know of it yet, and would undo it: bring back the key that a user just deleted.
            raise Conflict(f"{kind.kind}/{name} was {'changed' if held else 'deleted'} meanwhile")
        if held is not None:
            if body.get("data") != held.decode().get("data"):
                self.renewed.append(f"{kind.kind}/{held.meta.name}")
            kept = {"resourceVersion": held.meta.resource_version, "finalizers": list(held.meta.finalizers)}
            return await client.replace(kind, {**body, "metadata": {**body["metadata"], **kept}})
        try:
            return await client.create(kind, body)
        except Conflict:
            live = await client.get(kind, self._owner.meta.namespace, name)
            if live is None or entry(live, kind).meta.owner_labels == self._labels:
                raise
            controller = entry(live, kind).meta.controller
            if controller is None or controller.uid != self._owner.meta.uid:
                raise SpecError(f"{kind.kind}/{name}", _STRANGER) from None
            # Ours, but somebody took its labels and with them our sight of it; what is in it stays.
            labels = {**(live["metadata"].get("labels") or {}), **body["metadata"]["labels"]}
            return await client.replace(kind, {**live, "metadata": {**live["metadata"], "labels": labels}})

    async def _judged(self, kind: Kind, held: Cached, live: Object) -> Object:
        """The object, a failed Job with the end of its log in `status.log`, where the readiness rule looks for it."""
        if kind is not JOB or not failure(live):
            return live
        if held.meta.uid not in self._memo.logs:
            self._memo.logs[held.meta.uid] = await last_words(self._world, held)
        return {**live, "status": {**live["status"], "log": self._memo.logs[held.meta.uid]}}


def _stamp(body: Object) -> str:
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()[:16]
