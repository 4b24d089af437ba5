"""What a client gets that comes plain, trusts somebody else, or is led to somebody else; and what is on the wire."""

from __future__ import annotations

import base64

import pytest

from openstack_operator import pki
from tools.cloud import proof
from tools.cloud.session import Cloud, Session
from tools.localcluster.kubernetes import KubeError, Kubernetes
from tools.localcluster.layout import Cluster

from ..conftest import Report
from .capture import capture
from .hops import (
    API,
    CACHE,
    CONSOLE,
    DATABASE,
    ENCRYPTED,
    MEMBERS,
    NAMESPACE,
    SHOWN,
    TRUST,
    cache_hits,
    inside,
    markers,
    of_ovn,
)
from .impostor import SERVERS, answer, forged, stands_in


def test_traffic_with_tls_is_unreadable(cluster: Kubernetes, stood: tuple[Session, Cloud], report: Report) -> None:
    """While a server is booted and its console opened."""
    with capture(Cluster(), markers(cluster)) as taken:
        stood[0].prove(stood[1])
        compute = proof.connect(cluster, NAMESPACE).compute
        console = compute.create_console(compute.find_server(proof.NAME, ignore_missing=False), "novnc") or {}
        assert inside(cluster, CONSOLE, TRUST, str(console.get("url"))) == "101 RFB"
    report.add(tls_captured_packets=taken.packets, tls_captured_bytes=taken.size, tls_captured_dropped=taken.dropped)
    report.add(tls_captured_markers=taken.found)
    assert taken.packets > 10_000
    assert taken.dropped == 0
    assert taken.found == {}


@pytest.mark.parametrize(
    ("hop", "port", "unknown", "misnamed"),
    [
        ("mariadb", 3306, "unable to get local issuer certificate", "Hostname mismatch"),
        ("rabbitmq", 5671, "unable to get local issuer certificate", "Hostname mismatch"),
        ("keystone", 5000, "unable to get local issuer certificate", "Hostname mismatch"),
        # A cache that is not there is none; the client keeps to itself why.
        ("memcached", 11212, "unknown ca", "alert"),
        # Neither Open vSwitch nor Nova's proxy looks at a name: they have authorities of their own.
        ("northbound", 16641, "", ""),
        ("console", 5900, "certificate verify failed", ""),
    ],
)
def test_an_impostor_is_told_nothing(cluster: Kubernetes, hop: str, port: int, unknown: str, misnamed: str) -> None:
    signer = _authority(cluster, hop)
    with stands_in(cluster, hop) as pod:
        foreign = answer(cluster, pod, hop, port, forged(SERVERS[hop]))
        other = answer(cluster, pod, hop, port, forged("somebody.example.org", signer))
        right = answer(cluster, pod, hop, port, forged(SERVERS[hop], signer))
    assert foreign.startswith("refused:")
    assert unknown in foreign
    assert other.startswith("refused:" if misnamed else "sent something:")
    assert misnamed in other
    # Whoever has both is believed, so that it was for these that the others were not.
    assert right.startswith("sent something:")


def _authority(cluster: Kubernetes, hop: str) -> pki.Pair:
    """Of those who vouch for the hop's server."""
    name, key, cert = {
        "northbound": ("internal-ovn-authority", "tls.key", "tls.crt"),
        "console": ("nova-console-ca", "tls.key", "tls.crt"),
    }.get(hop, ("internal-authority", "tls.key", "tls.crt"))
    data = cluster.get("secret", name, "-n", NAMESPACE)["data"]
    return pki.Pair(*(base64.b64decode(data[each]).decode() for each in (key, cert)))


def test_a_plain_client_and_one_that_trusts_another_are_refused(cluster: Kubernetes) -> None:
    with pytest.raises(KubeError, match="insecure transport"):
        inside(cluster, DATABASE, "plain")
    system = "/etc/ssl/certs/ca-certificates.crt"
    with pytest.raises(KubeError, match="CERTIFICATE_VERIFY_FAILED"):
        inside(cluster, DATABASE, system)
    for host, port in ENCRYPTED.items():
        with pytest.raises(KubeError, match="CERTIFICATE_VERIFY_FAILED"):
            inside(cluster, SHOWN, system, f"{host}:{port}")


