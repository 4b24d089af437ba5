"""Makes the domains of Keystone that its arguments name, and that do not exist.

Keystone looks for the users of these domains in a directory, and no longer in its database. So the program ends with
the reason if there are users in the database who could not log in any more.
"""

from __future__ import annotations

import sys
import uuid

from keystone import exception, server  # pyright: ignore[reportMissingImports]
from keystone.common import provider_api, sql  # pyright: ignore[reportMissingImports]
from keystone.identity.backends.sql_model import LocalUser  # pyright: ignore[reportMissingImports]
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


def local_users(domain_id: str) -> int:
    """Return the number of users of the domain who are in Keystone's database."""
    with sql.session_for_read() as session:
        return int(session.query(LocalUser).filter_by(domain_id=domain_id).count())


def main() -> None:
    """Make each domain."""
    # Keystone would read them as its own.
    names, sys.argv[1:] = sys.argv[1:], []
    server.configure()
    backends.load_backends()
    for name in names:
        if users := local_users(make_domain(name)):
            sys.exit(
                f"domain {name!r} has {users} users in Keystone's database, who could not log in any more; "
                "delete them, or choose another domain for the directory"
            )


if __name__ == "__main__":
    main()
