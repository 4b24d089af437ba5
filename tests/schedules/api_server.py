"""An API server and its etcd: objects with versions, watches from a history, and a snapshot to go back to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import msgspec

from openstack_operator.plan import Object

from .loop import VirtualLoop
from .merging import (
    Managers,
    apply_fields,
    copied,
    fields_of,
    json_patch,
    managed_part,
    managed_whole,
    merge_patch,
    update_fields,
)

STATUS_AND_SPEC = {
    "deployments",
    "statefulsets",
    "daemonsets",
    "jobs",
    "cronjobs",
    "poddisruptionbudgets",
    "networkpolicies",
    "ingresses",
    "servers",
    "apps",
    "stacks",
    "accounts",
}
"""Collections whose objects have a generation."""
_KEPT = 150
"""Events of a collection from which a watch may continue; older versions have expired."""
_NODE_PORT = 30000


@dataclass(slots=True)
class Stored:
    """One version of an object. Nobody changes it."""

    obj: Object
    managers: Managers
    version: int
    raw: bytes


@dataclass(slots=True)
class Event:
    """One change in the history of a collection."""

    version: int
    old: Stored | None
    new: Stored | None


@dataclass(slots=True)
class Request:
    """A request as the API server reads it."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    content_type: str = ""
    by: str = ""
    """The process that sent it."""

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Collection, namespace, name and subresource."""
        return place(self.path)


@lru_cache(maxsize=4096)
def place(path: str) -> tuple[str, str, str, str]:
    """Return the collection, namespace, name and subresource of a path."""
    parts = path.split("/")[1:]
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if not parts:
        return "", "", "", ""
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    collection, name, sub, *_ = [*parts, "", ""]
    return collection, namespace, name, sub


@dataclass(slots=True)
class Answer:
    """The answer to a request."""

    code: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.answer = Answer(code, msgspec.json.encode({"kind": "Status", "code": code, "message": message}))


class Collection:
    """The objects of one kind, and their history."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Stored] = {}
        self.history: list[Event] = []
        self.oldest = 0
        """Version from which a watch may continue at the earliest."""


