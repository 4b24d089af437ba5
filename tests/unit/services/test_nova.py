"""Nova's special rules; what its plan looks like as a whole stands in its golden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from oslo_config import cfg

from openstack_operator import kube
from openstack_operator.api import references, structural
from openstack_operator.plan import (
    READY,
    Incomplete,
    MissingReference,
    Object,
    Plan,
    SpecError,
    Step,
    UnsupportedError,
    Verdict,
    conditions,
    waiting,
)
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan
from openstack_operator.testing import NOW, context, granted
from tests.planning import release_of

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
    release = release_of(changes.pop("profile", "debian"))
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
    conf.register_opts([cfg.StrOpt("username"), cfg.StrOpt("password")], group="placement")
    names = "username", "password", "metadata_proxy_shared_secret"
    conf.register_opts([cfg.StrOpt(name) for name in names], group="neutron")
    conf.register_opts([cfg.StrOpt("virt_type"), cfg.IntOpt("tb_cache_size")], group="libvirt")
    conf.register_opts([cfg.StrOpt("novncproxy_base_url")], group="vnc")
    conf(["--config-file", str(path)], default_config_files=[])
    return conf


def daemons(nodes: int) -> dict[tuple[str, str], Object]:
    name = "nova-cell1-compute"
    status = {"desiredNumberScheduled": nodes}
    return {("DaemonSet", name): {"kind": "DaemonSet", "metadata": {"name": name}, "status": status}}


def test_a_nova_compute_that_ends_says_what_it_waits_for() -> None:
    annotations = made(planned())["DaemonSet", "nova-cell1-compute"]["metadata"]["annotations"]
    assert "openstack server list --all-projects --host NODE --long" in annotations[kube.ENDING]


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
    assert (conf.neutron.username, conf.placement.username) == ("nova-compute", "nova-compute")
    assert conf.neutron.metadata_proxy_shared_secret is None


@pytest.mark.security
def test_nodes_know_a_user_of_their_own_and_not_novas(tmp_path: Path) -> None:
    draw = map("drawn-{}-here".format, count()).__next__
    result = planned(draw=draw)
    above, node = (
        options(result, f"{name}-config", tmp_path / name).neutron for name in ("nova", "nova-cell1-compute")
    )
    user = made(result)["KeystoneUser", "nova-compute-user"]["spec"]
    assert (user["user"], user["roles"]) == (node.username, ["reader", "service"])
    assert node.password.startswith("drawn-")
    assert above.password.startswith("drawn-")
    pods = [obj["spec"]["template"]["spec"] for (kind, _), obj in made(result).items() if kind == "DaemonSet"]
    mounted = {each["secret"]["secretName"] for pod in pods for each in pod["volumes"] if "secret" in each}
    secrets = {name: kube.secret_data(obj) for (kind, name), obj in made(result).items() if kind == "Secret"}
    assert "nova-cell1-compute-config" in mounted
    assert [name for name in mounted & secrets.keys() if above.password in "".join(secrets[name].values())] == []


def test_nodes_go_on_with_novas_user_until_their_own_is_there() -> None:
    steps = [each for each in planned() if "nova-compute-user" in {obj["metadata"]["name"] for obj in each.objects}]
    assert [step.barrier for step in steps] == [True]


def test_nodes_reach_the_image_api_of_services_where_policies_are_on() -> None:
    result = planned({"networkPolicies": {"enabled": True, "nodes": ["192.0.2.0/24"]}})
    policy = made(result)["NetworkPolicy", "nova-uses-glance-glance-internal-api"]["spec"]
    assert policy["podSelector"]["matchLabels"][kube.COMPONENT] == "internal-api"
    peers = [peer for rule in policy["ingress"] for peer in rule["from"]]
    assert {"ipBlock": {"cidr": "192.0.2.0/24"}} in peers


def test_the_metadata_api_knows_neutrons_secret(tmp_path: Path) -> None:
    conf = options(planned(), "nova-config", tmp_path / "nova.conf")
    assert conf.neutron.metadata_proxy_shared_secret == "shared"


@pytest.mark.security
@pytest.mark.parametrize("secret", ["a\rforce_config_drive = true", "a\nb", "a\n"])
def test_a_metadata_secret_of_several_lines_is_refused(secret: str) -> None:
    with pytest.raises(Incomplete, match="'metadata' of Secret 'neutron-credentials' must be a single line") as error:
        planned(secrets={"neutron-credentials": {"metadata": secret}})
    assert error.value.path == "spec.neutronRef"


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


def test_readers_of_the_cell_map_wait_for_all_cells() -> None:
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


@pytest.mark.parametrize(
    ("config", "allowed"), [({}, True), ({"DEFAULT": {"allow_resize_to_same_host": False}}, False)]
)
def test_a_server_may_be_resized_on_its_node(config: dict[str, Any], allowed: bool, tmp_path: Path) -> None:
    """A cloud of one node could not resize at all; Nova's API and nova-compute have to agree."""
    result = planned({"config": config})
    for secret in ("nova-config", "nova-cell1-compute-config"):
        conf = options(result, secret, tmp_path / "nova.conf")
        conf.register_opt(cfg.BoolOpt("allow_resize_to_same_host", default=False))
        assert conf.allow_resize_to_same_host is allowed


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
    children = {("Secret", "nova-credentials"): kube.secret(context(NOVA, release=release_of("debian")), "x", data)}
    repeated = jobs(planned(children=children)) - jobs(planned())
    assert [name.rpartition("-")[0] for name in repeated] == ["nova-cell1-setup"]


