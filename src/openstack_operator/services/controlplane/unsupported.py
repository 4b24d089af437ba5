"""Settings of the API that this version does not support: it names them, and ignores none."""

from __future__ import annotations

from .model import ControlPlaneSpec

UnsupportedField = tuple[str, str]
"""(path of a field, message: the value that is not supported, and the one to use instead)"""


def unsupported_fields(spec: ControlPlaneSpec) -> list[UnsupportedField]:
    """Return all settings of a spec without which no cloud can be made, not only the first."""
    checks = [
        (spec.network_backend == "ovs", "spec.networkBackend", "ovs is not supported; use ovn"),
        (
            spec.neutron.mechanism != "ovn",
            "spec.neutron.mechanism",
            f"{spec.neutron.mechanism} is not supported; use ovn",
        ),
        (
            bool(spec.tls.enabled) and spec.image_profile == "kolla",
            "spec.tls.enabled",
            "kolla's images do not encrypt all connections; use false, or imageProfile debian",
        ),
    ]
    return [(path, message) for is_unsupported, path, message in checks if is_unsupported]


def unsupported_services(spec: ControlPlaneSpec) -> dict[str, UnsupportedField]:
    """Return unsupported settings of services that a cloud can do without, by the field of each service."""
    if spec.cortex.enabled and spec.image_profile == "kolla":
        message = "kolla's images of Nova do not support it; use false, or imageProfile debian"
        return {"cortex": ("spec.cortex.enabled", message)}
    return {}