def test_an_api_is_called_by_its_name_and_by_no_other(cluster: Kubernetes) -> None:
    assert inside(cluster, API, TRUST, "https://neutron-api:9696/") == "200"
    address = cluster.get("service", "neutron-api", "-n", NAMESPACE)["spec"]["clusterIP"]
    with pytest.raises(KubeError, match=r"not valid for|doesn't match|Hostname mismatch|IP address mismatch"):
        inside(cluster, API, TRUST, f"https://{address}:9696/")
    with pytest.raises(KubeError, match=r"ConnectFailure|Connection aborted|Unable to establish"):
        inside(cluster, API, TRUST, f"http://{address}:9696/")


def test_clients_without_a_certificate_cannot_read_ovn_databases(cluster: Kubernetes) -> None:
    assert '"OVN_Northbound"' in of_ovn(cluster, "16641", "certified")
    # It ends the connection; a client that writes at that moment hears less of the reason.
    with pytest.raises(
        KubeError, match=r"CERTIFICATE_REQUIRED|certificate required|handshake failure|ConnectionReset|BrokenPipe"
    ):
        of_ovn(cluster, "16641")
    with pytest.raises(KubeError, match="ConnectionRefused"):
        of_ovn(cluster, "6641")


def test_a_console_is_opened_through_tls(cluster: Kubernetes) -> None:
    compute = proof.connect(cluster, NAMESPACE).compute
    console = compute.create_console(compute.find_server(proof.NAME, ignore_missing=False), "novnc") or {}
    url = str(console.get("url"))
    assert url.startswith("https://")
    assert inside(cluster, CONSOLE, TRUST, url) == "101 RFB"


def test_a_plain_cache_is_closed(cluster: Kubernetes) -> None:
    with pytest.raises(KubeError, match="ConnectionRefused"):
        inside(cluster, MEMBERS, "memcached-server-0.memcached", "11211")


def test_clients_without_a_certificate_cannot_read_the_cache(cluster: Kubernetes, stood: tuple[Session, Cloud]) -> None:
    refused = r"CERTIFICATE_REQUIRED|UNKNOWN_CA|ConnectionReset|BrokenPipe|EOF occurred|nothing was answered"
    with pytest.raises(KubeError, match=refused):
        inside(cluster, CACHE, TRUST)
    foreign = forged("memcached-client")
    with pytest.raises(KubeError, match=refused):
        inside(cluster, CACHE, TRUST, "given", given=foreign.cert + foreign.key)
    # The services are let in.
    before = cache_hits(cluster)
    stood[0].prove(stood[1])
    assert cache_hits(cluster) > before


@pytest.mark.parametrize(
    ("host", "port"),
    [("rabbitmq-server-0.rabbitmq-members", 25672), ("ovn-nb-0.ovn-nb", 6643), ("ovn-sb-0.ovn-sb", 6644)],
)
def test_a_member_takes_no_other_without_a_certificate(cluster: Kubernetes, host: str, port: int) -> None:
    """Though there is one of each here."""
    refused = r"certificate required|handshake failure|CERTIFICATE_REQUIRED|reset|Broken pipe"
    with pytest.raises(KubeError, match=refused):
        inside(cluster, MEMBERS, host, str(port), "tls")
    with pytest.raises(KubeError, match=r"nothing was answered|reset|Broken pipe"):
        inside(cluster, MEMBERS, host, str(port), "plain")


def test_a_broker_speaks_tls_alone_to_members(cluster: Kubernetes) -> None:
    ask = "[element(4, proplists:get_value(address, I)) || {ok, L} <- [net_kernel:nodes_info()], {_, I} <- L]."
    told = cluster.kubectl("exec", "-n", NAMESPACE, "rabbitmq-server-0", "--", "rabbitmqctl", "-q", "eval", ask)
    # The one that asks is a node, too.
    assert set(told.strip(" \n[]").split(",")) == {"tls"}
