"""The operator's place in the network is not for whoever may write a resource."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from openstack_operator.actuators import egress, ovsdb
from openstack_operator.actuators.http import Api
from openstack_operator.actuators.sql import connected
from openstack_operator.cli import main
from openstack_operator.plan import Transient
from tests.conftest import LOOPBACK

pytestmark = pytest.mark.security

LOOPED = r"does not connect to 127\.0\.0\.1, a loopback address"


@pytest.fixture
def strict() -> Iterator[None]:
    """The operator as it is started in a cluster."""
    egress.allow(())
    yield
    egress.allow(LOOPBACK)


@pytest.fixture
def server() -> Iterator[int]:
    """The port of a server on this machine that nobody may have connected to at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]
        listening.settimeout(0)
        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.1.2.3", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("::ffff:169.254.169.254", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("0.0.0.0", "unspecified"),
        ("::", "unspecified"),
        ("224.0.0.1", "multicast"),
    ],
)
@pytest.mark.usefixtures("strict")
def test_addresses_of_this_machine_and_of_the_link_are_refused(address: str, kind: str) -> None:
    with pytest.raises(egress.AddressRefused, match=f"a {kind} address; start it with --allow-address"):
        egress.check(address)


@pytest.mark.parametrize("address", ["10.96.0.10", "192.168.1.1", "8.8.8.8", "fd00::1", "2001:db8::1"])
@pytest.mark.usefixtures("strict")
def test_others_are_not(address: str) -> None:
    egress.check(address)


@pytest.mark.usefixtures("strict")
def test_an_administrator_allows_networks() -> None:
    egress.allow(["127.0.0.0/24"])
    egress.check("127.0.0.9")
    with pytest.raises(egress.AddressRefused):
        egress.check("127.0.1.9")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "[::ffff:7f00:1]"])
@pytest.mark.usefixtures("strict")
def test_no_client_connects_to_this_machine(server: int, host: str) -> None:
    """However its address is written."""
    bare = host.strip("[]")
    with pytest.raises(Transient, match=LOOPED):
        Api("Keystone", f"http://{host}:{server}", seconds=5).call("GET", "/")
    with (
        pytest.raises(Transient, match=LOOPED),
        connected(bare, server, "secret"),
    ):
        pass
    with pytest.raises(Transient, match=LOOPED):
        ovsdb.transact(f"tcp:{host}:{server}", "OVN_Northbound", [])


@pytest.mark.usefixtures("strict")
def test_a_name_with_one_such_address_is_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch, server: int) -> None:
    """Else its owner has the operator try the other address first, and this one next."""

    def resolve(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", ("192.0.2.1", server)), (0, 0, 0, "", ("127.0.0.1", server))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(egress.AddressRefused):
        egress.connect("example.org", server, 5)


def test_a_network_that_is_none_is_said() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--allow-address", "10.0.0.5/8"])
    assert (
        ended.value.code == "openstack-operator run: --allow-address (ALLOWED_ADDRESSES): 10.0.0.5/8 has host bits set"
    )
