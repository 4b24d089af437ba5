"""The commands of `python -m tools.localcluster`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

from . import build, cluster, doctor, existing, kind, network, node, registry
from .commands import CommandError
from .layout import DEFAULT_NAME, Cluster
from .target import target

_ERRORS = (
    build.BuildError,
    cluster.ClusterError,
    doctor.MissingError,
    node.NodeError,
    registry.RegistryError,
    CommandError,
    TimeoutError,
    ValueError,
)


class Backend(Protocol):
    """Module that runs the cluster: cluster, kind or existing."""

    def up(self, cluster: Cluster, nodes: int, labels: dict[str, str], external: str = "") -> None: ...
    def down(self, cluster: Cluster, *, purge: bool = False) -> None: ...
    def load(self, cluster: Cluster, files: list[Path]) -> None: ...
    def images(self, cluster: Cluster) -> list[tuple[str, str, str]]: ...
    def status(self, cluster: Cluster) -> bool: ...
    def stop_node(self, cluster: Cluster, *names: str) -> None: ...
    def start_node(self, cluster: Cluster, *names: str) -> None: ...
    def lose_node(self, cluster: Cluster, name: str) -> None: ...
    def command_in(self, cluster: Cluster, name: str, *command: str) -> list[str]: ...
    def kubectl_command(self, cluster: Cluster) -> list[str]: ...


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return _run(arguments)
    except _ERRORS as error:
        print(f"localcluster: {error}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    match arguments.command:
        case "doctor":
            return doctor.report()
        case "build":
            build.build(arguments.only)
            return 0
        case "registry":
            if _backend(arguments) is not cluster:
                raise CommandError("registry: only the embedded cluster has one; push to a registry of your own")
            print(cluster.start_registry(Cluster(arguments.name)))
            return 0
        case _:
            return _work(_backend(arguments), Cluster(arguments.name), arguments)


def _backend(arguments: argparse.Namespace) -> Backend:
    chosen = target()
    if chosen.kind == "kind":
        return kind
    if chosen.kind == "existing":
        return existing
    if arguments.command not in {"kubeconfig", "kubectl"} and os.geteuid():
        raise CommandError(f"{arguments.command}: needs root, as it makes namespaces or enters them; try sudo")
    return cluster


def _work(backend: Backend, chosen: Cluster, arguments: argparse.Namespace) -> int:
    match arguments.command:
        case "up":
            return _up(backend, chosen, arguments)
        case "down":
            backend.down(chosen, purge=arguments.purge)
        case "load":
            backend.load(chosen, arguments.files)
        case "images":
            for image in backend.images(chosen):
                print(*image)
        case "kubectl":
            return subprocess.run([*backend.kubectl_command(chosen), *arguments.arguments], check=False).returncode
        case "exec":
            inside = backend.command_in(chosen, arguments.node, *arguments.arguments)
            return subprocess.run(inside, check=False).returncode
        case "status":
            return 0 if backend.status(chosen) else 1
        case "kubeconfig":
            print(os.environ["KUBECONFIG"] if backend is existing else chosen.kubeconfig)
        case "stop-node":
            backend.stop_node(chosen, *_names(arguments))
        case "start-node":
            backend.start_node(chosen, *_names(arguments))
        case _:
            backend.lose_node(chosen, arguments.node)
    return 0


def _up(backend: Backend, chosen: Cluster, arguments: argparse.Namespace) -> int:
    if backend is cluster:
        doctor.install_packages(doctor.missing_packages())
        if network.subnet_of(chosen) is None:
            doctor.require(arguments.nodes)
    started = time.monotonic()
    backend.up(chosen, arguments.nodes, dict(arguments.label), arguments.external)
    print(f"cluster {chosen.name} runs ({time.monotonic() - started:.1f} s)", file=sys.stderr)
    print(os.environ["KUBECONFIG"] if backend is existing else chosen.kubeconfig)
    return 0


def _names(arguments: argparse.Namespace) -> list[str]:
    """Return the names of nodes; none for all nodes."""
    if bool(arguments.nodes) == arguments.all:
        raise ValueError(f"{arguments.command}: name the nodes, or say --all")
    return arguments.nodes


def _label(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text}: expected KEY=VALUE")
    return key, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.localcluster", description="A Kubernetes on this machine.")
    parser.add_argument("--name", default=DEFAULT_NAME, help="which cluster (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        # After the command too, but not for those that hand everything on; SUPPRESS keeps what stood before it.
        if name not in {"kubectl", "exec"}:
            added.add_argument("--name", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        return added

    command("doctor", "say what this machine lacks")
    built = command("build", "build what is missing into the cache")
    built.add_argument(
        "--only", metavar="PART", help=f"one of {', '.join([*build.SETS, *build.PARTS, *build.OPTIONAL])}"
    )
    up = command("up", "start the cluster; print the path of its kubeconfig")
    up.add_argument("--nodes", type=int, default=1, metavar="N")
    up.add_argument("--label", type=_label, action="append", default=[], metavar="KEY=VALUE", help="for all nodes")
    up.add_argument("--external", default="", metavar="ADDRESS/LENGTH", help="the host's on the external network")
    down = command("down", "remove the cluster; keep its images")
    down.add_argument("--purge", action="store_true", help="remove its images too")
    load = command("load", "import image archives into every node")
    load.add_argument("files", nargs="+", type=Path, metavar="FILE")
    command("images", "list the images on every node")
    command("registry", "start an image registry beside the cluster; print its address")
    command("status", "say what runs")
    command("kubeconfig", "print the path of the kubeconfig")
    run = command("kubectl", "run kubectl")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    enter = command("exec", "run a command in a node")
    enter.add_argument("node")
    enter.add_argument("arguments", nargs=argparse.REMAINDER)
    for name, text in {"stop-node": "cut the power of nodes", "start-node": "bring them back"}.items():
        some = command(name, text)
        some.add_argument("nodes", nargs="*", metavar="NODE")
        some.add_argument("--all", action="store_true", help="all nodes at once, the control plane included")
    command("lose-node", "lose a node for good, with its disk; up makes a new one").add_argument("node")
    return parser
