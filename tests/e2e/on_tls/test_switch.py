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
APIS = ("keystone", "glance", "placement", "neutron", "nova")
PORTS = {
    "keystone-api": 5000,
    "glance-api": 9292,
    "placement-api": 8778,
    "neutron-api": 9696,
    "nova-api": 8774,
    "nova-metadata": 8775,
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


def sql(cluster: Kubernetes, statement: str) -> str:
    """What MariaDB answers root."""
    script = 'exec mariadb -uroot -p"$(cat "$MARIADB_ROOT_PASSWORD_FILE")" -N'
    return cluster.kubectl(
        "exec", "-i", "-n", NAMESPACE, "mariadb-server-0", "--", "sh", "-c", script, stdin=statement
    ).strip()


def inside(cluster: Kubernetes, program: str, *words: str) -> str:
    """What a program says in a pod of Keystone's API, which has what services trust."""
    run = ("exec", "-n", NAMESPACE, "deploy/keystone-api", "-c", "main", "--", "python3", "-c")
    return cluster.kubectl(*run, program, *words).strip()


def shown(cluster: Kubernetes) -> dict[str, str]:
    """Digest of the certificate each server shows to a client that checks it."""
    ports = (f"{host}:{port}" for host, port in {"rabbitmq": 5671, **PORTS}.items())
    found = dict(line.split() for line in inside(cluster, _PORTS, TRUST, *ports).splitlines())
    return {"mariadb": inside(cluster, _DATABASE), **found}


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
    """Every URL in the catalog."""
    return [endpoint.url for endpoint in proof.connect(cluster, NAMESPACE).list_endpoints()]


def encrypted(cluster: Kubernetes) -> tuple[int, int]:
    """(connections to the broker, those of them that are encrypted)."""
    words = ("rabbitmqctl", "-q", "--formatter=json", "list_connections", "user", "ssl")
    found = json.loads(cluster.kubectl("exec", "-n", NAMESPACE, "rabbitmq-server-0", "--", *words))
    return len(found), sum(1 for each in found if each["ssl"])


def processes(cluster: Kubernetes) -> dict[str, tuple[str, int]]:
    """(uid, starts of its containers) of every pod."""
    found = cluster.items("pods", "-n", NAMESPACE)
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            sum(each["restartCount"] for each in pod["status"]["containerStatuses"]),
        )
        for pod in found
        if pod["status"].get("phase") == "Running"
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
        patch = json.dumps({"spec": dict.fromkeys(("mariadb", "rabbitmq", *APIS), TLS)})
        cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)
        until("an encrypted catalog", lambda: all(url.startswith("https:") for url in endpoints(cluster)), 420, 5)
        ready_again(cluster, cloud, 420)
    report.add(tls_switch_seconds=round(time.monotonic() - started, 1))
    report.add(tls_switch_longest_silence_seconds=round(told.silence, 1))
    report.add(tls_switch_failed_requests=len(told.failed), tls_switch_answered_requests=told.answered)
    assert told.answered > 10
    # Everybody who comes from now on comes encrypted, and those who are there are sent away once.
    sql(cluster, "SET GLOBAL require_secure_transport = ON")
    users = sql(cluster, "SELECT DISTINCT user FROM information_schema.processlist WHERE host LIKE '%:%'").split()
    assert {"keystone", "nova_cell1", "neutron"} <= set(users), users
    for user in users:
        sql(cluster, f"KILL USER '{user}'")
    until("all connections to be encrypted", lambda: len(set(encrypted(cluster))) == 1, 60, 2)
    assert encrypted(cluster)[0] > 5
    before = plain(cluster)
    stood[0].prove(cloud)
    # Nobody comes without TLS any more, the metadata agent included.
    assert plain(cluster) == before


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
    # Not closed yet: who was not told may still come without.
    assert inside(cluster, _API, TRUST, f"http://{address}:9696/") == "200"


def test_new_certificates_are_shown_without_a_restart(cluster: Kubernetes, report: Report) -> None:
    before, pods = shown(cluster), processes(cluster)
    started = time.monotonic()
    with asking(cluster) as told:
        secrets = [f"{name}-tls" for name in ("mariadb", "rabbitmq", *PORTS)]
        cluster.kubectl("delete", "secret", *secrets, "-n", NAMESPACE)
        until("new certificates", lambda: not set(before.values()) & set(shown(cluster).values()), 300, 5)
    report.add(tls_renewal_seconds=round(time.monotonic() - started, 1))
    assert told.failed == []
    assert told.answered > 10
    assert processes(cluster) == pods
