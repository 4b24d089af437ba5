"""Nova's special rules; what its plan looks like as a whole stands in its golden."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
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
from openstack_operator.testing import NOW, context

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
        assert words[words.index("--processes") + 1] == "8"
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


def mounted(result: Plan, name: str) -> dict[str, Object]:
    """Mounts of a DaemonSet's first container by the path they appear at."""
    container = template(result, "DaemonSet", name)["spec"]["containers"][0]
    return {mount["mountPath"]: mount for mount in container["volumeMounts"]}


def with_volumes(attaches: str) -> Plan:
    cinder = {"Cinder": {"internalURL": "http://cinder-api:8776", "attaches": attaches}}
    return planned({"cinderRef": {"name": "cinder"}}, published=PUBLISHED | cinder)


def test_every_process_asks_cinder_as_nova_and_inside_the_cluster() -> None:
    for secret in ("nova-config", "nova-cell1-config", "nova-cell1-compute-config"):
        rendered = kube.secret_data(made(with_volumes("ceph"))["Secret", secret])["nova.conf"]
        section = rendered.partition("[cinder]\n")[2].partition("\n\n")[0].splitlines()
        assert {"catalog_info = volumev3::internalURL", "os_region_name = RegionOne", "username = nova"} <= set(section)
        assert "[cinder]" not in kube.secret_data(made(planned())["Secret", secret])["nova.conf"]


def test_a_node_shares_no_more_than_its_volumes_need() -> None:
    """Volumes in Ceph are opened by the guests themselves."""
    for name in ("nova-libvirt", "nova-cell1-compute"):
        assert mounted(with_volumes("ceph"), name) == mounted(planned(), name)


def test_what_nova_compute_mounts_libvirt_sees() -> None:
    found = with_volumes("ceph nfs")
    assert mounted(found, "nova-cell1-compute")["/var/lib/nova"]["mountPropagation"] == "Bidirectional"
    assert mounted(found, "nova-libvirt")["/var/lib/nova"]["mountPropagation"] == "HostToContainer"
    assert "/dev" not in mounted(found, "nova-libvirt")


def test_devices_that_nova_compute_attaches_libvirt_sees() -> None:
    found = with_volumes("iscsi")
    compute, libvirt = (template(found, "DaemonSet", name)["spec"] for name in ("nova-cell1-compute", "nova-libvirt"))
    assert [each["name"] for each in compute["containers"]] == ["main", "iscsid"]
    assert {"/dev", "/etc/iscsi"} <= set(mounted(found, "nova-cell1-compute"))
    assert "/dev" in mounted(found, "nova-libvirt")
    # The node's own /dev/kvm is not libvirt's to remove.
    assert {"name": "NODE_DEVICES", "value": "yes"} in libvirt["containers"][0]["env"]


CEPH = {"fsid": "11111111-2222-3333-4444-555555555555", "monitors": "ceph-mon-a"} | {
    f"{use}{what}": f"{word}{user}"
    for use, user in (("vms", "nova"),)
    for what, word in (("User", "client."), ("Pool", "pool-"), ("Secret", "ceph-"))
}


CINDER = {"cephKeys": "22222222-2222-8222-8222-222222222222=ceph-cinder", "attaches": "ceph"}


def on_ceph(compute: Mapping[str, Any], key: str = "key-of-nova") -> Plan:
    names = {"ceph-nova": key, "ceph-cinder": "key-of-cinder"}
    secrets = {name: {"ceph.conf": "", "keyring": "", "key": value} for name, value in names.items()}
    published = PUBLISHED | {"CephStorage": CEPH, "Cinder": CINDER}
    spec = {"compute": compute, "cinderRef": {"name": "cinder"}}
    return planned(spec, published=published, secrets=SECRETS | secrets, owner="nova")


def daemon(result: Plan, name: str) -> Object:
    return made(result)["DaemonSet", name]["spec"]["template"]


def test_disks_of_servers_in_ceph(tmp_path: Path) -> None:
    result = on_ceph({"storageType": "ceph"})
    conf = kube.secret_data(made(result)["Secret", "nova-cell1-config"])["nova.conf"]
    compute = kube.secret_data(made(result)["Secret", "nova-cell1-compute-config"])["nova.conf"]
    assert "images_type" not in conf
    for line in ("images_type = rbd", "images_rbd_pool = pool-nova", "rbd_user = nova", "hw_disk_discard = unmap"):
        assert f"{line}\n" in compute
    mounts = {
        mount["mountPath"] for mount in daemon(result, "nova-cell1-compute")["spec"]["containers"][0]["volumeMounts"]
    }
    assert {"/etc/ceph/ceph.conf", "/etc/ceph/ceph.client.nova.keyring"} <= mounts
    assert not any("cinder" in mount for mount in mounts), "guests log in for themselves"
    told = kube.secret_data(made(result)["Secret", "nova-libvirt-secrets"])
    uuid = next(line for line in compute.splitlines() if "rbd_secret_uuid" in line).split()[-1]
    assert told[f"{uuid}.base64"] == "key-of-nova"
    assert sorted(text for name, text in told.items() if name.endswith(".base64")) == ["key-of-cinder", "key-of-nova"]
    assert all(uuid.partition(".")[0] in text for uuid, text in told.items() if uuid.endswith(".xml"))


