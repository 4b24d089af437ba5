"""Whether everything that was acknowledged is there, and the servers with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from cloud.kubernetes import CloudError

from .api import Api
from .journal import Journal
from .load import Writer
from .scenario import Result
from .servers import Guest, boots, statuses
from .site import Site

T = TypeVar("T")
_TRIES = 6
_PAUSE = 5.0


def verify(journal: Journal, writers: Sequence[Writer], result: Result) -> None:
    """Every acknowledged write is looked for; what is missing is in the result, by kind, as a problem."""
    for writer in writers:
        wanted = journal.acknowledged(writer.kind)
        result.acknowledged += len(wanted)
        try:
            missing = sorted(wanted - _patient(writer.kind, writer.present))
        except CloudError as error:
            result.problems.append(str(error))
            continue
        if missing:
            result.lost[writer.kind] = len(missing)
            result.problems.append(f"{len(missing)} acknowledged {writer.kind} are lost: {', '.join(missing[:5])}")


def _patient(what: str, look: Callable[[], T]) -> T:
    """The answer of `look`, which is tried a few times. Raises CloudError where the cloud does not say."""
    error = ""
    for _ in range(_TRIES):
        try:
            return look()
        except Exception as failure:  # a look that fails is repeated, whatever it failed of
            error = f"{type(failure).__name__}: {failure}"[:300]
            time.sleep(_PAUSE)
    raise CloudError(f"{what}: cannot be read: {error}")


def verify_members(site: Site, result: Result) -> None:
    """Every member of MariaDB holds the same rows."""
    try:
        first, second = (_patient("members of MariaDB", lambda: _rows_of_members(site)) for _ in range(2))
    except CloudError as error:
        result.problems.append(str(error))
        return
    result.problems += [
        f"{member} lacks {len(names)} rows another member of MariaDB holds: {', '.join(sorted(names)[:5])}"
        for member, names in lacking(first, second).items()
    ]


def lacking(first: dict[str, set[str]], second: dict[str, set[str]]) -> dict[str, set[str]]:
    """Rows by member that any member held at the first look and this one not at the second, begun after the first
    ended: rows go on being written while members are asked one after the other, and none is ever removed.
    """
    known = set[str]().union(*first.values())
    return {member: names for member in sorted({*first, *second}) if (names := known - second.get(member, set()))}


def _rows_of_members(site: Site) -> dict[str, set[str]]:
    """Names of rows by member; each answers once it has applied what the cluster had committed when it was asked."""
    script = (
        'exec mariadb -uroot -p"$(cat "$MARIADB_ROOT_PASSWORD_FILE")" -N'
        " -e 'SET SESSION wsrep_sync_wait = 1; SELECT name FROM chaos.acked'"
    )
    names = [pod["metadata"]["name"] for pod in site.members("mariadb-server")]
    return {name: set(site.run(name, "sh", "-c", script).split()) for name in names}


def verify_servers(api: Api, guests: Sequence[Guest], before: dict[str, str], result: Result, kept: set[str]) -> None:
    """Servers are ACTIVE and answer; those of the nodes `kept` were not started anew."""
    if not guests:
        return
    states, after = _patient("servers", lambda: statuses(api, guests)), boots(guests)
    away = sorted(node for node, state in states.items() if state != "ACTIVE")
    silent = sorted(node for node, boot in after.items() if not boot)
    restarted = sorted(node for node, boot in after.items() if boot and boot != before.get(node))
    running = len(guests) - len({*away, *silent, *restarted})
    words = [f"{running} of {len(guests)} ran on"] + [f"restarted: {', '.join(restarted)}"] * bool(restarted)
    result.servers = "; ".join(words)
    for what, nodes in (("not ACTIVE", away), ("do not answer", silent)):
        if nodes:
            result.problems.append(f"servers {what}: {', '.join(f'{node} {states[node]}' for node in nodes)}")
    if unexpected := sorted(set(restarted) & kept):
        result.problems.append(f"servers were started anew: {', '.join(unexpected)}")
