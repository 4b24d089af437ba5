"""The order of an upgrade of OVN: controllers on nodes, the databases and their schemas, northd.

That is the order for a rolling upgrade in OVN's documentation (ovn-upgrades(7)): a controller works with databases of
an older version, and not with those of a later one. Programs of the same version follow each other as they come.
"""

from __future__ import annotations

from dataclasses import dataclass

from ... import agents, kube
from ...plan import READY, Context, Step, check_version, major, waiting
from .model import OVNNetworkSpec
from .tls import TLS

CONTROLLERS = "openstack.k8s.io/ovn-version"
"""Annotation of the DaemonSets on nodes: the version of ovn-controller, since the label of their pods is that of the
switch."""
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
            command=agents.shell("ovn/convert.sh", words=words),
            env={"OPTIONS": " ".join(tls.options)},
            mounts=(*kube.scratch("/run/ovn", "/tmp"), *tls.clients),  # noqa: S108
            memory="32Mi",
        )
        template = kube.pod(ctx, "convert", main, settings=kube.settings(ctx.spec, ctx.spec.northd))
        return Step(
            name="Schema", objects=(kube.job(ctx, "convert", template),), after=(self.gate, *after), barrier=True
        )


def controllers_version(ctx: Context[OVNNetworkSpec]) -> str:
    """Return the version of ovn-controller that nodes are to run; empty for an image whose tag is none."""
    image = ctx.spec.chassis.controller.image or ctx.spec.image
    settings = kube.settings(ctx.spec).model_copy(update={"image": image})
    return kube.version_label(ctx.release["ovn-controller"], settings) or ""


def upgrade(ctx: Context[OVNNetworkSpec]) -> Upgrade | None:
    """Return the upgrade that has to be carried out; None as long as all programs have the version of the spec, or it
    is not known. Raises SpecError for one that OVN does not support.
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
        settings = kube.settings(spec, pod_settings)
        if live is None or entry is None:
            continue
        running_version, version = kube.started_version(ctx, live), kube.version_label(entry, settings) or ""
        path = "spec.image" if settings.image else "spec.release"
        if check_version(entry, running_version, version, path, _WAY_BACK):
            upgrades.append(version)
    if not upgrades:
        return None
    missing = _nodes_to_come(ctx)
    message = f"the databases, relays and northd of OVN {upgrades[0]} come after ovn-controller on all nodes; {missing}"
    verdict = waiting(message) if missing else READY
    return Upgrade(upgrades[0], Step(name="Version", barrier=True, verdict=verdict))


def _nodes_to_come(ctx: Context[OVNNetworkSpec]) -> str:
    """Return on how many nodes ovn-controller has to change yet; empty if on none."""
    version = major(controllers_version(ctx))
    counts: list[tuple[int, int]] = []
    for live in (ctx.live("DaemonSet", component) for component in ("gateway", "chassis")):
        if live is None:
            continue
        rollout = kube.Rollout(live)
        runs = (live["metadata"].get("annotations") or {}).get(CONTROLLERS, "")
        done = min(rollout.updated, rollout.ready) if rollout.is_observed and major(runs) == version else 0
        is_complete = rollout.is_observed and major(runs) == version and rollout.is_complete
        counts.append((rollout.desired, rollout.desired if is_complete else min(done, rollout.desired)))
        if not is_complete and rollout.desired == 0:
            # A DaemonSet that has not been looked at yet has no nodes, so far.
            counts[-1] = (1, 0)
    desired, done = sum(count for count, _ in counts), sum(count for _, count in counts)
    return f"{done} of {desired} nodes have it" if done < desired else ""
