"""What holds for every pod of a whole cloud: settings, confinement, probes, sizes, secrecy, and when it restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import agents
from openstack_operator.api import ComponentSettings, Model, PodSettings
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import COMPUTE, CONTROL_PLANE, GATEWAY, NETWORK, Object, amount, secret_data
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.controlplane.service import SERVICES_BY_PHASE
from openstack_operator.yaml_text import load
from tests.fields import OFF_BY_DEFAULT

ROOT = Path(__file__).parent.parent.parent
DRAWN = "correct-horse-battery-staple-123"
RUNNING = ("Deployment", "StatefulSet", "DaemonSet")

Workloads = dict[str, Object]


def objects(spec: Mapping[str, Any], profile: str = "debian") -> list[Object]:
    """Everything a cloud becomes."""
    return _objects(json.dumps({"imageProfile": profile, **spec}))


@cache
def _objects(spec: str) -> list[Object]:
    """Everything a cloud of that spec becomes: several tests look at the same cloud."""
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"), password=DRAWN)
    manifest = {"kind": "OpenStackControlPlane", "metadata": {"name": "cloud"}, "spec": json.loads(spec)}
    return [obj for planned in paper.render([manifest], "openstack") for obj in planned.objects]


def workloads(spec: Mapping[str, Any], profile: str = "debian") -> Workloads:
    """Everything that runs pods for good, by name."""
    return {obj["metadata"]["name"]: obj for obj in objects(spec, profile) if obj["kind"] in RUNNING}


def minimal() -> Workloads:
    return workloads({})


def pod(workload: Object) -> Object:
    return workload["spec"]["template"]["spec"]


def containers(spec: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Object]]:
    """Every container that runs for good, as workload/container."""
    for name, workload in (workloads(spec) if spec is not None else minimal()).items():
        for container in (*pod(workload)["containers"], *pod(workload).get("initContainers", ())):
            yield f"{name}/{container['name']}", container


COMPONENTS: dict[str, set[str]] = {
    "mariadb": {"mariadb-server"},
    "rabbitmq": {"rabbitmq-server"},
    "memcached": {"memcached-server"},
    "keystone.api": {"keystone-api"},
    "keystone.client": {"keystoneclient"},
    "glance.api": {"glance-api"},
    "placement.api": {"placement-api"},
    "ovn.northbound": {"ovn-nb"},
    "ovn.southbound": {"ovn-sb"},
    "ovn.northd": {"ovn-northd"},
    "ovn.relay": {"ovn-relay"},
    "ovn.chassis": {"ovn-gateway", "ovn-chassis"},
    "neutron.api": {"neutron-api"},
    "neutron.ovnMaintenanceWorker": {"neutron-ovn-maintenance-worker"},
    "neutron.metadataAgent": {"neutron-metadata-agent"},
    "nova.api": {"nova-api"},
    "nova.metadata": {"nova-metadata"},
    "nova.scheduler": {"nova-scheduler"},
    "nova.conductor": {"nova-conductor"},
    "nova.novncproxy": {"nova-cell1-novncproxy"},
    "nova.cells.0.conductor": {"nova-cell1-conductor"},
    "nova.compute": {"nova-cell1-compute"},
    "nova.compute.libvirt": {"nova-libvirt"},
}
FOLLOW = {"nova.compute": {"nova-libvirt"}, "ovn.chassis": {"ovn-controller"}}
"""What runs wherever another component does."""
NOTES = {"ovn.northbound": {"ovn-northd"}}
"""What notes the version of another component."""

SETTINGS: dict[str, Any] = {
    "image": "registry.example:5000/team/own:1",
    "resources": {"requests": {"cpu": "70m", "memory": "70Mi"}, "limits": {"memory": "7Gi"}},
    "nodeSelector": {"rack": "seven"},
    "tolerations": [{"key": "seven", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "seven",
}


def _without_disk(found: dict[str, str]) -> dict[str, str]:
    """Requests or limits but for what a container may write to its node, which is no setting."""
    return {name: quantity for name, quantity in found.items() if name != "ephemeral-storage"}


def nested(path: str, value: Any) -> dict[str, Any]:
    """A spec with the value at a path; a cell's number stands for that cell."""
    first, _, rest = path.partition(".")
    if not rest:
        return {first: value}
    if rest.startswith("0."):
        return {first: [{"name": "cell1", **nested(rest[2:], value)}]}
    return {first: nested(rest, value)}


