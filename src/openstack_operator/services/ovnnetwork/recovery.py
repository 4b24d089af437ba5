"""State that members of the databases report, and the part of it that has to be stored outside of them.

They recover without the operator (images/ovn/member): it reports their progress, passes on the user's decision when
they need one, and stores which cluster to trust and whether it was ever rebuilt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ... import kube
from ...plan import Context, Object, Verdict, recovering, url_host
from .model import OVNNetworkSpec

FORCE = "openstack.k8s.io/force-rebuild"
"""Annotation: the pod that rebuilds its database's cluster from its data, whatever the other members have."""
PORTS: Mapping[str, int] = {"nb": 6661, "sb": 6662}
"""Ports at which members answer."""
_IDENTITY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SOON = timedelta(seconds=2)
"""Time until the next look at a cluster that recovers."""


def questions(ctx: Context[OVNNetworkSpec]) -> Mapping[str, str]:
    """Return the URL at which each member reports its state, by the name of its pod."""
    return {
        pod["metadata"]["name"]: f"http://{url_host(pod['status']['podIP'])}:{PORTS[component]}/"
        for pod in ctx.pods
        if (component := pod["metadata"]["labels"].get(kube.COMPONENT)) in PORTS
        and (pod.get("status") or {}).get("podIP")
    }


@dataclass(frozen=True)
class Cluster:
    """The members of one database as they are now."""

    facts: Mapping[str, Mapping[str, Any] | None]
    """Answer of each pod of the cluster, None if it does not answer."""

    @property
    def cluster_ids(self) -> dict[str, str]:
        """Return the identity of the cluster of each member that has a leader."""
        return {pod: str(fact.get("cluster", "")) for pod, fact in self.facts.items() if fact and fact.get("led")}

    def recovery_state(self, stored: Mapping[str, str], forced_pod: str, hosts: Mapping[str, str]) -> dict[str, str]:
        """Return the data of the record besides its members: `cluster`, the identity to trust; `rebuilt`, the same once
        the cluster was rebuilt; `force`, the host name of the member that has to rebuild it; `forced`, the pod that did
        so before. `forced_pod` is the pod the user names, empty for none.
        """
        trusted_id, cluster_ids = stored.get("cluster", ""), self.cluster_ids
        last_forced = stored.get("forced", "") if forced_pod else ""
        if forced_pod and cluster_ids.get(forced_pod):
            # Other members may still trust their former cluster; the operator abandons it.
            trusted_id, last_forced = (cluster_ids[forced_pod] if last_forced != forced_pod else trusted_id), forced_pod
        if cluster_ids and trusted_id not in cluster_ids.values() and len(set(cluster_ids.values())) == 1:
            trusted_id = next(iter(cluster_ids.values()))
        stored_id = stored.get("cluster", "")
        state = {
            "cluster": trusted_id,
            "rebuilt": trusted_id if stored_id and trusted_id != stored_id else stored.get("rebuilt", ""),
            "force": hosts[forced_pod] if forced_pod and forced_pod != last_forced else "",
            "forced": last_forced,
        }
        return {name: value for name, value in state.items() if value}

    def members_without(self, scheme: str) -> list[str]:
        """Return pods of members that do not use this scheme with other members, or whose scheme is unknown."""
        return [
            pod for pod, fact in self.facts.items() if not (fact and fact.get("led") and fact.get("scheme") == scheme)
        ]

    @property
    def verdict(self) -> Verdict | None:
        """Return the problem of each member that has no leader; None if all have one."""
        problems = [f"{pod} {_message(fact)}" for pod, fact in self.facts.items() if not (fact and fact.get("led"))]
        return recovering("; ".join(problems)) if problems else None

    @property
    def members(self) -> Sequence[Mapping[str, str]]:
        """Return the members for the status."""
        return [
            {"name": pod, "role": _role(fact), "state": _state(fact), "message": _message(fact) if fact else ""}
            for pod, fact in self.facts.items()
        ]


def stored_state(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the previous result of `recovery_state`, for use when no member can answer."""
    return {name: stored[name] for name in ("cluster", "rebuilt", "force", "forced") if name in stored}


def cluster(ctx: Context[OVNNetworkSpec], pods: Sequence[str]) -> Cluster | None:
    """Return the members with these pods; None before any was queried, as offline or before pods exist."""
    facts = {pod: ctx.facts[pod] for pod in pods if pod in ctx.facts}
    return Cluster({pod: facts.get(pod) for pod in pods}) if facts else None


def identity(stored: Mapping[str, str]) -> str:
    """Return the identity of a cluster that a restore has stored; empty if it is none."""
    text = stored.get("cluster", "")
    return text if _IDENTITY.fullmatch(text) else ""


def _role(fact: Mapping[str, Any] | None) -> str:
    return str(fact.get("role", "")) if fact else ""


def _state(fact: Mapping[str, Any] | None) -> str:
    if not fact:
        return "unreachable"
    return "member" if fact.get("led") else "leaderless" if fact.get("state") == "member" else str(fact.get("state"))


def _message(fact: Mapping[str, Any] | None) -> str:
    return str(fact.get("why") or "") or ("" if fact.get("led") else "starts") if fact else "does not answer"


def restart_annotations(rebuilt_ids: Sequence[str]) -> Object:
    """Return annotations for pods that must restart with a rebuilt database: their copy of the former one is newer, so
    they would wait without end ("clustered database server has stale data", ovsdb-idl).
    """
    identities = [identity for identity in rebuilt_ids if identity]
    return {"openstack.k8s.io/database": kube.digest(identities)} if identities else {}
