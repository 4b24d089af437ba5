"""What the policies of a whole cloud let through, against what its configuration says is used."""

from __future__ import annotations

import base64
import functools
import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark import ParameterSet

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import Object, Release, State
from openstack_operator.planned import Planned
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.memcached.service import plan as memcached
from openstack_operator.testing import context

ROOT = Path(__file__).parent.parent.parent
NODES = "192.0.2.0/24"
KIND, INSTANCE, COMPONENT = "openstack.k8s.io/kind", "app.kubernetes.io/instance", "app.kubernetes.io/component"

SPEC: dict[str, Any] = {
    "networkPolicies": {"enabled": True, "nodes": [NODES]},
    "mariadb": {"replicas": 3},
    "rabbitmq": {"replicas": 3, "perService": True},
    "valkey": {"enabled": True, "replicas": 3, "sentinel": {"enabled": True}},
    "etcd": {"enabled": True, "replicas": 3},
    "ovn": {"replicas": 3, "relay": {"replicas": 2}},
    "ceph": {"enabled": True},
    "cinder": {
        "enabled": True,
        "backends": [{"name": "lvm", "type": "lvm"}, {"name": "ceph", "type": "ceph"}],
    },
}
IN_CATALOG = {
    "placement": "placement",
    "neutron": "neutron",
    "glance": "glance",
    "cinder": "cinder",
    "nova": "nova",
    "keystone_authtoken": "keystone",
}
"""Sections of a configuration that are about an API its program looks up, and the kind of that."""
APIS = {
    ("keystone", "api"): 5000,
    ("glance", "api"): 9292,
    ("placement", "api"): 8778,
    ("neutron", "api"): 9696,
    ("nova", "api"): 8774,
    ("cinder", "api"): 8776,
}
MEMBERS = {
    ("mariadb", "server"): {4444, 4567, 4568, 4569, 4570},
    ("rabbitmq", "server"): {4369, 25672},
    ("etcd", "server"): {2379, 2380, 2382},
    ("ovnnetwork", "nb"): {6643, 6661},
    ("ovnnetwork", "sb"): {6644, 6662},
}
"""What members say to each other."""
PLAIN = {11212: 11211, 5671: 5672, 16641: 6641, 16642: 6642}
"""Ports for TLS, and the others of the same servers: which of them is told depends on the time."""
PORTS = {
    *(
        2379,
        2380,
        2382,
        3300,
        3306,
        4369,
        4444,
        4567,
        4568,
        4569,
        4570,
        5000,
        5671,
        5672,
        6080,
        6379,
        6641,
        6642,
        6643,
        6644,
    ),
    *(6661, 6662, 6789, 6800, 6999, 8774, 8775, 8776, 8778, 9284, 9292, 9696, 11211, 11212, 15671, 15672, 16641, 16642),
    *(25672, 6380, 26379, 26380, 22),
}


@dataclass(frozen=True)
class Pods:
    """Pods of one template."""

    kind: str
    owner: str
    component: str
    on_node: bool
    text: str
    """All they are told: configuration, environment, command."""
    replicas: int = 1

    @property
    def labels(self) -> dict[str, str]:
        return {KIND: self.kind, INSTANCE: self.owner, COMPONENT: self.component}


@dataclass(frozen=True)
class Stranger:
    """Pods of the cloud's namespace that no resource of ours made."""

    labels: Mapping[str, str]
    on_node: bool = False


