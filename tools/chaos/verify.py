"""Check that the cloud has every acknowledged write, and that its servers run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tools.localcluster.kubernetes import KubeError

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
    """Look for every acknowledged write. The result gets what is missing, by kind, as a problem."""
    for writer in writers:
        acknowledged = journal.acknowledged(writer.kind)
        result.acknowledged += len(acknowledged)
        if not acknowledged:
            result.problems.append(f"no {writer.kind} were acknowledged, so that none could be lost")
        try:
            missing = sorted(acknowledged - _patient(writer.kind, writer.present))
        except KubeError as error:
            result.problems.append(str(error))
            continue
        if missing:
            result.lost[writer.kind] = len(missing)
            result.problems.append(f"{len(missing)} acknowledged {writer.kind} are lost: {', '.join(missing[:5])}")


def _patient(subject: str, look: Callable[[], T]) -> T:
    """Return the answer of `look`, which is tried a few times. Raises KubeError if the cloud gives none."""
    error = ""
    for _ in range(_TRIES):
        try:
            return look()
        except Exception as failure:  # a look that fails is repeated, whatever it failed of
            error = f"{type(failure).__name__}: {failure}"[:300]
            time.sleep(_PAUSE)
    raise KubeError(f"{subject}: cannot be read: {error}")


def verify_members(site: Site, result: Result) -> None:
    """Check that every member of MariaDB holds the same rows."""
    try:
        before, after = (_patient("members of MariaDB", lambda: _rows_of_members(site)) for _ in range(2))
    except KubeError as error:
        result.problems.append(str(error))
        return
    if not before:
        result.problems.append("MariaDB has no member to look at")
    result.problems += [
        f"{member} lacks {len(names)} rows another member of MariaDB holds: {', '.join(sorted(names)[:5])}"
        for member, names in lacking(before, after).items()
    ]


def lacking(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return by member the rows that any member held `before` and this one lacks `after`. The second look begins after
    the first ended: writes go on while members are read one after the other, and no row is ever removed.
    """
    rows = set[str]().union(*before.values())
    return {member: names for member in sorted({*before, *after}) if (names := rows - after.get(member, set()))}


def _rows_of_members(site: Site) -> dict[str, set[str]]:
    """Return the names of rows by member; each answers once it has applied what the cluster had committed before the
    query.
    """
    script = (
        'exec mariadb -uroot -p"$(cat "$MARIADB_ROOT_PASSWORD_FILE")" -N'
        " -e 'SET SESSION wsrep_sync_wait = 1; SELECT name FROM chaos.acked'"
    )
    names = [pod["metadata"]["name"] for pod in site.members("mariadb-server")]
    return {name: set(site.run(name, "sh", "-c", script).split()) for name in names}


def verify_servers(
    api: Api, guests: Sequence[Guest], before: dict[str, str], result: Result, steady_nodes: set[str]
) -> None:
    """Check that servers are ACTIVE and answer, and that those of `steady_nodes` did not restart."""
    if not guests:
        return
    states, after = _patient("servers", lambda: statuses(api, guests)), boots(guests)
    away = sorted(node for node, state in states.items() if state != "ACTIVE")
    silent = sorted(node for node, boot in after.items() if not boot)
    restarted = sorted(node for node, boot in after.items() if boot and boot != before.get(node))
    undisturbed = len(guests) - len({*away, *silent, *restarted})
    words = [f"{undisturbed} of {len(guests)} ran on"] + [f"restarted: {', '.join(restarted)}"] * bool(restarted)
    result.servers = "; ".join(words)
    for problem, nodes in (("not ACTIVE", away), ("do not answer", silent)):
        if nodes:
            result.problems.append(f"servers {problem}: {', '.join(f'{node} {states[node]}' for node in nodes)}")
    if unexpected := sorted(set(restarted) & steady_nodes):
        result.problems.append(f"servers were started anew: {', '.join(unexpected)}")
