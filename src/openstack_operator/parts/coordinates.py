"""Servers that are not looked after here: where they are and how to log in, as the spec and a Secret say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .. import kube
from ..api import AppCredentialRef, DatabaseSource, LoginSecretRef
from ..plan import Context, Incomplete, MissingReference, SpecError
from .clouds_yaml import cloud_auth
from .tls import authority, trust_in


@dataclass(frozen=True)
class Login:
    """What a Secret of the user's says of a server; a key that is empty counts as missing."""

    field: str
    """Path of the reference to it."""
    secret: str
    data: Mapping[str, str]

    def __getitem__(self, key: str) -> str:
        """A value there must be. Raises MissingReference naming field, Secret and key."""
        if found := self.get(key):
            return found
        fault = "is empty" if key in self.data else "is missing"
        raise MissingReference(self.field, f"key {key!r} of Secret {self.secret!r} {fault}")

    def get(self, key: str) -> str:
        """A value that may be missing, as empty text then. Raises Incomplete for what is no text of one line."""
        found = self.data.get(key, "")
        if not found.isprintable():
            raise Incomplete(self.field, f"key {key!r} of Secret {self.secret!r} is no text of one line")
        return found

    def matching(self, key: str, pattern: str, what: str) -> str:
        """A value that may be missing, of that pattern. Raises Incomplete that says `what` it is not."""
        found = self.get(key)
        if found and not re.fullmatch(pattern, found):
            raise Incomplete(self.field, f"key {key!r} of Secret {self.secret!r} is not {what}")
        return found

    @property
    def account(self) -> str:
        """`user:password`, as URLs have it."""
        return f"{quote(self['username'], safe='')}:{quote(self['password'], safe='')}"

    @property
    def trust(self) -> str:
        """Path of the authorities the server is checked by; empty where it is spoken to in plain text."""
        return trust_in(self.secret) if authority(self.data) else ""


def login(ctx: Context[Any], ref: LoginSecretRef, field: str) -> Login:
    """What the Secret says that the spec names at `field`. Raises MissingReference where there is none."""
    if ref.name not in ctx.secrets:
        raise MissingReference(f"{field}{ref.field}", f"there is no Secret {ref.name!r} in this namespace")
    return Login(field, ref.name, ctx.secrets[ref.name])


_HOST = r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?"


def address(at: Login, host: str | None, port: int | None, otherwise: tuple[str, int]) -> tuple[str, int]:
    """(host, port) as the spec says, or else the Secret, or else `otherwise`. Raises SpecError."""
    told = at.matching("port", "[0-9]{1,5}", "a number of a port")
    return (
        host or at.matching("host", _HOST, "a DNS name or an IPv4 address") or otherwise[0],
        port or int(told or otherwise[1]),
    )


def schema_of(ctx: Context[Any], source: DatabaseSource, otherwise: str, *, path: str = "spec.database") -> str:
    """Name of a schema as the spec says, or else the Secret, or else `otherwise`. Raises SpecError."""
    if source.database or source.secret_ref is None:
        return source.database or otherwise
    at = login(ctx, source.secret_ref, f"{path}.secretRef")
    return at.matching("database", "[A-Za-z0-9_]{1,64}", "a schema's name of letters, digits and _") or otherwise


def remembered(ctx: Context[Any], name: str, server: str, path: str) -> kube.Object:
    """Secret `<owner>-<name>` that keeps where the tables are, since the schema is made once and data does not move by
    itself: what names another server later may be a slip. Raises SpecError then.
    """
    secret = kube.secret(ctx, ctx.name(name), {"server": server})
    named = secret["metadata"]["name"]
    known = kube.secret_data(ctx.children.get(("Secret", named))).get("server", server)
    if known != server:
        text = (
            f"the tables are on {known}, and this is {server}; move them and delete Secret {named!r}, or take it back"
        )
        raise SpecError(path, text)
    return secret


_USER = {"user_domain_name": "Default", "project_name": "service", "project_domain_name": "Default"}


def keystone_login(ctx: Context[Any], ref: AppCredentialRef | None) -> tuple[dict[str, str], str]:
    """(keystoneauth options, path of the authorities) of what the Secret holds: an application credential, a
    clouds.yaml, or a user with a password. Raises MissingReference where it holds none of them.
    """
    if not (named := ref.implied() if ref else {}):
        raise SpecError("spec.keystone.appCredentialRef", "say how to log in at authUrl; set secretName")
    name, secret = next(iter(named.items()))
    at = login(ctx, secret, f"spec.keystone.appCredentialRef.{name}")
    held = at if at.data.keys() & {_ID, "username"} or _CLOUDS not in at.data else _cloud(at)
    if _ID in held.data:
        found = {"auth_type": "v3applicationcredential", _ID: held[_ID], _SECRET: held[_SECRET]}
    elif "username" in held.data:
        found = {"auth_type": "password", "username": held["username"], "password": held["password"]}
        found |= {option: held.get(option) or usual for option, usual in _USER.items()}
    else:
        text = f"Secret {at.secret!r} holds no login; give it {_ID} and {_SECRET}, {_CLOUDS}, or username and password"
        raise MissingReference(at.field, text)
    return found, at.trust


_ID, _SECRET, _CLOUDS = "application_credential_id", "application_credential_secret", "clouds.yaml"


def _cloud(at: Login) -> Login:
    """What clouds.yaml says of its one cloud, or of the one called `openstack`. Raises Incomplete."""
    try:
        return Login(at.field, at.secret, cloud_auth(at.data[_CLOUDS]))
    except ValueError as error:
        raise Incomplete(at.field, f"key {_CLOUDS!r} of Secret {at.secret!r} {error}") from None