class Cloud:
    """All objects of a control plane, as they would be in its namespace."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"))
        manifest = {"kind": "OpenStackControlPlane", "metadata": {"name": "cloud"}, "spec": dict(spec)}
        self.planned: list[Planned] = list(paper.render([manifest], "openstack"))
        self.objects = [obj for planned in self.planned for obj in planned.objects]
        policies = [obj for obj in self.objects if obj["kind"] == "NetworkPolicy"]
        self.policies = [obj for obj in policies if obj["spec"]["policyTypes"] == ["Ingress"]]
        self.egress = [obj for obj in policies if obj["spec"]["policyTypes"] == ["Egress"]]
        assert len(self.policies) + len(self.egress) == len(policies)
        self.services = {obj["metadata"]["name"]: obj for obj in self.objects if obj["kind"] == "Service"}
        secrets = [obj for obj in self.objects if obj["kind"] == "Secret"]
        self._texts = {obj["metadata"]["name"]: _decoded(obj) for obj in secrets}
        self.pods = [
            self._pods(template, obj["spec"].get("replicas", 1)) for obj in self.objects for template in _templates(obj)
        ]

    def _pods(self, template: Object, replicas: int) -> Pods:
        labels, spec = template["metadata"]["labels"], template["spec"]
        mounted = [volume["secret"]["secretName"] for volume in spec.get("volumes", ()) if "secret" in volume]
        containers = json.dumps(spec["containers"]).replace(r"\n", "\n")
        text = "\n".join([containers, *(self._texts.get(name, "") for name in mounted)])
        return Pods(labels[KIND], labels[INSTANCE], labels[COMPONENT], spec.get("hostNetwork", False), text, replicas)

    def uses(self, pods: Pods) -> set[tuple[str, str, str, int]]:
        """(kind, owner, component, port) of every server these pods are told of."""
        # Nodes hand the address of the consoles on; browsers use it.
        text = re.sub(r"novncproxy_base_url = \S+", "", pods.text)
        text = re.sub(r"nova_metadata_host = (\S+)\nnova_metadata_port = (\d+)", r"\1:\2", text)
        named = re.findall(r"([a-z0-9-]+)\.openstack\.svc\.cluster\.local:(\d+)", text)
        found = {(*self._behind(service), int(port)) for service, port in named}
        sections = set(re.findall(r"^\[(\w+)\]$", pods.text, re.MULTILINE)) & IN_CATALOG.keys()
        kinds = {IN_CATALOG[section] for section in sections}
        return found | {(kind, kind, "api", APIS[kind, "api"]) for kind in kinds}

    def _behind(self, service: str) -> tuple[str, str, str]:
        selector = self.services[service]["spec"]["selector"]
        return selector[KIND], selector[INSTANCE], selector[COMPONENT]

    def lets(self, who: Pods | Stranger | str, target: Pods, port: int) -> bool:
        """Whether pods, or an address outside, reach a port of other pods."""
        rules = self._rules(target.kind, target.owner, target.component)
        return rules is None or any(_open(rule, port) and _from(rule, who) for rule in rules)

    @functools.cache  # noqa: B019  (lives as long as the tests)
    def _rules(self, *of: str) -> list[Object] | None:
        """What holds for pods; None where no policy is about them."""
        labels: dict[str, str] = dict(zip((KIND, INSTANCE, COMPONENT), of, strict=True))
        applied = [each["spec"] for each in self.policies if _selects(each["spec"]["podSelector"], labels)]
        return [rule for spec in applied for rule in spec["ingress"]] if applied else None


def _decoded(secret: Object) -> str:
    return "\n".join(base64.b64decode(text).decode(errors="replace") for text in secret["data"].values())


def _templates(obj: Object) -> Iterator[Object]:
    if obj["kind"] in {"Deployment", "StatefulSet", "DaemonSet", "Job"}:
        yield obj["spec"]["template"]
    elif obj["kind"] == "CronJob":
        yield obj["spec"]["jobTemplate"]["spec"]["template"]


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels", "matchExpressions"}
    expressions = selector.get("matchExpressions", ())
    assert all(each["operator"] == "Exists" for each in expressions)
    there = all(each["key"] in labels for each in expressions)
    return there and selector.get("matchLabels", {}).items() <= labels.items()


def _open(rule: Object, port: int) -> bool:
    return "ports" not in rule or any(each["port"] == port for each in rule["ports"])


def _from(rule: Object, who: Pods | Stranger | str) -> bool:
    if "from" not in rule:
        return True
    if not isinstance(who, str) and not who.on_node:
        here = [peer for peer in rule["from"] if "podSelector" in peer and "namespaceSelector" not in peer]
        return any(_selects(peer["podSelector"], who.labels) for peer in here)
    address = ipaddress.ip_address(who if isinstance(who, str) else "192.0.2.7")
    return any(address in ipaddress.ip_network(peer["ipBlock"]["cidr"]) for peer in rule["from"] if "ipBlock" in peer)


@pytest.fixture(scope="module")
def cloud() -> Cloud:
    return Cloud(SPEC)


def test_used_ports_are_open(cloud: Cloud) -> None:
    seen = 0
    for who in cloud.pods:
        for kind, owner, component, port in cloud.uses(who):
            wanted = {KIND: kind, INSTANCE: owner, COMPONENT: component}
            target = next(pods for pods in cloud.pods if pods.labels == wanted)
            assert cloud.lets(who, target, port), f"{who.kind}-{who.component} → {kind}-{component}:{port}"
            seen += 1
    assert seen > 100


def test_nothing_else_is(cloud: Cloud) -> None:
    """A service is let in as a whole; the programs on the nodes are known by their addresses, and so all together."""
    checks = 0
    services = {(who.kind, who.owner): set[tuple[str, str, str, int]]() for who in cloud.pods}
    nodes = set[tuple[str, str, str, int]]()
    for who in cloud.pods:
        (nodes if who.on_node else services[who.kind, who.owner]).update(cloud.uses(who))
    for who in cloud.pods:
        for target in cloud.pods:
            if target.on_node:
                continue
            known = nodes if who.on_node else services[who.kind, who.owner]
            for port in PORTS:
                used = any((target.kind, target.owner, target.component, each) in known for each in _same(port))
                what = f"{who.kind}-{who.component} → {target.kind}-{target.component}:{port}"
                checks += 1
                assert used or not cloud.lets(who, target, port) or _by_nature(who, target, port), what
    assert checks


def _same(port: int) -> set[int]:
    """A port, and the other one of the same server."""
    return {port, PLAIN.get(port, port), *(encrypted for encrypted, plain in PLAIN.items() if plain == port)}


def _by_nature(who: Pods, target: Pods, port: int) -> bool:
    """What no configuration names: members, OVN's own programs, Ceph's daemons; APIs and Valkey, open to all pods."""
    place = target.kind, target.component
    if target.kind == "cephstorage" and target.component in {"mon", "mgr", "osd"}:
        # Who logs in speaks to all of them; on nodes, guests do.
        return who.on_node or who.kind in {"cephstorage", "cinder", "glance", "nova"}
    if who.on_node:
        return False
    if place in APIS or target.kind == "valkey" or target.component.endswith("novncproxy"):
        return port in {APIS.get(place), 6379, 6380, 26379, 26380, 6080}
    if place == ("glance", "internal-api"):
        # Open to all pods of the cloud (decision 0061).
        return port == 9292
    same = (who.kind, who.owner) == (target.kind, target.owner)
    if same and target.kind == "ovnnetwork" and PLAIN.get(port, port) in {6641, 6642}:
        return True
    return same and who.component == target.component and port in MEMBERS.get(place, set())


def test_members_reach_each_other(cloud: Cloud) -> None:
    checks = 0
    for (kind, component), ports in MEMBERS.items():
        for pods in (pods for pods in cloud.pods if (pods.kind, pods.component) == (kind, component)):
            checks += 1
            assert all(cloud.lets(pods, pods, port) for port in ports)
    assert checks


def reached_from_outside(cloud: Cloud) -> set[tuple[str, str, int]]:
    """(kind, component, port) of what everybody reaches."""
    return {
        (target.kind, target.component, port)
        for target in cloud.pods
        if not target.on_node
        for port in PORTS
        if cloud.lets("198.51.100.9", target, port)
    }


def test_the_world_reaches_nothing(cloud: Cloud) -> None:
    assert not reached_from_outside(cloud)


@pytest.mark.parametrize(
    "expose",
    [
        {"type": "NodePort", "host": "h"},
        {"type": "LoadBalancer"},
        {"type": "Ingress", "domain": "cloud.example.org"},
        {"type": "Gateway", "domain": "cloud.example.org", "gateway": {"parentRefs": [{"name": "gateway"}]}},
    ],
    ids=lambda expose: expose["type"],
)
def test_exposed_ports_are_open_to_everybody(expose: Mapping[str, Any]) -> None:
    """Controllers of Ingresses and Gateways, of any namespace and on nodes, are among these."""
    exposed = Cloud({"networkPolicies": {"enabled": True, "nodes": [NODES]}, "expose": expose})
    assert reached_from_outside(exposed) == {
        *((kind, component, port) for (kind, component), port in APIS.items() if kind != "cinder"),
        ("nova", "cell1-novncproxy", 6080),
    }


def test_unset_nodes_are_everybody_and_that_is_said() -> None:
    found = Cloud({"networkPolicies": {"enabled": True}})
    assert reached_from_outside(found) == {
        *((kind, "api", APIS[kind, "api"]) for kind in ("keystone", "glance", "placement", "neutron")),
        ("nova", "metadata", 8775),
        ("rabbitmq", "server", 5671),
        ("rabbitmq", "server", 5672),
        ("ovnnetwork", "relay", 16642),
    }
    nova = next(planned for planned in found.planned if planned.id.kind == "Nova")
    assert nova.plan
    step = next(step for step in nova.plan if step.name == "NetworkPolicies")
    assert step.verdict
    assert step.verdict.state is State.READY
    assert "spec.networkPolicies.nodes: unset" in step.verdict.message
    assert "RabbitMQ/rabbitmq" in step.verdict.message
    assert "port 8775 of metadata" in step.verdict.message


def test_the_operator_may_reach_everything_where_its_manifest_puts_it(cloud: Cloud) -> None:
    checks = 0
    manifest = yaml.load_all((ROOT / "deploy" / "operator.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    operator = next(obj for obj in manifest if obj["kind"] == "Deployment")
    labels = operator["spec"]["template"]["metadata"]["labels"]
    namespace = {"kubernetes.io/metadata.name": operator["metadata"]["namespace"]}
    for target in cloud.pods:
        if target.on_node:
            continue
        rules = [
            rule
            for policy in cloud.policies
            if _selects(policy["spec"]["podSelector"], target.labels)
            for rule in policy["spec"]["ingress"]
            if "ports" not in rule
        ]
        checks += 1
        assert any(
            _selects(peer["namespaceSelector"], namespace) and _selects(peer["podSelector"], labels)
            for rule in rules
            for peer in rule["from"]
            if "namespaceSelector" in peer
        )
    assert checks


def test_others_may_be_let_in() -> None:
    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    found = Cloud({"networkPolicies": {"enabled": True, "allowFrom": [prometheus]}})
    shut = [policy for policy in found.policies if COMPONENT not in policy["spec"]["podSelector"]["matchLabels"]]
    assert len(shut) == 9
    assert all(prometheus in policy["spec"]["ingress"][0]["from"] for policy in shut)


def test_pods_are_the_same_with_and_without_policies() -> None:
    """Turning them on or off restarts nothing."""
    without = Cloud({name: value for name, value in SPEC.items() if name != "networkPolicies"})
    assert len(without.policies) < len(Cloud(SPEC).policies)
    templates = [template for obj in without.objects for template in _templates(obj)]
    assert templates == [template for obj in Cloud(SPEC).objects for template in _templates(obj)]


SERVERS = {
    ("mariadb", "server"),
    ("rabbitmq", "server"),
    ("memcached", "server"),
    ("etcd", "server"),
    ("ovnnetwork", "nb"),
    ("ovnnetwork", "sb"),
}
ALWAYS = {kind for kind, _ in SERVERS} | {"valkey"}
STRANGER = {"app": "somebody's"}
SAMPLES = sorted((ROOT / "deploy" / "samples").glob("*.yaml"))


def unasked() -> Iterator[ParameterSet]:
    """Specs of clouds that do not ask for policies."""
    yield pytest.param({name: value for name, value in SPEC.items() if name != "networkPolicies"}, id="everything")
    yield pytest.param({"monitoring": {"enabled": True}, "networkPolicies": {"nodes": [NODES]}}, id="nodes")
    for sample in SAMPLES:
        manifests = yaml.load_all(sample.read_text(encoding="utf-8"), yaml.CSafeLoader)
        for each in manifests:
            if each["kind"] == "OpenStackControlPlane":
                assert "networkPolicies" not in each["spec"]
                yield pytest.param(each["spec"], id=sample.stem)


def stranger_reaches(cloud: Cloud, labels: Mapping[str, str]) -> set[tuple[str, str, int]]:
    """(kind, component, port) of what a pod with these labels in the cloud's namespace reaches of what is shut."""
    who = Stranger(labels)
    return {
        (target.kind, target.component, port)
        for target in cloud.pods
        if target.kind in ALWAYS and not target.on_node
        for port in PORTS
        if cloud.lets(who, target, port)
    }


