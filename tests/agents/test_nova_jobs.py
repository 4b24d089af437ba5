"""The jobs that make Nova's schemas and the map of cells, against a nova-manage that keeps a map."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Plan, Release
from tests.agents.nova_plan import planned_nova

from .programs import Machine, job

MANAGE = '''
import json, os, sys
from pathlib import Path

def table(*rows):
    width = max(len(word) for row in rows for word in row)
    line = "+".join(["", *("-" * (width + 2) for _ in rows[0]), ""])
    cells = ["|".join(["", *(f" {word:<{width}} " for word in row), ""]) for row in rows]
    print(line, cells[0], line, *cells[1:], line, sep="\\n")

def answer(state, words):
    """As nova.cmd.manage does: names of cells are not unique, pairs of URLs are."""
    options = dict(zip(words[2::2], words[3::2]))
    urls = [options.get("--transport-url"), options.get("--database_connection")]
    cells = state.setdefault("cells", {})
    match words[:2]:
        case ["cell_v2", "list_cells"]:
            table(["Name", "UUID", "Transport URL"], *([name, uuid, "none:/"] for uuid, (name, _) in cells.items()))
        case ["cell_v2", "create_cell"]:
            if urls in [entry for _, entry in cells.values()]:
                return 2
            cells[f"uuid-{len(cells)}"] = [options["--name"], urls]
        case ["cell_v2", "update_cell"]:
            if options["--cell_uuid"] not in cells:
                return 1
            cells[options["--cell_uuid"]][1] = urls
        case ["cell_v2", "discover_hosts"]:
            if not state["arrivals"]:
                print("the job polls although no node is missing")
                return 1
            state.setdefault("hosts", []).extend(state["arrivals"].pop(0))
        case ["cell_v2", "list_hosts"]:
            table(["Cell Name", "Cell UUID", "Hostname"], *(["cell1", "uuid", host] for host in state["hosts"]))
    return 0

def main():
    files = [word.removeprefix("--config-file=") for word in sys.argv if word.startswith("--config-file=")]
    words = [word for word in sys.argv[1:] if not word.startswith("--config-file=")]
    with open(os.environ["CALLS"], "a") as calls:
        print(" ".join(words[:2]), *(Path(file).name for file in files), file=calls)
    path = Path(os.environ["STATE"], "nova.json")
    state = json.loads(path.read_text()) if path.exists() else {}
    if state.get("failing") == words[:2]:
        print("no connection")
        return 1
    status = answer(state, words)
    path.write_text(json.dumps(state | {"last": words}))
    return status
'''


class Jobs:
    """The planned jobs, with a fake of Nova."""

    def __init__(self, machine: Machine, cloud: Plan, folder: Path) -> None:
        self.machine, self._cloud, self._folder = machine, cloud, folder
        machine.module("nova/__init__.py", "")
        machine.module("nova/cmd/__init__.py", "")
        machine.module("nova/cmd/manage.py", MANAGE)
        [text] = [
            kube.secret_data(each)["cell.conf"]
            for each in cloud.objects
            if "cell1-setup" in each["metadata"]["name"] and each["kind"] == "Secret"
        ]
        self.write_cell(text)
        self.cell_conf = text

    def write_cell(self, text: str) -> None:
        (self._folder / "cell.conf").write_text(text)

    @property
    def state(self) -> dict[str, Any]:
        return json.loads((self.machine.state / "nova.json").read_text())

    def set(self, **state: Any) -> None:
        path = self.machine.state / "nova.json"
        old = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(old | state))

    def run(self, name: str) -> tuple[int, str]:
        container = job(self._cloud, f"nova-{name}")
        process = self.machine.run(container, CONFIG_DIRECTORY=self._folder)
        return process.returncode, process.stdout + process.stderr


@pytest.fixture
def jobs(machine: Machine, release: Release, tmp_path: Path) -> Jobs:
    folder = tmp_path / "etc"
    folder.mkdir()
    return Jobs(machine, planned_nova(release, nodes=3), folder)


def test_the_schemas_come_before_the_entry_of_cell0_and_its_own(jobs: Jobs) -> None:
    status, output = jobs.run("db-sync")
    assert status == 0, output
    assert jobs.machine.calls() == ["api_db sync nova.conf", "cell_v2 map_cell0 nova.conf", "db sync nova.conf"]
    assert jobs.state["last"] == ["db", "sync", "--local_cell"]


def test_a_command_that_fails_ends_the_job(jobs: Jobs) -> None:
    jobs.set(failing=["cell_v2", "map_cell0"])
    status, output = jobs.run("db-sync")
    assert status != 0
    assert "no connection" in output
    assert "nova-manage cell_v2 map_cell0 failed" in output
    assert jobs.machine.calls()[-1] == "cell_v2 map_cell0 nova.conf"


def test_a_cell_is_created_once_and_then_updated(jobs: Jobs) -> None:
    """Its schema is that of its own configuration, and the map has the URLs of the plan."""
    jobs.set(cells={"uuid-0": ["cell0", ["none:/", "template"]], "uuid-1": ["cell11", ["bus11", "database11"]]})
    assert jobs.run("cell1-setup")[0] == 0
    assert jobs.machine.calls() == [
        "db sync nova.conf cell.conf",
        "cell_v2 list_cells nova.conf",
        "cell_v2 create_cell nova.conf",
    ]
    name, (bus, database) = jobs.state["cells"]["uuid-2"]
    assert name == "cell1"
    assert f"transport_url = {bus}\n" in jobs.cell_conf
    assert f"connection = {database}\n" in jobs.cell_conf

    jobs.machine.forget_calls()
    jobs.write_cell(jobs.cell_conf.replace(database, f"{database}&new=1"))
    assert jobs.run("cell1-setup")[0] == 0
    assert jobs.machine.calls()[-1] == "cell_v2 update_cell nova.conf"
    assert jobs.state["cells"] == {
        "uuid-0": ["cell0", ["none:/", "template"]],
        "uuid-1": ["cell11", ["bus11", "database11"]],
        "uuid-2": ["cell1", [bus, f"{database}&new=1"]],
    }


def test_an_interrupted_setup_of_a_cell_is_completed(jobs: Jobs) -> None:
    jobs.set(failing=["cell_v2", "create_cell"])
    assert jobs.run("cell1-setup")[0] != 0
    jobs.set(failing=None)
    assert jobs.run("cell1-setup")[0] == 0
    assert [name for name, _ in jobs.state["cells"].values()] == ["cell1"]
    assert jobs.run("cell1-setup")[0] == 0
    assert [name for name, _ in jobs.state["cells"].values()] == ["cell1"]


def test_discovery_ends_with_the_last_node(jobs: Jobs) -> None:
    """Each look admits those that have arrived."""
    jobs.set(arrivals=[["node1"], ["node2"], [], ["node3"]])
    status, output = jobs.run("discover-hosts")
    assert status == 0, output
    assert jobs.state["hosts"] == ["node1", "node2", "node3"]
    look = ["cell_v2 discover_hosts nova.conf", "cell_v2 list_hosts nova.conf"]
    assert jobs.machine.calls() == [*look, "sleep 1", *look, "sleep 1", *look, "sleep 1", *look]


def test_more_nodes_than_expected_are_enough(jobs: Jobs) -> None:
    jobs.set(arrivals=[["node1", "node2", "node3", "node4"]])
    assert jobs.run("discover-hosts")[0] == 0
