"""Labels that a pod takes from its node, as values."""

from __future__ import annotations

from collections.abc import Collection, Mapping

NAME = "kubernetes.metal.cloud.sap/name"
LABELS = (
    NAME,
    "kubernetes.metal.cloud.sap/cluster",
    "kubernetes.metal.cloud.sap/bb",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
_LONGEST = 63
"""Characters a label's value may have; the name of a node may have more."""


def of_node(name: str, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of pods on that node: those of the five that the node has, and its name if none of them holds
    it.
    """
    fallback = {NAME: name} if len(name) <= _LONGEST else {}
    return fallback | {label: labels[label] for label in LABELS if label in labels}


def change(pod: Mapping[str, str], ours: Collection[str], node_labels: Mapping[str, str]) -> dict[str, str | None]:
    """Return the labels to write to a pod; None removes. Of labels that its node has lost, only those that are `ours`,
    set by the injector, are removed: any other is older, and something may select by it.
    """
    differing = {label: value for label, value in node_labels.items() if pod.get(label) != value}
    return differing | {label: None for label in LABELS if label in pod and label in ours and label not in node_labels}
