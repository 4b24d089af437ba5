"""Images that nodes pull before the pods of a cloud need them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.api import PodSettings
from openstack_operator.api.model import Model
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import is_dispensable, judge
from openstack_operator.plan import FIELDS_IGNORED, Object, Plan, Service, State, conditions
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services import controlplane
from openstack_operator.services.cloud_services import CLOUD_SERVICES, template_of
from openstack_operator.services.controlplane.images import CONDITION
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.testing import context, granted
from openstack_operator.yaml_text import load

ROOT = Path(__file__).parents[3]
RELEASES = ReleaseFiles(ROOT / "releases")
FOLDER = ROOT / "src" / "openstack_operator" / "services"
BY_KIND = {each.resource.kind: each for each in CLOUD_SERVICES}
CASES = [
    case
    for service in CLOUD_SERVICES
    for case in sorted((FOLDER / service.resource.kind.lower() / "cases").glob("*.yaml"))
    if not case.stem.endswith(".golden") and load(case)[0]["apiVersion"] == service.resource.api_version
]
NAME = "cloud-images"
ON = {"imagePrecaching": {"enabled": True}}


def cloud(spec: Mapping[str, Any], *live: Object, service: Service = controlplane.SERVICE) -> Plan:
    children = {(each["kind"], each["metadata"]["name"]): each for each in live}
    release = RELEASES(CONTROL_PLANE.spec.model_validate(spec))
    ctx = context(service.resource, spec, release=release, releases=RELEASES, owner="cloud", children=children)
    return service.make_plan(ctx)


def daemons(planned: Plan) -> Object:
    [found] = [obj for obj in planned.objects if obj["kind"] == "DaemonSet"]
    return found


def containers(obj: Object) -> Iterator[Object]:
    for template in templates(obj):
        pod = template["spec"]
        yield from (*pod.get("initContainers", ()), *pod["containers"])


def templates(value: Any) -> Iterator[Object]:
    if isinstance(value, dict):
        if "containers" in value.get("spec", {}) and isinstance(value["spec"]["containers"], list):
            yield value
        else:
            for each in value.values():
                yield from templates(each)


def images(obj: Object) -> set[str]:
    return {each["image"] for each in containers(obj)}


def cached(spec: Mapping[str, Any]) -> set[str]:
    return images(daemons(cloud({**ON, **spec})))


def default(component: str, profile: str = "debian") -> str:
    spec = CONTROL_PLANE.spec.model_validate({"imageProfile": profile})
    return RELEASES(spec)[component].image


def test_a_cloud_that_does_not_ask_for_it_has_none() -> None:
    planned = cloud({})
    assert not [obj for obj in planned.objects if obj["kind"] == "DaemonSet"]
    assert CONDITION not in planned.outcome.extra_conditions


def test_nothing_is_made_before_it_and_nothing_comes_after_it() -> None:
    planned = cloud(ON)
    first, *others = planned
    assert [obj["kind"] for obj in first.objects] == ["DaemonSet", "NetworkPolicy", "NetworkPolicy"]
    assert not [step.name for step in others if first in step.after]


def test_precaching_pods_have_no_rights_and_delay_nothing() -> None:
    made = daemons(cloud(ON))
    pod = made["spec"]["template"]["spec"]
    assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "100%", "maxSurge": 0}
    assert is_dispensable(made)
    assert (pod["automountServiceAccountToken"], pod["terminationGracePeriodSeconds"]) == (False, 0)
    assert "volumes" not in pod
    policies = [obj["spec"] for obj in cloud(ON).objects if obj["kind"] == "NetworkPolicy"]
    pods = made["spec"]["selector"]
    assert policies == [{"podSelector": pods, "policyTypes": [direction]} for direction in ("Ingress", "Egress")]
    for container in containers(made):
        security, resources = container["securityContext"], container["resources"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"]
        assert security["runAsNonRoot"]
        assert (resources["requests"]["memory"], resources["limits"]["memory"]) == ("4Mi", "64Mi")
    assert [each["command"] for each in containers(made)][-2:] == [["true"], ["sleep", "infinity"]]


def test_each_image_is_pulled_once() -> None:
    found = [each["image"] for each in containers(daemons(cloud(ON)))]
    assert found == sorted(set(found))


@pytest.mark.parametrize("profile", ["debian", "kolla"])
def test_precached_images_follow_the_release(profile: str) -> None:
    found = cached({"imageProfile": profile})
    components = ("keystone-api", "nova-conductor", "nova-compute", "libvirt", "ovn-controller", "rabbitmq")
    assert found >= {default(name, profile) for name in components}
    assert (default("haproxy", profile) in found) == (profile == "debian")
    assert default("cinder-api", profile) not in found


def test_a_service_that_is_enabled_adds_its_images() -> None:
    assert cached({"heat": {"enabled": True}}) - cached({}) == {default("heat-api")}


def test_exporters_are_pulled_for_a_cloud_with_metrics() -> None:
    exporter = default("memcached-exporter")
    assert cached({"monitoring": {"enabled": True}}) - cached({}) == {exporter}
    assert cached({"memcached": {"monitoring": {"enabled": True}}}) - cached({}) == {exporter}


def test_a_template_with_an_image_profile_of_its_own_has_its_images() -> None:
    found = cached({"imageProfile": "kolla", "placement": {"imageProfile": "debian"}})
    assert default("placement-api") in found
    assert default("placement-api", "kolla") not in found


def test_the_image_of_a_template_replaces_that_of_the_release() -> None:
    spec = {"nova": {"image": "example.org/nova:1", "compute": {"image": "example.org/compute:1"}}}
    found = cached(spec)
    assert found >= {"example.org/nova:1", "example.org/compute:1", default("libvirt")}
    assert not found & {default("nova-api"), default("nova-compute")}


def test_the_image_of_one_program_adds_to_that_of_the_others() -> None:
    found = cached({"nova": {"scheduler": {"image": "example.org/nova:1"}}})
    assert found >= {"example.org/nova:1", default("nova-api")}


def test_servers_by_others_and_images_of_unknown_content_are_left_out() -> None:
    server = {"host": "db.example.org", "secretRef": {"name": "db"}}
    assert default("mariadb") not in cached({"mariadb": {"provider": "external", "external": server}})
    found = cached({"cortex": {"enabled": True, "image": "example.org/cortex:1"}})
    assert not found & {"example.org/cortex:1", default("cortex-api")}


def test_a_template_with_an_unknown_release_loses_its_own_images_alone() -> None:
    found = cached({"glance": {"release": "2020.1"}})
    assert default("nova-api") in found
    assert default("glance-api") not in found


def test_the_nodes_are_those_of_the_cloud_or_those_its_user_chooses() -> None:
    pod = daemons(cloud(ON))["spec"]["template"]["spec"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    labels = {term["matchExpressions"][0]["key"] for term in terms}
    assert labels == {"openstack-control-plane", "openstack-compute-node", "openvswitch"}


FIELDS = ("enabled", "nodeSelector", "tolerations[]")


@pytest.mark.proves("OpenStackControlPlane", *(f"spec.imagePrecaching.{name}" for name in FIELDS))
@pytest.mark.proves("ControlPlane", *(f"spec.global.imagePrecaching.{name}" for name in FIELDS))
def test_a_user_may_choose_nodes_in_both_kinds_of_a_cloud() -> None:
    tolerations = [{"operator": "Exists"}]
    chosen = {"imagePrecaching": {"enabled": True, "nodeSelector": {"rack": "1"}, "tolerations": tolerations}}
    for planned in (cloud(chosen), cloud({"global": chosen}, service=controlplane.C5C3_SERVICE)):
        pod = daemons(planned)["spec"]["template"]["spec"]
        assert (pod["nodeSelector"], pod["tolerations"]) == ({"rack": "1"}, tolerations)
        assert "affinity" not in pod


def test_nodes_that_are_chosen_for_nothing_are_reported() -> None:
    chosen = {"imagePrecaching": {"nodeSelector": {"rack": "1"}}}
    planned = cloud(chosen)
    assert "spec.imagePrecaching.nodeSelector" in planned.outcome.extra_conditions[FIELDS_IGNORED].message
    planned = cloud({"global": chosen}, service=controlplane.C5C3_SERVICE)
    assert "spec.global.imagePrecaching.nodeSelector" in planned.outcome.extra_conditions[FIELDS_IGNORED].message


def status(made: Object, ready: int, updated: int, nodes: int = 3) -> Object:
    counts = {"desiredNumberScheduled": nodes, "updatedNumberScheduled": updated, "numberReady": ready}
    return {**granted(made), "status": {"observedGeneration": 1, **counts}}


@pytest.mark.parametrize(
    ("ready", "updated", "nodes", "state", "text"),
    [
        (3, 3, 3, State.READY, "3 of 3 nodes have all"),
        (1, 3, 3, State.PROGRESSING, "1 of 3 nodes have all"),
        (3, 1, 3, State.PROGRESSING, "1 of 3 nodes have all"),
        (0, 0, 0, State.PROGRESSING, "no node has the labels"),
    ],
)
def test_a_condition_counts_the_nodes(ready: int, updated: int, nodes: int, state: State, text: str) -> None:
    live = status(daemons(cloud(ON)), ready, updated, nodes)
    verdict = cloud(ON, live).outcome.extra_conditions[CONDITION]
    assert verdict.state is state
    assert text in verdict.message


def test_a_daemon_set_with_other_images_counts_for_nothing() -> None:
    live = status(daemons(cloud(ON)), 3, 3)
    verdict = cloud({**ON, "heat": {"enabled": True}}, live).outcome.extra_conditions[CONDITION]
    assert verdict.state is State.PROGRESSING


def test_a_cloud_is_ready_while_nodes_pull() -> None:
    live = status(daemons(cloud(ON)), 0, 0)
    planned = cloud(ON, live)
    assert judge(live).ready
    verdicts = {step: judge(live) for step in planned}
    reported = conditions(planned, verdicts)
    assert (reported["Ready"].state, reported[CONDITION].state) == (State.READY, State.PROGRESSING)


def image_paths(model: type[Model], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of fields with images; those in lists need an entry, and stand in cases."""
    for name, info in model.model_fields.items():
        kind = info.annotation
        if name == "image" and "image" in model.image_fields:
            yield (*path, name)
        elif isinstance(kind, type) and issubclass(kind, PodSettings) and len(path) < 2:
            yield from image_paths(kind, (*path, info.alias or name))


def with_image(spec: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    name, *rest = path
    return {**spec, name: with_image(spec.get(name) or {}, tuple(rest)) if rest else "example.org/other:1"}


@pytest.mark.seconds
@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_no_pod_of_a_service_has_an_image_that_is_not_pulled(case: Path) -> None:
    first, *others = load(case)
    service = BY_KIND[first["kind"]]
    field, spec = template_of(service).field, first.get("spec") or {}
    # Without a field, and with each of those that name an image.
    for path in ((), *image_paths(service.resource.spec)):
        manifest = {**first, "spec": with_image(spec, path) if path else spec}
        planned = next(OfflineCluster(SERVICES, ACTUATORS, RELEASES, password="drawn").render([manifest, *others], "n"))
        used = {image for obj in planned.objects for image in images(obj)}
        template = {**manifest["spec"], "enabled": True}
        # What runs on nodes beside others is named by another service.
        found = cached({"tls": {"enabled": False}, "cinder": {"enabled": True}, field: template})
        if not service.has_release_images:
            used -= {spec.get("image"), "example.org/other:1"}
        assert used <= found, f"{path}: {used - found}"
