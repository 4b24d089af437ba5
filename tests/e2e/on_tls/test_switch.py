"""The minimal cloud is told to encrypt what its services and their users send, while it runs."""

from __future__ import annotations

import csv
import json
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException

from cloud import proof
from cloud.kubernetes import CloudError, Kubernetes, module
from cloud.proof import until
from cloud.session import MINIMAL, Cloud, Session

from ..conftest import Report
from ..facts import ready_again

NAMESPACE = "openstack"
TLS = {"tls": {"pkiRef": {"name": "pki"}}}
SERVICES = ("mariadb", "rabbitmq", "ovn", "keystone", "glance", "placement", "neutron", "nova")
PORTS = {
    "keystone-api": 5000,
    "glance-api": 9292,
    "placement-api": 8778,
    "neutron-api": 9696,
    "nova-api": 8774,
    "nova-metadata": 8775,
    "nova-cell1-novncproxy": 6080,
}
TRUST = "/etc/openstack-trust/pki-bundle/ca.crt"

# What a client of the database is shown: as Keystone, by its own options, or trusting somebody else, or nobody (plain).
_DATABASE = """
import configparser, hashlib, sys
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
conf = configparser.ConfigParser(interpolation=None, strict=False)
conf.read("/etc/keystone/keystone.conf")
url = make_url(conf["database"]["connection"])
if sys.argv[1:] == ["plain"]:
    url = url.difference_update_query(["ssl_ca"])
elif sys.argv[1:]:
    url = url.update_query_dict({"ssl_ca": sys.argv[1]})
connection = create_engine(url).raw_connection().driver_connection
print(hashlib.sha256(connection._sock.getpeercert(True)).hexdigest())
"""
_PORTS = """
import hashlib, ssl, sys
for host, port in (where.split(":") for where in sys.argv[2:]):
    name = f"{host}.openstack.svc.cluster.local"
    shown = ssl.get_server_certificate((name, int(port)), ca_certs=sys.argv[1])
    print(host, hashlib.sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest())
"""
# As a service calls another: what it trusts, and what it calls.
_API = """
import sys
from keystoneauth1.session import Session
print(Session(verify=sys.argv[1]).get(sys.argv[2], authenticated=False, raise_exc=False).status_code)
"""
# OVN's northbound database, with or without a certificate of its own; what it answers to a question.
_OVN = """
import hashlib, socket, ssl, sys
host = "".join(sys.argv[3:] or ["ovn-nb-0"]) + ".ovn-nb.openstack.svc.cluster.local"
sock = socket.create_connection((host, int(sys.argv[1])), 10)
if sys.argv[1] == "16641":
    trust = ssl.create_default_context(cafile="/etc/ovn-tls/ca.crt")
    if sys.argv[2:]:
        trust.load_cert_chain("/etc/ovn-tls/tls.crt", "/etc/ovn-tls/tls.key")
    sock = trust.wrap_socket(sock, server_hostname=host)
    print(hashlib.sha256(sock.getpeercert(True)).hexdigest())
sock.sendall(b'{"method": "list_dbs", "params": [], "id": 1}')
print(sock.recv(4096).decode() or "closed")
"""
# The console of a server, as a browser opens it: until the first bytes of its VNC.
_CONSOLE = """
import socket, ssl, sys
from urllib.parse import parse_qs, urlsplit
url = urlsplit(sys.argv[2])
trust = ssl.create_default_context(cafile=sys.argv[1])
sock = trust.wrap_socket(socket.create_connection((url.hostname, url.port), 10), server_hostname=url.hostname)
lines = [f"GET /{parse_qs(url.query)['path'][0]} HTTP/1.1", f"Host: {url.netloc}", f"Origin: {url.scheme}://{url.netloc}"]
lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: binary"]
lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
sock.sendall("\\r\\n".join([*lines, "", ""]).encode())
answer = b""
while b"RFB 003" not in answer and (more := sock.recv(4096)):
    answer += more
print(answer.split()[1].decode(), "RFB" if b"RFB 003" in answer else answer[:300])
"""


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud in a cluster of its own, plain and Ready."""
    module("localcluster", "down")
    session = Session.start(MINIMAL)
    module("images", "build", "haproxy")
    module("images", "load", "haproxy")
    yield session, session.converge(MINIMAL)
    module("localcluster", "down")


@pytest.fixture
def cluster(stood: tuple[Session, Cloud]) -> Kubernetes:
    return stood[0].cluster


@dataclass
class Requests:
    """Logins and lists of networks, two a second, none repeated."""

    answered: int = 0
    failed: list[str] = field(default_factory=list[str])
    silence: float = 0
    """Seconds between two that were answered, at most."""
    last: float = field(default_factory=time.monotonic)
    """When one was."""


@contextmanager
def asking(cluster: Kubernetes) -> Generator[Requests]:
    """Requests all through the block."""
    told, over = Requests(), threading.Event()

    def ask() -> None:
        while not over.wait(0.5):
            try:
                conn = proof.connect(cluster, NAMESPACE)
                conn.config.config["api_timeout"] = 10
                list(conn.network.networks())
            except (SDKException, ClientException, CloudError) as error:
                told.failed.append(str(error))
                continue
            told.answered += 1
            told.silence, told.last = max(told.silence, time.monotonic() - told.last), time.monotonic()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        over.set()
        thread.join(60)
        told.silence = max(told.silence, time.monotonic() - told.last)


def inside(cluster: Kubernetes, program: str, *words: str) -> str:
    """What a program says in a pod of Keystone's API, which has what services trust."""
    run = ("exec", "-n", NAMESPACE, "deploy/keystone-api", "-c", "main", "--", "python3", "-c")
    return cluster.kubectl(*run, program, *words).strip()


