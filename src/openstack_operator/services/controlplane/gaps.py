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
            bool(spec.tls.enabled) and spec.image_profile == "kolla",
            "spec.tls.enabled",
            "kolla's images do not encrypt everything yet; use false, or imageProfile debian",
        ),
        (
            spec.cortex.enabled and spec.image_profile == "kolla",
            "spec.cortex.enabled",
            "kolla's images of Nova cannot ask it yet; use false, or imageProfile debian",
        ),
        (spec.heat.enabled, "spec.heat.enabled", "Heat is not built yet; use false"),
        (spec.horizon.enabled, "spec.horizon.enabled", "Horizon is not built yet; use false"),
    ]
    return [(path, message) for missing, path, message in asked if missing]
