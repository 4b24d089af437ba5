"""Makes the domains of Keystone that its arguments name, and that do not exist.

Keystone looks for the users and groups of these domains in a directory, and no longer in its database. So the program
ends with the reason if there are some in the database, which Keystone would not find any more.
"""

from __future__ import annotations

import sys
import uuid

from keystone import exception, server  # pyright: ignore[reportMissingImports]
from keystone.common import provider_api, sql  # pyright: ignore[reportMissingImports]
from keystone.identity.backends.sql_model import Group, LocalUser  # pyright: ignore[reportMissingImports]
from keystone.server import backends  # pyright: ignore[reportMissingImports]


def make_domain(name: str) -> str:
    """Make the domain, and return its id."""
    resources = provider_api.ProviderAPIs.resource_api
    try:
        domain_id = uuid.uuid4().hex
        resources.create_domain(domain_id, {"id": domain_id, "name": name, "enabled": True})
        print(f"domain {name!r}: made")
    except exception.Conflict:
        domain_id = str(resources.get_domain_by_name(name)["id"])
    return domain_id


def stored_members(domain_id: str) -> str:
    """Return how many users and groups of the domain are in Keystone's database; empty text if none is."""
    with sql.session_for_read() as session:
        counts = {
            noun: int(session.query(table).filter_by(domain_id=domain_id).count())
            for noun, table in (("user", LocalUser), ("group", Group))
        }
    return " and ".join(f"{count} {noun}{'s' if count > 1 else ''}" for noun, count in counts.items() if count)


def main() -> None:
    """Make each domain, and then name all that a directory may not take over."""
    # Keystone would read them as its own.
    names, sys.argv[1:] = sys.argv[1:], []
    server.configure()
    backends.load_backends()
    domain_ids = {name: make_domain(name) for name in names}
    stored = [f"{members} of domain {name!r}" for name in names if (members := stored_members(domain_ids[name]))]
    if stored:
        sys.exit(
            f"Keystone's database has {', '.join(stored)}, which Keystone would then look for only in "
            "LDAP; delete them, or choose another domain for LDAP"
        )


if __name__ == "__main__":
    main()
