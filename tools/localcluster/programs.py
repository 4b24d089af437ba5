"""The programs of a node with their configuration, as the node's first process reads it."""

from __future__ import annotations

import hashlib
import ipaddress
from pathlib import Path
from typing import Any

from . import archives, build, clock, components, paths
from .furnish import CACHE, SIZED_VOLUMES, STATE
from .layout import API_PORT, Node
from .registry import CERTIFICATES

_KUBELET_ROOT = "/var/lib/kubelet"
_CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
_RARELY = {"GOGC": "300"}
"""Go collects garbage a third as often: kube-apiserver takes a quarter less CPU, and more memory. containerd does
without, from which a hundred shims would inherit it.
"""
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CNI_PLUGINS = ("ptp", "host-local", "portmap", "loopback")


def write(node: Node, subnet: ipaddress.IPv4Network, *, fresh: bool) -> None:
    """Write what the node's first process needs to the node's directory; `fresh` forgets earlier containers."""
    home = STATE / "nodes" / node.name
    address = node.address(subnet)
    plane = components.ControlPlane(
        node.cluster.node(1).address(subnet), API_PORT, 2379, 2380, STATE / "etcd", STATE / "pki"
    )
    (node.home / "logs").mkdir(parents=True, exist_ok=True)
    node.images.mkdir(parents=True, exist_ok=True)
    (node.home / "containerd.toml").write_text(_containerd(home))
    (node.home / "crun").write_text(clock.runtime(home / "clock"))
    (node.home / "crun").chmod(0o755)
    components.write_private(node.home / "cni" / "10-pods.conflist", _cni(node))
    components.write_private(node.home / "kubelet.json", _kubelet(node))
    components.write_private(node.home / "proxy.json", _proxy(node, home))
    for client in (f"node-{node.name}", "proxy", "controllers", "scheduler"):
        config = components.kubeconfig(node.cluster.pki, client, plane.url)
        components.write_private(node.home / f"{client}.kubeconfig", config)
    programs = [*_node_programs(node, home, address, plane.url, fresh=fresh)]
    if node.index == 1:
        programs += _control_plane(plane, home)
    components.write_private(
        node.boot_file,
        {
            "name": node.name,
            "address": address,
            "machine_id": hashlib.sha256(f"{node.cluster.name}/{node.name}".encode()).hexdigest()[:32],
            "home": str(node.home),
            "cluster_home": str(node.cluster.home),
            "images": str(node.images),
            "cache": str(paths.cache() / "localcluster"),
            "pid_file": str(node.pid_file),
            "logs": str(home / "logs"),
            "authority": str(plane.pki / "ca.crt"),
            "programs": programs,
        },
    )


def _inside(part: str, name: str) -> Path:
    """Return a binary's path as the node sees it."""
    return CACHE / build.binary(part, name).relative_to(paths.cache() / "localcluster")


def _control_plane(plane: components.ControlPlane, home: Path) -> list[dict[str, Any]]:
    def kubernetes(name: str) -> Path:
        return _inside("kubernetes", name)

    manager = components.controllers(plane, kubernetes("kube-controller-manager"), home / "controllers.kubeconfig")
    plugins = f"--flex-volume-plugin-dir={_KUBELET_ROOT}/volume-plugins"
    scheduler = components.scheduler(plane, kubernetes("kube-scheduler"), home / "scheduler.kubeconfig")
    server = components.apiserver(plane, kubernetes("kube-apiserver"))
    return [
        {"name": "etcd", "command": components.etcd(plane, _inside("etcd", "etcd")), "env": _RARELY},
        {"name": "kube-apiserver", "command": server, "env": _RARELY},
        {"name": "kube-controller-manager", "command": [*manager, plugins], "env": _RARELY, "url": plane.url},
        {"name": "kube-scheduler", "command": scheduler, "env": _RARELY, "url": plane.url},
    ]


