"""A cluster of the user's own: used as it is, never started, stopped or filled from here."""

from __future__ import annotations

import os
from pathlib import Path

from .commands import CommandError, run
from .layout import Cluster


def up(cluster: Cluster, nodes: int, labels: dict[str, str], external: str = "") -> None:
    """Check that the user's cluster answers, and nothing more; the user labels its nodes."""
    del nodes, labels
    if external:
        raise CommandError(f"--external {external}: the networks of your own cluster are not made from here")
    run(*kubectl_command(cluster), "version")


def down(cluster: Cluster, *, purge: bool = False) -> None:
    del cluster, purge
    raise CommandError("KUBECONFIG names a cluster that was not started from here, so it is left alone")


def load(cluster: Cluster, files: list[Path]) -> None:
    del cluster, files
    raise CommandError("KUBECONFIG names a cluster of your own: push the images to a registry that its nodes pull from")


def images(cluster: Cluster) -> list[tuple[str, str, str]]:
    del cluster
    raise CommandError("KUBECONFIG names a cluster of your own, whose nodes cannot be entered from here")


def kubectl_command(cluster: Cluster) -> list[str]:
    del cluster
    return ["kubectl", f"--kubeconfig={os.environ['KUBECONFIG']}"]


def command_in(cluster: Cluster, name: str, *command: str) -> list[str]:
    del cluster, command
    raise CommandError(f"{name}: a node of your own cluster cannot be entered from here")


def stop_node(cluster: Cluster, *names: str) -> None:
    command_in(cluster, ", ".join(names) or "all nodes")


def lose_node(cluster: Cluster, name: str) -> None:
    command_in(cluster, name)


start_node = stop_node


def status(cluster: Cluster) -> bool:
    """Print nodes and pods, and return True: kubectl raises CommandError if the cluster does not answer."""
    print(run(*kubectl_command(cluster), "get", "nodes,pods", "--all-namespaces", "--output=wide"))
    return True
