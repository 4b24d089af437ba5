"""Programs that speak RPC move from one RabbitMQ of an image to another one of a version to which there is no way in
place, as the plan of a service moves them, while a client asks all the time.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openstack_operator import oslo
from openstack_operator.actuators import ACTUATORS
from openstack_operator.api import references
from openstack_operator.plan import Context, Release, ResolvedRef, Transient
from openstack_operator.services.rabbitmq.config import AMQP, MANAGEMENT, rabbitmq_conf
from tests.unit.image_root import image_root, inside, listens
from tests.unit.polling import TIMEOUT, until
from tests.unit.rpc_programs import PROGRAM
from tools.localcluster.ports import free_port

VHOST = next(each for each in ACTUATORS if each.resource.kind == "RabbitMQVhost")
LOGIN = {"default_user": "admin", "default_pass": "adminpw"}
USER, NOVA = 999, 64060


@dataclass(frozen=True)
class Broker:
    """A running RabbitMQ."""

    name: str
    port: int
    management: int
    published: dict[str, str]

    def get(self, path: str) -> Any:
        """What its management API says."""
        return httpx2.get(f"http://127.0.0.1:{self.management}/api/{path}", auth=("admin", "adminpw")).json()

    def connections(self) -> list[str]:
        """Users of its connections."""
        return [each["user"] for each in self.get("connections")]

    def messages(self) -> int:
        """Messages in the queues of the virtual host."""
        return sum(
            each.get("messages", 0) for each in self.get("queues/nova?disable_stats=true&enable_queue_totals=true")
        )


@contextmanager
def broker(name: str, image: str, published: dict[str, str]) -> Generator[Broker]:
    with image_root(image) as root:
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        secret = root / "etc/rabbitmq/secret"
        secret.mkdir()
        for key, text in {"erlang-cookie": "cookie", **LOGIN}.items():
            (secret / key).write_text(text)
        port, management = free_port(), free_port()
        # The operator's own file, with other ports.
        conf = rabbitmq_conf({}).replace(f"= {AMQP}\n", f"= {port}\n").replace(f"= {MANAGEMENT}\n", f"= {management}\n")
        (root / "etc/rabbitmq/rabbitmq.conf").write_text(conf)
        env = {"RABBITMQ_NODE_PORT": str(port), "RABBITMQ_DIST_PORT": str(free_port()), "HOME": "/var/lib/rabbitmq"}
        env |= {"ERL_EPMD_PORT": str(free_port()), "RABBITMQ_LOGS": "-", "RABBITMQ_NODENAME": f"{name}@localhost"}
        env |= {"RABBITMQ_MNESIA_BASE": "/var/lib/rabbitmq/mnesia"}
        env |= {"RABBITMQ_ENABLED_PLUGINS_FILE": "/etc/rabbitmq/enabled_plugins"}
        env |= {"PATH": "/usr/lib/rabbitmq/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        with inside(root, USER, "rabbitmq-start", env=env):
            until("RabbitMQ to listen", lambda: listens(port) and listens(management))
            at = f"http://127.0.0.1:{management}/api/overview"
            until("its users", lambda: httpx2.get(at, auth=("admin", "adminpw")).status_code == 200)
            contract = {**published, "managementURL": f"http://127.0.0.1:{management}", "adminSecret": name}
            yield Broker(name, port, management, contract)


def vhost(at: Broker, *brokers: Broker, queues_of: Broker | None = None, drains: bool = False) -> Context[Any]:
    """The RabbitMQVhost of the service on a broker."""
    spec: dict[str, Any] = {
        "rabbitmqRef": {"name": at.name},
        "vhost": "nova",
        "user": "nova",
        "passwordSecretRef": {"name": "credentials", "key": "messaging"},
        **({"queuesOf": {"name": queues_of.name}} if queues_of else {}),
        "drains": drains,
    }
    parsed = VHOST.resource.spec.model_validate(spec)
    contracts = {each.name: each.published for each in brokers}
    return Context(
        kind="RabbitMQVhost",
        owner="nova-messaging",
        namespace="openstack",
        spec=parsed,
        release=Release("", "", {}),
        refs={ref: ResolvedRef(contracts[ref.name]) for _, ref in references(parsed)},
        secrets={**{each.name: LOGIN for each in brokers}, "credentials": {"messaging": "drawn"}},
    )


def made(ctx: Context[Any]) -> list[str]:
    """Changes for a RabbitMQVhost. As in the engine, what a busy broker does not answer in time is tried again."""
    changes: list[str] = []

    def is_made() -> bool:
        try:
            changes.extend(VHOST.ensure(ctx))
        except Transient:
            return False
        return True

    until("the virtual host", is_made)
    return changes


@dataclass
class Programs:
    """Programs in the root of Nova's image."""

    root: Path
    stack: ExitStack

    def configure(self, at: Broker) -> None:
        url = f"rabbit://nova:drawn@127.0.0.1:{at.port}/nova"
        options = oslo.options.messaging(url, quorum_only="quorumOnly" in at.published)
        (self.root / f"tmp/{at.name}.conf").write_text(oslo.render(oslo.merge(oslo.options.defaults(), options)))

    def start(self, role: str, at: Broker, log: str, *words: str) -> subprocess.Popen[str]:
        """A program that is at work."""
        command = ["python3", "-c", PROGRAM, role, f"/tmp/{at.name}.conf", f"/tmp/{log}.log", *words]
        env = {"HOME": "/tmp", "OS_OSLO_MESSAGING_RABBIT__PROCESSNAME": log}
        process = self.stack.enter_context(inside(self.root, NOVA, *command, env=env))
        until(f"{log} to work", lambda: self.lines(log) or process.poll() is not None)
        assert process.poll() is None, f"{log} has ended"
        return process

    def lines(self, log: str) -> list[str]:
        path = self.root / f"tmp/{log}.log"
        return path.read_text().splitlines() if path.exists() else []

    def numbers(self, kind: str, *logs: str) -> list[int]:
        """Numbers that clients have sent, or servers have heard."""
        words = [line.split() for log in logs for line in self.lines(log)]
        return [int(each[-1]) for each in words if (each[0] == kind if kind else len(each) == 1 and each[0].isdigit())]


