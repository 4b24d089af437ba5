"""External servers: their addresses and logins, from the spec and a Secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ... import kube, oslo
from ...api import AppCredentialRef, DatabaseSource, LoginSecretRef
from ...plan import Context, Incomplete, MissingReference, SpecError, key_placeholder
from ..secrets.one_line import one_line
from ..secrets.tls import authority, trust_in
from .clouds_yaml import cloud_auth


@dataclass(frozen=True)
class Login:
    """A user's Secret with the login of a server; an empty key counts as missing."""

    field: str
    """Path of the reference to it."""
    secret: str
    data: Mapping[str, str]

    def __getitem__(self, key: str) -> str:
        """Return a required value. Raises MissingReference naming field, Secret and key."""
        if value := self.get(key):
            return value
        fault = "is empty" if key in self.data else "is missing"
        raise MissingReference(self.field, f"key {key!r} of Secret {self.secret!r} {fault}")

    def get(self, key: str) -> str:
        """Return an optional value, empty if missing. Raises Incomplete for a value that is not a single line."""
        return one_line(self.data.get(key, ""), self.field, self.secret, key)

    def matching(self, key: str, pattern: str, expected: str) -> str:
        """Return an optional value of that pattern. Raises Incomplete, which says that it is not `expected`, for
        another one.
        """
        value = self.get(key)
        if value and not re.fullmatch(pattern, value):
            raise Incomplete(self.field, f"key {key!r} of Secret {self.secret!r} is not {expected}")
        return value

    @property
    def account(self) -> str:
        """`user:password`, as URLs have it."""
        return f"{quote(self['username'], safe='')}:{quote(self['password'], safe='')}"

    @property
    def trust(self) -> str:
        """Path of the authorities to verify the server with; empty for plain text."""
        return trust_in(self.secret) if authority(self.data) else ""


def login(ctx: Context[Any], ref: LoginSecretRef, field: str) -> Login:
    """Return the login in the Secret that the spec names at `field`. Raises MissingReference if there is none."""
    if ref.name not in ctx.secrets:
        raise MissingReference(f"{field}{ref.field}", f"there is no Secret {ref.name!r} in this namespace")
    return Login(field, ref.name, ctx.secrets[ref.name])


_HOST = r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"


def address(at: Login, host: str | None, port: int | None, otherwise: tuple[str, int]) -> tuple[str, int]:
    """Return host and port of the spec, or else of the Secret, or else `otherwise`. Raises SpecError."""
    port_text = at.matching("port", "[0-9]{1,5}", "a port number")
    return (
        host or at.matching("host", _HOST, "a DNS name or an address") or otherwise[0],
        port or int(port_text or otherwise[1]),
    )


def schema_of(ctx: Context[Any], source: DatabaseSource, otherwise: str, *, path: str = "spec.database") -> str:
    """Name of a schema in the spec, or else in the Secret, or else `otherwise`. Raises SpecError."""
    if source.database or source.secret_ref is None:
        return source.database or otherwise
    at = login(ctx, source.secret_ref, f"{path}.secretRef")
    return at.matching("database", "[A-Za-z0-9_]{1,64}", "a schema's name of letters, digits and _") or otherwise


def check_migration_reads(ctx: Context[Any]) -> None:
    """Raise Incomplete if the login of the schema in the user's Secret has characters that a URL has percent-encoded.
    The migrations of Keystone and Designate hand the URL to alembic as it is, which takes a percent sign for the
    beginning of a reference.
    """
    if (ref := ctx.spec.database.secret_ref) is None:
        return
    data = ctx.secrets.get(ref.name, {})
    for key in ("username", "password"):
        value = data.get(key, "")
        if quote(value, safe="") != value and value != key_placeholder(ref.name, key):
            text = (
                f"key {key!r} of Secret {ref.name!r} may only have letters, digits and '-._~'"
                f" for the migrations of {ctx.kind}; change it on the server and in the Secret"
            )
            raise Incomplete("spec.database.secretRef", text)


def remembered(ctx: Context[Any], name: str, server: str, path: str) -> kube.Object:
    """Return Secret `<owner>-<name>` with the server of the tables. The schema is made once, and data does not move by
    itself, so a spec that names another server later may be a mistake: SpecError.
    """
    secret = kube.secret(ctx, ctx.name(name), {"server": server})
    secret_name = secret["metadata"]["name"]
    stored_server = kube.secret_data(ctx.children.get(("Secret", secret_name))).get("server", server)
    if stored_server != server:
        text = (
            f"the tables are on {stored_server}, not {server}; "
            f"move them and delete Secret {secret_name!r}, or undo the change"
        )
        raise SpecError(path, text)
    return secret


_USER = {"user_domain_name": "Default", "project_name": "service", "project_domain_name": "Default"}


def keystone_login(ctx: Context[Any], ref: AppCredentialRef | None) -> tuple[dict[str, str], str]:
    """Return keystoneauth options and the path of the authorities for the login in the Secret: an application
    credential by its id, or by its name and its user's; a clouds.yaml; or a user with a password. Raises
    MissingReference if it holds none.
    """
    if not (secrets := ref.default_refs() if ref else {}):
        raise SpecError("spec.keystone.appCredentialRef", "authUrl needs a login; set secretName")
    name, secret = next(iter(secrets.items()))
    at = login(ctx, secret, f"spec.keystone.appCredentialRef.{name}")
    credentials = at if at.data.keys() & {_ID, "username"} or _CLOUDS not in at.data else _cloud(at)
    if _ID in credentials.data:
        auth = {"auth_type": _BY_CREDENTIAL, _ID: credentials[_ID], _SECRET: credentials[_SECRET]}
    elif _NAME in credentials.data:
        # A name belongs to a user.
        auth = {"auth_type": _BY_CREDENTIAL, **{each: credentials[each] for each in (_NAME, _SECRET, "username")}}
        auth["user_domain_name"] = credentials.get("user_domain_name") or "Default"
    elif "username" in credentials.data:
        auth = {"auth_type": "password", "username": credentials["username"], "password": credentials["password"]}
        auth |= {option: credentials.get(option) or usual for option, usual in _USER.items()}
    else:
        text = f"Secret {at.secret!r} holds no login; give it {_ID} and {_SECRET}, {_CLOUDS}, or username and password"
        raise MissingReference(at.field, text)
    return {option: oslo.Verbatim(value) for option, value in auth.items()}, at.trust


_ID, _SECRET, _CLOUDS = "application_credential_id", "application_credential_secret", "clouds.yaml"
_NAME, _BY_CREDENTIAL = "application_credential_name", "v3applicationcredential"


def _cloud(at: Login) -> Login:
    """Return the login of the only cloud in clouds.yaml, or of the one named `openstack`. Raises Incomplete."""
    try:
        return Login(at.field, at.secret, cloud_auth(at.data[_CLOUDS]))
    except ValueError as error:
        raise Incomplete(at.field, f"key {_CLOUDS!r} of Secret {at.secret!r} {error}") from None
