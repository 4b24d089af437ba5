"""The program that completes names in the addresses of OVN, beside a resolver that knows some."""

from __future__ import annotations

from pathlib import Path

import pytest

from openstack_operator.plan import Object, Release
from openstack_operator.services.neutron.model import NEUTRON
from openstack_operator.services.neutron.service import plan
from openstack_operator.testing import context
from tests.unit.services.test_neutron import PUBLISHED

from .programs import Machine, container, planned

GETENT = """
case $2 in
ovn-nb.ovn-system)
    echo "10.0.0.1 STREAM ovn-nb.ovn-system.svc.cluster.local"
    echo "10.0.0.1 DGRAM" ;;
192.0.2.1) echo "192.0.2.1 STREAM 192.0.2.1" ;;
*) exit 2 ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.program("getent", GETENT)
    made.program("neutron-ovn-maintenance-worker", 'echo "$OS_OVN__OVN_NB_CONNECTION $OS_OVN__OVN_SB_CONNECTION"')
    return made


def worker(release: Release, northbound: str, southbound: str) -> Object:
    ovn = {"nbConnection": northbound, "sbConnection": southbound}
    made = plan(context(NEUTRON, {"ovn": ovn}, release=release, published=PUBLISHED))
    return container(planned(made, "Deployment", "neutron-ovn-maintenance-worker"))


def test_names_are_completed_and_others_stay(machine: Machine, release: Release) -> None:
    main = worker(release, "tcp:ovn-nb.ovn-system:6641,ssl:[::1]:16641", "tcp:192.0.2.1:6642,tcp:nowhere:6642")
    assert machine.run(main).stdout.split() == [
        "tcp:ovn-nb.ovn-system.svc.cluster.local:6641,ssl:[::1]:16641",
        "tcp:192.0.2.1:6642,tcp:nowhere:6642",
    ]
