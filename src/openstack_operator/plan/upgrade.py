"""An upgrade to another release: the plan of the release that runs, until a check of the new one succeeds; then the
plan of the new one. Nothing is stored but the release that last ran completely: all else is read from live objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from .context import Context
from .errors import SpecError
from .release import is_earlier, place
from .steps import WORKLOADS, Object, Plan, Step, key
from .times import valid_time
from .verdict import UPGRADE_HELD, failed, progressing, waiting

PREFLIGHT = "Preflight"
"""Name of the step that checks a release before an upgrade to it."""

UPGRADE = "Upgrade"
"""Name of the last step of an upgrade, after which only a backup leads back."""
CHECK, COMPLETION = "preflight", "complete-upgrade"
"""Component of the Job that checks a release; end of the component of the Jobs of the last step."""
RELEASE_ANNOTATION = "openstack.k8s.io/release"
"""Annotation of a workload or a Job: the release that it was planned for."""

CHECK_AGE = timedelta(days=1)
"""Age at which a success of a check counts no more: the database may have changed since."""

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
    message = f"{running_release} runs, and OpenStack has no direct upgrade to {target}; upgrade to {year + 1}.1 first"
    raise SpecError("spec.release", message)


def plan_upgrade(ctx: Context[Any], make: Make) -> Plan:
    """Return the plan of the release of the spec. While another one runs, that is the plan of that release and a step
    that checks the new one, until this step has succeeded. An upgrade that has begun goes on without a check, and a way
    back needs none. Raises SpecError for an upgrade that OpenStack does not support, for another target while one is
    under way, and what `make` raises.
    """
    check_way_back(ctx)
    target, begun = ctx.release.name, _begun_release(ctx)
    if not ctx.upgrades_from:
        checked = ctx.spec.upgrade.check_release
        return make(ctx).with_steps(_check(ctx, checked, make)) if checked and not begun else make(ctx)
    check_hop(ctx.upgrades_from, target)
    if begun and begun != target:
        message = (
            f"an upgrade to {begun} is in progress; set that release until it is done, or {ctx.upgrades_from} to "
            f"go back"
        )
        raise SpecError("spec.release", message)
    if begun:
        return _with_hold(ctx, make(ctx))
    running_plan = make(_at(ctx, ctx.upgrades_from)).of_release(ctx.upgrades_from)
    try:
        new_plan = make(ctx)
    except SpecError as error:
        return running_plan.with_steps(_failed_check(ctx, error))
    if new_plan.preflight is None:
        return _with_hold(ctx, new_plan)
    check = _recent(ctx, new_plan.preflight)
    # It stays until the upgrade has begun, since its success is the reason to begin.
    if _has_succeeded(ctx, check):
        return _with_hold(ctx, new_plan).with_steps(check)
    return running_plan.with_steps(check)


def _with_hold(ctx: Context[Any], plan: Plan) -> Plan:
    """Return the plan with its last step after all programs of the service; or with a step that waits in its place, if
    the spec says so: of a service without a last step, too, so that it can go back with the others.
    """
    if ctx.spec.upgrade.complete:
        return plan.with_last(_is_completion)
    message = (
        f"waits until spec.upgrade.complete is true. The control plane sets it once all programs are new,"
        f" unless its own spec says false. Before that"
        f" you can go back to {ctx.upgrades_from}"
    )
    return plan.with_steps(Step(name=UPGRADE, verdict=waiting(message, UPGRADE_HELD)))


def _is_completion(step: Step) -> bool:
    """Return True for the last step of an upgrade."""
    return any(_component(obj).endswith(COMPLETION) for obj in step.objects)


def check_way_back(ctx: Context[Any]) -> None:
    """Raise SpecError if a later release than that of the spec runs completely."""
    release, target = ctx.running_release, ctx.release.name
    if release and is_earlier(target, release):
        message = f"{release} runs completely, and OpenStack has no way back to {target}; restore a backup of {target}"
        raise SpecError("spec.release", message)
    if begun := next((job for job in _later(ctx, target) if _component(job).endswith(COMPLETION)), None):
        release_of_job = _annotation(begun)
        message = (
            f"the last step of the upgrade to {release_of_job} has begun; set that release, or restore a "
            f"backup of {target}"
        )
        raise SpecError("spec.release", message)


def _check(ctx: Context[Any], release: str, make: Make) -> Step:
    """Return the step that checks a release."""
    try:
        if not is_earlier(ctx.release.name, release):
            raise SpecError("", f"{ctx.release.name} runs; name a later release")
        check_hop(ctx.release.name, release)
        target = _at(ctx, release)
    except SpecError as error:
        raise SpecError("spec.upgrade.checkRelease", error.problems[0][1]) from None
    try:
        return _recent(ctx, make(target).preflight or Step(name=PREFLIGHT))
    except SpecError as error:
        return _failed_check(target, error)


def _recent(ctx: Context[Any], check: Step) -> Step:
    """Return the step of a check; without its Job if that has succeeded and began too long ago. The engine then deletes
    the Job, and the next pass makes it again.
    """
    if not _has_succeeded(ctx, check):
        return check
    lives = [ctx.children.get(key(obj)) for obj in check.objects if obj["kind"] == "Job"]
    # By the clock of the API server, whatever else writes into the status.
    begins = [at for live in lives if live and (at := valid_time(live["metadata"].get("creationTimestamp")))]
    if not begins:
        return check
    if (expires := min(begins) + CHECK_AGE) > ctx.now:
        return replace(check, wake=expires)
    without_job = tuple(obj for obj in check.objects if obj["kind"] != "Job")
    verdict = progressing("the check is older than a day, and runs again")
    return replace(check, objects=without_job, verdict=verdict, wake=ctx.now)


def _failed_check(ctx: Context[Any], error: SpecError) -> Step:
    """Return the step of a check that fails because of a field of the spec."""
    return Step(name=PREFLIGHT, verdict=failed(f"not with release {ctx.release.name}: {error}", error.reason))


def _at(ctx: Context[Any], release: str) -> Context[Any]:
    """Return the context with another release in its spec, of which nothing is checked."""
    spec = ctx.spec.model_copy(update={"release": release, "upgrade": type(ctx.spec.upgrade)()})
    running_release = ctx.release.name if release == ctx.spec.upgrade.check_release else release
    return replace(ctx, spec=spec, release=ctx.releases(spec), running_release=running_release)


def _begun_release(ctx: Context[Any]) -> str:
    """Return the latest release of live workloads and Jobs that is later than the running one; empty without one."""
    releases = [_annotation(obj) for obj in _later(ctx, ctx.running_release) if _component(obj) != CHECK]
    return max(releases, key=lambda release: place(release) or 0, default="")


def _later(ctx: Context[Any], release: str) -> list[Object]:
    """Return the live workloads and Jobs that were planned for a later release than this one."""
    if not release:
        return []
    planned = [obj for (kind, _), obj in ctx.children.items() if kind in {*WORKLOADS, "Job"} and _annotation(obj)]
    return [obj for obj in planned if is_earlier(release, _annotation(obj))]


def _annotation(obj: Object) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(RELEASE_ANNOTATION, ""))


def _component(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get("app.kubernetes.io/component", ""))


def _has_succeeded(ctx: Context[Any], check: Step) -> bool:
    """Return True if the Jobs of the check are complete."""
    jobs = [ctx.children.get(key(obj)) for obj in check.objects if obj["kind"] == "Job"]
    return check.verdict is None and all(job is not None and _is_complete(job) for job in jobs)


def _is_complete(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)
