"""Writes to the cloud: rows, messages, users, networks, ports and images."""

from __future__ import annotations

import contextlib
import random
import ssl
import uuid
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pika
import pymysql
from keystoneauth1.exceptions import NotFound
from pika.adapters.blocking_connection import BlockingChannel

from tools.localcluster.kubernetes import ours

from .api import Api
from .site import Site

MARK = "chaos-"
_QUEUE = "chaos"
_WAIT = 5
"""Seconds a client of the database or the broker waits for an answer."""
_RECHECKED = 20
_MAX_EXISTING = 20
_EXPOSED = {"mariadb": ("mysql",), "rabbitmq": ("amqps", "amqp")}
"""Ports by name, what is encrypted first."""


def new_key() -> str:
    """Return a name that nothing else has."""
    return f"{MARK}{uuid.uuid4().hex[:12]}"


def expose(site: Site) -> dict[str, int]:
    """Return NodePorts by name, at which this machine reaches the pods of the Services `mariadb` and `rabbitmq`."""
    ports: dict[str, int] = {}
    for name, port_names in _EXPOSED.items():
        spec = site.get("service", name)["spec"]
        served = {each["name"]: each["port"] for each in spec["ports"]}
        port = next(served[each] for each in port_names if each in served)
        site.kubernetes.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": f"chaos-{name}", "namespace": site.namespace},
                "spec": {"type": "NodePort", "selector": spec["selector"], "ports": [{"port": port}]},
            }
        )
        ports[name] = site.get("service", f"chaos-{name}")["spec"]["ports"][0]["nodePort"]
    return ports


def trust(site: Site, name: str) -> ssl.SSLContext | None:
    """Return the TLS context by which the load verifies a server; None for a server without a certificate. It does not
    check host names: the load connects to the address of a node, which no certificate has.
    """
    secret = (site.get(ours(name), name).get("status") or {}).get("published", {}).get("trustSecret")
    if not secret:
        return None
    context = ssl.create_default_context(cadata=site.secret(secret)["ca.crt"])
    context.check_hostname = False
    return context


@dataclass
class Rows:
    """Rows of a table of its own, each committed before the next."""

    host: str
    port: int
    password: str
    trust: ssl.SSLContext | None
    kind: str = "rows"
    interval: float = 0.5
    _connection: Any = None

    def attempt(self, number: int) -> str:
        connection, key = self._open(), new_key()
        try:
            with connection.cursor() as cursor:
                if number == 1:
                    cursor.execute("CREATE DATABASE IF NOT EXISTS chaos")
                    cursor.execute("CREATE TABLE IF NOT EXISTS chaos.acked (name CHAR(32) PRIMARY KEY) ENGINE=InnoDB")
                cursor.execute("INSERT INTO chaos.acked VALUES (%s)", (key,))
        except Exception:
            self._connection = None
            with contextlib.suppress(Exception):
                connection.close()
            raise
        return key

    def present(self) -> set[str]:
        connection = self._new()
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute("SELECT name FROM chaos.acked")
            return {row[0] for row in cursor.fetchall()}

    def _open(self) -> Any:
        self._connection = self._connection or self._new()
        return self._connection

    def _new(self) -> Any:
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user="root",
            password=self.password,
            ssl=self.trust,
            autocommit=True,
            connect_timeout=_WAIT,
            read_timeout=_WAIT,
            write_timeout=_WAIT,
        )


@dataclass
class Messages:
    """Durable messages to a quorum queue, each confirmed by the broker before the next."""

    host: str
    port: int
    user: str
    password: str
    trust: ssl.SSLContext | None
    kind: str = "messages"
    interval: float = 0.5
    _channel: BlockingChannel | None = None

    def attempt(self, number: int) -> str:
        del number
        key = new_key()
        try:
            channel = self._channel = self._channel or self._new()
            channel.basic_publish("", _QUEUE, key.encode(), pika.BasicProperties(delivery_mode=2), mandatory=True)
        except Exception:
            channel, self._channel = self._channel, None
            with contextlib.suppress(Exception):
                if channel:
                    channel.connection.close()
            raise
        return key

    def present(self) -> set[str]:
        channel = self._new()
        messages: set[str] = set()
        with contextlib.closing(channel.connection):
            # Nothing is acknowledged, so all of it is back in the queue once the connection is closed.
            while True:
                method, _, body = channel.basic_get(_QUEUE)
                if method is None:
                    return messages
                messages.add((body or b"").decode())

    def _new(self) -> BlockingChannel:
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(
                self.host,
                self.port,
                credentials=pika.PlainCredentials(self.user, self.password),
                ssl_options=pika.SSLOptions(self.trust) if self.trust else None,
                heartbeat=_WAIT,
                socket_timeout=_WAIT,
                stack_timeout=_WAIT,
                blocked_connection_timeout=_WAIT,
            )
        )
        channel = connection.channel()
        # Messages are read again and again, and must not count as poison messages.
        kind = {"x-queue-type": "quorum", "x-delivery-limit": -1}
        channel.queue_declare(_QUEUE, durable=True, arguments=kind)
        channel.confirm_delivery()
        return channel


