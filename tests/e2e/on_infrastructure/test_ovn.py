"""OVN from 25.03 to 26.03 in a cloud, while a server is pinged and ports come and go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.judging import Allowance
from tools.chaos.api import Access, Api
from tools.chaos.journal import Journal, now
from tools.chaos.load import Load
from tools.chaos.servers import Guest, only_guest
from tools.chaos.site import Site
from tools.chaos.writers import Ports
from tools.cloud import proof
from tools.cloud.session import MINIMAL, Cloud, Session
from tools.cloud.view import conditions, ready
from tools.localcluster.kubernetes import ROOT, Kubernetes, module, ours

from ..conftest import CABLED, Report, stands
from ..waiting import until
from .pinger import Pinger

OLD, NEW = "25.03", "26.03"
MEMBERS = 3
LOST_IN_A_ROW = 3
"""Pings, of which there are five a second: a new ovn-controller leaves the flows of its node as they are."""
SILENCE = Allowance(1.0, "as long as pings may be lost in a row, and one interval for the next answer")
"""Longest time in seconds between two answers to pings."""
PORTS_FAILED = 2
"""Requests that may fail: the conversion of each of two databases ends all of its connections, and so the request that
is under way.
"""
PORTS_GAP = Allowance(
    20.0,
    "members of the databases are replaced one after the other, and each leaves its clients to another one, which takes"
    " some seconds each time; then the conversion refuses writes until it ends",
)
"""Longest time in seconds without a new port. Servers run on meanwhile."""
CALM = 30
"""Seconds for which the same pings and ports are measured before the upgrade."""
CONTROL = {
    "controller": "/run/ovn/ovn-controller.ctl",
    "nb": "/run/ovn/ovnnb_db.ctl",
    "sb": "/run/ovn/ovnsb_db.ctl",
    "northd": "/run/ovn/ovn-northd.ctl",
}
"""Sockets by which programs say their version, by component."""
SCHEMAS = {"nb": "OVN_Northbound", "sb": "OVN_Southbound"}
VERSION = "app.kubernetes.io/version"


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """A minimal cloud with databases of three members, Ready, in a cluster that has both versions of OVN."""
    with stands(MINIMAL, _change) as found:
        module("images", "build", "ovn-26.03")
        module("images", "load", "ovn-26.03")
        yield found


def _change(spec: dict[str, Any]) -> None:
    spec["ovn"] = {**spec["ovn"], **CABLED, "replicas": MEMBERS}


@pytest.fixture
def cluster(stood: tuple[Session, Cloud]) -> Kubernetes:
    """The cluster of this cloud, not that of the folder."""
    return stood[0].cluster


@pytest.fixture(scope="module")
def guest(stood: tuple[Session, Cloud]) -> Guest:
    """A server that answers at its floating IP."""
    return only_guest(stood[0].cluster, stood[1].namespace)


@dataclass
class Watch:
    """What is seen of an upgrade while it goes on."""

    cluster: Kubernetes
    namespace: str
    said: list[str] = field(default_factory=list[str])
    """What the conditions said, each once."""

    def pods(self, component: str) -> list[dict[str, Any]]:
        """Return the pods of a component of OVN by name, but for those that end."""
        labels = f"openstack.k8s.io/kind=ovnnetwork,app.kubernetes.io/component={component}"
        found = self.cluster.items("pods", "-n", self.namespace, "-l", labels)
        pods = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
        return sorted(pods, key=lambda pod: pod["metadata"]["name"])

    def network(self) -> dict[str, Any]:
        return self.cluster.get(ours("ovnnetwork"), "ovn", "-n", self.namespace)

    def has(self, version: str) -> bool:
        """Return True if all pods have a version, and the resource is Ready with it."""
        resource = self.network()
        for name in ("VersionReady", "SchemaReady"):
            message = conditions(resource).get(name, {}).get("message", "")
            if message and message not in self.said:
                self.said.append(message)
                print(f"    {message}")
        labels = {pod["metadata"]["labels"][VERSION] for component in CONTROL for pod in self.pods(component)}
        return ready(resource) and "SchemaReady" not in conditions(resource) and labels == {version}

    def conversion(self) -> tuple[datetime, datetime]:
        """Return when the Job that converts the schemas began and ended: it is gone once northd came after it."""
        found = self.cluster.items("events", "-n", self.namespace, "--field-selector", "involvedObject.kind=Job")
        events = [each for each in found if each["involvedObject"]["name"].startswith("ovn-convert-")]
        at = {each["reason"]: _time(each["firstTimestamp"] or each["eventTime"]) for each in events}
        return at["SuccessfulCreate"], at["Completed"]

    def run(self, pod: dict[str, Any], *words: str) -> str:
        """Return what a command in the first container of a pod prints."""
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
        return self.cluster.kubectl("exec", "-n", self.namespace, name, "-c", container, "--", *words).strip()

    def versions(self) -> dict[str, set[str]]:
        """Return what running programs say that they are, by component."""
        return {
            component: {self.run(pod, "ovs-appctl", "-t", socket, "version") for pod in self.pods(component)}
            for component, socket in CONTROL.items()
        }

    def schemas(self) -> dict[str, set[str]]:
        """Return the versions of the schemas that members serve, by database."""
        return {
            name: {
                self.run(pod, "ovsdb-client", "get-schema-version", f"unix:/run/ovn/ovn{name}_db.sock", schema)
                for pod in self.pods(name)
            }
            for name, schema in SCHEMAS.items()
        }

    def patch(self, **spec: Any) -> None:
        """Change fields of the cloud's OVN."""
        body = json.dumps({"spec": {"ovn": spec}})
        kind = ours("openstackcontrolplane")
        self.cluster.kubectl("patch", kind, "cloud", "-n", self.namespace, "--type=merge", "-p", body)