def of_ovn(cluster: Kubernetes, *words: str) -> str:
    """What the northbound database shows and answers to a program in a pod of Neutron's API."""
    run = ("exec", "-n", NAMESPACE, "deploy/neutron-api", "-c", "main", "--", "python3", "-c")
    return cluster.kubectl(*run, _OVN, *words)


def shown(cluster: Kubernetes) -> dict[str, str]:
    """Digest of the certificate each server shows to a client that checks it."""
    ports = (f"{host}:{port}" for host, port in {"rabbitmq": 5671, **PORTS}.items())
    found = dict(line.split() for line in inside(cluster, _PORTS, TRUST, *ports).splitlines())
    ovn = of_ovn(cluster, "16641", "certified").split()[0]
    return {"mariadb": inside(cluster, _DATABASE), "ovn": ovn, **found}


def plain(cluster: Kubernetes) -> dict[str, int]:
    """Connections each API's front has taken that were not encrypted."""
    found: dict[str, int] = {}
    for name in PORTS:
        ask = "echo 'show stat' | socat - UNIX-CONNECT:/run/front/admin"
        text = cluster.kubectl("exec", "-n", NAMESPACE, f"deploy/{name}", "-c", "front", "--", "sh", "-c", ask)
        rows = csv.DictReader(text.removeprefix("# ").splitlines())
        found[name] = next(int(row["stot"]) for row in rows if row["pxname"] == "plain" and row["svname"] == "FRONTEND")
    return found


def endpoints(cluster: Kubernetes) -> list[str]:
    """Every URL in the catalog; none while that is not answered."""
    try:
        return [endpoint.url for endpoint in proof.connect(cluster, NAMESPACE).list_endpoints()]
    except (SDKException, ClientException, CloudError):
        return []


def encrypted(cluster: Kubernetes) -> tuple[int, int]:
    """(connections to the broker, those of them that are encrypted)."""
    words = ("rabbitmqctl", "-q", "--formatter=json", "list_connections", "user", "ssl")
    found = json.loads(cluster.kubectl("exec", "-n", NAMESPACE, "rabbitmq-server-0", "--", *words))
    return len(found), sum(1 for each in found if each["ssl"])


def encrypted_only(urls: list[str]) -> bool:
    return bool(urls) and all(url.startswith("https:") for url in urls)


def processes(cluster: Kubernetes) -> dict[str, tuple[str, int]]:
    """(uid, starts of its containers) of every pod."""
    found = cluster.items("pods", "-n", NAMESPACE)
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            sum(each["restartCount"] for each in pod["status"]["containerStatuses"]),
        )
        for pod in found
        if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    }


def test_a_cloud_that_runs_is_told_to_encrypt(
    cluster: Kubernetes, stood: tuple[Session, Cloud], report: Report
) -> None:
    """Servers first, clients after them; then a plain connection is not needed by anybody."""
    cloud = stood[1]
    pki = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "PKI", "spec": {}}
    cluster.apply({**pki, "metadata": {"name": "pki", "namespace": NAMESPACE}})
    started = time.monotonic()
    with asking(cluster) as told:
        patch = json.dumps({"spec": dict.fromkeys(SERVICES, TLS)})
        cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)
        until("an encrypted catalog", lambda: encrypted_only(endpoints(cluster)), 420, 5)
        ready_again(cluster, cloud, 420)
    report.add(tls_switch_seconds=round(time.monotonic() - started, 1))
    report.add(tls_switch_longest_silence_seconds=round(told.silence, 1))
    report.add(tls_switch_failed_requests=len(told.failed), tls_switch_answered_requests=told.answered)
    assert told.answered > 10
    before = plain(cluster)
    stood[0].prove(cloud)
    assert plain(cluster) == before, "somebody came without TLS"
    assert len(set(encrypted(cluster))) == 1, "all connections to the broker are encrypted"
    assert encrypted(cluster)[0] > 5


