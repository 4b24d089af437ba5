"""Read a northbound database of OVN while it serves, as a file for the next program of the pod; in the image of OVN."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .run import RunError, main, run_child, settings

FACTS = "facts.json"
_TIMEOUT = 120
"""Seconds in which a member answers."""
_READABLE = 0o644
"""The next program runs as another user."""


def read(config: Path) -> dict[str, Any]:
    """Write the database, in the format of one server, to the file that run.json names, and `schema`, its version, to
    facts.json beside it; return the latter. Raise RunError: there is no such file then.
    """
    run = settings(config)
    folder = Path(run["folder"])
    path, fresh = folder / run["file"], folder / f"{run['file']}.new"
    # Any member answers with one state of the whole database; by default it would have to be the leader.
    words = [f"--timeout={_TIMEOUT}", *_certificate(config, run), "backup", run["connection"], run["database"]]
    fresh.write_text(run_child("ovsdb-client", *words), encoding="utf-8")
    if (name := run_child("ovsdb-tool", "db-name", str(fresh)).strip()) != run["database"]:
        raise RunError(f"the database of {run['connection']} is {name!r}, not {run['database']!r}")
    facts = {"schema": run_child("ovsdb-tool", "db-version", str(fresh)).strip()}
    (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")
    for each in (fresh, folder / FACTS):
        each.chmod(_READABLE)
    fresh.rename(path)
    return facts


def _certificate(config: Path, run: Mapping[str, Any]) -> list[str]:
    """Return the options by which a member knows this client, and the other way round."""
    if not run["tls"]:
        return []
    files = {"private-key": "tls.key", "certificate": "tls.crt", "ca-cert": "ca.crt"}
    return [f"--{option}={config}/tls/{file}" for option, file in files.items()]


if __name__ == "__main__":
    main(read)
