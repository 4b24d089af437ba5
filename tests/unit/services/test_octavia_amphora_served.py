"""The controllers of Octavia's provider amphora, of the image: their network in front of a small Neutron and a small
Nova, their programs with the images' MariaDB and RabbitMQ, and their certificates.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pymysql
import pytest

from openstack_operator import agents, kube
from openstack_operator.plan import Node, Object, Release, key
from openstack_operator.services.octavia.model import OCTAVIA
from openstack_operator.services.octavia.service import plan
from openstack_operator.testing import context
from tests.unit.image_root import image_root, inside, listens
from tests.unit.polling import TIMEOUT, until
from tools.localcluster.ports import free_port

SERVERS, USER = 999, 42437
PROJECT = "10000000000040008000000000000000"
SPEC = {
    "managementCIDR": "127.0.0.0/24",
    "flavor": {"memory": "512Mi"},
    "sshKey": "ssh-ed25519 AAAAfirst admin@example.org",
    "controllers": {"nodeSelector": {"openstack-gateway": "enabled"}},
}
AMPHORA, BALANCER = (f"{number}0000000-0000-4000-8000-000000000000" for number in (2, 3))
ENV = {"HOME": "/tmp", "LANG": "C.UTF-8"}
SHARED = "run/octavia-management"


class Cloud(BaseHTTPRequestHandler):
    """A Keystone with one user, and a Neutron and a Nova that keep what they are given."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def say(self, status: int, body: Any = None, **headers: str) -> None:
        content = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    @property
    def store(self) -> Server:
        assert isinstance(self.server, Server)
        return self.server

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    @property
    def words(self) -> list[str]:
        return urlsplit(self.path).path.strip("/").split("/")

    def do_GET(self) -> None:
        url, words = f"http://{self.headers['Host']}", self.words
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        match words:
            case ["v3"]:
                version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": f"{url}/v3"}]}
                self.say(200, {"version": version})
            case ["network"] | ["network", "v2.0"]:
                link = {"id": "v2.0", "status": "CURRENT", "links": [{"rel": "self", "href": f"{url}/network/v2.0"}]}
                self.say(200, {"versions": [link]})
            case ["compute"] | ["compute", "v2.1"]:
                link = {"rel": "self", "href": f"{url}/compute/v2.1"}
                version = {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1", "links": [link]}
                self.say(200, {"version": version} if len(words) > 1 else {"versions": [version]})
            case ["compute", "v2.1", "os-keypairs"]:
                self.say(200, {"keypairs": [{"keypair": each} for each in self.store.kinds["os-keypairs"].values()]})
            case ["compute", "v2.1", "os-keypairs", name]:
                pair = self.store.kinds["os-keypairs"].get(name)
                self.say(200, {"keypair": pair}) if pair else self.say(404, {"itemNotFound": {"code": 404}})
            case ["compute", "v2.1", "flavors", id_, "os-flavor-access"]:
                access = self.store.kinds["flavor-access"].values()
                self.say(200, {"flavor_access": [each for each in access if each["flavor_id"] == id_]})
            case ["compute", "v2.1", "flavors", "detail"]:
                self.say(200, {"flavors": [*self.store.kinds["flavors"].values()]})
            case ["network", "v2.0", kind]:
                rows = self.store.kinds[kind].values()
                asked = {name: value for name, value in query.items() if name not in {"fields", "limit", "marker"}}
                self.say(200, {kind.replace("-", "_"): [each for each in rows if fits(each, asked)]})
            case _:
                self.say(404, {"error": self.path})

    def do_POST(self) -> None:
        body = self.body()
        match self.words:
            case ["v3", "auth", "tokens"]:
                self.say(201, {"token": self.token()}, **{"X-Subject-Token": "token"})
            case ["compute", "v2.1", "os-keypairs"]:
                self.store.kinds["os-keypairs"][body["keypair"]["name"]] = body["keypair"]
                self.say(200, {"keypair": {**body["keypair"], "fingerprint": "x", "user_id": "octavia"}})
            case ["compute", "v2.1", "flavors", id_, "action"]:
                access = {"flavor_id": id_, "tenant_id": body["addTenantAccess"]["tenant"]}
                self.store.kinds["flavor-access"][id_] = access
                self.say(200, {"flavor_access": [access]})
            case ["compute", "v2.1", kind] | ["network", "v2.0", kind]:
                one = kind.replace("-", "_").removesuffix("s")
                self.say(201, {one: self.store.make(kind, body[one])})
            case _:
                self.say(404, {"error": self.path})

    def do_PUT(self) -> None:
        match self.words:
            case ["compute", "v2.1", "os-quota-sets", project]:
                self.store.quotas["compute", project] = self.body()["quota_set"]
                self.say(200, {"quota_set": {}})
            case ["network", "v2.0", "quotas", project]:
                self.store.quotas["network", project] = self.body()["quota"]
                self.say(200, {"quota": {}})
            case ["network", "v2.0", "ports", id_]:
                self.store.kinds["ports"][id_].update(self.body()["port"])
                self.say(200, {"port": self.store.kinds["ports"][id_]})
            case _:
                self.say(404, {"error": self.path})

    def do_DELETE(self) -> None:
        words = self.words
        del self.store.kinds[words[2]][words[3]]
        self.say(204)

    def token(self) -> Any:
        url, domain = f"http://{self.headers['Host']}", {"id": "default", "name": "Default"}
        services = {"network": f"{url}/network", "compute": f"{url}/compute/v2.1", "identity": f"{url}/v3"}
        return {
            "methods": ["password"],
            "user": {"id": "octavia", "name": "octavia", "domain": domain},
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "audit_ids": ["a"],
            "project": {"id": PROJECT, "name": "service", "domain": domain},
            "roles": [{"id": "admin", "name": "admin"}],
            "catalog": [
                {
                    "id": type_,
                    "type": type_,
                    "name": type_,
                    "endpoints": [{"id": "x", "interface": "internal", "region": "RegionOne", "url": url}],
                }
                for type_, url in services.items()
            ],
        }


def fits(row: dict[str, Any], asked: dict[str, str]) -> bool:
    return all(str(row.get(name)) == value for name, value in asked.items())


class Server(ThreadingHTTPServer):
    kinds: dict[str, dict[str, dict[str, Any]]]
    quotas: dict[tuple[str, str], dict[str, int]]
    numbers: Iterator[int]

    def make(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        number = next(self.numbers)
        row = {"id": f"7{number:07}-0000-4000-8000-000000000000", "project_id": PROJECT, **body}
        if kind == "networks":
            row["mtu"] = 1342
        if kind == "ports":
            row |= {"fixed_ips": [{"ip_address": f"127.0.0.{100 + number}"}], "mac_address": f"fa:16:3e:0:0:{number:x}"}
        self.kinds[kind][row["id"]] = row
        return row


def names(rows: dict[str, dict[str, Any]]) -> list[str]:
    return sorted(each["name"] for each in rows.values())


@dataclass
class Stand:
    """A root of the image with the files of a controller's pod, and the cloud it calls."""

    root: Path
    cloud: Server
    release: Release
    addresses: dict[str, dict[str, str]]
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.root / "tmp/log"

    def planned(self, *nodes: str, **amphora: Any) -> dict[tuple[str, str], Object]:
        """The plan's objects in a cluster with these nodes."""
        labels = {"openstack-gateway": "enabled"}
        made = plan(
            context(
                OCTAVIA,
                {"amphora": SPEC | amphora},
                release=self.release,
                published=self.addresses,
                draw=lambda: "drawn",
                nodes={name: Node(uid=name, labels=labels) for name in nodes},
            )
        )
        return {key(obj): obj for obj in made.objects}

    def write(self, objects: dict[tuple[str, str], Object]) -> None:
        """Lay the Secrets out as the pod mounts them."""
        config = kube.secret_data(objects["Secret", "octavia-controllers-config"])
        (self.root / "etc/octavia/octavia.conf").write_text(config["octavia.conf"])
        folder = self.root / "etc/octavia/amphora-tls"
        folder.mkdir(exist_ok=True)
        for name, text in kube.secret_data(objects["Secret", "octavia-amphora-tls"]).items():
            (folder / name).write_text(text)
            os.chown(folder / name, USER, USER)
        for name in (SHARED, "run/octavia", "var/lib/octavia"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
            os.chown(self.root / name, USER, USER)

    def run(self, *command: str, **env: str) -> int:
        with (
            self.log.open("a") as log,
            inside(
                self.root, USER, "sh", "-c", 'exec "$@" 2>&1', "sh", *command, env={**ENV, **env}, output=log.fileno()
            ) as process,
        ):
            return process.wait(TIMEOUT)

    def prepare(self, *nodes: str, **amphora: Any) -> None:
        """Run the Job that makes the network."""
        (job,) = [obj for (_, name), obj in self.planned(*nodes, **amphora).items() if "-management-" in name]
        (main,) = job["spec"]["template"]["spec"]["containers"]
        env = {each["name"]: each["value"] for each in main["env"]}
        assert self.run(*main["command"], **env) == 0, self.log.read_text()[-4000:]

    def find_port(self, node: str, *others: str) -> int:
        """Run the container that writes what this node needs to know; return its status."""
        pod = self.planned(node)["DaemonSet", "octavia-controllers"]["spec"]["template"]["spec"]
        container = next(each for each in pod["initContainers"] if each["name"] == "port")
        env = {each["name"]: each["value"] for each in container["env"] if "value" in each}
        return self.run(*container["command"], **env, NODE=node, NODES=",".join((node, *others)))


@pytest.fixture(name="stand", scope="module")
def _stand(release: Release) -> Generator[Stand]:
    with image_root("octavia") as root:
        cloud = Server(("127.0.0.1", 0), Cloud)
        kinds = (
            "networks",
            "subnets",
            "security-groups",
            "security-group-rules",
            "ports",
            "flavors",
            "flavor-access",
            "os-keypairs",
        )
        cloud.kinds = {kind: {} for kind in kinds}
        cloud.quotas, cloud.numbers = {}, count(1)
        Thread(target=cloud.serve_forever, daemon=True).start()
        published = {
            "MariaDB": {"host": "127.0.0.1", "port": str(free_port())},
            "RabbitMQ": {"host": "127.0.0.1", "port": str(free_port())},
            "Memcached": {"servers": ""},
            "Keystone": {"internalURL": f"http://127.0.0.1:{cloud.server_port}/v3"},
            "OVNNetwork": {"northbound": "tcp:127.0.0.1:6641", "southbound": "tcp:127.0.0.1:6642"},
        }
        stand = Stand(root, cloud, release, published)
        stand.write(stand.planned("a", "b"))
        yield stand
        cloud.shutdown()
        cloud.server_close()


def test_a_pod_waits_for_the_network(stand: Stand) -> None:
    assert stand.find_port("none") == 1
    assert "no port for node none" in stand.log.read_text()


def test_the_network_is_made_once_and_repaired(stand: Stand) -> None:
    kinds = stand.cloud.kinds
    kinds["ports"].clear()
    stand.prepare("a", "b")
    assert names(kinds["networks"]) == ["lb-mgmt-net"]
    (subnet,) = kinds["subnets"].values()
    assert (subnet["cidr"], subnet["gateway_ip"]) == ("127.0.0.0/24", None)
    assert names(kinds["security-groups"]) == ["lb-health-mgr-sec-grp", "lb-mgmt-sec-grp"]
    groups = {each["name"]: each["id"] for each in kinds["security-groups"].values()}
    amphorae, controllers = groups["lb-mgmt-sec-grp"], groups["lb-health-mgr-sec-grp"]
    rules = {
        (each["security_group_id"], each["remote_group_id"], each["protocol"], each["port_range_min"])
        for each in kinds["security-group-rules"].values()
    }
    # No amphora reaches another one there.
    assert rules == {
        *((amphorae, controllers, *each) for each in (("icmp", None), ("tcp", 9443), ("tcp", 22))),
        (controllers, amphorae, "udp", 5555),
    }
    ports = {each["binding:host_id"]: each for each in kinds["ports"].values()}
    assert sorted(ports) == ["a", "b"]
    assert {each["device_owner"] for each in ports.values()} == {"Octavia:health-mgr"}
    assert all(each["security_groups"] == [groups["lb-health-mgr-sec-grp"]] for each in ports.values())
    (flavor,) = kinds["flavors"].values()
    assert (flavor["ram"], flavor["vcpus"], flavor["disk"]) == (512, 1, 2)
    assert flavor["os-flavor-access:is_public"] is False
    assert kinds["flavor-access"] == {flavor["id"]: {"flavor_id": flavor["id"], "tenant_id": PROJECT}}
    assert stand.cloud.quotas["compute", PROJECT]["instances"] == -1
    assert stand.cloud.quotas["network", PROJECT]["port"] == -1
    before = json.dumps(kinds, sort_keys=True)
    stand.prepare("a", "b")
    assert json.dumps(kinds, sort_keys=True) == before
    # The Job may have ended before it gave access.
    kinds["flavor-access"].clear()
    stand.prepare("a", "b")
    assert json.dumps(kinds, sort_keys=True) == before
    # What others delete comes back, and a node that left finds its address again.
    stranger = stand.cloud.make(
        "ports",
        {"name": "mine", "network_id": ports["b"]["network_id"], "device_owner": ports["b"]["device_owner"]}
        | {"binding:host_id": "b", "security_groups": []},
    )
    kinds["flavors"].clear()
    kinds["security-group-rules"].clear()
    del kinds["ports"][ports["a"]["id"]]
    stand.prepare("a", "c")
    assert names(kinds["ports"]) == ["mine", *(f"octavia-health-manager-{node}" for node in "abc")]
    assert kinds["ports"][ports["b"]["id"]] == ports["b"]
    assert kinds["ports"].pop(stranger["id"])["security_groups"] == []
    assert len(kinds["security-group-rules"]) == 4
    assert names(kinds["flavors"]) == ["octavia-amphora-1-512-2"]


def test_a_controller_is_told_its_port(stand: Stand) -> None:
    stand.prepare("a", "b", "left")
    assert stand.find_port("a", "b") == 0, stand.log.read_text()[-4000:]
    ports = {node: each for each in stand.cloud.kinds["ports"].values() if (node := each["binding:host_id"]) in "ab"}
    address = {node: each["fixed_ips"][0]["ip_address"] for node, each in ports.items()}
    words = (stand.root / SHARED / "interface").read_text().split()
    assert words == [ports["a"]["id"], ports["a"]["mac_address"], f"{address['a']}/24", "1342"]
    options = (stand.root / SHARED / "management.conf").read_text()
    listed = ",".join(sorted(f"{each}:5555" for each in address.values()))
    (flavor,) = stand.cloud.kinds["flavors"]
    (network,) = stand.cloud.kinds["networks"]
    for line in (
        f"bind_ip = {address['a']}",
        f"controller_ip_port_list = {listed}",
        f"amp_flavor_id = {flavor}",
        f"amp_boot_network_list = {network}",
        f"amp_image_owner_id = {PROJECT}",
        "amp_ssh_key_name = octavia-amphora",
    ):
        assert f"{line}\n" in options


def test_the_key_for_ssh_is_replaced(stand: Stand) -> None:
    stand.prepare("a")
    keys = stand.cloud.kinds["os-keypairs"]
    keys["octavia-amphora"] = {"name": "octavia-amphora", "public_key": "ssh-ed25519 AAAAother"}
    assert stand.find_port("a") == 0
    assert keys["octavia-amphora"]["public_key"] == SPEC["sshKey"]


_CALL = """
import http.server, ssl, sys, threading, types
from octavia.common import service
service.prepare_service(["x", "--config-file", "/run/octavia-management/management.conf",
                         "--config-file", "/etc/octavia/octavia.conf"])
from oslo_config import cfg
from octavia.certificates.generator import local
from octavia.amphorae.drivers.haproxy import rest_api_driver
amphora = "%s"
pair = local.LocalCertGenerator.generate_cert_key_pair(cn=amphora, validity=3600)
open("/tmp/server.pem", "wb").write(pair.certificate + pair.private_key)

class Agent(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"api_version": "1.0"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

# As gunicorn does for the agent, which has what the worker gives a new server.
tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=cfg.CONF.controller_worker.client_ca)
tls.verify_mode = ssl.CERT_REQUIRED
tls.load_cert_chain("/tmp/server.pem")
server = http.server.HTTPServer(("127.0.0.1", 0), Agent)
server.socket = tls.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
cfg.CONF.set_override("bind_port", server.server_port, "haproxy_amphora")
client = rest_api_driver.AmphoraAPIClientBase()
if sys.argv[1] == "another":
    client.session.cert = "/tmp/server.pem"
retry = {"req_conn_timeout": 5, "req_read_timeout": 5, "conn_max_retries": 1, "conn_retry_interval": 1}
answer = client.get(types.SimpleNamespace(lb_network_ip="127.0.0.1", api_version="1.0", id=amphora), "x", retry)
print("answered", answer.json()["api_version"])
"""


@pytest.mark.security
def test_amphorae_and_controllers_verify_each_other(stand: Stand) -> None:
    """With the certificate of an amphora, nobody is a controller."""
    stand.prepare("a")
    assert stand.find_port("a") == 0
    program = _CALL % AMPHORA
    assert stand.run("python3", "-c", program, "controller") == 0, stand.log.read_text()[-4000:]
    assert "answered 1.0" in stand.log.read_text()
    assert stand.run("python3", "-c", program, "another") != 0


_BEAT = """
import socket, sys
from octavia.amphorae.backends.health_daemon import status_message
beat = {"id": sys.argv[1], "seq": 1, "listeners": {}, "pools": {}, "ver": 3}
message = status_message.wrap_envelope(beat, sys.argv[3])
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(message, (sys.argv[2], 5555))
"""


@contextmanager
def mariadb(port: int) -> Generator[None]:
    with image_root("mariadb") as root:
        words = ["mariadb-start", "--bind-address=127.0.0.1", f"--port={port}", "--wsrep-on=OFF"]
        with inside(root, SERVERS, *words, env={"MARIADB_ROOT_PASSWORD": "rootpw"}):
            until("MariaDB to listen", lambda: listens(port))
            yield


@contextmanager
def rabbitmq(port: int) -> Generator[None]:
    with image_root("rabbitmq") as root:
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        secret = root / "etc/rabbitmq/secret"
        secret.mkdir()
        for name, text in {"erlang-cookie": "cookie", "default_user": "octavia", "default_pass": "drawn"}.items():
            (secret / name).write_text(text)
        conf = f"management.tcp.port = {free_port()}\ndefault_vhost = octavia\n"
        (root / "etc/rabbitmq/conf.d/test.conf").write_text(conf)
        env = {"RABBITMQ_NODE_PORT": str(port), "RABBITMQ_DIST_PORT": str(free_port()), "HOME": "/var/lib/rabbitmq"}
        env |= {"ERL_EPMD_PORT": str(free_port()), "RABBITMQ_LOGS": "-", "RABBITMQ_NODENAME": "rabbit@localhost"}
        env |= {"RABBITMQ_MNESIA_BASE": "/var/lib/rabbitmq/mnesia"}
        env |= {"RABBITMQ_ENABLED_PLUGINS_FILE": "/etc/rabbitmq/enabled_plugins"}
        env |= {"PATH": "/usr/lib/rabbitmq/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        with inside(root, SERVERS, "rabbitmq-start", env=env):
            until("RabbitMQ to listen", lambda: listens(port))
            yield


def test_the_controllers_start_and_a_heartbeat_brings_a_load_balancer_online(stand: Stand, release: Release) -> None:
    stand.prepare("a")
    assert stand.find_port("a") == 0
    (port,) = [each for each in stand.cloud.kinds["ports"].values() if each["binding:host_id"] == "a"]
    address = port["fixed_ips"][0]["ip_address"]
    with ExitStack() as stack:
        sql = int(stand.addresses["MariaDB"]["port"])
        stack.enter_context(mariadb(sql))
        stack.enter_context(rabbitmq(int(stand.addresses["RabbitMQ"]["port"])))

        def query(statement: str) -> list[Any]:
            with pymysql.connect(host="127.0.0.1", port=sql, user="root", password="rootpw", autocommit=True) as server:
                cursor = server.cursor()
                cursor.execute(statement)
                return list(cursor.fetchall())

        query("CREATE DATABASE octavia")
        query("GRANT ALL ON octavia.* TO octavia@'%' IDENTIFIED BY 'drawn'")
        assert stand.run(*release["octavia-api"].commands["manage"], "upgrade", "head") == 0
        query(
            "INSERT INTO octavia.load_balancer (id, project_id, name, provisioning_status, operating_status, enabled, "
            f"topology, provider) VALUES ('{BALANCER}', '{PROJECT}', 'x', 'ACTIVE', 'OFFLINE', 1, 'SINGLE', 'amphora')"
        )
        query(
            "INSERT INTO octavia.amphora (id, load_balancer_id, status, lb_network_ip, cert_busy, cert_expiration) "
            f"VALUES ('{AMPHORA}', '{BALANCER}', 'ALLOCATED', '127.0.0.9', 0, UTC_TIMESTAMP() + INTERVAL 30 DAY)"
        )
        processes = {}
        for name in ("worker", "health-manager", "housekeeping"):
            log = stack.enter_context((stand.root / f"tmp/{name}.log").open("w"))
            words = ("sh", "-c", 'exec "$@" 2>&1', "sh", *release[f"octavia-{name}"].command)
            process = inside(stand.root, USER, *words, env=ENV, output=log.fileno())
            processes[name] = stack.enter_context(process)

        def status() -> str:
            ((found,),) = query(f"SELECT operating_status FROM octavia.load_balancer WHERE id = '{BALANCER}'")
            return str(found)

        def beat(secret: str) -> None:
            assert stand.run("python3", "-c", _BEAT, AMPHORA, address, secret) == 0

        def text(name: str) -> str:
            return (stand.root / f"tmp/{name}.log").read_text()

        listens = f"{int.from_bytes(socket.inet_aton(address), 'little'):08X}:15B3 "
        until("the health manager to listen", lambda: listens in Path("/proc/net/udp").read_text())
        beat("forged")
        until("the refusal", lambda: "not equal to msg hmac" in text("health-manager"))
        assert status() == "OFFLINE"

        def is_online() -> bool:
            beat("drawn")
            return status() == "ONLINE"

        until("the load balancer to be ONLINE", is_online)
        broker = f":{int(stand.addresses['RabbitMQ']['port']):04X} 01 "
        until("the worker's connection", lambda: broker in Path("/proc/net/tcp").read_text())
        for name, process in processes.items():
            assert process.poll() is None, text(name)[-4000:]
            assert "drawn" not in text(name)


_SWITCH = r"""
mkdir -p /run/openvswitch /tmp/proc/1/ns /etc/openvswitch
unshare --net sleep 1000 &
node=$!
until [ "$(readlink /proc/$node/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
ln -s "/proc/$node/ns/net" /tmp/proc/1/ns/net
ovsdb-tool create /tmp/conf.db
ovsdb-server /tmp/conf.db --remote=punix:/run/openvswitch/db.sock --unixctl=/tmp/db.ctl -vconsole:warn &
until ovs-vsctl --timeout=5 --no-wait init; do sleep 0.2; done
nsenter --net=/tmp/proc/1/ns/net ovs-vswitchd --unixctl=/tmp/switch.ctl -vconsole:warn &
ovs-vsctl --timeout=60 add-br br-int -- set bridge br-int datapath_type=netdev
# The pod is the network in which this goes on; what an attempt left is no obstacle to the next one.
unshare --net sh -euc '"$@" && "$@" && ip -o address show dev o-hm0 && ip -o link show dev o-hm0' sh "$@"
echo "ports: $(ovs-vsctl --timeout=5 list-ports br-int)"
ovs-vsctl --timeout=5 --bare --columns=external_ids list Interface o-hm-test
echo "error: $(ovs-vsctl --timeout=5 get Interface o-hm-test error)"
"""


def join(words: str) -> tuple[int, str]:
    """Run the container that joins the network, with a switch in another network namespace; return what it says."""
    with image_root("ovn") as root:
        (root / "tmp/interface").write_text(f"{words}\n")
        env = {
            "INTERFACE_FILE": "/tmp/interface",
            "NODE_INTERFACE": "o-hm-test",
            "NODE_PROC": "/tmp/proc",
            "HOME": "/tmp",
        }
        command = ("unshare", "--net", "sh", "-c", f"{_SWITCH} exit 0", "sh", *agents.shell("octavia/join_network.sh"))
        log = root / "tmp/log"
        with log.open("w") as output, inside(root, 0, *command, env=env, output=output.fileno()) as process:
            return process.wait(TIMEOUT), log.read_text()


def test_a_pod_joins_the_network_by_the_switch_of_its_node() -> None:
    mac, address = "fa:16:3e:00:00:01", "10.254.0.9/20"
    _, said = join(f"{AMPHORA} {mac} {address} 1342")
    assert f"inet {address}" in said
    assert f"link/ether {mac}" in said
    assert "mtu 1342" in said
    assert "ports: o-hm-test" in said
    for name, value in {"iface-id": AMPHORA, "attached-mac": mac, "iface-status": "active"}.items():
        assert f"{name}={value}" in said.replace('"', "")


@pytest.mark.security
@pytest.mark.parametrize(
    "words",
    [
        f"{AMPHORA} fa:16:3e:00:00:01 10.254.0.9/20",
        f"{AMPHORA}; fa:16:3e:00:00:01 10.254.0.9/20 1342",
        f"{AMPHORA} fa:16:3e:00:00:01 $(id)/20 1342",
        f"{AMPHORA} fa:16:3e:00:00:01 10.254.0.9/20 1342 netns x",
        "--id=@x fa:16:3e:00:00:01 10.254.0.9/20 1342",
        rf"{AMPHORA}\cx fa:16:3e:00:00:01 10.254.0.9/20 1342",
        rf"{AMPHORA}\nx fa:16:3e:00:00:01 10.254.0.9/20 1342",
    ],
)
def test_an_invalid_port_is_refused(tmp_path: Path, words: str) -> None:
    """The file is by a container with an image of the user's, and what reads it is root on the node."""
    (tmp_path / "interface").write_text(f"{words}\n")
    env = {"INTERFACE_FILE": str(tmp_path / "interface"), "NODE_INTERFACE": "x", "NODE_PROC": "/nowhere"}
    result = subprocess.run(
        agents.shell("octavia/join_network.sh"),
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith("not ")
