"""Who shows what on which port, who comes how, and what a client gets that should get nothing."""

from __future__ import annotations

import base64
import csv
import json
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException

from tests.judging import Allowance
from tools.cloud import proof
from tools.localcluster.kubernetes import KubeError, Kubernetes

NAMESPACE = "openstack"
SERVICES = ("mariadb", "rabbitmq", "memcached", "ovn", "keystone", "glance", "placement", "neutron", "nova")
PORTS = {
    "keystone-api": 5000,
    "glance-api": 9292,
    "placement-api": 8778,
    "neutron-api": 9696,
    "nova-api": 8774,
    "nova-metadata": 8775,
    "nova-cell1-novncproxy": 6080,
}
ENCRYPTED = {"rabbitmq": 5671, "memcached-server-0.memcached": 11212, **PORTS}
"""Ports that begin with TLS, of what Keystone's pods may call."""
TRUST = "/etc/openstack-trust/internal-bundle/ca.crt"
PKIS = ("internal", "internal-ovn")
SECRETS = [f"{name}-tls" for name in ("mariadb", "rabbitmq", "memcached", "memcached-client", "ovn", *PORTS)]
"""Of the certificates."""

# What a client of the database is shown: as Keystone, by its own options, or trusting somebody else, or nobody (plain).
DATABASE = """
import configparser, hashlib, sys
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
conf = configparser.ConfigParser(interpolation=None, strict=False)
conf.read("/etc/keystone/keystone.conf")
url = make_url(conf["database"]["connection"])
if sys.argv[1:] == ["plain"]:
    url = url.difference_update_query(["ssl_ca"])
elif sys.argv[1:] == ["given"]:
    with open("/tmp/given.crt", "w") as file:
        file.write(sys.stdin.read())
    url = url.update_query_dict({"ssl_ca": "/tmp/given.crt"})
elif sys.argv[1:]:
    url = url.update_query_dict({"ssl_ca": sys.argv[1]})
connection = create_engine(url).raw_connection().driver_connection
print(hashlib.sha256(connection._sock.getpeercert(True)).hexdigest())
"""
SHOWN = """
import hashlib, ssl, sys
for host, port in (where.split(":") for where in sys.argv[2:]):
    name = f"{host}.openstack.svc.cluster.local"
    shown = ssl.get_server_certificate((name, int(port)), ca_certs=sys.argv[1])
    print(host, hashlib.sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest())
"""
# As a service calls another: what it trusts, and what it calls.
API = """
import sys
from keystoneauth1.session import Session
print(Session(verify=sys.argv[1]).get(sys.argv[2], authenticated=False, raise_exc=False).status_code)
"""
# OVN's northbound database, with or without a certificate of its own; what it answers to a question.
OVN = """
import hashlib, socket, ssl, sys
host = "".join(sys.argv[3:] or ["ovn-nb-0"]) + ".ovn-nb.openstack.svc.cluster.local"
sock = socket.create_connection((host, int(sys.argv[1])), 10)
if sys.argv[1] == "16641":
    trust = ssl.create_default_context(cafile="/etc/ovn-tls/ca.crt")
    if sys.argv[2:3] == ["given"]:
        with open("/tmp/given.pem", "w") as file:
            file.write(sys.stdin.read())
        trust.load_cert_chain("/tmp/given.pem")
    elif sys.argv[2:]:
        trust.load_cert_chain("/etc/ovn-tls/tls.crt", "/etc/ovn-tls/tls.key")
    sock = trust.wrap_socket(sock, server_hostname=host)
    print(hashlib.sha256(sock.getpeercert(True)).hexdigest())
sock.sendall(b'{"method": "list_dbs", "params": [], "id": 1}')
print(sock.recv(4096).decode() or "closed")
"""
# What Memcached counts, asked with the certificate of its clients, with one that is given, or with none.
CACHE = """
import socket, ssl, sys
host = "memcached-server-0.memcached.openstack.svc.cluster.local"
trust = ssl.create_default_context(cafile=sys.argv[1])
if sys.argv[2:] == ["given"]:
    with open("/tmp/given.pem", "w") as file:
        file.write(sys.stdin.read())
    trust.load_cert_chain("/tmp/given.pem")
elif sys.argv[2:]:
    trust.load_cert_chain("/etc/openstack-cache-tls/tls.crt", "/etc/openstack-cache-tls/tls.key")
with trust.wrap_socket(socket.create_connection((host, 11212), 10), server_hostname=host) as sock:
    sock.sendall(b"stats\\r\\n")
    answer = b""
    while not answer.endswith(b"END\\r\\n") and (more := sock.recv(4096)):
        answer += more
print(answer.decode() or sys.exit("nothing was answered"))
"""
# Who would like to be a member, and has no certificate, or does not speak TLS at all.
MEMBERS = """
import socket, ssl, sys
host = f"{sys.argv[1]}.openstack.svc.cluster.local"
sock = socket.create_connection((host, int(sys.argv[2])), 10)
# In plain text it may be that no answer comes; in TLS there is an alert, on a busy machine a late one.
sock.settimeout(60 if sys.argv[3:] == ["tls"] else 5)
if sys.argv[3:] == ["tls"]:
    trust = ssl._create_unverified_context()
    sock = trust.wrap_socket(sock, server_hostname=host)
sock.sendall(b"hello\\n" * 100)
try:
    answer = sock.recv(100)
except TimeoutError:
    answer = b""
if not answer or answer[:1] == b"\\x15":
    sys.exit("nothing was answered")
"""
# The console of a server, as a browser opens it: until the first bytes of its VNC.
CONSOLE = """
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


def markers(cluster: Kubernetes) -> dict[str, bytes]:
    """What nobody on the way should be able to read, by what it is: passwords and keys of the cloud, and the words of
    each protocol.
    """
    found = dict(_WORDS)
    for secret in cluster.items("secrets", "-n", NAMESPACE):
        for key, data in secret.get("data", {}).items():
            value = base64.b64decode(data)
            # A drawn one, neither a text nor a name.
            if 20 <= len(value) <= 100 and not {b" ", b"."} & {value[at : at + 1] for at in range(len(value))}:
                found[f"{secret['metadata']['name']}/{key}"] = value
    return found


_WORDS = {
    "a token": b"gAAAAA",
    "a request with a token": b"X-Auth-Token",
    "SQL": b"SELECT ",
    "AMQP": b"AMQP\0\0\x09\x01",
    "OVSDB": b"OVN_Northbound",
    "a console": b"QEMU (instance-",
    "a server's data": proof.NAME.encode() + b'"',
}


@dataclass
class Requests:
    """Logins and lists of networks, two a second, none repeated."""

    answered: int = 0
    failed: list[str] = field(default_factory=list[str])
    silence: float = 0
    """Seconds between two that were answered, at most."""
    last: float = field(default_factory=time.monotonic)
    """When one was."""


SILENCE = Allowance(
    10.0,
    "an API ends only when no client is connected, and starts within some seconds; a request that takes longer than ten"
    " has failed",
)
"""Longest time in seconds between two answered requests while certificates or authorities are replaced: with it, nobody
notices.
"""
_CALM = 30
"""Seconds for which the same requests are measured before."""


def calm_silence(cluster: Kubernetes) -> float:
    """Return the longest time in seconds between two answered requests while nothing is changed."""
    with asking(cluster) as told:
        time.sleep(_CALM)
    assert told.answered, told.failed
    return told.silence


@contextmanager
def asking(cluster: Kubernetes) -> Generator[Requests]:
    """Requests all through the block."""
    told, over = Requests(), threading.Event()

    def ask() -> None:
        while not over.wait(0.5):
            begun = time.monotonic()
            try:
                conn = proof.connect(cluster, NAMESPACE)
                conn.config.config["api_timeout"] = 10
                list(conn.network.networks())
            except (SDKException, ClientException, KubeError) as error:
                told.failed.append(f"{datetime.now(UTC):%H:%M:%S} after {time.monotonic() - begun:.1f} s: {error}")
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


def inside(cluster: Kubernetes, program: str, *words: str, given: str | None = None) -> str:
    """What a program says in a pod of Keystone's API, which has what services trust; `given` is its input."""
    return _said(cluster, "keystone-api", program, words, given).strip()


