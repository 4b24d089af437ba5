"""OVN's northbound database in a backup and a restore."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.kube import HANDED_OVER, secret_data
from openstack_operator.plan import Object, Plan, Release, key
from openstack_operator.services.ovnnetwork import SERVICE as OVN
from openstack_operator.testing import context
from tests.planning import objects
from tests.unit.services import test_backup as backups
from tests.unit.services import test_backup_restore as restores

CLUSTER = "0f5fd7d2-93a5-4a3c-8f1c-b7f46ff9cf4c"
LABELS = {kube.KIND: "ovnnetwork", kube.INSTANCE: "ovn"}
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data-ovn-nb-0", "labels": {**LABELS, kube.COMPONENT: "nb"}},
    "spec": restores.SIZE,
}
RESULT = {"snapshot": "7c01", "bytes": 3 << 20, "stored": 500, "schema": "7.11.0", "seconds": 1}
ENTRY = {
    "name": "ovn",
    "snapshot": "7c01",
    "schema": "7.11.0",
    "claim": CLAIM,
    "image": {"nodeSelector": {"tier": "control"}},
    "labels": LABELS,
}


def network(*, ready: bool = True, **published: str) -> dict[str, Any]:
    container = {"image": "ovn:25.03", "securityContext": {"runAsUser": 102, "runAsGroup": 102}}
    count = 1 if ready else 0
    workload = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "ovn-nb", "generation": 1, "labels": {**LABELS, kube.COMPONENT: "nb"}},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
        "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": count, "updatedReplicas": 1},
    }
    other = {"apiVersion": "v1", "metadata": {"name": "data-ovn-sb-0", "labels": {**LABELS, kube.COMPONENT: "sb"}}}
    return {
        "name": "ovn",
        "workloads": [workload],
        "pods": [],
        "claims": [CLAIM, other],
        "published": {"northbound": "ssl:ovn-nb-0.ovn-nb:16641", **published},
    }


def backed_up(release: Release, *networks: Any, **changes: Any) -> Plan:
    return backups.planned(release, facts=backups.facts() | {"networks": list(networks)}, **changes)


def test_ovn_is_read_in_its_own_image(release: Release) -> None:
    made = backed_up(release, network(clientSecret="ovn-client-tls"))
    job = backups.jobs(made)["monday-northbound-ovn"]
    spec = job["spec"]["template"]["spec"]
    [first], [main] = spec["initContainers"], spec["containers"]
    assert (first["image"], main["image"]) == ("ovn:25.03", "mariadb:11.8")
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["tls"]["secret"]["secretName"] == "ovn-client-tls"
    # Who reads OVN needs no way into the repository, nor who stores a certificate of OVN's.
    assert "repository" not in {mount["name"] for mount in first["volumeMounts"]}
    assert "tls" not in {mount["name"] for mount in main["volumeMounts"]}
    door = objects(made)["NetworkPolicy", "monday-uses-ovn-nb"]
    assert door["spec"]["podSelector"]["matchLabels"] == {**LABELS, kube.COMPONENT: "nb"}


def test_a_backup_waits_for_a_ready_member(release: Release) -> None:
    assert not backups.jobs(backed_up(release, network(ready=False)))


def test_databases_that_others_run_are_named(release: Release) -> None:
    foreign = {**network(), "workloads": []}
    made = backed_up(release, foreign)
    missing = secret_data(objects(made)["Secret", "monday-contents"])["missing"]
    assert "OVNNetwork/ovn: this operator does not run its databases" in missing


def test_the_manifest_waits_for_networks_and_names_them(release: Release) -> None:
    first = backed_up(release, network())
    children = backups.kept(first, "monday-contents")
    pods = [backups.ended(backups.jobs(first)["monday-database-mariadb"], backups.RESULT)]
    assert "monday-manifest" not in backups.jobs(backups.planned(release, children=children, pods=pods))
    pods.append(backups.ended(backups.jobs(first)["monday-northbound-ovn"], RESULT))
    full = backups.planned(release, children=children, pods=pods)
    run = json.loads(secret_data(objects(full)["Secret", "monday-runs"])["manifest.json"])
    [entry] = run["manifest"]["networks"]
    assert {name: entry[name] for name in ("name", "snapshot", "schema", "labels")} == {
        name: ENTRY[name] for name in ("name", "snapshot", "schema", "labels")
    }
    done = backups.planned(
        release, children=children, pods=[*pods, backups.ended(backups.jobs(full)["monday-manifest"], backups.END)]
    )
    assert done.outcome.details["databases"][1] == {
        "kind": "OVNNetwork",
        "name": "ovn",
        "size": "3Mi",
        "stored": "1Mi",
        "gtid": None,
        "server": "7.11.0",
    }


def restored(release: Release, **changes: Any) -> Plan:
    manifest = {**restores.MANIFEST, "networks": [ENTRY]}
    return restores.planned(release, facts=restores.FACTS | {"manifest": manifest}, **changes)


def test_a_restore_fills_the_volume_of_the_first_member(release: Release) -> None:
    made = restored(release)
    claim = objects(made)["PersistentVolumeClaim", "data-ovn-nb-0"]
    assert HANDED_OVER in claim["metadata"]["annotations"]
    assert key(restores.SECRET) not in objects(made)
    job = next(obj for (kind, name), obj in objects(made).items() if kind == "Job" and "northbound" in name)
    spec = job["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"tier": "control"}
    [main], [first] = spec["containers"], spec["initContainers"]
    assert {"name": "data", "mountPath": "/var/lib/ovn", "subPath": "ovn"} in main["volumeMounts"]
    assert "repository" not in {mount["name"] for mount in main["volumeMounts"]}
    assert "data" not in {mount["name"] for mount in first["volumeMounts"]}
    assert ("Secret", "ovn-nb-restored") not in objects(made)


def test_neutron_writes_what_a_restored_database_lacks(release: Release) -> None:
    made = restored(release)
    jobs = [obj for (kind, name), obj in objects(made).items() if kind == "Job" and "northbound" in name]
    [database] = [obj for (kind, name), obj in objects(made).items() if kind == "Job" and "restore-mariadb" in name]
    pods = [backups.ended(jobs[0], {"cluster": CLUSTER})]
    # The other volume is not filled yet.
    assert ("Secret", "ovn-nb-restored") not in objects(restored(release, pods=pods))
    pods = [*pods, backups.ended(database, {"schemas": []})]
    mark = objects(restored(release, pods=pods))["Secret", "ovn-nb-restored"]
    assert mark["metadata"]["labels"] == LABELS
    children = {("Secret", "ovn-nb-restored"): mark}
    ctx = context(OVN.resource, {}, release=release, owner="ovn", children=children)
    network_plan = OVN.plan(ctx)
    assert network_plan.outcome.published["northboundRebuilt"] == CLUSTER
    # It stays as long as the database.
    assert ("Secret", "ovn-nb-restored") in objects(network_plan)


def test_the_first_nodes_of_a_restored_network_wait_for_northd(release: Release) -> None:
    """Before, the southbound database is empty: a controller would remove the flows of guests that ran on."""
    mark = {"metadata": {"name": "ovn-nb-restored"}, "data": {"cluster": base64.b64encode(CLUSTER.encode()).decode()}}

    def needed(children: dict[tuple[str, str], Any]) -> set[str]:
        ctx = context(OVN.resource, {}, release=release, owner="ovn", children=children)
        [chassis] = [step for step in OVN.plan(ctx) if ("DaemonSet", "ovn-chassis") in map(key, step.objects)]
        return restores.needs(chassis)

    assert "Northd" not in needed({})
    assert "Northd" in needed({("Secret", "ovn-nb-restored"): mark})
    # Programs that run on nodes change without it.
    running: Object = {"kind": "DaemonSet", "metadata": {"name": "ovn-chassis"}, "spec": {}, "status": {}}
    assert "Northd" not in needed({("Secret", "ovn-nb-restored"): mark, ("DaemonSet", "ovn-chassis"): running})


@pytest.mark.security
def test_neutron_gets_identities_alone(release: Release) -> None:
    encoded = {"cluster": "W0RFRkFVTFRdCg=="}
    forged = {"metadata": {"name": "ovn-nb-restored"}, "data": encoded}
    ctx = context(OVN.resource, {}, release=release, owner="ovn", children={("Secret", "ovn-nb-restored"): forged})
    assert "northboundRebuilt" not in OVN.plan(ctx).outcome.published
