"""What an object has that its plan cannot know, and that it keeps."""

from __future__ import annotations

import copy

from ..plan import Object
from .store import Cached


def with_last_node_ports(wanted: Object, last: Cached) -> Object:
    """The Service with the `nodePort` that each of its ports, found by name, had before somebody deleted it: clients
    outside the cluster know it.
    """
    had = {port.get("name"): port.get("nodePort") for port in last.decode()["spec"].get("ports", ())}
    ports = [
        {**port, "nodePort": number} if (number := had.get(port.get("name"))) else port
        for port in wanted["spec"]["ports"]
    ]
    return {**wanted, "spec": {**wanted["spec"], "ports": ports}}


def with_live_claims(body: Object, live: Object) -> Object:
    """The StatefulSet with the claim sizes it was made with, which Kubernetes does not let change."""
    sizes = {
        claim["metadata"]["name"]: claim["spec"].get("resources")
        for claim in live["spec"].get("volumeClaimTemplates") or ()
    }
    if not sizes:
        return body
    kept = copy.deepcopy(body)
    for claim in kept["spec"].get("volumeClaimTemplates") or ():
        if resources := sizes.get(claim["metadata"]["name"]):
            claim["spec"]["resources"] = resources
    return kept