def component_fields(model: type[Model], path: str) -> Iterator[tuple[str, type[Model]]]:
    for name, info in model.model_fields.items():
        kind = info.annotation
        inner = f"{path}.{info.alias or name}"
        if name == "cells":
            inner, kind = f"{inner}.0", kind.__args__[0]  # type: ignore[union-attr]
        if isinstance(kind, type) and issubclass(kind, Model):
            if issubclass(kind, PodSettings):
                yield inner, kind
            yield from component_fields(kind, inner)


def test_every_component_is_looked_at() -> None:
    models = {service.resource.handle: service.resource.spec for service in SERVICES}
    built = [service for service in SERVICES_BY_PHASE if service.kind in models]
    found = {path for service in built for path, _ in component_fields(models[service.kind], service.field)}
    # There are none of these until they are enabled; other tests look at them.
    off = tuple(f"{field}." for field in ("ceph", "cinder", *OFF_BY_DEFAULT))
    later = {path for path in found if path.startswith(off)}
    assert found - later | {"mariadb", "rabbitmq", "memcached"} == set(COMPONENTS)


@pytest.mark.seconds
@pytest.mark.parametrize("path", COMPONENTS)
def test_settings_of_a_component_reach_its_pods_and_no_others(path: str) -> None:
    after, names = workloads(nested(path, SETTINGS)), COMPONENTS[path]
    changed = {name for name in after if after[name] != minimal()[name]}
    assert changed == names | FOLLOW.get(path, set()) | NOTES.get(path, set())
    for name in names:
        spec, main = pod(after[name]), pod(after[name])["containers"][0]
        assert main["image"] == SETTINGS["image"]
        assert {side: _without_disk(found) for side, found in main["resources"].items()} == SETTINGS["resources"]
        assert spec["nodeSelector"].items() >= SETTINGS["nodeSelector"].items()
        assert spec["tolerations"] == SETTINGS["tolerations"]
        assert spec["affinity"].items() >= SETTINGS["affinity"].items()
        assert spec["priorityClassName"] == "seven"
    for name in FOLLOW.get(path, ()):
        assert pod(after[name])["nodeSelector"] == SETTINGS["nodeSelector"]
        assert pod(after[name])["containers"] == pod(minimal()[name])["containers"]
    for name in NOTES.get(path, ()):
        assert pod(after[name]) == pod(minimal()[name])


@pytest.mark.parametrize("service", ["keystone", "glance", "placement", "neutron", "nova", "ovn"])
def test_settings_of_a_service_reach_what_it_runs_on_the_control_plane(service: str) -> None:
    placed = {name: value for name, value in SETTINGS.items() if name not in ("image", "resources")}
    after = workloads({service: placed})
    changed = {name for name in after if after[name] != minimal()[name]}
    mine = {name for path, names in COMPONENTS.items() if path.startswith(f"{service}.") for name in names}
    mine |= {name for path, names in FOLLOW.items() if path.startswith(f"{service}.") for name in names}
    on_nodes = {"neutron-metadata-agent", "nova-libvirt", "nova-cell1-compute"}
    assert changed == mine - on_nodes
    for name in changed:
        assert pod(after[name])["priorityClassName"] == "seven"
        assert pod(after[name])["tolerations"] == SETTINGS["tolerations"]


