"""An upgrade to another release: the plan of the release that runs, until a check of the new one succeeds; then the
plan of the new one. Nothing is stored but the release that last ran completely: all else is read from live objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .context import Context
from .errors import SpecError
from .release import is_earlier, place
from .steps import WORKLOADS, Object, Plan, Step, key
from .verdict import failed

PREFLIGHT = "Preflight"
"""Name of the step that checks a release before an upgrade to it."""

UPGRADE = "Upgrade"
"""Name of the last step of an upgrade, after which only a backup leads back."""
UPGRADE_HELD = "Held"
"""Reason of its condition while it waits for the user, or for the other services of the cloud."""

Make = Callable[[Context[Any]], Plan]


def check_hop(running_release: str, target: str) -> None:
    """Raise SpecError for an upgrade that OpenStack does not support. It supports one to the next release, and one from
    the first release of a year to that of the next year (SLURP:
    https://governance.openstack.org/tc/resolutions/20220210-release-cadence-adjustment.html). A way back is none.
    """
    old, new = place(running_release), place(target)
    if old is None or new is None or new - old <= 1 or (new - old == 2 and target.endswith(".1")):
        return
    year = int(running_release.partition(".")[0])
    message = f"{running_release} runs, from which OpenStack has no upgrade to {target}; upgrade to {year + 1}.1 first"
    raise SpecError("spec.release", message)


def upgraded(ctx: Context[Any], make: Make) -> Plan:
    """Return the plan of the release of the spec. While another one runs, that is the plan of that release and a step
    that checks the new one, until this step has succeeded. An upgrade that has begun goes on without a check, and a way
    back needs none. Raises SpecError for an upgrade that OpenStack does not support, and what `make` raises.
    """
    if checked := ctx.spec.upgrade.check_release:
        return make(ctx).with_steps(_check(ctx, checked, make))
    check_way_back(ctx)
    if not ctx.upgrades_from:
        return make(ctx)
    check_hop(ctx.upgrades_from, ctx.release.name)
    running_plan = make(_at(ctx, ctx.upgrades_from))
    try:
        new_plan = make(ctx)
    except SpecError as error:
        if _differs(ctx, running_plan):
            raise
        return running_plan.with_steps(_refused(ctx, error))
    if new_plan.preflight is None or _has_begun(ctx, running_plan, new_plan):
        return new_plan
    # It stays until the upgrade has begun, since its success is the reason to begin.
    chosen_plan = new_plan if _has_succeeded(ctx, new_plan.preflight) else running_plan
    return chosen_plan.with_steps(new_plan.preflight)


def check_way_back(ctx: Context[Any]) -> None:
    """Raise SpecError if a later release than that of the spec runs completely."""
    release, target = ctx.running_release, ctx.release.name
    if release and is_earlier(target, release):
        message = f"{release} runs completely, and OpenStack has no way back to {target}; restore a backup of {target}"
        raise SpecError("spec.release", message)


def _check(ctx: Context[Any], release: str, make: Make) -> Step:
    """Return the step that checks a release."""
    try:
        check_hop(ctx.release.name, release)
        target = _at(ctx, release)
    except SpecError as error:
        raise SpecError("spec.upgrade.checkRelease", error.problems[0][1]) from None
    try:
        return make(target).preflight or Step(name=PREFLIGHT)
    except SpecError as error:
        return _refused(target, error)


def _refused(ctx: Context[Any], error: SpecError) -> Step:
    """Return the step of a check that a field of the spec fails."""
    return Step(name=PREFLIGHT, verdict=failed(f"not with release {ctx.release.name}: {error}", error.reason))


def _at(ctx: Context[Any], release: str) -> Context[Any]:
    """Return the context with another release in its spec, of which nothing is checked."""
    spec = ctx.spec.model_copy(update={"release": release, "upgrade": type(ctx.spec.upgrade)()})
    running_release = ctx.running_release if release == ctx.spec.upgrade.check_release else release
    return replace(ctx, spec=spec, release=ctx.releases(spec), running_release=running_release)


def _has_begun(ctx: Context[Any], running_plan: Plan, new_plan: Plan) -> bool:
    """Return True if a live workload or Job is of the new plan alone."""
    before = {key(obj): _images(obj) for obj in running_plan.objects}
    after = {key(obj): _images(obj) for obj in new_plan.objects}
    return any(
        name in after and images == after[name] and images != before.get(name)
        for name, live in ctx.children.items()
        if (images := _images(live))
    )


def _differs(ctx: Context[Any], running_plan: Plan) -> bool:
    """Return True if a live workload has other images than in this plan."""
    planned = {key(obj): _images(obj) for obj in running_plan.objects if obj["kind"] in WORKLOADS}
    return any(name in planned and _images(live) != planned[name] for name, live in ctx.children.items())


def _images(obj: Object) -> list[str]:
    """Return the images of a workload or a Job; empty for other objects."""
    if obj["kind"] not in {*WORKLOADS, "Job"}:
        return []
    pod = obj["spec"]["template"]["spec"]
    return [each["image"] for each in (*pod.get("initContainers", ()), *pod["containers"])]


def _has_succeeded(ctx: Context[Any], check: Step) -> bool:
    """Return True if the Jobs of the check are complete."""
    jobs = [ctx.children.get(key(obj)) for obj in check.objects if obj["kind"] == "Job"]
    return check.verdict is None and all(job is not None and _is_complete(job) for job in jobs)


def _is_complete(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)
