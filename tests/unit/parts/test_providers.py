"""Who runs a server: what is asked of other operators, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.api import MARIADB, RABBITMQ
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import judge, secret_data
from openstack_operator.parts.connect.remote import schema, vhost
from openstack_operator.parts.secrets.credentials import Credentials
from openstack_operator.parts.secrets.rotation import PASSWORD, Account
from openstack_operator.plan import Context, InstalledKinds, Key, Object, Release, SpecError, Transient, key
from openstack_operator.registry import ACTUATORS, EXTERNAL_KINDS, RESOURCES, SERVICES
from openstack_operator.testing import context

KINDS = {resource.handle: resource for resource in RESOURCES}
PLANS = {service.resource.handle: service.plan for service in SERVICES}
SERVED = frozenset(kind.handle for kind in EXTERNAL_KINDS)
OPERATORS = {
    "MariaDB": ("mariadb-operator", "MariaDB.k8s.mariadb.com"),
    "RabbitMQ": ("rabbitmq-cluster-operator", "RabbitmqCluster.rabbitmq.com"),
    "Memcached": ("memcached-operator", "Memcached.memcached.c5c3.io"),
    "Valkey": ("valkey-operator", "Valkey.cache.cs.sap.com"),
}


@pytest.fixture
def asked(release: Release) -> Any:
    def planned(kind: str, spec: dict[str, Any] | None = None, **changes: Any) -> Any:
        found: Context[Any] = context(KINDS[kind], spec or {}, release=release, **changes)
        return PLANS[kind](found)

    return planned


def theirs(plan: Any, handle: str) -> Object:
    return next(obj for obj in plan.objects if key(obj)[0] == handle)


@pytest.mark.parametrize("kind", OPERATORS)
def test_auto_takes_whoever_is_there(asked: Any, kind: str) -> None:
    _, handle = OPERATORS[kind]
    assert handle in {key(obj)[0] for obj in asked(kind, {"provider": "auto"}, served=SERVED).objects}
    assert handle not in {key(obj)[0] for obj in asked(kind, {"provider": "auto"}).objects}
    assert handle not in {key(obj)[0] for obj in asked(kind, served=SERVED).objects}


@pytest.mark.parametrize("kind", OPERATORS)
def test_provider_is_not_guessed_if_the_operator_may_not_look(asked: Any, kind: str) -> None:
    """A server that is there, and was not seen, would be made anew without its data."""
    operator, handle = OPERATORS[kind]
    own = {key(obj): obj for obj in asked(kind).objects}
    closed = {"installed_kinds": InstalledKinds(SERVED, {handle: "bind the role"})}
    for provider in ("auto", operator):
        with pytest.raises(Transient, match=rf"^spec\.provider {provider}.*: bind the role$"):
            asked(kind, {"provider": provider}, **closed)
    assert asked(kind, {"provider": "builtin"}, **closed)
    assert asked(kind, {"provider": "auto"}, children=own, **closed)


@pytest.mark.parametrize("kind", OPERATORS)
def test_auto_stays_with_who_runs_it(asked: Any, kind: str) -> None:
    """An operator that comes later, or goes, changes nothing."""
    operator, handle = OPERATORS[kind]
    own = {key(obj): obj for obj in asked(kind).objects}
    assert handle not in {key(obj)[0] for obj in asked(kind, {"provider": "auto"}, served=SERVED, children=own).objects}
    other = {key(obj): obj for obj in asked(kind, {"provider": operator}).objects}
    assert handle in {key(obj)[0] for obj in asked(kind, {"provider": "auto"}, children=other).objects}


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_running_service_keeps_its_provider(asked: Any, kind: str) -> None:
    operator, _ = OPERATORS[kind]
    for first, then in (("builtin", operator), (operator, "builtin")):
        children = {key(obj): obj for obj in asked(kind, {"provider": first}).objects}
        with pytest.raises(SpecError, match=rf"^spec\.provider: {kind}/\w+ is run by {first}"):
            asked(kind, {"provider": then}, children=children)


def test_data_of_a_mariadb_that_is_gone_are_known(asked: Any) -> None:
    """Its Secret is retained, and says whether it ever was of a server."""
    first = asked("MariaDB", {"provider": "mariadb-operator"})
    never = {key(obj): obj for obj in first.objects if obj["kind"] == "Secret"}
    assert asked("MariaDB", children=never)
    again = asked("MariaDB", {"provider": "mariadb-operator"}, children={key(obj): obj for obj in first.objects})
    ran = {key(obj): obj for obj in again.objects if obj["kind"] == "Secret"}
    with pytest.raises(SpecError, match="run by mariadb-operator"):
        asked("MariaDB", children=ran)


def test_a_mariadb_of_several_members(asked: Any) -> None:
    plan = asked("MariaDB", {"provider": "mariadb-operator", "replicas": 3, "storageClassName": "fast"})
    spec = theirs(plan, "MariaDB.k8s.mariadb.com")["spec"]
    assert spec["galera"] == {"enabled": True, "config": {"reuseStorageVolume": True}}
    assert spec["storage"]["storageClassName"] == "fast"
    assert spec["tls"] == {"enabled": False}
    assert plan.outcome.published["host"].startswith("mariadb-primary.")
    secret = next(obj for obj in plan.objects if obj["kind"] == "Secret")
    assert spec["rootPasswordSecretKeyRef"] == {"name": secret["metadata"]["name"], "key": "root"}
    assert secret["metadata"]["labels"]["k8s.mariadb.com/watch"] == ""
    # It stands in SQL as it is.
    assert not {"'", '"', "\\"} & set(secret_data(secret)["root"])


def test_a_single_mariadb_of_others_does_not_become_a_cluster(asked: Any) -> None:
    single = {key(obj): obj for obj in asked("MariaDB", {"provider": "mariadb-operator"}).objects}
    with pytest.raises(
        SpecError, match=r"^spec\.replicas: mariadb-operator cannot turn a single server into a cluster"
    ):
        asked("MariaDB", {"provider": "mariadb-operator", "replicas": 3}, children=single)


def test_options_that_mariadb_operator_sets_are_refused(asked: Any) -> None:
    for option in ("datadir", "wsrep_on", "ssl_ca"):
        with pytest.raises(SpecError, match=option):
            asked("MariaDB", {"provider": "mariadb-operator", "config": {"mysqld": {option: "x"}}})


def test_a_rabbitmq_that_starts_is_not_asked_what_it_does_not_know(asked: Any) -> None:
    plan = asked("RabbitMQ", {"provider": "rabbitmq-cluster-operator", "replicas": 3})
    cluster = theirs(plan, "RabbitmqCluster.rabbitmq.com")
    assert cluster["metadata"]["annotations"]["rabbitmq.com/legacy-startup-probe"] == "true"
    # The default is a week.
    assert cluster["spec"]["terminationGracePeriodSeconds"] == 60
    assert cluster["spec"]["resources"] == {"requests": {"cpu": "100m", "memory": "512Mi"}}
    # The cluster operator's own.
    assert "cluster_partition_handling" not in cluster["spec"]["rabbitmq"]["additionalConfig"]
    assert plan.outcome.published["clustered"] == "true"


def test_virtual_hosts_are_the_topology_operators_where_it_is_there_and_can(asked: Any) -> None:
    spec = {"provider": "rabbitmq-cluster-operator"}
    published = [
        asked("RabbitMQ", spec, served=SERVED).outcome.published,
        asked("RabbitMQ", spec, served={"RabbitmqCluster.rabbitmq.com"}).outcome.published,
    ]
    assert ["rabbitmqCluster" in each for each in published] == [True, False]


def test_a_memcached_of_others_has_one_address(asked: Any) -> None:
    plan = asked("Memcached", {"provider": "memcached-operator", "replicas": 3, "memory": "128Mi"})
    spec = theirs(plan, "Memcached.memcached.c5c3.io")["spec"]
    assert (spec["replicas"], spec["memcached"]["maxMemoryMB"]) == (3, 128)
    assert plan.outcome.published["servers"] == "memcached.openstack.svc.cluster.local:11211"
    assert not list(asked("Memcached", {"provider": "memcached-operator", "replicas": 0}).objects)


def test_fields_that_the_external_operator_lacks_are_refused(asked: Any) -> None:
    spec = {"provider": "memcached-operator", "nodeSelector": {"a": "b"}}
    with pytest.raises(SpecError, match=r"^spec\.nodeSelector: memcached-operator does not support it"):
        asked("Memcached", spec)
    with pytest.raises(SpecError, match=r"^spec\.image: valkey-operator"):
        asked("Valkey", {"provider": "valkey-operator", "image": "example.org/valkey:8"})


def test_a_valkey_of_others(asked: Any) -> None:
    spec = {"provider": "valkey-operator", "replicas": 3, "sentinel": {"enabled": True}, "memory": "32Mi"}
    plan = asked("Valkey", spec)
    found = theirs(plan, "Valkey.cache.cs.sap.com")["spec"]
    assert (found["replicas"], found["sentinel"]) == (3, {"enabled": True})
    assert "--maxmemory 32mb" in found["extraFlags"]
    assert plan.outcome.published["adminSecret"] == "valkey-valkey"
    with pytest.raises(SpecError, match="sets requirepass itself"):
        asked("Valkey", {**spec, "config": {"requirepass": "x"}})


@pytest.mark.parametrize("kind", ["MariaDB", "RabbitMQ", "Valkey"])
def test_a_server_of_others_is_coordinates(asked: Any, kind: str) -> None:
    server = {"host": "server.example.org", "secretRef": {"name": "login"}}
    more = {"managementURL": "https://server.example.org:15671"} if kind == "RabbitMQ" else {}
    data = {"username": "admin", "password": "quo'te", "ca.crt": "authority"}
    plan = asked(kind, {"provider": "external", "external": {**server, **more}}, secrets={"login": data})
    published = plan.outcome.published
    assert published["host"] == "server.example.org"
    kept = {obj["metadata"]["name"]: secret_data(obj) for obj in plan.objects}
    assert {"admin", "quo'te"} == set(kept[published["adminSecret"]].values())
    assert kept[published["trustSecret"]] == {"ca.crt": "authority"}
    assert {obj["kind"] for obj in plan.objects} == {"Secret"}
    with pytest.raises(SpecError, match=r"^spec\.external\.secretRef: key 'password'"):
        asked(kind, {"provider": "external", "external": {**server, **more}}, secrets={"login": {"username": "a"}})


CLOUD = {
    "apiVersion": "c5c3.io/v1alpha1",
    "kind": "ControlPlane",
    "metadata": {"name": "cloud"},
    "spec": {
        "services": {"neutron": {"messaging": {"notificationsRef": {"name": "rabbitmq"}}}},
        "global": {"tls": {"enabled": False}},
    },
}


@pytest.fixture
def cloud(release: Release) -> dict[Key, Object]:
    paper = OfflineCluster(SERVICES, ACTUATORS, lambda _: release, password="drawn", served=SERVED)
    found = [obj for planned in paper.render([CLOUD], "openstack") for obj in planned.objects]
    return {key(obj): obj for obj in found}


def test_accounts_are_made_by_who_runs_the_server(cloud: dict[Key, Object]) -> None:
    # Limited accounts alone are made by us: theirs cannot be limited as much.
    assert {at for at in cloud if at[0] in ("MariaDBDatabase", "RabbitMQVhost")} == {
        ("MariaDBDatabase", "nova-cell1-db--console"),
        ("RabbitMQVhost", "nova-cell1--console"),
    }
    user = cloud["User.k8s.mariadb.com", "keystone-db"]["spec"]
    # Its own limit of ten is less than the processes of one API open.
    assert user["maxUserConnections"] > 100
    secret = cloud["Secret", user["passwordSecretKeyRef"]["name"]]
    assert "k8s.mariadb.com/watch" in secret["metadata"]["labels"]
    assert cloud["Database.k8s.mariadb.com", "keystone-db"]["spec"]["cleanupPolicy"] == "Skip"


def test_a_second_account_is_made_by_who_runs_the_server(release: Release) -> None:
    """What holds data is there once, whichever of the two accounts is in use."""
    known = {"MariaDB": {"mariadbResource": "db"}, "RabbitMQ": {"rabbitmqCluster": "bus"}}
    ctx = context(KINDS["Neutron"], release=release, published=known)
    accounts = (Account(key="a", second=True), Account(key="b", used=False))
    values, both = {"a": "one", "b": "other"}, {"database": accounts, "messaging": accounts}
    creds = Credentials(name="Credentials", secret="passwords", values=values, accounts=both)
    found = [*schema(ctx, MARIADB, "neutron", "db", creds, "database")]
    found += vhost(ctx, RABBITMQ, "neutron", "messaging", creds, "messaging")
    made = {key(obj): obj for obj in found}
    assert [name for kind, name in made if kind in {"Database.k8s.mariadb.com", "Vhost.rabbitmq.com"}] == [
        "neutron-db",
        "neutron-messaging",
    ]
    for kind, base in (("User.k8s.mariadb.com", "neutron-db"), ("User.rabbitmq.com", "neutron-messaging")):
        logins = {name: secret_data(made["Secret", f"{name}-login"]) for other, name in made if other == kind}
        assert logins == {
            f"{base}--b": {"username": "neutron_B", "password": "one"},
            base: {"username": "neutron", "password": "other"},
        }
        noted = {name: obj["metadata"]["annotations"][PASSWORD] for (other, name), obj in made.items() if other == kind}
        assert noted == {f"{base}--b": "passwords/a", base: "passwords/b"}
    assert made["Permission.rabbitmq.com", "neutron-messaging--b"]["spec"]["user"] == "neutron_B"
    assert made["Grant.k8s.mariadb.com", "neutron-db--b"]["spec"]["username"] == "neutron_B"


def test_each_cell_has_a_virtual_host_of_its_own(cloud: dict[Key, Object]) -> None:
    named = {obj["spec"]["name"] for (kind, _), obj in cloud.items() if kind == "Vhost.rabbitmq.com"}
    assert {"nova", "nova-cell1"} <= named
    login = cloud["User.rabbitmq.com", "nova-cell1"]["spec"]["importCredentialsSecret"]["name"]
    secret = cloud["Secret", login]
    assert secret["metadata"]["labels"]["rabbitmq.com/topology-operator"] == "true"
    assert secret_data(secret)["username"] == "nova-cell1"


def test_notifications_are_limited(cloud: dict[Key, Object]) -> None:
    policy = cloud["Policy.rabbitmq.com", "neutron-notifications"]["spec"]
    assert policy["definition"] == {"max-length-bytes": 256 * 1024**2, "overflow": "drop-head"}


def told(api: str, kind: str, generation: int, **status: Any) -> bool:
    live = {"apiVersion": api, "kind": kind, "metadata": {"name": "it", "generation": generation}, "spec": {}}
    return judge({**live, "status": status}).ready


def true(*types: str) -> list[dict[str, str]]:
    return [{"type": type_, "status": "True"} for type_ in types]


def test_another_operators_word_is_taken_by_the_rule_of_its_kind() -> None:
    assert told("k8s.mariadb.com/v1alpha1", "MariaDB", 2, conditions=true("Ready"))
    assert not told("rabbitmq.com/v1beta1", "Vhost", 2, conditions=true("Ready"), observedGeneration=1)
    assert told("rabbitmq.com/v1beta1", "Vhost", 2, conditions=true("Ready"), observedGeneration=2)
    all_of_them = ("AllReplicasReady", "ClusterAvailable", "ReconcileSuccess")
    assert told("rabbitmq.com/v1beta1", "RabbitmqCluster", 1, conditions=true(*all_of_them), observedGeneration=1)
    assert not told("rabbitmq.com/v1beta1", "RabbitmqCluster", 1, conditions=true(all_of_them[0]), observedGeneration=1)
    assert told(
        "memcached.c5c3.io/v1beta1", "Memcached", 1, conditions=true("Available", "Ready"), observedGeneration=1
    )
    assert not told("memcached.c5c3.io/v1beta1", "Memcached", 1, conditions=true("Available"), observedGeneration=1)
    assert told("cache.cs.sap.com/v1alpha1", "Valkey", 1, state="Ready", observedGeneration=1)
    assert not told("cache.cs.sap.com/v1alpha1", "Valkey", 1, state="Processing", observedGeneration=1)