@pytest.mark.seconds
@pytest.mark.parametrize(
    "path", [path for path in COMPONENTS if path.count(".") and "chassis" not in path and not path.startswith("ovn.")]
)
def test_replicas_of_a_component(path: str) -> None:
    [name] = COMPONENTS[path]
    if minimal()[name]["kind"] == "DaemonSet":
        assert "replicas" not in minimal()[name]["spec"]
        return
    # Several pods of Glance need a volume that they can share.
    shared = {"storage": {"accessMode": "ReadWriteMany"}} if path == "glance.api" else {}
    specs = (nested(path, {"replicas": replicas}) for replicas in (3, 4))
    first = path.partition(".")[0]
    three, four = (workloads({**spec, first: {**spec[first], **shared}} if shared else spec) for spec in specs)
    assert four[name]["spec"]["replicas"] == 4
    # Only the second pod changes what the first is: they are kept apart from then on.
    assert pod(four[name]) == pod(three[name])
    assert "replicas" in ComponentSettings.model_fields


def test_the_default_labels_of_nodes() -> None:
    checks = 0
    nodes = {"ovn-gateway": NETWORK | GATEWAY, "ovn-chassis": NETWORK, "ovn-controller": NETWORK}
    nodes |= dict.fromkeys(("neutron-metadata-agent", "nova-libvirt", "nova-cell1-compute"), COMPUTE)
    for name, workload in minimal().items():
        checks += 1
        assert pod(workload)["nodeSelector"] == nodes.get(name, CONTROL_PLANE), name
    assert checks


PRIVILEGED = {
    "ovn-gateway/ovs-vswitchd": "the kernel's datapath, interfaces of the node",
    "ovn-gateway/ovs-db": "folders of the node that root owns",
    "ovn-chassis/ovs-vswitchd": "the kernel's datapath, interfaces of the node",
    "ovn-chassis/ovs-db": "folders of the node that root owns",
    "ovn-controller/ovn-controller": "sockets of the node that root owns",
    "neutron-metadata-agent/main": "network namespaces of the node",
    "nova-libvirt/main": "cgroups, /dev/kvm and guests of the node",
    "nova-cell1-compute/main": "disks of guests, interfaces of the node",
}
"""Every container that is not confined, and what for."""


def test_only_what_works_on_the_node_itself_is_not_confined() -> None:
    assert {name for name, found in containers() if found["securityContext"].get("privileged")} == set(PRIVILEGED)
    assert {name.partition("/")[0] for name in PRIVILEGED} == {
        name for name, workload in minimal().items() if pod(workload).get("hostNetwork")
    }


def test_everything_else_is_confined() -> None:
    checks = 0
    jobs = [obj for obj in objects({}) if obj["kind"] == "Job"]
    found = {name: each for name, each in containers() if name not in PRIVILEGED}
    found |= {obj["metadata"]["name"]: pod(obj)["containers"][0] for obj in jobs}
    for name, container in found.items():
        security = dict(container["securityContext"])
        checks += 1
        assert security.pop("runAsUser") > 0, name
        assert security.pop("runAsGroup") > 0, name
        assert security == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }, name
    for workload in (*minimal().values(), *jobs):
        checks += 1
        assert pod(workload)["automountServiceAccountToken"] is False
        assert not pod(workload).get("hostIPC")
        assert not pod(workload).get("hostPID") or workload["metadata"]["name"] == "nova-libvirt"
    assert checks


KOLLA = {"keystone-api": 42425, "glance-api": 42415, "placement-api": 42482, "neutron-api": 42435, "nova-api": 42436}
"""What Kolla calls its users by number."""


def test_kollas_images_run_everything() -> None:
    checks = 0
    for name, workload in workloads({}, "kolla").items():
        spec = pod(workload)
        for container in spec["containers"]:
            checks += 1
            assert container["image"].startswith("quay.io/openstack.kolla/"), name
            assert container["image"].endswith(":2025.1-debian-bookworm"), name
            assert not any("{" in word and "}}" in word for word in container["command"]), name
        main = spec["containers"][0]["securityContext"]
        checks += 1
        assert main["runAsUser"] == KOLLA.get(name, main["runAsUser"])
        if any("hostPath" in volume for volume in spec.get("volumes", ())):
            # kubelet makes these folders, for root.
            checks += 1
            assert main["runAsUser"] == 0, name
        else:
            checks += 1
            assert spec["securityContext"]["fsGroup"] == main["runAsGroup"], name
    assert checks


