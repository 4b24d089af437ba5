"""An upgrade of the cloud: every service checks the new release, and then all get it; their workloads take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ... import kube
from ...api import ServiceSpec, Template
from ...kube.own_images import BUILD, CORRECT
from ...kube.pod_reasons import IMAGE_PULL
from ...plan import (
    PREFLIGHT,
    READY,
    UPGRADE,
    UPGRADE_HELD,
    Context,
    Key,
    Object,
    SpecError,
    State,
    Step,
    Verdict,
    check_hop,
    check_way_back,
    condition_type,
    shared_fields,
    waiting,
)
from . import backup
from .model import CloudUpgrade, ControlPlaneSpec


@dataclass(frozen=True)
class CloudReleases:
    """Releases of the resources of a cloud."""

    spec: ControlPlaneSpec
    """The spec of the cloud with the release that its resources get, and the one that they check."""
    steps: tuple[Step, ...] = ()
    """A step with what the checks say, and one of a backup; none without."""
    ahead: frozenset[Key] = frozenset()
    """Resources that keep the release of the spec while the others check it: users upgraded each alone before its
    cloud, and it may have no way back.
    """
    target: str = ""
    """Release that these keep."""

    def of(self, ctx: Context[ControlPlaneSpec], name: Key) -> Context[ControlPlaneSpec]:
        """Return the context with the release of a resource."""
        update = {"release": self.target, "upgrade": CloudUpgrade()} if name in self.ahead else {}
        return replace(ctx, spec=self.spec.model_copy(update=update))


def releases(ctx: Context[ControlPlaneSpec], templates: Mapping[Key, Template | None], path: str) -> CloudReleases:
    """Return the releases of a cloud: in an upgrade that which runs, with a check of the new one, until the checks of
    all services succeed. `templates` are those of the enabled resources; `path` is the path of the release in the spec
    that users write. Raises SpecError for an upgrade that OpenStack does not support.
    """
    spec = ctx.spec
    following = [name for name, template in templates.items() if _follows(template)]
    ahead = frozenset(name for name in following if ctx.upgrades_from and _is_ahead(ctx, name))
    checking = [name for name in following if name not in ahead]
    _check(lambda: check_way_back(ctx), path, backup.way_back(ctx))
    backup_steps = tuple(filter(None, (backup.stored_backup(ctx),)))
    if not ctx.upgrades_from:
        checked = spec.upgrade.check_release
        if not checked:
            return CloudReleases(spec, backup_steps)
        _check_hop(spec.release, checked, path.removesuffix("release") + "upgrade.checkRelease")
        return CloudReleases(spec, (*backup_steps, _checks(ctx, checking, checked)))
    if _has_begun(ctx, checking) or (ahead and not any(name in ctx.children for name in checking)):
        complete, steps = spec.upgrade.complete, backup_steps
        if complete and not _may_complete_already(ctx, checking):
            is_next = all(_awaits_the_last_step(ctx, name) for name in following)
            field = path.removesuffix("release") + "upgrade.backup"
            # One that has begun goes on, whatever the services do meanwhile.
            steps = tuple(filter(None, (backup.before_last_step(ctx, field),))) if is_next or steps else ()
            complete = is_next and all(step.verdict is READY for step in steps)
        return CloudReleases(spec.model_copy(update={"upgrade": CloudUpgrade(complete=complete)}), steps)
    _check_hop(ctx.upgrades_from, spec.release, path)
    checks = _checks(ctx, checking, spec.release)
    if checks.verdict and checks.verdict.ready:
        return CloudReleases(spec.model_copy(update={"upgrade": CloudUpgrade(complete=False)}))
    running_spec = spec.model_copy(
        update={"release": ctx.upgrades_from, "upgrade": CloudUpgrade(check_release=spec.release)},
    )
    return CloudReleases(running_spec, (checks,), ahead, spec.release)


def _check_hop(running_release: str, target: str, path: str) -> None:
    _check(lambda: check_hop(running_release, target), path)


def _check(check: Callable[[], None], path: str, way_back: str = "") -> None:
    """Run a check of the release. Its SpecError names the field as users of the cloud write it, and the backup that
    leads back, if there is one.
    """
    try:
        check()
    except SpecError as error:
        hint = f": OpenStackBackup/{way_back}, see docs/how-to/upgrade.md" if way_back else ""
        raise SpecError(path, f"{error.problems[0][1]}{hint}") from None


def _may_complete_already(ctx: Context[ControlPlaneSpec], checking: list[Key]) -> bool:
    """Return True if a resource may run its last step already: then it is too late to hold the others."""
    specs = [(ctx.children.get(name) or {}).get("spec") or {} for name in checking]
    new = [spec.get("upgrade") or {} for spec in specs if spec.get("release") == ctx.spec.release]
    return any(upgrade.get("complete", True) for upgrade in new)


def _awaits_the_last_step(ctx: Context[ControlPlaneSpec], name: Key) -> bool:
    """Return True if all programs of a service have the new release, and nothing but its last step is left. It is held
    until this is so of all services, so that the whole cloud can go back until then.
    """
    live = ctx.children.get(name) or {}
    status = live.get("status") or {}
    if status.get("observedGeneration") != (live.get("metadata") or {}).get("generation"):
        return False
    by_type = kube.conditions(live)
    last = condition_type(UPGRADE)
    other_conditions = [
        each for type_, each in by_type.items() if type_ == condition_type(type_) and type_ not in {"Ready", last}
    ]
    is_held = by_type.get(last, {}).get("reason") == UPGRADE_HELD
    return (is_held or _is_completed(ctx, name)) and all(each["status"] == "True" for each in other_conditions)


def _follows(template: Template | None) -> bool:
    """Return True for a service of OpenStack that takes its release from the cloud."""
    return isinstance(template, ServiceSpec) and "release" not in template.model_fields_set


def _is_completed(ctx: Context[ControlPlaneSpec], name: Key) -> bool:
    """Return True if the release of the spec runs completely in a resource."""
    return ((ctx.children.get(name) or {}).get("status") or {}).get("release") == ctx.spec.release


def _is_ahead(ctx: Context[ControlPlaneSpec], name: Key) -> bool:
    """Return True if a resource has the release of the spec for itself, or runs it completely."""
    live = ctx.children.get(name)
    return live is not None and ((_has_release(ctx, live) and not _is_of_cloud(live)) or _is_completed(ctx, name))


def _has_release(ctx: Context[ControlPlaneSpec], live: Object) -> bool:
    return (live.get("spec") or {}).get("release") == ctx.spec.release


def _is_of_cloud(live: Object) -> bool:
    """Return True if a resource got its release from the cloud, and not from its own template."""
    return "release" in shared_fields(live["metadata"].get("annotations") or {})


def _has_begun(ctx: Context[ControlPlaneSpec], checking: list[Key]) -> bool:
    """Return True if a resource got the release, which it does once all have checked it."""
    return any(_has_release(ctx, live) for name in checking if (live := ctx.children.get(name)))


def _checks(ctx: Context[ControlPlaneSpec], checking: list[Key], release: str) -> Step:
    """Return the step with the verdict on all checks, which has their warnings if all succeeded."""
    verdicts = {name: _verdict(ctx.children.get(name), release) for name in checking}
    pending = {name: verdict for name, verdict in verdicts.items() if not verdict.ready}
    if not pending:
        warnings = [f"{name[1]}: {verdict.message}" for name, verdict in verdicts.items() if verdict.message]
        return Step(name=PREFLIGHT, verdict=Verdict(State.READY, "; ".join(warnings)))
    worst = max(verdict.state for verdict in pending.values())
    if no_images := _without_images(pending, release):
        return Step(name=PREFLIGHT, verdict=no_images)
    texts = [f"{name[1]}: {verdict.message}" for name, verdict in pending.items() if verdict.state is worst]
    reason = next((v.reason for v in pending.values() if v.state is worst and v.reason), "")
    return Step(name=PREFLIGHT, verdict=Verdict(worst, f"check of release {release}: {'; '.join(texts)}", reason))


def _without_images(pending: Mapping[Key, Verdict], release: str) -> Verdict | None:
    """Return one verdict on all services whose check cannot start, since the nodes lack its image; None without one."""
    lacking = {name[1]: verdict for name, verdict in pending.items() if verdict.reason == IMAGE_PULL}
    if not lacking:
        return None
    state = max(verdict.state for verdict in lacking.values())
    message = next(iter(lacking.values())).message
    if BUILD in message and CORRECT not in message:
        options = f"--release {release}"
        message = (
            f"build and load the images of {release}: `{BUILD} {options}`, then `python -m images load {options}`, or"
            " push them to a registry (docs/how-to/upgrade.md)"
        )
    names = ", ".join(sorted(lacking))
    return Verdict(
        state, f"check of release {release}: the nodes cannot get its images, for {names}; {message}", IMAGE_PULL
    )


def _verdict(live: Object | None, release: str) -> Verdict:
    """Return what a resource says about its check of a release."""
    if live is None or (live["spec"].get("upgrade") or {}).get("checkRelease") != release:
        return waiting("has not begun")
    condition = kube.conditions(live).get(condition_type(PREFLIGHT))
    # A condition that an earlier pass left behind has an older generation than the status.
    if condition is None or condition.get("observedGeneration") != live["metadata"]["generation"]:
        return waiting("has not begun")
    reason, message = condition.get("reason", ""), kube.as_owner_says(live, condition.get("message", ""))
    if condition["status"] == "True":
        return Verdict(State.READY, message)
    # Unknown: the API server or a permission was out of reach for a moment.
    has_failed = condition["status"] == "False" and reason not in {"Progressing", "Waiting"}
    return Verdict(State.FAILED if has_failed else State.PROGRESSING, message, reason)
