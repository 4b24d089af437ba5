"""Cinder: a pod a backend and no more than it needs, types, backups, and backends that go."""

from __future__ import annotations

import configparser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from openstack_operator import kube
from openstack_operator.plan import Context, MissingReference, Object, Plan, Release, SpecError
from openstack_operator.services.cinder.c5c3 import plan as c5c3_plan
from openstack_operator.services.cinder.model import CINDER, CinderSpec
from openstack_operator.services.cinder.service import plan
from openstack_operator.testing import context, granted

KEY = "AQBvaWJlAAAAABAAaGVsbG9oZWxsb2hlbGxvIQ=="
FSID = "11111111-2222-3333-4444-555555555555"
CONTRACTS: dict[str, Mapping[str, str]] = {
    "MariaDB": {"host": "mariadb.openstack", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq.openstack", "port": "5672"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api.openstack:5000/v3"},
    "Glance": {"internalURL": "http://glance-api.openstack:9292"},
    "Etcd": {"coordinationURL": "etcd3+http://etcd:2379"},
    "CephStorage": {
        "monitors": "10.0.0.1:6789",
        "fsid": FSID,
        **{f"{use}User": f"client.{use}" for use in ("volumes", "backups")},
        **{f"{use}Pool": use for use in ("volumes", "backups")},
        **{f"{use}Secret": f"ceph-client-{use}" for use in ("volumes", "backups")},
    },
}
SECRETS = {
    **{f"ceph-client-{use}": {"ceph.conf": "", "keyring": "", "key": KEY} for use in ("volumes", "backups")},
    "mine": {
        "ceph.conf": f"[global]\nfsid = {FSID}\nmon host = 192.0.2.1\n",
        "keyring": f"[client.someone]\n\tkey = {KEY}\n",
    },
    "keys": {"access": "who", "secret": "s3cret", "token": "t0ken", "odd": "'pa$$wo\\$rd'"},
}
CEPH = {"name": "fast", "type": "ceph"}
LVM = {"name": "local", "type": "lvm"}
NFS: dict[str, Any] = {"name": "files", "type": "nfs", "nfs": {"shares": ["files.example:/a", "files.example:/b"]}}
ARRAY: dict[str, Any] = {"name": "array", "driver": "cinder.volume.drivers.pure.PureISCSIDriver"}


def planned(
    release: Release,
    *backends: Mapping[str, Any],
    children: Any = None,
    by: Callable[[Context[CinderSpec]], Plan] = plan,
    **spec: Any,
) -> Plan:
    wanted = {"backends": list(backends), **spec}
    return by(context(CINDER, wanted, release=release, published=CONTRACTS, secrets=SECRETS, children=children or {}))


def made(found: Plan, kind: str) -> dict[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in found.objects if obj["kind"] == kind}


def pod(found: Plan, name: str) -> Object:
    return made(found, "StatefulSet")[name]["spec"]["template"]["spec"]


def options(found: Plan, secret: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, default_section="none")
    parser.read_string(kube.secret_data(made(found, "Secret")[secret])["cinder.conf"])
    return parser


def mounts(container: Object) -> dict[str, str]:
    return {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}


def test_a_backend_has_pods_and_options_of_its_own(release: Release) -> None:
    found = planned(release, CEPH, LVM)
    assert set(made(found, "StatefulSet")) == {"cinder-scheduler", "cinder-volume-fast", "cinder-volume-local"}
    fast, local, shared = (options(found, f"cinder-{name}config") for name in ("fast-", "local-", ""))
    assert (fast["DEFAULT"]["enabled_backends"], local["DEFAULT"]["enabled_backends"]) == ("fast", "local")
    assert dict(fast["fast"]) == {
        "volume_driver": "cinder.volume.drivers.rbd.RBDDriver",
        "volume_backend_name": "fast",
        "rbd_pool": "volumes",
        "rbd_user": "volumes",
        "rbd_ceph_conf": "/etc/ceph/ceph.conf",
        "rbd_secret_uuid": fast["fast"]["rbd_secret_uuid"],
    }
    assert "local" not in fast.sections()
    assert not {"fast", "local"} & set(shared.sections())


def test_seed_names_say_the_same(release: Release) -> None:
    """The driver's class in the place of a type, and Ceph by a Secret."""
    rbd = {"pool": "ssd", "cephSecretRef": {"name": "mine"}, "cephClientRef": {"name": "someone"}}
    found = planned(release, {"name": "fast", "driver": "cinder.volume.drivers.rbd.RBDDriver", "rbd": rbd})
    section = options(found, "cinder-fast-config")["fast"]
    assert (section["rbd_pool"], section["rbd_user"]) == ("ssd", "someone")
    assert "/etc/ceph/ceph.client.someone.keyring" in mounts(pod(found, "cinder-volume-fast")["containers"][0])