def test_a_new_key_restarts_nova_compute_and_leaves_libvirt_alone() -> None:
    old, new = (on_ceph({"storageType": "ceph"}, key) for key in ("old", "new"))
    assert daemon(old, "nova-libvirt") == daemon(new, "nova-libvirt")
    assert daemon(old, "nova-cell1-compute") != daemon(new, "nova-cell1-compute")
    keys = {mount["mountPath"]: mount for mount in daemon(old, "nova-libvirt")["spec"]["containers"][0]["volumeMounts"]}
    assert "subPath" not in keys["/etc/openstack-libvirt-secrets"], "a file of a subPath would never follow"


def test_volumes_in_ceph_and_disks_on_nodes() -> None:
    result = on_ceph({})
    compute = kube.secret_data(made(result)["Secret", "nova-cell1-compute-config"])["nova.conf"]
    assert "rbd" not in compute
    assert "key-of-cinder" in kube.secret_data(made(result)["Secret", "nova-libvirt-secrets"]).values()


def test_without_ceph_libvirt_keeps_no_keys() -> None:
    main = daemon(planned(owner="nova"), "nova-libvirt")["spec"]["containers"][0]
    assert "secret" not in str(main["command"])
    assert not any("secrets" in mount["mountPath"] for mount in main["volumeMounts"])


def test_the_shell_that_defines_keys_is_one(tmp_path: Path) -> None:
    main = daemon(on_ceph({"storageType": "ceph"}), "nova-libvirt")["spec"]["containers"][0]
    script = tmp_path / "start"
    script.write_text(main["command"][2])
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0


def pods_of_libvirt(*addresses: str) -> list[Object]:
    labels = {kube.COMPONENT: "libvirt"}
    return [
        {"metadata": {"name": f"nova-libvirt-{address}", "labels": labels}, "status": {"podIP": address}}
        for address in addresses
    ]


def certificate(result: Plan) -> x509.Certificate:
    files = kube.secret_data(made(result)["Secret", "nova-migration"])
    return x509.load_pem_x509_certificate(files["server-cert.pem"].encode())


def named(cert: x509.Certificate) -> set[str]:
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(address) for address in names.get_values_for_type(x509.IPAddress)}


def test_nodes_know_each_other_by_an_authority_whose_key_none_of_them_has() -> None:
    result = planned(owner="nova", pods=pods_of_libvirt("192.0.2.1", "192.0.2.2"), now=NOW)
    files = kube.secret_data(made(result)["Secret", "nova-migration"])
    authority = kube.secret_data(made(result)["Secret", "nova-migration-ca"])
    cert, signer = certificate(result), x509.load_pem_x509_certificate(authority["cert"].encode())
    cert.verify_directly_issued_by(signer)
    assert named(cert) == {"192.0.2.1", "192.0.2.2"}
    assert authority["key"] not in files.values()
    # What libvirt as the caller, libvirt as the called, and QEMU look for.
    assert {"cacert.pem", "clientcert.pem", "clientkey.pem", "server-key.pem", "ca-cert.pem", "client-cert.pem"} <= set(
        files
    )
    assert "nova-migration-ca" not in str(daemon(result, "nova-libvirt"))
    compute = kube.secret_data(made(result)["Secret", "nova-cell1-compute-config"])["nova.conf"]
    assert "live_migration_uri = qemu+tls://%s:16514/system?pkipath=/etc/openstack-libvirt-migration\n" in compute
    assert "live_migration_with_native_tls = true\n" in compute


def test_a_certificate_is_renewed_for_a_new_node_or_in_time_and_not_before() -> None:
    draws = iter(str(number) for number in range(99))
    one, two = pods_of_libvirt("192.0.2.1"), pods_of_libvirt("192.0.2.1", "192.0.2.2")
    first = planned(owner="nova", pods=two, now=NOW, draw=draws.__next__)
    held = made(first)
    again = planned(owner="nova", pods=one, now=NOW + timedelta(days=200), children=held, draw=draws.__next__)
    assert certificate(again) == certificate(first), "a node that is away may come back"
    assert first.outcome.wake
    later = planned(owner="nova", pods=one, now=first.outcome.wake, children=held, draw=draws.__next__)
    assert certificate(later) != certificate(first)
    assert named(certificate(later)) == {"192.0.2.1"}
    more = planned(owner="nova", pods=pods_of_libvirt("192.0.2.9"), now=NOW, children=held, draw=draws.__next__)
    assert named(certificate(more)) == {"192.0.2.9"}
    for result in (later, more):
        assert made(result)["Secret", "nova-migration-ca"]["data"] == held["Secret", "nova-migration-ca"]["data"]
        assert daemon(result, "nova-libvirt") == daemon(first, "nova-libvirt"), "libvirt is told, not restarted"


def test_servers_stay_where_they_are_unless_they_may_move() -> None:
    off = planned({"compute": {"liveMigration": False}}, owner="nova")
    assert not [name for _, name in made(off) if "migration" in name]
    assert "MIGRATION_ADDRESS" not in str(daemon(off, "nova-libvirt"))
