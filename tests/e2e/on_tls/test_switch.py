"""The minimal cloud is told to encrypt what services send to MariaDB and RabbitMQ, while it runs."""

from __future__ import annotations

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
_BROKER = """
import hashlib, ssl, sys
shown = ssl.get_server_certificate(("rabbitmq.openstack.svc.cluster.local", 5671), ca_certs=sys.argv[1])
print(hashlib.sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest())
"""


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud in a cluster of its own, plain and Ready."""
    module("localcluster", "down")
    session = Session.start(MINIMAL)
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


def shown(cluster: Kubernetes) -> dict[str, str]:
    """Digest of the certificate each server shows to a client that checks it."""
    trust = "/etc/openstack-trust/pki-bundle/ca.crt"
    run = ("exec", "-n", NAMESPACE, "deploy/keystone-api", "--", "python3", "-c")
    return {
        "mariadb": cluster.kubectl(*run, _DATABASE).strip(),
        "rabbitmq": cluster.kubectl(*run, _BROKER, trust).strip(),
    }


def encrypted(cluster: Kubernetes) -> tuple[int, int]:
    """(connections to the broker, those of them that are encrypted)."""
    words = ("rabbitmqctl", "-q", "--formatter=json", "list_connections", "user", "ssl")
    found = json.loads(cluster.kubectl("exec", "-n", NAMESPACE, "rabbitmq-server-0", "--", *words))
    return len(found), sum(1 for each in found if each["ssl"])


def processes(cluster: Kubernetes) -> dict[str, tuple[str, int]]:
    """(uid, starts of its container) of the servers' pods."""
    found = {name: cluster.get("pod", f"{name}-server-0", "-n", NAMESPACE) for name in ("mariadb", "rabbitmq")}
    return {
        name: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
        for name, pod in found.items()
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
        patch = json.dumps({"spec": {"mariadb": TLS, "rabbitmq": TLS}})
        cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)
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
    stood[0].prove(cloud)


def test_a_plain_client_and_one_that_trusts_another_are_refused(cluster: Kubernetes) -> None:
    run = ("exec", "-n", NAMESPACE, "deploy/keystone-api", "--", "python3", "-c")
    with pytest.raises(CloudError, match="insecure transport"):
        cluster.kubectl(*run, _DATABASE, "plain")
    system = "/etc/ssl/certs/ca-certificates.crt"
    with pytest.raises(CloudError, match="CERTIFICATE_VERIFY_FAILED"):
        cluster.kubectl(*run, _DATABASE, system)
    with pytest.raises(CloudError, match="CERTIFICATE_VERIFY_FAILED"):
        cluster.kubectl(*run, _BROKER, system)


def test_new_certificates_are_shown_without_a_restart(cluster: Kubernetes, report: Report) -> None:
    before, pods = shown(cluster), processes(cluster)
    started = time.monotonic()
    with asking(cluster) as told:
        cluster.kubectl("delete", "secret", "mariadb-tls", "rabbitmq-tls", "-n", NAMESPACE)
        until("new certificates", lambda: not set(before.values()) & set(shown(cluster).values()), 300, 5)
    report.add(tls_renewal_seconds=round(time.monotonic() - started, 1))
    assert told.failed == []
    assert told.answered > 10
    assert processes(cluster) == pods
