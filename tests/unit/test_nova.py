"""Nova's special rules; what its plan looks like as a whole stands in its golden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from oslo_config import cfg

from openstack_operator import kube
from openstack_operator.api import structural
from openstack_operator.plan import (
    READY,
    MissingReference,
    Object,
    Plan,
    SpecError,
    Step,
    Verdict,
    conditions,
    parse,
    waiting,
)
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan
from openstack_operator.testing import context

RELEASES = yaml.safe_load((Path(__file__).parents[2] / "releases" / "2025.1.yaml").read_text())
PUBLISHED = {
    "MariaDB": {"host": "mariadb.openstack.svc", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq.openstack.svc", "port": "5672"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3", "region": "RegionOne"},
    "Neutron": {"metadataSecret": "neutron-credentials"},
}
SECRETS = {"neutron-credentials": {"metadata": "shared"}}
TEN = [{"name": f"cell{number}"} for number in range(1, 11)]


def planned(spec: Mapping[str, Any] | None = None, **changes: Any) -> Plan:
    release = parse(RELEASES, changes.pop("profile", "debian"))
    given: dict[str, Any] = {"published": PUBLISHED, "secrets": SECRETS, **changes}
    return plan(context(NOVA, spec, release=release, **given))


def made(result: Plan) -> dict[tuple[str, str], Object]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in result.objects}


def jobs(result: Plan) -> set[str]:
    return {name for kind, name in made(result) if kind == "Job"}


def options(result: Plan, secret: str, path: Path) -> cfg.ConfigOpts:
    """The rendered nova.conf as oslo.config reads it."""
    path.write_text(kube.secret_data(made(result)["Secret", secret])["nova.conf"])
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt("transport_url"), cfg.FloatOpt("cpu_allocation_ratio")])
    conf.register_opts([cfg.StrOpt("connection")], group="database")
    conf.register_opts([cfg.StrOpt("connection")], group="api_database")
    conf.register_opts([cfg.StrOpt("username"), cfg.StrOpt("metadata_proxy_shared_secret")], group="neutron")
    conf.register_opts([cfg.StrOpt("virt_type"), cfg.IntOpt("tb_cache_size")], group="libvirt")
    conf.register_opts([cfg.StrOpt("novncproxy_base_url")], group="vnc")
    conf(["--config-file", str(path)], default_config_files=[])
    return conf


def daemons(nodes: int) -> dict[tuple[str, str], Object]:
    return {("DaemonSet", "nova-cell1-compute"): {"status": {"desiredNumberScheduled": nodes}}}


def step(result: Plan, name: str) -> Step:
    return next(each for each in result if each.name == name)


def template(result: Plan, kind: str, name: str) -> Object:
    return made(result)[kind, name]["spec"]["template"]


def test_each_process_knows_the_schemas_and_the_broker_of_its_own_level(tmp_path: Path) -> None:
    result = planned()
    above, below = (options(result, f"nova-{name}", tmp_path / name) for name in ("config", "cell1-config"))
    assert above.database.connection.endswith("/nova_cell0?charset=utf8")
    assert above.api_database.connection.endswith("/nova_api?charset=utf8")
    assert above.transport_url.endswith("/nova")
    assert below.database.connection.endswith("/nova_cell1?charset=utf8")
    assert below.api_database.connection is None
    assert below.transport_url.endswith("/nova-cell1")


def test_a_compute_node_knows_no_schema(tmp_path: Path) -> None:
    conf = options(planned(), "nova-cell1-compute-config", tmp_path / "nova.conf")
    assert (conf.database.connection, conf.api_database.connection) == (None, None)
    assert conf.transport_url.endswith("/nova-cell1")
    assert conf.neutron.username == "nova"
    assert conf.neutron.metadata_proxy_shared_secret is None


def test_the_metadata_api_knows_neutrons_secret(tmp_path: Path) -> None:
    conf = options(planned(), "nova-config", tmp_path / "nova.conf")
    assert conf.neutron.metadata_proxy_shared_secret == "shared"


def test_neutrons_secret_without_its_key_is_named() -> None:
    with pytest.raises(MissingReference, match=r"spec\.neutronRef: Secret neutron-credentials"):
        planned(secrets={"neutron-credentials": {}})


def test_ten_cells_are_one_condition() -> None:
    result = planned({"cells": TEN})
    found = conditions(result, dict.fromkeys(result, READY))
    assert [name for name in found if "Cell" in name] == ["CellsReady"]
    assert sum(name.endswith("-conductor") for _, name in made(result)) == 11


def test_two_cells_with_one_name_are_refused_by_the_api_server() -> None:
    cells = structural(NOVA.spec)["properties"]["cells"]
    assert (cells["x-kubernetes-list-type"], cells["x-kubernetes-list-map-keys"]) == ("map", ["name"])
    assert cells["default"] == [{"name": "cell1", "conductor": {}}]


def test_a_new_cell_changes_nothing_in_the_others() -> None:
    before, after = made(planned({"cells": TEN[:1]})), made(planned({"cells": TEN[:2]}))
    changed = {key for key in before if before[key] != after.get(key)}
    # What reads the map of cells, once, when it starts.
    above = {("Deployment", "nova-api"), ("Deployment", "nova-metadata")}
    above |= {("StatefulSet", "nova-conductor"), ("StatefulSet", "nova-scheduler"), ("Secret", "nova-config")}
    assert changed == {("Secret", "nova-credentials"), *above}


def test_what_reads_the_map_of_cells_waits_until_all_are_in_it() -> None:
    result = planned({"cells": TEN[:2]})
    steps = {step.name: step for step in result}
    for name in ("API", "Metadata", "Scheduler"):
        assert {"Cell1Setup", "Cell2Setup"} <= {needed.name for needed in steps[name].after}, name


def test_a_node_belongs_to_one_cell() -> None:
    result = planned({"cells": TEN[:2]})
    terms = [
        template(result, "DaemonSet", f"nova-{cell}-compute")["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        for cell in ("cell1", "cell2")
    ]
    operators = [[e["operator"] for term in each for e in term["matchExpressions"]] for each in terms]
    assert operators == [["In", "DoesNotExist"], ["In"]]


def test_a_cell_may_have_its_own_servers(tmp_path: Path) -> None:
    cells = [
        {"name": "far", "database": {"mariadbRef": {"name": "db2"}}, "messaging": {"rabbitmqRef": {"name": "bus2"}}}
    ]
    result = planned({"cells": cells})
    assert made(result)["MariaDBDatabase", "nova-far-db"]["spec"]["mariadbRef"]["name"] == "db2"
    assert made(result)["RabbitMQVhost", "nova-far"]["spec"]["rabbitmqRef"]["name"] == "bus2"


def test_two_images_are_two_sets_of_jobs() -> None:
    assert not jobs(planned()) & jobs(planned({"image": "example.org/nova:other"}))


def test_an_option_rolls_novas_pods_and_neither_jobs_nor_libvirt(tmp_path: Path) -> None:
    before, after = planned(), planned({"config": {"DEFAULT": {"cpu_allocation_ratio": 3.0}}})
    changed = {key for key, obj in made(after).items() if obj != made(before)[key]}
    assert {kind for kind, _ in changed} == {"Secret", "Deployment", "StatefulSet", "DaemonSet"}
    assert ("DaemonSet", "nova-libvirt") not in changed
    assert options(after, "nova-cell1-compute-config", tmp_path / "nova.conf").cpu_allocation_ratio == 3.0


def test_options_of_compute_nodes_stay_there() -> None:
    spec = {"compute": {"config": {"DEFAULT": {"cpu_allocation_ratio": 3.0}}}}
    changed = {key for key, obj in made(planned(spec)).items() if obj != made(planned())[key]}
    assert changed == {("Secret", "nova-cell1-compute-config"), ("DaemonSet", "nova-cell1-compute")}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"config": {"api_database": {"connection": "sqlite://"}}}, r"spec\.config\.api_database\.connection"),
        ({"config": {"libvirt": {"virt_type": "kvm"}}}, r"spec\.config\.libvirt\.virt_type"),
        ({"compute": {"config": {"vnc": {"enabled": False}}}}, r"spec\.compute\.config\.vnc\.enabled"),
    ],
)
def test_a_wired_option_is_refused(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(SpecError, match=path):
        planned(spec)


def test_a_new_password_enters_the_map_of_cells_again() -> None:
    held = made(planned())["Secret", "nova-credentials"]
    data = kube.secret_data(held) | {"cell1-database": "new"}
    children = {
        ("Secret", "nova-credentials"): kube.secret(context(NOVA, release=parse(RELEASES, "debian")), "x", data)
    }
    repeated = jobs(planned(children=children)) - jobs(planned())
    assert [name.rpartition("-")[0] for name in repeated] == ["nova-cell1-setup"]


def test_schemas_wait_for_no_service_and_pods_for_all() -> None:
    result = planned()
    peers = {"Placement", "Glance", "Neutron", "Identity"}
    for name in ("Schema", "Cell1Setup"):
        assert not peers & {each.name for each in step(result, name).after}
    for name in ("API", "Metadata", "Scheduler", "Conductor", "Cell1Conductor", "NoVNCProxy", "NovaCompute"):
        assert peers <= {each.name for each in step(result, name).after}


def test_what_is_waited_for_is_named() -> None:
    result = planned()
    verdicts: dict[Step, Verdict] = dict.fromkeys(result, READY)
    verdicts[step(result, "Glance")] = waiting("Glance/glance: API: 0/1 pods ready")
    assert conditions(result, verdicts)["GlanceReady"].message == "Glance/glance: API: 0/1 pods ready"


def test_all_of_nova_sends_its_notifications_to_one_place() -> None:
    result = planned({"messaging": {"notificationsRef": {"name": "rabbitmq"}}})
    for secret in ("nova-config", "nova-cell1-config", "nova-cell1-compute-config"):
        assert "/nova-notifications\n" in kube.secret_data(made(result)["Secret", secret])["nova.conf"]
    for name in ("API", "Cell1Conductor", "NovaCompute"):
        assert "nova-notifications" in {
            each.objects[0]["metadata"]["name"] for each in step(result, name).after if each.objects
        }


def test_without_compute_nodes_there_is_nothing_to_discover() -> None:
    assert not any("discover" in name for name in jobs(planned(children=daemons(0))))
    none = planned({"compute": {"enabled": False}}, children=daemons(3))
    assert not any("discover" in name for name in jobs(none))
    assert not any(kind == "DaemonSet" for kind, _ in made(none))


def test_another_node_is_another_discovery_after_the_compute_pods() -> None:
    two, three = planned(children=daemons(2)), planned(children=daemons(3))
    assert len(jobs(two) ^ jobs(three)) == 2
    assert "NovaCompute" in {each.name for each in step(two, "DiscoverHosts").after}


def test_a_node_port_is_what_clients_get_for_consoles(tmp_path: Path) -> None:
    service = {"spec": {"ports": [{"nodePort": 30080}]}}
    result = planned(
        {"expose": {"type": "NodePort", "host": "203.0.113.5"}},
        children={("Service", "nova-cell1-novncproxy"): service},
    )
    conf = options(result, "nova-cell1-compute-config", tmp_path / "nova.conf")
    assert conf.vnc.novncproxy_base_url == "http://203.0.113.5:30080/vnc_lite.html"


def test_compute_nodes_ignore_where_the_control_plane_runs_and_its_image() -> None:
    result = planned({"nodeSelector": {"role": "control"}, "image": "example.org/nova:other"})
    for name in ("nova-libvirt", "nova-cell1-compute"):
        spec = template(result, "DaemonSet", name)["spec"]
        assert spec["nodeSelector"] == kube.COMPUTE
        assert "example.org" not in spec["containers"][0]["image"]


@pytest.mark.parametrize("profile", ["debian", "kolla"])
def test_every_placeholder_of_a_command_is_filled_in(profile: str) -> None:
    for obj in made(planned(profile=profile)).values():
        for container in obj["spec"]["template"]["spec"]["containers"] if "template" in obj.get("spec", {}) else ():
            assert not any(word.startswith("{") for word in container.get("command", ()))


def test_an_api_starts_more_processes_while_all_are_busy() -> None:
    def command(result: Plan, name: str) -> list[str]:
        return template(result, "Deployment", name)["spec"]["containers"][0]["command"]

    unset, one = planned(), planned({"api": {"processes": 1}})
    for words in (command(unset, "nova-api"), command(unset, "nova-metadata"), command(one, "nova-metadata")):
        assert words[words.index("--processes") + 1] == "4"
        assert words[words.index("--cheaper") + 1] == "1"
    # uWSGI refuses to keep fewer than there may be, where there may be only one.
    assert "--cheaper" not in command(one, "nova-api")


def test_a_name_of_an_owner_names_its_schemas() -> None:
    result = plan(
        replace(
            context(NOVA, release=parse(RELEASES, "debian"), published=PUBLISHED, secrets=SECRETS),
            owner="second-nova",
        )
    )
    schemas = {obj["spec"]["database"] for (kind, _), obj in made(result).items() if kind == "MariaDBDatabase"}
    assert schemas == {"second_nova_api", "second_nova_cell0", "second_nova_cell1"}
