"""MariaDB: what must hold besides its goldens."""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Plan, Release, SpecError, State, UnsupportedError, Verdict, key
from openstack_operator.services.mariadb import roles
from openstack_operator.services.mariadb.config import TLS_ONLY, my_cnf, sst_conf
from openstack_operator.services.mariadb.galera import POD_ANNOTATIONS
from openstack_operator.services.mariadb.lasting_state import FORCE
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan
from openstack_operator.testing import NOW, context, granted


def planned(release: Release, spec: dict[str, Any] | None = None, **changes: Any) -> dict[tuple[str, str], Object]:
    result: Plan = plan(context(MARIADB, spec, release=release, **changes))
    return {key(obj): obj for obj in result.objects}


def test_the_contract(release: Release) -> None:
    outcome = plan(context(MARIADB, release=release)).outcome
    assert outcome.published == {
        "host": "mariadb.openstack.svc.cluster.local",
        "port": "3306",
        "adminSecret": "mariadb-credentials",
        "backupSecret": "mariadb-backup",
    }


def test_the_password_outlives_the_resource_as_the_data_does(release: Release) -> None:
    kept = planned(release)
    assert kept["Secret", "mariadb-credentials"]["metadata"]["annotations"][kube.RETAIN] == "true"
    policy = kept["StatefulSet", "mariadb-server"]["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert policy == {"whenDeleted": "Retain", "whenScaled": "Retain"}

    gone = planned(release, {"retention": "Delete"})
    assert kube.RETAIN not in gone["Secret", "mariadb-credentials"]["metadata"]["annotations"]
    policy = gone["StatefulSet", "mariadb-server"]["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert policy == {"whenDeleted": "Delete", "whenScaled": "Retain"}


def test_a_known_password_stays(release: Release) -> None:
    ctx = context(MARIADB, release=release)
    held = kube.secret(ctx, "mariadb-credentials", {"root": "old"})
    objects = planned(release, children={key(held): held}, draw=lambda: "new")
    assert kube.secret_data(objects["Secret", "mariadb-credentials"]) == {"root": "old"}


def test_a_password_that_only_the_data_know_comes_back_as_it_was(release: Release) -> None:
    ctx = context(MARIADB, release=release)
    lost = kube.secret(ctx, "mariadb-credentials", {"root": "old"})
    objects = planned(release, deleted_secrets={"mariadb-credentials": lost}, draw=lambda: "new")
    assert kube.secret_data(objects["Secret", "mariadb-credentials"]) == {"root": "old"}
    assert objects["Secret", "mariadb-credentials"]["metadata"]["annotations"][kube.IRREPLACEABLE] == "true"


def test_a_change_of_configuration_rolls_the_pods(release: Release) -> None:
    def digest(spec: dict[str, Any]) -> str:
        template = planned(release, spec)["StatefulSet", "mariadb-server"]["spec"]["template"]
        return template["metadata"]["annotations"][kube.CONFIG_DIGEST]

    assert digest({}) == digest({"storageSize": "20Gi"})
    assert digest({}) != digest({"config": {"mysqld": {"max_connections": 2048}}})


def test_a_larger_volume_is_asked_of_the_claims_since_the_statefulset_cannot(release: Release) -> None:
    before = planned(release)
    live = before["StatefulSet", "mariadb-server"]
    children = {key(live): live}
    assert not [k for k in planned(release, children=children) if k[0] == "PersistentVolumeClaim"]

    grown = planned(release, {"storageSize": "20Gi"}, children=children)
    claim = grown["PersistentVolumeClaim", "data-mariadb-server-0"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert claim["metadata"]["annotations"][kube.RETAIN] == "true", "pruning it would delete the database"


def test_several_members_are_not_supported_for_kolla(release: Release) -> None:
    with pytest.raises(UnsupportedError, match=r"^spec.replicas: .* use 1$"):
        planned(release, {"replicas": 3, "imageProfile": "kolla"})


def test_user_options_win_over_defaults() -> None:
    parsed = configparser.ConfigParser()
    parsed.read_string(my_cnf({"mysqld": {"max-connections": 9}, "client": {"port": 3307}}))
    assert parsed["mysqld"]["max_connections"] == "9"
    assert parsed["mysqld"]["innodb_snapshot_isolation"] == "false"
    assert parsed["client"]["port"] == "3307", "a client's options are nobody's but the user's"


@pytest.mark.parametrize(
    ("group", "option"),
    [("mysqld", "bind_address"), ("mysqld", "bind-address"), ("mariadb", "datadir"), ("mariadb-11.8", "wsrep-on")],
)
def test_wired_options_are_refused_in_every_spelling_and_group(group: str, option: str) -> None:
    with pytest.raises(SpecError, match=rf"spec.config.{group}.{option.replace('-', '_')}: the operator sets"):
        my_cnf({group: {option: "x"}})


@pytest.mark.parametrize(
    ("group", "option", "name"),
    [
        ("mysqld", "loose_bind_address", "bind_address"),
        ("mysqld", "loose-skip-wsrep-on", "wsrep_on"),
        ("MARIADB", "datadi", "datadir"),
        ("client-server", "sock", "socket"),
        ("mysqld", "name-resolve", "skip_name_resolve"),
    ],
)
def test_other_names_of_wired_options_are_refused(group: str, option: str, name: str) -> None:
    with pytest.raises(SpecError, match=rf"it is an alias of {name}, which the operator sets"):
        my_cnf({group: {option: "x"}})


def test_options_whose_names_are_like_those_of_wired_ones_are_taken() -> None:
    assert "ssl = on" in my_cnf({"mysqld": {"ssl": "on", "wsrep_on_error": 1}}, encrypted=True)


@pytest.mark.security
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("value", ["1\nbind_address = 0.0.0.0", ["1", "2\n!includedir /tmp"], "1\rdatadir = /tmp"])
def test_a_value_is_one_line_of_my_cnf(value: object, *, clustered: bool) -> None:
    with pytest.raises(SpecError, match=r"spec\.config\.mysqld\.max_connections: has several lines|control character"):
        my_cnf({"mysqld": {"max-connections": value}}, clustered=clustered)


def test_a_long_name_still_gives_pods_their_labels(release: Release) -> None:
    objects = planned(release, owner="a-database-whose-name-is-as-long-as-anybody-would-ever-want-it-to-be")
    sets = [obj for (kind, _), obj in objects.items() if kind == "StatefulSet"]
    assert len(sets[0]["metadata"]["name"]) <= 52
    assert all(len(name) <= 63 for _, name in objects)
    assert ("Service", sets[0]["spec"]["serviceName"]) in objects


NAMES = [f"mariadb-server-{ordinal}" for ordinal in range(3)]


def pod(name: str, *, role: str = "", ready: bool = True, ending: bool = False) -> Object:
    metadata: Object = {"name": name, "namespace": "openstack", "uid": f"u-{name}", "labels": {roles.ROLE: role}}
    condition = {"type": "Ready", "status": str(ready)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if ending else {}),
        "status": {"podIP": f"10.0.0.{name[-1]}", "conditions": [condition]},
    }


def answer(name: str, *, size: int = 3, status: str = "Primary", **more: Any) -> dict[str, Any]:
    member = {"name": name, "stage": "serving", "status": status, "uuid": "u", "data": True}
    return member | {"size": size, "ready": status == "Primary", "local": "Synced", "why": "says why"} | more


def chosen(pods: list[Object], facts: dict[str, Any]) -> str:
    return roles.primary(pods, roles.ready_members(pods, facts))


def test_clients_stay_where_they_are_as_long_as_that_member_serves() -> None:
    facts = {name: answer(name) for name in NAMES}
    assert chosen([pod(name) for name in NAMES], facts) == NAMES[0], "the lowest of those that can"
    pods = [pod(NAMES[0]), pod(NAMES[1], role="primary"), pod(NAMES[2])]
    assert chosen(pods, facts) == NAMES[1]
    for lost in (pod(NAMES[1], role="primary", ready=False), pod(NAMES[1], role="primary", ending=True)):
        assert chosen([pods[0], lost, pods[2]], facts) == NAMES[0]
    cut_off = facts | {NAMES[1]: answer(NAMES[1], status="non-Primary")}
    assert chosen(pods, cut_off) == NAMES[0], "what it says itself is newer than what Kubernetes knows"


def test_a_silent_member_loses_its_clients_once_a_primary_exists_without_it() -> None:
    pods = [pod(NAMES[0], role="primary"), pod(NAMES[1]), pod(NAMES[2])]
    three = {NAMES[0]: None, NAMES[1]: answer(NAMES[1]), NAMES[2]: answer(NAMES[2])}
    assert chosen(pods, three) == NAMES[0], "only we do not reach it, perhaps"
    two = {NAMES[0]: None, NAMES[1]: answer(NAMES[1], size=2), NAMES[2]: answer(NAMES[2], size=2)}
    assert chosen(pods, two) == NAMES[1]
    assert chosen(pods, dict.fromkeys(NAMES)) == NAMES[0], "nobody answers us: Kubernetes knows more"
    assert chosen([pod(name, role=role, ready=False) for name, role in zip(NAMES, "abc", strict=True)], {}) == ""


def test_roles_are_written_on_the_very_pods_and_told(release: Release) -> None:
    pods = [pod(name) for name in NAMES]
    facts = {name: answer(name) for name in NAMES} | {NAMES[2]: None}
    result = plan(context(MARIADB, {"replicas": 3}, release=release, pods=pods, facts=facts))
    objects = {key(obj): obj for obj in result.objects}
    assert objects["Pod", NAMES[0]]["metadata"]["labels"] == {roles.ROLE: "primary"}
    assert objects["Pod", NAMES[1]]["metadata"]["labels"] == {roles.ROLE: "backup"}
    assert objects["Pod", NAMES[0]]["metadata"]["annotations"].keys() == set(POD_ANNOTATIONS)
    assert objects["Pod", NAMES[1]]["metadata"]["uid"] == f"u-{NAMES[1]}"
    assert objects["Service", "mariadb"]["spec"]["selector"][roles.ROLE] == "primary"
    assert [member.get("role") for member in result.outcome.members] == ["primary", "backup", "backup"]
    assert result.outcome.wake is not None
    assert (result.outcome.wake - NOW).total_seconds() == 5
    facts[NAMES[2]] = answer(NAMES[2], status="non-Primary")
    result = plan(context(MARIADB, {"replicas": 3}, release=release, pods=pods, facts=facts))
    server = next(step for step in result if step.name == "Server")
    assert server.verdict is not None
    assert (server.verdict.reason, server.verdict.message) == ("RecoveryInProgress", f"{NAMES[2]}: says why")
    assert result.outcome.wake is not None
    assert (result.outcome.wake - NOW).total_seconds() == 1


def test_members_read_the_very_label_by_which_the_service_finds_the_primary(release: Release) -> None:
    objects = planned(release, {"replicas": 3})
    spec = objects["StatefulSet", "mariadb-server"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    folder = next(entry["value"] for entry in container["env"] if entry["name"] == "GALERA_ROLE")
    # A file that is mounted alone would not follow the label.
    assert {"name": "role", "mountPath": folder, "readOnly": True} in container["volumeMounts"]
    [volume] = [volume for volume in spec["volumes"] if volume["name"] == "role"]
    paths = {item["path"]: item["fieldRef"]["fieldPath"] for item in volume["downwardAPI"]["items"]}
    assert objects["Service", "mariadb"]["spec"]["selector"][roles.ROLE] == "primary"
    assert paths == {"role": f"metadata.labels['{roles.ROLE}']", "term": f"metadata.annotations['{roles.TERM}']"}


def with_term(member: Object, term: str) -> Object:
    return {**member, "metadata": {**member["metadata"], "annotations": {roles.TERM: term}}}


def test_a_new_primary_has_a_later_term_than_all_before() -> None:
    pods = [pod(name) for name in NAMES]
    assert roles.terms(pods, NAMES[1]) == {NAMES[1]: "1"}
    assert roles.terms(pods, "") == {}
    pods[1] = with_term(pod(NAMES[1], role="primary"), "4")
    assert roles.terms(pods, NAMES[1]) == {NAMES[1]: "4"}, "it stays while the primary does"
    assert roles.terms(pods, NAMES[2]) == {NAMES[1]: "4", NAMES[2]: "5"}
    pods = [pods[0], with_term(pod(NAMES[1], role="backup"), "4"), with_term(pod(NAMES[2], role="primary"), "5")]
    assert roles.terms(pods, NAMES[1]) == {NAMES[1]: "6", NAMES[2]: "5"}
    # The label is of an earlier version, and what somebody wrote is no term.
    assert roles.terms([with_term(pod(NAMES[0], role="primary"), "x" * 5000)], NAMES[0]) == {NAMES[0]: "1"}


def test_single_server_has_no_role_and_no_fence(release: Release) -> None:
    pod_spec = planned(release)["StatefulSet", "mariadb-server"]["spec"]["template"]["spec"]
    assert not any("downwardAPI" in volume for volume in pod_spec["volumes"])


def test_a_filling_volume_is_reported_before_and_after_its_member_fails(release: Release) -> None:
    pods = [pod(name) for name in NAMES]
    facts = {name: answer(name, bytes=2 << 30, free=1 << 30) for name in NAMES}

    def server() -> Verdict | None:
        made = plan(context(MARIADB, {"replicas": 3}, release=release, pods=pods, facts=facts))
        return next(step.verdict for step in made.condition if step.name == "Server")

    assert server() is None
    facts[NAMES[2]] |= {"free": 100 << 20}
    said = (
        f"spec.storageSize: enlarge the volume, or delete data. {NAMES[2]}: 4 % of the 2048 MiB of its volume are free"
    )
    assert server() == Verdict(State.READY, said)
    facts[NAMES[2]] |= {"free": 0, "status": "non-Primary", "ready": False}
    pods[2] = pod(NAMES[2], ready=False)
    found = server()
    assert found
    assert found.message.startswith("spec.storageSize: enlarge the volume, or delete data")
    assert f"{NAMES[2]}: 0 % of the 2048 MiB of its volume are free" in found.message
    assert not found.ready


def recorded(release: Release, spec: dict[str, Any] | None = None, **changes: Any) -> dict[str, str]:
    objects = planned(release, {"replicas": 3, **(spec or {})}, **changes)
    return kube.secret_data(objects["Secret", "mariadb-galera"])


def test_first_cluster_is_recorded_once_and_later_empty_disks_count_as_lost(release: Release) -> None:
    first = recorded(release)
    assert (first["seed"], first["uuid"], first["members"]) == (NAMES[0], "", ",".join(NAMES))
    facts = {NAMES[1]: answer(NAMES[1])}
    formed = recorded(release, facts=facts)
    assert (formed["seed"], formed["uuid"]) == ("", "u")
    held = kube.secret(context(MARIADB, release=release), "mariadb-galera", formed)
    assert recorded(release, children={key(held): held})["seed"] == "", "nobody answers: it stays"


def test_a_single_server_becomes_the_first_member_before_there_are_others(release: Release) -> None:
    live = granted(planned(release)["StatefulSet", "mariadb-server"])
    children = {key(live): live}
    objects = planned(release, {"replicas": 3}, children=children)
    assert objects["StatefulSet", "mariadb-server"]["spec"]["replicas"] == 1
    held = objects["Secret", "mariadb-galera"]
    assert kube.secret_data(held)["members"] == NAMES[0]
    children[key(held)] = held
    facts = {NAMES[0]: answer(NAMES[0], size=1)}
    grown = planned(release, {"replicas": 3}, children=children, facts=facts, pods=[pod(NAMES[0])])
    assert grown["StatefulSet", "mariadb-server"]["spec"]["replicas"] == 3
    assert kube.secret_data(grown["Secret", "mariadb-galera"])["members"] == ",".join(NAMES)


def test_a_single_server_keeps_its_clients_until_it_has_a_role(release: Release) -> None:
    alone = planned(release)
    children = {k: alone[k] for k in (("Service", "mariadb"), ("StatefulSet", "mariadb-server"))}
    before = planned(release, {"replicas": 3}, children=children)["Service", "mariadb"]
    assert roles.ROLE not in before["spec"]["selector"]
    after = planned(release, {"replicas": 3}, children=children, pods=[pod(NAMES[0])])["Service", "mariadb"]
    assert after["spec"]["selector"][roles.ROLE] == "primary"


def test_an_order_has_a_new_token_each_time(release: Release) -> None:
    order = {FORCE: NAMES[1]}
    given = recorded(release, annotations=order, draw=lambda: "one")
    assert (given["force"], given["token"]) == (NAMES[1], "one")
    held = kube.secret(context(MARIADB, release=release), "mariadb-galera", given)
    again = recorded(release, annotations=order, children={key(held): held}, draw=lambda: "two")
    assert again["token"] == "one", "it stands there still; that is no new order"
    lifted = recorded(release, children={key(held): held})
    assert (lifted["token"], lifted["ordered"]) == ("one", "")
    held = kube.secret(context(MARIADB, release=release), "mariadb-galera", lifted)
    assert recorded(release, annotations=order, children={key(held): held}, draw=lambda: "two")["token"] == "two"
    with pytest.raises(SpecError, match="there is no member 'mariadb-server-7'"):
        recorded(release, annotations={FORCE: "mariadb-server-7"})


def test_no_password_is_on_a_members_command_line(release: Release) -> None:
    template = planned(release, {"replicas": 3})["StatefulSet", "mariadb-server"]["spec"]["template"]["spec"]
    main = template["containers"][0]
    assert "drawn" not in str(main["command"]) + str(main["env"])
    assert main["startupProbe"]["httpGet"]["path"] == "/alive", "a first copy takes as long as it takes"
    assert template["terminationGracePeriodSeconds"] >= 60


def test_wired_options_of_members_cannot_be_set() -> None:
    for option in ("wsrep_cluster_address", "wsrep-on", "wsrep_sst_auth", "innodb_flush_log_at_trx_commit"):
        with pytest.raises(SpecError, match="the operator sets"):
            my_cnf({"mysqld": {option: "x"}}, clustered=True)
    assert "wsrep_slave_threads = 8" in my_cnf({"mysqld": {"wsrep-slave-threads": 8}}, clustered=True)


def test_state_transfers_go_only_to_members_of_the_authority() -> None:
    assert sst_conf("mariadb") == "[sst]\nencrypt = 4\nssl_mode = VERIFY_CA\n"
    # The script would wait for a name for ever, or put this one into a shell's line.
    assert sst_conf("") == sst_conf("x'; touch /tmp/x; '") == "[sst]\nencrypt = 4\n"


def test_no_group_of_options_makes_members_speak_in_plain_text_again() -> None:
    """The last group that names the provider's options wins, with all of them."""
    given = {"mariadb": {"wsrep-provider-options": "gcache.size=1G"}}
    text = my_cnf(given, clustered=True, encrypted=True, peer_tls=TLS_ONLY)
    found = [line for line in text.splitlines() if line.startswith("wsrep_provider_options")]
    assert found == [
        f"wsrep_provider_options = gcache.size=1G;{TLS_ONLY}",
        f"wsrep_provider_options = gcache.size=128M;gcache.recover=yes;{TLS_ONLY}",
    ]
    for option in ("socket.ssl=no", "gcache.size=1G; socket.dynamic=yes"):
        with pytest.raises(SpecError, match=r"spec.config.mysqld.wsrep_provider_options: the operator sets socket.ssl"):
            my_cnf({"mysqld": {"wsrep_provider_options": option}}, clustered=True, encrypted=True, peer_tls=TLS_ONLY)


def conf(objects: Mapping[tuple[str, str], Object]) -> dict[str, str]:
    """Options of a server."""
    text = kube.secret_data(objects["Secret", "mariadb-config"])["99-openstack.cnf"]
    return dict(re.findall(r"^(\S+) = (.*)$", text, re.MULTILINE))


def without_log(release: Release, spec: Mapping[str, Any]) -> dict[tuple[str, str], Object]:
    """Objects of a server that an operator without binary logs made."""
    return planned(release, {**spec, "binaryLog": {"enabled": False}})


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_new_server_writes_a_binary_log(release: Release, replicas: int) -> None:
    new = planned(release, {"replicas": replicas})
    options = conf(new)
    assert options["log_bin"] == "binlog"
    assert options["sync_binlog"] == "1"
    assert options["binlog_expire_logs_seconds"] == str(2 * 24 * 3600)
    assert ("wsrep_gtid_mode" in options) == (replicas > 1)
    assert (
        planned(release, {"replicas": replicas}, children=new)["Secret", "mariadb-config"]
        == new["Secret", "mariadb-config"]
    )


def test_a_server_without_a_binary_log_gets_one_only_on_order(release: Release) -> None:
    old = without_log(release, {})
    assert conf(planned(release, children=old)) == conf(old)
    assert "log_bin" not in conf(old)
    ordered = planned(release, {"binaryLog": {"enabled": True, "keepFor": "5d"}}, children=old)
    assert conf(ordered)["binlog_expire_logs_seconds"] == str(5 * 24 * 3600)
    # From then on the field may be unset again.
    assert "log_bin" in conf(planned(release, children=ordered))


def test_a_binary_log_can_be_turned_off(release: Release) -> None:
    new = planned(release)
    off = planned(release, {"binaryLog": {"enabled": False}}, children=new)
    assert "log_bin" not in conf(off)
    assert "log_bin" not in conf(planned(release, children=off))


@pytest.mark.parametrize("option", ["log_bin", "log-bin", "skip-log-bin", "sync_binlog", "wsrep_mode", "server-id"])
def test_a_binary_log_of_the_user_stays_theirs(release: Release, option: str) -> None:
    config = {"mysqld": {option: "1"}}
    assert "binlog_expire_logs_seconds" not in conf(planned(release, {"config": config}))
    with pytest.raises(SpecError, match=option.replace("-", "_")):
        planned(release, {"replicas": 3, "config": config, "binaryLog": {"enabled": True}})


def test_an_option_against_the_log_of_a_server_is_refused(release: Release) -> None:
    new = planned(release)
    with pytest.raises(SpecError, match="sync_binlog"):
        planned(release, {"config": {"mysqld": {"sync_binlog": 0}}}, children=new)
    own = planned(release, {"config": {"mysqld": {"log_bin": "mine"}}}, children=new)
    assert conf(own)["log_bin"] == "mine"


@pytest.mark.parametrize("spec", [{"version": "10.11"}, {"imageProfile": "kolla"}])
def test_a_server_that_cannot_limit_its_log_has_one_only_on_order(release: Release, spec: Mapping[str, Any]) -> None:
    assert "log_bin" not in conf(planned(release, {**spec}))
    assert conf(planned(release, {**spec, "binaryLog": {"enabled": True}}))["log_bin"] == "binlog"


@pytest.mark.parametrize(("storage", "size"), [("2Gi", 2 * 2**30 // 10), ("1Gi", 2**30 // 10), ("500Gi", 2**30)])
def test_a_binary_log_takes_a_tenth_of_a_volume_at_most(release: Release, storage: str, size: int) -> None:
    options = conf(planned(release, {"storageSize": storage}))
    assert options["loose_max_binlog_total_size"] == str(size)
    assert int(options["max_binlog_size"]) <= size // 8


def test_servers_of_different_clouds_have_different_numbers(release: Release) -> None:
    numbers = {
        conf({key(obj): obj for obj in plan(context(MARIADB, release=release, namespace=name)).objects})["server_id"]
        for name in ("one", "two")
    }
    assert len(numbers) == 2
    assert all(1 < int(number) < 2**32 for number in numbers)