@pytest.fixture
def watch(stood: tuple[Session, Cloud]) -> Watch:
    return Watch(stood[0].cluster, stood[1].namespace)


def created(pods: list[dict[str, Any]]) -> list[datetime]:
    return sorted(_time(pod["metadata"]["creationTimestamp"]) for pod in pods)


def served(pods: list[dict[str, Any]]) -> list[datetime]:
    """Return when pods became ready."""
    found = [c for pod in pods for c in pod["status"]["conditions"] if c["type"] == "Ready" and c["status"] == "True"]
    return sorted(_time(condition["lastTransitionTime"]) for condition in found)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def northbound_ports(watch: Watch) -> set[str]:
    """Return the names in Neutron of all ports in the northbound database."""
    words = ("ovn-nbctl", "--no-leader-only", "--format=json", "--columns=external_ids", "list", "Logical_Switch_Port")
    rows = json.loads(watch.run(watch.pods("nb")[0], *words))["data"]
    return {dict(row[0][1]).get("neutron:port_name", "") for row in rows}


@pytest.mark.usefixtures("guest")
def test_a_version_that_does_not_exist_changes_no_pod(watch: Watch) -> None:
    before = {pod["metadata"]["uid"] for component in CONTROL for pod in watch.pods(component)}
    watch.patch(version="24.09")
    message = f"has no ovn-nb 24.09; choose from {OLD}, {NEW}"
    until("a refusal", lambda: message in conditions(watch.network())["Ready"]["message"], 60, 1, stages=())
    watch.patch(version=None)
    until("OVN to be Ready", lambda: watch.has(OLD), 60, 1, stages=())
    assert {pod["metadata"]["uid"] for component in CONTROL for pod in watch.pods(component)} == before


def test_an_upgrade_interrupts_no_server_and_loses_no_port(
    stood: tuple[Session, Cloud], watch: Watch, guest: Guest, report: Report
) -> None:
    conn = proof.connect(stood[0].cluster, stood[1].namespace)
    network = next(iter(conn.network.ports(device_id=guest.id))).network_id
    site = Site(stood[0].cluster)
    ports, journal = Ports(Api(Access(site)), network), Journal(ROOT / "build" / "ovn.journal")
    ports.interval = 0.5
    schemas, boot, switches = watch.schemas(), guest.boot(), watch.pods("gateway")
    assert all(OLD in text for component in ("controller", "northd") for text in watch.versions()[component])
    with Pinger(guest.floating) as pinger, Load(journal, [ports]) as load:
        until("ports to be made", lambda: len(journal.acknowledged("ports")) > 10, 120, stages=())
        calm, calm_clock = now(), time.time()
        time.sleep(CALM)
        began, clock = now(), time.time()
        watch.patch(version=NEW)
        until(f"OVN {NEW}", lambda: watch.has(NEW), 900, 1, stages=())
        ended = now()
        # All nodes have what is in the northbound database now.
        watch.run(watch.pods("nb")[0], "ovn-nbctl", "--no-leader-only", "--wait=hv", "--timeout=60", "sync")
        time.sleep(5)
    gaps = [(round(at - clock, 1), count) for at, count in pinger.gaps()]
    silence, silence_before = pinger.silence(clock), pinger.silence(calm_clock, clock)
    ports_gap, ports_gap_before = (
        journal.outages(*span, load.intervals)["ports"] for span in ((began, ended), (calm, began))
    )
    ports_failed = journal.failed(began).get("ports", 0)
    figures = {
        "seconds": round(ended - began, 1),
        "pings": pinger.sent,
        "pings_lost": pinger.lost,
        "pings_lost_in_a_row": pinger.lost_in_a_row,
        "ping_gaps": gaps,
        "longest_silence": silence,
        "longest_silence_before": silence_before,
        "ports": len(journal.acknowledged("ports")),
        "ports_failed": ports_failed,
        "ports_gap": ports_gap,
        "ports_gap_before": ports_gap_before,
        "ports_errors": journal.errors(began).get("ports", []),
    }
    print(f"    {figures}\n    {watch.versions()}\n    {schemas} {watch.schemas()}")
    report.add(ovn_upgrade=figures, ovn_conditions=watch.said)
    _check_versions(watch, schemas)
    _check_order(watch)
    assert [(pod["metadata"]["uid"], _restarts(pod)) for pod in watch.pods("gateway")] == [
        (pod["metadata"]["uid"], _restarts(pod)) for pod in switches
    ], "Open vSwitch ran on"
    assert guest.boot() == boot
    acknowledged = journal.acknowledged("ports")
    assert acknowledged <= ports.present()
    existing = {port.name for port in conn.network.ports(network_id=network)} & acknowledged
    assert existing
    assert existing <= northbound_ports(watch)
    assert pinger.lost_in_a_row <= LOST_IN_A_ROW, gaps
    assert ports_failed <= PORTS_FAILED, figures["ports_errors"]
    SILENCE.judge({"pings": silence}, {"pings": silence_before})
    PORTS_GAP.judge({"ports": ports_gap}, {"ports": ports_gap_before})


