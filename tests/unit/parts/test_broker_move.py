"""A service moves from one broker to another, while pods come and go in any order."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.api import SecretKeyRef
from openstack_operator.parts.brokers import ACCOUNT_MADE, VHOST, has_two_brokers, password_text
from openstack_operator.parts.connect.broker_copies import BROKER
from openstack_operator.parts.secrets.rotation import read_by
from openstack_operator.plan import (
    CLIENTS,
    HOSTS,
    SERVERS,
    Context,
    Key,
    Object,
    Plan,
    Release,
    ResolvedRef,
    SpecError,
    Step,
    Verdict,
    carry_out,
    conditions,
    key,
)
from openstack_operator.registry import SERVICES
from openstack_operator.testing import context, granted_status
from tests.planning import copied
from tests.searches import seeds
from tests.unit.services.test_nova import PUBLISHED, SECRETS

BLUE, GREEN = "rabbitmq", "green"
CINDER = {"backends": [{"name": "files", "type": "nfs", "nfs": {"shares": ["files.example:/volumes"]}}]}
OVN = {"northbound": "tcp:ovn:6641", "southbound": "tcp:ovn:6642"}
SPECS: Mapping[str, Mapping[str, Any]] = {
    "Nova": {"cells": [{"name": "cell1"}, {"name": "cell2"}]},
    "Cinder": CINDER,
    "Heat": {},
    "Barbican": {},
    "Designate": {},
    "Neutron": {},
}
CONTRACTS = {
    **PUBLISHED,
    "Glance": {"internalURL": "http://glance-api:9292", "publicURL": "http://glance-api:9292"},
    "OVNNetwork": OVN,
}


@dataclass
class Pod:
    """A pod, and the broker whose address it read when it started; empty for none."""

    workload: Key
    manifest: Object
    broker: str


@dataclass
class World:
    """A service with the objects and pods that it has; Kubernetes works when the test says so."""

    kind: str
    release: Release
    broker: str = BLUE
    children: dict[Key, Object] = field(default_factory=dict[Key, Object])
    pods: dict[str, Pod] = field(default_factory=dict[str, Pod])
    conditions: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    turns: dict[str, int] = field(default_factory=dict[str, int])
    """Of workloads that read an address of a broker, by name."""
    copied: set[str] = field(default_factory=set[str])
    backlog: bool = False
    """True while messages wait in virtual hosts that clients have left."""
    unmade: bool = False
    """True while no account has the condition that it exists, as after an upgrade of the operator."""
    _made: int = 0

    def context(self) -> Context[Any]:
        record = next(each for each in SERVICES if each.resource.kind == self.kind)
        spec = {**SPECS[self.kind], "messaging": {"rabbitmqRef": {"name": self.broker}}}
        made = context(record.resource, spec, release=self.release, published=CONTRACTS, secrets=SECRETS)
        refs = {
            ref: ResolvedRef({**resolved.published, "host": ref.name}) if ref.kind == "RabbitMQ" else resolved
            for ref, resolved in made.refs.items()
        }
        changed = replace(made, refs=refs, children=copied(self.children))
        observes: Any = record.observes
        pods = [pod.manifest for pod in self.pods.values()]
        return replace(changed, facts={"pods": pods, "secrets": []}) if observes.needed(changed) else changed

    def plan(self) -> Plan:
        return next(each for each in SERVICES if each.resource.kind == self.kind).make_plan(self.context())

    def reconcile(self) -> Plan:
        """Make one pass, as an operator that has just started does."""
        plan = self.plan()
        verdicts = asyncio.run(carry_out(plan, self._apply, kube.judge, self._is_present))
        kept = {key(obj) for obj in plan.objects}
        self.children = {name: live for name, live in self.children.items() if name in kept}
        self.conditions = conditions(plan, verdicts)
        for step in plan:
            for obj in step.workloads:
                if self._broker(obj) and BROKER not in obj["metadata"]["labels"]:
                    self.turns[obj["metadata"]["name"]] = step.turn
                    self.copied |= {obj["metadata"]["name"]} if step.copied else set()
        return plan

    async def _apply(self, step: Step) -> Sequence[Object]:
        return [self._write(copied(obj)) for obj in step.objects]

    def _write(self, obj: Object) -> Object:
        before = self.children.get(key(obj))
        is_changed = before is None or before.get("spec") != obj.get("spec")
        generation = (before["metadata"]["generation"] if before else 0) + is_changed
        obj["metadata"] = {**obj["metadata"], "generation": generation}
        obj["status"] = before.get("status", {}) if before else {}
        self.children[key(obj)] = obj
        return obj

    def _is_present(self, step: Step) -> bool:
        return all(key(obj) in self.children for obj in step.workloads or step.objects)

    def _broker(self, obj: Object) -> str:
        """Return the broker in the configuration that a pod of this workload reads now."""
        for name in read_by(obj["spec"]["template"]):
            text = "\n".join(kube.secret_data(self.children.get(("Secret", name))).values())
            if match := re.search(r"transport_url = rabbit://[^@]*@(\w+):", text):
                return match[1]
        return ""

    def to_do(self) -> Iterator[tuple[str, Key, str]]:
        """Yield what Kubernetes has to do: (`start`, workload, '') or (`end`, workload, pod)."""
        for name, live in self.children.items():
            if name[0] in {"Deployment", "StatefulSet", "DaemonSet"}:
                old = [pod for pod, each in self.pods.items() if each.workload == name and not self._is_new(each, live)]
                new = [pod for pod, each in self.pods.items() if each.workload == name and self._is_new(each, live)]
                yield from [("start", name, "")] if not new else [("end", name, pod) for pod in old]
        for pod, each in self.pods.items():
            if each.workload not in self.children:
                yield "end", each.workload, pod

    def _is_new(self, pod: Pod, live: Object) -> bool:
        return pod.manifest["spec"] == live["spec"]["template"]["spec"] and (
            pod.manifest["metadata"]["annotations"] == live["spec"]["template"]["metadata"].get("annotations", {})
        )

    def work(self, chance: random.Random | None = None) -> bool:
        """Let Kubernetes do one thing; all of it, in any order, without a chance. Return False if nothing is to do."""
        while actions := list(self.to_do()):
            self._do(*(chance.choice(actions) if chance else actions[0]))
            if chance:
                break
        self._observe()
        return bool(actions)

    def _do(self, action: str, workload: Key, pod: str) -> None:
        if action == "end":
            del self.pods[pod]
            return
        live, self._made = self.children[workload], self._made + 1
        template = live["spec"]["template"]
        name = f"{workload[1]}-{self._made}"
        metadata = {"annotations": {}, **template["metadata"], "name": name}
        manifest = {"metadata": metadata, "spec": template["spec"], "status": {"phase": "Running"}}
        self.pods[name] = Pod(workload, manifest, self._broker(live))

    def _observe(self) -> None:
        for name, live in self.children.items():
            pods = [each for each in self.pods.values() if each.workload == name]
            new = [each for each in pods if self._is_new(each, live)]
            live["status"] = granted_status(live, live["metadata"]["generation"])
            if name[0] == VHOST and not self.unmade:
                live["status"]["conditions"].append(made(live))
            if self.backlog and live.get("spec", {}).get("drains"):
                live["status"]["conditions"][0] |= {"status": "False", "message": "2 messages wait"}
            if name[0] == "Service":
                live["spec"].setdefault("clusterIP", "10.96.0.1")
            if name[0] == "Deployment":
                live["status"] |= {"replicas": len(pods), "updatedReplicas": len(new), "readyReplicas": len(pods)}
            if (name[0] == "StatefulSet" and len(new) < len(pods)) or not new:
                live["status"] |= {"currentRevision": "old", "updateRevision": "new", "readyReplicas": len(new)}
            if name[0] == "DaemonSet":
                live["status"] |= {"updatedNumberScheduled": len(new)}

    def settle(self) -> None:
        """Make passes until nothing changes."""
        for _ in range(40):
            self.reconcile()
            if not self.work() and self.conditions["Ready"].ready:
                return
        raise AssertionError(self.conditions["Ready"].message)

    def brokers(self) -> dict[str, set[str]]:
        """Return the brokers that pods use, by the name of the program, copies under the name of their original."""
        used: dict[str, set[str]] = {}
        for pod in self.pods.values():
            label = pod.manifest["metadata"]["labels"].get(BROKER)
            used.setdefault(pod.workload[1].removesuffix(f"-on-{label}"), set()).add(pod.broker)
        return {name: brokers for name, brokers in used.items() if brokers != {""}}

    def check(self, *, is_taken_back: bool = False) -> None:
        """Fail unless what a pod sends is answered, and its account exists."""
        used = self.brokers()
        of_clients = {each for name, brokers in used.items() if self.turns.get(name) == CLIENTS for each in brokers}
        for name in self.copied:
            missing = of_clients - used.get(name, of_clients)
            waits = (is_taken_back or self.turns[name] != SERVERS) and missing == {self.broker}
            assert not missing or waits, f"nobody answers for {name} at {missing}: {used}"
        accounts = {
            live["spec"]["rabbitmqRef"]["name"] for (kind, _), live in self.children.items() if kind == "RabbitMQVhost"
        }
        assert {each for brokers in used.values() for each in brokers} <= accounts, "without an account"

    def check_hosts(self) -> None:
        """Fail if a program of a host has moved before the clients that call it."""
        used = self.brokers()
        of_clients = {each for name, brokers in used.items() if self.turns.get(name) == CLIENTS for each in brokers}
        of_hosts = [brokers for name, brokers in used.items() if self.turns.get(name) == HOSTS]
        if any(self.broker in brokers for brokers in of_hosts):
            assert of_clients <= {self.broker}, f"a host moved before its clients: {used}"


@pytest.mark.parametrize("kind", SPECS)
def test_a_service_moves(kind: str, release: Release) -> None:
    world = World(kind, release)
    world.settle()
    before = set(world.children)
    assert {each for brokers in world.brokers().values() for each in brokers} == {BLUE}
    world.broker = GREEN
    world.settle()
    assert {each for brokers in world.brokers().values() for each in brokers} == {GREEN}
    assert not [name for name, live in world.children.items() if BROKER in live["metadata"]["labels"]]
    renamed = {(kind, name.partition("--on-")[0]) for kind, name in world.children}
    assert {name for name in renamed if name[0] != "Job"} == {name for name in before if name[0] != "Job"}


def made(live: Object) -> Object:
    """The condition of an account that exists on its broker."""
    text = password_text(SecretKeyRef(**live["spec"]["passwordSecretRef"]))
    return {"type": ACCOUNT_MADE, "status": "True", "reason": "Ready", "message": text}


def account(name: str = "forged", broker: str = "ghost", user: str = "mine", **of: str) -> Object:
    """A RabbitMQVhost that somebody wrote with the labels of Nova."""
    secret = {"name": of.get("secret", "nova-credentials"), "key": of.get("key", "messaging")}
    return {
        "apiVersion": "openstack.k8s.io/v1alpha1",
        "kind": VHOST,
        "metadata": {"name": name, "namespace": "openstack", "generation": 2, "labels": kube.pods_of("Nova", "nova")},
        "spec": {"rabbitmqRef": {"name": broker}, "vhost": "nova", "user": user, "passwordSecretRef": secret},
        "status": {},
    }


READY_BEFORE = {"type": "Ready", "status": "True", "reason": "Ready", "observedGeneration": 1}
FORGED = {
    "a new one": [account()],
    "two": [account("a", "ghost"), account("b", "ghoul")],
    "with a password of its own": [{**account(secret="own"), "status": {"conditions": [made(account(secret="own"))]}}],
    "whose password is another one now": [
        {**account(), "status": {"conditions": [READY_BEFORE, made(account(secret="own"))]}}
    ],
    "that says it drains": [{**account(), "spec": {**account()["spec"], "drains": True}}],
    "with the name of another broker": [account("nova-messaging--on-rabbitmq", BLUE)],
    "with the name of a second account": [account("nova-messaging--b")],
}


@pytest.mark.security
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_an_account_with_forged_service_labels_is_no_move(forged: list[Object], release: Release) -> None:
    """In the plan of the service it could read all Secrets of that, and take names on brokers from other services."""
    world = World("Nova", release)
    world.settle()
    # A roll-out, during which a move would wait.
    world.children["Deployment", "nova-api"]["status"]["readyReplicas"] = 0
    before = copied([obj for obj in world.plan().objects if obj["kind"] == VHOST])
    for each in forged:
        world.children[VHOST, each["metadata"]["name"]] = copied(each)
    after = world.plan()
    assert [obj for obj in after.objects if obj["kind"] == VHOST] == before
    assert not [obj for obj in after.objects if BROKER in obj["metadata"]["labels"]]


def moves(world: World, chance: random.Random, passes: int = 3000, *, is_taken_back: bool = False) -> bool:
    """Let the operator and Kubernetes work in any order. Return False if they are not done after that many passes."""
    for _ in range(passes):
        world.reconcile()
        if not world.work(chance) and world.conditions["Ready"].ready:
            return True
        world.check(is_taken_back=is_taken_back)
        if not is_taken_back:
            world.check_hosts()
    return False


@pytest.mark.seconds
@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.search
@seeds(4)
def test_requests_are_answered_all_the_time(kind: str, seed: int, release: Release) -> None:
    world = World(kind, release)
    world.settle()
    world.broker = GREEN
    assert moves(world, random.Random(seed))
    assert {each for brokers in world.brokers().values() for each in brokers} == {GREEN}


@pytest.mark.seconds
@pytest.mark.parametrize("kind", ["Nova", "Cinder", "Heat"])
@pytest.mark.search
@seeds(4)
def test_a_move_may_be_taken_back_at_any_time(kind: str, seed: int, release: Release) -> None:
    chance = random.Random(seed)
    world = World(kind, release)
    world.settle()
    before = set(world.children)
    for broker in (GREEN, BLUE, GREEN, BLUE):
        world.broker = broker
        moves(world, chance, chance.randrange(1, 60), is_taken_back=True)
    assert moves(world, chance, is_taken_back=True)
    assert {each for brokers in world.brokers().values() for each in brokers} == {BLUE}
    assert set(world.children) == before


def test_a_third_broker_has_to_wait(release: Release) -> None:
    world = World("Heat", release)
    world.settle()
    world.broker = GREEN
    world.reconcile()
    world.work()
    world.broker = "red"
    with pytest.raises(SpecError, match=r"spec.messaging.rabbitmqRef: the service moves between green and rabbitmq"):
        world.plan()


def test_copies_stay_until_nothing_waits_for_them(release: Release) -> None:
    world = World("Heat", release)
    world.settle()
    world.broker = GREEN
    world.backlog = True
    for _ in range(20):
        world.reconcile()
        world.work()
    assert world.brokers()["heat-engine"] == {BLUE, GREEN}
    assert world.brokers()["heat-api"] == {GREEN}
    assert "waits for Deployment/heat-engine-on-rabbitmq" in world.conditions["MessagingReady"].message
    world.backlog = False
    world.settle()
    assert world.brokers()["heat-engine"] == {GREEN}


def test_accounts_of_the_topology_operator_do_not_move(release: Release) -> None:
    world = World("Heat", release, broker=GREEN)
    vhost = {"metadata": {"name": "heat-messaging"}, "spec": {"rabbitmqClusterReference": {"name": BLUE}}}
    world.children["Vhost.rabbitmq.com", "heat-messaging"] = vhost
    with pytest.raises(SpecError, match=r"messaging topology operator manages accounts on RabbitMQ/rabbitmq"):
        world.plan()


def test_an_account_that_is_not_made_yet_does_not_look_for_messages(release: Release) -> None:
    """With `drains` its spec is another one, so that Ready does not count, and it would be no part of the move."""
    world = World("Nova", release)
    world.settle()
    world.broker = GREEN
    world.unmade = True
    for _ in range(40):
        world.reconcile()
        world.work()
    old = [
        live
        for (kind, _), live in world.children.items()
        if kind == VHOST and live["spec"]["rabbitmqRef"]["name"] == BLUE
    ]
    assert old
    assert not any(live["spec"].get("drains") for live in old)
    world.unmade = False
    world.settle()
    assert {each for brokers in world.brokers().values() for each in brokers} == {GREEN}


def test_an_account_whose_key_a_rotation_changed_moves_all_the_same(release: Release) -> None:
    """Its condition has the key of before until the operator reaches the broker again."""
    world = World("Nova", release)
    world.settle()
    for (kind, _), live in world.children.items():
        if kind == VHOST:
            live["spec"]["passwordSecretRef"]["key"] += ".a"
            live["metadata"]["generation"] += 1
    world.broker = GREEN
    planned = {obj["spec"]["rabbitmqRef"]["name"] for obj in world.plan().objects if obj["kind"] == VHOST}
    assert planned == {BLUE, GREEN}


def test_passwords_wait_for_an_account_that_is_not_made_yet(release: Release) -> None:
    world = World("Nova", release)
    world.settle()
    assert not has_two_brokers(world.context())
    world.children[VHOST, "nova-messaging--on-green"] = account("nova-messaging--on-green", GREEN)
    assert has_two_brokers(world.context())
