"""Values that an object keeps and that its plan cannot know."""

from __future__ import annotations

import copy

from ...plan import Object
from ..cache.entries import Cached


def with_last_node_ports(service: Object, last: Cached) -> Object:
    """Return the Service with the `nodePort` that each of its ports, found by name, had before a user deleted the
    Service: clients outside the cluster know it.
    """
    node_ports = {port.get("name"): port.get("nodePort") for port in last.decode()["spec"].get("ports", ())}
    ports = [
        {**port, "nodePort": number} if (number := node_ports.get(port.get("name"))) else port
        for port in service["spec"]["ports"]
    ]
    return {**service, "spec": {**service["spec"], "ports": ports}}


def with_live_volume_claims(body: Object, live: Object) -> Object:
    """Return the StatefulSet with the claim sizes it was made with, which Kubernetes does not let change."""
    sizes = {
        claim["metadata"]["name"]: claim["spec"].get("resources")
        for claim in live["spec"].get("volumeClaimTemplates") or ()
    }
    if not sizes:
        return body
    stateful_set = copy.deepcopy(body)
    for claim in stateful_set["spec"].get("volumeClaimTemplates") or ():
        if resources := sizes.get(claim["metadata"]["name"]):
            claim["spec"]["resources"] = resources
    return stateful_set
