"""OVNCluster of ovn.c5c3.io: the plan of an OVNNetwork, and an OVNChassis for each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ... import kube
from ...api import CertificateSource, PodSettings
from ...plan import Context, Plan, SpecError
from . import service
from .cluster_model import ClusterDatabase, ClusterTLS, OVNClusterSpec
from .model import Chassis, ContainerSettings, Fabric, Members, OVNNetworkSpec

_PATHS = {
    "spec.image": "spec.ovnImage",
    "spec.replicas": "spec.northbound.replicas",
    "spec.version": "spec.release",
    "spec.northbound.storageSize": "spec.northbound.storage.size",
    "spec.southbound.storageSize": "spec.southbound.storage.size",
    "spec.chassis.affinity": "spec.ovs.affinity",
    "spec.chassis.nodeSelector": "spec.ovs.nodeSelector",
    "spec.tls.secretRef": "spec.tls.certSecretRef",
    "spec.tls.secretRef.name": "spec.tls.certSecretRef.name",
}
"""Fields of an OVNNetwork, and the same fields of an OVNCluster."""


def plan(ctx: Context[OVNClusterSpec]) -> Plan:
    """Return the plan of `service.plan`, with the same names. Raises SpecError with paths of an OVNCluster."""
    network_ctx: Context[Any] = ctx
    try:
        network_plan = service.plan(replace(network_ctx, spec=as_network(ctx.spec)), ctx.spec.neutron_integration)
    except SpecError as error:
        text = str(error).removeprefix(f"{error.path}: ")
        raise type(error)(_PATHS.get(error.path, error.path), text) from None
    for obj in network_plan.objects:
        annotations: dict[str, str] = obj["metadata"].get("annotations", {})
        for annotation in annotations.keys() & {kube.FIELD, kube.NODES_FIELD}:
            annotations[annotation] = _PATHS.get(annotations[annotation], annotations[annotation])
    return network_plan


def as_network(spec: OVNClusterSpec) -> OVNNetworkSpec:
    """Return the spec of the same OVNNetwork. Raises SpecError if switch and controller are on different nodes."""
    ovs, controller = spec.ovs.node_selector, spec.controller.node_selector
    if None not in (ovs, controller) and ovs != controller:
        text = "ovs and controller run on the same nodes; use the labels of controller.nodeSelector, or remove this"
        raise SpecError("spec.ovs.nodeSelector", text)
    fabric: Mapping[str, Any] = {name: getattr(spec, name) for name in Fabric.model_fields}
    programs = {name: _with_image(fabric[name], spec.ovn_image) for name in ("northd", "relay")}
    return OVNNetworkSpec(
        **{**fabric, **programs},
        release=spec.release,
        retention=spec.retention,
        network_policies=spec.network_policies,
        northbound=_database(spec.northbound, spec.ovn_image),
        southbound=_database(spec.southbound, spec.ovn_image),
        chassis=Chassis(
            **_pod_settings(spec.ovs, spec.ovs_image, node_selector=ovs if controller is None else controller),
            switch_database=ContainerSettings(image=spec.ovs.image or spec.ovs_image),
            controller=ContainerSettings(image=spec.ovn_image, resources=spec.controller.resources),
        ),
        tls=_tls(spec.tls),
    )


def _pod_settings(settings: PodSettings, image: str | None, **changes: Any) -> dict[str, Any]:
    """Return the settings of pods with `changes`, and with `image` if they name none."""
    values = {name: getattr(settings, name) for name in PodSettings.model_fields}
    return {**values, "image": settings.image or image, **changes}


def _with_image(program: Any, image: str | None) -> Any:
    return program if program.image else program.model_copy(update={"image": image})


def _database(database: ClusterDatabase, image: str | None) -> Members:
    return Members(
        **_pod_settings(database, image),
        replicas=database.replicas,
        storage_size=database.storage.size,
        storage_class_name=database.storage.storage_class,
    )


def _tls(tls: ClusterTLS) -> CertificateSource | None:
    if not tls.enabled:
        return None
    return CertificateSource(secret_ref=tls.cert_secret_ref, pki_ref=tls.pki_ref, required=tls.required)