def end(process: subprocess.Popen[str]) -> None:
    """Let a program end as Kubernetes does."""
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    subprocess.run(["kill", "-TERM", child], check=True)
    process.wait(TIMEOUT)


@pytest.fixture
def programs() -> Iterator[Programs]:
    with image_root("nova") as root, ExitStack() as stack:
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        yield Programs(root, stack)


def test_nothing_that_was_taken_is_lost(programs: Programs) -> None:
    with broker("blue", "rabbitmq", {}) as blue, broker("green", "rabbitmq-4.3", {"quorumOnly": "true"}) as green:
        assert green.get("overview")["rabbitmq_version"].startswith("4.3.")
        made(vhost(blue, blue))
        programs.configure(blue)
        programs.configure(green)
        conductor = programs.start("serve", blue, "conductor-0", "conductor", "conductor-0")
        host = programs.start("serve", blue, "host1-blue", "compute", "host1")
        client = programs.start("ask", blue, "client-blue", "0")
        until("calls", lambda: len(programs.lines("client-blue")) > 50)
        made(vhost(green, blue, green, queues_of=blue))
        queues = {each["name"] for each in green.get("queues/nova")}
        assert queues == {"conductor", "conductor.conductor-0", "compute", "compute.host1"}
        # A copy of the server stays with the first broker; the server moves, then the client, then the host.
        copy = programs.start("serve", blue, "copy-0", "conductor", "conductor-0")
        end(conductor)
        programs.start("serve", green, "conductor-0-green", "conductor", "conductor-0")
        second = programs.start("ask", green, "client-green", "1000000")
        end(client)
        until("messages to the host that wait", lambda: green.messages() > 20)
        made(vhost(blue, blue, drains=True))
        assert blue.messages() == 0
        end(host)
        programs.start("serve", green, "host1-green", "compute", "host1")
        end(copy)
        end(second)
        until("no connection to the first broker", lambda: not blue.connections())
        until("all to be heard", lambda: green.messages() == 0)
        heard = {
            "conductor": ("conductor-0", "copy-0", "conductor-0-green"),
            "compute": ("host1-blue", "host1-green"),
        }
        for kind, servers in heard.items():
            sent = programs.numbers(kind, "client-blue", "client-green")
            until("the last", lambda sent=sent, servers=servers: max(sent) in programs.numbers("", *servers))
            numbers = [number for number in programs.numbers("", *servers) if number > 0]
            assert sorted(numbers) == sorted(sent), "each once"
            print(f"{len(sent)} casts to {kind}")
        lines = [line.split() for log in ("client-blue", "client-green") for line in programs.lines(log)]
        calls = [float(each[1]) for each in lines if each[0] == "call"]
        print(f"{len(calls)} calls, the longest of {max(calls)} s")
