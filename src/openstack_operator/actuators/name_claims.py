"""Names that each resource claims on a server for itself alone, as the server compares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from unicodedata import category, normalize

from ..api import CinderRef, KeystoneRef, MariaDBRef, RabbitMQRef, Ref
from ..plan import NameClaim

_MARIADB, _RABBITMQ = MariaDBRef(name="mariadb"), RabbitMQRef(name="rabbitmq")
_KEYSTONE, _CINDER = KeystoneRef(name="keystone"), CinderRef(name="cinder")


_IGNORED = frozenset({"Cf", "Cc"})
"""Categories of characters without a width or a glyph, which collations by Unicode's algorithm skip."""
_ACCENTS = range(0x300, 0x370)
"""Accents of European scripts. Marks of others, as Thai vowels, tell names apart."""


def fold(name: str) -> str:
    """Return the same text for names that MariaDB may compare as equal: its collations ignore case, accents and spaces
    at the end. Of a letter that only some take for another one, as `ß`, Keystone says whom it found
    (actuators/identity.py).
    """
    # Once more, since lower case may have an accent of its own.
    decomposed = normalize("NFKD", normalize("NFKD", name).casefold())
    letters = (each for each in decomposed if category(each) not in _IGNORED and ord(each) not in _ACCENTS)
    return "".join(letters).rstrip()


def _text(fields: Mapping[str, Any], field: str, default: str = "") -> str:
    value = fields.get(field)
    return value if isinstance(value, str) else default


def _server(spec: Mapping[str, Any], field: str, default: Ref) -> tuple[str, str]:
    ref = spec.get(field)
    fields = cast("Mapping[str, Any]", ref) if isinstance(ref, dict) else {}
    return default.kind, _text(fields, "name", default.name)


def _claims(
    spec: Mapping[str, Any], at: Sequence[str], names: Mapping[str, str], *, folds: bool
) -> Iterator[NameClaim]:
    """Yield a claim for each field; `names` has the kind of thing that each field names."""
    for field, kind in names.items():
        if name := _text(spec, field):
            yield NameClaim(f"spec.{field}", f"{kind} {name!r}", (*at, kind, fold(name) if folds else name))


def database(spec: Mapping[str, Any]) -> Sequence[NameClaim]:
    """Return the schema and the account of a MariaDBDatabase."""
    names = {"database": "schema", "user": "account"}
    return tuple(_claims(spec, _server(spec, "mariadbRef", _MARIADB), names, folds=True))


def vhost(spec: Mapping[str, Any]) -> Sequence[NameClaim]:
    """Return the virtual host and the user of a RabbitMQVhost; RabbitMQ compares byte by byte."""
    names = {"vhost": "virtual host", "user": "user"}
    return tuple(_claims(spec, _server(spec, "rabbitmqRef", _RABBITMQ), names, folds=False))


def user(spec: Mapping[str, Any]) -> Sequence[NameClaim]:
    """Return the user of a KeystoneUser, in its domain."""
    domain = fold(_text(spec, "domain", "Default"))
    return tuple(_claims(spec, (*_server(spec, "keystoneRef", _KEYSTONE), domain), {"user": "user"}, folds=True))


def domain(spec: Mapping[str, Any]) -> Sequence[NameClaim]:
    """Return the domain of a KeystoneDomain, and its administrator, a user like any other."""
    server, at = _server(spec, "keystoneRef", _KEYSTONE), fold(_text(spec, "domain"))
    administrator = _claims(spec, (*server, at), {"administrator": "user"}, folds=True)
    return (*_claims(spec, server, {"domain": "domain"}, folds=True), *administrator)


def service(spec: Mapping[str, Any]) -> Sequence[NameClaim]:
    """Return the type of a KeystoneService in its region. Its name may have several types, as that of Heat; and
    endpoints of other regions are those of other resources.
    """
    region = _text(spec, "region", "RegionOne")
    types = _claims(
        spec, (*_server(spec, "keystoneRef", _KEYSTONE), fold(region)), {"type": "service type"}, folds=True
    )
    return tuple(claim._replace(subject=f"{claim.subject} in {region}") for claim in types)


def identity_provider(spec: Mapping[str, Any]) -> Sequence[NameClaim]:
    """Return the provider of a KeystoneIdentityProvider, whose name its mapping has, too."""
    return tuple(_claims(spec, _server(spec, "keystoneRef", _KEYSTONE), {"name": "identity provider"}, folds=True))


def application_credential(spec: Mapping[str, Any]) -> Sequence[NameClaim]:
    """Return the credential of a KeystoneApplicationCredential, whose name is one of its owner's. Without an owner, the
    user is the administrator.
    """
    at: Sequence[str] = _server(spec, "keystoneRef", _KEYSTONE)
    owner = spec.get("owner")
    if isinstance(owner, dict):
        fields = cast("Mapping[str, Any]", owner)
        at = (*at, fold(_text(fields, "domain", "Default")), fold(_text(fields, "user")))
    return tuple(_claims(spec, at, {"credential": "application credential"}, folds=True))


def volume_type(spec: Mapping[str, Any]) -> Sequence[NameClaim]:
    """Return the type of a CinderVolumeType."""
    return tuple(_claims(spec, _server(spec, "cinderRef", _CINDER), {"name": "volume type"}, folds=True))


def quota(spec: Mapping[str, Any]) -> Sequence[NameClaim]:
    """Return the project of a CinderQuota in its domain, or every project."""
    server, project = _server(spec, "cinderRef", _CINDER), _text(spec, "project")
    if not project:
        return (NameClaim("spec.project", "quota of every project", (*server, "quota")),)
    key = (*server, "quota", fold(_text(spec, "domain", "Default")), fold(project))
    return (NameClaim("spec.project", f"quota of project {project!r}", key),)
