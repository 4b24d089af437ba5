"""Octavia of the image, with the images' MariaDB and OVN, in front of a small Keystone and a small Neutron."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pymysql
import pytest

from openstack_operator import agents, kube, pki
from openstack_operator.plan import Release, key
from openstack_operator.services.octavia.model import OCTAVIA
from openstack_operator.services.octavia.service import plan
from openstack_operator.testing import NOW, context
from tests.unit.image_root import image_root, inside, listens
from tests.unit.polling import TIMEOUT, until
from tools.localcluster.ports import free_port

ROOT, MYSQL, USER = 0, 999, 42437
PROJECT, NETWORK, SUBNET, ROUTER = (f"{number}0000000-0000-4000-8000-000000000000" for number in range(1, 5))
GUESTS = {
    "10.0.0.5": "50000000-0000-4000-8000-000000000000",
    "10.0.0.6": "60000000-0000-4000-8000-000000000000",
}
"""Ports of guests, by address."""
ROLES = {
    "admin": ["admin", "member", "reader"],
    "member": ["member", "reader"],
    "reader": ["reader"],
    "other": ["member"],
    "octavia": ["admin", "service"],
}
"""Of the user of each token."""


class Cloud(BaseHTTPRequestHandler):
    """A Keystone that knows `ROLES`, and a Neutron with a network, a subnet and the ports that clients make."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    @property
    def url(self) -> str:
        return f"http://{self.headers['Host']}"

    def say(self, status: int, body: Mapping[str, Any] | None = None, **headers: str) -> None:
        content = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def token(self, name: str) -> dict[str, Any]:
        assert isinstance(self.server, Server)
        domain = {"id": "default", "name": "Default"}
        project = PROJECT if name != "other" else PROJECT.replace("1", "9", 1)
        services = {
            "network": f"{self.url}/network",
            "identity": f"{self.url}/v3",
            "load-balancer": self.server.octavia,
        }
        return {
            "methods": ["password"],
            "user": {"id": name, "name": name, "domain": domain, "password_expires_at": None},
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "audit_ids": ["a"],
            "project": {"id": project.replace("-", ""), "name": name, "domain": domain},
            "roles": [{"id": each, "name": each} for each in ROLES[name]],
            "catalog": [
                {
                    "id": type_,
                    "type": type_,
                    "name": type_,
                    "endpoints": [
                        {"id": each, "interface": each, "region": "RegionOne", "region_id": "RegionOne", "url": url}
                        for each in ("public", "internal")
                    ],
                }
                for type_, url in services.items()
            ],
        }

    def do_POST(self) -> None:
        body = self.body()
        if self.path == "/v3/auth/tokens":
            name = body["auth"]["identity"]["password"]["user"]["name"]
            return self.say(201, {"token": self.token(name)}, **{"X-Subject-Token": name})
        assert isinstance(self.server, Server)
        number = next(self.server.numbers)
        port: dict[str, Any] = {
            "id": f"7{number:07}-0000-4000-8000-000000000000",
            "status": "DOWN",
            **body["port"],
        }
        fixed = port.get("fixed_ips") or [{"subnet_id": SUBNET}]
        address = f"10.0.0.{100 + number}"
        port["fixed_ips"] = [{"ip_address": address, **{k: v for k, v in each.items() if v}} for each in fixed]
        self.server.ports[port["id"]] = port
        self.server.made(port)
        return self.say(201, {"port": port})

    def do_PUT(self) -> None:
        assert isinstance(self.server, Server)
        port = self.server.ports[self.path.rpartition("/")[2]]
        port.update(self.body()["port"])
        self.say(200, {"port": port})

    def do_DELETE(self) -> None:
        assert isinstance(self.server, Server)
        self.server.ports.pop(self.path.rpartition("/")[2], None)
        self.say(204)

    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        path, _, query = self.path.partition("?")
        words = path.strip("/").split("/")
        wanted = dict(each.split("=") for each in query.split("&") if "=" in each)
        if path == "/v3/auth/tokens":
            name = self.headers["X-Subject-Token"]
            known = name in ROLES
            return self.say(200, {"token": self.token(name)}) if known else self.say(404, {"error": {"code": 404}})
        if words[0] == "v3":
            version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": f"{self.url}/v3"}]}
            return self.say(200, {"version": version})
        network = {"id": NETWORK, "name": "net", "subnets": [SUBNET], "project_id": PROJECT, "mtu": 1400}
        subnet = {
            "id": SUBNET,
            "network_id": NETWORK,
            "cidr": "10.0.0.0/24",
            "ip_version": 4,
            "gateway_ip": "10.0.0.1",
            "project_id": PROJECT,
        }
        answers: dict[str, dict[str, dict[str, Any]]] = {
            "networks": {NETWORK: network},
            "subnets": {SUBNET: subnet},
            "ports": self.server.ports,
            "floatingips": {},
            "extensions": {name: {"alias": name, "name": name} for name in ("allowed-address-pairs", "security-group")},
        }
        kind = words[2] if len(words) > 2 and words[:2] == ["network", "v2.0"] else ""
        if kind not in answers:
            link = {"id": "v2.0", "status": "CURRENT", "links": [{"rel": "self", "href": f"{self.url}/network/v2.0"}]}
            return self.say(200, {"versions": [link]}) if not kind else self.say(404, {"NeutronError": path})
        if len(words) > 3:
            one = answers[kind].get(words[3])
            return self.say(200, {kind.removesuffix("s"): one}) if one else self.say(404, {"NeutronError": path})
        listed = [
            each
            for each in answers[kind].values()
            if all(
                str(each.get(name)) == value for name, value in wanted.items() if name in ("name", "id", "network_id")
            )
        ]
        return self.say(200, {kind: listed})


