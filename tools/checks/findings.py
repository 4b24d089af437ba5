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
"""Those that are root on their nodes (docs/explanation/security.md)."""

OF_AGENTS = {
    "container-security-context-privileged": "they make devices, flows, namespaces and guests of their node",
    "container-security-context-readonlyrootfilesystem": "their programs write where the node expects it",
    "container-security-context-user-group-id": "what they do on the node takes its root",
}
OF_ALL = {
    "container-image-pull-policy": "a tag of ours names one content for good; with Always a registry that is away keeps"
    " pods from starting",
    "pod-probes-identical": "both ask whether it takes connections; liveness gives up after three minutes",
    "statefulset-has-servicename": "workers have no Service: nobody calls them, and the name of a pod needs none",
}
"""By check: why it stands."""
_DATA = "their files belong to the user of Debian's package, whose number cannot change on a disk that has data"
OF_ONE = {
    ("mariadb-server", "container-security-context-user-group-id"): _DATA,
    ("rabbitmq-server", "container-security-context-user-group-id"): _DATA,
    ("mariadb", "service-targets-pod"): "the operator labels the member that takes clients",
    ("ceph-mon-a", "service-targets-pod"): "Kubernetes labels each pod of a StatefulSet with its name",
}
"""By object and check."""


def explained(finding: Finding) -> str:
    """Return why the finding stands; empty if it must not."""
    if finding.name in AGENTS and finding.check in OF_AGENTS:
        return OF_AGENTS[finding.check]
    return OF_ONE.get((finding.name, finding.check)) or OF_ALL.get(finding.check, "")


def unused(findings: Sequence[Finding]) -> list[str]:
    """Return the checks that have a reason in this file, but that nothing fails."""
    of_agents = {finding.check for finding in findings if finding.name in AGENTS}
    of_others = {finding.check for finding in findings if finding.name not in AGENTS}
    of_one = {(finding.name, finding.check) for finding in findings}
    return [
        *(check for check in OF_AGENTS if check not in of_agents),
        *(check for check in OF_ALL if check not in of_others),
        *(f"{check} of {name}" for name, check in OF_ONE if (name, check) not in of_one),
    ]
