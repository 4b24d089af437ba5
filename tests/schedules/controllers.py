"""The parts of Kubernetes around the API server: controllers of workloads, and the collector of garbage."""

from __future__ import annotations

from typing import Any

from openstack_operator.cli.preview.finished import granted_status
from openstack_operator.plan import Object

from .api_server import Event, Request, Stored
from .network import Network

_WORKLOADS = {"deployments", "statefulsets", "daemonsets", "jobs"}
_PATHS = {
    "deployments": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "daemonsets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
}


class Controllers:
    """What finishes workloads and deletes what belongs to nobody."""

    def __init__(self, network: Network) -> None:
        self._network, self._server = network, network.server
        self.slowness = 1.0
        """Longest time in which a workload gets ready."""
        self._collecting = False
        self._server.on_change.append(self._on_change)

    def begin_again(self) -> None:
        """Look at everything, as a controller does that lists anew."""
        for name, stored in self._server.all():
            if name in _WORKLOADS:
                self._finish_later(name, stored)
        self._collect_later()

    def _on_change(self, name: str, event: Event) -> None:
        new = event.new
        if new is not None and name in _WORKLOADS:
            self._finish_later(name, new)
        # An owner is gone, something is to wait for what belongs to it, or its owner was gone when it came.
        self._collect_later()

    def _finish_later(self, name: str, stored: Stored) -> None:
        if _lacks(stored.obj):
            meta = stored.obj["metadata"]
            self._network.later(
                0.05 + self._network.delay(self.slowness), self._finish, name, meta["name"], meta["uid"]
            )

    def _finish(self, name: str, workload: str, uid: str) -> None:
        live = self._server.collection(name).objects.get(("x", workload))
        if live is None or live.obj["metadata"]["uid"] != uid or not (status := _lacks(live.obj)):
            return
        path = f"{_PATHS[name]}/namespaces/x/{name}/{workload}/status"
        body = {"status": status}
        self._server.handle(
            Request(
                "PATCH", path, {"fieldManager": "kube-controller-manager"}, body, "application/merge-patch+json", "kcm"
            )
        )

    def _collect_later(self) -> None:
        if not self._collecting:
            self._collecting = True
            self._network.later(0.1 + self._network.delay(3.0), self._collect)

    def _collect(self) -> None:
        self._collecting = False
        objects = [(name, stored) for name, stored in self._server.all() if name not in ("events", "leases")]
        uids = {stored.obj["metadata"]["uid"]: stored for _, stored in objects}
        for name, stored in objects:
            meta = stored.obj["metadata"]
            owners: list[Object] = meta.get("ownerReferences") or []
            finalizers = meta.get("finalizers") or ()
            if owners and not any(owner["uid"] in uids for owner in owners):
                if "deletionTimestamp" not in meta:
                    self._delete(name, meta, "Background")
            elif owners and "deletionTimestamp" not in meta:
                # An owner that is deleted with Foreground waits for it.
                waits = [uids[owner["uid"]] for owner in owners if owner["uid"] in uids]
                if all("foregroundDeletion" in (each.obj["metadata"].get("finalizers") or ()) for each in waits):
                    self._delete(name, meta, "Foreground")
            if "foregroundDeletion" in finalizers and not self._dependents(meta["uid"]):
                self._patch(
                    name, meta, "/metadata/finalizers", [each for each in finalizers if each != "foregroundDeletion"]
                )
            elif "orphan" in finalizers:
                for child_name, child in self._dependents(meta["uid"]):
                    references = child.obj["metadata"]["ownerReferences"]
                    rest = [each for each in references if each["uid"] != meta["uid"]]
                    self._patch(child_name, child.obj["metadata"], "/metadata/ownerReferences", rest)
                self._patch(name, meta, "/metadata/finalizers", [each for each in finalizers if each != "orphan"])

    def _dependents(self, uid: str) -> list[tuple[str, Stored]]:
        return [
            (name, stored)
            for name, stored in self._server.all()
            if any(owner["uid"] == uid for owner in stored.obj["metadata"].get("ownerReferences") or ())
        ]

    def _delete(self, name: str, meta: Object, policy: str) -> None:
        body = {"preconditions": {"uid": meta["uid"]}, "propagationPolicy": policy}
        self._server.handle(Request("DELETE", f"/api/v1/namespaces/x/{name}/{meta['name']}", {}, body, by="gc"))

    def _patch(self, name: str, meta: Object, path: str, value: Any) -> None:
        body = [
            {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
            {"op": "add", "path": path, "value": value},
        ]
        self._server.handle(
            Request(
                "PATCH",
                f"/api/v1/namespaces/x/{name}/{meta['name']}",
                {"fieldManager": "kube-controller-manager"},
                body,
                "application/json-patch+json",
                "gc",
            )
        )


def _lacks(live: Object) -> Object | None:
    """Return the status that a workload is to have; None if it has it."""
    desired = granted_status(live, live["metadata"].get("generation", 1))
    status = live.get("status") or {}
    return (
        desired if any(status.get(key, 0) != value for key, value in desired.items() if key != "conditions") else None
    )