SERVES_ITSELF = {
    "glance-api": (9292, "glance-config", "glance-api.conf", "workers"),
    "neutron-api": (9696, "neutron-config", "neutron.conf", "api_workers"),
}
"""APIs of Kolla's images without uWSGI: the port they bind by themselves, and where one process is asked for."""


def test_kollas_apis_listen_where_they_are_asked() -> None:
    found = objects({}, "kolla")
    secrets = {obj["metadata"]["name"]: obj for obj in found if obj["kind"] == "Secret"}
    served = {
        obj["metadata"]["name"]: obj
        for obj in found
        if obj["kind"] == "Deployment" and obj["metadata"]["name"].endswith(("-api", "-metadata"))
    }
    assert set(served) == {"keystone-api", "glance-api", "placement-api", "neutron-api", "nova-api", "nova-metadata"}
    for name, workload in served.items():
        container = pod(workload)["containers"][0]
        port = container["ports"][0]["containerPort"]
        if name in SERVES_ITSELF:
            upstream, secret, file, option = SERVES_ITSELF[name]
            assert port == upstream
            assert f"\n{option} = 1\n" in secret_data(secrets[secret])[file]
        else:
            assert f"0.0.0.0:{port}" in container["command"], name
            words = container["command"]
            assert words[words.index("--module") + 1].endswith(":application"), name


def test_pods_are_asked_whether_they_work() -> None:
    checks = 0
    for name, container in containers():
        if name == "keystoneclient/main":
            # It sleeps until somebody uses it.
            continue
        if name.endswith("/front"):
            # The API behind it is asked through it.
            continue
        ready, start = container["readinessProbe"], container["startupProbe"]
        checks += 1
        assert start["periodSeconds"] == 1
        # Each failure of a command is that of several tries, in 79 s or more.
        assert start["failureThreshold"] * (79 if "exec" in start else 1) >= 300
        if "exec" in ready:
            # A command costs some 60 ms of CPU each time.
            checks += 1
            assert ready["periodSeconds"] >= 10, name
        if name.endswith(("-api/main", "-metadata/main")):
            checks += 1
            assert ready["httpGet"]["path"], name
    assert checks


CONNECTS = ("nc -zU /run/ovn/", f"bash -c {agents.text('memcached/alive.sh')}")


def test_no_probe_is_a_handshake_that_fails() -> None:
    checks = 0
    for name, container in containers():
        ports = {port["containerPort"]: port["name"] for port in container.get("ports", ())}
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            asked = container.get(kind, {}).get("tcpSocket", {}).get("port")
            # RabbitMQ tells of none at the level it logs.
            checks += 1
            assert not ports.get(asked, "").endswith("-tls") or name.startswith("rabbitmq-"), f"{name}: {kind}"
    assert checks


def test_no_program_is_killed_for_being_busy() -> None:
    checks = 0
    for name, container in containers():
        if alive := container.get("livenessProbe"):
            # The kernel accepts connections for a program that has no time, and a command does no more than connect.
            if "exec" in alive:
                checks += 1
                assert " ".join(alive["exec"]["command"]).startswith(CONNECTS), name
            else:
                checks += 1
                assert "tcpSocket" in alive, name
            checks += 1
            assert alive["periodSeconds"] * alive["failureThreshold"] >= 180, name
    assert checks


def test_the_minimal_cloud_fits_into_eight_gibibytes() -> None:
    manifests = load(ROOT / "deploy" / "samples" / "controlplane_minimal.yaml")
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"))
    made = [obj for planned in paper.render(manifests) for obj in planned.objects]
    total = dict.fromkeys((*RUNNING, "Job"), 0.0)
    for obj in made:
        for container in pod(obj)["containers"] if obj["kind"] in total else ():
            size = amount(container["resources"]["requests"]["memory"])
            total[obj["kind"]] += size * obj["spec"].get("replicas", 1)
    # Every job at once, or every Deployment with the second pod a roll-out starts.
    assert sum(total.values()) <= 8 * 1024**3
    assert sum(total.values()) - total["Job"] + total["Deployment"] <= 8 * 1024**3


