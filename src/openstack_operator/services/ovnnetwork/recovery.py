"""What members of the databases say of themselves, and what of it must be kept beside them.

They recover without the operator (images/ovn/member): it tells what goes on, hands on the user's word where they must
wait for one, and remembers which cluster is to be believed in and whether it was ever made anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ... import kube
from ...plan import Context, Object, SpecError, Verdict, recovering
from .model import OVNNetworkSpec

FORCE = "openstack.k8s.io/force-rebuild"
"""Annotation: the pod that makes its database's cluster anew from what it has, whatever the others hold."""
PORTS: Mapping[str, int] = {"nb": 6661, "sb": 6662}
"""Where members answer."""
SOON = timedelta(seconds=2)
"""Until the next look at a cluster that recovers."""


def questions(ctx: Context[OVNNetworkSpec]) -> Mapping[str, str]:
    """The URL at which each member says what it holds, by the name of its pod."""
    return {
        pod["metadata"]["name"]: f"http://{_host(pod['status']['podIP'])}:{PORTS[component]}/"
        for pod in ctx.pods
        if (component := pod["metadata"]["labels"].get(kube.COMPONENT)) in PORTS
        and (pod.get("status") or {}).get("podIP")
    }


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


@dataclass(frozen=True)
class Cluster:
    """One database's members as they are now."""

    heard: Mapping[str, Mapping[str, Any] | None]
    """What each pod of the cluster says, None where it does not answer."""

    @property
    def led(self) -> dict[str, str]:
        """Identity of the cluster of each member that has a leader."""
        return {pod: str(told.get("cluster", "")) for pod, told in self.heard.items() if told and told.get("led")}

    def remembered(self, held: Mapping[str, str], forced: str, hosts: Mapping[str, str]) -> dict[str, str]:
        """What the record holds besides its members: `cluster`, which is to be believed in; `rebuilt`, the same once it
        was made anew; `force`, the host name of the member that is to make it so; `forced`, who has been told to
        before. `forced` is the pod the user names, empty for none.
        """
        believed, led = held.get("cluster", ""), self.led
        done = held.get("forced", "") if forced else ""
        if forced and led.get(forced):
            # Others may still believe in what they had; theirs is given up.
            believed, done = (led[forced] if done != forced else believed), forced
        if led and believed not in led.values() and len(set(led.values())) == 1:
            believed = next(iter(led.values()))
        known = held.get("cluster", "")
        new = {
            "cluster": believed,
            "rebuilt": believed if known and believed != known else held.get("rebuilt", ""),
            "force": hosts[forced] if forced and forced != done else "",
            "forced": done,
        }
        return {name: value for name, value in new.items() if value}

    def without(self, scheme: str) -> list[str]:
        """Pods of members that do not speak so with others, or that nobody can be sure of."""
        return [
            pod for pod, told in self.heard.items() if not (told and told.get("led") and told.get("scheme") == scheme)
        ]

    @property
    def verdict(self) -> Verdict | None:
        """What goes on where some member that should be has no leader; None where all is well."""
        said = [f"{pod} {_says(told)}" for pod, told in self.heard.items() if not (told and told.get("led"))]
        return recovering("; ".join(said)) if said else None

    @property
    def members(self) -> Sequence[Mapping[str, str]]:
        """For the status."""
        return [
            {"name": pod, "role": _role(told), "state": _state(told), "message": _says(told) if told else ""}
            for pod, told in self.heard.items()
        ]


def kept(held: Mapping[str, str]) -> dict[str, str]:
    """What `remembered` gave before, where nobody can be asked."""
    return {name: held[name] for name in ("cluster", "rebuilt", "force", "forced") if name in held}


def cluster(ctx: Context[OVNNetworkSpec], pods: Sequence[str]) -> Cluster | None:
    """The members with these pods; None where nobody was asked yet, as on paper or before there are pods."""
    known = {pod: ctx.facts[pod] for pod in pods if pod in ctx.facts}
    return Cluster({pod: known.get(pod) for pod in pods}) if known else None


def forced(ctx: Context[OVNNetworkSpec], pods: Sequence[str]) -> str:
    """The member the user names to go on with what it has, empty for none. Raises SpecError for no member."""
    named = ctx.annotations.get(FORCE, "")
    if named and named not in pods:
        choice = f"choose from {', '.join(pods)}" if pods else "with one member there is nothing to choose"
        raise SpecError(f"metadata.annotations[{FORCE}]", f"there is no member {named!r}; {choice}")
    return named


def _role(told: Mapping[str, Any] | None) -> str:
    return str(told.get("role", "")) if told else ""


def _state(told: Mapping[str, Any] | None) -> str:
    if not told:
        return "unreachable"
    return "member" if told.get("led") else "leaderless" if told.get("state") == "member" else str(told.get("state"))


def _says(told: Mapping[str, Any] | None) -> str:
    return str(told.get("why") or "") or ("" if told.get("led") else "starts") if told else "does not answer"


def pod_of(host: str) -> str:
    """The pod behind a member's host name."""
    return host.partition(".")[0]


def marks(rebuilt: Sequence[str]) -> Object:
    """Annotations of pods that must start anew with a database: what they know of the former one is newer, so they
    would wait for it for ever ("clustered database server has stale data", ovsdb-idl).
    """
    told = [identity for identity in rebuilt if identity]
    return {"openstack.k8s.io/database": kube.digest(told)} if told else {}
