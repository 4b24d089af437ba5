"""Who among the members takes the clients, and what is told of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import kube
from ...plan import Context, Object
from . import galera

ROLE = "openstack.k8s.io/role"
PRIMARY, BACKUP = "primary", "backup"
SCARCE = 0.1
"""Part of a volume that should stay free: a member that cannot write leaves the others."""


def questions(ctx: Context[Any]) -> dict[str, str]:
    """The URL at which each member tells of itself."""
    if ctx.spec.replicas == 1:
        return {}
    found = {pod["metadata"]["name"]: pod["status"].get("podIP", "") for pod in ctx.pods}
    return {name: f"http://{address}:{galera.PORT}/" for name, address in found.items() if address}


def members(facts: Mapping[str, Any]) -> dict[str, galera.Member]:
    """Members that answered, by name."""
    return {name: galera.member(answer) for name, answer in facts.items() if answer}


def ready(pods: Sequence[Object], facts: Mapping[str, Any]) -> list[str]:
    """Names of the pods that may take clients, in order. What members say themselves is newer than what Kubernetes
    knows: of a node that is gone it takes 40 seconds to notice.
    """
    heard = members(facts)
    within = [name for name, member in heard.items() if member.status == galera.PRIMARY]
    whole = bool(within) and all(facts[name].get("size") == len(within) for name in within)

    def serves(pod: Object) -> bool:
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"] or kube.conditions(pod).get("Ready", {}).get("status") != "True":
            return False
        # One that does not answer us may still serve, unless the others say that they are all there are.
        return bool(facts[name].get("ready")) if facts.get(name) else not whole

    return sorted((pod["metadata"]["name"] for pod in pods if serves(pod)), key=_ordinal)


def encrypted(names: Sequence[str], facts: Mapping[str, Any]) -> bool:
    """Whether all of these members serve, and can encrypt what they send each other."""
    return all(answer.get("ready") and answer.get("encrypted") for answer in ((facts.get(n) or {}) for n in names))


def primary(pods: Sequence[Object], able: Sequence[str]) -> str:
    """Who takes the clients: whoever did as long as it can, the first that can otherwise; empty where none can."""
    before = [pod["metadata"]["name"] for pod in pods if pod["metadata"].get("labels", {}).get(ROLE) == PRIMARY]
    return next((name for name in before if name in able), able[0] if able else "")


def told(
    names: Sequence[str], pods: Sequence[Object], facts: Mapping[str, Any], chosen: str, able: Sequence[str]
) -> list[dict[str, str]]:
    """An entry of `status.members` for each member."""
    there = {pod["metadata"]["name"]: pod for pod in pods}
    return [
        {
            "name": name,
            "role": (PRIMARY if name == chosen else BACKUP) if name in there else "",
            "state": _state(there.get(name), facts.get(name)),
            "message": "" if name in able else _message(there.get(name), facts.get(name)),
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
    return ", ".join(text for text in (scarce(answer), str(answer.get("why", ""))) if text)


def scarce(answer: Mapping[str, Any]) -> str:
    """What is to be said of the room on a member's volume; empty as long as there is enough."""
    whole, free = answer.get("bytes", 0), answer.get("free", 0)
    if free >= whole * SCARCE:
        return ""
    # In whole percents: a status is not written for every page.
    return f"{free * 100 // whole} % of the {whole >> 20} MiB of its volume are free"


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])