@pytest.mark.security
@pytest.mark.parametrize("spec", [*unasked()])
def test_servers_are_shut_where_nobody_asks_for_it(spec: Mapping[str, Any]) -> None:
    cloud = Cloud(spec)
    assert {target.kind for target in cloud.pods} & ALWAYS >= {"mariadb", "rabbitmq", "memcached", "ovnnetwork"}
    nodes = bool(spec.get("networkPolicies"))
    # Programs on nodes come from addresses that nobody has said.
    to_everybody = {("rabbitmq", "server", 5671), ("rabbitmq", "server", 5672)} if not nodes else set()
    for kind, component, port in stranger_reaches(cloud, STRANGER) - to_everybody:
        by_password = kind == "valkey" and port in {6379, 6380, 26379, 26380}
        of_nodes = (
            not nodes
            and (kind, component) in _used_from_nodes(cloud)
            and port not in MEMBERS.get((kind, component), set()) - {2379}
        )
        assert by_password or of_nodes, (kind, component, port)
    # What is no server's and has no policy is for everybody, as before.
    api = next(target for target in cloud.pods if (target.kind, target.component) == ("keystone", "api"))
    assert cloud.lets("198.51.100.9", api, 5000)


def _used_from_nodes(cloud: Cloud) -> set[tuple[str, str]]:
    """(kind, component) of the servers that programs on nodes are told of; these do not check tokens."""
    used = {use for who in cloud.pods if who.on_node for use in cloud.uses(who)}
    read = {"relay"} if any(target.component == "relay" for target in cloud.pods) else {"sb"}
    ovn = {("ovnnetwork", each) for each in read}
    return {(kind, component) for kind, _, component, _ in used if kind != "memcached"} | ovn