def of_ovn(cluster: Kubernetes, *words: str, given: str | None = None) -> str:
    """What the northbound database shows and answers to a program in a pod of Neutron's API."""
    return _said(cluster, "neutron-api", OVN, words, given)


def cache_hits(cluster: Kubernetes) -> int:
    """How often Memcached has had what it was asked for, since its pod started; 0 while it does not answer."""
    try:
        lines = inside(cluster, CACHE, TRUST, "certified").splitlines()
    except KubeError:
        return 0
    return next(int(line.split()[2]) for line in lines if line.startswith("STAT get_hits "))


def _said(cluster: Kubernetes, pod: str, program: str, words: Sequence[str], given: str | None) -> str:
    run = ("exec", "-i", "-n", NAMESPACE, f"deploy/{pod}", "-c", "main", "--", "python3", "-c", program, *words)
    return cluster.kubectl(*run, stdin=given or "")


def shown(cluster: Kubernetes) -> dict[str, str]:
    """Digest of the certificate each server shows to a client that checks it."""
    ports = (f"{host}:{port}" for host, port in ENCRYPTED.items())
    found = dict(line.split() for line in inside(cluster, SHOWN, TRUST, *ports).splitlines())
    ovn = of_ovn(cluster, "16641", "certified").split()[0]
    return {"mariadb": inside(cluster, DATABASE), "ovn": ovn, **found}


