"""The programs of Glance's pods besides its own: metadata definitions, and the size of the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from openstack_operator.plan import Object, Release
from openstack_operator.services.glance.model import GLANCE
from openstack_operator.services.glance.service import plan
from tests.planning import planner

from .programs import Machine, job, pods

PUBLISHED = {
    "MariaDB": {"host": "mariadb.openstack", "port": "3306"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api.openstack:5000/v3"},
}


# The third one sends the signal to stop, and lasts until the shell has ended.
SLEEP = """
[ "$(grep -c ^sleep "$CALLS")" = 3 ] || exit 0
exec > /dev/null 2>&1
kill -TERM "$PPID"
while kill -0 "$PPID"; do PATH=/usr/bin:/bin sleep 0.01; done
"""


planned = planner(plan, GLANCE, published=PUBLISHED)


@pytest.fixture
def definitions(release: Release) -> Object:
    return job(planned(release), "glance-metadefs-")


def test_definitions_are_completed_and_changes_of_users_remain(
    machine: Machine, definitions: Object, tmp_path: Path
) -> None:
    machine.program("glance-manage", "exit 4")
    folder = tmp_path / "definitions"
    folder.mkdir()
    (folder / "compute-vmware.json").touch()
    assert machine.run(definitions, METADEFS=folder).returncode == 4
    config = "--config-file /etc/glance/glance-api.conf"
    assert machine.calls() == [f"glance-manage {config} db load_metadefs --path {folder} --merge"]


def test_an_image_without_definitions_is_an_error(machine: Machine, definitions: Object, tmp_path: Path) -> None:
    machine.program("glance-manage")
    assert machine.run(definitions, METADEFS=tmp_path).returncode != 0
    assert machine.calls() == []


def test_a_cache_that_cannot_be_pruned_is_cleaned_and_tried_again(machine: Machine, release: Release) -> None:
    """The signal to stop ends the container at once."""
    made = planned(release, {"imageCache": {"enabled": True}})
    [cache] = [each for each in pods(made, "glance-api")["containers"] if each["name"] == "cache"]
    machine.program("glance-cache-pruner", "exit 1")
    machine.program("glance-cache-cleaner", "exit 1")
    machine.program("sleep", SLEEP)
    assert machine.run(cache).returncode == 0
    assert machine.calls() == [*["sleep 300", "glance-cache-pruner", "glance-cache-cleaner"] * 2, "sleep 300"]
