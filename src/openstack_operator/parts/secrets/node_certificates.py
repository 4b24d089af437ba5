"""Certificates of single nodes: each node has a key of its own, and the key of no other node (decision 0067)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ... import agents, kube, pki
from ...api import PodSettings
from ...plan import Context, Object, ReleaseEntry, State, Step, Verdict, key
from .authorities import OwnAuthority

ON_NODE = "openstack.k8s.io/on-node"
"""Annotation of a node's Secret: digest of the files that its node is to have."""
STORED_ON_NODE = "openstack.k8s.io/stored-on-node"
"""Annotation of a node's Secret: digest of the files that its node has. A PKI replaces no authority before both are the
same for each node (decision 0022)."""

_LIFE = timedelta(days=90)
"""A node that left cannot use its certificate for longer: no program reads a list of revoked ones."""
LONGEST_NODE_NAME = 64
"""Characters of a common name (RFC 5280, ub-common-name)."""
NODE_VOLUME = "node-certificate"
"""Name of the volume by which a pod mounts the files of its node."""
_SOURCE, _FOLDER = "/run/node-certificate", "/var/lib/openstack-tls"


@dataclass(frozen=True, kw_only=True)
class _Nodes:
    """The nodes of one component, and what their certificates need."""

    ctx: Context[Any]
    component: str
    issuer: NodeIssuer
    entry: ReleaseEntry
    settings: PodSettings


@dataclass(frozen=True, kw_only=True)
class NodeIssuer:
    """Source of the certificates of nodes."""

    issue: Callable[[str, pki.Pair | None], pki.Pair]
    """Returns the certificate of a node by its name, given the one that it has."""
    trusted: str
    """Authorities that the programs of nodes trust, in PEM."""
    after: tuple[Step, ...] = ()
    """Steps that a certificate waits for."""


def own_issuer(ctx: Context[Any], authority: OwnAuthority, trusted: str) -> NodeIssuer:
    """Return the issuer of client certificates by an authority, whose common names are the nodes' names."""

    def issue(node: str, current: pki.Pair | None) -> pki.Pair:
        request = pki.Request(common=node, names=frozenset({node}), calls=True, serves=False, life=_LIFE)
        return pki.certificate(current, request, authority.signer, ctx.draw, ctx.now)

    return NodeIssuer(issue=issue, trusted=trusted, after=(authority.step,))


def node_certificates(
    ctx: Context[Any],
    component: str,
    nodes: Mapping[str, str],
    *,
    issuer: NodeIssuer,
    entry: ReleaseEntry,
    settings: PodSettings,
) -> tuple[Step, Step]:
    """Make a Secret `<owner>-<component>-<node>` for each node, with the certificate by `issuer`, and a Job on that
    node that stores `tls.crt`, `tls.key` and `ca.crt` in its folder. A kubelet may read the Secrets of pods on its own
    node alone (Node authorization), so no node gets another one's key.

    `nodes` gives the uid of each node, since one that was installed again under its name needs the files again.
    `entry` and `settings` give the Job its image, which has a shell.
    """
    group = _Nodes(ctx=ctx, component=component, issuer=issuer, entry=entry, settings=settings)
    short = {name: uid for name, uid in sorted(nodes.items()) if len(name) <= LONGEST_NODE_NAME}
    files = {name: _files(group, name) for name in short}
    jobs = {name: _job(group, name, uid, files[name]) for name, uid in short.items()}
    secrets = tuple(_secret(group, name, files[name], jobs[name]) for name in short)
    pairs = [pki.Pair(each["tls.key"], each["tls.crt"]) for each in files.values()]
    wake = min(filter(None, (pki.change(pair, ctx.now) for pair in pairs)), default=None)
    issued = Step(name="NodeCertificates", objects=secrets, guarded=True, after=issuer.after, wake=wake)
    long = ", ".join(name for name in sorted(nodes) if name not in short)
    text = f"node {long}: its name has more than {LONGEST_NODE_NAME} characters, the limit of a certificate"
    # One node without a network is no failure of the cloud.
    verdict = Verdict(State.READY, f"{text}; give it a shorter one") if long else None
    return issued, Step(name="NodeFiles", objects=tuple(jobs.values()), after=(issued,), verdict=verdict)


def node_folder(component: str, path: str) -> kube.Mount:
    """Return the mount of the node's files at a path in a pod there. They are absent until its Job has run."""
    volume = {"hostPath": {"path": f"{_FOLDER}/{component}", "type": "DirectoryOrCreate"}}
    return kube.Mount(name=NODE_VOLUME, path=path, volume=volume, read_only=True)


def _live_secret(group: _Nodes, node: str) -> Object | None:
    return group.ctx.live("Secret", group.component, node)


def _files(group: _Nodes, node: str) -> dict[str, str]:
    stored = kube.secret_data(_live_secret(group, node))
    current = pki.Pair(stored["tls.key"], stored["tls.crt"]) if stored.keys() >= {"tls.key", "tls.crt"} else None
    pair = group.issuer.issue(node, current)
    return {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": group.issuer.trusted}


def _digest(files: Mapping[str, str]) -> str:
    return kube.digest([files["tls.crt"], files["ca.crt"]])


def _secret(group: _Nodes, node: str, files: Mapping[str, str], job: Object) -> Object:
    secret = kube.secret(
        group.ctx, group.ctx.name(group.component, node), dict(sorted(files.items())), component=group.component
    )
    live_job = group.ctx.children.get(key(job))
    before = ((_live_secret(group, node) or {}).get("metadata", {}).get("annotations") or {}).get(STORED_ON_NODE, "")
    is_stored = live_job is not None and kube.conditions(live_job).get("Complete", {}).get("status") == "True"
    stored = _digest(files) if is_stored else before
    return kube.annotated(secret, {ON_NODE: _digest(files), **({STORED_ON_NODE: stored} if stored else {})})


def _job(group: _Nodes, node: str, uid: str, files: Mapping[str, str]) -> Object:
    ctx, target = group.ctx, f"{_FOLDER}/{group.component}"
    main = kube.Container(
        entry=group.entry,
        command=agents.shell("nodes/store_certificate.sh"),
        env={"SOURCE": _SOURCE, "TARGET": target},
        mounts=(
            kube.folder("issued", ctx.name(group.component, node), _SOURCE, mode=0o400),
            kube.host(NODE_VOLUME, target),
        ),
        memory="16Mi",
        root=True,
    )
    # Its node is given, so that no scheduler and no taint keeps a certificate from a node whose agents run.
    settings = group.settings.model_copy(
        update={"node_selector": {}, "affinity": None, "tolerations": [{"operator": "Exists"}], "resources": None}
    )
    template = kube.pod(
        ctx,
        group.component,
        main,
        settings=settings,
        annotations={kube.CONFIG_DIGEST: kube.digest([_digest(files), uid])},
        nodeName=node,
        # On nodes with SELinux the type of a container may not write to folders of its node.
        securityContext={"seLinuxOptions": {"type": "spc_t"}},
    )
    job = kube.annotated(kube.job(ctx, group.component, template), {kube.BESIDE: "true"})
    digest = job["metadata"]["name"].rpartition("-")[2]
    name = f"{kube.fitting(ctx.name(group.component, node), 54)}-{digest}"
    return {**job, "metadata": {**job["metadata"], "name": name}}
