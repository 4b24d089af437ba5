"""Archives of binary logs: a program for each database, and how far a restore can go by what it has stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ... import kube
from ...plan import Context, Object, State, Step, Verdict, failed, url_host, waiting
from ...plan.times import valid_time
from . import record
from .databases import Database
from .pods import Run

FACTS_PORT = 6670
"""Port at which a program that archives answers, as JSON over HTTP."""
SOON = timedelta(seconds=10)
"""Time until the next look."""
_LATE = timedelta(seconds=60)
"""Time behind now from which on an archive stands still."""
_LATE_REASON = "ArchiveLate"
_STATUS_PERIOD = timedelta(minutes=1)
"""The status says no later time than this one's last multiple: each write of it would be one at rest."""
_COMPONENT = "archive"
_MOST_FOREIGN = 10_000
"""Foreign objects that a program counts."""
_CHAIN = re.compile(r"[0-9A-Za-z-]{1,64}")
CAUSES: Mapping[str, str] = {
    "NoBinaryLog": "the database writes no binary log; set binaryLog.enabled of the MariaDB",
    "UnsupportedPosition": "the database has changes of another domain than 0, and an archive follows domain 0 alone",
    "PrimaryBehind": "the primary has not made the last change of the archive yet",
    "MemberDiverged": "a member does not have the last change of the archive; another one is asked",
    "LogPurged": "a member does not have the next changes any more; another one is asked",
    "LogSilent": "the connection to the binary log brings no changes; it is opened again",
    "LogUnreadable": "the binary log cannot be read",
    "DatabaseUnavailable": "the database does not answer, or refuses the account",
    "RepositoryUnavailable": "the repository does not answer, is full, or refuses the account",
    "ObjectDamaged": "an object of the archive was changed, or is missing",
    "Failed": "the program fails",
}
"""Errors of a program that archives, by its words for them. Its own texts are in its log: another pod may answer in its
place, and must not put words into conditions."""


def is_archiver(component: str | None) -> bool:
    """Return True for the component of a program that archives."""
    return (component or "").startswith(_COMPONENT)


def questions(ctx: Context[Any]) -> Mapping[str, str]:
    """Return the URL at which each program that archives answers, by the name of its pod."""
    return {
        pod["metadata"]["name"]: f"http://{url_host(pod['status']['podIP'])}:{FACTS_PORT}/"
        for pod in ctx.pods
        if is_archiver(pod["metadata"]["labels"].get(kube.COMPONENT)) and (pod.get("status") or {}).get("podIP")
    }


@dataclass(frozen=True)
class Archives:
    """The archives of all databases."""

    runs: Sequence[Run] = ()
    steps: Sequence[Step] = ()
    doors: Sequence[Step] = ()
    """Steps by which databases accept the programs."""
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """For the record: the `chain` of each database, and `since`, the time from which on it has all changes."""
    recoverable: datetime | None = None
    """Last second that a restore of all databases reaches, as far as the status says it."""
    wake: datetime | None = None
    """Time of the next look."""
    is_whole: bool = True
    """False if a database of the cloud has no archive, so that no restore of the cloud reaches a second."""

    def since(self) -> datetime | None:
        """Return the time from which on all archives have all changes; None if one has none."""
        if not self.is_whole:
            return None
        times = [valid_time(each.get("since")) for each in self.state.values()]
        return max(filter(None, times), default=None) if times and all(times) else None


def archives(
    ctx: Context[Any],
    databases: Sequence[Database],
    reports: Mapping[str, Mapping[str, Any] | None],
    stored: Mapping[str, Any],
    late: Sequence[str] = (),
) -> Archives:
    """Return the archives of these databases, from what their programs report, and from what was `state` before. The
    databases `late` do not say yet how they are reached.
    """
    runs = {database.name: _run(ctx, database) for database in databases}
    facts = {name: _fact(ctx, run, reports) for name, run in runs.items()}
    state = {name: _state(ctx, stored.get(name, {}), fact) for name, fact in facts.items()}
    steps = [
        Step(
            name=f"Archive {name}",
            objects=(run.deployment(ctx),),
            verdict=_verdict(ctx, name, facts[name], state[name]),
        )
        for name, run in runs.items()
    ]
    steps += [Step(name=f"Archive {name}", verdict=waiting(f"waiting for MariaDB/{name}")) for name in late]
    state |= {name: each for name, each in stored.items() if name in late}
    times = [*(_recoverable(fact) for fact in facts.values()), *(None for _ in late)]
    recoverable = min(filter(None, times), default=None) if times and all(times) else None
    doors = [Step(name="Doors", objects=tuple(door(ctx, database) for database in databases))]
    return Archives(
        runs=[*runs.values()],
        steps=steps,
        doors=doors,
        state=state,
        recoverable=_status_time(ctx, recoverable),
        wake=ctx.now + SOON,
    )


