"""Runs scenarios one after the other on one cloud, under one load."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from tools.cloud import deploy, proof
from tools.cloud.session import SAMPLES, Session
from tools.localcluster.kubernetes import ROOT, KubeError, existing_cluster

from . import servers, services, writers
from .api import Access, Api
from .journal import Journal, now
from .load import Client, Load, Writer
from .recovery import recovered
from .scenario import Result, Scenario, Stage
from .scenarios import SCENARIOS
from .site import Site
from .verify import verify, verify_members, verify_servers

SAMPLE = SAMPLES / "controlplane_ha.yaml"
BOUNDED = "sized"
"""The StorageClass of this machine's cluster whose volumes are no larger than asked for."""
NODES = 3
BOUNDED_SAMPLE = ROOT / "build" / "controlplane_chaos.yaml"
REPORT = ROOT / "build" / "chaos.json"
JOURNAL = ROOT / "build" / "chaos.jsonl"
_RECOVERY_TIMEOUT = 240.0
_DEPLOYED = 900.0


def deployed(console: Console, optional: Sequence[str] = ()) -> Site:
    """Deploy the sample with the `optional` services, two pods of each, on a cluster of this machine, which goes on
    from what there is.
    """
    sample = bounded(SAMPLE, optional)
    session = Session.start(sample, NODES)
    session.converge(sample, timeout=_DEPLOYED)
    console.print(session.watch.table())
    return Site(session.cluster)


def bounded(sample: Path, optional: Sequence[str] = (), path: Path = BOUNDED_SAMPLE) -> Path:
    """Write a copy of the sample, with the `optional` services, whose databases have volumes that can be full without
    filling the machine's disk. Return its path.
    """
    documents = deploy.documents(sample)
    for document in documents:
        if document["kind"] == "OpenStackControlPlane":
            document["spec"]["mariadb"]["storageClassName"] = BOUNDED
            document["spec"] |= {
                service: {"enabled": True, "replicas": 2, **services.FURTHER.get(service, {})} for service in optional
            }
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump_all(documents))
    return path


def standing() -> Site:
    """Return the cloud of an earlier run. Raises KubeError unless it is Ready."""
    cluster = existing_cluster()
    proof.standing(cluster, "openstack")
    return Site(cluster)


