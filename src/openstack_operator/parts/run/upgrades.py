"""The jobs of an upgrade: the schema, a check before it, and what comes after the last program of the old release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ... import agents, kube
from ...plan import CHECK, COMPLETION, PREFLIGHT, UPGRADE, Context, Step, is_earlier
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
    with_records: bool = False,
    passed_over: Sequence[str] = (),
    mounts: Callable[[str], Sequence[kube.Mount]] = lambda _: (),
    program: ProgramSettings = _PLAIN,
) -> Step | None:
    """Return the step of an upgrade that runs the service's own check, `<kind>-status`, with its configuration and its
    schema, and looks at facts that this does not tell; None without an upgrade. What fails blocks the upgrade, warnings
    are the message of a success, and results of the names in `passed_over` count for nothing. `with_records` also looks
    at the records of the service's programs, of which its check knows too little (`agents/schema/facts.py`). Programs
    that run keep their configuration, so that the check has a Secret `<owner>-preflight` of its own, of which `mounts`
    returns further mounts by its name.
    """
    if not ctx.upgrades_from:
        return None
    name = kube.fitting(ctx.name("preflight"))
    (secret,) = config.objects
    copy = {**secret, "metadata": {**secret["metadata"], "name": name}}
    check_config = replace(config, secret=name, objects=(copy,))
    env = {
        "CONFIG_DIGEST": config.digest,
        "TERMINATION_LOG": "/dev/termination-log",
        **({"PASSED_OVER": ",".join(passed_over)} if passed_over else {}),
        **_facts(ctx, config, with_records=with_records),
    }
    program = replace(program, mounts=(*program.mounts, *mounts(name)), env={**program.env, **env}, retries=2)
    service_check = [f"{ctx.kind.lower()}-status", *options, "upgrade", "check"]
    command = ["python3", "-c", agents.text("schema/preflight.py"), *service_check]
    step = job(ctx, CHECK, command, check_config, program=program)
    (check,) = step.objects
    return replace(step, name=PREFLIGHT, objects=(copy, kube.reporting(check)), after=())


def _facts(ctx: Context[Any], config: Config, *, with_records: bool) -> dict[str, str]:
    """Return the variables of the program that looks at facts in the database; none without such facts."""
    rewritten = ctx.release.rewrites.get(ctx.kind.lower(), {})
    tables = sorted(table for table, release in rewritten.items() if is_earlier(ctx.upgrades_from, release))
    if not tables and not with_records:
        return {}
    return {
        "FACTS": agents.text("schema/facts.py"),
        "RECORDS_OF": ctx.kind.lower() if with_records else "",
        "TABLES": " ".join(tables),
        "CONFIG_FILE": f"{config.directory}/{config.files[0]}",
    }


def completion(
    ctx: Context[Any],
    command: Sequence[str],
    config: Config,
    *,
    after: Sequence[Step] = (),
    program: ProgramSettings = _PLAIN,
) -> tuple[Step, ...]:
    """Return the job of an upgrade that removes from the schema what only the old release needs, or moves rows to where
    the new one keeps them; empty without an upgrade, and while the spec holds it. It comes after all programs of the
    service (`plan_upgrade`), and after the steps in `after`. There is no way back then.
    """
    if not (ctx.upgrades_from and ctx.spec.upgrade.complete):
        return ()
    return (job(ctx, COMPLETION, command, config, after=after, condition=UPGRADE, program=program),)
