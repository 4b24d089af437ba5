"""Programs of RabbitMQ's members, beside tools that write down what they are called with, and members that listen."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from openstack_operator.plan import Object, Release
from openstack_operator.services.rabbitmq.model import RABBITMQ
from openstack_operator.services.rabbitmq.service import plan
from openstack_operator.testing import context
from tests.unit.polling import TIMEOUT, until
from tools.localcluster.ports import free_port

from .programs import Machine, as_kubelet_starts, container, environment, planned

HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
STUCK_AFTER = 18


@dataclass
class Members:
    """Members that listen, at ports that no other program has."""

    epmd: int = 0
    distribution: int = 0
    client: int = 0
    sockets: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.epmd, self.distribution, self.client = (free_port(HOSTS) for _ in range(3))

    def listen(self, host: str, *ports: int) -> None:
        for port in ports:
            # Nothing accepts the connections.
            self.sockets.enter_context(socket.create_server((host, port), backlog=1024))


@pytest.fixture
def members() -> Iterator[Members]:
    made = Members()
    with made.sockets:
        yield made


@pytest.fixture
def machine(tmp_path: Path, members: Members) -> Machine:
    made = Machine(
        tmp_path,
        {
            "POD_NAME": "rabbitmq-server-0",
            "RABBITMQ_MEMBERS": " ".join(HOSTS),
            "RABBITMQ_NODENAME": f"rabbit@{HOSTS[0]}",
            "EPMD_PORT": str(members.epmd),
            "DISTRIBUTION_PORT": str(members.distribution),
            "CLIENT_PORT": str(members.client),
            "STATE_FOLDER": f"{tmp_path}/state",
            "SECRET_FOLDER": f"{tmp_path}/secret",
            "ORDERED_MEMBER": "",
            "ORDER": "",
        },
    )
    made.write("secret/erlang-cookie", "the cookie")
    made.write("state/lost+found/empty")
    made.program("rabbitmq-start", "echo started")
    made.program("rabbitmqctl", "")
    made.program("epmd", "")
    # What watches a member that has started ends at its first pause.
    made.program("sleep", 'file=rounds/$(wc -l < calls/sleep); [ ! -e "$file" ] || . "./$file"; [ "$1" != 5 ]')
    return made


@pytest.fixture
def member(release: Release) -> Object:
    made = plan(context(RABBITMQ, {"replicas": 3}, release=release))
    return container(planned(made, "StatefulSet", "rabbitmq-server"))


def write_data(machine: Machine, host: str = HOSTS[0]) -> Path:
    return machine.write(f"state/mnesia/rabbit@{host}/schema.DAT").parent


def start(machine: Machine, member: Object, host: str = HOSTS[0], **env: str) -> None:
    result = machine.run(member, **{"RABBITMQ_NODENAME": f"rabbit@{host}", **env})
    assert (result.returncode, result.stdout) == (0, "started\n"), result.stderr


def pauses(machine: Machine) -> int:
    """Return for how many seconds it waited for others."""
    return machine.calls("sleep").count("1")


def forget(host: str, node: str) -> str:
    return f"-n rabbit@{host} forget_cluster_node rabbit@{node}"


def test_the_ports_are_those_of_the_members(release: Release) -> None:
    workload = planned(plan(context(RABBITMQ, {"replicas": 3}, release=release)), "StatefulSet", "rabbitmq-server")
    env, ports = environment(container(workload)), container(workload)["ports"]
    assert (env["EPMD_PORT"], env["DISTRIBUTION_PORT"], env["CLIENT_PORT"]) == ("4369", "25672", "5672")
    assert int(env["CLIENT_PORT"]) in {port["containerPort"] for port in ports}


def test_the_first_member_begins_if_all_others_run_without_data(
    machine: Machine, member: Object, members: Members
) -> None:
    for host in HOSTS[1:]:
        members.listen(host, members.epmd)
    start(machine, member)
    assert pauses(machine) == 2, "it looks three times"
    assert machine.calls("epmd") == ["-daemon"]
    assert machine.calls("rabbitmqctl") == []
    cookie = machine.home / "state/.erlang.cookie"
    assert cookie.read_text(encoding="utf-8") == "the cookie"
    assert cookie.stat().st_mode & 0o777 == 0o600


def test_the_first_member_joins_one_that_has_started(machine: Machine, member: Object, members: Members) -> None:
    members.listen(HOSTS[1], members.epmd)
    members.listen(HOSTS[2], members.epmd, members.distribution)
    start(machine, member)
    assert pauses(machine) == 0
    assert machine.calls("rabbitmqctl") == [forget(HOSTS[2], HOSTS[0])]


@contextmanager
def paused(machine: Machine, member: Object, number: int, **env: str) -> Generator[None]:
    """Run a member that stops in its pause of that number; it goes on after what the caller does."""
    machine.write(f"rounds/{number}", "touch paused; until [ -e go ]; do /bin/sleep 0.02; done")
    with machine.start(member, **env) as process:
        until("a pause", lambda: (machine.home / "paused").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        yield
        machine.write("go")
        output, errors = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, output) == (0, "started\n"), errors


def test_the_first_member_waits_for_one_that_is_absent(machine: Machine, member: Object, members: Members) -> None:
    """It may have data."""
    members.listen(HOSTS[1], members.epmd)
    with paused(machine, member, 5):
        members.listen(HOSTS[2], members.epmd)
    assert pauses(machine) == 7
    assert machine.calls("rabbitmqctl") == []


def test_a_member_that_starts_while_the_first_one_looks_is_joined(
    machine: Machine, member: Object, members: Members
) -> None:
    for host in HOSTS[1:]:
        members.listen(host, members.epmd)
    with paused(machine, member, 2):
        members.listen(HOSTS[1], members.distribution)
    assert machine.calls("rabbitmqctl") == [forget(HOSTS[1], HOSTS[0])]


def test_another_member_waits_for_one_that_has_started(machine: Machine, member: Object, members: Members) -> None:
    for host in (HOSTS[0], HOSTS[2]):
        members.listen(host, members.epmd)
    with paused(machine, member, 5, RABBITMQ_NODENAME=f"rabbit@{HOSTS[1]}"):
        members.listen(HOSTS[0], members.distribution)
    assert pauses(machine) == 5
    assert machine.calls("rabbitmqctl") == [forget(HOSTS[0], HOSTS[1])]


def test_a_member_without_data_is_forgotten_by_another_member(
    machine: Machine, member: Object, members: Members
) -> None:
    for host in (HOSTS[0], HOSTS[2]):
        members.listen(host, members.epmd, members.distribution)
    machine.program("rabbitmqctl", f'[ "$2" != rabbit@{HOSTS[0]} ]')
    start(machine, member, HOSTS[1])
    assert machine.calls("rabbitmqctl") == [forget(HOSTS[0], HOSTS[1]), forget(HOSTS[2], HOSTS[1])]
    machine.forget_calls()
    machine.program("rabbitmqctl", "")
    start(machine, member, HOSTS[1])
    assert machine.calls("rabbitmqctl") == [forget(HOSTS[0], HOSTS[1])]
    machine.program("rabbitmqctl", "exit 1")
    start(machine, member, HOSTS[1])


def test_a_member_with_data_asks_no_other_one(machine: Machine, member: Object) -> None:
    write_data(machine)
    start(machine, member)
    assert [*machine.calls("epmd"), *machine.calls("rabbitmqctl")] == []
    assert pauses(machine) == 0


def test_a_member_obeys_an_order_once(machine: Machine, member: Object) -> None:
    force = write_data(machine) / "force_load"
    start(machine, member)
    start(machine, member, ORDERED_MEMBER="rabbitmq-server-1", ORDER="one")
    assert not force.exists()
    start(machine, member, ORDERED_MEMBER="rabbitmq-server-0", ORDER="one")
    assert force.exists()
    # The server removes it once it has started.
    force.unlink()
    start(machine, member, ORDERED_MEMBER="rabbitmq-server-0", ORDER="one")
    assert not force.exists()
    start(machine, member, ORDERED_MEMBER="rabbitmq-server-0", ORDER="two")
    assert force.exists()


def test_an_order_is_for_a_member_with_data(machine: Machine, member: Object, members: Members) -> None:
    members.listen(HOSTS[1], members.epmd, members.distribution)
    start(machine, member, ORDERED_MEMBER="rabbitmq-server-0", ORDER="one")
    assert not (machine.home / "state/order").exists()


# A process as the kernel describes it: it becomes RabbitMQ's, and uses as much of the processor in each pause as a file
# says. The one of another session is of no interest.
DESCRIBE = r"""
mkdir -p proc/$$ proc/1
echo beam.smp | tee proc/$$/comm > proc/1/comm
echo "$$ (beam.smp) S 0 $$ $$ 0 -1 0 0 0 0 0 0 0 0 20" > proc/$$/stat
echo "1 (beam.smp) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 20" > proc/1/stat
echo $$ > pid
ln -s $$ proc/self
exec "$@"
"""
WORK = r"""
[ "$1" = 5 ] || exit 0
pid=$(cat pid) round=$(wc -l < calls/sleep) ticks=$(cat ticks)
echo "$pid (beam.smp) S 0 $pid $pid 0 -1 0 0 0 0 0 0 $((round * ticks)) 0 20" > proc/$pid/stat
echo "1 (beam.smp) S 0 1 1 0 -1 0 0 0 0 0 0 $((round * 500)) 0 20" > proc/1/stat
[ "$round" -le "$(cat rounds)" ] || { touch end; exit 1; }
"""


def watch(machine: Machine, member: Object, rounds: int, ticks: int = 0, **env: str) -> tuple[int, str]:
    """Watch a member with data that serves no clients for so many rounds. Return its exit code and what it writes."""
    write_data(machine)
    machine.write("rounds", str(rounds))
    machine.write("ticks", str(ticks))
    machine.program("sleep", WORK)
    # It ends once it is not watched any more.
    machine.program("rabbitmq-start", "until [ -e end ]; do /bin/sleep 0.02; done")
    command = ["sh", "-ec", DESCRIBE, "sh", *as_kubelet_starts(member)]
    machine.env["PROC"] = f"{machine.home}/proc"
    with machine.start(member, command=command, **env) as process:
        code = process.wait(TIMEOUT)
        # What watched it may still write.
        _, errors = process.communicate(timeout=TIMEOUT)
    return code, errors


def listen_all(members: Members) -> None:
    for host in HOSTS:
        members.listen(host, members.distribution)


STUCK = "all members are there, and this one neither started nor worked for 90 s: starts again"


@pytest.mark.parametrize("ticks", [0, 49])
def test_a_member_that_neither_starts_nor_works_ends(
    machine: Machine, member: Object, members: Members, ticks: int
) -> None:
    listen_all(members)
    code, errors = watch(machine, member, 100, ticks)
    assert (code, len(machine.calls("sleep"))) == (-signal.SIGKILL, STUCK_AFTER)
    assert errors == f"member: {STUCK}\n"


def test_the_kernel_describes_processes_so(machine: Machine, member: Object, members: Members) -> None:
    """The same one with the real /proc: it looks at its own session alone."""
    listen_all(members)
    write_data(machine)
    program = machine.home / "beam.smp"
    program.symlink_to(os.path.realpath("/bin/sleep"))
    machine.program("sleep", "")
    machine.program("rabbitmq-start", f"exec {program} 1000")
    with machine.start(member) as process:
        assert process.wait(TIMEOUT) == -signal.SIGKILL


@pytest.mark.parametrize(("ticks", "absent"), [(50, ""), (0, HOSTS[2])], ids=["works", "waits for an absent member"])
def test_a_member_that_works_or_waits_goes_on(
    machine: Machine, member: Object, members: Members, ticks: int, absent: str
) -> None:
    for host in HOSTS:
        if host != absent:
            members.listen(host, members.distribution)
    code, errors = watch(machine, member, 2 * STUCK_AFTER, ticks)
    assert (code, errors) == (0, "")
    assert len(machine.calls("sleep")) > 2 * STUCK_AFTER


def test_a_member_that_serves_clients_is_not_watched(machine: Machine, member: Object, members: Members) -> None:
    listen_all(members)
    members.listen(HOSTS[0], members.client)
    machine.program("rabbitmq-start", "until [ -e calls/sleep ]; do /bin/sleep 0.02; done")
    write_data(machine)
    machine.program("sleep", "")
    assert machine.run(member).stderr == ""
    assert machine.calls("sleep") == ["5"]


def drain(machine: Machine, member: Object) -> int:
    """Run the hook before the end; return how often it asked whether the others can do without this member."""
    hook = machine.run(member, command=member["lifecycle"]["preStop"]["exec"]["command"])
    assert hook.returncode == 0
    calls = machine.calls("rabbitmq-upgrade")
    assert set(calls) == {"--timeout 3 await_online_quorum_plus_one"}
    return len(calls)


def test_a_member_that_ends_waits_for_one_that_catches_up(machine: Machine, member: Object, members: Members) -> None:
    listen_all(members)
    machine.program("rabbitmq-upgrade", '[ "$(wc -l < calls/rabbitmq-upgrade)" = 3 ]')
    assert drain(machine, member) == 3
    machine.program("rabbitmq-upgrade", "exit 1")
    machine.forget_calls()
    assert drain(machine, member) == 6, "each takes three seconds"


def test_a_server_that_ends_enables_what_a_later_version_needs(
    machine: Machine, member: Object, release: Release
) -> None:
    machine.program("rabbitmqctl", "exit 1")
    machine.program("rabbitmq-upgrade")
    assert drain(machine, member) == 1, "one that knows not all of them ends all the same"
    assert machine.calls("rabbitmqctl") == ["--quiet enable_feature_flag all"]
    single = container(planned(plan(context(RABBITMQ, release=release)), "StatefulSet", "rabbitmq-server"))
    machine.forget_calls()
    hook = machine.run(single, command=single["lifecycle"]["preStop"]["exec"]["command"])
    assert hook.returncode == 0
    assert machine.calls("rabbitmqctl") == ["--quiet enable_feature_flag all"]


def test_a_member_that_ends_waits_for_no_absent_one(machine: Machine, member: Object, members: Members) -> None:
    members.listen(HOSTS[0], members.distribution)
    members.listen(HOSTS[2], members.distribution)
    machine.program("rabbitmq-upgrade", "exit 1")
    assert drain(machine, member) == 1
