"""What users of c5c3's kinds look for in a status: conditions follow from what they are named after, and addresses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.field_effects import conditions_without, resulting_leaves
from tests.unit.services.test_c5c3_services import BY_SECRET, MINE

HOST = "openstack.svc.cluster.local"
IN_CEPH = {"backends": [{"name": "a", "type": "ceph", "rbd": BY_SECRET["storage"]["rbd"]}]}


@pytest.mark.parametrize(
    ("kind", "condition", "spec", "missing"),
    [
        pytest.param(
            kind,
            condition,
            spec,
            missing,
            id=f"{kind} {condition}",
            marks=pytest.mark.proves(kind, f"status.conditions[{condition}]", "status.conditions[Ready]"),
        )
        for kind, condition, spec, missing in (
            ("Keystone", "DatabaseReady", {}, "MariaDBDatabase/keystone-db"),
            ("Keystone", "FernetKeysReady", {}, "Secret/keystone-fernet-keys"),
            ("Glance", "DatabaseReady", {}, "MariaDBDatabase/glance-db"),
            ("Glance", "CephConnected", BY_SECRET, "Secret/glance-ceph-rbd"),
            ("Placement", "DatabaseReady", {}, "MariaDBDatabase/placement-db"),
            ("Neutron", "OVNConnected", {}, "uses OVNNetwork/ovn"),
            ("Nova", "APIReady", {}, "Deployment/nova-api"),
            ("Nova", "SchedulerReady", {}, "StatefulSet/nova-scheduler"),
            ("Nova", "ConductorReady", {}, "StatefulSet/nova-conductor"),
            ("Cinder", "CephConnected", IN_CEPH, "Secret/cinder-ceph-a"),
            ("OVNCluster", "NorthboundReady", {}, "StatefulSet/ovn-nb"),
            ("OVNCluster", "SouthboundReady", {}, "StatefulSet/ovn-sb"),
            ("OVNCluster", "ControllersReady", {}, "DaemonSet/ovn-chassis"),
            ("OVNCluster", "ControllersReady", {}, "DaemonSet/ovn-gateway"),
            ("OVNCluster", "ControllersReady", {}, "DaemonSet/ovn-controller"),
            ("Cortex", "PipelinesReady", {}, "Deployment/cortex-api"),
            ("Tempest", "RunsReady", {"schedule": "0 2 * * *"}, "CronJob/tempest-run"),
            ("ControlPlane", "KeystoneReady", {}, "Keystone/keystone"),
            ("OpenStackControlPlane", "KeystoneReady", {}, "Keystone/keystone"),
        )
    ],
)
def test_a_condition_says_what_it_is_named_after(kind: str, condition: str, spec: dict[str, Any], missing: str) -> None:
    there, gone = (conditions_without(kind, spec, MINE, missing=each) for each in ("", missing))
    assert (there[condition].ready, there["Ready"].ready) == (True, True)
    assert (gone[condition].ready, gone["Ready"].ready) == (False, False)


@pytest.mark.parametrize(
    ("kind", "endpoint"),
    [
        pytest.param(kind, endpoint, id=kind, marks=pytest.mark.proves(kind, "status.endpoint"))
        for kind, endpoint in (
            ("Keystone", f"http://keystone.{HOST}:5000/v3"),
            ("Glance", f"http://glance.{HOST}:9292"),
            ("Placement", f"http://placement.{HOST}:8778"),
            ("Neutron", f"http://neutron.{HOST}:9696"),
            ("Nova", f"http://nova.{HOST}:8774/v2.1"),
            ("Cinder", f"http://cinder.{HOST}:8776/v3"),
            ("Cortex", f"http://cortex.{HOST}:8080"),
        )
    ],
)
def test_an_endpoint_is_where_clients_call(kind: str, endpoint: str) -> None:
    found = resulting_leaves(kind, {})
    assert found["endpoint"] == endpoint
    name, port = endpoint.removeprefix("http://").partition(".")[0], int(endpoint.rsplit(":", 1)[1].partition("/")[0])
    ports = [
        value for field, value in found.items() if field.startswith(f"Service/{name} ") and field.endswith("].port")
    ]
    assert ports == [port]
