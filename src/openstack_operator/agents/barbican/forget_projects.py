"""Removes the secrets of projects that have been gone from Keystone for as many days as the argument says.

barbican-keystone-listener would do it at once, by notifications, for which Keystone would need a broker. A project is
gone if Keystone itself answers 404 for it, in JSON, to a user for whom it knows its own project. Any other answer ends
the program before it has changed anything. Days count from the first such answer, as long as each answer follows the
one before within two days. A table beside Barbican's stores both with the project of the user: a Keystone with another
one, such as an empty one, begins with no days.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

TABLE = "operator_gone_projects"
PAUSE = timedelta(days=2)
"""Days begin again after a longer time without an answer: the project may have been there meanwhile."""
OK, NOT_FOUND = 200, 404


class UnclearError(Exception):
    """Keystone gave an answer that says neither that a project exists nor that it is gone."""


def is_gone(get: Callable[[str], Any], project: str) -> bool:
    """Return True if Keystone says that it has no such project, False if it has. Raise UnclearError otherwise."""
    answer = get(project)
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise UnclearError(f"{answer.status_code} without JSON")
    project_part, error = body.get("project"), body.get("error")
    if answer.status_code == OK and isinstance(project_part, dict) and project_part.get("id") == project:
        return False
    if answer.status_code == NOT_FOUND and isinstance(error, dict) and error.get("code") == NOT_FOUND:
        return True
    raise UnclearError(f"{answer.status_code}")


def gone_projects(get: Callable[[str], Any], login: str, projects: Iterable[str]) -> set[str]:
    """Return the projects that Keystone does not have. Raise UnclearError for an answer that leaves a doubt, and if
    Keystone does not know `login`, the project of this program's user, before or afterwards.
    """
    if is_gone(get, login):
        raise UnclearError("Keystone's list lacks the project of Barbican's own user")
    missing = {project for project in projects if is_gone(get, project)}
    if is_gone(get, login):
        raise UnclearError("Keystone's list lacks the project of Barbican's own user")
    return missing


def due(first_seen: dict[str, datetime], now: datetime, days: int) -> list[str]:
    """Return the projects that have been gone for so many days."""
    return sorted(project for project, since in first_seen.items() if now - since >= timedelta(days=days))


def remove_all(remove: Callable[[str], Any], projects: Iterable[str]) -> list[str]:
    """Remove what these projects have, also if that fails for some of them, and return those for which it worked."""
    removed: list[str] = []
    for project in projects:
        try:
            remove(project)
        except Exception as error:
            # Its text may have what is in the database.
            print(f"project {project}: its secrets were not removed: {type(error).__name__}")
        else:
            print(f"project {project}: its secrets were removed")
            removed.append(project)
    return removed


def main() -> int:
    """Return 0 if all is done that can be done; 1 if Keystone does not say clearly which projects exist, and if what
    some project has cannot be removed.
    """
    from barbican.common import config  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    from barbican.model import repositories  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    from barbican.tasks.keystone_consumer import (  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
        KeystoneEventConsumer,
    )
    from keystoneauth1 import exceptions, loading  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

    days, section = int(sys.argv[1]), "keystone_authtoken"
    loading.register_auth_conf_options(config.CONF, section)
    loading.register_session_conf_options(config.CONF, section)
    auth: Any = loading.load_auth_from_conf_options(config.CONF, section)
    session: Any = loading.load_session_from_conf_options(config.CONF, section, auth=auth)
    identity = f"{auth.auth_url.rstrip('/').removesuffix('/v3')}/v3/projects"

    def get(project: str) -> Any:
        return session.get(f"{identity}/{project}", raise_exc=False, redirect=False, connect_retries=3)

    repositories.setup_database_engine_and_factory()
    projects = known_projects(repositories)
    try:
        login = session.get_project_id()
        missing = gone_projects(get, login, projects)
    except (UnclearError, exceptions.ClientException) as error:
        text = error if isinstance(error, UnclearError) else type(error).__name__
        print(f"Keystone does not list projects: {text}; nothing was removed")
        return 1
    first_seen, now = remember(repositories, login, missing)

    def remove(project: str) -> None:
        KeystoneEventConsumer().process(project_id=project, resource_type="project", operation_type="deleted")

    projects_due = due(first_seen, now, days)
    removed = remove_all(remove, projects_due)
    print(f"projects: {len(projects)}, gone: {len(missing)}, removed: {len(removed)}")
    return 0 if removed == projects_due else 1


def known_projects(repositories: Any) -> list[str]:
    """Return the ids in Keystone of all projects that have something in Barbican."""
    from barbican.model import models  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

    rows = repositories.get_session().query(models.Project).filter_by(deleted=False)
    projects = [row.external_id for row in rows if row.external_id]
    repositories.clear()
    return projects


def remember(repositories: Any, login: str, missing: set[str]) -> tuple[dict[str, datetime], datetime]:
    """Store since when each project is gone, and return it, with the time by the same clock: the database's. Projects
    that are back, those that a Keystone with another project of its own did not have, and those for which the last
    answer is too old are forgotten.
    """
    import sqlalchemy as sa  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

    table = sa.Table(
        TABLE,
        sa.MetaData(),
        sa.Column("project", sa.String(255), primary_key=True),
        sa.Column("login", sa.String(255), nullable=False),
        sa.Column("since", sa.DateTime, nullable=False),
        sa.Column("last", sa.DateTime, nullable=False),
    )
    engine = repositories.get_session().get_bind()
    table.create(engine, checkfirst=True)
    with engine.begin() as connection:
        now = connection.execute(sa.select(sa.func.current_timestamp())).scalar_one()
        forgotten = (
            table.c.project.not_in(missing),
            table.c.login != login,
            table.c.last < now - PAUSE,
            # The clock was ahead.
            table.c.last > now,
        )
        connection.execute(table.delete().where(sa.or_(*forgotten)))
        connection.execute(table.update().values(last=now))
        listed = {row.project for row in connection.execute(table.select())}
        for project in sorted(missing - listed):
            connection.execute(table.insert().values(project=project, login=login, since=now, last=now))
        first_seen = {row.project: row.since for row in connection.execute(table.select())}
    return first_seen, now


if __name__ == "__main__":
    sys.exit(main())