def _restarts(pod: dict[str, Any]) -> list[int]:
    return [status["restartCount"] for status in pod["status"]["containerStatuses"]]


def _check_versions(watch: Watch, before: dict[str, set[str]]) -> None:
    versions, after = watch.versions(), watch.schemas()
    assert all(NEW in text for component in ("controller", "northd") for text in versions[component])
    for name in SCHEMAS:
        [version] = versions[name]
        assert "Open vSwitch) 4." in version
        [schema] = after[name]
        file = f"/usr/share/ovn/ovn-{name}.ovsschema"
        assert {schema} == {watch.run(pod, "ovsdb-tool", "schema-version", file) for pod in watch.pods(name)}
        assert before[name] != {schema}


def _check_order(watch: Watch) -> None:
    """Controllers, all members of databases, their schemas, northd."""
    controllers, databases, northd = (
        [pod for component in group for pod in watch.pods(component)]
        for group in (("controller",), ("nb", "sb"), ("northd",))
    )
    began, converted = watch.conversion()
    assert served(controllers)[-1] <= created(databases)[0]
    assert served(databases)[-1] <= began
    assert converted <= created(northd)[0]
    for name in ("nb", "sb"):
        members = watch.pods(name)
        # The highest number first, and each after the one before it served.
        times = [(served([pod])[0], created([pod])[0]) for pod in reversed(members)]
        assert all(one[0] <= other[1] for one, other in pairwise(times))
    assert any("after ovn-controller on all nodes" in message for message in watch.said)


def test_a_new_server_is_reached(stood: tuple[Session, Cloud], guest: Guest) -> None:
    assert stood[0].prove(stood[1])["reply"]
    assert guest.boot()


def test_ovn_refuses_to_go_back_a_version(watch: Watch) -> None:
    before = {pod["metadata"]["uid"] for component in CONTROL for pod in watch.pods(component)}
    watch.patch(version=OLD)
    message = f"spec.version: {OLD} cannot read the data of the running {NEW}; set that again, or restore a backup"

    def is_refused() -> bool:
        condition = conditions(watch.network())["Ready"]
        return condition.get("reason") == "InvalidSpec" and message in condition["message"]

    until("the old version to be refused", is_refused, 60, 1, stages=())
    watch.patch(version=NEW)
    until("OVN to be Ready", lambda: watch.has(NEW), 120, 1, stages=())
    assert {pod["metadata"]["uid"] for component in CONTROL for pod in watch.pods(component)} == before


def test_a_switch_that_restarts_serves_again(watch: Watch, guest: Guest, report: Report) -> None:
    """What another version of OVN spares a node: the time in which its servers have no network."""
    [switch] = watch.pods("gateway")
    datapath = watch.run(switch, "ovs-vsctl", "get", "bridge", "br-int", "datapath_type")
    with Pinger(guest.floating) as pinger:
        time.sleep(3)
        watch.cluster.kubectl("delete", "pod", switch["metadata"]["name"], "-n", watch.namespace)

        def is_new() -> bool:
            [pod] = watch.pods("gateway") or [switch]
            statuses = pod["status"].get("containerStatuses", [])
            is_ready = bool(statuses) and all(each["ready"] for each in statuses)
            return pod["metadata"]["uid"] != switch["metadata"]["uid"] and is_ready

        until("another pod of the switch", is_new, 120, 0.5, stages=())
        time.sleep(15)
    figures = {"datapath": datapath, "silence": pinger.silence(), "lost": pinger.lost, "sent": pinger.sent}
    print(f"    {figures}")
    report.add(switch_restart=figures)
    assert guest.boot()
