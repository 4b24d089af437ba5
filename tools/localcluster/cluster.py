"""The life of the embedded cluster."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from pathlib import Path

from . import archives, build, cgroups, components, network, node, registry
from .apiserver import ready
from .commands import run
from .furnish import SHARED_VOLUMES, SIZED_VOLUMES
from .layout import API_PORT, MAX_NODES, Cluster, Node

_MANIFESTS = Path(__file__).parent / "manifests"
_READY_TIMEOUT = 300.0
_RECOVERY_TIMEOUT = 15.0
_ANSWER_LOOK = 0.2
"""Seconds between two requests to a kube-apiserver that its supervisor may be restarting, which takes some: nothing can
be watched before it answers.
"""
_READY_LOOK = 0.1
"""Seconds between two looks at several kinds of things, none of which tells of itself. Someone waits for the last."""


class ClusterError(Exception):
    """A cluster that is not as it should be, with where to look."""


def up(cluster: Cluster, nodes: int, labels: dict[str, str], external: str = "") -> None:
    """Start a cluster of at least `nodes` nodes, all Ready and labelled, with DNS and the StorageClasses.

    With `external`, as 172.24.4.1/24, the host has that address on the nodes' external network.
    Nodes that run already stay as they are. A cluster whose control plane is gone is taken down first and recreated.
    """
    if not 1 <= nodes <= MAX_NODES:
        raise ClusterError(f"--nodes {nodes}: choose from 1 to {MAX_NODES}")
    build.build()
    addons = archives.addons()
    with _alone(cluster):
        anew = not _sound(cluster)
        if anew:
            _clear(cluster)
        subnet = network.create(cluster)
        if external:
            network.reach_outside(cluster, external)
        if anew:
            _prepare(cluster, subnet)
        _start([cluster.node(index) for index in range(1, nodes + 1)], subnet)
        _await("the API server", lambda: _answers(cluster, subnet), cluster)
        # A node that was started from other sources has other images of them.
        load(cluster, list(addons.values()))
        _apply_addons(cluster)
        _await("the nodes", lambda: _all_ready(cluster), cluster)
        if labels:
            kubectl(cluster, "label", "nodes", "--all", "--overwrite", *[f"{k}={v}" for k, v in labels.items()])
        kubectl(cluster, "--namespace=kube-system", "rollout", "status", "daemonset/coredns", "--timeout=60s")


def down(cluster: Cluster, *, purge: bool = False) -> None:
    """Delete the cluster except its images; with `purge` also these."""
    with _alone(cluster):
        _clear(cluster)
        if purge:
            shutil.rmtree(cluster.home, ignore_errors=True)


def stop_node(cluster: Cluster, *names: str) -> None:
    """Stop the nodes of these names, or all, at once: their processes are killed, their disks stay."""
    with _alone(cluster):
        node.stop(_chosen(cluster, names))


def start_node(cluster: Cluster, *names: str) -> None:
    """Start the nodes of these names, or all, with the disks they had, and wait until the API server answers."""
    with _alone(cluster):
        subnet = network.create(cluster)
        _start(_chosen(cluster, names), subnet)
        _await("the API server", lambda: _answers(cluster, subnet), cluster)


def lose_node(cluster: Cluster, name: str) -> None:
    """Delete the node for good, with its disk and its Node; `up` makes a new one of that name.

    Images stay, as a new machine would pull them again. Raises ClusterError for the first node, which holds etcd.
    """
    with _alone(cluster):
        each = cluster.node_called(name)
        if each.index == 1:
            raise ClusterError(f"{name} runs the control plane, which would be lost with it: choose another node")
        node.stop([each])
        shutil.rmtree(each.home)
        kubectl(cluster, "delete", "node", name, "--ignore-not-found", "--wait=false")


def start_registry(cluster: Cluster) -> str:
    """Start the image registry beside the cluster, and return its address. Raises ClusterError if no cluster runs."""
    build.ensure(build.REGISTRY)
    with _alone(cluster):
        subnet = network.subnet_of(cluster)
        if subnet is None:
            raise ClusterError(f"cluster {cluster.name} does not run; start it with `python -m tools.localcluster up`")
        return registry.start(cluster, subnet).address


def load(cluster: Cluster, files: list[Path]) -> None:
    """Load the images of the archives, OCI layouts or Docker's, onto every running node; those it has are skipped."""
    for archive in files:
        images = archives.held_by(archive)
        imports = [
            (each, subprocess.Popen(_ctr(each, "import", "--snapshotter=overlayfs", "-"), stdin=archive.open("rb")))
            for each in running_nodes(cluster)
            if not images or not images.items() <= present(each).items()
        ]
        failed = [each.name for each, process in imports if process.wait()]
        if failed:
            raise ClusterError(f"{archive}: not imported on {', '.join(failed)}; see above")
        for each in running_nodes(cluster):
            if names := outdated(present(each), set(images), _used(each)):
                run(*_ctr(each, "remove", *names))


