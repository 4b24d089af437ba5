"""Settings of the API that this version does not support yet: it refuses them, and ignores none."""

from __future__ import annotations

from .model import ControlPlaneSpec

UnsupportedField = tuple[str, str]
"""(path of a field, message: the value that is not built, and the one to use instead)"""


def unsupported(spec: ControlPlaneSpec) -> list[UnsupportedField]:
    """Return all settings of a spec that are not built, not only the first."""
    checks = [
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
    ]
    return [(path, message) for is_unsupported, path, message in checks if is_unsupported]