@dataclass
class Users:
    """Users in Keystone."""

    api: Api
    kind: str = "users"
    interval: float = 2.0

    def attempt(self, number: int) -> str:
        del number
        key = new_key()
        self.api.call("identity", "POST", "/users", json={"user": {"name": key, "enabled": False}})
        return key

    def present(self) -> set[str]:
        # Unasked, Keystone ends its list after a thousand.
        return {user["name"] for user in self.api.listed("identity", "/users?limit=500", "users")}


class Turnover(ABC):
    """Objects of one kind in an API, of which the oldest is deleted before another is created: the cloud stays as large
    as it is, and what a service goes through when it starts does not grow with the time a run took.
    """

    service: str
    """Type of the service in Keystone's catalog."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._existing: deque[tuple[str, str]] = deque()
        """Key and path, the oldest first."""
        self._deleting: set[str] = set()
        """Keys whose deletion was requested and not answered yet: they may exist or not."""
        self._removed: set[str] = set()

    @abstractmethod
    def create(self, key: str) -> str:
        """Create an object of that name and return its path. Raises what keystoneauth raises."""

    @abstractmethod
    def listed(self) -> set[str]:
        """Return the names of the objects that exist. Raises what keystoneauth raises."""

    def attempt(self, number: int) -> str:
        """Return the key of a new object. Raises what keystoneauth raises, with nothing created if the oldest could not
        be deleted.
        """
        del number
        if len(self._existing) >= _MAX_EXISTING:
            self._remove(*self._existing[0])
        key = new_key()
        self._existing.append((key, self.create(key)))
        return key

    def _remove(self, key: str, path: str) -> None:
        is_repeated = key in self._deleting
        self._deleting.add(key)
        try:
            self._api.call(self.service, "DELETE", path)
        except NotFound:
            # One whose deletion was never requested is lost, and must count as missing.
            if is_repeated:
                self._removed.add(key)
        else:
            self._removed.add(key)
        self._deleting.discard(key)
        self._existing.popleft()

    def present(self) -> set[str]:
        """Return the keys of the objects that exist, and of those that existed until they were to be deleted."""
        listed = self.listed()
        # The load goes on meanwhile. The keys being deleted are read after the list, which may lack them already, and
        # before the deleted ones, which they join once the request was answered.
        going = set(self._deleting)
        return listed | going | self._removed


class Networks(Turnover):
    """Networks in Neutron."""

    kind: str = "networks"
    interval: float = 5.0
    service = "network"

    def create(self, key: str) -> str:
        answer = self._api.json(self.service, "POST", "/v2.0/networks", json={"network": {"name": key}})
        return f"/v2.0/networks/{answer['network']['id']}"

    def listed(self) -> set[str]:
        return {each["name"] for each in self._api.listed(self.service, "/v2.0/networks?fields=name", "networks")}


class Ports(Turnover):
    """Ports in Neutron, of one network, that no server has."""

    kind: str = "ports"
    interval: float = 3.0
    service = "network"

    def __init__(self, api: Api, network: str) -> None:
        super().__init__(api)
        self._network = network

    def create(self, key: str) -> str:
        body = {"port": {"name": key, "network_id": self._network}}
        answer = self._api.json(self.service, "POST", "/v2.0/ports", json=body)
        return f"/v2.0/ports/{answer['port']['id']}"

    def listed(self) -> set[str]:
        return {each["name"] for each in self._api.listed(self.service, "/v2.0/ports?fields=name", "ports")}


@dataclass
class Images:
    """Small images in Glance, with their data."""

    api: Api
    kind: str = "images"
    interval: float = 8.0
    _sound: set[str] = field(default_factory=set[str])
    """Names of those whose data was right before."""

    def attempt(self, number: int) -> str:
        del number
        key = new_key()
        body = {"name": key, "disk_format": "raw", "container_format": "bare"}
        image = self.api.json("image", "POST", "/v2/images", json=body)
        headers = {"Content-Type": "application/octet-stream"}
        self.api.call("image", "PUT", f"/v2/images/{image['id']}/file", data=_content(key), headers=headers)
        return key

    def present(self) -> set[str]:
        """Return the names of the images that are active and whose data is what was sent; of those whose data was right
        before, only some are looked at again.
        """
        listed = self.api.listed("image", "/v2/images?limit=200", "images")
        active = {
            image["name"]: image["id"]
            for image in listed
            if (image["name"] or "").startswith(MARK) and image["status"] == "active"
        }
        before = sorted(self._sound & set(active))
        rechecked = random.sample(before, min(_RECHECKED, len(before)))
        for name in (*rechecked, *sorted(set(active) - self._sound)):
            data = self.api.call("image", "GET", f"/v2/images/{active[name]}/file").content
            (self._sound.add if data == _content(name) else self._sound.discard)(name)
        return self._sound & set(active)


def _content(key: str) -> bytes:
    return key.encode() * 64
