"""The order of an upgrade of OVN: controllers on nodes, the databases and their schemas, northd.

That is the order for a rolling upgrade in OVN's documentation (ovn-upgrades(7)): a controller works with databases of
an older version, and not with those of a later one. Programs of the same version follow each other as they come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ... import agents, kube
from ...api import ComponentSettings, PodSettings
from ...plan import READY, Context, Object, Step, check_version, major, waiting
from .model import OVNNetworkSpec
from .nodes import selector
from .tls import TLS

_PROGRAMS = ("ovn-nb", "ovn-sb", "ovn-relay", "ovn-northd", "ovn-controller")
"""Programs that have the version of a spec; those of Open vSwitch have their own."""
_SCHEMAS = "openstack.k8s.io/ovn-schemas"
"""Annotation of northd's Deployment, which comes after the schemas: the version that they have."""
_WAY_BACK = "set that again, or restore a backup"


@dataclass(frozen=True)
class Upgrade:
    """An upgrade that is under way."""

    version: str
    gate: Step
    """The step that holds back what comes after controllers."""

    def schema(
        self, ctx: Context[OVNNetworkSpec], tls: TLS, databases: dict[str, str], after: tuple[Step, ...]
    ) -> Step:
        """Return the step that brings databases, addresses by schema, to the schemas of the new version, once all their
        members run it: they never do so by themselves.
        """
        words = [word for schema, address in databases.items() for word in (schema, address)]
        main = kube.Container(
            entry=ctx.release["ovn-northd"],
            command=agents.shell("ovnnetwork/convert.sh", words=words),
            env={"OPTIONS": " ".join(tls.options)},
            mounts=(*kube.scratch("/run/ovn", "/tmp"), *tls.clients),  # noqa: S108
            memory="32Mi",
        )
        template = kube.pod(ctx, "convert", main, settings=kube.settings(ctx.spec, ctx.spec.northd))
        return Step(
            name="Schema", objects=(kube.job(ctx, "convert", template),), after=(self.gate, *after), barrier=True
        )


def with_version(ctx: Context[OVNNetworkSpec]) -> Context[OVNNetworkSpec]:
    """Return a context whose release has OVN in the version of the spec. Raises SpecError for one that there is not."""
    release, version = ctx.release, ctx.spec.version or ""
    chosen = {name: release.in_version(name, version) for name in _PROGRAMS if name in release}
    return replace(ctx, release=replace(release, components={**release.components, **chosen}))


def with_schemas(ctx: Context[OVNNetworkSpec], northd: Object) -> Object:
    """Return northd's Deployment, which notes to which version it found the schemas: it waits for them."""
    version = _program_version(ctx, "nb", ctx.spec.northbound)
    return kube.annotated(northd, {_SCHEMAS: version}) if major(version) else northd


def upgrade(ctx: Context[OVNNetworkSpec]) -> Upgrade | None:
    """Return the upgrade that has to be carried out; None as long as all programs and the schemas have the version of
    the spec, or it is not known. Raises SpecError for one that OVN does not support.
    """
    spec, upgrades = ctx.spec, list[str]()
    programs = {
        ("StatefulSet", "nb"): spec.northbound,
        ("StatefulSet", "sb"): spec.southbound,
        ("Deployment", "relay"): spec.relay,
        ("Deployment", "northd"): spec.northd,
    }
    for (kind, component), pod_settings in programs.items():
        live, entry = ctx.live(kind, component), ctx.release.components.get(f"ovn-{component}")
        if live is None or entry is None:
            continue
        running_version, version = kube.started_version(ctx, live), _program_version(ctx, component, pod_settings)
        if check_version(entry, running_version, version, _path(ctx, pod_settings), _WAY_BACK):
            upgrades.append(version)
    version = upgrades[0] if upgrades else _new_schemas(ctx)
    if not version:
        return None
    missing = _nodes_to_come(ctx)
    message = f"databases, relays and northd get OVN {version} after ovn-controller on all nodes; {missing}"
    return Upgrade(version, Step(name="Version", barrier=True, verdict=waiting(message) if missing else READY))


def _path(ctx: Context[OVNNetworkSpec], pod_settings: PodSettings | ComponentSettings) -> str:
    """Return the field that decides on the version of a program."""
    if kube.settings(ctx.spec, pod_settings).image:
        return "spec.image"
    return "spec.version" if ctx.spec.version or ctx.release["ovn-nb"].versions else "spec.release"


def _program_version(
    ctx: Context[OVNNetworkSpec], component: str, pod_settings: PodSettings | ComponentSettings
) -> str:
    return kube.version_label(ctx.release[f"ovn-{component}"], kube.settings(ctx.spec, pod_settings)) or ""


def _new_schemas(ctx: Context[OVNNetworkSpec]) -> str:
    """Return the version to which the schemas have to be brought; empty if they have that of the spec, or it is not
    known which they have.
    """
    northd = ctx.live("Deployment", "northd") or {"metadata": {}}
    version = _program_version(ctx, "nb", ctx.spec.northbound)
    noted = (northd["metadata"].get("annotations") or {}).get(_SCHEMAS, "")
    return version if major(noted) and major(noted) < major(version) else ""


def _nodes_to_come(ctx: Context[OVNNetworkSpec]) -> str:
    """Return on how many nodes ovn-controller has to change yet, and what to do; empty if on none."""
    if not ctx.spec.chassis.enabled:
        return ""
    live = ctx.live("DaemonSet", "controller")
    rollout, settings = kube.Rollout(live), ctx.spec.chassis.controller
    image = kube.settings(ctx.spec).model_copy(update={"image": settings.image or ctx.spec.image})
    version = kube.version_label(ctx.release["ovn-controller"], image) or ""
    # A DaemonSet that has not been looked at yet has no nodes, so far.
    is_new = rollout.is_observed and major(kube.running_version(live)) == major(version)
    if is_new and rollout.is_complete:
        return ""
    desired = max(rollout.desired, 1)
    updated = min(rollout.updated, rollout.ready, desired) if is_new else 0
    label = ",".join(f"{name}={value}" for name, value in selector(ctx.spec).items())
    advice = f", or exclude them (label {label})" if label else ""
    return f"{updated} of {desired} nodes have it; repair missing nodes{advice}"
