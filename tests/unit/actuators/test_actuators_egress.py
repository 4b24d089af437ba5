"""The operator's place in the network is not for whoever may write a resource."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from openstack_operator.actuators import egress, ovsdb
from openstack_operator.actuators.http import Api
from openstack_operator.actuators.sql import connected
from openstack_operator.cli.main import main
from openstack_operator.kube import may_be_server, refused_kind
from openstack_operator.kube.egress import NETWORKS
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
        ("255.255.255.255", "broadcast"),
        ("0.1.2.3", "unspecified"),
        ("::127.0.0.1", "translated"),
        ("::169.254.169.254", "translated"),
        ("::a00:1", "translated"),
        ("::ffff:0:169.254.169.254", "translated"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b::169.254.169.254", "link-local"),
        ("64:ff9b::168.63.129.16", "metadata"),
        ("64:ff9b::100.100.100.200", "metadata"),
        ("64:ff9b::", "unspecified"),
        ("64:ff9b:1::169.254.169.254", "translated"),
        ("64:ff9b:1:a9fe:a9:fe00::", "translated"),
        ("2002:a9fe:a9fe::1", "translated"),
        ("2002:7f00:1::", "translated"),
        ("2001:0:4136:e378:8000:63bf:5601:5601", "translated"),
        ("168.63.129.16", "metadata"),
        ("100.100.100.200", "metadata"),
        ("::ffff:100.100.100.200", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("fd00:ec2::23", "metadata"),
        ("fd20:ce::254", "metadata"),
        ("fd00:c1::a9fe:a9fe", "metadata"),
    ],
)
@pytest.mark.usefixtures("strict")
def test_addresses_of_this_machine_and_of_the_link_are_refused(address: str, kind: str) -> None:
    with pytest.raises(
        egress.AddressRefused, match=(f"a {kind} address; to allow it, start the operator with --allow-address")
    ):
        egress.check(address)


OTHERS = ["10.96.0.10", "192.168.1.1", "8.8.8.8", "fd00::1", "2001:db8::1", "64:ff9b::8.8.8.8", "::ffff:10.0.0.1"]


@pytest.mark.parametrize("address", OTHERS)
@pytest.mark.usefixtures("strict")
def test_others_are_not(address: str) -> None:
    egress.check(address)


EDGES = [
    str(edge)
    for block in NETWORKS
    for network in map(ip_network, block["ipBlock"]["except"])
    for edge in (
        network.network_address,
        network.broadcast_address,
        network.network_address - 1 if int(network.network_address) else network.network_address,
    )
]


@given(st.ip_addresses() | st.sampled_from(EDGES).map(ip_address))
def test_the_operator_and_policies_refuse_the_same(ip: IPv4Address | IPv6Address) -> None:
    """One list: what a NetworkPolicy keeps pods from, the operator does not connect to either, and no more."""
    assume(not getattr(ip, "ipv4_mapped", None))
    [block] = [each["ipBlock"] for each in NETWORKS if ip in ip_network(each["ipBlock"]["cidr"])]
    is_refused = any(ip in ip_network(network) for network in block["except"])
    assert bool(refused_kind(ip)) == is_refused
    assert may_be_server(str(ip)) == (not is_refused)
    egress.allow(())
    try:
        egress.check(str(ip))
    except egress.AddressRefused:
        assert is_refused
    else:
        assert not is_refused
    finally:
        egress.allow(LOOPBACK)


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