def _node_programs(node: Node, home: Path, address: str, url: str, *, fresh: bool) -> list[dict[str, Any]]:
    kubelet = [
        str(_inside("kubernetes", "kubelet")),
        f"--config={home}/kubelet.json",
        f"--kubeconfig={home}/node-{node.name}.kubeconfig",
        f"--hostname-override={node.name}",
        f"--node-ip={address}",
        f"--root-dir={_KUBELET_ROOT}",
        f"--cert-dir={_KUBELET_ROOT}/pki",
    ]
    proxy = [str(_inside("kubernetes", "kube-proxy")), f"--config={home}/proxy.json"]
    return [
        {"name": "containerd", "command": ["containerd", f"--config={home}/containerd.toml"]},
        {
            "name": "prepare",
            "command": ["sh", "-euc", _prepare(fresh=fresh)],
            "file": _CONTAINERD_SOCKET,
            "once": True,
        },
        {"name": "kubelet", "command": kubelet, "env": _RARELY, "after": ["prepare"], "url": url},
        {"name": "kube-proxy", "command": proxy, "env": _RARELY, "url": url},
    ]


def _prepare(*, fresh: bool) -> str:
    """Return a script that leaves containerd with the images a node needs and, on a fresh node, without containers.

    Containers of an earlier cluster would be restarted and then removed by kubelet, one by one. Volumes with file
    systems of their own are mounted, before kubelet could give a pod what is below.
    """
    lines = [
        f"for image in {SIZED_VOLUMES}/*.img; do",
        '  volume=${image%.img}; [ ! -e "$image" ] || mountpoint -q "$volume" || mount -o loop "$image" "$volume"',
        "done",
        "ctr='ctr -n k8s.io'",
    ]
    if fresh:
        lines.append('old=$($ctr containers ls -q); [ -z "$old" ] || $ctr containers rm $old')
    lines.append("have=$($ctr images ls -q)")
    for reference, archive in archives.addons().items():
        inside = CACHE / archive.relative_to(paths.cache() / "localcluster")
        lines.append(f'case "$have" in *{reference}*) ;; *) $ctr images import {inside} ;; esac')
    return "\n".join(lines)


def _containerd(home: Path) -> str:
    plugins = next((folder for folder in CNI_FOLDERS if (folder / CNI_PLUGINS[0]).exists()), CNI_FOLDERS[0])
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", \
"io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]

[grpc]
address = "{_CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{archives.reference_of("pause")}"
# Lowering the score takes CAP_SYS_RESOURCE, which root in a container often lacks; the runtime dies of the refusal.
restrict_oom_score_adj = true

# Looked at for each pull: a registry may be started later, or never.
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{CERTIFICATES}"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{home}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
# Layers are kept unpacked alone; the registry has them packed.
discard_unpacked_layers = true
default_runtime_name = "crun"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun.options]
SystemdCgroup = false
BinaryName = "{home}/crun"
"""


def _cni(node: Node) -> dict[str, Any]:
    """Point to point: all packets are routed, so kube-proxy's rules see those between two pods of a node too.

    With a bridge that needs net.bridge.bridge-nf-call-iptables, which not every machine has.
    """
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": node.pod_range}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _kubelet(node: Node) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(STATE / "pki/ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "clusterDNS": [components.DNS_ADDRESS],
        "clusterDomain": components.DOMAIN,
        "containerRuntimeEndpoint": f"unix://{_CONTAINERD_SOCKET}",
        "failSwapOn": False,
        "failCgroupV1": False,
        # The disk is the user's, filled by whatever they like. Images were imported by hand and cannot be pulled
        # again, so none may be collected; nor may a pod be evicted.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        # A cloud that starts reports a thousand events within a minute, each of them a write to etcd.
        "eventRecordQPS": 5,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "maxPods": 250,
        "oomScoreAdj": 0,
        "registryPullQPS": 0,
        "serializeImagePulls": False,
        # The default is on the host's file system, which a node cannot write to.
        "volumePluginDir": f"{_KUBELET_ROOT}/volume-plugins",
        "resolvConf": "/etc/resolv.conf",
    }


def _proxy(node: Node, home: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(home / "proxy.kubeconfig")},
        "clusterCIDR": components.POD_RANGE,
        # Zero leaves the kernel's settings as they are; they are the host's.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "hostnameOverride": node.name,
        "mode": "iptables",
        "oomScoreAdj": 0,
        "iptables": {"minSyncPeriod": "100ms", "syncPeriod": "1h"},
        "metricsBindAddress": "127.0.0.1:10249",
    }