class ApiServer:
    """The API as all clients see it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.collections: dict[str, Collection] = {}
        self.version = 100
        self._uids = 0
        self._node_port = _NODE_PORT
        self.on_change: list[Callable[[str, Event], None]] = []
        """Called with each change and its collection."""
        self.on_write: list[Callable[[Request, Stored | None], None]] = []
        """Called before each write, with the object as it is."""
        self.watchers: dict[str, dict[Callable[[], None], None]] = {}
        """Calls that wake the watches of a collection, in the order in which these began; that of a set would come from
        addresses, and differ in each run."""
        self.restores = 0
        self._pages: dict[str, tuple[list[Stored], int, int]] = {}

    def collection(self, name: str) -> Collection:
        """Return a collection of that plural."""
        if name not in self.collections:
            self.collections[name] = Collection()
            self.collections[name].oldest = 0
        return self.collections[name]

    def get(self, collection: str, name: str, namespace: str = "x") -> Object | None:
        """Return an object, which the caller does not change."""
        stored = self.collection(collection).objects.get((namespace, name))
        return stored.obj if stored else None

    def all(self) -> Iterator[tuple[str, Stored]]:
        """Yield all objects with their collections."""
        for name, collection in self.collections.items():
            for stored in list(collection.objects.values()):
                yield name, stored

    # etcd

    def snapshot(self) -> Any:
        """Return a snapshot of etcd."""
        objects = {name: dict(collection.objects) for name, collection in self.collections.items()}
        return self.version, objects

    def restore(self, snapshot: Any) -> None:
        """Begin again with a snapshot. All watches are cut."""
        self.version, objects = snapshot
        self.restores += 1
        self._pages.clear()
        for name, collection in self.collections.items():
            collection.objects = dict(objects.get(name, {}))
            collection.history = []
            collection.oldest = self.version
        for wakes in self.watchers.values():
            for wake in list(wakes):
                wake()

    def compact(self) -> None:
        """Forget the history: who continues from an old version has to list again."""
        for collection in self.collections.values():
            collection.history = []
            collection.oldest = self.version
        self._pages.clear()

    # Requests

    def handle(self, request: Request) -> Answer:
        """Answer a request that is no watch."""
        try:
            return self._handle(request)
        except Refused as refused:
            return refused.answer

    def _handle(self, request: Request) -> Answer:
        if request.path == "/apis":
            return Answer(200, b'{"kind":"APIGroupDiscoveryList","items":[]}')
        collection, namespace, name, sub = request.place
        if request.method == "GET":
            if name:
                return Answer(200, self._existing(collection, namespace, name).raw)
            return self._list(request, collection, namespace)
        existing = self.collection(collection).objects.get((namespace, name or _name_of(request)))
        for note in self.on_write:
            note(request, existing)
        match request.method:
            case "POST":
                return self._create(request, collection, namespace)
            case "PUT":
                return self._replace(request, collection, namespace, name, sub)
            case "PATCH":
                return self._patch(request, collection, namespace, name, sub)
            case _:
                return self._delete(request, collection, namespace, name)

    def _existing(self, collection: str, namespace: str, name: str) -> Stored:
        if collection == "namespaces":
            raw = msgspec.json.encode({"metadata": {"name": name, "uid": "namespace", "resourceVersion": "1"}})
            return Stored({}, {}, 1, raw)
        stored = self.collection(collection).objects.get((namespace, name))
        if stored is None:
            raise Refused(404, f'{collection} "{name}" not found')
        return stored

    def _list(self, request: Request, collection: str, namespace: str) -> Answer:
        if token := request.params.get("continue"):
            if token not in self._pages:
                raise Refused(410, "The provided continue parameter is too old")
            items, version, chunk = self._pages[token]
        else:
            keep = selector(request.params)
            objects = self.collection(collection).objects.values()
            items = [each for each in objects if _in(each, namespace) and keep(each.obj)]
            version, chunk = self.version, int(request.params.get("chunk", "500"))
        rest, items = items[chunk:], items[:chunk]
        token = ""
        if rest:
            token = f"{version}-{len(self._pages)}"
            self._pages[token] = rest, version, chunk
        head = f'{{"kind":"List","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":['
        return Answer(200, head.encode() + b",".join(each.raw for each in items) + b"]}")

    def _create(self, request: Request, collection: str, namespace: str) -> Answer:
        body = request.body
        name = body["metadata"]["name"]
        if (namespace, name) in self.collection(collection).objects:
            raise Refused(409, f'{collection} "{name}" already exists')
        if body["metadata"].get("resourceVersion"):
            raise Refused(400, "resourceVersion should not be set on objects to be created")
        manager = request.params.get("fieldManager", request.by), "Update", ""
        return self._created(collection, namespace, body, manager)

    def _created(self, collection: str, namespace: str, body: Object, manager: tuple[str, str, str]) -> Answer:
        obj = copied(body)
        self._uids += 1
        owned = fields_of(managed_part(obj, _main_parts(obj)))
        obj["metadata"] |= {
            "namespace": namespace,
            "uid": f"uid-{self.restores}-{self._uids}",
            "creationTimestamp": self._now(),
        }
        if collection in STATUS_AND_SPEC:
            obj.pop("status", None)
            obj["metadata"]["generation"] = 1
        self._default(collection, obj)
        stored = self._store(collection, (namespace, obj["metadata"]["name"]), None, obj, {manager: owned})
        return Answer(201, stored.raw)

    def _default(self, collection: str, obj: Object) -> None:
        """Fill in what the API server fills in."""
        if collection == "services":
            obj["spec"].setdefault("clusterIP", f"10.0.0.{self._uids % 250}")
            for port in obj["spec"].get("ports", ()):
                port.setdefault("protocol", "TCP")
                if obj["spec"].get("type") == "NodePort" and "nodePort" not in port:
                    self._node_port += 1
                    port["nodePort"] = self._node_port
        if collection in ("deployments", "statefulsets"):
            obj["spec"].setdefault("replicas", 1)
        if collection in ("deployments", "statefulsets", "daemonsets"):
            obj["spec"].setdefault("revisionHistoryLimit", 10)
        if "template" in (obj.get("spec") or {}):
            for container in obj["spec"]["template"].get("spec", {}).get("containers", ()):
                for amounts in (container.get("resources") or {}).values():
                    if isinstance(amounts, dict) and cast("dict[str, Any]", amounts).get("cpu") == "1000m":
                        amounts["cpu"] = "1"

    def _replace(self, request: Request, collection: str, namespace: str, name: str, sub: str) -> Answer:
        live, body = self._existing(collection, namespace, name), request.body
        version = body["metadata"].get("resourceVersion")
        if version and version != str(live.version):
            raise Refused(409, f'Operation cannot be fulfilled on {collection} "{name}": the object has been modified')
        return self._updated(request, collection, live, copied(body), sub)

    def _updated(self, request: Request, collection: str, live: Stored, body: Object, sub: str) -> Answer:
        """Store what an update makes of an object."""
        meta, before = body["metadata"], live.obj["metadata"]
        if meta.get("uid", before["uid"]) != before["uid"]:
            raise Refused(409, "Precondition failed: UID in precondition does not match")
        kept = {
            key: before[key]
            for key in ("uid", "creationTimestamp", "generation", "deletionTimestamp", "namespace")
            if key in before
        }
        meta = {
            **{key: value for key, value in meta.items() if key not in ("managedFields", "resourceVersion")},
            **kept,
        }
        if sub == "status":
            obj = {**live.obj, "status": body.get("status")}
        elif collection in STATUS_AND_SPEC:
            obj = {**body, "metadata": meta, **({"status": live.obj["status"]} if "status" in live.obj else {})}
        else:
            obj = {**body, "metadata": meta}
        if sub != "status" and "status" not in live.obj:
            obj.pop("status", None)
        self._default(collection, obj)
        manager = request.params.get("fieldManager", request.by), "Update", sub
        both = managed_whole(live.obj), managed_whole(obj)
        managers = update_fields(*both, live.managers, manager)
        return Answer(200, self._put(collection, live, obj, managers).raw)

    def _patch(self, request: Request, collection: str, namespace: str, name: str, sub: str) -> Answer:
        body, live = request.body, self.collection(collection).objects.get((namespace, name))
        if request.content_type.startswith("application/apply-patch"):
            return self._apply(request, collection, namespace, live, sub)
        if live is None:
            raise Refused(404, f'{collection} "{name}" not found')
        if request.content_type.startswith("application/json-patch"):
            obj = json_patch({**live.obj, "metadata": _with_version(live)}, body)
            if obj is None:
                raise Refused(422, "the server rejected our request due to an error in our request")
        else:
            uid = (body.get("metadata") or {}).get("uid")
            if uid and uid != live.obj["metadata"]["uid"]:
                raise Refused(409, "Precondition failed: UID in precondition does not match")
            obj = merge_patch({**live.obj, "metadata": _with_version(live)}, body)
        if obj["metadata"].get("resourceVersion", str(live.version)) != str(live.version):
            raise Refused(409, f'Operation cannot be fulfilled on {collection} "{name}": the object has been modified')
        return self._updated(request, collection, live, obj, sub)

    def _apply(self, request: Request, collection: str, namespace: str, live: Stored | None, sub: str) -> Answer:
        body, uid = request.body, request.body["metadata"].get("uid")
        manager = request.params["fieldManager"], "Apply", sub
        if live is None:
            if sub:
                raise Refused(404, f"{collection} not found")
            if uid:
                raise Refused(409, "Precondition failed: uid mismatch: no existing object was found")
            return self._created(collection, namespace, body, manager)
        if uid and uid != live.obj["metadata"]["uid"]:
            raise Refused(409, "Precondition failed: uid mismatch")
        parts = ("status",) if sub else _main_parts(body)
        body = {**body, "metadata": {} if sub else body["metadata"]}
        applied = managed_part(body, parts)
        part = managed_part(live.obj, ("status",) if sub else _main_parts(live.obj))
        force = request.params.get("force") == "true"
        result, managers, conflicts = apply_fields(part, applied, live.managers, manager, force=force)
        if conflicts:
            raise Refused(409, f"Apply failed with conflicts with {conflicts}")
        obj = {**live.obj, **result}
        if not sub:
            identity = {key: value for key, value in live.obj["metadata"].items() if key not in part["metadata"]}
            obj["metadata"] = {**result["metadata"], **identity}
        obj = copied(obj)
        self._default(collection, obj)
        return Answer(200, self._put(collection, live, obj, managers).raw)

    def _delete(self, request: Request, collection: str, namespace: str, name: str) -> Answer:
        live, body = self._existing(collection, namespace, name), request.body or {}
        uid = (body.get("preconditions") or {}).get("uid")
        if uid and uid != live.obj["metadata"]["uid"]:
            raise Refused(409, "Precondition failed: UID in precondition does not match")
        key = namespace, name
        policy = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(body.get("propagationPolicy", ""))
        finalizers = [each for each in live.obj["metadata"].get("finalizers") or () if each not in _POLICIES or policy]
        if policy and policy not in finalizers:
            finalizers = [*(each for each in finalizers if each not in _POLICIES), policy]
        meta = {key: value for key, value in live.obj["metadata"].items() if key != "finalizers"}
        if finalizers:
            meta |= {"finalizers": finalizers, "deletionTimestamp": meta.get("deletionTimestamp") or self._now()}
            return Answer(200, self._put(collection, live, {**live.obj, "metadata": meta}, live.managers).raw)
        self._store(collection, key, live, None, {})
        return Answer(200, b'{"kind":"Status","status":"Success"}')

    def _put(self, collection: str, live: Stored, obj: Object, managers: Managers) -> Stored:
        """Store another version of an object; the same content stays the same version."""
        meta, before = obj["metadata"], live.obj["metadata"]
        if not meta.get("finalizers"):
            meta.pop("finalizers", None)
        key = meta["namespace"], meta["name"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            return self._store(collection, key, live, obj, managers, gone=True)
        if obj == live.obj and managers == live.managers:
            return live
        content = {k: v for k, v in obj.items() if k not in ("metadata", "status")}
        content_before = {k: v for k, v in live.obj.items() if k not in ("metadata", "status")}
        is_new_deletion = "deletionTimestamp" in meta and "deletionTimestamp" not in before
        if collection in STATUS_AND_SPEC and (content != content_before or is_new_deletion):
            meta["generation"] = before["generation"] + 1
        return self._store(collection, key, live, obj, managers)

    def _store(
        self,
        name: str,
        key: tuple[str, str],
        old: Stored | None,
        obj: Object | None,
        managers: Managers,
        *,
        gone: bool = False,
    ) -> Stored:
        self.version += 1
        collection = self.collection(name)
        new = _stored(obj, managers, self.version) if obj is not None else None
        if new is None or gone:
            del collection.objects[key]
        else:
            collection.objects[key] = new
        last = new or _stored(cast("Stored", old).obj, managers, self.version)
        event = Event(self.version, last, None) if gone or new is None else Event(self.version, old, new)
        collection.history.append(event)
        if len(collection.history) > _KEPT:
            collection.oldest = collection.history.pop(0).version
        for note in self.on_change:
            note(name, event)
        for wake in list(self.watchers.get(name, ())):
            wake()
        return last

    def _now(self) -> str:
        return self._loop.wall_time().strftime("%Y-%m-%dT%H:%M:%SZ")


_POLICIES = {"foregroundDeletion", "orphan"}


def _stored(obj: Object, managers: Managers, version: int) -> Stored:
    managed = [
        {"manager": manager, "operation": operation, "subresource": sub, "fieldsV1": fields}
        for (manager, operation, sub), fields in managers.items()
    ]
    meta = {**obj["metadata"], "resourceVersion": str(version), "managedFields": managed}
    return Stored(obj, managers, version, msgspec.json.encode({**obj, "metadata": meta}))


def _main_parts(obj: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(key for key in obj if key not in ("apiVersion", "kind", "metadata", "status"))


def _with_version(live: Stored) -> Object:
    return {**live.obj["metadata"], "resourceVersion": str(live.version)}


def _name_of(request: Request) -> str:
    return request.body["metadata"]["name"] if isinstance(request.body, dict) else ""


def _in(stored: Stored, namespace: str) -> bool:
    return not namespace or stored.obj["metadata"].get("namespace", "") == namespace


def selector(params: Mapping[str, str]) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that says whether an object is selected."""
    terms = [term for term in params.get("labelSelector", "").split(",") if term]
    fields = dict(term.split("=") for term in params.get("fieldSelector", "").split(",") if term)

    def keep(obj: Mapping[str, Any]) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(_matches(labels, term) for term in terms) and all(
            str(obj.get(name, "")) == value for name, value in fields.items()
        )

    return keep


def _matches(labels: Mapping[str, str], term: str) -> bool:
    if "!=" in term:
        name, value = term.split("!=")
        return labels.get(name) != value
    if "=" in term:
        name, value = term.split("=")
        return labels.get(name) == value
    return term in labels


def shown(event: Event, keep: Callable[[Mapping[str, Any]], bool], namespace: str) -> tuple[str, Stored] | None:
    """Return what a watch shows of an event: an object that is selected no longer is deleted for it."""
    is_old, is_new = (bool(each and _in(each, namespace) and keep(each.obj)) for each in (event.old, event.new))
    if event.new is not None and is_new:
        return ("MODIFIED" if is_old else "ADDED"), event.new
    if is_old and event.old is not None:
        if event.new is None:
            return "DELETED", event.old
        return "DELETED", _stored(event.old.obj, event.old.managers, event.version)
    return None


def encode_watch(type_: str, raw: bytes) -> bytes:
    """Return a line of a watch."""
    return b'{"type":"' + type_.encode() + b'","object":' + raw + b"}\n"


def bookmark(version: int) -> bytes:
    """Return a bookmark."""
    return encode_watch("BOOKMARK", json.dumps({"metadata": {"resourceVersion": str(version)}}).encode())
