"""The commands of `python -m localcluster`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from . import build, cgroups, cluster, doctor, network, node
from .commands import CommandError
from .layout import DEFAULT_NAME, Cluster

_ERRORS = (build.BuildError, cluster.ClusterError, node.NodeError, CommandError, TimeoutError, ValueError)


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.command not in {"build", "doctor", "kubeconfig"} and os.geteuid():
        print(f"{arguments.command}: needs root, as it makes namespaces; try sudo", file=sys.stderr)
        return 1
    try:
        return _run(arguments)
    except _ERRORS as error:
        print(f"localcluster: {error}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    target = Cluster(arguments.name)
    match arguments.command:
        case "doctor":
            return doctor.report()
        case "build":
            build.build(arguments.only)
        case "up":
            doctor.install_packages()
            started = time.monotonic()
            cluster.up(target, arguments.nodes, dict(arguments.label))
            print(f"cluster {target.name} runs ({time.monotonic() - started:.1f} s)", file=sys.stderr)
            print(target.kubeconfig)
        case "down":
            cluster.down(target, purge=arguments.purge)
        case "load":
            cluster.load(target, arguments.files)
        case "images":
            for each in cluster.running(target):
                for reference, digest in sorted(cluster.present(each).items()):
                    print(each.name, reference, digest)
        case "kubectl":
            return subprocess.run([*cluster.kubectl_command(target), *arguments.arguments], check=False).returncode
        case "exec":
            inside = node.command_in(target.node_called(arguments.node), *arguments.arguments)
            return subprocess.run(inside, check=False).returncode
        case "status":
            return _status(target)
        case "kubeconfig":
            print(target.kubeconfig)
        case "stop-node":
            cluster.stop_node(target, arguments.node)
        case _:
            cluster.start_node(target, arguments.node)
    return 0


def _status(target: Cluster) -> int:
    """Prints what runs; 0 if every node does."""
    subnet = network.subnet_of(target)
    if subnet is None and not cgroups.exists(target.cgroup):
        print(f"cluster {target.name}: down")
        return 1
    states = {each: node.pid(each) for each in target.nodes()}
    for each, pid in states.items():
        address = each.address(subnet) if subnet else "no address"
        print(each.name, address, f"pid {pid}" if pid else "down")
    if any(states.values()):
        print(cluster.kubectl(target, "get", "nodes,pods", "--all-namespaces", "--output=wide"))
    return 0 if states and all(states.values()) else 1


def _label(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not found:
        raise argparse.ArgumentTypeError(f"{text}: expected KEY=VALUE")
    return key, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m localcluster", description="A Kubernetes on this machine.")
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
    built.add_argument("--only", metavar="PART", help=f"one of {', '.join([*build.SETS, *build.PARTS])}")
    up = command("up", "start the cluster; print the path of its kubeconfig")
    up.add_argument("--nodes", type=int, default=1, metavar="N")
    up.add_argument("--label", type=_label, action="append", default=[], metavar="KEY=VALUE", help="for all nodes")
    down = command("down", "remove the cluster; keep its images")
    down.add_argument("--purge", action="store_true", help="remove its images too")
    load = command("load", "import image archives into every node")
    load.add_argument("files", nargs="+", type=Path, metavar="FILE")
    command("images", "list the images on every node")
    command("status", "say what runs")
    command("kubeconfig", "print the path of the kubeconfig")
    run = command("kubectl", "run kubectl")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    enter = command("exec", "run a command in a node")
    enter.add_argument("node")
    enter.add_argument("arguments", nargs=argparse.REMAINDER)
    for name, text in {"stop-node": "lose a node", "start-node": "bring it back"}.items():
        command(name, text).add_argument("node")
    return parser
