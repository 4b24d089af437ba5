"""Nodes that the pods of one program share, and the time that they wait for a node that does not answer."""

from __future__ import annotations

from collections.abc import Mapping

from ..api import PodSettings
from ..plan import Object

HOST = "kubernetes.io/hostname"

LOST_NODE_SECONDS = 30
"""Seconds a replaceable pod waits for its node after Kubernetes has given that up, which takes it 40 to 50 already. The
default of 300 is meant for programs that have no other pod."""

_NODE_STATES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def placed(
    template: Object, settings: PodSettings, selector: Mapping[str, str], *, several: bool, replaceable: bool
) -> Object:
    """Return the template of pods that `selector` selects, spread and kept apart as `settings` say.

    Where there are `several`, `replaceable` ones are recreated elsewhere soon after their node is lost. Those of a
    StatefulSet never are, whatever they tolerate, since a second one of the same name might then run.
    """
    spec: Object = dict(template["spec"])
    if several:
        spec["affinity"] = _with_anti_affinity(
            spec.get("affinity"), settings.anti_affinity, selector, surging=replaceable
        )
    if several and replaceable:
        spec["tolerations"] = _patient(spec.get("tolerations", []))
    if constraints := settings.topology_spread_constraints:
        default_selector = {"labelSelector": {"matchLabels": dict(selector)}}
        spec["topologySpreadConstraints"] = [{**default_selector, **constraint} for constraint in constraints]
    return {**template, "spec": spec}


def _with_anti_affinity(
    affinity: Object | None, how: str | None, selector: Mapping[str, str], *, surging: bool
) -> Object:
    user_affinity = affinity or {}
    if "podAntiAffinity" in user_affinity:
        return user_affinity
    term: Object = {"labelSelector": {"matchLabels": dict(selector)}, "topologyKey": HOST}
    if surging:
        # Only from pods of its own revision: with one on every node, none of the next revision could start otherwise.
        term["matchLabelKeys"] = ["pod-template-hash"]
    rule: Object = (
        {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        if how == "hard"
        else {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
    )
    return {**user_affinity, "podAntiAffinity": rule}


def _patient(tolerations: list[Object]) -> list[Object]:
    """Return the tolerations, with one for a lost node if the user has none."""
    if any(not entry.get("key") for entry in tolerations):
        return tolerations
    said = {entry["key"] for entry in tolerations}
    return [
        *tolerations,
        *(
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_SECONDS}
            for key in _NODE_STATES
            if key not in said
        ),
    ]