def outdated(node_images: Mapping[str, str], loaded: Collection[str], used: Collection[str]) -> list[str]:
    """Return the names of those images of a node that a loaded one replaces: other tags of it that no container uses.

    `node_images` are the digests of all its images by name. Without their removal each change would fill the disk.
    """
    places = {name.rpartition(":")[0] for name in loaded}
    used_digests = {node_images[name] for name in {*loaded, *used} & node_images.keys()}
    old = {digest for name, digest in node_images.items() if name.rpartition(":")[0] in places} - used_digests
    # Kubernetes knows each by its digest, too.
    return sorted(name for name, digest in node_images.items() if digest in old)


def _used(each: Node) -> set[str]:
    """Return the names of the images of all containers."""
    listed = run(*node.command_in(each, "ctr", "--namespace=k8s.io", "containers", "list")).splitlines()[1:]
    return {fields[1] for line in listed if len(fields := line.split()) > 1}


def present(each: Node) -> dict[str, str]:
    """Return the digests of the manifests of a node's images, by the name of the image."""
    lines = run(*_ctr(each, "list")).splitlines()[1:]
    return {fields[0]: fields[2] for fields in (line.split() for line in lines)}


def images(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Return node, image name and digest of all images on the running nodes."""
    return [(each.name, *image) for each in running_nodes(cluster) for image in sorted(present(each).items())]


def command_in(cluster: Cluster, name: str, *command: str) -> list[str]:
    """Return the command line that runs `command` in a node; raises NodeError if the node does not run."""
    return node.command_in(cluster.node_called(name), *command)


def status(cluster: Cluster) -> bool:
    """Return True if every node runs; print which do, and what runs on them."""
    subnet = network.subnet_of(cluster)
    if subnet is None and not cgroups.exists(cluster.cgroup):
        print(f"cluster {cluster.name}: down")
        return False
    states = {each: node.pid(each) for each in cluster.nodes()}
    for each, pid in states.items():
        address = each.address(subnet) if subnet else "no address"
        print(each.name, address, f"pid {pid}" if pid else "down")
    if (beside := registry.Registry(cluster)).address:
        print("registry", beside.address, "runs" if beside.is_running() else "down")
    if any(states.values()):
        print(kubectl(cluster, "get", "nodes,pods", "--all-namespaces", "--output=wide"))
    return bool(states) and all(states.values())


def running_nodes(cluster: Cluster) -> list[Node]:
    return [each for each in cluster.nodes() if node.pid(each) is not None]


def kubectl(cluster: Cluster, *arguments: str, stdin: str | None = None) -> str:
    """Return the output of kubectl; raises CommandError if it fails."""
    return run(*kubectl_command(cluster), *arguments, stdin=stdin)


def kubectl_command(cluster: Cluster) -> list[str]:
    program = str(build.binary("kubernetes", "kubectl"))
    return [program, f"--kubeconfig={cluster.kubeconfig}", f"--cache-dir={cluster.discovered}"]


def url(cluster: Cluster, subnet: ipaddress.IPv4Network) -> str:
    return f"https://{cluster.node(1).address(subnet)}:{API_PORT}"


def _chosen(cluster: Cluster, names: Sequence[str]) -> list[Node]:
    return [cluster.node_called(name) for name in names] or cluster.nodes()


def _start(nodes: Sequence[Node], subnet: ipaddress.IPv4Network) -> None:
    missing = [each for each in nodes if node.pid(each) is None]
    # What is left of their cgroups.
    node.stop(missing)
    node.start(missing, subnet)


def _sound(cluster: Cluster) -> bool:
    """Return True if the control plane runs and can be reached; False after an interrupted start, or a reboot."""
    subnet = network.subnet_of(cluster)
    if subnet is None or node.pid(cluster.node(1)) is None:
        return False
    deadline = time.monotonic() + _RECOVERY_TIMEOUT
    while not _answers(cluster, subnet):
        # Its supervisor may be restarting it.
        if time.monotonic() > deadline:
            return False
        # A server sends no notice when it is ready: only its answer shows that.
        time.sleep(_ANSWER_LOOK)
    return True


def _answers(cluster: Cluster, subnet: ipaddress.IPv4Network) -> bool:
    return ready(url(cluster, subnet), cluster.pki / "ca.crt")


def _ctr(each: Node, verb: str, *arguments: str) -> list[str]:
    return node.command_in(each, "ctr", "--namespace=k8s.io", "images", verb, *arguments)


def _prepare(cluster: Cluster, subnet: ipaddress.IPv4Network) -> None:
    """Write keys for every node that may exist, so that nodes can be added later."""
    names = [cluster.node(index).name for index in range(1, MAX_NODES + 1)]
    components.certificates(cluster.pki, cluster.node(1).address(subnet), names)
    config = components.kubeconfig(cluster.pki, "admin", url(cluster, subnet))
    components.write_private(cluster.kubeconfig, config)


def _clear(cluster: Cluster) -> None:
    """Remove what the kernel shows of the cluster, not only what files name: those of a run that broke off may be
    incomplete.
    """
    for each in cluster.nodes():
        node.kill(each)
    cgroups.clear(cluster.cgroup)
    network.remove(cluster)
    for leftover in ("nodes", "etcd", "pki", "shared", "discovered", "registry", "kubeconfig"):
        path = cluster.home / leftover
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _apply_addons(cluster: Cluster) -> None:
    manifests = "\n---\n".join(path.read_text() for path in sorted(_MANIFESTS.glob("*.yaml")))
    for image in ("coredns", "storage"):
        manifests = manifests.replace(f"IMAGE_{image.upper()}", archives.reference_of(image))
    manifests = manifests.replace("SHARED_VOLUMES", str(SHARED_VOLUMES)).replace("SIZED_VOLUMES", str(SIZED_VOLUMES))
    kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)


def _all_ready(cluster: Cluster) -> bool:
    unready = {each.name for each in running_nodes(cluster)}
    for item in json.loads(kubectl(cluster, "get", "nodes", "-o", "json"))["items"]:
        conditions = {condition["type"]: condition["status"] for condition in item["status"].get("conditions", [])}
        if conditions.get("Ready") == "True":
            unready.discard(item["metadata"]["name"])
    return not unready


def _await(subject: str, is_ready: Callable[[], bool], cluster: Cluster) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT
    while not is_ready():
        if time.monotonic() > deadline:
            raise ClusterError(f"{subject} did not become ready; see the logs in {cluster.home}/nodes/*/logs")
        if node.pid(cluster.node(1)) is None:
            raise ClusterError(f"node1 ended; see the logs in {cluster.home}/nodes/node1/logs")
        # What is awaited differs, and some of it is outside of Kubernetes: nothing sends notice of all.
        time.sleep(_READY_LOOK)


@contextlib.contextmanager
def _alone(cluster: Cluster) -> Generator[None]:
    """Keep other processes from changing the cluster meanwhile."""
    cluster.home.parent.mkdir(parents=True, exist_ok=True)
    with (cluster.home.parent / f"{cluster.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
