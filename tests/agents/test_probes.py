"""The startup probe of a command, which repeats it."""

from __future__ import annotations

from openstack_operator import kube
from openstack_operator.kube.pod_templates import fails_after
from openstack_operator.plan import Object

from .programs import Machine

PROBE = kube.Probe(command=["program", "a word"], timeout=7).render_start()
CONTAINER: Object = {"command": PROBE["exec"]["command"]}


def test_the_command_is_repeated_each_second_at_first(machine: Machine) -> None:
    machine.program("program", f'[ "$1" = "a word" ] && [ "$(wc -l < {machine.home}/calls/program)" = 22 ]')
    result = machine.run(CONTAINER)
    assert (result.returncode, result.stdout) == (0, "")
    assert machine.calls("sleep") == ["1"] * 19 + ["3"] * 2


def test_a_command_that_never_succeeds_is_heard_once(machine: Machine) -> None:
    machine.program("program", "echo no database; exit 3")
    result = machine.run(CONTAINER)
    assert (result.returncode, result.stdout) == (1, "no database\n")
    seconds = sum(int(call) for call in machine.calls("sleep"))
    assert (len(machine.calls("program")), seconds) == (40, 79)
    # The kubelet gives it as long, and then as often as ten minutes take.
    assert PROBE["timeoutSeconds"] >= seconds + 40 * 7
    assert fails_after(PROBE) >= 400
    assert kube.Probe(tcp=80).render_start()["failureThreshold"] == 600


def test_a_command_that_hangs_is_ended(machine: Machine) -> None:
    machine.program("timeout", 'shift; [ "$(wc -l < calls/timeout)" != 1 ] && "$@"')
    machine.program("program", "")
    assert machine.run(CONTAINER).returncode == 0
    assert machine.calls("timeout") == ["7 program a word"] * 2
