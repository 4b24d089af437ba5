"""CephStorage: daemons that keep their address, keys that reach no further than they must, and what is told of it."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.api import references, whole_secrets
from openstack_operator.parts.connect.ceph import coordinates, login, logins
from openstack_operator.plan import MissingReference, Object, Plan, Release, SpecError, State, Verdict, key
from openstack_operator.services.cephstorage import config, health
from openstack_operator.services.cephstorage.model import CEPH_STORAGE
from openstack_operator.services.cephstorage.service import plan
from openstack_operator.testing import NOW, granted
from tests.planning import objects, planner

GIB = 1024**3
FINE = {
    "reachable": True,
    "message": "",
    "refused": {},
    "missing": {},
    "health": "HEALTH_OK",
    "checks": {},
    "total": 20 * GIB,
    "used": 3 * GIB + 5,
    "available": 17 * GIB - 5,
    "pools": ["volumes"],
}
CONF = "[global]\nfsid = 11111111-2222-3333-4444-555555555555\nmon host = 192.0.2.1\n"
KEY = config.cephx("theirs")


planned = planner(plan, CEPH_STORAGE, owner="ceph")


def secret(made: Plan, name: str) -> dict[str, str]:
    return kube.secret_data(objects(made)["Secret", name])


def verdict(made: Plan, name: str) -> Verdict:
    found = next(step.verdict for step in made if step.name == name)
    assert found
    return found


def test_a_key_is_one_of_cephs() -> None:
    made = base64.b64decode(config.cephx("drawn"))
    assert len(made) == 28
    assert made[:2] == b"\x01\x00"
    assert made[10:12] == b"\x10\x00"
    assert config.cephx("drawn") != config.cephx("other")


def test_no_service_uses_pools_that_are_still_to_be_filled(release: Release) -> None:
    def marked(**restores: str) -> Plan:
        children = {
            ("Secret", f"ceph-{part}"): {"data": {"restore": base64.b64encode(name.encode()).decode()}}
            for part, name in restores.items()
        }
        return planned(release, children=children)

    def verdicts(made: Plan) -> list[Verdict]:
        return [step.verdict for step in made if step.name == "Pools" and step.verdict]

    [waiting] = verdicts(marked(restoring="fire"))
    assert waiting.state is State.WAITING
    assert "delete Secret/ceph-restoring" in waiting.message
    assert verdicts(marked(restoring="fire", restored="flood"))
    full = marked(restoring="fire", restored="fire")
    assert not verdicts(full)
    assert {("Secret", "ceph-restoring"), ("Secret", "ceph-restored")} <= objects(full).keys()


def test_logins_and_pools_are_published(release: Release) -> None:
    made = planned(release)
    told = made.outcome.published
    assert (told["volumesUser"], told["imagesPool"], told["vmsSecret"]) == (
        "client.cinder",
        "images",
        "ceph-client-vms",
    )
    held = secret(made, "ceph-client-backups")
    assert login(held, "", "") == ("client.cinder-backup", held["key"])
    assert coordinates(held, "", "")[1:] == (told["fsid"], ("ceph-mon-a.openstack.svc.cluster.local",))


def test_each_use_has_a_user_of_its_own(release: Release) -> None:
    users = {"volumes": {"user": "mq"}, "backups": {"user": "mq"}}
    with pytest.raises(SpecError, match=r"spec\.pools\.backups\.user: 'mq' is already the user of pools\.volumes"):
        planned(release, {"pools": users})


def test_each_client_may_do_the_least(release: Release) -> None:
    wanted = json.loads(
        secret(planned(release, {"pools": {"images": {"name": "pictures"}}}), "ceph-pools-setup")["wanted.json"]
    )
    caps = {client["user"]: client["caps"] for client in wanted["clients"]}
    assert caps["client.glance"] == {
        "mon": "profile rbd",
        "osd": "profile rbd pool=pictures",
        "mgr": "profile rbd pool=pictures",
    }
    assert caps["client.cinder"]["osd"] == "profile rbd pool=volumes, profile rbd-read-only pool=pictures"
    assert caps["client.nova"]["osd"] == "profile rbd pool=vms, profile rbd pool=pictures"
    assert caps["client.cinder-backup"]["osd"] == "profile rbd pool=backups"


def test_only_those_who_need_it_have_a_key(release: Release) -> None:
    made = planned(release)
    assert {user for user, _ in logins(secret(made, "ceph-osd-key")["keyring"])} == {"client.osd"}
    assert "client.admin" not in json.dumps(secret(made, "ceph-mgr-key"))
    watches = secret(made, "ceph-status-setup")
    assert not any("admin" in name or "admin" in text for name, text in watches.items() if name != "keeper.py")
    for obj in made.objects:
        if obj["kind"] != "Secret":
            assert config.cephx("drawn") not in json.dumps(obj)


def test_a_monitor_has_its_address_for_good(release: Release) -> None:
    first = objects(planned(release))
    service = ("Service", "ceph-mon-a")
    assert "clusterIP" not in first[service]["spec"]
    given = {**first[service], "spec": {**first[service]["spec"], "clusterIP": "10.96.0.7"}}
    second = objects(planned(release, children={**first, service: given}))
    assert kube.secret_data(second["Secret", "ceph-record"])["a"] == "10.96.0.7"
    gone = {key: obj for key, obj in second.items() if key != service}
    assert objects(planned(release, children=gone))[service]["spec"]["clusterIP"] == "10.96.0.7"


def test_monitors_begin_once(release: Release) -> None:
    first = objects(planned(release))
    assert kube.secret_data(first["Secret", "ceph-record"])["state"] == "new"
    mon = ("StatefulSet", "ceph-mon")
    formed = objects(planned(release, children={**first, mon: granted(first[mon])}))
    assert kube.secret_data(formed["Secret", "ceph-record"])["state"] == "existing"
    lost = {key: obj for key, obj in formed.items() if key != mon}
    assert kube.secret_data(objects(planned(release, children=lost))["Secret", "ceph-record"])["state"] == "existing"
    deleted = {"ceph-record": formed["Secret", "ceph-record"], "ceph-keys": formed["Secret", "ceph-keys"]}
    again = objects(planned(release, deleted_secrets=deleted, draw=lambda: "another"))
    assert again["Secret", "ceph-record"]["data"] == formed["Secret", "ceph-record"]["data"]
    assert again["Secret", "ceph-keys"]["data"] == formed["Secret", "ceph-keys"]["data"]


def test_settings_of_a_daemon_reach_its_pods_and_no_others(release: Release) -> None:
    checks = 0
    own = {"nodeSelector": {"rack": "seven"}, "resources": {"requests": {"memory": "7Gi"}}, "image": "own:1"}
    for field, name in (("osds", "ceph-osd"), ("monitors", "ceph-mon")):
        for obj in planned(release, {field: own}).objects:
            if obj["kind"] in ("StatefulSet", "Deployment", "Job"):
                pod = obj["spec"]["template"]["spec"]
                mine = obj["metadata"]["name"] == name
                checks += 1
                assert (pod["nodeSelector"] == own["nodeSelector"]) == mine
                assert (pod["containers"][0]["image"] == "own:1") == mine
                assert (pod["containers"][0]["resources"]["requests"]["memory"] == "7Gi") == mine
    assert checks


def test_copies_are_no_more_than_osds(release: Release) -> None:
    for replicas, copies in ((1, 1), (2, 2), (5, 3)):
        wanted = json.loads(
            secret(planned(release, {"osds": {"replicas": replicas}}), "ceph-pools-setup")["wanted.json"]
        )
        assert {pool["default"] for pool in wanted["pools"]} == {copies}


def test_a_new_generation_is_a_new_client(release: Release) -> None:
    old = planned(release, draw=iter(str(number) for number in range(99)).__next__)
    new = planned(release, {"keyGeneration": 2}, children=objects(old), draw=lambda: "new")
    assert new.outcome.published["volumesUser"] == "client.cinder-2"
    assert secret(new, "ceph-client-volumes")["key"] == config.cephx("new") != secret(old, "ceph-client-volumes")["key"]
    assert secret(new, "ceph-keys")["cinder"] == secret(old, "ceph-keys")["cinder"]


def external(release: Release, ring: str, *, manage: bool, **changes: Any) -> Plan:
    spec = {"mode": "external", "external": {"secretRef": {"name": "theirs"}, "manage": manage}}
    return planned(release, spec, secrets={"theirs": {"ceph.conf": CONF, "keyring": ring}}, **changes)


def test_an_external_ceph_in_which_we_make_pools(release: Release) -> None:
    made = external(release, f"[client.admin]\nkey = {KEY}\n", manage=True)
    assert not [obj for obj in made.objects if obj["kind"] == "StatefulSet"]
    setup = secret(made, "ceph-pools-setup")
    assert json.loads(setup["wanted.json"])["owned"] is False
    assert login({"keyring": setup["client.admin.keyring"]}, "", "") == ("client.admin", KEY)
    assert made.outcome.published["monitors"] == "192.0.2.1"


def test_an_external_ceph_in_which_others_make_pools(release: Release) -> None:
    made = external(release, f"[client.glance]\nkey = {KEY}\n[client.cinder]\nkey = {KEY}\n", manage=False)
    assert not [obj for obj in made.objects if obj["kind"] == "Job"]
    assert {name for name in made.outcome.published if name.endswith("Secret")} == {"imagesSecret", "volumesSecret"}
    with pytest.raises(MissingReference, match=r"spec\.external\.secretRef.*client\.cinder-backup"):
        external(release, f"[client.other]\nkey = {KEY}\n", manage=False)


@pytest.mark.parametrize(
    ("facts", "condition", "reason", "says"),
    [
        ({"reachable": False, "message": "timed out"}, "CephConnected", "Unreachable", "timed out"),
        ({"refused": {"client.glance": "denied"}}, "CephConnected", "KeyRefused", "client.glance"),
        ({"missing": {"client.glance": "images"}}, "CephConnected", "MissingPool", "'images'"),
        ({"health": "HEALTH_ERR", "checks": {"OSD_FULL": "osd.0 is full"}}, "Health", "Unhealthy", "osd.0 is full"),
        ({"health": "HEALTH_WARN", "checks": {"OSD_DOWN": "osd.1 is down"}}, "Health", "Unhealthy", "osd.1"),
    ],
)
def test_problems_that_ceph_reports_are_in_the_condition(
    release: Release, facts: dict[str, Any], condition: str, reason: str, says: str
) -> None:
    ring = f"[client.glance]\nkey = {KEY}\n"
    made = external(release, ring, manage=False, facts={"status-1": FINE | facts})
    found = verdict(made, condition)
    assert (found.ready, found.reason) == (False, reason)
    assert says in found.message
    # Whoever runs goes on: what Ceph says of itself takes nothing away.
    assert set(objects(made)) == set(objects(external(release, ring, manage=False)))


def test_problems_that_only_a_user_can_mend_are_failures() -> None:
    def state(facts: dict[str, Any], *, repairs_keys: bool, makes_pools: bool) -> State:
        return health.connection_verdict(FINE | facts, repairs_keys=repairs_keys, makes_pools=makes_pools).state

    refused = {"refused": {"client.glance": "denied"}}
    assert state(refused, repairs_keys=False, makes_pools=True) is State.FAILED
    assert state(refused, repairs_keys=True, makes_pools=True) is State.PROGRESSING
    missing = {"missing": {"client.nova": "vms"}}
    assert state(missing, repairs_keys=False, makes_pools=False) is State.FAILED
    # Rook is still making it.
    assert state(missing, repairs_keys=False, makes_pools=True) is State.PROGRESSING


def test_a_mere_warning_is_told(release: Release) -> None:
    made = planned(release, facts={"s": FINE | {"health": "HEALTH_WARN", "checks": {"POOL_APP": "one pool"}}})
    assert verdict(made, "Health") == Verdict(State.READY, "POOL_APP: one pool")
    assert made.outcome.details == {
        "health": "HEALTH_WARN",
        "capacity": {"total": "20Gi", "used": "3Gi", "available": "16Gi"},
    }


def test_nothing_is_known_before_somebody_looked(release: Release) -> None:
    made = planned(release, facts={"status-1": None})
    assert not verdict(made, "CephConnected").ready
    assert made.outcome.details == {}
    made = planned(release, facts={"status-1": FINE})
    assert made.outcome.wake == NOW + timedelta(seconds=30)


def test_a_job_is_repeated_when_its_result_is_gone(release: Release) -> None:
    def job(made: Plan) -> Object:
        return next(obj for obj in made.objects if obj["kind"] == "Job")

    first = job(planned(release))
    missing = {"status-1": FINE | {"refused": {"client.glance": "denied"}}}
    live = {key(first): first}
    assert key(job(planned(release, facts=missing, children=live))) == key(first), "it is still at it"
    ended = NOW - timedelta(seconds=30)
    done = {**first, "status": {"completionTime": ended.isoformat()}}
    assert key(job(planned(release, facts=missing, children={key(first): done}))) == key(first), "seen before"
    later = NOW + timedelta(minutes=1)
    second = job(planned(release, facts=missing, children={key(first): done}, now=later))
    assert key(second) != key(first)
    assert key(job(planned(release, facts={"s": FINE}, children={key(second): second}, now=later))) == key(second)


def test_rook_is_told_what_is_wanted_and_asked_what_there_is(release: Release) -> None:
    spec = {"mode": "rook"}
    assert references(CEPH_STORAGE.spec.model_validate(spec)) == []
    named = {ref.name for _, ref in whole_secrets(CEPH_STORAGE.spec.model_validate(spec))}
    assert "rook-ceph-client-cinder" in named
    first = planned(release, spec)
    assert {obj["kind"] for obj in first.objects} == {"CephCluster", "CephBlockPool", "CephClient", "NetworkPolicy"}
    assert first.outcome.published == {}
    told = {f"rook-ceph-client-{user}": {user: KEY} for user in ("cinder", "glance", "nova", "cinder-backup")}
    told |= {"rook-ceph-mon": {"fsid": "f"}, "rook-ceph-config": {"mon_host": "[v2:10.0.0.1:3300,v1:10.0.0.1:6789]"}}
    second = planned(release, spec, secrets=told)
    assert second.outcome.published["vmsUser"] == "client.nova"
    assert not [obj for obj in second.objects if obj["kind"] == "Job"]
    later = planned(release, {**spec, "keyGeneration": 2}, children=objects(second))
    assert later.outcome.published == second.outcome.published, "what Rook has not made yet takes nothing away"


def test_status_of_rook_becomes_the_verdict(release: Release) -> None:
    first = objects(planned(release, {"mode": "rook"}))
    done = {key: {**obj, "status": {"phase": "Ready"}} for key, obj in first.items()}
    assert verdict(planned(release, {"mode": "rook"}, children=done), "Clients").ready
    client = ("CephClient.ceph.rook.io", "cinder")
    broken = {**done, client: {**first[client], "status": {"phase": "Failure", "message": "no caps"}}}
    found = verdict(planned(release, {"mode": "rook"}, children=broken), "Clients")
    assert (found.state, found.message) == (State.FAILED, "CephClient/cinder: no caps")


@pytest.mark.parametrize("encrypted", [True, False])
def test_an_encrypted_ceph_takes_nothing_else(release: Release, encrypted: bool) -> None:
    made = planned(release, {"encrypted": encrypted})
    daemon = secret(made, "ceph-daemon-config")["ceph.conf"].splitlines()
    modes = [f"ms {what}mode" for what in ("cluster ", "service ", "client ", "mon cluster ", "mon service ")]
    assert all((f"{mode} = secure" in daemon) == encrypted for mode in modes)
    # What ceph-mon-start looks for.
    assert ("ms bind msgr1 = false" in daemon) == encrypted
    client = secret(made, "ceph-client-vms")["ceph.conf"].splitlines()
    assert ("ms client mode = secure" in client) == encrypted
    (service,) = (obj for (kind, name), obj in objects(made).items() if (kind, name) == ("Service", "ceph-mon-a"))
    assert {port["port"] for port in service["spec"]["ports"]} == ({3300} if encrypted else {3300, 6789})


def test_rook_encrypts_and_keeps_the_users_network_settings(release: Release) -> None:
    connections = {"compression": {"enabled": True}}
    network = {"provider": "host", "connections": connections}
    made = planned(release, {"mode": "rook", "encrypted": True, "rook": {"network": network}})
    found = objects(made)["CephCluster.ceph.rook.io", "ceph"]["spec"]["network"]
    assert found["provider"] == "host"
    assert found["connections"] == {**connections, "encryption": {"enabled": True}, "requireMsgr2": True}


def rook_cluster(release: Release, **spec: Any) -> Object:
    """The spec of the CephCluster."""
    return objects(planned(release, {"mode": "rook", **spec}))["CephCluster.ceph.rook.io", "ceph"]["spec"]


def test_rook_is_told_what_else_the_user_wants_of_the_cluster(release: Release) -> None:
    wanted = {"mon": {"allowMultiplePerNode": True}, "mgr": {"count": 2}, "resources": {"osd": {"limits": {}}}}
    found = rook_cluster(release, rook={"cluster": wanted, "monitors": 1})
    assert found["mon"] == {"count": 1, "allowMultiplePerNode": True}
    assert found["mgr"] == {"count": 2}
    assert found["resources"] == wanted["resources"]
    assert found["crashCollector"] == {"disable": True}


@pytest.mark.parametrize(
    ("cluster", "path", "own"),
    [
        ({"storage": {}}, "storage", "storage"),
        ({"mon": {"count": 5}}, "mon.count", "monitors"),
        ({"mon": 5}, "mon.count", "monitors"),
        ({"cephVersion": {"image": "other"}}, "cephVersion.image", "image"),
    ],
)
def test_a_field_of_the_cluster_is_set_in_one_place(release: Release, cluster: Object, path: str, own: str) -> None:
    with pytest.raises(SpecError, match=rf"spec\.rook\.cluster\.{path}: set spec\.rook\.{own} instead"):
        rook_cluster(release, rook={"cluster": cluster})


def test_ceph_mgr_pool_has_at_most_the_copies_of_our_largest_pool(release: Release) -> None:
    def sizes(*numbers: int) -> Any:
        names = ("volumes", "images", "vms", "backups")
        pools = {name: {"size": size} for name, size in zip(names, numbers, strict=True)}
        return rook_cluster(release, pools=pools).get("cephConfig")

    assert sizes(1, 1, 1, 1) == {
        "global": {"osd_pool_default_size": "1", "mon_warn_on_pool_no_redundancy": "false"},
    }
    assert sizes(1, 2, 1, 1) == {"global": {"osd_pool_default_size": "2"}}
    assert sizes(1, 1, 1, 3) is None
    options = {"global": {"osd_pool_default_size": "2", "debug_osd": "1"}}
    single = {name: {"size": 1} for name in ("volumes", "images", "vms", "backups")}
    found = rook_cluster(release, pools=single, rook={"cluster": {"cephConfig": options}})["cephConfig"]["global"]
    assert found == {**options["global"], "mon_warn_on_pool_no_redundancy": "false"}