def renewed(cluster: Kubernetes, before: Mapping[str, str], seconds: float = 300) -> float:
    """Waits until no server shows a certificate it showed before; seconds it took. Fails naming those that do."""
    started, left = time.monotonic(), set(before)
    while left and time.monotonic() - started < seconds:
        left = {name for name, digest in shown(cluster).items() if digest in before.values()}
        time.sleep(5 if left else 0)
    assert not left, f"these show certificates of before after {seconds:.0f} s: {', '.join(sorted(left))}"
    return time.monotonic() - started


def file_of(cluster: Kubernetes, secret: str, name: str) -> str:
    """A file of a Secret."""
    return base64.b64decode(cluster.get("secret", secret, "-n", NAMESPACE)["data"][name]).decode()


def bundle(cluster: Kubernetes, name: str) -> str:
    """Whom clients of a PKI's servers trust."""
    return file_of(cluster, f"{name}-bundle", "ca.crt")


def replaced_by_another(cluster: Kubernetes) -> None:
    """Each authority is to give way to another one, as soon as that can be."""
    patch = json.dumps({"spec": {"authorityGeneration": 2, "overlap": "0s"}})
    for name in PKIS:
        cluster.kubectl("patch", "pki", name, "-n", NAMESPACE, "--type=merge", "-p", patch)


def rotations(cluster: Kubernetes) -> set[str]:
    """Where the replacements of authorities are, as the reasons of their conditions; empty before that is known."""
    found = [cluster.get("pki", name, "-n", NAMESPACE) for name in PKIS]
    told = [each for pki in found for each in pki["status"]["conditions"] if each["type"] == "RotationReady"]
    current = all(pki["status"].get("observedGeneration") == pki["metadata"]["generation"] for pki in found)
    return {each["reason"] for each in told} if current else set()


def plain(cluster: Kubernetes) -> dict[str, int]:
    """Connections each API's front has taken that were not encrypted."""
    found: dict[str, int] = {}
    for name in PORTS:
        ask = "echo 'show stat' | socat - UNIX-CONNECT:/run/front/admin"
        text = cluster.kubectl("exec", "-n", NAMESPACE, f"deploy/{name}", "-c", "front", "--", "sh", "-c", ask)
        rows = csv.DictReader(text.removeprefix("# ").splitlines())
        found[name] = next(int(row["stot"]) for row in rows if row["pxname"] == "plain" and row["svname"] == "FRONTEND")
    return found


def required(cluster: Kubernetes) -> set[str]:
    """Services that refuse who comes without TLS."""
    kinds = "mariadbs,rabbitmqs,memcacheds,ovnnetworks,keystones,glances,placements,neutrons,novas"
    found = cluster.items(kinds, "-n", NAMESPACE)
    return {each["metadata"]["name"] for each in found if (each["spec"].get("tls") or {}).get("required")}


def endpoints(cluster: Kubernetes) -> list[str]:
    """Every URL in the catalog; none while that is not answered."""
    try:
        return [endpoint.url for endpoint in proof.connect(cluster, NAMESPACE).list_endpoints()]
    except (SDKException, ClientException, KubeError):
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


def programs(*names: str) -> set[tuple[str, int]]:
    """(name, process id) of what is to live through new certificates, or of those alone, on this machine's cluster."""
    found: set[tuple[str, int]] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "comm").read_text().strip()
            if name in (names or _LASTING) and "/localcluster-" in (folder / "cgroup").read_text():
                found.add((name, int(folder.name)))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


_LASTING = {"mariadbd", "beam.smp", "ovsdb-server", "ovn-northd", "ovn-controller", "libvirtd", "haproxy", "memcached"}
