"""Single schemas of a backup, which take the places of those of a cloud that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import kube
from ...plan import READY, Context, SpecError, Verdict, waiting
from . import databases
from .databases import Database
from .model import OpenStackRestoreSpec
from .pods import Image, Run
from .report import number

STAGES = ("Databases",)
"""Stages of such a restore once the operator has read the backup."""
_ADMIN, _ADMIN_SECRET = "root", "adminSecret"
_FOLDER = "/var/lib/backup"
_DEADLINE = 24 * 3600
"""Seconds after which Kubernetes ends the pod."""
_LONGEST_NAME = 64


def require_confirmation(ctx: Context[OpenStackRestoreSpec]) -> None:
    """Raise SpecError unless the spec confirms that a cloud which runs may be changed."""
    if ctx.spec.confirm != ctx.namespace:
        schemas = ", ".join(ctx.spec.only)
        text = f"this replaces the schemas {schemas} of the cloud that runs in {ctx.namespace!r}"
        raise SpecError("spec.confirm", f"{text}; if you want that, set confirm to {ctx.namespace!r}")


def entry_of(ctx: Context[OpenStackRestoreSpec], manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entry of the database with the schemas. Raise SpecError if the spec does not say which one it is."""
    entries = {entry["name"]: entry for entry in manifest["databases"]}
    names = ", ".join(sorted(entries))
    if not ctx.spec.database and len(entries) > 1:
        raise SpecError("spec.database", f"the backup has several databases: set this to one of {names}")
    name = ctx.spec.database or next(iter(entries), "")
    if name not in entries:
        raise SpecError("spec.database", f"the backup has no MariaDB/{name}; it has {names or 'none'}")
    return entries[name]


@dataclass(frozen=True, kw_only=True)
class Target:
    """The MariaDB that gets the schemas."""

    database: Database
    admin_secret: str
    """Secret with the password of root."""
    verdict: Verdict
    """READY while it serves clients."""


def target(ctx: Context[OpenStackRestoreSpec], name: str) -> Target | Verdict:
    """Return the MariaDB that gets the schemas; a verdict before it has said how clients reach it. Raise SpecError if
    this operator does not run it.
    """
    fact = next((each for each in ctx.facts.get("databases", ()) if each["name"] == name), None)
    if fact is None:
        return waiting(f"waiting for MariaDB/{name}, which gets the schemas")
    if not fact["workloads"]:
        text = f"this operator does not run the server of MariaDB/{name}; restore with the operator that does"
        raise SpecError("spec.database", text)
    verdict = waiting(f"waiting for a ready member of MariaDB/{name}")
    if not databases.is_published(fact) or _ADMIN_SECRET not in fact["published"]:
        return verdict
    database = databases.own_database(ctx, fact)
    is_ready = not [*databases.not_ready([fact])]
    admin_secret = fact["published"][_ADMIN_SECRET]
    return Target(database=database, admin_secret=admin_secret, verdict=READY if is_ready else verdict)


def run(
    ctx: Context[OpenStackRestoreSpec],
    entry: Mapping[str, Any],
    image: Image,
    archive: Mapping[str, str],
    uid: str,
    place: Target,
) -> Run:
    """Return the run that restores schemas from the entry of a database in a manifest, with `archive` to a second. It
    has the password of root, so it runs where the server may, whatever the manifest says.
    """
    database = place.database
    parameters = {
        **database.login(ctx),
        **archive,
        "user": _ADMIN,
        "schemas": list(ctx.spec.only),
        "restore": uid,
        "snapshot": entry["snapshot"],
        "server": entry["server"],
        "gtid": entry["gtid"],
        "folder": _FOLDER,
        "datadir": f"{_FOLDER}/data",
    }
    admin = kube.folder("admin", place.admin_secret, "/etc/backup/admin", files={"password": _ADMIN})
    return Run(
        component=f"schemas-{entry['name']}",
        program="schema_restore",
        parameters=parameters,
        image=replace(image, scheduling=database.image.scheduling),
        settings=kube.settings(ctx.spec),
        mounts=(admin, *database.trust_mounts(), *kube.scratch(_FOLDER, large=True)),
        memory="384Mi",
        deadline=_DEADLINE,
    )


def restored_rows(only: Sequence[str], stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the status, of the schemas of the spec."""
    results: Mapping[str, Mapping[str, Any]] = stored.get("databases", {})
    places: list[Any] = [each.get("places") for each in results.values()]
    rows: list[Any] = [row for each in places if isinstance(each, list) for row in each]
    return [
        {
            "name": row["name"],
            "tables": number(row.get("tables")),
            "rows": number(row.get("rows")),
            "earlier": str(row.get("earlier"))[:_LONGEST_NAME],
        }
        for row in rows
        if isinstance(row, dict) and row.get("name") in only
    ]
