"""Print facts about a service's database that its own check before an upgrade does not tell, or not by name: a line
each, which begins with Failure or Warning, with what to do. CONFIG_FILE has the connection, RECORDS_OF the service
whose programs have records, if there is one, TABLES the names of tables that the new schema writes again as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from oslo_config import cfg  # pyright: ignore[reportMissingImports]
from sqlalchemy import create_engine, text  # pyright: ignore[reportMissingImports]

Rows = Sequence[Sequence[Any]]

DOWN = timedelta(hours=1)
"""Time after which a service that does not report is no service that starts again, but one that is away."""
LARGE = 1_000_000
"""Rows. To write as many takes some ten seconds on usual disks, in which who changes the table waits."""
MOST, LONGEST = 5, 150
"""Services that a line names, and letters of each."""


def url(section: str) -> str:
    """Return the connection in a section of the configuration."""
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.StrOpt("connection", secret=True), section)
    conf([], prog="facts", default_config_files=[os.environ["CONFIG_FILE"]], default_config_dirs=[])
    return str(conf[section].connection)


def rows(connection: str, query: str, **values: object) -> Rows:
    """Return the rows of a query. A name in the database must not begin another fact."""
    with create_engine(connection).connect() as database:
        return [tuple(map(printable, row)) for row in database.execute(text(query), values)]


def printable(value: Any) -> Any:
    """Return a value, a text with `?` for what ends a line or moves a cursor."""
    return "".join(each if each.isprintable() else "?" for each in value) if isinstance(value, str) else value


def limit() -> str:
    """Return the time before which a service that runs has not reported last."""
    return f"{datetime.now(UTC) - DOWN:%Y-%m-%d %H:%M:%S}"


def join(services: Iterable[str]) -> str:
    """Return the names of services, the first ones of many."""
    names = sorted(name[:LONGEST] for name in services)
    return ", ".join(names[:MOST]) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")


def nova() -> Iterator[str]:
    """Yield what the records of services say, and whether rows were moved to where Nova looks for them."""
    # Images of other services do not have it.
    from nova.objects import service  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

    oldest_release = service.OLDEST_SUPPORTED_SERVICE_VERSION
    oldest = service.SERVICE_VERSION_ALIASES[oldest_release]
    old, down, unmoved = list[str](), list[str](), 0
    cells = rows(url("api_database"), "SELECT database_connection FROM cell_mappings")
    # Only that of cell0 is a template, in which no service runs.
    for connection in (str(cell[0]) for cell in cells if "{" not in str(cell[0])):
        query = "SELECT host, `binary`, uuid, version, COALESCE(last_seen_up, created_at) < :limit FROM services"
        for host, program, uuid, version, is_down in rows(connection, f"{query} WHERE deleted = 0", limit=limit()):
            if program == "nova-compute" and (version or 0) < oldest:
                old.append(f"{host} (ID {uuid})")
            elif is_down:
                down.append(f"{program} on {host} (ID {uuid})")
        query = "SELECT COUNT(*) FROM instances WHERE deleted = 0 AND host IS NOT NULL AND node IS NOT NULL"
        unmoved += rows(connection, f"{query} AND compute_id IS NULL")[0][0]
    delete = "delete the record of a removed node: openstack compute service delete ID"
    if old:
        yield (
            f"Failure: nova-compute on {join(old)} is older than this release supports. Bring these nodes to"
            f" {oldest_release} or later first, or {delete}"
        )
    if down:
        yield (
            f"Warning: no report to Nova from {join(down)} for more than an hour. Bring the node back before"
            f" the last step, or {delete}. Nova uses the RPC version of its oldest record, which may block the "
            f"next upgrade"
        )
    if unmoved:
        yield (
            f"Warning: online data migrations of Nova skipped {unmoved} servers. The last step of"
            " the upgrade repeats them; its log names servers on unknown nodes"
        )


def cinder() -> Iterator[str]:
    """Yield what the records of services say."""
    query = "SELECT host, `binary` FROM services WHERE deleted = 0 AND updated_at < :limit"
    if down := [f"{program} on {host}" for host, program in rows(url("database"), query, limit=limit())]:
        yield (
            f"Warning: no report to Cinder from {join(down)} for more than an hour. Start it, or remove"
            " its record in a pod of the API: cinder-manage service remove BINARY HOST. Cinder uses the"
            " RPC version of its oldest record"
        )


def tables(names: Sequence[str]) -> Iterator[str]:
    """Yield those of these tables that are large."""
    query = "SELECT table_name, table_rows FROM information_schema.tables WHERE table_schema = DATABASE()"
    for name, count in rows(url("database"), query):
        if name in names and (count or 0) >= LARGE:
            yield (
                f"Warning: the migration rewrites the table {name} of about {count} rows, and blocks"
                " writes to it meanwhile. Upgrade at a quiet time"
            )


RECORDS: Mapping[str, Callable[[], Iterator[str]]] = {"nova": nova, "cinder": cinder}
"""Facts in the records of a service's programs."""


def main() -> None:
    """Print the facts."""
    service, names = os.environ["RECORDS_OF"], os.environ["TABLES"].split()
    for fact in (*(RECORDS[service]() if service else ()), *(tables(names) if names else ())):
        print(fact)


if __name__ == "__main__":
    main()
