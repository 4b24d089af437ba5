"""Certificates of single nodes: each node has a key of its own, and the key of no other node (decision 0067)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .. import kube, pki
from ..api import PodSettings
from ..plan import Component, Context, Object, Step, failed
from .authorities import OwnAuthority

_LIFE = timedelta(days=90)
"""A node that left cannot use its certificate for longer: there is no list of revoked ones."""
_LONGEST_NAME = 64
"""Characters of a common name (RFC 5280, ub-common-name)."""
_SOURCE, _FOLDER = "/run/node-certificate", "/var/lib/openstack-tls"
_STORE = """\
umask 077
for file in ca.crt tls.key tls.crt; do cp "$SOURCE/$file" "$TARGET/.$file"; done
for file in ca.crt tls.key tls.crt; do mv -f "$TARGET/.$file" "$TARGET/$file"; done
"""
"""The certificate comes last: it is what programs wait for. Both files get a new time, without which Open vSwitch does
not read a new pair."""


@dataclass(frozen=True, kw_only=True)
class NodeCertificates:
    """Certificates and how they get to their nodes."""

    steps: tuple[Step, ...]
    nodes: frozenset[str]
    """Names of the nodes that have one."""


def node_certificates(
    ctx: Context[Any],
    component: str,
    nodes: Iterable[str],
    *,
    authority: OwnAuthority,
    trusted: str,
    program: Component,
    settings: PodSettings,
) -> NodeCertificates:
    """For each node a Secret `<owner>-<component>-<node>` with a client certificate whose common name is the node's
    name, and a Job on that node that stores `tls.crt`, `tls.key` and `ca.crt` (`trusted`) in its folder. A kubelet may
    read the Secrets of pods on its own node alone (Node authorization), so no node gets the key of another one.

    `program` and `settings` give the Job its image, which has a shell.
    """
    names = sorted(nodes)
    short = [name for name in names if len(name) <= _LONGEST_NAME]
    secrets = {name: _secret(ctx, component, name, authority, trusted) for name in short}
    pairs = [pki.Pair(data["tls.key"], data["tls.crt"]) for data in map(kube.secret_data, secrets.values())]
    wake = min(filter(None, (pki.change(pair, ctx.now) for pair in pairs)), default=None)
    issued = Step(
        name="NodeCertificates", objects=tuple(secrets.values()), guarded=True, after=(authority.step,), wake=wake
    )
    jobs = tuple(_job(ctx, component, name, secret, program, settings) for name, secret in secrets.items())
    long = [name for name in names if name not in secrets]
    text = (
        f"node {', '.join(long)}: its name has more than {_LONGEST_NAME} characters, the most that a certificate takes"
    )
    verdict = failed(f"{text}; give it a shorter one", "InvalidSpec") if long else None
    stored = Step(name="NodeFiles", objects=jobs, after=(issued,), verdict=verdict)
    return NodeCertificates(steps=(issued, stored), nodes=frozenset(secrets))


def node_folder(component: str, path: str) -> kube.Mount:
    """The files of the node, at a path in a pod there. They are absent until its Job has run."""
    volume = {"hostPath": {"path": f"{_FOLDER}/{component}", "type": "DirectoryOrCreate"}}
    return kube.Mount(name="node-certificate", path=path, volume=volume, read_only=True)


def certified_nodes(ctx: Context[Any], component: str) -> set[str]:
    """The nodes that have a certificate already."""
    secrets = [live for (kind, _), live in ctx.children.items() if kind == "Secret"]
    of_nodes = [live for live in secrets if live["metadata"].get("labels", {}).get(kube.COMPONENT) == component]
    certificates = [kube.secret_data(live).get("tls.crt", "") for live in of_nodes]
    return {pki.common(certificate) for certificate in certificates if pki.split(certificate)}


def _secret(ctx: Context[Any], component: str, node: str, authority: OwnAuthority, trusted: str) -> Object:
    name = ctx.name(component, node)
    files = kube.secret_data(ctx.children.get(("Secret", kube.fitting(name))))
    current = pki.Pair(files["tls.key"], files["tls.crt"]) if files.keys() >= {"tls.key", "tls.crt"} else None
    request = pki.Request(common=node, names=frozenset({node}), calls=True, serves=False, life=_LIFE)
    pair = pki.certificate(current, request, authority.signer, ctx.draw, ctx.now)
    data = {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": trusted}
    return kube.secret(ctx, name, data, component=component)


def _job(
    ctx: Context[Any], component: str, node: str, secret: Object, program: Component, settings: PodSettings
) -> Object:
    target = f"{_FOLDER}/{component}"
    main = kube.Container(
        component=program,
        command=["sh", "-ec", _STORE],
        env={"SOURCE": _SOURCE, "TARGET": target},
        mounts=(
            kube.folder("issued", secret["metadata"]["name"], _SOURCE, mode=0o400),
            kube.host("node-certificate", target),
        ),
        memory="16Mi",
        root=True,
    )
    # Its node is given, so that no scheduler and no taint keeps a certificate from a node whose agents run.
    placed = settings.model_copy(
        update={"node_selector": {}, "affinity": None, "tolerations": [{"operator": "Exists"}], "resources": None}
    )
    template = kube.pod(
        ctx,
        component,
        main,
        wanted=placed,
        annotations={kube.CONFIG_DIGEST: kube.digest([secret["data"][file] for file in ("tls.crt", "ca.crt")])},
        nodeName=node,
        # On nodes with SELinux the type of a container may not write to folders of its node.
        securityContext={"seLinuxOptions": {"type": "spc_t"}},
    )
    job = kube.job(ctx, component, template)
    return kube.annotated(job, {kube.BESIDE: "true"})
