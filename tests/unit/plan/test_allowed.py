"""Resources of other namespaces that an annotation lets use an object, as plans see them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from itertools import count
from typing import Any, cast

import pytest

from openstack_operator import kube
from openstack_operator.plan import (
    ALLOWED_RESOURCES,
    MOST_ENTRIES,
    allowed_elsewhere,
    allows,
    with_entry,
    without_effect,
)
from openstack_operator.registry import RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.cache.entries import entry
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import SECRET, Catalog, Kind
from openstack_operator.runtime.reconcile.gather import Gathered, Gatherer
from openstack_operator.services.neutron.model import NEUTRON
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan
from openstack_operator.testing import context
from tests.planning import release_of

ENTRY = "openstack/Neutron/neutron"
FAR = {"ovn": {"clusterRef": {"name": "ovn", "namespace": "ovn-system"}}}
PUBLISHED = {"northbound": "ssl:nb:16641", "southbound": "ssl:sb:16642", "clientSecret": "ovn-client-tls"}


@pytest.mark.parametrize(
    ("annotation", "in_namespace", "elsewhere"),
    [
        ("", False, False),
        ("Neutron/neutron", True, False),
        ("Neutron/*", True, False),
        ("*", True, False),
        (ENTRY, False, True),
        ("Nova/nova, openstack/Neutron/*", False, True),
        ("other/Neutron/neutron", False, False),
        ("openstack/Nova/*", False, False),
        ("*/Neutron/neutron", False, False),
        ("openstack/*/neutron", False, False),
        ("openstack/*", False, False),
        ("openstack/neutron/neutron", False, False),
    ],
)
def test_an_entry_names_a_resource(annotation: str, *, in_namespace: bool, elsewhere: bool) -> None:
    annotations = {ALLOWED_RESOURCES: annotation}
    assert allows(annotations, "Neutron", "neutron") == in_namespace
    assert allows(annotations, "Neutron", "neutron", namespace="openstack") == elsewhere
    opened = [(user.namespace, user.kind) for user in allowed_elsewhere(annotations, ["Neutron"])]
    assert (("openstack", "Neutron") in opened) == elsewhere


def test_a_further_entry_keeps_the_others() -> None:
    assert with_entry({ALLOWED_RESOURCES: "Nova/nova"}, "Neutron", "neutron", namespace="openstack") == (
        f"{ALLOWED_RESOURCES}=Nova/nova,{ENTRY}"
    )


class Namespaces:
    """A Neutron in `openstack`, and what there is in `ovn-system`."""

    def __init__(self) -> None:
        self.world = World(cast("Client", None), Catalog(list(RESOURCES)), [], lambda change: None)
        self.versions = count(1)
        self.neutron = self.put(Kind.of(NEUTRON), "neutron", "openstack", spec=FAR)
        for name in ("mariadb", "rabbitmq", "memcached", "keystone"):
            kind = next(each for each in RESOURCES if each.kind.lower() == name)
            self.put(Kind.of(kind), name, "openstack", status={"published": {"host": "x"}})

    def put(self, kind: Kind, name: str, namespace: str, **fields: Any) -> Any:
        meta = {"name": name, "namespace": namespace, "uid": f"{kind.handle}/{namespace}/{name}", "generation": 1}
        meta |= {"resourceVersion": str(next(self.versions)), **fields.pop("meta", {})}
        live = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": {}, **fields}
        cached = entry(live, kind)
        self.world.stores[kind].put(cached)
        return cached

    def ovn(self, annotation: str, **published: str) -> None:
        meta = {"annotations": {ALLOWED_RESOURCES: annotation}}
        self.put(Kind.of(OVN_NETWORK), "ovn", "ovn-system", meta=meta, status={"published": {**PUBLISHED, **published}})

    def secret(self, name: str, labels: Mapping[str, str]) -> None:
        data = {"tls.key": base64.b64encode(b"key").decode()}
        self.put(SECRET, name, "ovn-system", meta={"labels": dict(labels)}, data=data)

    async def gathered(self) -> Gathered:
        gatherer = Gatherer(self.world, ReleaseFiles(), services=SERVICES)
        return await gatherer.gather(NEUTRON, self.neutron, NEUTRON.spec.model_validate(FAR))

    async def message(self) -> str:
        missing = (await self.gathered()).missing
        return missing.message if missing else ""


OWN = {"app.kubernetes.io/managed-by": kube.MANAGED_BY, kube.KIND: "ovnnetwork", kube.INSTANCE: "ovn"}


@pytest.fixture
def namespaces() -> Namespaces:
    return Namespaces()


async def test_a_message_does_not_tell_what_another_namespace_has(namespaces: Namespaces) -> None:
    absent = await namespaces.message()
    assert f"namespace 'ovn-system' has no OVNNetwork 'ovn' that allows {ENTRY}" in absent
    assert absent.endswith(f"to the annotation {ALLOWED_RESOURCES}")
    namespaces.ovn("Neutron/neutron, openstack/Nova/nova, *")
    assert await namespaces.message() == absent


@pytest.mark.parametrize("entry", ["a-/Neutron/neutron", f"{'a' * 64}/Neutron/b", f"a/N{'n' * 63}/b", "a/Neutron/b-"])
def test_an_entry_that_is_no_label_opens_nothing(entry: str) -> None:
    """Kubernetes refuses a policy with such a value, and the OVN would have no policies at all."""
    annotations = {ALLOWED_RESOURCES: entry}
    assert list(allowed_elsewhere(annotations, ["Neutron", f"N{'n' * 63}"])) == []
    assert without_effect(annotations, ["Neutron"]) == [entry]


def test_an_annotation_of_any_size_opens_to_a_bounded_number() -> None:
    annotations = {ALLOWED_RESOURCES: ",".join(["a/Neutron/*"] * 1000 + [f"a/Neutron/n{n}" for n in range(1000)])}
    assert len(list(allowed_elsewhere(annotations, ["Neutron"]))) == MOST_ENTRIES
    assert allows(annotations, "Neutron", "n1", namespace="a")
    late = {ALLOWED_RESOURCES: ",".join(f"b/Neutron/n{n}" for n in range(1000))}
    assert not allows(late, "Neutron", "n999", namespace="b")
    wrong = {ALLOWED_RESOURCES: ",".join(f"{'x' * 300}{n}" for n in range(50))}
    made = plan(context(OVN_NETWORK, release=release_of("debian"), annotations=wrong))
    [verdict] = [step.verdict for step in made if step.name == "NetworkPolicies" and step.verdict]
    assert "and 45 more: no effect" in verdict.message
    assert len(verdict.message) < 1000


async def test_a_namespace_that_the_operator_does_not_serve_is_named(namespaces: Namespaces) -> None:
    """It has no objects of it, whatever there are."""
    namespaces.world.__dict__["_namespaces"] = frozenset({"openstack"})
    assert "the operator does not serve namespace 'ovn-system'" in await namespaces.message()


async def test_an_allowed_reference_is_resolved_across_namespaces(namespaces: Namespaces) -> None:
    namespaces.ovn(ENTRY)
    namespaces.secret("ovn-client-tls", OWN)
    gathered = await namespaces.gathered()
    [ovn] = [referent for ref, referent in gathered.context.refs.items() if ref.kind == "OVNNetwork"]
    assert (ovn.namespace, ovn["northbound"]) == ("ovn-system", "ssl:nb:16641")
    assert gathered.context.secrets["ovn-system/ovn-client-tls"] == {"tls.key": "key"}
    assert not gathered.missing


async def test_a_status_cannot_name_any_secret(namespaces: Namespaces) -> None:
    """Who may write the status of the OVNNetwork may not be allowed to read Secrets of its namespace."""
    namespaces.ovn(ENTRY, clientSecret="root-password")
    namespaces.secret("root-password", {**OWN, kube.KIND: "mariadb"})
    gathered = await namespaces.gathered()
    assert gathered.missing
    assert "waiting for Secret/root-password of OVNNetwork/ovn" in gathered.missing.message
    assert not any("root-password" in name for name in gathered.context.secrets)
    # Nor another one of the OVN's.
    namespaces.ovn(ENTRY, clientSecret="ovn-relay-tls")
    namespaces.secret("ovn-relay-tls", OWN)
    assert "waiting for Secret/ovn-relay-tls" in await namespaces.message()


def test_databases_are_open_to_what_they_allow() -> None:
    annotations = {ALLOWED_RESOURCES: f"{ENTRY},b/Neutron/*,openstack/Keystone/keystone"}
    made = plan(context(OVN_NETWORK, release=release_of("debian"), annotations=annotations))
    policies = {obj["metadata"]["name"]: obj["spec"] for obj in made.objects if obj["kind"] == "NetworkPolicy"}
    [rule] = policies["ovnnetwork-nb-allowed"]["ingress"]
    assert [each["port"] for each in rule["ports"]] == [6641, 16641]
    assert [
        (each["namespaceSelector"]["matchLabels"], each["podSelector"]["matchLabels"]) for each in rule["from"]
    ] == [
        ({"kubernetes.io/metadata.name": "openstack"}, kube.pods_of("Neutron", "neutron")),
        ({"kubernetes.io/metadata.name": "b"}, {kube.KIND: "neutron"}),
    ]
    [verdict] = [step.verdict for step in made if step.name == "NetworkPolicies" and step.verdict]
    assert "openstack/Keystone/keystone: no effect; write NAMESPACE/Neutron/NAME" in verdict.message
    assert "ovnnetwork-nb-allowed" not in str(plan(context(OVN_NETWORK, release=release_of("debian"))).objects)
