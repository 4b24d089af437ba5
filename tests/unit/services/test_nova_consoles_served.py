"""The accounts of the console proxy on the images' own MariaDB and RabbitMQ, as Nova of the image uses them."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
import pytest
from pymysql.constants import ER
from pymysql.cursors import Cursor

from openstack_operator.actuators import ACTUATORS
from openstack_operator.plan import Context, Transient
from tests.unit.fake_http import context
from tests.unit.image_root import image_root, inside
from tests.unit.polling import until
from tests.unit.services.test_nova_consoles import files, made, passwords, planned
from tools.localcluster.ports import free_port

pytestmark = pytest.mark.security

DATABASE, VHOST = ACTUATORS[:2]
SERVERS, NOVA = 999, 64060
"""Users of the images."""

TOKEN = """
from nova import config, context, objects
from oslo_utils import uuidutils
objects.register_all()
config.parse_args(["nova", "--config-file=/tmp/conductor.conf"])
ctx = context.get_admin_context()
uuid = uuidutils.generate_uuid()
server = objects.Instance(ctx, uuid=uuid, project_id="p", user_id="u", host="node-1")
server.create()
token = objects.ConsoleAuthToken(ctx, console_type="novnc", host="node-1", port=5900, instance_uuid=server.uuid)
print(token.authorize(600))
"""

PROXY = """
import sys
import oslo_messaging
from nova import config, context, objects
from nova.compute import rpcapi
objects.register_all()
config.parse_args(["nova", "--config-file=/tmp/proxy.conf"])
ctx = context.get_admin_context()
token = objects.ConsoleAuthToken.validate(ctx, sys.argv[1])
server = objects.Instance.get_by_uuid(ctx, token.instance_uuid)
rpcapi.ComputeAPI._determine_version_cap(oslo_messaging.Target(version="6.0"))
print(server.host, token.port)
"""

# A conductor and a nova-compute listen; the proxy asks the latter, and tries what else there is.
BROKER = """
import json, sys
import kombu, oslo_messaging
from nova import config, context, objects, rpc
from nova.compute import rpcapi
from nova.conf import CONF
from nova.objects import base
from oslo_utils import uuidutils
objects.register_all()
config.parse_args(["nova", "--config-file=/tmp/proxy.conf"])
ctx, heard = context.get_admin_context(), []

class Endpoint:
    target = oslo_messaging.Target(version="6.4")
    def validate_console_port(self, ctxt, instance, port, console_type):
        return [instance.host, port]
    def object_action(self, ctxt, **_):
        heard.append("object_action")

transport = oslo_messaging.get_rpc_transport(CONF, url=sys.argv[1])
serializer = rpc.RequestContextSerializer(base.NovaObjectSerializer())
for topic, host in (("compute", "node-1"), ("conductor", "conductor-0")):
    target = oslo_messaging.Target(topic=topic, server=host)
    oslo_messaging.get_rpc_server(transport, target, [Endpoint()], executor="threading", serializer=serializer).start()

server = objects.Instance(ctx, uuid=uuidutils.generate_uuid(), host="node-1")
found = {"answer": rpcapi.ComputeAPI().validate_console_port(ctx, server, "5900", "novnc")}

def publish(exchange, key):
    def does(channel):
        kombu.Producer(channel).publish({}, exchange=exchange, routing_key=key)
    return does

own = "reply_spy:nova-novncproxy:1"
tries = {
    "compute": publish("nova", "compute.node-1"),
    "conductor": publish("nova", "conductor"),
    "one conductor": publish("nova", "conductor.conductor-0"),
    "a queue": publish("", "conductor"),
    "all computes": publish("compute_fanout", ""),
    "listen": lambda channel: channel.basic_get("conductor"),
    "take": lambda channel: channel.queue_purge("compute.node-1"),
    "bind": lambda channel: (channel.queue_declare(own, auto_delete=True), channel.queue_bind(own, "nova", "#")),
    "queue": lambda channel: channel.queue_declare("spy"),
    "exchange": lambda channel: channel.exchange_declare("spy", "topic"),
    "fanout": lambda channel: channel.exchange_delete("compute_fanout"),
}
for name, does in tries.items():
    url = CONF.transport_url.replace("rabbit://", "amqp://")
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as connection:
        try:
            does(connection.default_channel)
            found[name] = "done"
        except connection.channel_errors as error:
            found[name] = error.reply_code
