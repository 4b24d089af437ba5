"""Addresses and logins of remote sides, from what the engine gathered."""

from __future__ import annotations

from typing import Any

from ..api import Ref, SecretKeyRef
from ..parts.secrets.tls import TRUSTED
from ..plan import Context, MissingReference, SpecError, Transient


def published(ctx: Context[Any], ref: Ref, field: str) -> str:
    """Return what the referent publishes under this name. Raises Transient while it publishes nothing."""
    resolved = ctx.refs.get(ref)
    if resolved is None or not resolved.published.get(field):
        raise Transient(f"{ref.kind} {ref.name} has not published its {field} yet")
    return resolved.published[field]


def admin(ctx: Context[Any], ref: Ref, *keys: str, default: str = "") -> str:
    """Return the value of the first of these keys in the referent's administrator Secret; other operators name them
    otherwise. Raises Transient while there is none and no default.
    """
    secret = published(ctx, ref, "adminSecret")
    secret_data = ctx.secrets.get(secret, {})
    if not (value := next((secret_data[key] for key in keys if secret_data.get(key)), default)):
        raise Transient(f"Secret {secret} of {ref.kind} {ref.name} has no key {keys[0]!r} yet")
    return value


def password(ctx: Context[Any], ref: SecretKeyRef, path: str = "spec.passwordSecretRef") -> str:
    """Return the password the spec points at. Raises SpecError where there is none to use."""
    value = ctx.secrets.get(ref.name, {}).get(ref.key)
    if value is None:
        raise MissingReference(path, f"there is no Secret {ref.name!r} with a key {ref.key!r}")
    if not value or not value.isprintable():
        raise SpecError(path, f"key {ref.key!r} of Secret {ref.name!r} is empty or has more than one line")
    return value


def trust(ctx: Context[Any], ref: Ref) -> str:
    """Return the authorities of the referent's certificate in PEM; empty where it shows none."""
    resolved = ctx.refs.get(ref)
    return ctx.secrets.get(name, {}).get("ca.crt", "") if resolved and (name := resolved.published.get(TRUSTED)) else ""
