"""RabbitMQ: what must hold besides its goldens."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509

from openstack_operator import kube
from openstack_operator.plan import InstalledKinds, Object, Plan, Release, SpecError, UnsupportedError, key
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as plan_pki
from openstack_operator.services.rabbitmq.config import rabbitmq_conf
from openstack_operator.services.rabbitmq.model import RABBITMQ
from openstack_operator.services.rabbitmq.providers import KIND
from openstack_operator.services.rabbitmq.service import plan
from openstack_operator.testing import context


def planned(release: Release, spec: dict[str, Any] | None = None, **changes: Any) -> dict[tuple[str, str], Object]:
    return {key(obj): obj for obj in plan(context(RABBITMQ, spec, release=release, **changes)).objects}


def settings(text: str) -> dict[str, str]:
    return dict(line.split(" = ", 1) for line in text.splitlines())


def test_the_contract(release: Release) -> None:
    outcome = plan(context(RABBITMQ, release=release)).outcome
    assert outcome.published == {
        "host": "rabbitmq.openstack.svc.cluster.local",
        "port": "5672",
        "managementURL": "http://rabbitmq.openstack.svc.cluster.local:15672",
        "adminSecret": "rabbitmq-credentials",
    }
    assert set(kube.secret_data(planned(release)["Secret", "rabbitmq-credentials"])) == {
        "default_user",
        "default_pass",
        "erlang-cookie",
    }


def test_the_node_is_named_after_its_pod_behind_the_members_service(release: Release) -> None:
    objects = planned(release)
    server = objects["StatefulSet", "rabbitmq-server"]["spec"]
    env = server["template"]["spec"]["containers"][0]["env"]
    values = {entry["name"]: entry.get("value") for entry in env}
    assert values["RABBITMQ_NODENAME"] == "rabbit@$(POD_NAME).rabbitmq-members.openstack.svc.cluster.local"
    # Kubernetes expands only variables that come before.
    assert list(values).index("POD_NAME") < list(values).index("RABBITMQ_NODENAME")
    members = objects["Service", server["serviceName"]]["spec"]
    assert members["publishNotReadyAddresses"], "members must find each other before they can be ready"


def test_a_member_is_alive_while_it_waits_for_others(release: Release) -> None:
    main = planned(release)["StatefulSet", "rabbitmq-server"]["spec"]["template"]["spec"]["containers"][0]
    assert main["readinessProbe"]["tcpSocket"]["port"] == 5672
    assert main["livenessProbe"]["tcpSocket"]["port"] == 25672


def test_of_several_members_one_that_is_frozen_is_not_ready(release: Release) -> None:
    # The kernel accepts its connections; only the program answers a request.
    main = planned(release, {"replicas": 3})["StatefulSet", "rabbitmq-server"]["spec"]["template"]["spec"]["containers"]
    probe = main[0]["readinessProbe"]
    assert probe["httpGet"] == {"path": "/", "port": 15672}
    assert probe["periodSeconds"] * probe["failureThreshold"] <= 6
    assert main[0]["livenessProbe"]["tcpSocket"]["port"] == 25672, "one that waits for others must not be killed"


def test_account_and_cookie_belong_to_the_volume(release: Release) -> None:
    kept = planned(release)["Secret", "rabbitmq-credentials"]
    assert kept["metadata"]["annotations"][kube.RETAIN] == "true"
    gone = planned(release, {"retention": "Delete"})["Secret", "rabbitmq-credentials"]
    assert gone["metadata"]["annotations"][kube.IRREPLACEABLE] == "true"
    assert kube.RETAIN not in gone["metadata"]["annotations"]


def test_members_know_each_other_by_the_names_their_data_knows(release: Release) -> None:
    objects = planned(release, {"replicas": 3})
    known = settings(kube.secret_data(objects["Secret", "rabbitmq-config"])["rabbitmq.conf"])
    hosts = [f"rabbitmq-server-{n}.rabbitmq-members.openstack.svc.cluster.local" for n in range(3)]
    nodes = [known[f"cluster_formation.classic_config.nodes.{n}"] for n in (1, 2, 3)]
    assert nodes == [f"rabbit@{host}" for host in hosts]
    assert known["cluster_partition_handling"] == "pause_minority"
    assert known["quorum_queue.continuous_membership_reconciliation.target_group_size"] == "3"
    server = objects["StatefulSet", "rabbitmq-server"]["spec"]
    assert server["podManagementPolicy"] == "Parallel", "members that wait for one another must all be started"
    env = {entry["name"]: entry.get("value") for entry in server["template"]["spec"]["containers"][0]["env"]}
    assert env["RABBITMQ_MEMBERS"] == " ".join(hosts)


def test_a_member_never_gives_up_the_search_for_the_others() -> None:
    # One that did would serve clients as a cluster of its own; RabbitMQ 4.0 knows no word for "for ever".
    known = settings(rabbitmq_conf({}, ("a", "b", "c")))
    assert int(known["cluster_formation.discovery_retry_limit"]) > 86400
    assert "cluster_formation.discovery_retry_limit" not in settings(rabbitmq_conf({}, ("a",)))


def test_only_a_member_of_a_cluster_looks_for_others_before_it_starts(release: Release) -> None:
    def command(spec: dict[str, Any]) -> list[str]:
        server = planned(release, spec)["StatefulSet", "rabbitmq-server"]["spec"]
        return server["template"]["spec"]["containers"][0]["command"]

    assert command({}) == ["rabbitmq-start"]
    shell, flags, script, *rest = command({"replicas": 3})
    assert (shell, flags, rest) == ("sh", "-ec", ["start.sh", "rabbitmq-start"])
    assert "epmd" in script


def test_only_a_cluster_decides_about_partitions(release: Release) -> None:
    user = {"cluster_partition_handling": "autoheal"}
    assert settings(rabbitmq_conf(user, ("a",)))["cluster_partition_handling"] == "autoheal"
    with pytest.raises(SpecError, match=r"^spec\.config\.cluster_partition_handling: the operator sets"):
        planned(release, {"replicas": 3, "config": user})


def test_clients_reach_one_address_with_ready_members_behind_it(release: Release) -> None:
    alone = plan(context(RABBITMQ, release=release)).outcome
    cluster = plan(context(RABBITMQ, {"replicas": 3}, release=release))
    assert cluster.outcome.published == {**alone.published, "clustered": "true"}
    address = {key(obj): obj for obj in cluster.objects}["Service", "rabbitmq"]["spec"]
    assert "publishNotReadyAddresses" not in address
    assert address["type"] == "ClusterIP"


def test_members_keep_apart_unless_the_user_places_them(release: Release) -> None:
    def affinity(spec: dict[str, Any]) -> Any:
        return planned(release, spec)["StatefulSet", "rabbitmq-server"]["spec"]["template"]["spec"].get("affinity")

    assert affinity({}) is None
    (term,) = affinity({"replicas": 3})["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    own: dict[str, Any] = {"podAntiAffinity": {}}
    assert affinity({"replicas": 3, "affinity": own}) == own


def test_configuration_is_three_layers() -> None:
    lines = rabbitmq_conf({"heartbeat": 30, "disk_free_limit.absolute": "1GB", "log.file.rotation.compress": True})
    known = settings(lines)
    assert known["heartbeat"] == "30"
    assert known["disk_free_limit.absolute"] == "1GB"
    assert known["log.file.rotation.compress"] == "true"
    assert known["listeners.tcp.default"] == "5672"


@pytest.mark.parametrize("name", ["listeners.tcp.default", "default_pass", "cluster_formation.classic_config.nodes.1"])
def test_wired_keys_are_refused(name: str) -> None:
    with pytest.raises(SpecError, match=f"^spec.config.{name}: the operator sets {name} itself"):
        rabbitmq_conf({name: "x"})


@pytest.mark.parametrize(
    "user", [{"x": "1\ndefault_user = me"}, {"x": "1\rdefault_user = me"}, {"x\ny": 1}, {"a = b": 1}, {"x": {"y": 1}}]
)
def test_an_option_of_several_lines_is_refused(user: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"spec\.config\..*: expected a key of rabbitmq\.conf"):
        rabbitmq_conf(user)


def outside(release: Release, spec: dict[str, Any] | None = None, **changes: Any) -> Plan:
    """The plan of a broker with TLS and a port for clients outside, which Kubernetes has assigned."""
    by = plan_pki(context(PKI, release=release))
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in by.objects if obj["kind"] == "Secret"}
    service = {"spec": {"ports": [{"port": 5671, "nodePort": 30671}]}}
    common = {"tls": {"pkiRef": {"name": "pki"}}, "remoteAccess": {"host": "192.0.2.10"}}
    given: dict[str, Any] = {"published": {"PKI": by.outcome.published}, "secrets": secrets}
    given["children"] = {("Service", "rabbitmq-remote"): service}
    return plan(context(RABBITMQ, {**common, **(spec or {})}, release=release, **given, **changes))


@pytest.mark.security
def test_clients_outside_reach_the_port_with_tls_alone(release: Release) -> None:
    made = outside(release)
    objects = {key(obj): obj for obj in made.objects}
    service = objects["Service", "rabbitmq-remote"]["spec"]
    assert (service["type"], [each["port"] for each in service["ports"]]) == ("NodePort", [5671])
    open_ports = [
        [each["port"] for each in rule["ports"]]
        for rule in objects["NetworkPolicy", "rabbitmq-server"]["spec"]["ingress"]
        if "from" not in rule
    ]
    assert open_ports == [[5671]]
    certificate = x509.load_pem_x509_certificate(
        kube.secret_data(objects["Secret", "rabbitmq-tls"])["tls.crt"].encode()
    )
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ip_address("192.0.2.10") in names.get_values_for_type(x509.IPAddress)
    assert made.outcome.published["remoteServer"] == "192.0.2.10:30671"


@pytest.mark.security
def test_without_tls_no_client_outside_reaches_it(release: Release) -> None:
    with pytest.raises(SpecError, match=r"^spec\.tls: clients outside the cluster need TLS"):
        planned(release, {"remoteAccess": {"host": "192.0.2.10"}})


def test_a_broker_of_another_operator_has_no_access_from_outside(release: Release) -> None:
    spec = {"provider": "rabbitmq-cluster-operator"}
    with pytest.raises(UnsupportedError, match=r"^spec\.remoteAccess: only provider builtin supports it"):
        outside(release, spec, installed_kinds=InstalledKinds([KIND]))
