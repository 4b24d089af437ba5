"""Tobiko: resources that one run makes, and that a later one finds as they were, whatever happened to the cloud."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..outcomes import Expectation, Expectations, Outcome
from . import packages
from .ground import ADMINISTRATOR, HOME, IMAGE, Ground
from .runs import Run, client_environment, log_client, run_client

_FOLDER = "tobiko/tests/scenario"
_SSH = "logs into its server by SSH, which the small guest does not have"
_NODES = "logs into the nodes of the cloud by SSH, as on clouds of TripleO and of OpenShift"
_ADVANCED = "boots an Ubuntu that Tobiko changes, which needs the Internet and hundreds of megabytes"
EXPECTED = Expectations(
    excluded=(
        Expectation(r"^manila\.", "the cloud has no Manila"),
        Expectation(r"^designate\.", _NODES),
        Expectation(r"^octavia\.", "its servers run programs that Tobiko starts by SSH"),
        Expectation(r"\.AdvancedServerTest\.|\.test_trunk\.|\.test_qos\.|\.AdvancedExternalPortTest\.", _ADVANCED),
        Expectation(r"\.BackgroundProcessTest\.", _ADVANCED),
        Expectation(
            r"\.FloatingIPWithPortSecurityTest\.test_ping$|\.test_ssh$|\.NetworkTest\.test_ping$|HostNetworkTest\.test_ping$",
            _SSH,
        ),
        Expectation(r"\.(Same|Different)HostNetworkTest\.", "it moves servers and then logs into them"),
        Expectation(r"\.test_ping_with_net_mtu$|\.test_net_mtu_write$", _SSH),
        Expectation(r"\.test_port_ips$|\.test_ping_subnet_gateways$|\.test_ping_port$", _SSH),
        Expectation(r"\.ExtraDhcpOpts\w+\.|\.NoFipPortTest\.", _SSH),
        Expectation(r"\.test_internal_router_ipv\d_interface_is_reachable$", _SSH),
        Expectation(r"\.CirrosServerTest\.test_[2-7]_", "a second server, by SSH, sees whether this one answers"),
        Expectation(r"\.TestFloatingIPLogging\.|\.StatelessSecurityGroup\w*Test\.|RouterNamespaceTest\.", _NODES),
        Expectation(r"\.test_router_is_scheduled_on_l3_agents$", _NODES),
    ),
    skipped=(
        Expectation(
            r"missing \d agent\(s\) with binary='neutron-(l3|openvswitch)-agent'",
            "OVN routes and switches without agents",
        ),
    ),
)
_CONF = f"""[DEFAULT]
log_dir = {HOME}/tobiko
[keystone]
cloud_name = {ADMINISTRATOR}
[cirros]
image_name = {IMAGE}
"""


def scenarios(ground: Ground, word: str, *, makes: bool) -> Run:
    """Run the scenarios that are not excluded. Unless this one `makes` resources, those of an earlier run are looked
    at, and missing ones are a failure.
    """
    folder = packages.environment(packages.TOBIKO)
    site, work = packages.site_packages(folder), HOME / "tobiko"
    work.mkdir(parents=True, exist_ok=True)
    (HOME / ".tobiko").mkdir(exist_ok=True)
    (HOME / ".tobiko" / "tobiko.conf").write_text(_CONF, encoding="utf-8")
    # Each of its workers says what pytest will change.
    variables = client_environment(ground) | {"OS_CLOUD": ADMINISTRATOR, "PYTHONWARNINGS": "ignore"}
    variables |= {} if makes else {"TOBIKO_PREVENT_CREATE": "yes"}
    pytest = (str(folder / "bin" / "python"), "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={site}")
    listed = run_client((*pytest, "--collect-only", "-q", str(site / _FOLDER)), work, variables)
    tests = {name(each): each for each in re.findall(r"^\S*tobiko/tests/scenario/\S+::\S+$", listed, re.MULTILINE)}
    chosen, excluded = split(tests, EXPECTED.excluded)
    results, log = work / f"{word}.xml", HOME / f"tobiko-{word}.log"
    ids = [f"{site}/{each[each.index(_FOLDER) :]}" for each in (tests[test] for test in chosen)]
    seconds = log_client((*pytest, f"--junit-xml={results}", *ids), work, variables, log)
    return Run(outcome(results, excluded), [*tests], log, seconds)


def name(identifier: str) -> str:
    """Return the name of a test as an import has it, without the folder of all."""
    return identifier.partition(f"{_FOLDER}/")[2].replace(".py::", ".").replace("::", ".").replace("/", ".")


def split(tests: Iterable[str], excluded: Sequence[Expectation]) -> tuple[list[str], list[str]]:
    """Return the tests to run, and those that are excluded."""
    pattern = "|".join(each.pattern for each in excluded)
    names = [*tests]
    return [each for each in names if not re.search(pattern, each)], [
        each for each in names if re.search(pattern, each)
    ]


def outcome(results: Path, excluded: Iterable[str]) -> Outcome:
    """Return what pytest wrote of its tests."""
    found = Outcome(excluded=[*excluded])
    for test, word, reason in _results(results):
        if word == "skipped":
            found.skipped[test] = reason
        else:
            getattr(found, word).append(test)
    return found


def _results(path: Path) -> Iterator[tuple[str, str, str]]:
    for case in ET.parse(path).iter("testcase"):
        group = case.get("classname", "").partition(f"{_FOLDER.replace('/', '.')}.")[2]
        skipped = case.find("skipped")
        is_failed = case.find("failure") is not None or case.find("error") is not None
        word = "failed" if is_failed else "passed" if skipped is None else "skipped"
        yield f"{group}.{case.get('name')}", word, "" if skipped is None else skipped.get("message", "")
