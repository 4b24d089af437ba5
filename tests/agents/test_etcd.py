"""The program that starts a member of etcd, beside an etcdctl that answers as the other members do."""

from __future__ import annotations

from pathlib import Path

import pytest

from openstack_operator.plan import Object, Release
from openstack_operator.services.etcd.model import ETCD
from openstack_operator.services.etcd.service import plan
from openstack_operator.testing import context

from .programs import Machine, container, planned

DOMAIN = "etcd-members.openstack.svc.cluster.local"
HOSTS = [f"etcd-server-{n}.{DOMAIN}" for n in range(3)]
URL = f"http://{HOSTS[1]}:2380"
NEW_URL = f"https://{HOSTS[1]}:2382"

# Of a cluster in the folder $CLUSTER: a file for each member that answers, and in `list` a line for each member.
ETCDCTL = r"""
endpoint=${1#--endpoints=http://} host=${1#--endpoints=http://}; host=${host%:2379}
[ -e "$CLUSTER/$host" ] || exit 1
shift 2
case $2 in
list) cat "$CLUSTER/list" ;;
remove) sed -i "/^$3,/d" "$CLUSTER/list" ;;
add)
    echo "new, unstarted, , ${4#--peer-urls=}, , false" >> "$CLUSTER/list"
    echo "Member new added to cluster 1"
    echo 'ETCD_NAME="etcd-server-1"'
    echo 'ETCD_INITIAL_CLUSTER="the others and this one"'
    echo 'ETCD_INITIAL_CLUSTER_STATE="existing"' ;;
update) sed -i "s|^\($3,.*\) http[^ ]*:238[02],|\1 ${4#--peer-urls=},|" "$CLUSTER/list" ;;
esac
"""
MEMBER = r"""
echo "$ETCD_INITIAL_CLUSTER_STATE: $ETCD_INITIAL_CLUSTER"
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(
        tmp_path,
        {
            "POD_NAME": "etcd-server-1",
            "ETCD_NAME": "etcd-server-1",
            "HOST": HOSTS[1],
            "ETCD_ADVERTISE_CLIENT_URLS": f"http://{HOSTS[1]}:2379",
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": URL,
            "PLAIN_PEER_URL": URL,
            "ETCD_DATA_DIR": f"{tmp_path}/state/data",
            "RECORD_FOLDER": f"{tmp_path}/record",
            "CLUSTER": f"{tmp_path}/cluster",
            "ETCD_INITIAL_CLUSTER_STATE": "",
            "ETCD_INITIAL_CLUSTER": "",
        },
    )
    made.program("etcdctl", ETCDCTL)
    made.program("etcd", MEMBER)
    made.program("getent", "")
    made.write("state/lost+found/empty")
    record(made, "new")
    made.write("cluster/list", "".join(f"id{n}, started, s{n}, {url(n)}, http://{HOSTS[n]}:2379\n" for n in range(3)))
    return made


def url(ordinal: int) -> str:
    return f"http://{HOSTS[ordinal]}:2380"


def record(machine: Machine, state: str, founders: int = 3) -> None:
    machine.write("record/state", state)
    machine.write("record/founders", ",".join(f"etcd-server-{n}={url(n)}" for n in range(founders)))


def answer(machine: Machine, *ordinals: int) -> None:
    """Let these members answer."""
    for ordinal in ordinals:
        machine.write(f"cluster/{HOSTS[ordinal]}")


def write_data(machine: Machine) -> None:
    machine.write("state/data/member/wal/0.wal", "data")


def has_data(machine: Machine) -> bool:
    return (machine.home / "state/data/member/wal/0.wal").exists()


def members(machine: Machine) -> str:
    return (machine.home / "cluster/list").read_text(encoding="utf-8")


@pytest.fixture
def member(release: Release) -> Object:
    made = plan(context(ETCD, {"replicas": 3}, release=release))
    return container(planned(made, "StatefulSet", "etcd-server"))


def start(machine: Machine, member: Object, **env: str) -> str:
    """Return with what state, and which members, etcd was started."""
    result = machine.run(member, **env)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def changes(machine: Machine) -> list[str]:
    """Return what etcdctl changed: `host: command`."""
    calls = [call.removeprefix("--endpoints=http://").split() for call in machine.calls("etcdctl")]
    return [f"{words[0].partition('.')[0]}: {' '.join(words[3:])}" for words in calls if words[3] != "list"]


def test_founders_begin_a_cluster_together(machine: Machine, member: Object) -> None:
    founders = ",".join(f"etcd-server-{n}={url(n)}" for n in range(3))
    assert start(machine, member) == f"new: {founders}"
    assert machine.calls("etcdctl") == []


def test_a_member_waits_until_the_others_can_resolve_its_name(machine: Machine, member: Object) -> None:
    machine.program("getent", f'[ "$(wc -l < {machine.home}/calls/getent)" = 3 ]')
    start(machine, member)
    assert machine.calls("getent") == [f"hosts {HOSTS[1]}"] * 3


def test_a_member_without_data_joins_a_cluster_that_exists(machine: Machine, member: Object) -> None:
    """The cluster forgets the member that had the data."""
    record(machine, "existing")
    answer(machine, 2)
    assert start(machine, member) == "existing: the others and this one"
    assert changes(machine) == ["etcd-server-2: remove id1", f"etcd-server-2: add etcd-server-1 --peer-urls={URL}"]
    assert members(machine).count(HOSTS[1]) == 1


def test_a_member_that_is_no_founder_joins(machine: Machine, member: Object) -> None:
    record(machine, "new", founders=1)
    answer(machine, 0)
    machine.write("cluster/list", f"id0, started, s0, {url(0)}, http://{HOSTS[0]}:2379\n")
    assert start(machine, member) == "existing: the others and this one"
    assert changes(machine) == [f"etcd-server-0: add etcd-server-1 --peer-urls={URL}"]


def test_a_member_without_data_waits_for_one_that_answers(machine: Machine, member: Object) -> None:
    record(machine, "existing")
    machine.program(
        "sleep", f'[ "$(wc -l < {machine.home}/calls/sleep)" -lt 3 ] || touch {machine.home}/cluster/{HOSTS[0]}'
    )
    assert start(machine, member) == "existing: the others and this one"
    assert len(machine.calls("sleep")) == 3
    assert has_data(machine) is False


@pytest.mark.parametrize("state", ["new", "existing"])
def test_a_member_with_data_goes_on_with_it(machine: Machine, member: Object, state: str) -> None:
    record(machine, state)
    write_data(machine)
    answer(machine, 0, 2)
    assert start(machine, member) == ":"
    assert machine.calls("etcdctl") == []
    assert has_data(machine)


def test_a_half_written_folder_is_no_data(machine: Machine, member: Object) -> None:
    rest = machine.write("state/data/member/snap/db")
    assert start(machine, member).startswith("new: ")
    assert not rest.exists()


def test_the_others_learn_another_url_before_it_starts(machine: Machine, member: Object) -> None:
    write_data(machine)
    answer(machine, 2)
    env = {"ETCD_INITIAL_ADVERTISE_PEER_URLS": NEW_URL}
    assert start(machine, member, **env) == ":"
    assert changes(machine) == [f"etcd-server-2: update id1 --peer-urls={NEW_URL}"]
    assert f" {NEW_URL}," in members(machine)
    assert has_data(machine)
    machine.forget_calls()
    start(machine, member, **env)
    assert machine.calls("etcdctl") == [], "it remembers that they have learned it"
    start(machine, member)
    assert changes(machine) == [f"etcd-server-2: update id1 --peer-urls={URL}"]


def test_a_member_announces_its_new_url_itself_if_no_other_answers(machine: Machine, member: Object) -> None:
    write_data(machine)
    machine.program("etcd", f"touch {machine.home}/cluster/{HOSTS[1]}")
    start(machine, member, ETCD_INITIAL_ADVERTISE_PEER_URLS=NEW_URL)
    assert changes(machine)[-1] == f"etcd-server-1: update id1 --peer-urls={NEW_URL}"
    assert (machine.home / "state/peer-url").read_text(encoding="utf-8").strip() == NEW_URL


def test_a_member_announces_nothing_if_its_url_has_not_changed(machine: Machine, member: Object) -> None:
    start(machine, member, ETCD_INITIAL_ADVERTISE_PEER_URLS=NEW_URL)
    write_data(machine)
    start(machine, member, ETCD_INITIAL_ADVERTISE_PEER_URLS=NEW_URL)
    assert machine.calls("etcdctl") == []
