"""The CronJob that removes the database rows of what users deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import kube
from ...api import Purge
from ...plan import Context, Step
from ..component_names import release_entry
from .config import Config
from .workloads import state


def purge(
    ctx: Context[Any], settings: Purge, command: Sequence[str], conf: Config, *, after: Sequence[Step]
) -> tuple[Step, ...]:
    """Return the step of CronJob `<owner>-purge`, which runs the command in the image of the API; none if it is turned
    off.
    """
    if not settings.enabled:
        return ()
    main = kube.Container(
        entry=release_entry(ctx, "api"),
        command=[*command],
        mounts=(*conf.mounts, *kube.scratch("/tmp", "/run", state(ctx))),  # noqa: S108
        memory="192Mi",
    )
    template = kube.pod(ctx, "purge", main, settings=kube.settings(ctx.spec, settings))
    return (
        Step(name="Purge", objects=(kube.cron_job(ctx, "purge", template, settings.schedule),), after=(conf, *after)),
    )