@pytest.mark.parametrize("profile", ["debian", "kolla"])
def test_no_password_stands_outside_secrets(profile: str) -> None:
    made = objects({"placement": {"config": {"DEFAULT": {"debug": True}}}}, profile)
    assert sum(DRAWN in json.dumps(obj) for obj in made) == 0
    for obj in made:
        if obj["kind"] == "Secret":
            assert DRAWN not in json.dumps({**obj, "data": {}})
        assert "correct-horse" not in json.dumps(obj)


ALL_OF_NOVA = {name for path, names in COMPONENTS.items() if path.startswith("nova.") for name in names}
CHANGES: list[tuple[str, Any, set[str]]] = [
    ("mariadb.config", {"mysqld": {"max_connections": 99}}, {"mariadb-server"}),
    ("mariadb.storageSize", "20Gi", set()),
    ("rabbitmq.config", {"heartbeat": 30}, {"rabbitmq-server"}),
    ("memcached.memory", "128Mi", {"memcached-server"}),
    ("keystone.config", {"DEFAULT": {"debug": True}}, {"keystone-api"}),
    ("keystone.fernet", {"rotationSchedule": "@daily"}, set()),
    ("keystone.replicas", 3, {"keystone-api"}),
    ("glance.config", {"DEFAULT": {"debug": True}}, {"glance-api"}),
    ("placement.config", {"DEFAULT": {"debug": True}}, {"placement-api"}),
    (
        "neutron.config",
        {"DEFAULT": {"debug": True}},
        {"neutron-api", "neutron-ovn-maintenance-worker", "neutron-metadata-agent"},
    ),
    ("neutron.ml2", {"vniRanges": "1:99"}, {"neutron-api", "neutron-ovn-maintenance-worker"}),
    ("ovn.bridgeMappings", {"physnet2": "br-ex"}, {"ovn-gateway", "ovn-chassis"}),
    ("nova.config", {"DEFAULT": {"cpu_allocation_ratio": 3.0}}, ALL_OF_NOVA - {"nova-libvirt"}),
    ("nova.compute.config", {"DEFAULT": {"cpu_allocation_ratio": 3.0}}, {"nova-cell1-compute"}),
    ("nova.compute.virtType", "qemu", {"nova-cell1-compute", "nova-libvirt"}),
    # Those above the cells, which read the map of them once.
    (
        "nova.cells",
        [{"name": "cell1"}, {"name": "far"}],
        {"nova-api", "nova-metadata", "nova-conductor", "nova-scheduler"},
    ),
]


@pytest.mark.parametrize(("path", "value", "rolled"), CHANGES, ids=[path for path, _, _ in CHANGES])
def test_a_change_restarts_exactly_the_pods_it_concerns(path: str, value: Any, rolled: set[str]) -> None:
    after = workloads(nested(path, value))
    changed = {name for name, old in minimal().items() if after[name]["spec"]["template"] != old["spec"]["template"]}
    assert changed == rolled


@pytest.mark.parametrize(("path", "value", "rolled"), CHANGES, ids=[path for path, _, _ in CHANGES])
def test_no_change_of_options_repeats_a_job(path: str, value: Any, rolled: set[str]) -> None:
    def jobs(spec: dict[str, Any]) -> set[str]:
        return {obj["metadata"]["name"] for obj in objects(spec) if obj["kind"] == "Job"}

    assert jobs({}) <= jobs(nested(path, value))


def test_two_minimal_clouds_fit_onto_two_cpus() -> None:
    manifests = load(ROOT / "deploy" / "samples" / "controlplane_minimal.yaml")
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"))
    total = 0.0
    for planned in paper.render(manifests):
        for obj in planned.objects:
            for container in pod(obj)["containers"] if obj["kind"] in RUNNING else ():
                total += amount(container["resources"]["requests"]["cpu"]) * obj["spec"].get("replicas", 1)
    # What is left is for Kubernetes' own pods, the operator, and those that are replaced.
    assert total <= 0.8
