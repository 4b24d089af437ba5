"""Operators of others do on this cluster what they are for, with servers from our own images."""

from __future__ import annotations

import secrets
import time

import pytest

from images import catalog
from tools.cloud.view import conditions
from tools.localcluster.kubernetes import KubeError, Kubernetes
from tools.operators.catalog import OPERATORS, chosen
from tools.operators.install import install, remove

from ..conftest import Report
from ..waiting import until
from .asked import NAMESPACE, applied, objects, says, secret

# mariadb-operator puts passwords into SQL as they are: one with a quote would end there.
PASSWORD = secrets.token_urlsafe()
_SELECT = "SELECT DATABASE()"
_ASK = f"MYSQL_PWD=$(cat) exec mariadb --user=nova --skip-column-names --execute='{_SELECT}' nova"
# It reads a password from its standard input only where it is given nothing but these two words.
_AUTHENTICATE = "exec rabbitmqctl authenticate_user nova"


def test_a_database_with_a_user_who_may_use_it(cluster: Kubernetes, report: Report) -> None:
    started = time.monotonic()
    secret(cluster, "nova", {"username": "nova", "password": PASSWORD})
    applied(cluster, objects("k8s.mariadb.com"))
    report.add(mariadb_operator_apply_to_ready_seconds=round(time.monotonic() - started, 1))
    assert says(cluster, "database-0", "mariadb", _ASK, PASSWORD) == "nova"


def test_a_broker_with_a_user_who_may_use_it(cluster: Kubernetes, report: Report) -> None:
    started = time.monotonic()
    applied(cluster, objects("rabbitmq.com"))
    report.add(rabbitmq_operator_apply_to_ready_seconds=round(time.monotonic() - started, 1))
    says(cluster, "broker-server-0", "rabbitmq", _AUTHENTICATE, PASSWORD)
    allowed = says(cluster, "broker-server-0", "rabbitmq", "exec rabbitmqctl --quiet list_permissions -p nova")
    assert ["nova", ".*", ".*", ".*"] in [line.split() for line in allowed.splitlines()]


def test_a_new_password_takes_the_place_of_the_old_one(cluster: Kubernetes) -> None:
    other = secrets.token_urlsafe()
    secret(cluster, "nova", {"username": "nova", "password": other})

    def taken() -> bool:
        try:
            says(cluster, "broker-server-0", "rabbitmq", _AUTHENTICATE, other)
            return says(cluster, "database-0", "mariadb", _ASK, other) == "nova"
        except KubeError:
            return False

    until("both to know the new password", taken, 60, 1)
    for pod, container, script in (("database-0", "mariadb", _ASK), ("broker-server-0", "rabbitmq", _AUTHENTICATE)):
        with pytest.raises(KubeError):
            says(cluster, pod, container, script, PASSWORD)


def test_a_cache(cluster: Kubernetes) -> None:
    (cache,) = objects("memcached.c5c3.io")
    applied(cluster, [{**cache, "spec": {**cache["spec"], "image": catalog.reference("memcached")}}])
    found = cluster.get("memcacheds.v1beta1.memcached.c5c3.io", "cache", "-n", NAMESPACE)
    assert found["status"]["serverList"] == [f"cache.{NAMESPACE}:11211"]


def test_a_k_orc_project_waits_for_the_cloud_of_its_login(cluster: Kubernetes) -> None:
    clouds = "clouds: {admin: {auth_type: password, auth: {auth_url: 'http://keystone.nowhere.svc:5000/v3'}}}"
    secret(cluster, "clouds", {"clouds.yaml": clouds})
    (project,) = objects("openstack.k-orc.cloud")
    cluster.apply({**project, "metadata": {**project["metadata"], "namespace": NAMESPACE}})

    def told() -> bool:
        found = conditions(cluster.get("projects.openstack.k-orc.cloud", "customer", "-n", NAMESPACE))
        return found.get("Available", {}).get("status") == "False"

    until("K-ORC to look for the cloud", told, 60, 1)
    cluster.kubectl("-n", NAMESPACE, "delete", "projects.openstack.k-orc.cloud", "customer", "--timeout=60s")


def test_a_second_install_changes_no_certificate(cluster: Kubernetes) -> None:
    def certificates() -> list[str]:
        found = cluster.items("secrets", "--all-namespaces", "--field-selector=type=kubernetes.io/tls")
        return sorted(each["data"]["tls.crt"] for each in found if "webhook" in each["metadata"]["name"])

    before = certificates()
    install(cluster, chosen(list(OPERATORS)))
    assert before
    assert certificates() == before


def test_a_removed_operator_refuses_nothing_any_more(cluster: Kubernetes) -> None:
    """Last here: the next file installs it again."""
    remove(cluster, chosen(["memcached-operator"]))
    (cache,) = objects("memcached.c5c3.io")
    cluster.apply({**cache, "metadata": {"name": "unseen", "namespace": NAMESPACE}})
    assert "memcached" not in cluster.kubectl("get", "validatingwebhookconfigurations", "-o", "name")
    assert cluster.exists("memcacheds.v1beta1.memcached.c5c3.io", "cache", "-n", NAMESPACE)
