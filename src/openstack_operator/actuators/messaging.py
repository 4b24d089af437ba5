"""RabbitMQVhost: a virtual host, its user and what the user may do, over the management API."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any, NotRequired, TypedDict

from ..api import RabbitMQRef
from ..kube import amount
from ..parts.brokers import ACCOUNT_MADE, password_text
from ..plan import Context, Outcome, SpecError, State, Transient, Verdict
from ..plan.url_path import segment
from . import access, broker, loop, queues
from .answers import read
from .http import Api, Sessions
from .loop import Facets
from .models import BrokerPermissions, RabbitMQVhostSpec
from .queue_copies import check_drained, copy_queues

_EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


_ALGORITHMS = {f"rabbit_password_hashing_{name}": name for name in ("md5", "sha256", "sha512")}
"""Algorithms of RabbitMQ (`password_hashing_module`), as Python calls them."""
_PATIENCE = 30
"""Seconds: a queue without a leader is gone after 15."""


def _connected(url: str, username: str, password: str, trust: str, seconds: float = 5) -> Api:
    return Api("RabbitMQ", f"{url.rstrip('/')}/api", seconds=seconds, auth=(username, password), trust=trust)


_api = Sessions(_connected)


class _VhostRow(TypedDict):
    cluster_state: NotRequired[dict[str, str] | list[Any] | None]


class _TopicRow(TypedDict):
    exchange: str
    write: str


class _UserRow(TypedDict):
    password_hash: NotRequired[str | None]
    hashing_algorithm: NotRequired[str | None]
    tags: list[str] | str


def matches(password: str, stored: str, algorithm: str = "") -> bool:
    """Return True if a password hash as RabbitMQ stores it, base64(salt + SHA-256(salt + password)) with a salt of four
    bytes, is that of this password (https://www.rabbitmq.com/docs/passwords). A broker may be set to another algorithm.
    """
    try:
        raw = base64.b64decode(stored, validate=True)
    # An error of binascii, or one of letters that are not ASCII.
    except ValueError:
        return False
    salt, digest = raw[:4], raw[4:]
    name = _ALGORITHMS.get(algorithm, "sha256")
    return hmac.compare_digest(digest, hashlib.new(name, salt + password.encode(), usedforsecurity=False).digest())


class Vhost:
    """A virtual host, which runs on every member.

    One that is made within seconds after one of its name was deleted may be stopped by members that notice the deletion
    only now, and stay so: everybody who connects is refused (RabbitMQ 4.0).
    """

    path = "spec.vhost"

    def __init__(self, api: Api, vhost: str) -> None:
        self.name = f"virtual host {vhost}"
        self._api = api
        self._vhost = vhost
        self._at = f"/vhosts/{segment(vhost)}"
        self._stopped: tuple[str, ...] = ()

    @property
    def desired(self) -> Facets:
        # Its queue type only matters when queues are made, and a broker may be too old to tell: not compared.
        return {"members where it is stopped": ()}

    def find(self) -> Facets | None:
        if (response := self._api.call("GET", self._at)) is None:
            return None
        states = read(self._api.name, response, _VhostRow).get("cluster_state")
        # An empty map may be written as a list.
        node_states = states.items() if isinstance(states, dict) else ()
        self._stopped = tuple(sorted(node for node, state in node_states if state == "stopped"))
        return {"members where it is stopped": self._stopped}

    def create(self) -> None:
        _send(self._api, "PUT", self._at, {"default_queue_type": "quorum"})
        # None of its queues is one that was seen before.
        queues.forget(self._api, self._vhost)
        if self.find():
            self._start()

    def update(self, changed: frozenset[str]) -> None:
        self._start()

    def _start(self) -> None:
        for node in self._stopped:
            self._api.call("POST", f"{self._at}/start/{{}}", ids=(node,))

    def delete(self) -> None:
        self._api.call("DELETE", self._at)


class User:
    """A user without tags."""

    path = "spec.user"

    def __init__(self, api: Api, user: str, password: str) -> None:
        self.name = f"user {user}"
        self._api = api
        self._at = f"/users/{segment(user)}"
        self._password = password

    @property
    def desired(self) -> Facets:
        return {"password": True, "tags": ()}

    def find(self) -> Facets | None:
        if (response := self._api.call("GET", self._at)) is None:
            return None
        body = read(self._api.name, response, _UserRow)
        # RabbitMQ before 3.9 writes tags as one string.
        stored, algorithm = body.get("password_hash") or "", body.get("hashing_algorithm") or ""
        return {"password": matches(self._password, stored, algorithm), "tags": tuple(body["tags"])}

    def create(self) -> None:
        _send(self._api, "PUT", self._at, {"password": self._password, "tags": ""}, secret=True)

    def update(self, changed: frozenset[str]) -> None:
        self.create()

    def delete(self) -> None:
        self._api.call("DELETE", self._at)


class Permissions:
    """Permissions of the user in the virtual host: everything, unless the spec limits them."""

    path = "spec.permissions"

    def __init__(self, api: Api, vhost: str, user: str, limits: BrokerPermissions | None) -> None:
        self.name = f"permissions of {user} in {vhost}"
        self._api = api
        self._at = f"/permissions/{segment(vhost)}/{segment(user)}"
        rules = {"configure": limits.configure, "write": limits.write, "read": limits.read} if limits else _EVERYTHING
        self._wanted: dict[str, str] = rules

    @property
    def desired(self) -> Facets:
        return self._wanted

    def find(self) -> Facets | None:
        if (response := self._api.call("GET", self._at)) is None:
            return None
        body = read(self._api.name, response, dict[str, Any])
        return {name: body.get(name) for name in _EVERYTHING}

    def create(self) -> None:
        _send(self._api, "PUT", self._at, self._wanted)

    def update(self, changed: frozenset[str]) -> None:
        self.create()

    def delete(self) -> None:
        self._api.call("DELETE", self._at)


class RoutingKeys:
    """By topic exchange, the routing keys with which the user may publish; in others it is free."""

    path = "spec.permissions"

    def __init__(self, api: Api, vhost: str, user: str, limits: BrokerPermissions | None) -> None:
        self.name = f"routing keys of {user} in {vhost}"
        self._api = api
        self._at = f"/topic-permissions/{segment(vhost)}/{segment(user)}"
        self._keys = limits.routing_keys if limits else {}

    @property
    def desired(self) -> Facets:
        return self._keys

    def find(self) -> Facets:
        """Return the permissions, never None: a user without any has them everywhere."""
        response = self._api.call("GET", self._at)
        rows = read(self._api.name, response, list[_TopicRow]) if response else []
        return {row["exchange"]: row["write"] for row in rows}

    def create(self) -> None:
        for exchange, write in self._keys.items():
            # Who may bind a queue to an exchange is a matter of the permissions to read.
            _send(self._api, "PUT", self._at, {"exchange": exchange, "write": write, "read": ".*"})

    def update(self, changed: frozenset[str]) -> None:
        if changed - self._keys.keys():
            self.delete()
        self.create()

    def delete(self) -> None:
        self._api.call("DELETE", self._at)


class Limit:
    """A policy: what a queue holds at most before it drops its oldest messages."""

    path = "spec.queueLimit"

    def __init__(self, api: Api, vhost: str, limit: str | None) -> None:
        self.name = f"limit of queues in {vhost}"
        self._api = api
        self._at = f"/policies/{segment(vhost)}/limit"
        self._bytes = None if limit is None else int(amount(limit))

    @property
    def desired(self) -> Facets:
        return {"definition": {"max-length-bytes": self._bytes, "overflow": "drop-head"}}

    def find(self) -> Facets | None:
        response = self._api.call("GET", self._at)
        if response is None:
            return None
        return {"definition": read(self._api.name, response, dict[str, Any]).get("definition")}

    def create(self) -> None:
        _send(self._api, "PUT", self._at, {"pattern": ".*", "apply-to": "queues", **self.desired})

    def update(self, changed: frozenset[str]) -> None:
        self.create()

    def delete(self) -> None:
        self._api.call("DELETE", self._at)


def _send(api: Api, method: str, path: str, body: dict[str, Any], *, secret: bool = False) -> None:
    if api.call(method, path, json=body, secret=secret) is None:
        raise Transient(f"RabbitMQ: {method} {path}: its parent was just deleted")


def _connect(ctx: Context[RabbitMQVhostSpec], seconds: float = 5, *, broker: RabbitMQRef | None = None) -> Api:
    ref = broker or ctx.spec.rabbitmq_ref
    url = access.published(ctx, ref, "managementURL")
    login = _administrator(ctx, ref), access.admin(ctx, ref, "default_pass", "password")
    return _api(url, *login, access.trust(ctx, ref), seconds)


def _administrator(ctx: Context[RabbitMQVhostSpec], ref: RabbitMQRef) -> str:
    return access.admin(ctx, ref, "default_user", "username")


def _clustered(ctx: Context[RabbitMQVhostSpec]) -> bool:
    return ctx.refs[ctx.spec.rabbitmq_ref].published.get("clustered") == "true"


def _administers(ctx: Context[RabbitMQVhostSpec]) -> bool:
    return ctx.spec.user == _administrator(ctx, ctx.spec.rabbitmq_ref)


def ensure(ctx: Context[RabbitMQVhostSpec]) -> list[str]:
    """Make virtual host, user and permissions as the spec says, and return what was changed. Raises Transient if no
    client can publish.
    """
    spec, api = ctx.spec, _connect(ctx)
    if _administers(ctx):
        raise SpecError("spec.user", f"{spec.user!r} administers the broker; choose another name")
    user = User(api, spec.user, access.password(ctx, spec.password_secret_ref))
    limit = Limit(api, spec.vhost, spec.queue_limit)
    limits = (limit,) if spec.queue_limit else ()
    allowed = (each(api, spec.vhost, spec.user, spec.permissions) for each in (RoutingKeys, Permissions))
    changed = loop.ensure((Vhost(api, spec.vhost), user, *allowed, *limits))
    if not limits:
        loop.remove((limit,))
    if spec.queues_of:
        changed += copy_queues(_connect(ctx, broker=spec.queues_of), _connect(ctx, _PATIENCE), spec.vhost)
    changed += queues.usable(_connect(ctx, _PATIENCE), spec.vhost) if _clustered(ctx) else []
    changed += broker.flags(_connect(ctx, _PATIENCE))
    broker.flows(api, spec.rabbitmq_ref.name)
    if spec.drains:
        check_drained(api, spec.vhost)
    return changed


def observe(ctx: Context[RabbitMQVhostSpec]) -> Outcome:
    """Say of an account that exists now which password it has: a service that moves to another broker believes no
    other sign of an account of its own (parts/brokers.py).
    """
    return Outcome(extra_conditions={ACCOUNT_MADE: Verdict(State.READY, password_text(ctx.spec.password_secret_ref))})


def remove(ctx: Context[RabbitMQVhostSpec]) -> None:
    """Delete the user, and the virtual host with all its queues unless the spec says otherwise."""
    if _administers(ctx):
        return
    api = _connect(ctx)
    things: list[loop.Thing] = []
    if "spec.user" not in ctx.conflicting_fields:
        things.append(User(api, ctx.spec.user, ""))
    if "spec.vhost" not in ctx.conflicting_fields and ctx.spec.deletion_policy == "Delete":
        things.append(Vhost(api, ctx.spec.vhost))
    loop.remove(things)
    if "spec.vhost" not in ctx.conflicting_fields:
        queues.forget(api, ctx.spec.vhost)