def test_tls_is_required(cluster: Kubernetes, stood: tuple[Session, Cloud], report: Report) -> None:
    cloud = stood[1]
    tls = {"tls": {"pkiRef": {"name": "pki"}, "required": True}}
    with asking(cluster) as told:
        patch = json.dumps({"spec": dict.fromkeys(SERVICES, tls)})
        cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)
        ready_again(cluster, cloud, 420)
    report.add(tls_required_longest_silence_seconds=round(told.silence, 1))
    report.add(tls_required_failed_requests=len(told.failed), tls_required_answered_requests=told.answered)
    server = proof.connect(cluster, NAMESPACE).compute.find_server(proof.NAME, ignore_missing=False)
    assert server.status == "ACTIVE"


def test_a_plain_client_and_one_that_trusts_another_are_refused(cluster: Kubernetes) -> None:
    with pytest.raises(CloudError, match="insecure transport"):
        inside(cluster, _DATABASE, "plain")
    system = "/etc/ssl/certs/ca-certificates.crt"
    with pytest.raises(CloudError, match="CERTIFICATE_VERIFY_FAILED"):
        inside(cluster, _DATABASE, system)
    for host, port in {"rabbitmq": 5671, **PORTS}.items():
        with pytest.raises(CloudError, match="CERTIFICATE_VERIFY_FAILED"):
            inside(cluster, _PORTS, system, f"{host}:{port}")


def test_an_api_is_called_by_its_name_and_by_no_other(cluster: Kubernetes) -> None:
    assert inside(cluster, _API, TRUST, "https://neutron-api:9696/") == "200"
    address = cluster.get("service", "neutron-api", "-n", NAMESPACE)["spec"]["clusterIP"]
    with pytest.raises(CloudError, match=r"not valid for|doesn't match|Hostname mismatch|IP address mismatch"):
        inside(cluster, _API, TRUST, f"https://{address}:9696/")
    with pytest.raises(CloudError, match=r"ConnectFailure|Connection aborted|Unable to establish"):
        inside(cluster, _API, TRUST, f"http://{address}:9696/")


def test_who_has_no_certificate_does_not_read_the_databases_of_ovn(cluster: Kubernetes) -> None:
    assert '"OVN_Northbound"' in of_ovn(cluster, "16641", "certified")
    with pytest.raises(CloudError, match=r"CERTIFICATE_REQUIRED|certificate required|handshake failure"):
        of_ovn(cluster, "16641")
    with pytest.raises(CloudError, match="ConnectionRefused"):
        of_ovn(cluster, "6641")


def test_a_console_is_opened_through_tls(cluster: Kubernetes) -> None:
    compute = proof.connect(cluster, NAMESPACE).compute
    console = compute.create_console(compute.find_server(proof.NAME, ignore_missing=False), "novnc") or {}
    url = str(console.get("url"))
    assert url.startswith("https://")
    assert inside(cluster, _CONSOLE, TRUST, url) == "101 RFB"


def test_new_certificates_are_shown_without_a_restart(cluster: Kubernetes, report: Report) -> None:
    before, pods = shown(cluster), processes(cluster)
    started = time.monotonic()
    with asking(cluster) as told:
        secrets = [f"{name}-tls" for name in ("mariadb", "rabbitmq", "ovn", *PORTS)]
        cluster.kubectl("delete", "secret", *secrets, "-n", NAMESPACE)
        until("new certificates", lambda: not set(before.values()) & set(shown(cluster).values()), 300, 5)
    report.add(tls_renewal_seconds=round(time.monotonic() - started, 1))
    assert told.failed == []
    assert told.answered > 10
    assert processes(cluster) == pods


def test_members_that_are_added_to_ovns_databases_show_certificates(
    cluster: Kubernetes, stood: tuple[Session, Cloud]
) -> None:
    cloud = stood[1]
    patch = json.dumps({"spec": {"ovn": {"replicas": 3}}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)
    until("six members", lambda: len(_members(cluster)) == 6, 300, 2)
    ready_again(cluster, cloud, 420)
    for number in range(3):
        assert '"OVN_Northbound"' in of_ovn(cluster, "16641", "certified", f"ovn-nb-{number}")


def _members(cluster: Kubernetes) -> list[str]:
    found = cluster.items("pods", "-n", NAMESPACE, "-l", "openstack.k8s.io/kind=ovnnetwork")
    return [name for pod in found if (name := pod["metadata"]["name"]).startswith(("ovn-nb-", "ovn-sb-"))]
