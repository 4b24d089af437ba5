"""The same life of a cluster with kind, where Docker runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .commands import CommandError, run
from .layout import Cluster


def up(cluster: Cluster, nodes: int, labels: dict[str, str], external: str = "") -> None:
    """Start a kind cluster, with `nodes` nodes if it did not run before, and label all of them."""
    if external:
        raise CommandError(f"--external {external}: kind's nodes have no network but Docker's")
    if cluster.name not in run("kind", "get", "clusters").split():
        roles = ["control-plane", *["worker"] * (nodes - 1)]
        config = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n" + "".join(
            f"- role: {r}\n" for r in roles
        )
        run("kind", "create", "cluster", f"--name={cluster.name}", "--wait=120s", "--config=-", stdin=config)
    cluster.home.mkdir(parents=True, exist_ok=True)
    cluster.kubeconfig.touch(mode=0o600)
    cluster.kubeconfig.write_text(run("kind", "get", "kubeconfig", f"--name={cluster.name}"))
    if labels:
        assignments = [f"{key}={value}" for key, value in labels.items()]
        run(*kubectl_command(cluster), "label", "nodes", "--all", "--overwrite", *assignments)


def down(cluster: Cluster, *, purge: bool = False) -> None:
    """Delete the kind cluster and its images. kind keeps images inside its nodes, so `purge` adds nothing."""
    del purge
    run("kind", "delete", "cluster", f"--name={cluster.name}")
    shutil.rmtree(cluster.home, ignore_errors=True)


def load(cluster: Cluster, files: list[Path]) -> None:
    """Load the images of the archives onto every node."""
    for archive in files:
        run("kind", "load", "image-archive", str(archive), f"--name={cluster.name}")


def images(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Return node, image name and digest of all images."""
    rows: list[tuple[str, str, str]] = []
    for node in _nodes(cluster):
        lines = run("docker", "exec", node, "ctr", "--namespace=k8s.io", "images", "list").splitlines()[1:]
        rows += [(node, line.split()[0], line.split()[2]) for line in lines]
    return rows


def kubectl_command(cluster: Cluster) -> list[str]:
    if not shutil.which("kubectl"):
        raise CommandError("kubectl: not found; install the version that goes with kind's")
    return ["kubectl", f"--kubeconfig={cluster.kubeconfig}"]


def command_in(cluster: Cluster, name: str, *command: str) -> list[str]:
    """Return the command line that runs `command` in a node."""
    del cluster
    return ["docker", "exec", *(["--interactive", "--tty"] if os.isatty(0) else ["--interactive"]), name, *command]


def stop_node(cluster: Cluster, *names: str) -> None:
    run("docker", "kill", *(names or _nodes(cluster)))


def start_node(cluster: Cluster, *names: str) -> None:
    run("docker", "start", *(names or _nodes(cluster)))


def lose_node(cluster: Cluster, name: str) -> None:
    """Delete the node for good; kind cannot make another one."""
    run("docker", "rm", "--force", "--volumes", name)
    run(*kubectl_command(cluster), "delete", "node", name, "--ignore-not-found", "--wait=false")


def _nodes(cluster: Cluster) -> list[str]:
    return run("kind", "get", "nodes", f"--name={cluster.name}").split()


def status(cluster: Cluster) -> bool:
    """Return True if the cluster exists; print its nodes and pods."""
    if cluster.name not in run("kind", "get", "clusters").split():
        print(f"cluster {cluster.name}: down")
        return False
    print(run(*kubectl_command(cluster), "get", "nodes,pods", "--all-namespaces", "--output=wide"))
    return True