def test_nothing_starts_without_what_it_needs_and_nothing_waits_for_more() -> None:
    """A program that calls a service for a request starts without it; users and nodes come once all are there."""
    result = planned()
    peers, identity = {"Placement", "Glance", "Neutron"}, {"Identity"}

    def awaited(name: str) -> set[str]:
        return {each.name for each in step(result, name).after} & (peers | identity)

    for name in ("Schema", "Cell1Setup"):
        assert awaited(name) == set()
    for name in ("API", "Metadata", "Scheduler", "Conductor", "Cell1Conductor", "NoVNCProxy"):
        assert awaited(name) == identity
    for name in ("NovaCompute", "Endpoint"):
        assert awaited(name) == peers | identity


def test_the_awaited_dependency_is_named() -> None:
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
    # Only the API's requests wait for nodes.
    for name, most, result in (("api", "8", unset), ("metadata", "2", unset), ("metadata", "2", one)):
        words = command(result, f"nova-{name}")
        assert words[words.index("--processes") + 1] == most
        assert words[words.index("--cheaper") + 1] == "1"
    # uWSGI refuses to keep fewer than there may be, where there may be only one.
    assert "--cheaper" not in command(one, "nova-api")


def test_a_name_of_an_owner_names_its_schemas() -> None:
    result = plan(
        replace(
            context(NOVA, release=release_of("debian"), published=PUBLISHED, secrets=SECRETS),
            owner="second-nova",
        )
    )
    schemas = {obj["spec"]["database"] for (kind, _), obj in made(result).items() if kind == "MariaDBDatabase"}
    assert schemas == {"second_nova_api", "second_nova_cell0", "second_nova_cell1"}


def mounted(result: Plan, name: str) -> dict[str, Object]:
    """Mounts of a DaemonSet's first container by the path they appear at."""
    container = template(result, "DaemonSet", name)["spec"]["containers"][0]
    return {mount["mountPath"]: mount for mount in container["volumeMounts"]}


def unversioned(result: Plan, name: str) -> dict[str, Object]:
    """The same, but for the version of nova.conf."""
    mounts = mounted(result, name)
    if conf := mounts.get("/etc/nova/nova.conf"):
        conf["subPath"] = "nova.conf"
    return mounts


def with_volumes(attaches: str, **published: str) -> Plan:
    cinder = {"Cinder": {"internalURL": "http://cinder-api:8776", "attaches": attaches, **published}}
    return planned({"cinderRef": {"name": "cinder"}}, published=PUBLISHED | cinder)


