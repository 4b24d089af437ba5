"""The jobs of an upgrade: the schema, a check before it, and what comes after the last program of the old release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ... import agents, kube
from ...plan import CHECK, COMPLETION, PREFLIGHT, UPGRADE, Context, Step
from .config import Config
from .workloads import ProgramSettings, job

_PLAIN = ProgramSettings()


def schema(
    ctx: Context[Any],
    command: Sequence[str],
    config: Config,
    *,
    after: Sequence[Step],
    program: ProgramSettings = _PLAIN,
) -> Step:
    """Return the job that makes or extends the schema. Of a schema that a newer release has extended, it changes
    nothing: an upgrade may be taken back.
    """
    words = agents.shell("schema/extend.sh", words=command)
    return job(ctx, "db-sync", words, config, after=after, condition="Schema", program=program)


def preflight(
    ctx: Context[Any],
    config: Config,
    *options: str,
    mounts: Callable[[str], Sequence[kube.Mount]] = lambda _: (),
    program: ProgramSettings = _PLAIN,
) -> Step | None:
    """Return the step of an upgrade that runs the service's own check, `<kind>-status`, with its configuration and its
    schema; None without an upgrade. Programs that run keep their configuration, so that the check has a Secret
    `<owner>-preflight` of its own, of which `mounts` returns further mounts by its name.
    """
    if not ctx.upgrades_from:
        return None
    name = kube.fitting(ctx.name("preflight"))
    (secret,) = config.objects
    copy = {**secret, "metadata": {**secret["metadata"], "name": name}}
    check_config = replace(config, secret=name, objects=(copy,))
    program = replace(
        program, mounts=(*program.mounts, *mounts(name)), env={**program.env, "CONFIG_DIGEST": config.digest}, retries=2
    )
    command = [f"{ctx.kind.lower()}-status", *options, "upgrade", "check"]
    step = job(ctx, CHECK, agents.shell("schema/preflight.sh", words=command), check_config, program=program)
    return replace(step, name=PREFLIGHT, objects=(copy, *step.objects), after=())


def completion(
    ctx: Context[Any],
    command: Sequence[str],
    config: Config,
    *,
    after: Sequence[Step],
    program: ProgramSettings = _PLAIN,
) -> tuple[Step, ...]:
    """Return the job of an upgrade that removes from the schema what only the old release needs, or moves rows to where
    the new one keeps them, once all of `after` run the new one; empty without an upgrade, and while the spec holds it.
    There is no way back then.
    """
    if not (ctx.upgrades_from and ctx.spec.upgrade.complete):
        return ()
    return (job(ctx, COMPLETION, command, config, after=after, condition=UPGRADE, program=program),)
