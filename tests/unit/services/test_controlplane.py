"""The control plane: one resource a service, everything that is not supported said at once, phases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openstack_operator.api import Ref
from openstack_operator.plan import (
    READY,
    Context,
    Object,
    Plan,
    Release,
    ResolvedRef,
    UnsupportedError,
    key,
    progressing,
)
from openstack_operator.services.controlplane.model import CEPH, CONTROL_PLANE, ControlPlaneSpec
from openstack_operator.services.controlplane.service import SERVICES_BY_PHASE, phase, plan
from openstack_operator.testing import context

BUILT = ("mariadb", "rabbitmq", "memcached", "keystone", "glance", "placement", "ovn", "neutron", "nova")


def cloud(release: Release, spec: dict[str, Any] | None = None, **changes: Any) -> Context[ControlPlaneSpec]:
    """Without encryption, which has a file of its own."""
    return context(
        CONTROL_PLANE, {"tls": {"enabled": False}, **(spec or {})}, release=release, owner="cloud", **changes
    )


def children(planned: Plan) -> dict[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in planned.objects}


def test_every_service_that_is_built_runs_by_default(release: Release) -> None:
    planned = plan(cloud(release))
    assert tuple(children(planned)) == BUILT
    # All are made at once; their own references put them in order.
    assert all(step.after == () for step in planned)


def test_a_service_that_is_turned_off_is_left_out(release: Release) -> None:
    planned = plan(cloud(release, {"nova": {"enabled": False}}))
    assert set(BUILT) - set(children(planned)) == {"nova"}


@pytest.mark.proves("OpenStackControlPlane", "spec.networkBackend")
def test_a_child_merges_its_template_with_settings_of_the_cloud(release: Release) -> None:
    spec = {
        "region": "North",
        "expose": {"type": "NodePort", "host": "cloud.example.org"},
        "keystone": {"replicas": 3, "fernet": {"maxActiveKeys": 5}, "nodeSelector": {"rack": "a"}},
        "placement": {"expose": {"type": "ClusterIP"}},
    }
    made = children(plan(cloud(release, spec)))
    assert made["keystone"]["spec"] == {
        "region": "North",
        "release": "2025.1",
        "imageProfile": "debian",
        "expose": {"type": "NodePort", "host": "cloud.example.org"},
        "replicas": 3,
        "fernet": {"maxActiveKeys": 5},
        "nodeSelector": {"rack": "a"},
    }
    assert made["placement"]["spec"]["expose"] == {"type": "ClusterIP"}
    assert made["mariadb"]["spec"] == {"release": "2025.1", "imageProfile": "debian"}
    assert made["neutron"]["spec"]["mechanism"] == "ovn"


def test_a_childs_name_is_what_the_others_refer_to_by_default(release: Release) -> None:
    checks = 0
    for child in plan(cloud(release)).objects:
        checks += 1
        assert child["metadata"]["namespace"] == "openstack"
        assert child["kind"].lower() in {child["metadata"]["name"], f"{child['metadata']['name']}network"}
    assert checks


WITH_CEPH: dict[Ref, ResolvedRef] = {ref: ResolvedRef(verdict=progressing("not yet")) for ref in (CEPH,)}
CINDER: dict[str, Any] = {"cinder": {"enabled": True}}


def storage(planned: Plan) -> dict[str, Any]:
    """What the resources say about storage."""
    made = {name: obj["spec"] for name, obj in children(planned).items()}
    return {
        "glance": made["glance"].get("storageType"),
        "nova": made["nova"].get("compute", {}).get("storageType"),
        "cinder": [backend["type"] for backend in made["cinder"].get("backends", ())],
    }


def test_a_new_cloud_takes_the_ceph_that_it_finds(release: Release) -> None:
    nowhere = {"glance": None, "nova": None, "cinder": []}
    everywhere = {"glance": "ceph", "nova": "ceph", "cinder": ["ceph"]}
    assert storage(plan(cloud(release, CINDER))) == nowhere
    found = plan(replace(cloud(release, CINDER), refs=WITH_CEPH))
    assert storage(found) == everywhere, "also one that is not ready"
    assert "ceph" not in children(found), "another's stays another's"
    runs = plan(cloud(release, {**CINDER, "ceph": {"enabled": True}}))
    assert storage(runs) == everywhere
    assert "ceph" in children(runs)


def test_images_and_disks_stay_where_they_are(release: Release) -> None:
    checks = 0
    for before, after in (
        (cloud(release, CINDER), None),
        (replace(cloud(release, CINDER), refs=WITH_CEPH), "ceph"),
    ):
        live = {key(obj): obj for obj in plan(before).objects}
        choices: tuple[dict[Ref, ResolvedRef], ...] = ({}, WITH_CEPH)
        for refs in choices:
            made = storage(plan(replace(before, refs=refs, children=live)))
            checks += 1
            assert (made["glance"], made["nova"]) == (after, after)
    assert checks


def test_each_service_has_its_own_broker_if_asked_for(release: Release) -> None:
    planned = plan(cloud(release, {"rabbitmq": {"perService": True, "replicas": 3}, "glance": {"enabled": False}}))
    made = children(planned)
    brokers = {name: obj["spec"] for name, obj in made.items() if obj["kind"] == "RabbitMQ"}
    assert set(brokers) == {"rabbitmq-neutron", "rabbitmq-notifications", "rabbitmq-nova"}
    assert all(spec == {"release": "2025.1", "imageProfile": "debian", "replicas": 3} for spec in brokers.values())
    for service in ("nova", "neutron"):
        assert made[service]["spec"]["messaging"] == {
            "rabbitmqRef": {"name": f"rabbitmq-{service}"},
            "notificationsRef": {"name": "rabbitmq-notifications"},
        }
    # An API without RPC sends notifications alone.
    assert made["keystone"]["spec"]["messaging"] == {"notificationsRef": {"name": "rabbitmq-notifications"}}
    assert "messaging" not in made["placement"]["spec"]
    assert {planned.condition[step] for step in planned if step.name.startswith("rabbitmq-")} == {"RabbitMQ"}


def test_a_service_that_names_its_broker_gets_no_other(release: Release) -> None:
    spec = {"rabbitmq": {"perService": True}, "nova": {"messaging": {"rabbitmqRef": {"name": "mine"}}}}
    made = children(plan(cloud(release, spec)))
    assert "rabbitmq-nova" not in made
    assert made["nova"]["spec"]["messaging"]["rabbitmqRef"] == {"name": "mine"}
    assert made["nova"]["spec"]["messaging"]["notificationsRef"] == {"name": "rabbitmq-notifications"}


def test_services_share_a_broker_and_send_no_notifications_unless_asked(release: Release) -> None:
    made = children(plan(cloud(release, {"rabbitmq": {"perService": False}})))
    assert made["rabbitmq"]["spec"] == {"release": "2025.1", "imageProfile": "debian"}
    assert "messaging" not in made["nova"]["spec"]


def test_volumes_are_wired_to_those_who_use_them(release: Release) -> None:
    made = children(plan(cloud(release, {"cinder": {"enabled": True}, "etcd": {"enabled": True}})))
    assert made["nova"]["spec"]["cinderRef"] == {"name": "cinder"}
    assert made["cinder"]["spec"]["coordination"] == {"etcdRef": {"name": "etcd"}}
    assert "backends" not in made["cinder"]["spec"]
    assert "cinderRef" not in children(plan(cloud(release)))["nova"]["spec"]


def test_volumes_are_kept_where_the_cloud_says_unless_cinder_says_otherwise(release: Release) -> None:
    lvm = children(plan(cloud(release, {"storageBackend": "lvm", "cinder": {"enabled": True}})))
    assert lvm["cinder"]["spec"]["backends"] == [{"name": "lvm", "type": "lvm"}]
    own = [{"name": "fast", "type": "ceph"}]
    made = children(plan(cloud(release, {"storageBackend": "lvm", "cinder": {"enabled": True, "backends": own}})))
    assert made["cinder"]["spec"]["backends"] == own


def test_nova_asks_a_cortex_of_the_cloud(release: Release) -> None:
    def scheduler(spec: dict[str, Any]) -> Any:
        return children(plan(cloud(release, spec)))["nova"]["spec"].get("scheduler")

    assert "cortex" not in children(plan(cloud(release)))
    assert scheduler({}) is None
    assert scheduler({"cortex": {"enabled": True}}) == {
        "externalScheduler": {"enabled": True, "cortexRef": {"name": "cortex"}}
    }
    own = {"replicas": 2, "externalScheduler": {"timeout": "10s"}}
    assert scheduler({"cortex": {"enabled": True}, "nova": {"scheduler": own}}) == {
        "replicas": 2,
        "externalScheduler": {"enabled": True, "cortexRef": {"name": "cortex"}, "timeout": "10s"},
    }
    elsewhere = {"externalScheduler": {"enabled": True, "endpoint": "https://cortex.example.org"}}
    assert scheduler({"cortex": {"enabled": True}, "nova": {"scheduler": elsewhere}}) == elsewhere


def test_neutron_writes_names_into_a_designate_of_the_cloud(release: Release) -> None:
    assert "externalDns" not in children(plan(cloud(release)))["neutron"]["spec"]
    spec = {"designate": {"enabled": True}, "neutron": {"externalDns": {"reverseZones": False}}}
    made = children(plan(cloud(release, spec)))
    assert made["neutron"]["spec"]["externalDns"] == {"designateRef": {"name": "designate"}, "reverseZones": False}


def test_cortex_is_its_own_resource_with_a_certificate(release: Release) -> None:
    spec = {"tls": {"enabled": True}, "cortex": {"enabled": True, "replicas": 2}}
    made = children(plan(cloud(release, spec)))["cortex"]
    assert (made["apiVersion"], made["kind"]) == ("cortex.c5c3.io/v1alpha1", "Cortex")
    assert made["spec"]["replicas"] == 2
    assert made["spec"]["tls"]["pkiRef"] == {"name": "internal"}


LARGE: dict[str, Any] = {
    "storageBackend": "ceph",
    "networkBackend": "ovs",
    "mariadb": {"replicas": 3},
    "rabbitmq": {"replicas": 5},
    "ovn": {"replicas": 3, "enabled": False},
    "glance": {"storageType": "ceph"},
    "neutron": {"mechanism": "ovs"},
    "cinder": {"enabled": True, "backends": [{"name": "fast", "type": "ceph"}]},
    "horizon": {"enabled": True, "replicas": 1},
}


def test_everything_that_is_not_supported_is_named_at_once(release: Release) -> None:
    with pytest.raises(UnsupportedError) as raised:
        plan(cloud(release, LARGE))
    text = str(raised.value)
    for field in ("networkBackend", "neutron.mechanism"):
        assert text.count(f"spec.{field}: ") == 1
    assert "horizon" not in text
    assert "spec.ovn" not in text
    assert "spec.rabbitmq" not in text
    assert "spec.mariadb" not in text
    assert raised.value.reason == "Unsupported"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"networkBackend": "ovs"}, "spec.networkBackend"),
        ({"tls": {"enabled": True}, "imageProfile": "kolla"}, "spec.tls.enabled"),
    ],
)
def test_each_unsupported_setting_says_what_to_write(release: Release, spec: dict[str, Any], field: str) -> None:
    with pytest.raises(UnsupportedError) as raised:
        plan(cloud(release, spec))
    assert raised.value.path == field
    assert "; use " in str(raised.value)


def test_a_service_that_is_not_supported_affects_only_itself(release: Release) -> None:
    without = children(plan(cloud(release, {"imageProfile": "kolla"})))
    planned = plan(cloud(release, {"cortex": {"enabled": True}, "imageProfile": "kolla"}))
    assert children(planned) == without
    [verdict] = [step.verdict for step in planned if step.verdict and not step.verdict.ready]
    assert (verdict.reason, verdict.message.partition(": ")[0]) == ("Unsupported", "spec.cortex.enabled")


def test_a_running_service_is_not_deleted_since_a_profile_lacks_it(release: Release) -> None:
    running = {key(obj): obj for obj in plan(cloud(release, {"cortex": {"enabled": True}})).objects}
    with pytest.raises(UnsupportedError, match=r"spec\.cortex\.enabled: kolla's images"):
        plan(cloud(release, {"cortex": {"enabled": True}, "imageProfile": "kolla"}, children=running))
    del running["Cortex.cortex.c5c3.io", "cortex"]
    planned = plan(cloud(release, {"cortex": {"enabled": True}, "imageProfile": "kolla"}, children=running))
    assert "cortex" not in children(planned)


def test_a_disabled_service_is_not_validated(release: Release) -> None:
    spec = {"storageBackend": "lvm", "cinder": {"enabled": False, "backends": [{"name": "a", "type": "lvm"}]}}
    assert tuple(children(plan(cloud(release, spec)))) == BUILT


@pytest.mark.proves("OpenStackControlPlane", "status.endpoint")
def test_the_endpoint_is_keystones(release: Release) -> None:
    status = {"endpoint": "http://cloud.example.org:5000/v3"}
    keystone = {"kind": "Keystone", "metadata": {"name": "keystone"}, "spec": {}, "status": status}
    planned = plan(cloud(release, children={("Keystone", "keystone"): keystone}))
    assert planned.outcome.endpoint == "http://cloud.example.org:5000/v3"
    assert plan(cloud(release)).outcome.endpoint is None


@pytest.mark.proves("OpenStackControlPlane", "status.phase")
def test_the_phase_is_the_first_part_that_misses_something() -> None:
    starting = progressing("starting")
    everything = {f"{service.condition}Ready": READY for service in SERVICES_BY_PHASE}
    assert phase(everything) == "Ready"
    assert phase({**everything, "NovaReady": starting}) == "ComputeAndStorage"
    assert phase({**everything, "NovaReady": starting, "OVNReady": starting}) == "CoreServices"
    assert phase({**everything, "KeystoneReady": starting, "NeutronReady": starting}) == "Identity"
    assert phase({**everything, "TempestReady": starting}) == "OptionalServices"
    assert phase(dict.fromkeys(everything, starting)) == "Infrastructure"


def test_a_disabled_service_holds_no_phase() -> None:
    assert phase({"MariaDBReady": READY, "Ready": READY}) == "Ready"


def test_templates_have_every_field_of_their_service() -> None:
    fields = {name: info.annotation for name, info in CONTROL_PLANE.spec.model_fields.items()}
    for service in SERVICES_BY_PHASE:
        assert fields[service.field] is not None, service.field


def test_a_cloud_whose_data_is_in_ceph(release: Release) -> None:
    spec = {"storageBackend": "ceph", "cinder": {"enabled": True}, "nova": {"compute": {"virtType": "qemu"}}}
    made = children(plan(cloud(release, spec)))
    assert made["ceph"]["kind"] == "CephStorage"
    assert "mode" not in made["ceph"]["spec"], "its own default holds"
    assert made["glance"]["spec"]["storageType"] == "ceph"
    assert made["nova"]["spec"]["compute"] == {"storageType": "ceph", "virtType": "qemu"}
    assert made["cinder"]["spec"]["backends"] == [{"name": "ceph", "type": "ceph"}]


def test_storage_settings_of_a_template_win(release: Release) -> None:
    spec = {
        "storageBackend": "ceph",
        "ceph": {"enabled": False},
        "glance": {"storageType": "pvc"},
        "nova": {"compute": {"storageType": "local"}},
    }
    made = children(plan(cloud(release, spec)))
    assert "ceph" not in made
    assert made["glance"]["spec"]["storageType"] == "pvc"
    assert made["nova"]["spec"]["compute"] == {"storageType": "local"}
    assert "ceph" in children(plan(cloud(release, {"ceph": {"enabled": True}})))


def test_tests_of_the_cloud_wait_for_every_api_that_runs(release: Release) -> None:
    spec = {"tempest": {"enabled": True, "schedule": "@daily"}, "nova": {"enabled": False}}
    made = children(plan(cloud(release, spec)))["tempest"]
    assert made["apiVersion"] == "tempest.openstack.c5c3.io/v1alpha1"
    assert [each["name"] for each in made["spec"]["dependsOn"]] == ["keystone", "glance", "placement", "neutron"]
    own = {"tempest": {"enabled": True, "dependsOn": [{"kind": "Keystone", "name": "keystone"}]}}
    assert len(children(plan(cloud(release, own)))["tempest"]["spec"]["dependsOn"]) == 1