def _run(ctx: Context[Any], database: Database) -> Run:
    return Run(
        component=f"{_COMPONENT}-{database.name}",
        program="archive",
        parameters={
            **database.login(ctx),
            "members": list(database.members),
            "port_of_status": FACTS_PORT,
        },
        image=database.image,
        mounts=database.login_mounts(),
        memory="128Mi",
        ports={"facts": FACTS_PORT},
    )


def _fact(ctx: Context[Any], run: Run, reports: Mapping[str, Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """Return what the program says; None while it does not answer."""
    pods = [
        pod["metadata"]["name"]
        for pod in ctx.pods
        if pod["metadata"]["labels"].get(kube.COMPONENT) == kube.fitting(run.component)
    ]
    answers = [answer for pod in pods if isinstance(answer := reports.get(pod), dict)]
    return answers[0] if answers else None


def _state(ctx: Context[Any], before: Mapping[str, str], fact: Mapping[str, Any] | None) -> dict[str, Any]:
    if fact is None:
        # From the first look on at which it was silent: a restart of its pod takes some.
        return {"silentSince": record.stamp(ctx.now), **before}
    before = {name: value for name, value in before.items() if name != "silentSince"}
    chain = str(fact.get("chain") or "")
    if not _CHAIN.fullmatch(chain) or chain == before.get("chain"):
        return before
    # A new one has no changes of before: a restore to an earlier second takes an earlier chain, which ended.
    return {"chain": chain, "since": record.stamp(ctx.now)}


def _recoverable(fact: Mapping[str, Any] | None) -> datetime | None:
    return valid_time((fact or {}).get("lastRecoverableTime"))


def _verdict(ctx: Context[Any], name: str, fact: Mapping[str, Any] | None, state: Mapping[str, Any]) -> Verdict | None:
    """Return the verdict on an archive; None leaves it to its pod."""
    if fact is None:
        since = valid_time(state.get("silentSince"))
        if since is None or ctx.now - since < _LATE:
            return None
        return failed(
            f"the program that archives MariaDB/{name} does not answer; see its log", _LATE_REASON, serves=False
        )
    at, code = _recoverable(fact), str(fact.get("error") or fact.get("canaryError") or "")
    if at and -_LATE < ctx.now - at < _LATE:
        return Verdict(State.READY, foreign_objects(fact.get("foreignObjects")))
    if at is None and not code:
        return waiting(f"the archive of MariaDB/{name} has begun")
    reach = f"ends at {record.stamp(at)}" if at else "has nothing yet"
    cause = f": {CAUSES.get(code, CAUSES['Failed'])}" if code else ""
    log = f"see the log of Deployment {ctx.name(_COMPONENT, name)}"
    # Its pod runs, and does not do its work.
    return failed(f"the archive of MariaDB/{name} {reach}{cause}; {log}", _LATE_REASON, serves=False)


def foreign_objects(number: object) -> str:
    """Return a message about objects in the folders of an archive that are none of it; empty for anything but the
    positive number of these.
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        return ""
    return (
        f"{min(number, _MOST_FOREIGN)} objects in the folder archive/ of the repository are none of the archive, which"
        " does without them: see who can write there"
    )


def _status_time(ctx: Context[Any], at: datetime | None) -> datetime | None:
    """Return the time that the status says: that of an archive that stands still as it is, else a round one."""
    if at is None or ctx.now - at >= _LATE:
        return at
    return at - (at - datetime.fromtimestamp(0, at.tzinfo)) % _STATUS_PERIOD


def door(ctx: Context[Any], database: Database) -> Object:
    """Return the NetworkPolicy by which a database accepts the programs of this resource."""
    pods = {"podSelector": {"matchLabels": kube.pods_of(ctx.kind, ctx.owner)}}
    rule = {"from": [pods], "ports": [{"port": 3306, "protocol": "TCP"}]}
    return kube.network_policy(ctx, ctx.name("uses", database.name), kube.pods_of("MariaDB", database.name), [rule])
