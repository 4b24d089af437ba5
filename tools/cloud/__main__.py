"""`python -m tools.cloud up|proof|down`: what `make cloud` and `make cloud-down` do."""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.cloud")

import argparse
import shutil
import sys
from pathlib import Path

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException
from rich.console import Console
from rich.markup import escape

from tools.localcluster.target import target

from ..localcluster import registry_login
from ..localcluster.kubernetes import ROOT, KubeError, existing_cluster, module
from . import deploy, proof
from .session import APPLIED, MINIMAL, Session
from .stopwatch import Stopwatch

REPORT = ROOT / "build" / "cloud.json"


def up(sample: Path, nodes: int, timeout: float, *, pulls: bool, release: str = deploy.RELEASE) -> None:
    """Start a cloud, from nothing to a server that answers; with `pulls`, nodes pull all images from a registry beside
    the cluster.
    """
    session = Session.start(sample, nodes, pulls=pulls, release=release)
    cloud = session.converge(sample, timeout=timeout)
    facts = session.prove(cloud)
    session.watch.write(REPORT, proof=facts)
    session.console.print(session.watch.table())
    steps = next_steps(facts, session.cluster.kubeconfig, sample)
    session.console.print(steps, highlight=False, soft_wrap=True)


def prove_again(namespace: str, console: Console) -> None:
    """Boot a server in the running cloud."""
    cluster, watch = existing_cluster(), Stopwatch(console)
    proof.standing(cluster, namespace)
    proof.prove(cluster, namespace, watch)
    console.print(watch.table())


def down() -> None:
    """Delete the cluster on this machine, with all in it. Raises KubeError for one of the user's own."""
    chosen = target()
    if chosen.kind == "existing":
        raise KubeError(
            f"{chosen.why}, a cluster of your own, which is left as it is. Remove the cloud from it with"
            " `kubectl delete openstackcontrolplane --all -n openstack`,"
            " or unset KUBECONFIG to remove the cluster on this machine."
        )
    module("tools.localcluster", "down")


def next_steps(facts: dict[str, str], kubeconfig: Path | None, sample: Path) -> str:
    """Return how to use the cloud and how to change it: `facts` are those of the proof, `sample` is the file that the
    cloud was made from.
    """
    program = Path(sys.executable).with_name("openstack-operator")
    kubectl = "kubectl" if shutil.which("kubectl") else f"{sys.executable} -m tools.localcluster kubectl"
    lines = [
        "",
        f"The server [bold]{proof.NAME}[/bold] answers on {facts['floating_ip']} (from the node). Use the cloud:",
        "",
        *([f"  export KUBECONFIG={kubeconfig}"] if kubeconfig else []),
        f"  export OS_CLIENT_CONFIG_FILE={ROOT / 'build' / 'clouds.yaml'} OS_CLOUD={proof.CLOUD}",
        f"  {Path(sys.executable).with_name('openstack')} server list",
        f"  {kubectl} exec -n openstack deploy/keystoneclient -- openstack server list",
        "",
        f"It was made from {sample.resolve()}. What was applied is in {APPLIED}:",
        "edit that file, see what the change would do, and apply it.",
        "",
        f"  {program} plan -f {APPLIED}",
        f"  {kubectl} apply --server-side -f {APPLIED}",
        f"  {program} wait -n openstack",
        "",
        "`make cloud` applies the sample again, and takes your changes back.",
    ]
    return "\n".join(lines)


def main() -> int:
    arguments, console = _arguments(), Console()
    try:
        match arguments.command:
            case "up":
                pulls, release = bool(arguments.registry), arguments.release
                up(arguments.sample, arguments.nodes, arguments.timeout, pulls=pulls, release=release)
            case "proof":
                prove_again(arguments.namespace, console)
            case _:
                down()
    except KeyboardInterrupt:
        console.print("stopped; `make cloud` goes on from here, `make cloud-down` removes what runs")
        return 130
    except (KubeError, SDKException, ClientException) as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.cloud")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="everything, to a server that answers")
    start.add_argument("--sample", type=Path, default=MINIMAL)
    start.add_argument("--nodes", type=int, default=1, metavar="N", help="of the cluster on this machine (%(default)s)")
    start.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="for apply to Ready")
    releases = sorted(path.stem for path in (ROOT / "releases").glob("*.yaml"))
    start.add_argument("--release", choices=releases, default=deploy.RELEASE, help="of OpenStack (%(default)s)")
    start.add_argument("--registry", choices=[registry_login.LOCAL], help="pull images from a registry started here")
    proved = commands.add_parser("proof", help="boot a server in the cloud that runs")
    proved.add_argument("--namespace", default="openstack")
    commands.add_parser("down", help="remove the embedded cluster and all in it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
