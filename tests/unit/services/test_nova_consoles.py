"""The proxy of consoles faces browsers: what it knows, and what its accounts are good for."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.actuators import DATABASE, VHOST
from openstack_operator.plan import Object, Plan, key
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan
from openstack_operator.testing import context
from tests.planning import release_of

pytestmark = pytest.mark.security

PUBLISHED = {
    "MariaDB": {"host": "mariadb.openstack.svc", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq.openstack.svc", "port": "5672"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3", "region": "RegionOne"},
    "Neutron": {"metadataSecret": "neutron-credentials"},
}
SECRETS = {"neutron-credentials": {"metadata": "shared"}}
LOGIN = {"username": "theirs", "password": "their-password", "host": "elsewhere"}


def planned(secrets: dict[str, dict[str, str]] | None = None, **spec: Any) -> Plan:
    draws = count()
    drawn = lambda: f"drawn-{next(draws):04}"  # noqa: E731
    given = {**SECRETS, **(secrets or {})}
    release = release_of("debian")
    return plan(context(NOVA, spec, release=release, published=PUBLISHED, secrets=given, draw=drawn))


def made(result: Plan) -> dict[tuple[str, str], Object]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in result.objects}


def files(result: Plan, secret: str) -> str:
    return kube.secret_data(made(result)["Secret", secret])["nova.conf"]


def passwords(result: Plan) -> dict[str, str]:
    return kube.secret_data(made(result)["Secret", "nova-credentials"])


def knows(result: Plan, secret: str) -> set[str]:
    text = files(result, secret)
    return {name for name, password in passwords(result).items() if password in text}


def permissions() -> dict[str, Any]:
    return made(planned())["RabbitMQVhost", "nova-cell1--console"]["spec"]["permissions"]


CELLS = [{"name": "cell1"}, {"name": "cell2"}]
NEWS = {"notificationsRef": {"name": "rabbitmq"}}


@pytest.mark.parametrize("cell", ["cell1", "cell2"])
def test_a_proxy_knows_the_passwords_of_its_two_accounts_alone(cell: str) -> None:
    result = planned(cells=CELLS, messaging=NEWS)
    assert knows(result, f"nova-{cell}--console-config") == {
        f"{cell}--console-{of}" for of in ("database", "messaging")
    }
    text = files(result, f"nova-{cell}--console-config")
    assert not re.search("auth_url|username|password|shared_secret", text)
    assert knows(result, f"nova-{cell}-config") >= {f"{cell}-database", f"{cell}-messaging", "identity"}


def test_no_other_program_has_the_accounts_of_the_proxy() -> None:
    result = planned()
    own = {value for name, value in passwords(result).items() if "--console" in name}
    holders = {
        name
        for (kind, name), obj in made(result).items()
        if kind == "Secret" and any(value in text for value in own for text in kube.secret_data(obj).values())
    }
    assert holders == {"nova-credentials", "nova-cell1--console-config"}


def test_console_pods_read_only_their_configuration_and_certificates() -> None:
    pods = made(planned())["Deployment", "nova-cell1-novncproxy"]["spec"]["template"]["spec"]
    mounted = {volume["secret"]["secretName"] for volume in pods["volumes"] if "secret" in volume}
    assert mounted == {"nova-cell1--console-config", "nova-console-proxy"}


def test_accounts_are_those_of_the_cells_schema_and_virtual_host() -> None:
    objects = made(planned())
    base, reader = (objects["MariaDBDatabase", f"nova-cell1-db{end}"]["spec"] for end in ("", "--console"))
    assert DATABASE.spec.model_validate(reader).database == base["database"] == "nova_cell1"
    assert reader["user"] != base["user"]
    assert reader["readableTables"]
    bus, caller = (objects["RabbitMQVhost", f"nova-cell1{end}"]["spec"] for end in ("", "--console"))
    assert VHOST.spec.model_validate(caller).vhost == bus["vhost"] == "nova-cell1"
    assert caller["user"] != bus["user"]
    # The virtual host is the other one's.
    assert caller["deletionPolicy"] == "Retain"


def test_the_proxy_waits_for_its_accounts_and_they_for_the_tables() -> None:
    makes = {("/".join(key(obj))): step for step in planned() for obj in step.objects}
    reader, caller = makes["MariaDBDatabase/nova-cell1-db--console"], makes["RabbitMQVhost/nova-cell1--console"]
    assert {reader, caller} <= {*makes["Deployment/nova-cell1-novncproxy"].after}
    setup = next(step for name, step in makes.items() if name.startswith("Job/nova-cell1-setup"))
    assert setup in reader.after
    assert not {reader, caller} & {*makes["StatefulSet/nova-cell1-conductor"].after}


# As RabbitMQ has it: what matches anywhere counts, and an empty expression is one that allows nothing.
def allows(what: str, name: str) -> bool:
    return re.search(permissions()[what] or "^$", name) is not None


OWN = "reply_nova-cell1-novncproxy-5d8f9-x2kqp:nova-novncproxy:7"
OTHERS = [
    "conductor",
    "conductor.nova-cell1-conductor-0",
    "compute.node-1",
    "compute_fanout",
    "conductor_fanout_0123456789abcdef",
    "reply_nova-cell1-conductor-0:nova-conductor:1",
    "reply_node-1:nova-compute:1",
    "reply_0123456789abcdef0123456789abcdef",
    f"x{OWN}",
    f"{OWN}x",
    "amq.default",
    "amq.topic",
    "nova_fanout",
]


@pytest.mark.parametrize("other", OTHERS)
def test_other_exchanges_and_queues_are_out_of_its_reach(other: str) -> None:
    assert not any(allows(what, other) for what in ("configure", "write", "read"))


def test_console_account_publishes_to_one_exchange_and_reads_its_replies() -> None:
    assert {what: (allows(what, "nova"), allows(what, OWN)) for what in ("configure", "write", "read")} == {
        "configure": (True, True),
        "write": (True, False),
        "read": (False, True),
    }


@pytest.mark.parametrize(
    ("routing", "free"),
    [("compute.node-1", True), ("conductor", False), ("conductor.compute.x", False), ("compute", False), ("#", False)],
)
def test_console_account_may_use_only_routing_keys_of_nova_compute(routing: str, free: bool) -> None:
    assert (re.search(permissions()["routingKeys"]["nova"], routing) is not None) is free


def test_an_exchange_of_the_users_name_is_the_one_it_publishes_to() -> None:
    config = {"DEFAULT": {"control_exchange": "my.nova"}}
    found = made(planned(config=config))["RabbitMQVhost", "nova-cell1--console"]["spec"]["permissions"]
    assert re.search(found["write"], "my.nova")
    assert not re.search(found["write"], "mysnova")
    assert set(found["routingKeys"]) == {"my.nova"}


def test_console_uses_the_login_of_an_external_server() -> None:
    secrets = {"theirs": LOGIN, "broker": LOGIN}
    elsewhere = {"database": {"secretRef": {"name": "theirs"}}, "messaging": {"secretRef": {"name": "broker"}}}
    result = planned(secrets, cells=[{"name": "cell1", **elsewhere}])
    assert not [name for _, name in made(result) if name in {"nova-cell1-db--console", "nova-cell1--console"}]
    assert not [name for name in passwords(result) if "--console" in name]
    assert files(result, "nova-cell1--console-config").count("theirs:their-password@") == 2
    assert knows(result, "nova-cell1--console-config") == set()