def with_and_without() -> Iterator[ParameterSet]:
    """The specs of `unasked`, and each of them with policies."""
    for param in unasked():
        (spec,) = param.values
        yield param
        assert isinstance(spec, dict)
        policies = {**spec.get("networkPolicies", {}), "enabled": True}
        yield pytest.param(spec | {"networkPolicies": policies}, id=f"{param.id}-enabled")


@pytest.mark.seconds
@pytest.mark.security
@pytest.mark.parametrize("spec", [*with_and_without()])
def test_a_cloud_reaches_its_servers_with_and_without_policies(spec: Mapping[str, Any]) -> None:
    cloud = Cloud(spec)
    seen = 0
    for who in cloud.pods:
        for kind, owner, component, port in cloud.uses(who):
            wanted = {KIND: kind, INSTANCE: owner, COMPONENT: component}
            target = next((pods for pods in cloud.pods if pods.labels == wanted), None)
            # Cinder's programs on nodes check no tokens, and share their configuration with its API.
            if target is None or (who.on_node and kind == "memcached"):
                continue
            assert cloud.lets(who, target, port), f"{who.kind}-{who.component} → {kind}-{component}:{port}"
            seen += 1
    assert seen > 20
    for (kind, component), ports in MEMBERS.items():
        for pods in (pods for pods in cloud.pods if (pods.kind, pods.component) == (kind, component)):
            if pods.replicas > 1:
                assert all(cloud.lets(pods, pods, port) for port in ports), (kind, component)