found["heard"] = heard
print(json.dumps(found))
sys.stdout.flush()
import os
os._exit(0)
"""


class Nova(NamedTuple):
    """The image's root, with both configurations in it."""

    root: Path
    url: str
    """Where the conductor finds its broker."""

    def run(self, program: str, *words: str) -> str:
        """What the program prints last."""
        return self.command("python3", "-W", "ignore", "-c", program, *words).splitlines()[-1]

    def command(self, *command: str) -> str:
        quiet = {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "1", "HOME": "/tmp"}
        with inside(self.root, NOVA, *command, env=quiet, output=subprocess.PIPE) as process:
            answer, _ = process.communicate()
            assert process.returncode == 0
        return answer


def answers(port: int, process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None, "the server ended"
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


RESULT = planned()


def account(entry: Any, name: str, published: Mapping[str, str], admin: Mapping[str, str]) -> Context[Any]:
    """Of the resource that the plan makes, on a server here."""
    spec = made(RESULT)[entry.resource.kind, name]["spec"]
    return context(
        entry, spec, {**published, "adminSecret": "admin"}, {"admin": admin, "nova-credentials": passwords(RESULT)}
    )


@pytest.fixture(scope="module")
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def nova(stack: ExitStack, servers: Mapping[str, int]) -> Nova:
    """Nova with servers at these ports, by the hosts that the plan knows."""
    root = stack.enter_context(image_root("nova"))
    for file, secret in {"conductor.conf": "nova-cell1-config", "proxy.conf": "nova-cell1--console-config"}.items():
        text = files(RESULT, secret)
        for host, port in servers.items():
            text = text.replace(host, f"127.0.0.1:{port}")
        (root / "tmp" / file).write_text(text)
    lines = (root / "tmp/conductor.conf").read_text().splitlines()
    return Nova(root, next(line.partition(" = ")[2] for line in lines if line.startswith("transport_url")))


@pytest.fixture(scope="module")
def mariadb(stack: ExitStack) -> int:
    root, port = stack.enter_context(image_root("mariadb")), free_port()
    options = ["--bind-address=127.0.0.1", f"--port={port}", "--wsrep-on=OFF"]
    server = inside(root, SERVERS, "mariadb-start", *options, env={"MARIADB_ROOT_PASSWORD": "rootpw"})
    process = stack.enter_context(server)
    until("MariaDB to listen", lambda: answers(port, process))
    return port


@pytest.fixture(scope="module")
def rabbitmq(stack: ExitStack) -> tuple[int, int]:
    root, amqp, management = stack.enter_context(image_root("rabbitmq")), free_port(), free_port()
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    secret = root / "etc/rabbitmq/secret"
    secret.mkdir()
    for name, text in {"erlang-cookie": "cookie", "default_user": "admin", "default_pass": "adminpw"}.items():
        (secret / name).write_text(text)
    (root / "etc/rabbitmq/conf.d/test.conf").write_text(f"management.tcp.port = {management}\n")
    env = {"RABBITMQ_NODE_PORT": str(amqp), "RABBITMQ_DIST_PORT": str(free_port()), "ERL_EPMD_PORT": str(free_port())}
    env |= {"RABBITMQ_LOGS": "-", "HOME": "/var/lib/rabbitmq", "RABBITMQ_NODENAME": "rabbit@localhost"}
    env |= {
        "RABBITMQ_MNESIA_BASE": "/var/lib/rabbitmq/mnesia",
        "RABBITMQ_ENABLED_PLUGINS_FILE": "/etc/rabbitmq/enabled_plugins",
    }
    env |= {"PATH": "/usr/lib/rabbitmq/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    process = stack.enter_context(inside(root, SERVERS, "rabbitmq-start", env=env))
    until("RabbitMQ to listen", lambda: answers(management, process) and answers(amqp, process))
    return amqp, management


STATEMENTS = [
    "INSERT INTO console_auth_tokens (host) VALUES ('x')",
    "UPDATE instances SET host = 'x'",
    "DELETE FROM services",
    "SELECT * FROM instances INTO OUTFILE '/tmp/x'",
    "ALTER TABLE instances ADD x INT",
    "DROP TABLE instances",
    "CREATE TABLE other (x INT)",
    "GRANT SELECT ON nova_cell1.instances TO nova_cell1_LIMITED@'%'",
    "CREATE DATABASE other",
    "SELECT 1 FROM mysql.global_priv",
]
DENIED = {
    ER.TABLEACCESS_DENIED_ERROR,
    ER.DBACCESS_DENIED_ERROR,
    ER.ACCESS_DENIED_ERROR,
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
}


@contextmanager
def connected(port: int, user: str, password: str) -> Generator[Cursor]:
    connection = pymysql.connect(host="127.0.0.1", port=port, user=user, password=password, database="nova_cell1")
    with closing(connection), connection.cursor() as cursor:
        yield cursor


def code(cursor: Cursor, statement: str) -> int:
    """Of the error that the server answers with; 0 where there is none."""
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        return int(error.args[0])
    return 0


def test_nova_reads_tokens_and_servers_by_an_account_that_does_nothing_else(stack: ExitStack, mariadb: int) -> None:
    at = {"host": "127.0.0.1", "port": str(mariadb)}
    root = {"root": "rootpw"}
    whole, limited = (account(DATABASE, f"nova-cell1-db{end}", at, root) for end in ("", "--console"))
    DATABASE.ensure(whole)
    with pytest.raises(Transient, match="has no table console_auth_tokens"):
        DATABASE.ensure(limited)
    program = nova(stack, {"mariadb.openstack.svc:3306": mariadb})
    program.command("nova-manage", "--config-file=/tmp/conductor.conf", "db", "sync", "--local_cell")
    assert DATABASE.ensure(limited) == ["account nova_cell1_LIMITED repaired: privileges"]
    assert DATABASE.ensure(limited) == []
    assert program.run(PROXY, program.run(TOKEN)) == "node-1 5900"
    readable = set(limited.spec.readable_tables)
    with connected(mariadb, "root", "rootpw") as admin:
        admin.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'nova_cell1'")
        tables = {name for (name,) in admin.fetchall()}
    assert readable < tables
    with connected(mariadb, "nova_cell1_LIMITED", passwords(RESULT)["cell1--console-database"]) as proxy:
        assert {
            table for table in tables if code(proxy, f"SELECT 1 FROM {table}") != ER.TABLEACCESS_DENIED_ERROR
        } == readable
        for statement in STATEMENTS:
            assert code(proxy, statement) in DENIED, statement


REFUSED = 403
"""ACCESS_REFUSED of AMQP 0-9-1."""


def test_the_proxy_asks_nova_compute_and_nobody_else(stack: ExitStack, rabbitmq: tuple[int, int]) -> None:
    amqp, management = rabbitmq
    at, admin = (
        {"managementURL": f"http://127.0.0.1:{management}"},
        {"default_user": "admin", "default_pass": "adminpw"},
    )
    for end in ("", "--console"):
        VHOST.ensure(account(VHOST, f"nova-cell1{end}", at, admin))
    program = nova(stack, {"rabbitmq.openstack.svc:5672": amqp})
    found = json.loads(program.run(BROKER, program.url))
    assert (found.pop("answer"), found.pop("heard")) == (["node-1", "5900"], [])
    assert {name for name, code in found.items() if code != REFUSED} == {"compute"}
