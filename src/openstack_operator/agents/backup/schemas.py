"""Schemas that services use, found by a table that the schema of one service has, and no other."""

from __future__ import annotations

from collections.abc import Callable

RESTORE_TABLE = "openstack_operator_restore"
"""Table in the schemas that a restore of single schemas leaves beside those in use: staged and earlier data."""
REVISION_TABLE = "alembic_version"
_SCHEMAS_WITH = (
    "SELECT table_schema FROM information_schema.tables WHERE table_name = '{table}'"
    " AND table_schema REGEXP '^[A-Za-z0-9_]+$' AND table_schema NOT IN"
    " (SELECT table_schema FROM information_schema.tables WHERE table_name = '{marker}') ORDER BY table_schema"
)


def schemas_with(ask: Callable[[str], str], table: str) -> list[str]:
    """Return the schemas in use that have a table, by a function from a statement to a server's lines. Their names need
    no quotes.
    """
    return ask(_SCHEMAS_WITH.format(table=table, marker=RESTORE_TABLE)).split()


def answer_lines(text: str) -> list[str]:
    """Return the lines of a server's answer: a value may have other characters at which Python would split a text."""
    return [line for line in text.split("\n") if line]


def revision(ask: Callable[[str], str], schema: str) -> str:
    """Return the revision of a schema that has REVISION_TABLE; empty if it lost its own."""
    statement = f"SELECT version_num FROM {schema}.{REVISION_TABLE}"  # noqa: S608  (a plain name, by `schemas_with`)
    return ",".join(sorted(ask(statement).split()))