class Server(ThreadingHTTPServer):
    ports: dict[str, dict[str, Any]]
    numbers: Iterator[int]
    """Of ports, also of those that were deleted."""
    octavia: str
    made: Callable[[dict[str, Any]], None]
    """Called with each new port, as Neutron writes it into OVN."""


@dataclass
class Stand:
    """A pod of Octavia, and the servers it uses."""

    root: Path
    ovn: Path
    api: int
    config: str
    log: Path
    sql: Callable[[str], list[Any]] = field(repr=False)
    agent: ExitStack = field(repr=False)
    """Ends the driver agent."""

    def call(self, method: str, path: str, body: Any = None, token: str = "member") -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.api}{path}",
            json.dumps(body).encode() if body is not None else None,
            {"X-Forwarded-Proto": "https", "Content-Type": "application/json"}
            | ({"X-Auth-Token": token} if token else {}),
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else text.decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def make(self, kind: str, **body: Any) -> str:
        """The id of a new one, once Octavia has made it."""
        one = {"healthmonitors": "healthmonitor"}.get(
            kind.rpartition("/")[2], kind.rpartition("/")[2].removesuffix("s")
        )
        status, answer = self.call("POST", f"/v2/lbaas/{kind}", {one: body})
        assert status == 201, answer
        made = answer[one]["id"]
        until(f"{one} to be active", lambda: self.look(f"{kind}/{made}")["provisioning_status"] == "ACTIVE")
        return made

    def look(self, path: str) -> dict[str, Any]:
        status, answer = self.call("GET", f"/v2/lbaas/{path}")
        assert status == 200, answer
        (only,) = answer.values()
        assert only["provisioning_status"] != "ERROR", self.log.read_text()[-8000:]
        return only

    @property
    def switch(self) -> str:
        return self.ctl("nb", "--bare", "--columns=_uuid", "list", "Logical_Switch")

    def ctl(self, database: str, *words: str) -> str:
        return ctl(self.ovn, database, *words)


def ctl(root: Path, database: str, *words: str) -> str:
    """What OVN's client says, in the root of its image."""
    command = (f"ovn-{database}ctl", f"--db=unix:/tmp/{database}.sock", "--timeout=30", *words)
    with inside(root, ROOT, *command, env={"HOME": "/tmp"}, output=subprocess.PIPE) as process:
        said, _ = process.communicate()
        assert process.returncode == 0, words
    return said.strip()