def test_the_same_key_has_the_same_name_for_cinder_and_libvirt(release: Release) -> None:
    one, two = (options(planned(release, CEPH), "cinder-fast-config")["fast"]["rbd_secret_uuid"] for _ in range(2))
    assert one == two


def test_ceph_without_a_client_for_volumes(release: Release) -> None:
    ctx = context(CINDER, {"backends": [CEPH]}, release=release, published={**CONTRACTS, "CephStorage": {"fsid": FSID}})
    with pytest.raises(MissingReference, match="no client for volumes"):
        plan(ctx)


def test_only_a_backend_that_mounts_or_makes_devices_becomes_root(release: Release) -> None:
    found = planned(release, CEPH, LVM, NFS, ARRAY, {**ARRAY, "name": "san", "hostAccess": True})
    privileged = {
        name: pod(found, f"cinder-volume-{name}")["containers"][0]["securityContext"].get("privileged", False)
        for name in ("fast", "local", "files", "array", "san")
    }
    assert privileged == {"fast": False, "local": True, "files": True, "array": False, "san": True}
    on_node = {name for name in privileged if pod(found, f"cinder-volume-{name}").get("hostNetwork")}
    assert on_node == {"local", "san"}


def test_volume_services_without_root_have_a_sudo_that_runs_nothing_as_root(release: Release) -> None:
    """Cinder calls sudo to look at an image it has fetched itself."""
    found = planned(release, CEPH, NFS)
    fast, files = (pod(found, f"cinder-volume-{name}")["containers"][0] for name in ("fast", "files"))
    assert mounts(fast)["/usr/local/bin/sudo"] == "sudo"
    assert fast["securityContext"]["allowPrivilegeEscalation"] is False
    assert "/usr/local/bin/sudo" not in mounts(files)
    # What would act as root for it has no capability either, and must not want to keep one.
    for section in ("cinder_sys_admin", "privsep_osbrick"):
        assert options(found, "cinder-fast-config")[section]["capabilities"] == ","
        assert section not in options(found, "cinder-files-config")
    [volume] = [each for each in pod(found, "cinder-volume-fast")["volumes"] if each["name"] == "sudo"]
    assert volume["secret"]["defaultMode"] == 0o555
    assert kube.secret_data(made(found, "Secret")[volume["secret"]["secretName"]])["sudo"].endswith('exec "$@"\n')


