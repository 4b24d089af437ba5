"""Hooks before the end of an API and of the TLS proxy before it, beside tables as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from openstack_operator.plan import Object, Release
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan
from openstack_operator.testing import context

from .programs import Machine, certified, container, planned

CONTRACTS = {
    "MariaDB": {"host": "db", "port": "3306"},
    "RabbitMQ": {"host": "mq", "port": "5672"},
    "Memcached": {"servers": "m:11211"},
}
# Listening on 5000 everywhere, at one address and at the loopback address; a client that is connected.
ANYWHERE = "   0: 00000000:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000 42482        0 1"
PROXY = ANYWHERE.replace("00000000:1388", "0501F40A:1388")
IPV6 = f"   0: {'0' * 32}:1388 {'0' * 32}:0000 0A 00000000:00000000 00:00000000 00000000 42482        0 1"
LOOPBACK = ANYWHERE.replace("00000000:1388", "0100007F:1388")
CLIENT = "   1: 0501F40A:1388 0601F40A:9C40 01 00000000:00000000 00:00000000 00000000 42482        0 1"
CLOSED = CLIENT.replace(" 01 ", " 08 ")
OWN_CALL = "   2: 0501F40A:9C40 0601F40A:1388 01 00000000:00000000 00:00000000 00000000 42482        0 1"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"TABLES": str(tmp_path / "tables")})


def waits(machine: Machine, program: Object, *lines: str) -> bool:
    """Return True if the hook waits for the tables to change. There are none after its second look."""
    machine.forget_calls()
    ipv6 = [line for line in lines if "0" * 32 in line]
    machine.write("tables/tcp", "".join(f"{line}\n" for line in lines if line not in ipv6))
    machine.write("tables/tcp6", "".join(f"{line}\n" for line in ipv6))
    machine.program("sleep", f'[ "$1" = 5 ] || rm {machine.home}/tables/*')
    hook = machine.run(program, command=program["lifecycle"]["preStop"]["exec"]["command"])
    assert hook.stderr == ""
    first, *others = machine.calls("sleep")
    assert first == "5", "nodes still send it connections"
    return others == ["0.2"]


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_api_ends_when_no_client_is_connected(machine: Machine, release: Release, replicas: int) -> None:
    made = plan(context(KEYSTONE, {"replicas": replicas}, release=release, published=CONTRACTS))
    main = container(planned(made, "Deployment", "keystone-api"))
    assert waits(machine, main, ANYWHERE, CLIENT)
    assert waits(machine, main, IPV6.replace(f"{'0' * 32}:0000 0A", f"{'0' * 32}:9C40 01"))
    assert not waits(machine, main, ANYWHERE, CLOSED, OWN_CALL)


def test_an_api_ends_after_its_proxy_which_would_answer_in_its_place(machine: Machine, release: Release) -> None:
    deployment = planned(plan(certified(KEYSTONE, release, {}, published=CONTRACTS)), "Deployment", "keystone-api")
    main, proxy = container(deployment), container(deployment, "front")
    assert waits(machine, main, LOOPBACK, PROXY)
    assert waits(machine, main, LOOPBACK, IPV6)
    assert not waits(machine, main, LOOPBACK, CLIENT.replace("0501F40A", "0100007F"))
    assert waits(machine, proxy, LOOPBACK, PROXY, CLIENT)
    assert not waits(machine, proxy, LOOPBACK, PROXY)
