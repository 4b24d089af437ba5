"""Roles of members: one of them takes the clients; and the status of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ... import kube
from ...agents.mariadb import galera
from ...agents.mariadb.role import BACKUP, PRIMARY
from ...plan import Context, Object, url_host

ROLE = "openstack.k8s.io/role"
TERM = "openstack.k8s.io/primary-term"
"""Annotation of a pod that is or was the primary: a number above those of all pods that there were then."""
MIN_FREE = 0.1
"""Part of a volume that should stay free: a member that cannot write leaves the others."""


def questions(ctx: Context[Any]) -> dict[str, str]:
    """Return the URL at which each member reports on itself."""
    if ctx.spec.replicas == 1:
        return {}
    addresses = {pod["metadata"]["name"]: pod["status"].get("podIP", "") for pod in ctx.pods}
    return {name: f"http://{url_host(address)}:{galera.PORT}/" for name, address in addresses.items() if address}


def members(facts: Mapping[str, Any]) -> dict[str, galera.Member]:
    """Return the members that answered, by name."""
    return {name: galera.member(answer) for name, answer in facts.items() if answer}


def ready_members(pods: Sequence[Object], facts: Mapping[str, Any]) -> list[str]:
    """Return names of the pods that may take clients, in order. What members say themselves is newer than what
    Kubernetes knows: Kubernetes takes 40 seconds to notice the loss of a node.
    """
    by_name = members(facts)
    primaries = [name for name, member in by_name.items() if member.status == galera.PRIMARY]
    is_complete = bool(primaries) and all(facts[name].get("size") == len(primaries) for name in primaries)

    def serves(pod: Object) -> bool:
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"] or kube.conditions(pod).get("Ready", {}).get("status") != "True":
            return False
        # One that does not answer the operator may still serve, unless the others say that they are the whole cluster.
        return bool(facts[name].get("ready")) if facts.get(name) else not is_complete

    return sorted((pod["metadata"]["name"] for pod in pods if serves(pod)), key=_ordinal)


def can_encrypt(names: Sequence[str], facts: Mapping[str, Any]) -> bool:
    """Return True if all of these members serve, and can encrypt what they send each other."""
    return all(answer.get("ready") and answer.get("encrypted") for answer in ((facts.get(n) or {}) for n in names))


def primary(pods: Sequence[Object], ready: Sequence[str]) -> str:
    """Return the member that takes the clients: the last one if it can, or else the first that can; empty if none."""
    previous = [pod["metadata"]["name"] for pod in pods if pod["metadata"].get("labels", {}).get(ROLE) == PRIMARY]
    return next((name for name in previous if name in ready), ready[0] if ready else "")


def terms(pods: Sequence[Object], primary_name: str) -> dict[str, str]:
    """Return the term of each pod that has one: that of a new primary is above all others."""
    current = {pod["metadata"]["name"]: _term(pod) for pod in pods}
    labeled = {pod["metadata"]["name"] for pod in pods if pod["metadata"].get("labels", {}).get(ROLE) == PRIMARY}
    if primary_name in current and not (primary_name in labeled and current[primary_name]):
        current[primary_name] = max(current.values()) + 1
    return {name: str(term) for name, term in current.items() if term}


def _term(pod: Object) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(TERM, "")
    # A text that somebody wrote is none.
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


def member_status(
    names: Sequence[str], pods: Sequence[Object], facts: Mapping[str, Any], primary_name: str, ready: Sequence[str]
) -> list[dict[str, str]]:
    """Return an entry of `status.members` for each member."""
    pods_by_name = {pod["metadata"]["name"]: pod for pod in pods}
    return [
        {
            "name": name,
            "role": (PRIMARY if name == primary_name else BACKUP) if name in pods_by_name else "",
            "state": _state(pods_by_name.get(name), facts.get(name)),
            "message": "" if name in ready else _message(pods_by_name.get(name), facts.get(name)),
        }
        for name in names
    ]


def _state(pod: Object | None, answer: Mapping[str, Any] | None) -> str:
    if pod is None:
        return "Missing"
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    if not answer:
        return "Unknown"
    return (
        str(answer.get("local") or answer["status"]) if answer["stage"] == "serving" else answer["stage"].capitalize()
    )


def _message(pod: Object | None, answer: Mapping[str, Any] | None) -> str:
    if pod is None:
        return "there is no pod"
    if not answer:
        return "does not answer"
    return ", ".join(text for text in (volume_warning(answer), str(answer.get("why", ""))) if text)


def volume_warning(answer: Mapping[str, Any]) -> str:
    """Return a warning about the free space on a member's volume; empty as long as there is enough."""
    size, free = answer.get("bytes", 0), answer.get("free", 0)
    if free >= size * MIN_FREE:
        return ""
    # In whole percents, so that not every page that fills changes the status.
    return f"{free * 100 // size} % of the {size >> 20} MiB of its volume are free"


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])