def test_volumes_in_ceph_belong_to_a_cluster_and_others_to_a_pod(release: Release) -> None:
    found = planned(release, CEPH, LVM)
    assert options(found, "cinder-fast-config")["DEFAULT"]["cluster"] == "cinder"
    assert "cluster" not in options(found, "cinder-local-config")["DEFAULT"]
    host = next(
        each for each in pod(found, "cinder-volume-local")["containers"][0]["env"] if each["name"] == "OS_DEFAULT__HOST"
    )
    assert host["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    looked = made(found, "CinderBackend")
    assert looked["cinder-fast"]["spec"]["cluster"] == "cinder"
    assert looked["cinder-local"]["spec"]["hosts"] == ["cinder-volume-local-0@local"]


def test_several_pods_of_a_backend_need_shared_locks(release: Release) -> None:
    several = {**CEPH, "replicas": 2}
    with pytest.raises(SpecError, match=r"spec\.backends\[0\]\.replicas: .*coordination\.etcdRef"):
        planned(release, several)
    found = planned(release, several, coordination={"etcdRef": {"name": "etcd"}})
    for secret in ("cinder-config", "cinder-fast-config"):
        assert options(found, secret)["coordination"]["backend_url"] == "etcd3+http://etcd:2379"
    assert made(found, "StatefulSet")["cinder-volume-fast"]["spec"]["replicas"] == 2
    assert "cinder-volume-fast" in made(found, "PodDisruptionBudget")


def test_lock_server_is_verified_if_it_has_a_certificate(release: Release) -> None:
    locks = {"coordinationURL": "etcd3+https://etcd:2379?timeout=10", "trustSecret": "pki-bundle"}
    ctx = context(
        CINDER,
        {"backends": [CEPH], "coordination": {"etcdRef": {"name": "etcd"}}},
        release=release,
        published={**CONTRACTS, "Etcd": locks},
        secrets={**SECRETS, "pki-bundle": {"ca.crt": "an authority"}},
    )
    url = options(plan(ctx), "cinder-fast-config")["coordination"]["backend_url"]
    assert url == "etcd3+https://etcd:2379?timeout=10&ca_cert=/etc/openstack-trust/pki-bundle/ca.crt"


def test_a_driver_of_ones_own_with_secrets_by_reference(release: Release) -> None:
    own = {"options": {"san_ip": "192.0.2.7"}, "secretOptions": {"pure_api_token": {"name": "keys", "key": "token"}}}
    section = options(planned(release, {**ARRAY, **own}), "cinder-array-config")["array"]
    assert (section["san_ip"], section["pure_api_token"]) == ("192.0.2.7", "t0ken")


def test_programs_read_keys_that_users_chose(release: Release, tmp_path: Path) -> None:
    """Of arrays and of S3, with everything in them that has a meaning to oslo.config."""
    key = {"name": "keys", "key": "odd"}
    own = {"secretOptions": {"san_password": key}}
    backup = {"type": "s3", "s3": {"endpoint": "https://s3.example", "accessKeyRef": key, "secretKeyRef": key}}
    found = planned(release, {**ARRAY, **own}, backup=backup)
    for secret, group, option in (
        ("cinder-array-config", "array", "san_password"),
        ("cinder-backup-config", "DEFAULT", "backup_s3_store_access_key"),
        ("cinder-backup-config", "DEFAULT", "backup_s3_store_secret_key"),
    ):
        file = tmp_path / secret
        file.write_text(kube.secret_data(made(found, "Secret")[secret])["cinder.conf"], encoding="utf-8")
        conf = cfg.ConfigOpts()
        conf.register_opt(cfg.StrOpt(option), group=group)
        conf([], default_config_files=[str(file)], default_config_dirs=[])
        assert conf[group][option] == SECRETS["keys"]["odd"]


@pytest.mark.parametrize(
    ("own", "field"),
    [
        ({"options": {"volume_backend_name": "x"}}, "options.volume_backend_name"),
        ({"secretOptions": {"volume-driver": {"name": "keys", "key": "token"}}}, "secretOptions.volume-driver"),
        ({"options": {"a\n[DEFAULT]\nb": "x"}}, "options."),
    ],
)
def test_backend_options_may_not_set_managed_ones(release: Release, own: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError) as raised:
        planned(release, CEPH, {**ARRAY, **own})
    assert raised.value.path.startswith(f"spec.backends[1].{field}")


def test_a_volume_group_is_made_with_only_its_device_visible(release: Release) -> None:
    found = planned(release, LVM, {**LVM, "name": "disk", "lvm": {"device": "/dev/vdb", "targetHelper": "tgtadm"}})
    [prepare] = pod(found, "cinder-volume-local")["initContainers"]
    assert prepare["command"][4:] == ["cinder-local", "", str(20 * 1024**3), "/var/lib/openstack-cinder", "64061"]
    assert prepare["securityContext"] == {"privileged": True, "runAsUser": 0}
    conf = kube.secret_data(made(found, "Secret")["cinder-disk-config"])["lvm.conf"]
    assert '"a|^/dev/vdb|", "r|.*|"' in conf
    assert [each["name"] for each in pod(found, "cinder-volume-disk")["containers"]] == ["main", "tgtd"]
    assert [each["name"] for each in pod(found, "cinder-volume-local")["containers"]] == ["main"]


def test_shares_are_a_file(release: Release) -> None:
    found = planned(release, {**NFS, "nfs": {**NFS["nfs"], "mountOptions": "vers=4.1"}})  # type: ignore[dict-item]
    data = kube.secret_data(made(found, "Secret")["cinder-files-config"])
    assert data["nfs_shares"] == "files.example:/a\nfiles.example:/b\n"
    assert options(found, "cinder-files-config")["files"]["nfs_mount_options"] == "vers=4.1"


def test_each_backend_has_a_volume_type_and_the_first_is_the_default(release: Release) -> None:
    found = planned(release, {**CEPH, "volumeType": "Fast", "extraSpecs": {"multiattach": "<is> True"}}, LVM)
    types = {each["spec"]["name"]: each["spec"]["extraSpecs"] for each in made(found, "CinderVolumeType").values()}
    assert types == {
        "Fast": {"multiattach": "<is> True", "volume_backend_name": "fast"},
        "local": {"volume_backend_name": "local"},
    }
    assert options(found, "cinder-config")["DEFAULT"]["default_volume_type"] == "Fast"
    # Its change is no reason to restart what holds volumes.
    assert "default_volume_type" not in options(found, "cinder-fast-config")["DEFAULT"]
    other = planned(release, CEPH, defaultVolumeType="__DEFAULT__")
    assert options(other, "cinder-config")["DEFAULT"]["default_volume_type"] == "__DEFAULT__"


def test_quotas_are_made_where_there_are_any(release: Release) -> None:
    assert made(planned(release, CEPH), "CinderQuota") == {}
    quota = made(planned(release, CEPH, quotas={"volumes": 5, "backupGigabytes": -1}), "CinderQuota")["cinder-quota"]
    assert quota["spec"]["limits"] == {"volumes": 5, "backup_gigabytes": -1}


def test_the_catalog_has_it_under_both_names(release: Release) -> None:
    entries = made(planned(release), "KeystoneService")
    assert {each["spec"]["type"] for each in entries.values()} == {"volumev3", "block-storage"}
    for entry in entries.values():
        assert entry["spec"]["endpoints"]["internal"].endswith(":8776/v3/%(project_id)s")


def test_volume_attachment_needs_are_published(release: Release) -> None:
    assert planned(release, CEPH, NFS, LVM).outcome.published["attaches"] == "ceph iscsi nfs"
    assert planned(release, ARRAY).outcome.published["attaches"] == ""
    assert planned(release, {**ARRAY, "hostAccess": True}).outcome.published["attaches"] == "iscsi devices"
    assert planned(release, CEPH, NFS).outcome.published["nfsShares"] == " ".join(NFS["nfs"]["shares"])
    assert "nfsShares" not in planned(release, CEPH).outcome.published


def test_nodes_are_told_under_which_name_they_are_to_know_which_key(release: Release) -> None:
    found = planned(release, CEPH, {**CEPH, "name": "also"}, LVM)
    uuid = options(found, "cinder-fast-config")["fast"]["rbd_secret_uuid"]
    assert found.outcome.published["cephKeys"] == f"{uuid}=ceph-client-volumes"
    assert found.outcome.published["fastSecret"] == "ceph-client-volumes"
    assert KEY not in str(found.outcome)


def test_cinder_has_no_backups_without_a_target(release: Release) -> None:
    assert "cinder-backup" not in made(planned(release, CEPH), "StatefulSet")


def test_backups_to_ceph_log_in_twice(release: Release) -> None:
    found = planned(release, CEPH, backup={"type": "ceph"})
    main = pod(found, "cinder-backup")["containers"][0]
    assert {
        "/etc/ceph/ceph.client.volumes.keyring",
        "/etc/ceph/ceph.client.backups.keyring",
        "/etc/ceph-backup/ceph.conf",
        "/etc/ceph/ceph.conf",
    } <= set(mounts(main))
    default = options(found, "cinder-backup-config")["DEFAULT"]
    assert (default["backup_ceph_user"], default["backup_ceph_pool"]) == ("backups", "backups")
    assert default["backup_ceph_conf"] == "/etc/ceph-backup/ceph.conf"
    assert not main["securityContext"].get("privileged")


def test_backups_to_s3_keep_their_keys_in_the_secret(release: Release) -> None:
    s3 = {
        "endpoint": "https://s3.example",
        "accessKeyRef": {"name": "keys", "key": "access"},
        "secretKeyRef": {"name": "keys", "key": "secret"},
    }
    found = planned(release, CEPH, backup={"type": "s3", "s3": s3})
    default = options(found, "cinder-backup-config")["DEFAULT"]
    assert (default["backup_s3_store_access_key"], default["backup_s3_store_secret_key"]) == ("who", "s3cret")
    assert "s3cret" not in str([obj for obj in found.objects if obj["kind"] != "Secret"])


def test_backups_to_nfs_are_mounted_by_kubernetes(release: Release) -> None:
    found = planned(release, CEPH, backup={"type": "nfs", "share": "files.example:/backups"})
    assert {"name": "backups", "nfs": {"server": "files.example", "path": "/backups"}} in pod(found, "cinder-backup")[
        "volumes"
    ]
    default = options(found, "cinder-backup-config")["DEFAULT"]
    assert default["backup_driver"].endswith("PosixBackupDriver")
    assert default["backup_posix_path"] in mounts(pod(found, "cinder-backup")["containers"][0])


def test_backups_on_a_volume_are_kept_and_shared_if_possible(release: Release) -> None:
    found = planned(release, CEPH, backup={"type": "posix"})
    assert made(found, "PersistentVolumeClaim")["cinder-backups"]["metadata"]["annotations"][kube.RETAIN] == "true"
    with pytest.raises(SpecError, match=r"spec\.backup\.replicas: .*ReadWriteMany"):
        planned(release, CEPH, backup={"type": "posix", "replicas": 2})
    files = {"accessMode": "ReadWriteMany", "retention": "Delete"}
    found = planned(release, CEPH, backup={"type": "posix", "replicas": 2, "files": files})
    assert kube.RETAIN not in made(found, "PersistentVolumeClaim")["cinder-backups"]["metadata"]["annotations"]


def test_backups_of_devices_attach_them(release: Release) -> None:
    found = planned(release, LVM, backup={"type": "swift"})
    containers = pod(found, "cinder-backup")["containers"]
    assert [each["name"] for each in containers] == ["main", "iscsid"]
    assert containers[0]["securityContext"]["privileged"]
    assert {"/dev", "/etc/iscsi"} <= set(mounts(containers[0]))


def test_deleted_rows_are_purged(release: Release) -> None:
    found = made(planned(release, purge={"schedule": "@weekly", "keep": "90d"}), "CronJob")["cinder-purge"]
    assert found["spec"]["schedule"] == "@weekly"
    command = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[-3:] == ["db", "purge", "90"]
    assert made(planned(release, purge={"enabled": False}), "CronJob") == {}


def looked(name: str, **status: Any) -> dict[tuple[str, str], Object]:
    """The CinderBackend of a backend that was there before."""
    spec = {
        "cinderRef": {"name": "cinder"},
        "keystoneRef": {"name": "keystone"},
        "backend": name,
        "hosts": [f"cinder-volume-{name}-0@{name}"],
        "cluster": "cinder",
    }
    metadata = {"name": f"cinder-{name}"}
    live = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "CinderBackend", "metadata": metadata, "spec": spec}
    return {("CinderBackend", f"cinder-{name}"): {**live, "status": status}}


