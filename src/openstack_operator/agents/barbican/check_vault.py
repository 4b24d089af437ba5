"""Writes, reads and deletes a secret in the Vault of barbican.conf; ends with the reason if that does not work.

castellan takes the answer of a path without a KV engine for success: Barbican would lose every secret. The program also
writes the list of stores into the schema, before programs that start at the same time do.
"""

from __future__ import annotations

import secrets
import sys
from typing import Any


def problem(manager: Any, make: Any, failure: type[Exception]) -> str:
    """Return why the Vault cannot be used, an empty string if it can. `make` makes an object of castellan's of bytes,
    `failure` is the class of its errors; an answer of another shape raises others. Nothing that the server answers is
    in the text: the job's log has more readers than the Vault.
    """
    sample = secrets.token_bytes(16)
    try:
        id_ = manager.store(None, make(sample))
        value = manager.get(None, id_).get_encoded()
        manager.delete(None, id_)
    except (failure, LookupError, TypeError, ValueError) as error:
        name = type(error).__name__
        return {
            "Forbidden": "Vault denies access: check roleIdRef and secretIdRef, and that the policy of the "
            "role allows create, "
            "update, read and delete below MOUNT/data/",
            "KeyManagerError": "Vault cannot be reached, is sealed, or refuses the login: check the URL, caSecretRef, "
            "roleIdRef and secretIdRef",
            "ManagedObjectNotFoundError": "a written secret is missing: check that the mount is a KV "
            "engine of version 2",
        }.get(name, f"the server does not answer like Vault ({name}): check the URL, caSecretRef, and the login")
    return "" if value == sample else "Vault returns another secret than was written"


def main() -> int:
    """Return 0 if the Vault works; 1 if not, with the reason in the log."""
    from barbican.model import repositories  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    from barbican.plugin.vault_secret_store import (  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
        VaultSecretStore,
    )
    from castellan.common.exception import (  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
        CastellanException,
    )
    from castellan.common.objects.opaque_data import (  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
        OpaqueData,
    )

    if text := problem(VaultSecretStore().key_manager, OpaqueData, CastellanException):
        print(f"Vault: {text}")
        return 1
    repositories.setup_database_engine_and_factory(initialize_secret_stores=True)
    repositories.commit()
    print("Vault: a secret was written, read and deleted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