def test_a_service_that_is_not_planned_still_reaches_its_servers() -> None:
    """No server waits for a policy of its client's."""
    cloud = Cloud({})
    servers = [policy for policy in cloud.policies if policy["metadata"]["labels"][KIND] in ALWAYS]
    assert servers == cloud.policies


def test_an_operator_in_another_namespace_is_let_in(release: Release) -> None:
    ctx = context(MEMCACHED, release=release, operator_namespace="operators")
    (shut,) = (
        obj
        for obj in memcached(ctx).objects
        if obj["kind"] == "NetworkPolicy" and obj["metadata"]["name"] == "memcached"
    )
    (rule,) = shut["spec"]["ingress"]
    assert rule["from"][0]["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "operators"}}


def test_others_may_be_let_into_servers_where_policies_are_not_asked_for() -> None:
    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    found = Cloud({"networkPolicies": {"allowFrom": [prometheus]}})
    shut = [policy for policy in found.policies if COMPONENT not in policy["spec"]["podSelector"]["matchLabels"]]
    assert {policy["metadata"]["name"] for policy in shut} == {"mariadb", "rabbitmq", "memcached", "ovn"}
    assert all(prometheus in policy["spec"]["ingress"][0]["from"] for policy in shut)


GOLDENS = [
    (f"{path.parent.parent.name}-{path.name.partition('.')[0]}", path)
    for path in sorted((ROOT / "src" / "openstack_operator" / "services").glob("*/cases/*.golden.yaml"))
]
METADATA = (
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "168.63.129.16",
    "100.100.100.200",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:c1::a9fe:a9fe",
    "fe80::a9fe:a9fe",
)
"""Where cloud providers answer their machines: Amazon, Azure, Google, Oracle, Alibaba, OpenStack."""


def reach(policy: Object, port: int, address: str = "", protocol: str = "TCP") -> bool:
    """Whether the pods of a policy reach an address, or, without one, a node that is in no ipBlock."""
    return any(
        _open_ports(rule, port, protocol) and ("to" not in rule or any(_block(peer, address) for peer in rule["to"]))
        for rule in _rules_of(policy)
    )


def _open_ports(rule: Object, port: int, protocol: str) -> bool:
    ports = rule.get("ports")
    return ports is None or any(
        each["protocol"] == protocol and each["port"] <= port <= each.get("endPort", each["port"]) for each in ports
    )


def _block(peer: Object, address: str) -> bool:
    if not address or "ipBlock" not in peer:
        return False
    ip, block = ipaddress.ip_address(address), peer["ipBlock"]
    closed = any(ip in ipaddress.ip_network(network) for network in block.get("except", ()))
    return ip in ipaddress.ip_network(block["cidr"]) and not closed


@pytest.mark.security
@pytest.mark.parametrize("golden", [pytest.param(path, id=name) for name, path in GOLDENS])
def test_egress_of_each_pod_is_in_one_policy_in_all_cases(golden: Path) -> None:
    objects = [obj for obj in yaml.load_all(golden.read_text(encoding="utf-8"), yaml.CSafeLoader) if obj]
    policies = [obj for obj in objects if obj["kind"] == "NetworkPolicy" and "Egress" in obj["spec"]["policyTypes"]]
    for template in (template for obj in objects for template in _templates(obj)):
        labels = template["metadata"]["labels"]
        assert sum(_selects(policy["spec"]["podSelector"], labels) for policy in policies) == 1, labels


@pytest.mark.security
@pytest.mark.parametrize("spec", [*unasked(), pytest.param(SPEC, id="enabled")])
def test_egress_of_each_pod_of_a_cloud_is_in_one_policy(spec: Mapping[str, Any]) -> None:
    cloud = Cloud(spec)
    assert cloud.pods
    for pods in cloud.pods:
        assert sum(_selects(policy["spec"]["podSelector"], pods.labels) for policy in cloud.egress) == 1, pods.labels


@pytest.fixture(scope="module")
def egress(cloud: Cloud) -> Object:
    """The policy of one service, which is the same for all but the pods it selects."""
    assert len({str(policy["spec"]["egress"]) for policy in cloud.egress}) == 1
    return cloud.egress[0]


@pytest.mark.security
def test_pods_reach_no_metadata_service(egress: Object) -> None:
    for address in METADATA:
        assert not any(reach(egress, port, address) for port in (1, 22, 80, 111, 987, 988, 1023)), address
        assert not any(reach(egress, port, address, "UDP") for port in (80, 123, 443, 5353)), address
    # Oracle's machines have their disks there.
    assert not reach(egress, 3260, "169.254.0.2")


def test_pods_reach_everything_else(egress: Object) -> None:
    # A cache of DNS on the node, and Google's resolver.
    for address in ("169.254.20.10", "169.254.25.10", "169.254.169.254", "10.96.0.10", "fd00:ec2::253"):
        assert all(reach(egress, 53, address, protocol) for protocol in ("UDP", "TCP")), address
    servers = ("10.96.0.1", "10.0.0.1", "100.64.0.1", "192.168.1.1", "203.0.113.7", "fd00:10:96::1", "2001:db8::1")
    for address in servers:
        assert all(reach(egress, port, address) for port in (22, 80, 443, 3260, 3306, 30000)), address
        assert all(reach(egress, port, address, "UDP") for port in (123, 514)), address
    assert any({"namespaceSelector": {}} in rule.get("to", ()) and "ports" not in rule for rule in _rules_of(egress))


def _rules_of(policy: Object) -> list[Object]:
    rules: list[Object] = policy["spec"]["egress"]
    return rules


def test_pods_reach_nodes_that_are_in_no_block(egress: Object) -> None:
    """Cilium's are: consoles of guests, Ceph, NodePorts, an Ingress controller, MariaDB and RabbitMQ of others."""
    for port in (53, 443, 3300, 3306, 5671, 5900, 6789, 6800, 7568, 8443, 30000, 32767):
        assert reach(egress, port), port
    assert not reach(egress, 80)


def test_a_users_policy_can_open_the_way_to_a_provider() -> None:
    """As docs/explanation/security.md shows it: policies add up, so that one for the pods that need it is enough."""
    page = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
    own = yaml.load(
        page.partition("<!-- metadata for your own pods -->\n```yaml\n")[2].partition("```")[0], yaml.CSafeLoader
    )
    labels = own["spec"]["podSelector"]["matchLabels"]
    assert own["metadata"]["namespace"] == "openstack"
    templates = [template for obj in Cloud({}).objects for template in _templates(obj)]
    assert any(labels.items() <= template["metadata"]["labels"].items() for template in templates)
    assert reach(own, 80, "169.254.169.254")
    assert not reach(own, 80, "169.254.170.2")
