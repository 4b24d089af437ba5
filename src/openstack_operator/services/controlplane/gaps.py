"""What the API names and this version cannot do yet: said, never ignored."""

from __future__ import annotations

from .model import ControlPlaneSpec

Gap = tuple[str, str]
"""(path of a field, what about it is not built and what to write instead)"""


def gaps(spec: ControlPlaneSpec) -> list[Gap]:
    """Everything a spec asks for that is not built, not only the first."""
    asked = [
        (spec.network_backend == "ovs", "spec.networkBackend", "ovs is not built yet; use ovn"),
        (
            spec.neutron.mechanism != "ovn",
            "spec.neutron.mechanism",
            f"{spec.neutron.mechanism} is not built yet; use ovn",
        ),
        (
            spec.tls.enabled,
            "spec.tls.enabled",
            "encryption of every connection is not built yet; use false, and tls of each service that has it",
        ),
        (spec.heat.enabled, "spec.heat.enabled", "Heat is not built yet; use false"),
        (spec.horizon.enabled, "spec.horizon.enabled", "Horizon is not built yet; use false"),
    ]
    return [(path, message) for missing, path, message in asked if missing]
