"""Critical findings of kube-score that stand, each with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A complaint of kube-score about an object."""

    check: str
    kind: str
    name: str
    container: str
    summary: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name} {self.container} {self.check}: {self.summary}"


AGENTS = frozenset(
    {"nova-libvirt", "nova-cell1-compute", "ovn-chassis", "ovn-gateway", "ovn-controller", "neutron-metadata-agent"}
)
"""DaemonSets whose pods are root on their nodes (docs/explanation/security.md)."""

AGENT_REASONS = {
    "container-security-context-privileged": "they create devices, flows, namespaces and virtual machines on the node",
    "container-security-context-readonlyrootfilesystem": "their programs write to folders of the node",
    "container-security-context-user-group-id": "their work on the node needs root",
}
COMMON_REASONS = {
    "container-image-pull-policy": "images with our tags never change; with Always, no pod starts while the registry is"
    " down",
    "pod-probes-identical": "both probes ask whether the program takes connections; liveness fails after three minutes",
    "statefulset-has-servicename": "workers need no Service: no program connects to them",
}
"""Reasons for findings in any object, by check."""
_DATA = "files on existing volumes belong to the user id of Debian's package, which therefore cannot change"
OBJECT_REASONS = {
    ("mariadb-server", "container-security-context-user-group-id"): _DATA,
    ("rabbitmq-server", "container-security-context-user-group-id"): _DATA,
    ("mariadb", "service-targets-pod"): "the operator sets the label on the primary's pod",
    ("ceph-mon-a", "service-targets-pod"): "Kubernetes sets the label on each pod of a StatefulSet",
}
"""Reasons for findings in one object, by its name and the check."""


def explained(finding: Finding) -> str:
    """Return why the finding stands; empty if it must not."""
    if finding.name in AGENTS and finding.check in AGENT_REASONS:
        return AGENT_REASONS[finding.check]
    return OBJECT_REASONS.get((finding.name, finding.check)) or COMMON_REASONS.get(finding.check, "")


def unused(findings: Sequence[Finding]) -> list[str]:
    """Return the checks that have a reason in this file, but that nothing fails."""
    of_agents = {finding.check for finding in findings if finding.name in AGENTS}
    of_others = {finding.check for finding in findings if finding.name not in AGENTS}
    of_one = {(finding.name, finding.check) for finding in findings}
    return [
        *(check for check in AGENT_REASONS if check not in of_agents),
        *(check for check in COMMON_REASONS if check not in of_others),
        *(f"{check} of {name}" for name, check in OBJECT_REASONS if (name, check) not in of_one),
    ]
