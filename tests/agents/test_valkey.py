"""Programs of Valkey's servers and sentinels, beside a valkey-cli that answers as the members do."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.plan import Object, Release
from openstack_operator.services.valkey.model import VALKEY
from openstack_operator.services.valkey.service import plan
from openstack_operator.testing import context
from tests.unit.polling import TIMEOUT, until

from .programs import Machine, certified, container, environment, planned

DOMAIN = "valkey-members.openstack.svc.cluster.local"
HOSTS = [f"valkey-server-{n}.{DOMAIN}" for n in range(3)]
OWN = HOSTS[1]
SENTINEL, SERVER = "26379", "6379"
UNKNOWN = "ERR No such primary with that name\n\n"
CLUSTER: dict[str, Any] = {"replicas": 3, "sentinel": {"enabled": True}}

# Answers are files; a member that has none does not answer. What comes by standard input is written down.
VALKEY_CLI = r"""
host=127.0.0.1 port=
[ "$REDISCLI_AUTH" = secret ] || exit 1
while [ $# -gt 0 ]; do
    case $1 in
    -h) host=$2; shift ;;
    -p) port=$2; shift ;;
    --cacert) [ -n "$2" ] || exit 1; shift ;;
    -*) ;;
    *) break ;;
    esac
    shift
done
echo "$host $port $*" >> orders
[ $# -gt 0 ] || { cat >> input; . ./on_input; exit; }
cat "answers/$host/$port/$*" 2> /dev/null
"""
SLEEP = 'file=rounds/$(wc -l < calls/sleep); [ ! -e "$file" ] || . "./$file"'


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(
        tmp_path,
        {
            "POD_NAME": "valkey-server-1",
            "HOST": OWN,
            "STATE_FOLDER": f"{tmp_path}/state",
            "PASSWORD_FILE": f"{tmp_path}/password",
            "CONF_FILE": f"{tmp_path}/valkey.conf",
            "MEMBER_CONF_FILE": f"{tmp_path}/member.conf",
        },
    )
    made.program("valkey-cli", VALKEY_CLI)
    made.program("valkey-server", 'cat "$1"')
    made.program("timeout", 'shift; "$@"')
    made.program("sleep", SLEEP)
    made.write("password", "secret")
    made.write("valkey.conf", "the configuration\n")
    return made


def deployed(release: Release, *, tls: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    ctx = (
        certified(VALKEY, release, {**spec, "tls": tls}) if tls is not None else context(VALKEY, spec, release=release)
    )
    return planned(plan(ctx), "StatefulSet", "valkey-server")


@pytest.fixture
def server(release: Release) -> Object:
    return container(deployed(release, **CLUSTER))


@pytest.fixture
def sentinel(release: Release) -> Object:
    return container(deployed(release, **CLUSTER), "sentinel")


def answer(machine: Machine, host: str, port: str, command: str, text: str) -> None:
    machine.write(f"answers/{host}/{port}/{command}", text)


def naming(primary: str, epoch: int) -> str:
    """Return what a sentinel answers that knows the primary."""
    pairs = {"name": "mymaster", "ip": primary, "port": "6379", "runid": "x", "config-epoch": str(epoch), "quorum": "2"}
    return "".join(f"{name}\n{value}\n" for name, value in pairs.items())


def sentinels(machine: Machine, *answers: str | None) -> None:
    """Let the sentinels answer so; None does not answer."""
    for host, text in zip(HOSTS, answers, strict=True):
        if text is not None:
            answer(machine, host, SENTINEL, "sentinel primary mymaster", text)


def keys(machine: Machine, *counts: int | None) -> None:
    """Let the other servers have so many keys; None does not answer."""
    for host, count in zip((HOSTS[0], HOSTS[2]), counts, strict=True):
        if count is not None:
            answer(machine, host, SERVER, "dbsize", f"{count}\n")


def copied(machine: Machine, name: str, text: str) -> str:
    """Return the line of a script that lets a sentinel answer so from then on."""
    source = machine.write(f"later/{name}", text)
    target = machine.home / "answers" / name / SENTINEL
    return f'mkdir -p "{target}" && cp "{source}" "{target}/sentinel primary mymaster"'


def primary(machine: Machine, server: Object, **env: str) -> str:
    """Return of which server the one that starts is a replica; empty if it is the primary."""
    result = machine.run(server, **env)
    assert result.returncode == 0, result.stderr
    include, announce, *others = result.stdout.splitlines()
    assert (include, announce) == (f"include {machine.home}/valkey.conf", f"replica-announce-ip {env.get('HOST', OWN)}")
    if not others:
        return ""
    (line,) = others
    name, host, port = line.split()
    assert (name, port) == ("replicaof", SERVER)
    return host


def test_at_the_beginning_the_first_server_is_the_primary(machine: Machine, server: Object) -> None:
    sentinels(machine, UNKNOWN, UNKNOWN, UNKNOWN)
    keys(machine, 0, 0)
    assert primary(machine, server) == HOSTS[0]
    answer(machine, OWN, SERVER, "dbsize", "0\n")
    assert primary(machine, server, HOST=HOSTS[0]) == ""
    assert machine.calls("sleep") == []


def test_the_newest_epoch_counts(machine: Machine, server: Object) -> None:
    sentinels(machine, naming(HOSTS[0], 9), naming(HOSTS[2], 10), naming(HOSTS[0], 2))
    assert primary(machine, server) == HOSTS[2]
    assert machine.calls("sleep") == []


def test_a_primary_known_to_one_sentinel_outweighs_others_that_know_none(machine: Machine, server: Object) -> None:
    sentinels(machine, UNKNOWN, UNKNOWN, naming(HOSTS[2], 1))
    assert primary(machine, server) == HOSTS[2]


@pytest.mark.parametrize(
    ("answers", "rounds"),
    [
        ((naming(HOSTS[2], 1), naming(HOSTS[2], 1), None), 6),
        ((None, UNKNOWN, naming(HOSTS[2], 1)), 40),
        ((None, None, naming(HOSTS[2], 1)), 40),
    ],
    ids=["a majority that names one", "one that names one", "the only one"],
)
def test_a_server_waits_for_sentinels_only_for_a_limited_time(
    machine: Machine, server: Object, answers: tuple[str | None, ...], rounds: int
) -> None:
    sentinels(machine, *answers)
    assert primary(machine, server) == HOSTS[2]
    assert machine.calls("sleep") == ["0.5"] * rounds


def test_a_server_waits_for_a_sentinel_that_names_a_primary(machine: Machine, server: Object) -> None:
    """Two that know nothing may be those that have lost their disks."""
    sentinels(machine, None, UNKNOWN, UNKNOWN)
    machine.write("rounds/50", copied(machine, HOSTS[0], naming(HOSTS[0], 1)))
    assert primary(machine, server) == HOSTS[0]
    assert len(machine.calls("sleep")) == 50


def test_a_primary_with_its_data_goes_on(machine: Machine, server: Object) -> None:
    sentinels(machine, *[naming(OWN, 1)] * 3)
    keys(machine, 5, 5)
    machine.write("state/data/appendonlydir/appendonly.aof.1.incr.aof")
    assert primary(machine, server) == ""
    assert machine.calls("sleep") == []


@pytest.mark.parametrize("counts", [(5, 5), (0, 5), (5, 0), (5, None), (None, 5), (0, None), (None, None)])
def test_a_primary_without_data_waits_for_its_successor(
    machine: Machine, server: Object, counts: tuple[int | None, int | None]
) -> None:
    """As long as another server has keys, or may have."""
    sentinels(machine, *[naming(OWN, 1)] * 3)
    keys(machine, *counts)
    machine.write("rounds/3", copied(machine, HOSTS[0], naming(HOSTS[2], 2)))
    assert primary(machine, server) == HOSTS[2]
    assert machine.calls("sleep") == ["0.5"] * 3


def test_a_primary_without_data_starts_if_no_other_server_has_keys(machine: Machine, server: Object) -> None:
    sentinels(machine, *[naming(OWN, 1)] * 3)
    keys(machine, 0, 0)
    assert primary(machine, server) == ""
    assert machine.calls("sleep") == []


def test_a_server_alone_asks_no_other_one(machine: Machine, release: Release) -> None:
    assert machine.run(container(deployed(release))).stdout == "the configuration\n"
    assert (machine.home / "state/data").is_dir()
    assert machine.calls("valkey-cli") == []


@pytest.mark.parametrize("spec", [{}, CLUSTER], ids=["one server", "three servers"])
def test_a_server_reads_new_files_while_it_runs(machine: Machine, release: Release, spec: dict[str, Any]) -> None:
    machine.write("tls/tls.crt", "first")
    machine.rounds("", "echo second > tls/tls.crt", "", "")
    # The first order fails.
    machine.program(
        "valkey-cli", '[ "$REDISCLI_AUTH" = secret ] && [ "$(grep -c "config set" calls/valkey-cli)" != 1 ]'
    )
    machine.program("seq", "echo 1")
    machine.env["VALKEY_HOSTS"] = ""
    machine.run(container(deployed(release, tls={}, **spec)), TLS_FOLDER=machine.home / "tls")
    flags = environment(container(deployed(release, tls={}, **spec)))["FLAGS"]
    files = " ".join(
        f"tls-{option}-file {machine.home}/tls/{file}"
        for option, file in (("cert", "tls.crt"), ("key", "tls.key"), ("ca-cert", "ca.crt"))
    )
    assert machine.calls("valkey-cli") == [f"{flags} --no-auth-warning -e -p 6380 config set {files}"] * 2


REPLICATION = {
    "role:master\nconnected_slaves:0\n": True,
    "role:slave\nmaster_link_status:up\n": True,
    "role:slave\nmaster_link_status:down\n": False,
    "LOADING it reads its data\n": False,
}


@pytest.mark.parametrize(("text", "takes_part"), REPLICATION.items())
def test_a_replica_without_its_primary_is_not_ready(
    machine: Machine, server: Object, text: str, *, takes_part: bool
) -> None:
    command = server["readinessProbe"]["exec"]["command"]
    answer(machine, "127.0.0.1", SERVER, "info replication", text)
    assert (machine.run(server, command=command).returncode == 0) == takes_part


def stop(machine: Machine, server: Object, **env: str) -> list[str]:
    """Run the hook before the end, and return what it ordered."""
    hook = machine.run(server, command=server["lifecycle"]["preStop"]["exec"]["command"], **env)
    assert hook.returncode == 0, hook.stderr
    lines = (machine.home / "orders").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.endswith(("info replication", "sentinel primary mymaster"))]


def test_a_replica_stops_at_once(machine: Machine, server: Object) -> None:
    answer(machine, "127.0.0.1", SERVER, "info replication", "role:slave\n")
    assert stop(machine, server) == []


def test_a_primary_hands_over_to_another_one(machine: Machine, server: Object) -> None:
    answer(machine, "127.0.0.1", SERVER, "info replication", "role:master\n")
    answer(machine, HOSTS[0], SENTINEL, "sentinel failover mymaster", "NOGOODSLAVE No suitable replica\n")
    for host in (OWN, HOSTS[2]):
        answer(machine, host, SENTINEL, "sentinel failover mymaster", "OK\n")
    sentinels(machine, *[naming(OWN, 1)] * 3)
    machine.write("rounds/3", copied(machine, HOSTS[2], naming(HOSTS[0], 2)))
    assert stop(machine, server) == [
        f"127.0.0.1 {SERVER} client pause 10000 write",
        f"{HOSTS[0]} {SENTINEL} sentinel failover mymaster",
        f"{HOSTS[2]} {SENTINEL} sentinel failover mymaster",
    ]
    assert machine.calls("sleep") == ["1"] * 3


def test_a_primary_stops_though_no_other_one_takes_over(machine: Machine, server: Object) -> None:
    answer(machine, "127.0.0.1", SERVER, "info replication", "role:master\n")
    sentinels(machine, *[naming(OWN, 1)] * 3)
    assert len(stop(machine, server)) == 3
    assert machine.calls("sleep") == ["1"] * 9


CONF_OF_OTHERS = f"""\
port 26379
tls-port 26380
sentinel myid 1234
sentinel monitor mymaster {HOSTS[0]} 6379 3
sentinel known-replica mymaster {HOSTS[1]} 6379
sentinel known-replica mymaster {HOSTS[2]} 6380
sentinel known-sentinel mymaster {HOSTS[1]} 26379 abc
sentinel known-sentinel mymaster {HOSTS[2]} 26380 def
"""


def test_a_new_sentinel_learns_of_the_primary(machine: Machine, sentinel: Object) -> None:
    sentinels(machine, UNKNOWN, UNKNOWN, naming(HOSTS[2], 3))
    machine.write("on_input", copied(machine, OWN, naming(HOSTS[2], 3)))
    machine.program("valkey-sentinel", 'cat "$1"')
    result = machine.run(sentinel)
    assert result.stdout.splitlines() == [
        f"dir {machine.home}/state/sentinel",
        "protected-mode no",
        "requirepass secret",
        "sentinel sentinel-pass secret",
        "sentinel resolve-hostnames yes",
        "sentinel announce-hostnames yes",
        f"sentinel announce-ip {OWN}",
        "port 26379",
    ]
    orders = (machine.home / "input").read_text(encoding="utf-8").splitlines()
    assert orders[:2] == [f"sentinel monitor mymaster {HOSTS[2]} 6379 2", "sentinel set mymaster auth-pass secret"]
    assert f"127.0.0.1 {SENTINEL} " in (machine.home / "orders").read_text(encoding="utf-8").splitlines()
    mode = (machine.home / "state/sentinel/sentinel.conf").stat().st_mode
    assert mode & 0o777 == 0o600, "it has the password"


def test_a_sentinel_goes_on_with_what_it_knows(machine: Machine, sentinel: Object) -> None:
    sentinels(machine, None, naming(HOSTS[0], 1), None)
    machine.write("state/sentinel/sentinel.conf", CONF_OF_OTHERS)
    machine.program("valkey-sentinel", 'cat "$1"')
    lines = machine.run(sentinel).stdout.splitlines()
    assert lines == [
        "sentinel myid 1234",
        f"sentinel monitor mymaster {HOSTS[0]} 6379 2",
        f"sentinel known-replica mymaster {HOSTS[1]} 6379",
        f"sentinel known-sentinel mymaster {HOSTS[1]} 26379 abc",
        "port 26379",
    ], "it learns of the others by their new ports again"
    assert not (machine.home / "input").exists()


@pytest.fixture
def tls_sentinel(machine: Machine, release: Release) -> Object:
    machine.write("tls/tls.crt", "first")
    for host in HOSTS:
        answer(machine, host, "26380", "sentinel primary mymaster", naming(HOSTS[0], 1))
    return container(deployed(release, tls={}, **CLUSTER), "sentinel")


def test_a_sentinel_starts_again_with_new_files(machine: Machine, tls_sentinel: Object) -> None:
    """One that ends by itself ends the container."""
    machine.program("valkey-sentinel", '[ "$(wc -l < calls/valkey-sentinel)" = 2 ] || exec /bin/sleep 1000')
    machine.program("sleep", '[ "$(wc -l < calls/sleep)" = 2 ] || exec /bin/sleep 1000; echo second > tls/tls.crt')
    machine.write("calls/sleep", "\n")
    with machine.start(tls_sentinel, TLS_FOLDER=str(machine.home / "tls")) as process:
        assert process.wait(TIMEOUT) == 1
    assert machine.calls("valkey-sentinel") == [f"{machine.home}/state/sentinel/sentinel.conf"] * 2
    assert machine.calls("sleep")[1] == "10"


def test_a_sentinel_that_has_a_certificate_ends_with_its_container(machine: Machine, tls_sentinel: Object) -> None:
    machine.program(
        "valkey-sentinel", "trap 'echo end >> calls/ended; exit' TERM; touch started; /bin/sleep 1000 & wait"
    )
    machine.program("sleep", "exec /bin/sleep 1000")
    with machine.start(tls_sentinel, TLS_FOLDER=str(machine.home / "tls")) as process:
        until("the sentinel", (machine.home / "started").exists)
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT)
    assert machine.calls("ended") == ["end"]
