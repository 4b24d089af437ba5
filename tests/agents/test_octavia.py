"""Probes and the hook of Octavia's driver agent, beside tables as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from openstack_operator.plan import Object, Release
from openstack_operator.services.octavia.model import OCTAVIA
from openstack_operator.services.octavia.service import plan
from openstack_operator.testing import context

from .programs import Machine, container, job, planned

CONTRACTS = {
    "MariaDB": {"host": "db", "port": "3306"},
    "Memcached": {"servers": "m:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
    "OVNNetwork": {"northbound": "ssl:nb-0:16641,ssl:nb-1:16641", "southbound": "ssl:sb-0:16642,ssl:sb-1:16642"},
}
SOCKETS = ("status", "stats", "get")
LISTENING = "0000000000000000: 00000002 00000000 00010000 0001 01 71846 /var/run/octavia/{}.sock"
PROCESSES = ("status_listener", "stats_listener", "get_listener", "provider_agent -- ovn")
# A connection from a pod to a database, and an API that listens: everywhere, or behind its TLS proxy.
CONNECTED = "   1: 0501F40A:9C40 0601F40A:{:04X} 01 00000000:00000000 00:00000000 00000000 42437        0 1"
ANYWHERE = "   0: 00000000:2694 00000000:0000 0A 00000000:00000000 00:00000000 00000000 42437        0 1"
LOOPBACK = ANYWHERE.replace("00000000:2694", "0100007F:2694")
IPV6 = ANYWHERE.replace("00000000:2694 00000000:0000", f"{'0' * 32}:2694 {'0' * 32}:0000")


@pytest.fixture
def agent(release: Release) -> Object:
    """The container beside the API."""
    made = plan(context(OCTAVIA, {}, release=release, published=CONTRACTS))
    return container(planned(made, "Deployment", "octavia-api"), "driver-agent")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"TABLES": str(tmp_path / "tables"), "PROCESSES": str(tmp_path / "processes")})


def lines(machine: Machine, file: str, *content: str) -> None:
    machine.write(f"tables/{file}", "".join(f"{line}\n" for line in content))


def probe(machine: Machine, agent: Object, kind: str) -> str:
    """What the probe complains of; empty if it succeeds."""
    result = machine.run(agent, command=agent[kind]["exec"]["command"])
    assert bool(result.returncode) == bool(result.stdout)
    return result.stdout


def test_driver_agent_is_ready_when_all_its_sockets_listen(machine: Machine, agent: Object) -> None:
    lines(machine, "unix", *(LISTENING.format(name) for name in SOCKETS))
    assert probe(machine, agent, "readinessProbe") == ""
    for missing in SOCKETS:
        lines(machine, "unix", *(LISTENING.format(name) for name in SOCKETS if name != missing))
        assert f"/var/run/octavia/{missing}.sock" in probe(machine, agent, "readinessProbe")
    # A connection to a socket that no longer listens.
    lines(machine, "unix", *(LISTENING.format(name).replace(" 00010000 ", " 00000000 ") for name in SOCKETS))
    assert probe(machine, agent, "readinessProbe")


def test_driver_agent_has_started_when_both_databases_are_connected(machine: Machine, agent: Object) -> None:
    lines(machine, "unix", *(LISTENING.format(name) for name in SOCKETS))
    lines(machine, "tcp", CONNECTED.format(16641))
    assert "port 16642" in probe(machine, agent, "startupProbe")
    lines(machine, "tcp6", CONNECTED.format(16642))
    assert probe(machine, agent, "startupProbe") == ""
    lines(machine, "tcp", CONNECTED.format(16641).replace(" 01 ", " 02 "))
    assert "port 16641" in probe(machine, agent, "startupProbe")


def test_driver_agent_is_restarted_when_a_process_of_it_is_gone(machine: Machine, agent: Object) -> None:
    for number, name in enumerate(PROCESSES, 7):
        machine.write(f"processes/{number}/cmdline", f"octavia-driver-agent - {name}\0\0")
    machine.write("processes/99/cmdline", "grep\0-aqs\0^octavia-driver-agent - provider_agent\0")
    assert probe(machine, agent, "livenessProbe") == ""
    for number, name in enumerate(PROCESSES, 7):
        text = f"octavia-driver-agent - {name}\0\0"
        # As the kernel shows one that ended and was not waited for.
        machine.write(f"processes/{number}/cmdline", "")
        assert name.split()[0] in probe(machine, agent, "livenessProbe")
        machine.write(f"processes/{number}/cmdline", text)


@pytest.mark.parametrize("line", [ANYWHERE, LOOPBACK, IPV6])
def test_driver_agent_ends_after_the_api_of_its_pod(machine: Machine, agent: Object, line: str) -> None:
    lines(machine, "tcp6" if line == IPV6 else "tcp", line)
    machine.program("sleep", f'[ "$1" = 5 ] || rm {machine.home}/tables/*')
    hook = machine.run(agent, command=agent["lifecycle"]["preStop"]["exec"]["command"])
    assert (hook.returncode, hook.stderr) == (0, "")
    assert machine.calls("sleep") == ["5", "0.2"]


def test_driver_agent_does_not_wait_for_an_api_that_has_ended(machine: Machine, agent: Object) -> None:
    lines(machine, "tcp", ANYWHERE.replace(" 0A ", " 06 "))
    machine.run(agent, command=agent["lifecycle"]["preStop"]["exec"]["command"])
    assert machine.calls("sleep") == ["5"]


def test_a_purge_removes_what_was_deleted(machine: Machine, release: Release) -> None:
    for folder in ("octavia", "octavia/common", "octavia/controller", "octavia/controller/housekeeping"):
        machine.module(f"{folder}/__init__.py", "")
    machine.module("octavia/common/service.py", "def prepare_service():\n    print('configured')\n")
    cleanup = "class DatabaseCleanup:\n    def cleanup_load_balancers(self):\n        print('removed')\n"
    machine.module("octavia/controller/housekeeping/house_keeping.py", cleanup)
    made = plan(context(OCTAVIA, {}, release=release, published=CONTRACTS))
    cron_job = planned(made, "CronJob", "octavia-purge")
    result = machine.run(container(cron_job["spec"]["jobTemplate"]))
    assert (result.returncode, result.stdout) == (0, "configured\nremoved\n"), result.stderr


DRIVER = """
import os, types
from octavia_lib.api.drivers import data_models, exceptions