class Run:
    """A load on a cloud, and what scenarios did to it; the report is written after each."""

    def __init__(self, site: Site, console: Console, *, report: Path = REPORT) -> None:
        self.site, self.console, self._report = site, console, report
        self.access = Access(site)
        self.api = Api(self.access)
        connect = partial(proof.connect, site.kubernetes, site.namespace)
        nodes = sorted(node["metadata"]["name"] for node in site.items("nodes"))
        cabled = deploy.cabled(SAMPLE)
        self.guests = servers.guests(connect, nodes) if cabled else []
        self.optional = services.enabled(site)
        self.writers = self._writers(connect())
        self.load = Load(Journal(JOURNAL), [*self.writers, *self._readers()])

    def all(self, chosen: Sequence[int], tell: Callable[[Sequence[Result]], object] = len) -> list[Result]:
        """Return a result for each scenario; `tell` is called with all results so far after each. Raises KubeError if
        the cloud does not recover between two.
        """
        results: list[Result] = []
        with self.load:
            self._settle("the load at rest")
            for number in chosen:
                result = self.one(SCENARIOS[number])
                results.append(result)
                write(self._report, [result])
                tell(results)
                if not result.passed:
                    self._settle(f"the cloud after scenario {number}")
        return results

    def one(self, scenario: Scenario) -> Result:
        """Run a scenario and return its result."""
        result = Result(scenario.number, scenario.title)
        stage = Stage(self.site, self.access, self.load, self.writers, self.guests, result)
        self.console.print(f"[bold]==> {scenario.number}. {scenario.title}[/bold]", highlight=False)
        before = servers.boots(self.guests)
        began = now()
        try:
            scenario.act(stage)
        except Exception as error:  # a scenario that fails, with whatever error, must not end the run
            result.problems.append(f"{type(error).__name__}: {error}")
        ended = now()
        verify(self.load.journal, self.writers, result)
        verify_members(self.site, result)
        steady_nodes = {guest.node for guest in self.guests} - (scenario.restarts or set())
        self._servers(before, result, steady_nodes if scenario.restarts is not None else set())
        result.failed = self.load.journal.failed(began, ended)
        result.errors = self.load.journal.errors(began, ended)
        result.outages = self.load.journal.outages(began, ended, self.load.intervals)
        result.took = round(ended - began, 1)
        result.passed = not result.problems
        self._say(result)
        return result

    def _servers(self, before: dict[str, str], result: Result, steady_nodes: set[str]) -> None:
        try:
            verify_servers(self.api, self.guests, before, result, steady_nodes)
        except KubeError as error:
            result.problems.append(str(error))

    def _settle(self, subject: str) -> None:
        recovery = recovered(self.site, self.load, now(), _RECOVERY_TIMEOUT)
        if not recovery.is_complete:
            raise KubeError(f"{subject} is not well after {_RECOVERY_TIMEOUT:.0f} s: {recovery.troubles}")

    def _say(self, result: Result) -> None:
        mark = "[green]passed[/green]" if result.passed else "[red]failed[/red]"
        facts = (
            f"recovered in {result.seconds:.1f} s, lost {sum(result.lost.values())}, servers: {result.servers or '-'}"
        )
        self.console.print(f"    {mark}, {facts}; took {result.took:.0f} s", highlight=False)
        self.console.print(f"    failed requests: {result.failed or 'none'}", highlight=False, soft_wrap=True)
        worst = {kind: gap for kind, gap in result.outages.items() if gap >= 1}
        self.console.print(f"    outages: {worst or 'none'}", highlight=False, soft_wrap=True)
        for problem in result.problems:
            self.console.print(f"    [red]-[/red] {problem}", highlight=False, soft_wrap=True, markup=True)

    def _writers(self, conn: Any) -> list[Writer]:
        ports = writers.expose(self.site)
        host = self.site.kubernetes.address()
        conn.network.update_quota(conn.current_project_id, networks=-1, ports=-1)
        network = conn.network.find_network("chaos-ports") or conn.network.create_network(name="chaos-ports")
        subnet = conn.network.find_subnet("chaos-ports") or conn.network.create_subnet(
            name="chaos-ports", network_id=network.id, ip_version=4, cidr="10.64.0.0/16", is_dhcp_enabled=False
        )
        database, broker = self.site.secret("mariadb-credentials"), self.site.secret("rabbitmq-credentials")
        return [
            writers.Rows(host, ports["mariadb"], database["root"], writers.trust(self.site, "mariadb")),
            writers.Messages(
                host,
                ports["rabbitmq"],
                broker["default_user"],
                broker["default_pass"],
                writers.trust(self.site, "rabbitmq"),
            ),
            writers.Users(Api(self.access)),
            writers.Networks(Api(self.access)),
            writers.Ports(Api(self.access), network.id),
            writers.Images(Api(self.access)),
            *services.writers(self.optional, self.access, subnet.id),
        ]

    def _readers(self) -> list[Client]:
        following = [*self.guests[1:], *self.guests[:1]]
        return [
            *(servers.Floating(guest) for guest in self.guests),
            *(servers.Between(guest, peer) for guest, peer in zip(self.guests, following, strict=True)),
            *(servers.Console(Api(self.access), guest) for guest in self.guests),
            *services.readers(self.optional, self.site, self.access),
        ]


def write(path: Path, results: Sequence[Result]) -> None:
    """Write the results to the file, beside those of other scenarios that it has."""
    scenarios: dict[str, Any] = json.loads(path.read_text())["scenarios"] if path.exists() else {}
    scenarios |= {str(result.number): asdict(result) for result in results}
    ordered = {number: scenarios[number] for number in sorted(scenarios, key=int)}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"at": time.strftime("%Y-%m-%d"), "scenarios": ordered}, indent=2) + "\n")
