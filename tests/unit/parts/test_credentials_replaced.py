"""Accounts are replaced under programs that use them: nobody is refused, wherever the operator is cut off."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import count
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from openstack_operator import kube
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.parts.secrets.rotation import (
    IDLE,
    MIGRATING,
    PREPARING,
    REMOTES,
    read,
    read_by,
    rotation_in_progress,
)
from openstack_operator.plan import Context, Key, Object, Plan, Release, ResolvedRef, Step, carry_out, key
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.testing import NOW, granted
from tests.searches import examples

WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet"}
URLS = re.compile(r"(?:mysql\+pymysql|rabbit)://([^:]+):([^@]+)@")
LOGINS = re.compile(r"^username = (\S+)$.*?^password = (\S+)$|^password = (\S+)$.*?^username = (\S+)$", re.M | re.S)


class CrashError(Exception):
    """The operator ends here."""


@dataclass
class Cloud:
    """A service, the accounts its servers have, pods that know what they read when they started, and time."""

    kind: str
    release: Release
    now: datetime = NOW
    children: dict[Key, Object] = field(default_factory=dict[Key, Object])
    orders: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    accounts: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Passwords by the kind that makes the account, and its name."""
    vhosts: set[str] = field(default_factory=set[str])
    pods: dict[str, Object] = field(default_factory=dict[str, Object])
    known: dict[str, str] = field(default_factory=dict[str, str])
    """What each pod has read."""
    changed: dict[str, datetime] = field(default_factory=dict[str, datetime])
    draws: count[int] = field(default_factory=count)
    left: int | None = None
    """Writes until the operator ends."""
    going: set[Key] = field(default_factory=set[Key])
    """What is being removed, and not yet gone."""
    spec: dict[str, Any] = field(default_factory=dict[str, Any])
    published: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """What servers publish besides, by kind."""

    @property
    def name(self) -> str:
        return self.kind.lower()

    def order(self, sort: str, **more: str) -> None:
        self.now += timedelta(seconds=1)
        self.orders[f"{self.name}-{sort}-rotation"] = {"at": self.now.isoformat(), "graceDays": "0", **more}

    @cached_property
    def offline(self) -> Context[Any]:
        """What it refers to, which stays as it is."""
        paper = OfflineCluster(SERVICES, ACTUATORS, lambda _: self.release, password="drawn")
        manifest = {"kind": self.kind, "metadata": {"name": self.name}, "spec": self.spec}
        return paper.context(manifest, "openstack")

    def plan(self) -> Plan:
        ctx = self.offline
        draw, secrets = lambda: f"password-{next(self.draws):06}", {**ctx.secrets, **self.orders}
        ctx = replace(ctx, children=dict(self.children), secrets=secrets, now=self.now, draw=draw)
        refs = {ref: ResolvedRef({**at.published, **self.published.get(ref.kind, {})}) for ref, at in ctx.refs.items()}
        ctx = replace(ctx, refs=refs)
        ctx = replace(ctx, facts=self.facts() if rotation_in_progress(ctx) else {})
        return next(service for service in SERVICES if service.resource.kind == self.kind).plan(ctx)

    def facts(self) -> dict[str, Any]:
        secrets: list[Object] = []
        for (kind, name), live in self.children.items():
            if kind == "Secret":
                at = self.changed[name].strftime("%Y-%m-%dT%H:%M:%SZ")
                meta = {"creationTimestamp": "2026-01-01T00:00:00Z"}
                meta |= {"managedFields": [{"time": at, "fieldsV1": {"f:data": {}}}]}
                secrets.append({**live, "metadata": {**live["metadata"], **meta}})
        return {"secrets": secrets, "pods": list(self.pods.values())}

    async def look(self, left: int | None = None) -> None:
        """A pass, which ends after so many writes."""
        self.now += timedelta(seconds=1)
        self.left, plan = left, self.plan()
        try:
            await carry_out(plan, self.write, kube.judge, self.present)
        except CrashError:
            return
        wanted = {key(obj) for obj in plan.objects}
        for gone in [known for known in self.children if known not in wanted and known not in self.going]:
            self.removed(self.children.pop(gone))

    async def write(self, step: Step) -> Sequence[Object]:
        for obj in step.objects:
            old = self.children.get(key(obj))
            same = old and all(old.get(part) == obj[part] for part in ("spec", "data") if part in obj)
            if old and same and old["metadata"].get("annotations") == obj["metadata"].get("annotations"):
                continue
            if self.left == 0:
                raise CrashError
            self.left = None if self.left is None else self.left - 1
            generation = old["metadata"].get("generation", 1) + 1 if old else 1
            metadata = {**obj["metadata"], "generation": generation}
            self.children[key(obj)] = {**obj, "metadata": metadata, "status": (old or {}).get("status", {})}
            self.changed[obj["metadata"]["name"]] = self.now
        return [self.children[key(obj)] for obj in step.objects]

    def present(self, step: Step) -> bool:
        return all(key(obj) in self.children for obj in step.workloads or step.objects)

    def removed(self, live: Object) -> None:
        self.accounts.pop(key(live), None)
        if live["kind"] not in REMOTES:
            return
        spec = live["spec"]
        self.accounts.pop((live["kind"], named(spec)), None)
        if live["kind"] == "RabbitMQVhost" and spec.get("deletionPolicy") != "Retain":
            self.vhosts.discard(spec["vhost"])

    def actuate(self) -> None:
        """What is outside Kubernetes is as its resources say."""
        for known, live in self.children.items():
            if login := login_of(live):
                data = kube.secret_data(self.children["Secret", login])
                self.accounts[known[0], known[1]] = data["password"]
            if said := by_others(live):
                self.children[known] = {**live, "status": said}
            if live["kind"] in REMOTES:
                spec, ref = live["spec"], live["spec"]["passwordSecretRef"]
                data = kube.secret_data(self.children["Secret", ref["name"]])
                if ref["key"] in data:
                    self.accounts[live["kind"], named(spec)] = data[ref["key"]]
                    self.vhosts |= {spec["vhost"]} if "vhost" in spec else set()
                    self.children[known] = granted(live)

    def work(self) -> None:
        """Jobs end."""
        for known, live in self.children.items():
            if known[0] == "Job":
                self.children[known] = granted(live)

    def roll(self, *without: str) -> None:
        """Workloads get pods of their newest template."""
        self.now += timedelta(seconds=1)
        for known, live in self.children.items():
            name = f"{known[1]}-pod"
            if live["kind"] not in WORKLOADS or known[1] in without:
                continue
            template = live["spec"]["template"]
            if name not in self.pods or self.pods[name]["template"] != template:
                self.start(name, template)
            self.children[known] = granted(live)

    def start(self, name: str, template: Object) -> None:
        """A pod reads its files."""
        metadata: dict[str, Any] = {"name": name, "creationTimestamp": self.now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        metadata["annotations"] = template["metadata"].get("annotations", {})
        self.pods[name] = {"metadata": metadata, "spec": template["spec"], "template": template}
        held = [self.children.get(("Secret", each)) for each in read_by(self.pods[name])]
        self.known[name] = "\n".join(text for live in held for text in kube.secret_data(live).values())

    def restart(self) -> None:
        """Every pod is lost and made anew, of the template it was of."""
        self.now += timedelta(seconds=1)
        for name, pod in list(self.pods.items()):
            self.start(name, pod["template"])

    def check(self) -> None:
        """Whatever a pod knows lets it in."""
        for pod, text in self.known.items():
            users = [(user, password) for user, password in URLS.findall(text)]
            for first, second, third, fourth in LOGINS.findall(text):
                users.append((first or fourth, second or third))
            for user, password in users:
                passwords = {kept for (_, name), kept in self.accounts.items() if name == user}
                assert password in passwords, f"{pod} is refused as {user}"

    async def quiet(self) -> None:
        """Everybody does his work until nothing has changed for three passes."""
        calm = 0
        for _ in range(60):
            before = self.wanted()
            self.actuate()
            self.work()
            await self.look()
            self.roll()
            self.check()
            calm = calm + 1 if before == self.wanted() else 0
            if calm == 3:
                return
        raise AssertionError("it does not come to rest")

    def wanted(self) -> dict[Key, Any]:
        return {known: (live.get("spec"), live.get("data")) for known, live in self.children.items()}

    def state(self, sort: str) -> str:
        held = kube.secret_data(self.children["Secret", f"{self.name}-credentials"])
        found = read(held.get(f"rotation.{sort}"))
        return found.step if found else ""


def named(spec: Object) -> str:
    return spec.get("user") or spec["credential"]


def login_of(live: Object) -> str:
    """The Secret by which an operator of others makes an account."""
    spec = live.get("spec", {})
    found = spec.get("passwordSecretKeyRef") or spec.get("importCredentialsSecret") or {}
    return found.get("name") or spec.get("resource", {}).get("passwordRef", "")


def by_others(live: Object) -> dict[str, Any]:
    """What an operator of others says of what it has done; nothing of kinds that are ours."""
    if not live["apiVersion"].startswith(("k8s.mariadb.com/", "rabbitmq.com/", "openstack.k-orc.cloud/")):
        return {}
    generation = live["metadata"]["generation"]
    told = {"Ready": "True", "Available": "True", "Progressing": "False"}
    conditions = [{"type": name, "status": value, "observedGeneration": generation} for name, value in told.items()]
    return {"observedGeneration": generation, "conditions": conditions}


OTHERS = {
    "MariaDB": {"mariadbResource": "mariadb"},
    "RabbitMQ": {"rabbitmqCluster": "rabbitmq"},
    "Keystone": {"korcClouds": "k-orc-clouds-yaml"},
}
THEIRS = {
    "database": "User.k8s.mariadb.com",
    "messaging": "User.rabbitmq.com",
    "identity": "User.openstack.k-orc.cloud",
}


@pytest.mark.parametrize("sort", THEIRS)
async def test_operators_of_others_make_the_second_account_and_lose_the_first(sort: str, release: Release) -> None:
    """What they make accounts by holds the old password until the end, and nobody waits for that."""
    cloud = Cloud("Cinder", release, published=OTHERS)
    cloud.check = lambda: None  # the names of accounts are those of their resources here
    await cloud.quiet()
    first = dict(cloud.accounts)
    handle = THEIRS[sort]
    for suffix in ("--b", ""):
        cloud.order(sort)
        await cloud.quiet()
        assert cloud.state(sort) == IDLE
        before = {name for kind, name in first if kind == handle}
        assert {name for kind, name in cloud.accounts if kind == handle} == {f"{name}{suffix}" for name in before}
        assert not set(first.values()) & {kept for (kind, _), kept in cloud.accounts.items() if kind == handle}
    held = "\n".join(text for live in cloud.children.values() for text in kube.secret_data(live).values())
    assert not [kept for (kind, _), kept in first.items() if kind == handle and kept in held]


HAPPENS = ["look", "crash", "actuate", "work", "roll", "restart", "order"]
SORTS = {"database": "MariaDBDatabase", "messaging": "RabbitMQVhost", "identity": "KeystoneUser"}


@pytest.mark.parametrize("kind", ["Nova", "Cinder", "Neutron"])
@pytest.mark.parametrize("sort", SORTS)
async def test_a_second_account_takes_over_and_the_first_one_goes(kind: str, sort: str, release: Release) -> None:
    cloud = Cloud(kind, release)
    await cloud.quiet()
    first, vhosts = dict(cloud.accounts), set(cloud.vhosts)
    remote = SORTS[sort]
    for suffix in ("_B", ""):
        cloud.order(sort)
        await cloud.quiet()
        now = {user for kind, user in cloud.accounts if kind == remote}
        assert now == {f"{user}{suffix}" for kind, user in first if kind == remote}
        assert not set(first.values()) & {kept for (kind, _), kept in cloud.accounts.items() if kind == remote}
        assert cloud.state(sort) == IDLE
    # Another round, other passwords; what was not meant is as it was, and no virtual host was lost.
    assert {name: kept for name, kept in first.items() if name[0] != remote}.items() <= cloud.accounts.items()
    assert cloud.vhosts == vhosts
    assert len(cloud.accounts) == len(first)


CONSOLE = {("MariaDBDatabase", "nova-cell1-db--console"), ("RabbitMQVhost", "nova-cell1--console")}


def of_before(cloud: Cloud) -> None:
    """As an operator left it whose proxies had the accounts of conductors."""
    proxy, secret = cloud.children["Deployment", "nova-cell1-novncproxy"], cloud.children["Secret", "nova-credentials"]
    for known in [known for known in cloud.children if "--console" in known[1]]:
        cloud.removed(cloud.children.pop(known))
    held = {name: text for name, text in secret["data"].items() if "--console" not in name}
    cloud.children["Secret", "nova-credentials"] = {**secret, "data": held}
    older = json.loads(json.dumps(proxy).replace("nova-cell1--console-config", "nova-cell1-config"))
    cloud.children["Deployment", "nova-cell1-novncproxy"] = older
    cloud.roll()


def templates(cloud: Cloud) -> dict[str, Any]:
    return {name: live["spec"]["template"] for (kind, name), live in cloud.children.items() if kind in WORKLOADS}


async def test_proxies_of_consoles_get_their_accounts_before_they_are_replaced(release: Release) -> None:
    cloud = Cloud("Nova", release)
    await cloud.quiet()
    of_before(cloud)
    before, accounts = templates(cloud), dict(cloud.accounts)
    for _ in range(3):
        # Servers do not answer yet.
        await cloud.look()
        assert templates(cloud) == before
    assert cloud.children.keys() >= CONSOLE
    await cloud.quiet()
    assert {name for name, template in templates(cloud).items() if template != before[name]} == {
        "nova-cell1-novncproxy"
    }
    assert accounts.items() <= cloud.accounts.items()
    assert len(cloud.accounts) == len(accounts) + 2


@pytest.mark.parametrize("sort", ["database", "messaging"])
@pytest.mark.parametrize("step", [PREPARING, MIGRATING])
async def test_proxies_of_consoles_get_their_accounts_while_others_are_replaced(
    sort: str, step: str, release: Release
) -> None:
    cloud = Cloud("Nova", release)
    await cloud.quiet()
    accounts, vhosts = len(cloud.accounts), set(cloud.vhosts)
    cloud.order(sort)
    while cloud.state(sort) != step:
        await cloud.look()
        cloud.actuate()
    of_before(cloud)
    await cloud.quiet()
    assert cloud.state(sort) == IDLE
    assert (len(cloud.accounts), cloud.vhosts) == (accounts, vhosts)


@given(st.lists(st.sampled_from(HAPPENS), min_size=12, max_size=40), st.data())
@settings(max_examples=examples(20), deadline=None)
def test_no_program_is_refused_during_rotation_in_any_order_of_events(
    release: Release, happens: list[str], data: st.DataObject
) -> None:
    async def go() -> None:
        cloud = Cloud("Cinder", release)
        await cloud.quiet()
        for what in happens:
            match what:
                case "look":
                    await cloud.look()
                case "crash":
                    await cloud.look(data.draw(st.integers(0, 6)))
                case "order":
                    cloud.order(data.draw(st.sampled_from([*SORTS])))
                case _:
                    getattr(cloud, what)()
            cloud.check()
        vhosts = set(cloud.vhosts)
        await cloud.quiet()
        assert cloud.vhosts == vhosts
        assert len(cloud.accounts) == 3
        assert all(cloud.state(sort) in {"", IDLE} for sort in SORTS)

    asyncio.run(go())


async def in_use(release: Release, **more: str) -> Cloud:
    cloud = Cloud("Cinder", release)
    await cloud.quiet()
    cloud.order("database", **more)
    await cloud.look()
    assert cloud.state("database") == PREPARING
    cloud.actuate()
    await cloud.look()
    assert cloud.state("database") == MIGRATING
    return cloud


def published(cloud: Cloud) -> str:
    return cloud.plan().outcome.published["databaseRotation"]


async def test_a_departing_account_is_not_taken_for_the_next_one(release: Release) -> None:
    """It is ready, and will never have the new password."""
    cloud = await in_use(release)
    cloud.going = {("MariaDBDatabase", "cinder-db")}
    await cloud.quiet()
    assert cloud.state("database") == IDLE
    cloud.order("database")
    for _ in range(3):
        await cloud.look()
    assert cloud.state("database") == IDLE
    cloud.going = set()
    await cloud.quiet()
    assert cloud.state("database") == IDLE
    assert {user for kind, user in cloud.accounts if kind == "MariaDBDatabase"} == {"cinder"}


async def test_a_pod_that_stays_behind_keeps_the_account_and_is_named(release: Release) -> None:
    cloud = await in_use(release)
    for _ in range(5):
        cloud.roll("cinder-scheduler")
        cloud.work()
        await cloud.look()
    assert cloud.state("database") == MIGRATING
    assert "Pod/cinder-scheduler-pod" in published(cloud)
    assert len(cloud.accounts) == 4


async def test_rotation_waits_for_a_users_pod_that_reads_the_old_login(release: Release) -> None:
    cloud = Cloud("Placement", release, published=OTHERS)
    cloud.check = lambda: None  # the names of accounts are those of their resources here
    await cloud.quiet()
    made = {"name": "mine", "creationTimestamp": "2026-01-01T00:00:00Z"}
    login = [{"secret": {"secretName": "placement-db-login"}}]
    cloud.pods["mine"] = {"metadata": made, "spec": {"volumes": login, "containers": []}}
    cloud.order("database")
    await cloud.quiet()
    assert json.loads(published(cloud))["waits"] == ["Pod/mine"]
    del cloud.pods["mine"]
    await cloud.quiet()
    assert cloud.state("database") == IDLE


@pytest.mark.parametrize("old", [False, True])
async def test_a_pod_as_old_as_the_change_is_known_by_configuration(old: bool, release: Release) -> None:
    cloud = await in_use(release)
    known = ("Deployment", "cinder-api")
    template = cloud.pods["cinder-api-pod"]["template"] if old else cloud.children[known]["spec"]["template"]
    cloud.now = cloud.changed["cinder-config"]
    cloud.start("cinder-api-pod", template)
    for _ in range(5):
        cloud.roll("cinder-api")
        cloud.children[known] = granted(cloud.children[known])
        cloud.work()
        await cloud.look()
    assert ("Pod/cinder-api-pod" in published(cloud)) is old
    assert cloud.state("database") == (MIGRATING if old else IDLE)


async def test_a_pod_of_the_users_that_reads_the_passwords_is_waited_for(release: Release) -> None:
    cloud = await in_use(release)
    made = {"name": "mine", "creationTimestamp": "2025-12-31T00:00:00Z"}
    reference = {"secretKeyRef": {"name": "cinder-credentials", "key": "database"}}
    variable = {"name": "PASSWORD", "valueFrom": reference}
    cloud.pods["mine"] = {"metadata": made, "spec": {"containers": [{"env": [variable]}]}}
    for _ in range(5):
        cloud.children |= {known: granted(live) for known, live in cloud.children.items()}
        for pod in [name for name in cloud.pods if name != "mine"]:
            del cloud.pods[pod]
        await cloud.look()
    assert published(cloud).count("Pod/") == 1
    assert "Pod/mine" in published(cloud)
    del cloud.pods["mine"]
    await cloud.quiet()
    assert cloud.state("database") == IDLE


async def test_the_account_before_is_kept_for_as_long_as_is_wanted(release: Release) -> None:
    cloud = await in_use(release, graceDays="2")
    await cloud.quiet()
    assert cloud.state("database") == MIGRATING
    assert '"waits"' not in published(cloud)
    wake = cloud.plan().outcome.wake
    assert wake
    assert timedelta(days=1) < wake - cloud.now <= timedelta(days=2)
    cloud.now = wake
    await cloud.quiet()
    assert cloud.state("database") == IDLE


async def test_an_order_taken_back_ends_what_was_begun(release: Release) -> None:
    cloud = await in_use(release)
    cloud.orders.clear()
    await cloud.quiet()
    assert cloud.state("database") == IDLE
    cloud.orders["cinder-database-rotation"] = {"at": "yesterday", "graceDays": "-1"}
    await cloud.quiet()
    assert cloud.state("database") == IDLE


@pytest.mark.parametrize("korc", [False, True])
async def test_an_application_credential_lets_in_all_the_time(release: Release, *, korc: bool) -> None:
    spec = {"catalog": {"provider": "k-orc"}} if korc else {"bootstrap": {"applicationCredential": True}}
    cloud = Cloud("Keystone", release, spec=spec)
    readers = ["keystone-app-credential", *(["k-orc-clouds-yaml"] if korc else [])]
    seen: set[str] = set()

    def check() -> None:
        for name in readers:
            live = cloud.children.get(("Secret", name))
            if text := kube.secret_data(live).get("clouds.yaml"):
                auth = yaml.safe_load(text)["clouds"]["openstack"]["auth"]
                known = cloud.accounts["KeystoneApplicationCredential", auth["application_credential_name"]]
                assert auth["application_credential_secret"] == known
                seen.add(known)

    cloud.check = check
    await cloud.quiet()
    for times in (1, 2, 3):
        assert (cloud.state("application"), len(seen)) == ("" if times == 1 else IDLE, times)
        assert len([kind for kind, _ in cloud.accounts if kind == "KeystoneApplicationCredential"]) == 1
        cloud.order("application")
        await cloud.quiet()


def test_a_digest_edited_by_hand_is_ignored() -> None:
    for written in ("5", '"abc"', "null"):
        found = read(f'{{"step": "Moving", "before": {written}}}')
        assert found
        assert found.before == ()


async def test_a_secret_that_was_deleted_begins_anew(release: Release) -> None:
    cloud = await in_use(release)
    cloud.orders.clear()
    del cloud.children["Secret", "cinder-credentials"]
    await cloud.look()
    names = {name for kind, name in cloud.children if kind == "MariaDBDatabase"}
    assert names == {"cinder-db"}


async def test_only_what_others_vouch_for_is_not_offered(release: Release) -> None:
    cloud = Cloud("Placement", release)
    await cloud.quiet()
    assert {name for name in cloud.plan().outcome.published if name.endswith("Rotation")} == {
        "databaseRotation",
        "identityRotation",
    }


async def test_a_virtual_host_is_kept_before_its_other_user_goes(release: Release) -> None:
    cloud = Cloud("Cinder", release)
    await cloud.quiet()
    cloud.order("messaging")
    await cloud.look()
    cloud.actuate()
    await cloud.look()
    going = cloud.children["RabbitMQVhost", "cinder-messaging"]
    assert going["spec"].pop("deletionPolicy") == "Retain"
    assert "RabbitMQVhost/cinder-messaging" in cloud.plan().outcome.published["messagingRotation"]


async def test_the_administrator_keeps_his_name_and_no_password_is_lost(release: Release) -> None:
    cloud = Cloud("Keystone", release)
    await cloud.quiet()

    def admin() -> dict[str, str]:
        return kube.secret_data(cloud.children["Secret", "keystone-admin"])

    def told() -> list[str]:
        """What the jobs that ended have told Keystone, by key."""
        jobs = [live for (kind, _), live in cloud.children.items() if kind == "Job" and kube.judge(live).ready]
        found = [env for job in jobs for env in job["spec"]["template"]["spec"]["containers"][0]["env"]]
        return [env["valueFrom"]["secretKeyRef"]["key"] for env in found if env["name"] == "OS_BOOTSTRAP_PASSWORD"]

    before = admin()
    cloud.order("admin")
    await cloud.look()
    coming = admin()["password.next"]
    assert admin()["password"] == before["password"] != coming
    await cloud.look()
    assert told() == []
    assert admin()["password.next"] == coming
    cloud.work()
    assert told() == ["password.next"]
    await cloud.look()
    assert admin()["password"] == coming
    await cloud.quiet()
    assert admin().keys() == {*before, "rotation.admin"}
    assert (admin()["username"], admin()["password"]) == (before["username"], coming)
    assert '"order"' in cloud.plan().outcome.published["adminRotation"]


async def test_keys_rotate_when_it_is_ordered_but_not_too_soon(release: Release) -> None:
    def keys() -> dict[str, str]:
        return kube.secret_data(cloud.children["Secret", "keystone-fernet-keys"])

    cloud = Cloud("Keystone", release)
    await cloud.quiet()
    before = keys()
    cloud.order("fernet")
    await cloud.quiet()
    assert keys() == before
    assert '"order"' not in cloud.plan().outcome.published["fernetRotation"]
    cloud.now += timedelta(minutes=10)
    await cloud.quiet()
    assert max(keys()) == "2"
    assert keys()["2"] == before["0"]
    assert '"order"' in cloud.plan().outcome.published["fernetRotation"]
    cloud.now += timedelta(minutes=10)
    await cloud.quiet()
    assert max(keys()) == "2"