@pytest.mark.parametrize(
    ("by", "capacities"),
    [
        pytest.param(plan, {"availableCapacity": "10240Gi", "allocatedCapacity": "7Gi"}, id="ours"),
        pytest.param(
            c5c3_plan,
            {"availableCapacityGb": 10240, "allocatedCapacityGb": 7},
            marks=pytest.mark.proves(
                "Cinder", "status.backends[].name", "status.backends[].status", "status.backends[].availableCapacityGb"
            ),
            id="c5c3",
        ),
    ],
)
def test_backend_capacities_of_the_scheduler_are_in_the_status(
    release: Release, by: Callable[[Context[CinderSpec]], Plan], capacities: dict[str, Any]
) -> None:
    known = {"availableCapacity": "10240Gi", "allocatedCapacity": "7Gi"}
    live = looked("fast", status="Ready", volumes=3, message="", **known)
    found = planned(release, CEPH, LVM, children=live, by=by).outcome.details
    assert found == {"backends": [{"name": "fast", "status": "Ready", "volumes": 3, **capacities}, {"name": "local"}]}


def test_a_backend_that_reports_nothing_is_named(release: Release) -> None:
    live = looked("fast", status="Down", message="no cinder-volume reports for it")
    found = planned(release, CEPH, children=live)
    [verdict] = [step.verdict for step in found if step.verdict and not step.verdict.ready]
    assert verdict.message == (
        "backend fast is down: no cinder-volume reports for it; see the log of cinder-volume-fast-0"
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, ("the volumes of backend 'fast' are not counted yet")),
        ({"volumes": 1}, "1 volume;"),
        ({"volumes": 2}, "2 volumes;"),
    ],
)
def test_a_backend_with_volumes_does_not_go(release: Release, status: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as raised:
        planned(release, LVM, children=looked("fast", **status))
    assert raised.value.path == "spec.backends"
    assert said in str(raised.value)
    assert "spec.allowOrphans" in str(raised.value)


def test_a_backend_whose_volumes_may_be_left_behind_goes(release: Release) -> None:
    found = planned(release, LVM, children=looked("fast", volumes=2), allowOrphans=["fast"])
    assert any(name.startswith("cinder-forget-fast-") for name in made(found, "Job"))


def test_an_empty_backend_goes_and_cinder_forgets_it(release: Release) -> None:
    live = looked("fast", volumes=0)
    found = planned(release, LVM, children=live)
    assert "cinder-volume-fast" not in made(found, "StatefulSet")
    assert "cinder-fast" in made(found, "CinderBackend"), "remembered until Cinder has forgotten it"
    [(name, job)] = [(name, job) for name, job in made(found, "Job").items() if "forget" in name]
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[3:] == ["cinder@fast", "cinder-volume-fast-0@fast"]
    after = planned(release, LVM, children={**live, ("Job", name): granted(job)})
    assert "cinder-fast" not in made(after, "CinderBackend")
    assert name not in made(after, "Job")