class Find:
    def __init__(self, found):
        self.found = found
    def execute(self, check_error=False):
        return self.found

class Nb:
    written = []
    def db_find_rows(self, table, condition):
        known = [*os.environ[table].split(), *(self.written if table == "Load_Balancer" else ())]
        return Find([types.SimpleNamespace(uuid="row-of-" + name) for name in known if name == condition[2]])
    def db_destroy(self, table, row):
        print("removed", table, row)
        return Find(None)

class DriverLib:
    calls = 0
    def get_loadbalancer(self, id):
        self.calls += 1
        if self.calls < 3:
            raise exceptions.DriverError

class Helper:
    ovn_nbdb_api = Nb()
    _octavia_driver_lib = DriverLib()
    def get_octavia_lbs(self, client, provider):
        assert (client, provider) == ("client", "ovn")
        for word in os.environ["BALANCERS"].split():
            name, network, status = word.split(":")
            yield types.SimpleNamespace(id=name, vip_network_id=network, provisioning_status=status)

class OvnProviderDriver:
    _ovn_helper = Helper()
    def do_sync(self, id):
        assert [*data_models.UnsetType()] == []
        self._ovn_helper.ovn_nbdb_api.written.append(id)
        status = "ERROR" if id == "failing" else "ACTIVE"
        if id == "failing":
            self._ovn_helper.delete_port("port")
        self._ovn_helper._update_status_to_octavia({"loadbalancers": [{"id": id, "provisioning_status": status}]})
        print("synced", id)
"""


def test_only_what_ovn_lacks_is_written_once_it_has_the_network(machine: Machine, release: Release) -> None:
    packages = ("octavia", "octavia/common", "octavia_lib", "octavia_lib/api", "octavia_lib/api/drivers")
    for folder in (*packages, "ovn_octavia_provider", "ovn_octavia_provider/common"):
        machine.module(f"{folder}/__init__.py", "")
    machine.module("octavia_lib/api/drivers/exceptions.py", "class DriverError(Exception):\n    pass\n")
    machine.module("octavia_lib/api/drivers/data_models.py", "class UnsetType:\n    pass\n")
    machine.module("octavia/common/service.py", "def prepare_service():\n    pass\n")
    machine.module("ovn_octavia_provider/driver.py", DRIVER)
    machine.module("ovn_octavia_provider/common/clients.py", "def get_octavia_client():\n    return 'client'\n")
    machine.module("ovn_octavia_provider/common/utils.py", "def ovn_name(name):\n    return 'neutron-' + name\n")
    # It runs until it is ended.
    agent = 'echo "agents: <$OS_DRIVER_AGENT__ENABLED_PROVIDER_AGENTS>"\nexec tail -f /dev/null'
    machine.program("octavia-driver-agent", agent)
    contract = {**CONTRACTS["OVNNetwork"], "northboundRebuilt": "one"}
    made = plan(context(OCTAVIA, {}, release=release, published={**CONTRACTS, "OVNNetwork": contract}))
    restore = job(made, "octavia-restore")
    machine.env |= {
        "BALANCERS": "there:n:ACTIVE failing:n:ACTIVE lost:n:ACTIVE late:m:ACTIVE pending:n:PENDING_UPDATE",
        "Load_Balancer": "there",
        "Logical_Switch": "neutron-n",
    }
    result = machine.run(restore)
    assert result.returncode == 1, result.stderr
    lines = [line for line in result.stdout.splitlines() if "agents" not in line]
    assert lines == [
        "synced failing",
        "removed Load_Balancer row-of-failing",
        "load balancer failing: writing it into OVN failed",
        "synced lost",
        "load balancer lost: written into OVN",
        "load balancer late: OVN does not have its network yet",
        "load balancer pending: it is PENDING_UPDATEand is released ten minutes after its last change",
    ]
    assert result.stderr.endswith("load balancers that are not in OVN yet: 3\n")
    machine.env |= {
        "BALANCERS": "there:n:ACTIVE lost:n:ACTIVE late:m:ACTIVE",
        "Load_Balancer": "there lost",
        "Logical_Switch": "neutron-n neutron-m",
    }
    result = machine.run(restore)
    assert (result.returncode, result.stderr) == (0, "")
    assert "synced late" in result.stdout
