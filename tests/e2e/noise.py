"""What the logs of a cloud tell that is no error, and how many errors they tell besides: nobody sees one of the latter
among many of the former.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tools.localcluster.kubernetes import Kubernetes


@dataclass(frozen=True)
class Known:
    """Lines that are known."""

    pattern: re.Pattern[str]
    why: str
    """Where they come from."""
    is_patched: bool = False
    """True if a patch of images/patches is what ended them: a pristine image still writes them."""
    few: int = 0
    """As many in one log have another cause, which is nobody's mistake."""


def _known(why: str, pattern: str, *, is_patched: bool = False, few: int = 0) -> Known:
    return Known(re.compile(pattern), why, is_patched, few)


NOISE = (
    _known(
        # Also a client of Memcached without images/patches/keystonemiddleware/02-cache-over-tls.patch.
        "something connects to a port that speaks TLS and ends without a handshake, as a TCP probe does",
        r"SSL_accept: |receive error: Protocol error|connection dropped \(Protocol error\)"
        r"|accept4?\(\): (Resource temporarily unavailable|Invalid argument)|Error accepting a client connection: ",
        is_patched=True,
        # On a busy node a handshake takes longer than the 90 ms that a client of Memcached waits (oslo/options.py).
        # A probe writes as many lines in half a minute.
        few=5,
    ),
    _known(
        "Python tidies up greenthreads in the child of a fork (images/patches/eventlet/01-fork.patch)",
        r"Exception ignored in: <function _after_fork |^    assert ident == get_ident\(greenthread\)$",
        is_patched=True,
    ),
    _known(
        "Keystone logs a request that it refuses as its own fault (images/patches/keystone/02-refusals.patch)",
        r" ERROR keystone\.server\.flask\.application .*\b(Forbidden|Conflict|ValidationError|NotFound)\b",
        is_patched=True,
    ),
    _known(
        "Keystone warns of its keys' mount with each request (services/keystone/serving.py: default_log_levels)",
        r"\bkey_repository is world readable\b",
    ),
    _known(
        # Those that are asked at "/" are so by other services, too, and a log does not say by whom.
        "a probe that succeeded is logged as a request (images/oslo/uwsgi.ini)",
        r"GET /healthcheck => .* \(HTTP/1\.\d 200\)",
    ),
    _known(
        "somebody asks whether libvirt listens without a word to it (images/compute/nova-compute-start)",
        r"virNetSocketReadWire:\d+ : End of file while reading data",
    ),
    _known(
        "libvirt looks for certificates where none are (images/libvirt/libvirt-start)",
        r": error : .*/etc/pki/(CA|libvirt)/",
    ),
    _known(
        "libvirt sees cgroups that it may not use (agents/nova/start_libvirt.sh)",
        r": error : .*(cgroup|[Uu]nable to (read from|write to) '/sys/fs/cgroup)",
    ),
    _known(
        "Neutron looks for agents that answer DHCP, which OVN does (services/neutron/config.py)",
        r"No more DHCP agents|Unable to schedule network \S+: no agents available",
    ),
)
"""Of each of these the cause was mended: one that is back has another one."""
FEW = {each.why: each.few for each in NOISE}
"""How many lines of each kind one log may have."""
PATCHED = {each.why: sys.maxsize for each in NOISE if each.is_patched}
"""The same, of a cloud of pristine images."""

OF_THE_MACHINE = (
    _known("the node has no KVM", r": error : \S+ : Unable to open /dev/kvm: "),
    _known("the node has no DMI tables", r"udevGetDMIData|/sbin/dmidecode "),
    _known(
        "the first attempt to connect by a name, whose address is then asked for",
        r"stream_ssl\|ERR\|ssl:\S+: connect: ",
    ),
    _known("a device of a server that goes", r"dpif_netdev\|ERR\|error receiving data from tap\S+: Network is down"),
    _known(
        "an API under uWSGI that is asked nothing has no turn to say that it lives",
        r"\[error\] <\S+> (closing AMQP connection .* - (uwsgi|\w+-api):|missed heartbeats from client)",
    ),
)
"""Errors of a cloud that is well: they are the node's, or nothing is lost by them."""
MOST = 3
"""Other errors that all logs of a fresh cloud together may tell of: whoever starts first may miss whom it calls."""

_ERROR = re.compile(
    r"^\S+ \S+ \d+ (ERROR|CRITICAL) "  # oslo.log
    r"|\|(ERR|EMER)\|"  # Open vSwitch and OVN
    r"|^\S+ \S+ \d+: error : "  # libvirt
    r"|^\S+ +\S+ (\d+ )?\[(error|critical|ERROR)\] "  # RabbitMQ, MariaDB
    r'|"level": "(error|critical)"'  # the operator
    r"|^Traceback \(most recent call last\):|^Exception ignored in: "  # Python, of what nobody caught
)
_OSLO = re.compile(r"^(\S+ \S+ \d+ (?:ERROR|CRITICAL) \S+) ")


@dataclass
class Count:
    """What the log of one container tells."""

    lines: int = 0
    noise: Counter[str] = field(default_factory=Counter[str])
    """Lines of each kind of NOISE."""
    machine: Counter[str] = field(default_factory=Counter[str])
    """Errors of each kind of OF_THE_MACHINE."""
    errors: list[str] = field(default_factory=list[str])
    """The others; of a traceback the first line."""

    def is_noisy(self, limits: Mapping[str, int]) -> bool:
        """True if lines of a kind are more than its limit."""
        return any(times > limits.get(why, 0) for why, times in self.noise.items())

    def __str__(self) -> str:
        return f"{self.lines} lines, {self.noise.total()} of noise, {len(self.errors)} errors"


def counted(lines: Iterable[str]) -> Count:
    """What these lines of one log tell."""
    count, last, noise = Count(), "", None
    for line in lines:
        count.lines += 1
        head = found.group(1) if (found := _OSLO.match(line)) else ""
        # oslo.log begins each line of a traceback as the first one, to the millisecond.
        goes_on = (head and head == last) or (noise and line.startswith("Traceback "))
        last = head
        if noise := _first(NOISE, line):
            count.noise[noise.why] += 1
        elif not _ERROR.search(line) or goes_on:
            continue
        elif known := _first(OF_THE_MACHINE, line):
            count.machine[known.why] += 1
        else:
            count.errors.append(line)
    return count


def _first(known: Iterable[Known], line: str) -> Known | None:
    return next((each for each in known if each.pattern.search(line)), None)


def logs(cluster: Kubernetes, namespace: str) -> Iterator[tuple[str, Iterable[str]]]:
    """The lines of each container there is, under the name of its pod and its own; those of its present life, where it
    was started anew.
    """
    for pod in cluster.items("pods", "-n", namespace):
        name, spec = pod["metadata"]["name"], pod["spec"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            text = cluster.kubectl("logs", "-n", namespace, name, "-c", container["name"])
            yield f"{name}/{container['name']}", text.splitlines()


def table(counts: Mapping[str, Count]) -> str:
    """A line for each log that tells anything, and below it what."""
    rows: list[str] = []
    for name, count in sorted(counts.items()):
        if count.noise or count.machine or count.errors:
            rows.append(f"{name}: {count}")
            rows += [f"    {times} times: {why}" for why, times in (count.noise + count.machine).most_common()]
            rows += [f"    {line[:300]}" for line in count.errors]
    return "\n".join(rows)
