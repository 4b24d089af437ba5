"""Options that the environment of a pod, or its command, sets before any file: a spec does not set them in vain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import oslo
from openstack_operator.api import Sections
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.parts.run.environment import IMAGE_ENVIRONMENT, environment
from openstack_operator.plan import Object, OptionsError
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.yaml_text import load
from tests.field_effects import RELEASES, with_field

ROOT = Path(__file__).parent.parent.parent.parent
CASES = sorted(
    path
    for path in (ROOT / "src" / "openstack_operator" / "services").glob("*/cases/*.yaml")
    if not path.stem.endswith(".golden")
)
BY_HANDLE = {each.resource.handle: each for each in SERVICES}
NODE_OPTIONS = {
    "DEFAULT.host": "fixed",
    "DEFAULT.my_ip": "10.0.0.1",
    "libvirt.live_migration_inbound_addr": "migration.example.org",
    "vnc.server_listen": "127.0.0.1",
    "vnc.server_proxyclient_address": "10.0.0.1",
}


def sections(options: Mapping[str, Any]) -> Sections:
    """Return options by section."""
    by_section: Sections = {}
    for name, value in options.items():
        section, _, option = name.partition(".")
        by_section.setdefault(section, {})[option] = value
    return by_section


def refused(manifests: list[Object]) -> list[str]:
    """Return the fields that the operator refuses."""
    paper = OfflineCluster(SERVICES, ACTUATORS, RELEASES, served=())
    with pytest.raises(OptionsError) as error:
        list(paper.render(manifests, "openstack"))
    return [path for path, _ in error.value.problems]


@pytest.mark.seconds
@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_no_config_sets_what_a_pod_has_in_its_environment(case: Path) -> None:
    manifests = load(case)
    paper = OfflineCluster(SERVICES, ACTUATORS, RELEASES, served=())
    resources = {(each["kind"], each["metadata"]["name"]): index for index, each in enumerate(manifests)}
    for planned in list(paper.render(manifests, "openstack")):
        service = BY_HANDLE[planned.id.kind] if planned.plan else None
        index = resources.get((service.resource.kind, planned.id.name)) if service else None
        # Horizon is no program of oslo.config, and the others without this field read none.
        has_config = service and "config" in service.resource.spec.model_fields and planned.id.kind != "Horizon"
        if not service or not planned.plan or index is None or not has_config:
            continue
        allowed = service.internal_overrides
        for section, names in environment(planned.plan).items():
            for name in names.keys() - allowed.get(section, {}).keys():
                written = with_field(manifests[index].get("spec") or {}, "spec.config", {section: {name: "true"}})
                changed = [*manifests[:index], {**manifests[index], "spec": written}, *manifests[index + 1 :]]
                assert refused(changed) == [f"spec.config.{section}.{name}"]


@pytest.mark.parametrize("name", NODE_OPTIONS)
@pytest.mark.parametrize("field", ["compute.config", "config"])
def test_options_of_a_node_are_refused_for_the_whole_cloud(name: str, field: str) -> None:
    spec = with_field({}, f"spec.nova.{field}", sections({name: NODE_OPTIONS[name]}))
    cloud = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "OpenStackControlPlane", "metadata": {"name": "cloud"}}
    # The resource of the cloud's Nova is the one that is refused.
    assert refused([{**cloud, "spec": spec}]) == [f"spec.{field}.{name}"]


def test_spellings_that_programs_read_are_refused() -> None:
    spec = {"compute": {"config": {"VNC": {"server-listen": "127.0.0.1"}}}}
    paper = OfflineCluster(SERVICES, ACTUATORS, RELEASES)
    nova = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "Nova", "metadata": {"name": "nova"}, "spec": spec}
    with pytest.raises(OptionsError, match=r"spec\.compute\.config\.VNC\.server-listen: the operator sets VNC"):
        list(paper.render([nova], "openstack"))


def test_an_internal_program_may_replace_what_users_choose_for_the_others() -> None:
    manifests = load(ROOT / "src/openstack_operator/services/glance/cases/ceph.yaml")
    glance = next(each for each in manifests if each["kind"] == "Glance")
    glance["spec"] = with_field(glance["spec"], "spec.config", {"DEFAULT": {"show_multiple_locations": True}})
    planned = next(
        each
        for each in OfflineCluster(SERVICES, ACTUATORS, RELEASES).render(manifests, "openstack")
        if each.id.kind == "Glance"
    )
    assert planned.plan
    assert "show_multiple_locations" in environment(planned.plan)["DEFAULT"]


def test_an_old_name_of_an_option_of_the_operator_is_refused() -> None:
    catalog = {"DEFAULT": {"old": '{"now":["database","connection"]}'}, "database": {"connection": ""}}
    assert oslo.overlap({"DEFAULT": {"old": 1}}, {"database": {"connection": 2}}, catalog) == ["DEFAULT.old"]
    assert oslo.overlap({"DEFAULT": {"old": 1}}, {"DEFAULT": {"other": 2}}, catalog) == []


@pytest.mark.parametrize("service", ["placement", "neutron"])
def test_old_names_are_known_of_real_programs(service: str) -> None:
    kind = service.capitalize()
    spec = {"config": {"keystone_authtoken": {"memcache_servers": "elsewhere:11211"}}}
    resource = BY_HANDLE[kind].resource
    release = RELEASES(resource.spec.model_validate({}))
    assert "memcache_servers" in release.options[service]["keystone_authtoken"]
    manifest = {"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": service}, "spec": spec}
    assert refused([manifest]) == ["spec.config.keystone_authtoken.memcache_servers"]


def test_options_that_images_set_are_known() -> None:
    texts = [path.read_text() for path in (ROOT / "images").glob("**/Containerfile")]
    names = {match for text in texts for match in re.findall(r"^ENV OS_([A-Z0-9_]+?)__([A-Z0-9_]+)", text, re.M)}
    assert {(section.lower(), option.lower()) for section, option in names} == {
        (section, option) for section, options in IMAGE_ENVIRONMENT.items() for option in options
    }