def test_every_process_asks_cinder_inside_the_cluster_as_its_own_user() -> None:
    checks = 0
    users = {"nova-config": "nova", "nova-cell1-config": "nova", "nova-cell1-compute-config": "nova-compute"}
    for secret, user in users.items():
        rendered = kube.secret_data(made(with_volumes("ceph"))["Secret", secret])["nova.conf"]
        section = rendered.partition("[cinder]\n")[2].partition("\n\n")[0].splitlines()
        checks += 1
        assert {"catalog_info = volumev3::internalURL", "os_region_name = RegionOne", f"username = {user}"} <= set(
            section
        )
        without = kube.secret_data(made(planned())["Secret", secret])["nova.conf"]
        # Nova finds a `volumev3` that somebody registers, and sends its tokens there, unless it has another place.
        nowhere = without.partition("[cinder]\n")[2].partition("\n\n")[0].splitlines()
        assert {"endpoint_template = https://127.0.0.1:1/v3", "http_retries = 0"} <= set(nowhere)
        assert "endpoint_template" not in section
    assert checks


@pytest.mark.parametrize(
    ("attaches", "types"),
    [
        ("", ""),
        ("ceph", "rbd"),
        ("driver", "rbd"),
        ("nfs", "nfs"),
        ("ceph iscsi nfs", "iscsi nfs rbd"),
        ("iscsi devices", "fibre_channel iscsi nvmeof"),
    ],
)
def test_nova_compute_attaches_what_the_backends_have(attaches: str, types: str) -> None:
    """Whoever answers as Cinder names no disk of the node (`local`), and no share of another server."""
    env = {
        each["name"]: each.get("value") for each in compute_env(with_volumes(attaches, nfsShares="nfs.example.org:/v"))
    }
    assert env["NOVA_VOLUME_TYPES"] == types
    assert env["NOVA_NFS_SHARES"] == "nfs.example.org:/v"


def test_nova_compute_without_cinder_attaches_nothing() -> None:
    env = {each["name"]: each.get("value") for each in compute_env(planned())}
    assert env["NOVA_VOLUME_TYPES"] == ""
    assert env.get("NOVA_NFS_SHARES", "") in ("", None)


def compute_env(plan: Plan) -> list[dict[str, Any]]:
    return template(plan, "DaemonSet", "nova-cell1-compute")["spec"]["containers"][0]["env"]


def test_a_node_shares_no_more_than_its_volumes_need() -> None:
    """Volumes in Ceph are opened by the guests themselves."""
    for name in ("nova-libvirt", "nova-cell1-compute"):
        assert unversioned(with_volumes("ceph"), name) == unversioned(planned(), name)


def test_mounts_of_nova_compute_are_visible_to_libvirt() -> None:
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


def test_without_ceph_libvirt_gets_no_keys() -> None:
    main = daemon(planned(owner="nova"), "nova-libvirt")["spec"]["containers"][0]
    assert "secret-define" not in str(main["command"])
    assert not any(mount["name"] == "ceph-keys" for mount in main["volumeMounts"])


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


def test_nodes_trust_an_authority_whose_key_none_has() -> None:
    draw = map(str, count()).__next__
    result = planned(owner="nova", pods=pods_of_libvirt("192.0.2.1", "192.0.2.2"), now=NOW, draw=draw)
    files = kube.secret_data(made(result)["Secret", "nova-migration"])
    authority = kube.secret_data(made(result)["Secret", "nova-migration-ca"])
    cert, signer = certificate(result), x509.load_pem_x509_certificate(authority["tls.crt"].encode())
    cert.verify_directly_issued_by(signer)
    assert named(cert) == {"192.0.2.1", "192.0.2.2"}
    assert authority["tls.key"] not in files.values()
    # What libvirt as the caller, libvirt as the called, and QEMU look for.
    assert {"cacert.pem", "clientcert.pem", "clientkey.pem", "server-key.pem", "ca-cert.pem", "client-cert.pem"} <= set(
        files
    )
    # libvirt takes orders from `compute` alone: a guest that broke out of QEMU has no such certificate.
    qemu = x509.load_pem_x509_certificate(files["qemu-cert.pem"].encode())
    qemu.verify_directly_issued_by(signer)
    assert named(qemu) == named(cert)
    assert (cert.subject.rfc4514_string(), qemu.subject.rfc4514_string()) == ("CN=compute", "CN=qemu")
    assert files["qemu-key.pem"] not in (files["server-key.pem"], files["clientkey.pem"])
    assert "nova-migration-ca" not in str(daemon(result, "nova-libvirt"))
    compute = kube.secret_data(made(result)["Secret", "nova-cell1-compute-config"])["nova.conf"]
    assert "live_migration_uri = qemu+tls://%s:16514/system?pkipath=/etc/openstack-libvirt-migration\n" in compute
    assert "live_migration_with_native_tls = true\n" in compute


