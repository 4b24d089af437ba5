"""Nodes that lose power, their network, their disk or the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from keystoneauth1.exceptions import ClientException
from openstack.connection import Connection
from openstack.exceptions import SDKException

from tools.cloud import proof
from tools.localcluster import cluster, faults
from tools.localcluster.kubernetes import NODE_LABELS, KubeError, module

from .. import servers
from ..journal import now
from ..scenario import Stage, scenario
from ..site import Site, until

LOST = "node3"
"""The node that is lost: node1 holds the Kubernetes API, which these scenarios are not about."""
_AWAY = 300.0
_NOTICED = 30.0
"""Seconds without an acknowledged request, by kind, once Kubernetes has moved the pods of a node that is away."""
_OFF = 600
_DARK = 10.0


@scenario(3, "Power cut: all processes of all nodes at once, etcd included", restarts=None)
def power_cut(stage: Stage) -> None:
    faults.power_off(stage.site.machine)
    time.sleep(_DARK)
    began = now()
    faults.power_on(stage.site.machine)
    stage.note(kubernetes_answers_seconds=round(now() - began, 1))
    stage.await_recovery("the nodes' return", began, timeout=600)


@scenario(4, "A node lost for five minutes and back", restarts=frozenset({LOST}))
def node_away(stage: Stage) -> None:
    site = stage.site
    began = now()
    cluster.stop_node(site.machine, LOST)
    time.sleep(_AWAY)
    # Whatever this costs, it costs at the beginning: the cloud goes on without the node.
    rest = {kind: gap for kind, gap in _outages(stage, began + _AWAY / 2, began + _AWAY).items() if LOST not in kind}
    stage.note(outages_in_second_half=rest)
    long = {kind: gap for kind, gap in rest.items() if gap > _NOTICED}
    stage.check(not long, f"without {LOST} nothing was acknowledged for longer than {_NOTICED:.0f} s: {long}")
    back = now()
    cluster.start_node(site.machine, LOST)
    stage.await_recovery(f"the return of {LOST}", back, timeout=600)


def _outages(stage: Stage, since: float, until_: float) -> dict[str, float]:
    outages = stage.journal.outages(since, until_, stage.load.intervals)
    return {kind: gap for kind, gap in outages.items() if gap > 1}


@scenario(5, "A node lost for good, its pods and volumes replaced", restarts=frozenset({LOST}))
def node_replaced(stage: Stage) -> None:
    site = stage.site
    began = now()
    faults.lose_node(site.machine, LOST)
    conn = proof.connect(site.kubernetes, site.namespace)
    forget_compute(stage, conn)
    stage.note(forgotten_seconds=round(now() - began, 1))
    labels = [word for label in NODE_LABELS for word in ("--label", f"{label}=enabled")]
    module("tools.localcluster", "up", "--nodes", "3", *labels)
    module("images", "load")
    back = now()
    replace_volumes(site, LOST)
    if stage.guests:
        until("a server on the new node", lambda: _booted(stage), 900, 5)
        stage.note(booted_seconds=round(now() - back, 1))
    stage.await_recovery(f"a new {LOST}", back, timeout=900)


def forget_compute(stage: Stage, conn: Connection) -> None:
    """Delete the lost node's server, then its record as a compute node, as docs/how-to/add-compute-nodes.md says: a new
    nova-compute of that name refuses to start while there is one, and Nova keeps one that has servers. As long as Nova
    believes in the node, it leaves the deletion to it.
    """
    lost = [guest.id for guest in stage.guests if guest.node == LOST]

    def down() -> bool:
        return all(service.state == "down" for service in conn.compute.services(host=LOST, binary="nova-compute"))

    def all_deleted() -> bool:
        for server in lost:
            conn.compute.delete_server(server)
        return not any(conn.compute.find_server(server) for server in lost)

    def forgotten() -> bool:
        for service in conn.compute.services(host=LOST, binary="nova-compute"):
            conn.compute.delete_service(service)
        return True

    until("Nova to know that the node is down", _answered(down), 300, 3)
    until("the lost server to be gone", _answered(all_deleted), 300, 3)
    until("Nova to forget the node", _answered(forgotten), 300, 3)


def _answered(look: Callable[[], bool]) -> Callable[[], bool]:
    """Return `look` with errors of the API turned into CloudErrors, so that it is tried again, as an administrator who
    replaces a node does.
    """

    def looked() -> bool:
        try:
            return look()
        except (ClientException, SDKException) as error:
            raise KubeError(str(error)) from None

    return looked


def replace_volumes(site: Site, node: str) -> None:
    """Recreate the claims whose volumes were on a lost node, with their pods (docs/how-to/when-a-node-is-lost.md)."""
    for volume in site.items("persistentvolumes"):
        terms = volume["spec"].get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", [])
        where = [v for term in terms for e in term.get("matchExpressions", []) for v in e.get("values", [])]
        claim = volume["spec"].get("claimRef", {})
        if where != [node] or claim.get("namespace") != site.namespace:
            continue
        site.kubectl("delete", "pvc", claim["name"], "-n", site.namespace, "--wait=false")
        for pod in site.items("pods"):
            claims = [v.get("persistentVolumeClaim", {}).get("claimName") for v in pod["spec"].get("volumes", [])]
            if claim["name"] in claims:
                site.kubectl("delete", "pod", pod["metadata"]["name"], "-n", site.namespace, "--force", "--wait=false")


def _booted(stage: Stage) -> bool:
    connect = partial(proof.connect, stage.site.kubernetes, stage.site.namespace)
    fresh = servers.guests(connect, [guest.node for guest in stage.guests])
    for guest, replacement in zip(stage.guests, fresh, strict=True):
        guest.become(replacement)
    return True


@scenario(15, "The clock of one node ten minutes ahead")
def clock(stage: Stage) -> None:
    site = stage.site
    node = LOST
    began = now()
    for seconds in (_OFF, 0):
        faults.set_clock(site.machine, node, seconds)
        pods = [p["metadata"]["name"] for p in site.pods() if p["spec"].get("nodeName") == node]
        stage.check(pods, f"no pod is on {node}")
        for pod in pods:
            site.kubectl("delete", "pod", pod, "-n", site.namespace, "--wait=false")
        stage.await_recovery(f"pods of {node} started {seconds} s ahead", timeout=600)
    stage.note(pods=len(pods), whole_seconds=round(now() - began, 1))
