"""`python -m cloud up|proof|down`: what `make cloud` and `make cloud-down` do."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console

from . import proof
from .kubernetes import ROOT, CloudError, module, running
from .session import SAMPLES, Session
from .stopwatch import Stopwatch

SAMPLE = SAMPLES / "controlplane_minimal.yaml"
REPORT = ROOT / "build" / "cloud.json"


def up(sample: Path, timeout: float) -> None:
    """From nothing to a server that answers."""
    session = Session.start()
    cloud = session.converge(sample, timeout=timeout)
    facts = session.prove(cloud)
    session.watch.write(REPORT, proof=facts)
    session.console.print(session.watch.table())
    session.console.print(_usage(facts, session.cluster.kubeconfig), highlight=False, soft_wrap=True)


def _usage(facts: dict[str, str], kubeconfig: Path | None) -> str:
    lines = [
        "",
        f"The server [bold]{proof.NAME}[/bold] answers on {facts['floating_ip']} (from the node). Use the cloud:",
        "",
        f"  export OS_CLIENT_CONFIG_FILE={ROOT / 'build' / 'clouds.yaml'} OS_CLOUD={proof.CLOUD}",
        f"  {Path(sys.executable).with_name('openstack')} server list",
        "  kubectl -n openstack exec deploy/keystoneclient -- openstack server list",
    ]
    if kubeconfig:
        lines[3:3] = [f"  export KUBECONFIG={kubeconfig}"]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cloud")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="everything, to a server that answers")
    start.add_argument("--sample", type=Path, default=SAMPLE)
    start.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="for apply to Ready")
    again = commands.add_parser("proof", help="boot a server in the cloud that runs")
    again.add_argument("--namespace", default="openstack")
    commands.add_parser("down", help="remove the embedded cluster and all in it")
    arguments = parser.parse_args()
    console = Console()
    try:
        match arguments.command:
            case "up":
                up(arguments.sample, arguments.timeout)
            case "proof":
                watch = Stopwatch(console)
                proof.prove(running(), arguments.namespace, watch)
                console.print(watch.table())
            case _:
                os.environ.pop("KUBECONFIG", None)
                module("localcluster", "down")
    except CloudError as error:
        console.print(f"[red]error:[/red] {error}", highlight=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