def test_a_certificate_is_renewed_for_a_new_node_or_in_time() -> None:
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


def test_authorities_of_running_servers_are_restored_unchanged() -> None:
    before = {key[1]: obj for key, obj in made(planned(owner="nova", draw=lambda: "one")).items() if key[0] == "Secret"}
    authorities = ("nova-migration-ca", "nova-console-ca")
    lost = {name: before[name] for name in authorities}
    again = made(planned(owner="nova", deleted_secrets=lost, draw=lambda: "another"))
    assert {name: again["Secret", name]["data"] for name in authorities} == {k: v["data"] for k, v in lost.items()}


def test_servers_stay_where_they_are_unless_they_may_move() -> None:
    off = planned({"compute": {"liveMigration": False}}, owner="nova")
    assert not [name for _, name in made(off) if "migration" in name]
    assert "MIGRATION_ADDRESS" not in str(daemon(off, "nova-libvirt"))


def test_consoles_know_each_other_by_an_authority_of_their_own() -> None:
    result = planned(owner="nova")
    secrets = {name: kube.secret_data(obj) for (kind, name), obj in made(result).items() if kind == "Secret"}
    by = x509.load_pem_x509_certificate(secrets["nova-console-ca"]["tls.crt"].encode())
    node = x509.load_pem_x509_certificate(secrets["nova-console-node"]["server-cert.pem"].encode())
    proxy = x509.load_pem_x509_certificate(secrets["nova-console-proxy"]["tls.crt"].encode())
    for cert in (node, proxy):
        cert.verify_directly_issued_by(by)
    assert by.subject != certificate(result).issuer, "who may see consoles may not call libvirt"
    assert uses(node) == {ExtendedKeyUsageOID.SERVER_AUTH}
    assert uses(proxy) == {ExtendedKeyUsageOID.CLIENT_AUTH}, "a proxy cannot pass for a node"
    mounted = {
        (name, volume["secret"]["secretName"])
        for (_, name), obj in made(result).items()
        for volume in obj.get("spec", {}).get("template", {}).get("spec", {}).get("volumes", ())
        if "nova-console" in (volume.get("secret") or {}).get("secretName", "")
    }
    assert mounted == {("nova-libvirt", "nova-console-node"), ("nova-cell1-novncproxy", "nova-console-proxy")}


