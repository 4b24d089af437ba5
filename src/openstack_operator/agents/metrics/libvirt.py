"""Serve metrics of the node's libvirt. `virsh` asks for them through the socket for clients that only read."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Iterator

from .answers import LARGEST
from .serve import Page, export

COMMAND = ("virsh", "-r", "-c", "qemu:///system")
PATIENCE = 8.0
"""Seconds for libvirt to answer, less than a Prometheus waits."""
STATES = ("none", "running", "blocked", "paused", "shutdown", "shutoff", "crashed", "pmsuspended")
"""Names of virDomainState."""
_KIB, _NANOSECOND = 1024.0, 1e-9
NUMBERS = {
    "cpu.time": ("cpu_seconds_total", _NANOSECOND, "CPU time of the server or of one virtual CPU."),
    "vcpu.current": ("vcpus", 1.0, "Virtual CPUs."),
    "balloon.current": ("memory_bytes", _KIB, "Memory that the server has."),
    "balloon.rss": ("memory_resident_bytes", _KIB, "Memory of the node that the QEMU process uses."),
}
"""Metric, factor and meaning of numbers of a domain."""
OF_DEVICES = {
    "block": {
        "rd.bytes": ("block_read_bytes_total", "Bytes read from the disk."),
        "wr.bytes": ("block_write_bytes_total", "Bytes written to the disk."),
        "rd.reqs": ("block_read_requests_total", "Reads from the disk."),
        "wr.reqs": ("block_write_requests_total", "Writes to the disk."),
    },
    "net": {
        "rx.bytes": ("interface_receive_bytes_total", "Bytes that the server's interface sent to the node."),
        "tx.bytes": ("interface_transmit_bytes_total", "Bytes that the node sent to the server's interface."),
        "rx.drop": ("interface_receive_dropped_total", "Packets from the server that were dropped."),
        "tx.drop": ("interface_transmit_dropped_total", "Packets to the server that were dropped."),
    },
}
"""Metric and meaning of numbers of a device."""
METRICS = {
    **{f"libvirt_domain_{name}": ("domain, uuid", text) for name, _, text in NUMBERS.values()},
    **{
        f"libvirt_domain_{name}": ("device, domain, uuid", text)
        for metrics in OF_DEVICES.values()
        for name, text in metrics.values()
    },
    "libvirt_domains": ("state", "Servers on the node, by state."),
}
_DOMAIN = re.compile(r"^Domain: '(.*)'$")
_VCPU_TIME = re.compile(r"vcpu\.\d+\.time")
_UUID = re.compile(r"^ *([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\s+(\S.*?)\s*$", re.MULTILINE)


def virsh(commands: str) -> str:
    """Return what virsh prints. Raises OSError if libvirt does not answer."""
    command = [*COMMAND, commands]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        assert process.stdout
        output = process.stdout.read(LARGEST + 1)
        process.stdout.close()
        status = process.wait()
        timer.cancel()
    if len(output) > LARGEST:
        raise OSError(f"virsh prints more than {LARGEST} bytes")
    text = output.decode(errors="replace")
    if status == -signal.SIGKILL:
        raise OSError(f"virsh did not answer within {PATIENCE:g} s")
    if status:
        raise OSError(f"virsh: {text.strip()[:200]}")
    return text


def domains(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield name and numbers of each domain, from the output of `domstats`."""
    name, numbers = "", dict[str, str]()
    for line in text.splitlines():
        if match := _DOMAIN.match(line):
            if name:
                yield name, numbers
            name, numbers = match[1], {}
        elif "=" in line:
            key, _, value = line.strip().partition("=")
            numbers[key] = value
    if name:
        yield name, numbers


def collect(page: Page) -> None:
    """Add metrics of the servers."""
    text = virsh("list --all --uuid --name; domstats --state --cpu-total --balloon --vcpu --interface --block")
    uuids = {name: uuid for uuid, name in _UUID.findall(text)}
    counts = dict.fromkeys(STATES, 0)
    for name, numbers in domains(text):
        labels = {"domain": name, "uuid": uuids.get(name, "")}
        state = int(numbers.get("state.state", 0))
        counts[STATES[state] if state < len(STATES) else STATES[0]] += 1
        if "cpu.time" not in numbers and (
            times := [each for key, each in numbers.items() if _VCPU_TIME.fullmatch(key)]
        ):
            # Guests have no cgroup for CPU where libvirt sees that of devices alone (images/libvirt/libvirt-start).
            numbers["cpu.time"] = str(sum(map(int, times)))
        for key, (metric, factor, _) in NUMBERS.items():
            if key in numbers:
                page.add(f"libvirt_domain_{metric}", float(numbers[key]) * factor, **labels)
        for device_kind, metrics in OF_DEVICES.items():
            for index in range(int(numbers.get(f"{device_kind}.count", 0))):
                device = numbers.get(f"{device_kind}.{index}.name", str(index))
                for key, (metric, _) in metrics.items():
                    if value := numbers.get(f"{device_kind}.{index}.{key}"):
                        page.add(f"libvirt_domain_{metric}", float(value), device=device, **labels)
    for name, count in counts.items():
        page.add("libvirt_domains", count, state=name)


if __name__ == "__main__":
    export({"libvirt": collect}, METRICS)
