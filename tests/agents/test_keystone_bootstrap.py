"""The job that makes Keystone's schema and its first administrator."""

from __future__ import annotations

from openstack_operator.plan import Object, Release
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan
from openstack_operator.testing import context

from .programs import Machine, job

PUBLISHED = {
    "MariaDB": {"host": "mariadb.openstack", "port": "3306"},
    "Memcached": {"servers": "memcached-0:11211"},
}
# It reads each value from the environment, as keystone.cmd.cli.BootStrap does.
MANAGE = """
case $1 in
db_sync) [ ! -e "$STATE/failing" ] || exit 1; : > "$STATE/schema" ;;
bootstrap) [ -e "$STATE/schema" ] && env | grep ^OS_BOOTSTRAP_ | sort > "$STATE/administrator" ;;
esac
"""
PASSWORD = 'a\'b "$(reboot)" `x` \\ $HOME'


def bootstrap(release: Release) -> Object:
    spec = {"region": "Region One", "bootstrap": {"adminUser": "root", "adminProject": "operators"}}
    return job(
        plan(context(KEYSTONE, spec, release=release, published=PUBLISHED, owner="identity")), "identity-bootstrap"
    )


def test_the_administrator_has_the_names_of_the_spec(machine: Machine, release: Release) -> None:
    """A second run is the same."""
    machine.program("keystone-manage", MANAGE)
    for _ in range(2):
        machine.forget_calls()
        process = machine.run(bootstrap(release), OS_BOOTSTRAP_PASSWORD=PASSWORD)
        assert process.returncode == 0, process.stderr
        assert machine.calls() == ["keystone-manage db_sync", "keystone-manage bootstrap"]
        assert (machine.state / "administrator").read_text().splitlines() == [
            f"OS_BOOTSTRAP_PASSWORD={PASSWORD}",
            "OS_BOOTSTRAP_PROJECT_NAME=operators",
            "OS_BOOTSTRAP_REGION_ID=Region One",
            "OS_BOOTSTRAP_SERVICE_NAME=identity",
            "OS_BOOTSTRAP_USERNAME=root",
        ]


def test_without_a_schema_there_is_no_administrator(machine: Machine, release: Release) -> None:
    machine.program("keystone-manage", MANAGE)
    (machine.state / "failing").touch()
    assert machine.run(bootstrap(release), OS_BOOTSTRAP_PASSWORD=PASSWORD).returncode != 0
    assert machine.calls() == ["keystone-manage db_sync"]