def uses(cert: x509.Certificate) -> set[x509.ObjectIdentifier]:
    return set(cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_certificates_of_consoles_are_renewed_in_time_and_nothing_restarts() -> None:
    draws = iter(str(number) for number in range(99))
    spec = {"compute": {"liveMigration": False}}
    first = planned(spec, owner="nova", now=NOW, draw=draws.__next__)
    held = made(first)
    assert first.outcome.wake
    again = planned(spec, owner="nova", now=NOW + timedelta(days=200), children=held, draw=draws.__next__)
    later = planned(spec, owner="nova", now=first.outcome.wake, children=held, draw=draws.__next__)
    for name in ("nova-console-node", "nova-console-proxy"):
        assert made(again)["Secret", name]["data"] == held["Secret", name]["data"]
        assert made(later)["Secret", name]["data"] != held["Secret", name]["data"]
    for key in (("Secret", "nova-console-ca"), ("DaemonSet", "nova-libvirt"), ("Deployment", "nova-cell1-novncproxy")):
        assert made(later)[key].get("data", made(later)[key].get("spec")) == held[key].get(
            "data", held[key].get("spec")
        )


def schemes(result: Plan) -> str:
    conf = kube.secret_data(made(result)["Secret", "nova-cell1-config"])["nova.conf"]
    return next((line for line in conf.splitlines() if line.startswith("auth_schemes")), "")


def test_consoles_in_plain_text_are_reached_unless_tls_is_required() -> None:
    assert schemes(planned(owner="nova")) == "auth_schemes = vencrypt,none"
    assert schemes(planned({"compute": {"enabled": False}}, owner="nova")) == ""
    assert schemes(planned({"imageProfile": "kolla"}, owner="nova", profile="kolla")) == ""
    required = {"imageProfile": "kolla", "tls": {"secretRef": {"name": "mine"}, "required": True}}
    with pytest.raises(UnsupportedError, match=r"spec\.tls\.required: kolla's images"):
        planned(required, profile="kolla")


ASKING = {"scheduler": {"externalScheduler": {"enabled": True, "endpoint": "https://cortex.example.org:8080/"}}}
LAST = {
    "available_filters": ["nova.scheduler.filters.all_filters", "nova_external_scheduler.ExternalSchedulerFilter"],
    "enabled_filters": [
        "ComputeFilter",
        "ComputeCapabilitiesFilter",
        "ImagePropertiesFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
        "ExternalSchedulerFilter",
    ],
    "weight_classes": [
        "nova.scheduler.weights.all_weighers",
        "nova_external_scheduler.ExternalSchedulerWeigher",
    ],
}


def chooses(spec: Mapping[str, Any], path: Path, **changes: Any) -> cfg.ConfigOpts:
    """What the scheduler that asks another one reads."""
    path.write_text(kube.secret_data(made(planned(spec, **changes))["Secret", "nova-scheduler-config"])["nova.conf"])
    conf = cfg.ConfigOpts()
    lists = [cfg.ListOpt("enabled_filters"), cfg.ListOpt("weight_classes"), cfg.MultiStrOpt("available_filters")]
    order = [cfg.IntOpt("host_subset_size"), cfg.BoolOpt("shuffle_best_same_weighed_hosts", default=True)]
    asked = [cfg.StrOpt("url"), cfg.FloatOpt("timeout"), cfg.StrOpt("pipeline"), cfg.FloatOpt("pause_after_failure")]
    conf.register_opts([*lists, *order], group="filter_scheduler")
    conf.register_opts([*asked, cfg.StrOpt("cafile")], group="external_scheduler")
    conf.register_opts([cfg.StrOpt("connection")], group="database")
    conf(["--config-file", str(path)], default_config_files=[])
    return conf


def test_another_scheduler_comes_last(tmp_path: Path) -> None:
    conf = chooses(ASKING, tmp_path / "nova.conf")
    assert {name: conf.filter_scheduler[name] for name in LAST} == LAST
    assert (conf.filter_scheduler.host_subset_size, conf.filter_scheduler.shuffle_best_same_weighed_hosts) == (1, False)
    assert dict(conf.external_scheduler) == {
        "url": "https://cortex.example.org:8080/scheduler/nova/external",
        "timeout": 5,
        "pipeline": "",
        "pause_after_failure": 30,
        "cafile": None,
    }
    assert conf.database.connection.endswith("/nova_cell0?charset=utf8")


def test_only_the_scheduler_knows_of_another_one() -> None:
    before, after = made(planned()), made(planned(ASKING))
    changed = {key for key in before if before[key] != after[key]}
    assert (changed, after.keys() - before.keys()) == (
        {("StatefulSet", "nova-scheduler")},
        {("Secret", "nova-scheduler-config")},
    )
    off = {"scheduler": {"externalScheduler": {**ASKING["scheduler"]["externalScheduler"], "enabled": False}}}
    assert made(planned(off)) == before


def test_filters_and_weighers_of_the_users_own_come_before_it(tmp_path: Path) -> None:
    own = {"enabled_filters": "ComputeFilter", "weight_classes": "a.Weigher", "available_filters": ["a.Filter", "b"]}
    found = chooses({**ASKING, "config": {"filter_scheduler": own}}, tmp_path / "nova.conf").filter_scheduler
    assert found.enabled_filters == ["ComputeFilter", "ExternalSchedulerFilter"]
    assert found.weight_classes == ["a.Weigher", "nova_external_scheduler.ExternalSchedulerWeigher"]
    assert found.available_filters == ["a.Filter", "b", "nova_external_scheduler.ExternalSchedulerFilter"]


@pytest.mark.parametrize(
    ("section", "option"), [("filter_scheduler", "host_subset_size"), ("external_scheduler", "url")]
)
def test_ordering_options_of_the_scheduler_cannot_be_set(section: str, option: str) -> None:
    with pytest.raises(SpecError, match=rf"spec\.config\.{section}\.{option}: the operator sets"):
        planned({**ASKING, "config": {section: {option: 2}}})


def test_scheduler_timeouts_are_written_in_seconds(tmp_path: Path) -> None:
    spec = {"timeout": "10s", "pauseAfterFailure": "2m", "pipeline": "kvm-general-purpose-load-balancing"}
    spec = {"scheduler": {"externalScheduler": {**ASKING["scheduler"]["externalScheduler"], **spec}}}
    found = chooses(spec, tmp_path / "nova.conf").external_scheduler
    assert (found.timeout, found.pause_after_failure) == (10, 120)
    assert found.pipeline == "kvm-general-purpose-load-balancing"


def test_a_cortex_is_asked_once_it_has_an_address(tmp_path: Path) -> None:
    spec = {"scheduler": {"externalScheduler": {"enabled": True, "cortexRef": {"name": "cortex"}}}}
    assert ("Secret", "nova-scheduler-config") not in made(planned(spec))
    cortex = {"internalURL": "https://cortex.openstack.svc:8080", "trustSecret": "internal-bundle"}
    given = {"published": {**PUBLISHED, "Cortex": cortex}, "secrets": {**SECRETS, "internal-bundle": {"ca.crt": "PEM"}}}
    found = chooses(spec, tmp_path / "nova.conf", **given).external_scheduler
    assert found.url == "https://cortex.openstack.svc:8080/scheduler/nova/external"
    assert found.cafile == "/etc/openstack-trust/internal-bundle/ca.crt"
    mounts = template(planned(spec, **given), "StatefulSet", "nova-scheduler")["spec"]["containers"][0]["volumeMounts"]
    assert "/etc/openstack-trust/internal-bundle" in {mount["mountPath"] for mount in mounts}


def test_an_endpoint_is_verified_only_with_the_users_authority(tmp_path: Path) -> None:
    asked = {**ASKING["scheduler"]["externalScheduler"], "caSecretRef": {"name": "company"}}
    spec = {"scheduler": {"externalScheduler": asked}}
    given = {"secrets": {**SECRETS, "company": {"ca.crt": "PEM", "tls.key": "secret"}}}
    found = chooses(spec, tmp_path / "nova.conf", **given).external_scheduler
    assert found.cafile == "/etc/openstack-external-scheduler/ca.crt"
    pod = template(planned(spec, **given), "StatefulSet", "nova-scheduler")["spec"]
    source = next(volume["secret"] for volume in pod["volumes"] if volume["name"] == "external-scheduler")
    assert (source["secretName"], source["items"]) == ("company", [{"key": "ca.crt", "path": "ca.crt"}])
    with pytest.raises(
        MissingReference, match=r"externalScheduler\.caSecretRef: Secret 'company' has no key 'ca\.crt'"
    ):
        planned(spec, secrets={**SECRETS, "company": {}})


def test_images_without_the_plug_in_cannot_ask() -> None:
    with pytest.raises(
        UnsupportedError, match=r"spec\.scheduler\.externalScheduler\.enabled: kolla's images lack the plug-in"
    ):
        planned({**ASKING, "imageProfile": "kolla"}, profile="kolla")


def test_schemas_have_the_names_they_are_given() -> None:
    names = {"database": "nova", "apiDatabase": "nova_api", "cellDatabase": "nova_cell0"}
    wanted = {"database": {**names, "mariadbRef": {"name": "mariadb"}}}
    schemas = [obj["spec"]["database"] for (kind, _), obj in made(planned(wanted)).items() if kind == "MariaDBDatabase"]
    # The last one is read by the account of consoles.
    assert schemas == ["nova_api", "nova_cell0", "nova_cell1", "nova_cell1"]
    other = made(planned({"database": {"apiDatabase": "above", "cellDatabase": "lost"}}))
    assert other["MariaDBDatabase", "nova-api-db"]["spec"]["user"] == "above"
    assert other["MariaDBDatabase", "nova-cell0-db"]["spec"]["database"] == "lost"
    assert other["MariaDBDatabase", "nova-cell1-db"]["spec"]["database"] == "nova_cell1"


def test_services_named_in_other_words_are_those_nova_calls_as_itself(tmp_path: Path) -> None:
    auth = {
        "placementServiceUserRef": {"name": "my-placement"},
        "glanceServiceUserRef": {"name": "my-glance"},
        "neutronServiceUserRef": {"name": "my-neutron"},
        "cinderServiceUserRef": {"name": "my-cinder"},
    }
    spec = NOVA.spec.model_validate({"serviceAuth": auth, "placementRef": {"name": "placement"}})
    named = {ref.kind: ref.name for _, ref in references(spec)}
    assert [named[kind] for kind in ("Placement", "Glance", "Neutron", "Cinder")] == [
        "my-placement",
        "my-glance",
        "my-neutron",
        "my-cinder",
    ]
    told = planned({"serviceAuth": {"neutronServiceUserRef": {"name": "my-neutron"}}})
    assert options(told, "nova-config", tmp_path / "nova.conf").neutron.username == "nova"


def test_a_share_of_the_nodes_belongs_to_the_cell_that_names_it() -> None:
    cells = [{"name": "cell1"}, {"name": "cell2", "computeRef": {"name": "hypervisor-cell2"}}]
    daemon = made(planned({"cells": cells}))["DaemonSet", "nova-cell2-compute"]["spec"]["template"]["spec"]
    (term,) = daemon["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "openstack-cell", "operator": "In", "values": ["cell2", "hypervisor-cell2"]}
    ]


@pytest.mark.proves("Nova", "status.cells[].name", "status.cells[].status", "status.cells[].computeNodes")
def test_the_status_tells_of_each_cell_how_many_nodes_are_connected() -> None:
    two = {"cells": [{"name": "cell1"}, {"name": "cell2"}]}
    assert [cell["status"] for cell in planned(two).outcome.details["cells"]] == ["Progressing", "Progressing"]
    there = {key: granted(obj) for key, obj in made(planned(two)).items()}
    there["DaemonSet", "nova-cell1-compute"]["status"]["numberReady"] = 42
    del there["RabbitMQVhost", "nova-cell2"]
    assert planned(two, children=there).outcome.details["cells"] == [
        {"name": "cell1", "status": "Ready", "computeNodes": 42},
        {"name": "cell2", "status": "Progressing", "computeNodes": 1},
    ]


def test_a_cloud_without_compute_nodes_has_none_in_its_cells() -> None:
    (cell,) = planned({"compute": {"enabled": False}}).outcome.details["cells"]
    assert cell["computeNodes"] == 0


def test_a_schema_has_one_use() -> None:
    with pytest.raises(SpecError, match=r"spec\.database: schema 'nova_cell1' is used twice in MariaDB/mariadb"):
        planned({"database": {"apiDatabase": "nova_cell1"}})
    apart = {"name": "cell1", "database": {"database": "nova_api", "mariadbRef": {"name": "other"}}}
    assert ("MariaDBDatabase", "nova-cell1-db") in made(planned({"cells": [apart]}))
