"""Stores of secrets: the database, which the key-encryption key protects, and a Vault; both stay readable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import agents, kube, oslo, parts
from ...api import Sections
from ...plan import Context, MissingReference, Step
from .model import BarbicanSpec, Vault

_TRUST = "/etc/openstack-vault"
SIMPLE = "simple_crypto"


def sections(ctx: Context[BarbicanSpec]) -> Sections:
    """Return the options of the stores. A Barbican that never had a Vault has one store, without a list of them."""
    vault = ctx.spec.vault
    if vault is None:
        # Not by `config`: what is read with it has no TLS and no test.
        one_store = {"enabled_secretstore_plugins": "store_crypto", "enable_multiple_secret_stores": False}
        return {"secretstore": one_store}
    return {
        "secretstore": {
            "enabled_secretstore_plugins": ["store_crypto", "vault_plugin"],
            "enable_multiple_secret_stores": True,
            "stores_lookup_suffix": f"{SIMPLE},vault",
        },
        f"secretstore:{SIMPLE}": {
            "secret_store_plugin": "store_crypto",
            "crypto_plugin": SIMPLE,
            "global_default": vault.new_secrets == "database",
        },
        "secretstore:vault": {
            "secret_store_plugin": "vault_plugin",
            "global_default": vault.new_secrets == "vault",
        },
        "vault_plugin": _login(ctx, vault),
    }


def _login(ctx: Context[BarbicanSpec], vault: Vault) -> dict[str, Any]:
    role, secret = (ctx.secrets[ref.name][ref.key].strip() for ref in (vault.role_id_ref, vault.secret_id_ref))
    return {
        "vault_url": vault.url,
        "use_ssl": True,
        "kv_mountpoint": vault.mount,
        "approle_role_id": oslo.Verbatim(role),
        "approle_secret_id": oslo.Verbatim(secret),
        # castellan would take it before the role.
        "root_token_id": "",
        **({"namespace": vault.namespace} if vault.namespace else {}),
        **({"ssl_ca_crt_file": f"{_TRUST}/ca.crt"} if vault.ca_secret_ref else {}),
    }


def trust(ctx: Context[BarbicanSpec]) -> list[kube.Mount]:
    """Return the mount of the authorities of the Vault, and nothing else of that Secret. Raise MissingReference without
    `ca.crt`.
    """
    ref = ctx.spec.vault.ca_secret_ref if ctx.spec.vault else None
    if ref is None:
        return []
    if "ca.crt" not in ctx.secrets.get(ref.name, {}):
        raise MissingReference("spec.vault.caSecretRef", f"Secret {ref.name!r} has no key 'ca.crt'")
    source = {"secretName": ref.name, "defaultMode": 0o440, "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return [kube.Mount(name="vault", path=_TRUST, volume={"secret": source}, read_only=True)]


def check(ctx: Context[BarbicanSpec], conf: parts.Config, *, after: Sequence[Step]) -> tuple[Step, ...]:
    """Return the job that tries a Vault before programs use it, once for each configuration, since the login may be
    another; none without a Vault.
    """
    vault = ctx.spec.vault
    if vault is None:
        return ()
    command = ["python3", "-c", agents.text("barbican/check_vault.py")]
    # A user has to mend most of its failures, and should hear of them soon.
    program = parts.ProgramSettings(env={"CONFIG_DIGEST": conf.digest}, retries=1)
    return (parts.job(ctx, "check-vault", command, conf, after=after, condition="Vault", program=program),)