SERVERS = r"""
cd /tmp
for each in nb sb; do
    ovsdb-tool create $each.db /usr/share/ovn/ovn-$each.ovsschema
    [ $each = nb ] && port=$1 || port=$2
    ovsdb-server $each.db --remote=punix:/tmp/$each.sock --remote=pssl:$port:127.0.0.1 --unixctl=/tmp/$each.ctl \
        -p tls.key -c tls.crt -C ca.crt -vconsole:warn &
done
until ovn-nbctl --db=unix:/tmp/nb.sock init && ovn-sbctl --db=unix:/tmp/sb.sock init; do sleep 0.1; done
exec ovn-northd --ovnnb-db=unix:/tmp/nb.sock --ovnsb-db=unix:/tmp/sb.sock --unixctl=/tmp/northd.ctl -vconsole:warn
"""


@contextmanager
def ovn(nb: int, sb: int, authority: pki.Pair) -> Generator[Path]:
    with image_root("ovn") as root:
        certified(root / "tmp", authority)
        with inside(root, ROOT, "sh", "-c", SERVERS, "servers", str(nb), str(sb), env={"HOME": "/tmp"}):
            until("OVN to listen", lambda: listens(nb) and listens(sb))
            yield root


def certified(folder: Path, authority: pki.Pair, user: int = 0) -> None:
    pair = pki.issue(authority, pki.Request(common="one", names=frozenset({"one"}), calls=True), "one", NOW)
    folder.mkdir(exist_ok=True)
    for name, text in {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": authority.cert}.items():
        (folder / name).write_text(text)
        os.chown(folder / name, user, user)


def configured(root: Path, release: Release, nb: int, sb: int, mariadb: int, cloud: int) -> str:
    """The files that the operator mounts are there; returns the configuration."""
    made = plan(
        context(
            OCTAVIA,
            {"quotas": {"loadBalancers": 3}},
            release=release,
            published={
                "MariaDB": {"host": "127.0.0.1", "port": str(mariadb)},
                "Memcached": {"servers": ""},
                "Keystone": {"internalURL": f"http://127.0.0.1:{cloud}/v3"},
                "OVNNetwork": {
                    "northbound": f"ssl:127.0.0.1:{nb}",
                    "southbound": f"ssl:127.0.0.1:{sb}",
                    "clientSecret": "ovn-client-tls",
                },
            },
            draw=lambda: "drawn",
        )
    )
    objects = {key(obj): obj for obj in made.objects}
    text = kube.secret_data(objects["Secret", "octavia-config"])["octavia.conf"]
    (root / "etc/octavia/octavia.conf").write_text(text)
    for folder in ("run/octavia", "var/lib/octavia"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        os.chown(root / folder, USER, USER)
    return text


# The variable is there where a TLS proxy stands before the API.
ENV = {"HOME": "/tmp", "LANG": "C.UTF-8", "PAUSE": "1", "OS_OSLO_MIDDLEWARE__ENABLE_PROXY_HEADERS_PARSING": "true"}


@pytest.fixture(name="stand", scope="module")
def _stand(release: Release) -> Iterator[Stand]:
    """For tests that leave its programs and rows to the others."""
    with octavia(release) as stand:
        yield stand


@pytest.fixture(name="own_stand")
def _own_stand(release: Release) -> Iterator[Stand]:
    """For a test that breaks something."""
    with octavia(release) as stand:
        yield stand


@contextmanager
def octavia(release: Release) -> Generator[Stand]:
    with ExitStack() as stack:
        root, mariadb = stack.enter_context(image_root("octavia")), stack.enter_context(image_root("mariadb"))
        nb, sb, sql, api = (free_port() for _ in range(4))
        authority = pki.authority("cloud", "cloud", NOW)
        switches = stack.enter_context(ovn(nb, sb, authority))
        certified(root / "etc/ovn-tls", authority, USER)
        words = ["mariadb-start", "--bind-address=127.0.0.1", f"--port={sql}", "--wsrep-on=OFF"]
        stack.enter_context(inside(mariadb, MYSQL, *words, env={"MARIADB_ROOT_PASSWORD": "rootpw"}))
        cloud = Server(("127.0.0.1", 0), Cloud)
        cloud.ports = {
            port: {
                "id": port,
                "name": "guest",
                "network_id": NETWORK,
                "fixed_ips": [{"subnet_id": SUBNET, "ip_address": address}],
            }
            for address, port in GUESTS.items()
        }
        cloud.numbers = count()
        cloud.made = lambda port: neutron_writes(switches, port)
        cloud.octavia = f"http://127.0.0.1:{api}"
        Thread(target=cloud.serve_forever, daemon=True).start()
        stack.callback(cloud.server_close)
        stack.callback(cloud.shutdown)
        text = configured(root, release, nb, sb, sql, cloud.server_port)
        topology(switches)
        for port in cloud.ports.values():
            neutron_writes(switches, port)
        until("MariaDB to listen", lambda: listens(sql))

        def query(statement: str) -> list[Any]:
            with pymysql.connect(host="127.0.0.1", port=sql, user="root", password="rootpw", autocommit=True) as server:
                cursor = server.cursor()
                cursor.execute(statement)
                return list(cursor.fetchall())

        query("CREATE DATABASE octavia")
        query("GRANT ALL ON octavia.* TO octavia@'%' IDENTIFIED BY 'drawn'")
        with inside(root, USER, *release["octavia-api"].commands["manage"], "upgrade", "head", env=ENV) as process:
            assert process.wait(TIMEOUT) == 0
        log = root / "tmp/log"
        output = stack.enter_context(log.open("w")).fileno()
        agent = stack.enter_context(ExitStack())
        agent.enter_context(driver_agent(root, release, output))
        words = [
            word.format(listen=f"127.0.0.1:{api}", processes=1, threads=4) for word in release["octavia-api"].command
        ]
        stack.enter_context(running(root, words, output))
        made = Stand(root, switches, api, text, log, query, agent)
        try:
            until("the API to answer", lambda: listens(api) and made.call("GET", "/healthcheck", token="")[0] == 200)
        except BaseException:
            print(log.read_text()[-8000:])
            raise
        yield made


@contextmanager
def running(root: Path, words: Sequence[str], output: int) -> Generator[None]:
    command = ("sh", "-c", 'exec "$@" 2>&1', "program", *words)
    with inside(root, USER, *command, env=ENV, output=output):
        yield


def driver_agent(root: Path, release: Release, output: int) -> AbstractContextManager[None]:
    program = agents.text("octavia/driver_agent.py")
    return running(root, ["python3", "-c", program, *release["octavia-driver-agent"].command[1:]], output)


@contextmanager
def another_root(stand: Stand) -> Generator[Path]:
    """The root of another pod of this Octavia."""
    with image_root("octavia") as root:
        for name in ("etc/octavia", "etc/ovn-tls", "run/octavia"):
            shutil.copytree(stand.root / name, root / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
        for path in (*(root / "etc/ovn-tls").iterdir(), root / "run/octavia"):
            os.chown(path, USER, USER)
        yield root


def topology(root: Path) -> None:
    """A network and a router, as Neutron writes them."""
    router = f"neutron-{ROUTER}"
    ctl(
        root,
        "nb",
        *("ls-add", f"neutron-{NETWORK}", "--", "lr-add", router),
        *("--", "lrp-add", router, "lrp-1", "02:00:00:00:00:01", "10.0.0.1/24"),
        *("--", "set", "Logical_Router_Port", "lrp-1", f"external_ids:neutron\\:network_name=neutron-{NETWORK}"),
        f"external_ids:neutron\\:router_name={ROUTER}",
        *("--", "lsp-add", f"neutron-{NETWORK}", "to-router"),
        *("--", "lsp-set-type", "to-router", "router", "--", "lsp-set-options", "to-router", "router-port=lrp-1"),
        *("--", "lsp-set-addresses", "to-router", "router"),
    )


def neutron_writes(root: Path, port: dict[str, Any]) -> None:
    address = port["fixed_ips"][0]["ip_address"]
    ctl(
        root,
        "nb",
        *("lsp-add", f"neutron-{NETWORK}", port["id"]),
        *("--", "lsp-set-addresses", port["id"], f"02:00:00:00:01:{int(address.rpartition('.')[2]):02x} {address}"),
        *("--", "set", "Logical_Switch_Port", port["id"], f"external_ids:neutron\\:port_name={port['name']}"),
        f"external_ids:neutron\\:cidrs={address}/24",
        f"external_ids:neutron\\:network_name=neutron-{NETWORK}",
        f"external_ids:neutron\\:project_id={PROJECT}",
    )


@dataclass
class Balancer:
    """A load balancer of two members for TCP, with a health monitor, and one for UDP."""

    id: str
    pool: str
    members: tuple[str, str]
    monitor: str


@pytest.fixture(name="web", scope="module")
def _web(stand: Stand) -> Balancer:
    return served(stand)


def served(stand: Stand) -> Balancer:
    balancer = stand.make("loadbalancers", name="web", vip_subnet_id=SUBNET)
    pools: list[str] = []
    for protocol, port in (("TCP", 80), ("UDP", 53)):
        listener = stand.make("listeners", loadbalancer_id=balancer, protocol=protocol, protocol_port=port)
        pools.append(stand.make("pools", listener_id=listener, protocol=protocol, lb_algorithm="SOURCE_IP_PORT"))
    members = [
        stand.make(f"pools/{pool}/members", address=address, protocol_port=8080, subnet_id=SUBNET)
        for pool in pools
        for address in ("10.0.0.5", "10.0.0.6")
    ]
    monitor = stand.make("healthmonitors", pool_id=pools[0], type="TCP", delay=2, timeout=1, max_retries=1)
    return Balancer(balancer, pools[0], (members[0], members[1]), monitor)


def test_a_load_balancer_becomes_rows_of_ovn(stand: Stand, web: Balancer) -> None:
    rows = json.loads(stand.ctl("nb", "--format=json", "--columns=protocol,vips,name", "list", "Load_Balancer"))["data"]
    assert {name for *_, name in rows} == {web.id}
    vip = stand.look(f"loadbalancers/{web.id}")["vip_address"]
    vips = {protocol: dict(pairs) for protocol, (_, pairs), _ in rows}
    assert vips["tcp"] == {f"{vip}:80": "10.0.0.5:8080,10.0.0.6:8080"}
    assert vips["udp"] == {f"{vip}:53": "10.0.0.5:8080,10.0.0.6:8080"}
    assert stand.ctl("nb", "--bare", "--columns=load_balancer", "list", "Logical_Switch")


def status(stand: Stand, web: Balancer, member: int = 0) -> str:
    return str(stand.look(f"pools/{web.pool}/members/{web.members[member]}")["operating_status"])


def seen(stand: Stand, state: str, address: str = "10.0.0.5") -> None:
    """A node sees the member in that state."""
    row = stand.ctl("sb", "--bare", "--columns=_uuid", "find", "Service_Monitor", f"ip={address}")
    stand.ctl("sb", "set", "Service_Monitor", row, f"status={state}")


def test_a_member_that_ovn_misses_is_in_error(stand: Stand, web: Balancer) -> None:
    until("OVN to watch the member", lambda: "10.0.0.5" in stand.ctl("sb", "--bare", "list", "Service_Monitor"))
    for state, expected in (("online", "ONLINE"), ("offline", "ERROR"), ("online", "ONLINE")):
        seen(stand, state)
        until(f"the member to be {expected}", lambda expected=expected: status(stand, web) == expected)


@pytest.mark.security
def test_members_write_and_readers_read_in_their_own_project(stand: Stand, web: Balancer) -> None:
    body = {"loadbalancer": {"name": "more", "vip_subnet_id": SUBNET}}
    assert stand.call("POST", "/v2/lbaas/loadbalancers", body, "reader")[0] == 403
    path = f"/v2/lbaas/loadbalancers/{web.id}"
    assert stand.call("GET", path, token="reader")[0] == 200
    assert stand.call("GET", path, token="admin")[0] == 200
    assert stand.call("GET", path, token="other")[0] == 403
    assert stand.call("DELETE", path, token="other")[0] == 403
    assert stand.call("GET", path, token="forged")[0] == 401
    assert stand.call("GET", path, token="")[0] == 401


def test_links_of_the_api_have_the_scheme_of_its_proxy(stand: Stand) -> None:
    """Clients follow them, and would find nothing at a port for plain text."""
    _, answer = stand.call("GET", "/", token="")
    assert {link["href"].partition(":")[0] for version in answer["versions"] for link in version["links"]} == {"https"}


def test_the_quota_of_the_spec_is_in_force(stand: Stand) -> None:
    _, answer = stand.call("GET", f"/v2/lbaas/quotas/{PROJECT.replace('-', '')}")
    assert answer["quota"]["load_balancer"] == 3


def test_ovn_has_no_flavors(stand: Stand) -> None:
    """Documented in docs/reference/limits.md."""
    body = {"flavorprofile": {"name": "x", "provider_name": "ovn", "flavor_data": "{}"}}
    code, answer = stand.call("POST", "/v2/lbaas/flavorprofiles", body, "admin")
    assert code == 501, answer


@pytest.mark.security
def test_no_password_is_in_the_log(stand: Stand) -> None:
    log = stand.log.read_text()
    assert "database.connection" in log
    assert "drawn" not in log


def test_the_probes_of_the_driver_agent_know_it(stand: Stand) -> None:
    ports = [
        line.rpartition(":")[2] for line in stand.config.splitlines() if line.startswith("ovn_") and "ssl:" in line
    ]
    for program, *words in (
        ("octavia/agent_listens.sh", "/var/run/octavia", *ports),
        ("octavia/agent_runs.sh",),
    ):
        command = agents.shell(program, words=words)
        until(f"{program} to succeed", lambda command=command: subprocess.run(command, check=False).returncode == 0)


def test_lost_rows_of_ovn_come_back(own_stand: Stand, release: Release) -> None:
    """The job has a driver agent of its own, in a root of its own."""
    stand, web = own_stand, served(own_stand)
    for row in stand.ctl("nb", "--bare", "--columns=_uuid", "list", "Load_Balancer").split():
        stand.ctl("nb", "lb-del", row)
    network = f"neutron-{NETWORK}"
    command = ("python3", "-c", agents.text("octavia/restore.py"), *release["octavia-driver-agent"].command)
    with another_root(stand) as root:
        for name, expected in (("elsewhere", 1), (network, 0), (network, 0)):
            stand.ctl("nb", "set", "Logical_Switch", stand.switch, f"name={name}")
            with inside(root, USER, *command, env=ENV) as process:
                assert process.wait(TIMEOUT) == expected
    assert stand.look(f"loadbalancers/{web.id}")["provisioning_status"] == "ACTIVE"
    test_a_load_balancer_becomes_rows_of_ovn(stand, web)
    until("OVN to watch the member", lambda: "10.0.0.5" in stand.ctl("sb", "--bare", "list", "Service_Monitor"))


def test_deleted_load_balancers_are_purged(stand: Stand) -> None:
    balancer = stand.make("loadbalancers", name="short", vip_subnet_id=SUBNET)
    code, answer = stand.call("DELETE", f"/v2/lbaas/loadbalancers/{balancer}")
    assert code == 204, answer
    row = f"SELECT provisioning_status FROM octavia.load_balancer WHERE id = '{balancer}'"
    until("it to be deleted", lambda: stand.sql(row) == [("DELETED",)])
    purge = ("python3", "-c", agents.text("octavia/purge.py"))
    for expected in ([("DELETED",)], []):
        with inside(stand.root, USER, *purge, env=ENV) as process:
            assert process.wait(TIMEOUT) == 0
        assert stand.sql(row) == expected
        stand.sql(f"UPDATE octavia.load_balancer SET updated_at = '2020-01-01' WHERE id = '{balancer}'")


def test_another_agent_takes_over(own_stand: Stand, release: Release) -> None:
    """A lock in OVN's databases decides which agent follows health monitors."""
    stand, web = own_stand, served(own_stand)
    seen(stand, "online")
    until("the member to be online", lambda: status(stand, web) == "ONLINE")
    with ExitStack() as stack:
        root = stack.enter_context(another_root(stand))
        log = root / "tmp/log"
        stack.enter_context(driver_agent(root, release, stack.enter_context(log.open("w")).fileno()))
        until("the other agent to start", lambda: "OVN provider agent has started" in log.read_text())
        stand.agent.close()

        def is_followed() -> bool:
            # What happens before the other one has the lock is lost (docs/how-to/offer-load-balancers.md).
            seen(stand, "online")
            seen(stand, "offline")
            return status(stand, web) == "ERROR"

        until("the member to be in ERROR", is_followed)


def lose(stand: Stand, table: str, id_: str, status: str, balancer: str, minutes: int) -> None:
    """An API ended so many minutes ago, before it carried out a change of a row of that table."""
    changed_at = f"updated_at = UTC_TIMESTAMP() - INTERVAL {minutes} MINUTE"
    kind = status if table == "load_balancer" else "PENDING_UPDATE"
    stand.sql(f"UPDATE octavia.{table} SET provisioning_status = '{status}' WHERE id = '{id_}'")
    stand.sql(f"UPDATE octavia.load_balancer SET provisioning_status = '{kind}', {changed_at} WHERE id = '{balancer}'")


def test_a_lost_change_of_a_part_can_be_repeated(stand: Stand) -> None:
    """It has no health monitor, whose events are changes, too."""
    balancer = stand.make("loadbalancers", name="changed", vip_subnet_id=SUBNET)
    listener = stand.make("listeners", loadbalancer_id=balancer, protocol="TCP", protocol_port=80)
    path = f"/v2/lbaas/listeners/{listener}"
    lose(stand, "listener", listener, "PENDING_UPDATE", balancer, 11)
    until("the load balancer", lambda: stand.look(f"loadbalancers/{balancer}")["provisioning_status"] == "ACTIVE")
    assert stand.call("GET", path)[1]["listener"]["provisioning_status"] == "ERROR"
    assert stand.call("PUT", path, {"listener": {"name": "again"}})[0] == 200
    until("the listener", lambda: stand.call("GET", path)[1]["listener"]["provisioning_status"] == "ACTIVE")
    assert stand.call("DELETE", f"/v2/lbaas/loadbalancers/{balancer}?cascade=true")[0] == 204
    until("it to be deleted", lambda: stand.call("GET", f"/v2/lbaas/loadbalancers/{balancer}")[0] == 404)


def test_a_database_that_refuses_the_agent_does_not_end_its_search(stand: Stand) -> None:
    """oslo.db has no name of its own for the error of a server that takes no writes, and hands it on as it is."""
    balancer = stand.make("loadbalancers", name="refused", vip_subnet_id=SUBNET)
    stand.sql("SET GLOBAL read_only = 1")
    try:
        lose(stand, "load_balancer", balancer, "PENDING_CREATE", balancer, 11)
        until("the agent to fail", lambda: "Cannot look for interrupted load balancer changes" in stand.log.read_text())
    finally:
        stand.sql("SET GLOBAL read_only = 0")
    path = f"/v2/lbaas/loadbalancers/{balancer}"
    until("ERROR", lambda: stand.call("GET", path)[1]["loadbalancer"]["provisioning_status"] == "ERROR")
    assert stand.call("DELETE", path)[0] == 204
    until("it to be deleted", lambda: stand.call("GET", path)[0] == 404)


@pytest.mark.parametrize("lost", ["PENDING_CREATE", "PENDING_DELETE"])
def test_a_load_balancer_that_was_lost_can_be_deleted(stand: Stand, lost: str) -> None:
    balancer = stand.make("loadbalancers", name="lost", vip_subnet_id=SUBNET)
    lose(stand, "load_balancer", balancer, lost, balancer, 11)
    path = f"/v2/lbaas/loadbalancers/{balancer}"
    until("ERROR", lambda: stand.call("GET", path)[1]["loadbalancer"]["provisioning_status"] == "ERROR")
    assert "was " + lost in stand.log.read_text()
    assert stand.call("DELETE", path)[0] == 204
    until("it to be deleted", lambda: stand.call("GET", path)[0] == 404)


def test_a_change_has_ten_minutes(stand: Stand) -> None:
    early, late = (stand.make("loadbalancers", name=name, vip_subnet_id=SUBNET) for name in ("early", "late"))
    lose(stand, "load_balancer", early, "PENDING_CREATE", early, 9)
    lose(stand, "load_balancer", late, "PENDING_CREATE", late, 11)
    path = "/v2/lbaas/loadbalancers/"
    until("ERROR", lambda: stand.call("GET", path + late)[1]["loadbalancer"]["provisioning_status"] == "ERROR")
    assert stand.look(f"loadbalancers/{early}")["provisioning_status"] == "PENDING_CREATE"
    # Its time passes. A project may have three, and other tests have theirs.
    lose(stand, "load_balancer", early, "PENDING_CREATE", early, 11)
    for each in (early, late):
        until(
            "ERROR", lambda id_=each: stand.call("GET", path + id_)[1]["loadbalancer"]["provisioning_status"] == "ERROR"
        )
        assert stand.call("DELETE", path + each)[0] == 204
        until("it to be deleted", lambda id_=each: stand.call("GET", path + id_)[0] == 404)
