"""Single schemas of a backup, which take the places of those of a cloud that runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import kube
from ...plan import Context, SpecError, Verdict, waiting
from . import databases
from .databases import Database
from .model import OpenStackRestoreSpec
from .pods import Image, Run

STAGES = ("Databases",)
"""Stages of such a restore once the operator has read the backup."""
_ADMIN, _ADMIN_SECRET = "root", "adminSecret"
_FOLDER = "/var/lib/backup"


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


def target(ctx: Context[OpenStackRestoreSpec], name: str) -> tuple[Database, Mapping[str, Any]] | Verdict:
    """Return the MariaDB that gets the schemas, with what it published; a verdict before it serves clients. Raise
    SpecError if this operator does not run it.
    """
    fact = next((each for each in ctx.facts.get("databases", ()) if each["name"] == name), None)
    if fact is None:
        return waiting(f"waiting for MariaDB/{name}, which gets the schemas")
    if not fact["workloads"]:
        text = f"this operator does not run the server of MariaDB/{name}; restore with the operator that does"
        raise SpecError("spec.database", text)
    is_ready = not [*databases.not_ready([fact])]
    if not (is_ready and databases.is_published(fact) and _ADMIN_SECRET in fact["published"]):
        return waiting(f"waiting for a ready member of MariaDB/{name}")
    [source], _ = databases.observed(ctx, [fact])
    return source, fact["published"]


def run(
    ctx: Context[OpenStackRestoreSpec],
    entry: Mapping[str, Any],
    image: Image,
    archive: Mapping[str, str],
    uid: str,
    place: tuple[Database, Mapping[str, Any]],
) -> Run:
    """Return the run that restores schemas from the entry of a database in a manifest, with `archive` to a second."""
    database, published = place
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
    admin = kube.folder("admin", published[_ADMIN_SECRET], "/etc/backup/admin", files={"password": _ADMIN})
    return Run(
        component=f"schemas-{entry['name']}",
        program="schema_restore",
        parameters=parameters,
        image=image,
        settings=kube.settings(ctx.spec),
        mounts=(admin, *database.trust_mounts(), *kube.scratch(_FOLDER, large=True)),
        memory="384Mi",
    )


def restored_rows(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the status."""
    results: Mapping[str, Mapping[str, Any]] = stored.get("databases", {})
    rows: list[Mapping[str, Any]] = [row for result in results.values() for row in result.get("places", ())]
    return [{name: row.get(name) for name in ("name", "tables", "rows", "earlier")} for row in rows]
