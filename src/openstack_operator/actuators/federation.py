"""KeystoneIdentityProvider: a provider, its protocol and its mapping, over the identity API."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, TypeVar

from ..plan import Context
from . import loop
from .answers import member
from .federation_models import KeystoneIdentityProviderSpec
from .identity import refuse_other_name
from .keystone import NAME, Identified, Keystone, NamedRow, Row, session
from .loop import Facets

_API = "/OS-FEDERATION"


class _Mapping(Identified):
    rules: Any


class _Provider(Identified):
    enabled: bool
    description: NotRequired[str | None]
    remote_ids: NotRequired[list[str] | None]
    domain_id: NotRequired[str | None]


class _Protocol(Identified):
    mapping_id: NotRequired[str | None]
    remote_id_attribute: NotRequired[str | None]


IdentifiedT = TypeVar("IdentifiedT", bound=Identified)


class _User(TypedDict):
    federated: NotRequired[list[Row] | None]


class Domain:
    """The domain of a provider's users, where the spec names one."""

    path = "spec.domain"

    def __init__(self, keystone: Keystone, name: str | None) -> None:
        self.name = f"domain {name}"
        self.id = ""
        self._keystone = keystone
        self._called = name

    @property
    def desired(self) -> Facets:
        return {}

    def find(self) -> Facets | None:
        if self._called is None:
            return {}
        for row in self._keystone.rows("domains", NamedRow, name=self._called):
            refuse_other_name(self.path, self._called, row["name"], "domain")
            self.id = row["id"]
            return {}
        return None

    def create(self) -> None:
        self.id = self._keystone.create("domain", {"name": self._called})

    def update(self, changed: frozenset[str]) -> None:
        """Do nothing: this domain has nothing to change."""

    def delete(self) -> None:
        """Do nothing: others may use the domain."""


class _FederationObject:
    """Object of the federation API, which has a path of its own."""

    kind, path = "", ""

    def __init__(self, keystone: Keystone, at: str) -> None:
        self._keystone = keystone
        self._at = f"{_API}/{at}"

    def _row(self, shape: type[IdentifiedT]) -> IdentifiedT | None:
        """Return the object; None if there is none. Raises SpecError if Keystone's database takes another id for the
        same.
        """
        answer = self._keystone.call("GET", self._at)
        if not answer:
            return None
        row = member(NAME, answer, self.kind, shape)
        refuse_other_name(self.path, self._at.rpartition("/")[2], row["id"], self.kind.replace("_", " "))
        return row

    def _write(self, method: str, values: dict[str, Any]) -> None:
        self._keystone.call(method, self._at, {self.kind: values})

    def delete(self) -> None:
        """Delete the object."""
        self._keystone.call("DELETE", self._at)


class Mapping(_FederationObject):
    """Mapping of a provider's users to users of Keystone."""

    kind, path = "mapping", "spec.mapping"

    def __init__(self, keystone: Keystone, spec: KeystoneIdentityProviderSpec) -> None:
        super().__init__(keystone, f"mappings/{spec.name}")
        self.name = f"mapping {spec.name}"
        self.desired: Facets = {"rules": spec.mapping}

    def find(self) -> Facets | None:
        row = self._row(_Mapping)
        return {"rules": row["rules"]} if row else None

    def create(self) -> None:
        self._write("PUT", dict(self.desired))

    def update(self, changed: frozenset[str]) -> None:
        self._write("PATCH", dict(self.desired))


class Provider(_FederationObject):
    """The provider itself. Keystone does not allow a change of its domain."""

    kind, path = "identity_provider", "spec.name"

    def __init__(self, keystone: Keystone, spec: KeystoneIdentityProviderSpec, domain: Domain) -> None:
        super().__init__(keystone, f"identity_providers/{spec.name}")
        self.name = f"identity provider {spec.name}"
        self._domain = domain
        self._values = {"enabled": True, "description": spec.description, "remote_ids": sorted(spec.remote_ids)}

    @property
    def desired(self) -> Facets:
        return self._values

    def find(self) -> Facets | None:
        row = self._row(_Provider)
        if row is None:
            return None
        return {
            "enabled": row["enabled"],
            "description": row.get("description") or "",
            "remote_ids": sorted(row.get("remote_ids") or ()),
        }

    def create(self) -> None:
        self._write("PUT", {**self._values, **({"domain_id": self._domain.id} if self._domain.id else {})})

    def update(self, changed: frozenset[str]) -> None:
        self._write("PATCH", {name: self._values[name] for name in sorted(changed)})

    def users_domain(self) -> str:
        """Return the id of the domain of its users; empty if Keystone does not have the provider."""
        row = self._row(_Provider)
        return row.get("domain_id") or "" if row else ""

    def disable(self) -> None:
        """Disable the provider, so that its users cannot log in."""
        self._write("PATCH", {"enabled": False})


class Protocol(_FederationObject):
    """Protocol of the provider, and the mapping that belongs to it."""

    kind, path = "protocol", "spec.protocol"

    def __init__(self, keystone: Keystone, spec: KeystoneIdentityProviderSpec) -> None:
        super().__init__(keystone, f"identity_providers/{spec.name}/protocols/{spec.protocol}")
        self.name = f"protocol {spec.protocol} of {spec.name}"
        optional_fields = {"remote_id_attribute": spec.remote_id_attribute} if spec.remote_id_attribute else {}
        self.desired: Facets = {"mapping_id": spec.name, **optional_fields}

    def find(self) -> Facets | None:
        row = self._row(_Protocol)
        return {name: row.get(name) for name in self.desired} if row else None

    def create(self) -> None:
        self._write("PUT", dict(self.desired))

    def update(self, changed: frozenset[str]) -> None:
        self._write("PATCH", dict(self.desired))


def ensure(ctx: Context[KeystoneIdentityProviderSpec]) -> list[str]:
    """Make provider, protocol and mapping as the spec says, and return what was changed."""
    keystone, spec = session(ctx, ctx.spec.keystone_ref), ctx.spec
    domain = Domain(keystone, spec.domain)
    things = (domain, Mapping(keystone, spec), Provider(keystone, spec, domain), Protocol(keystone, spec))
    return loop.ensure(things)


def remove(ctx: Context[KeystoneIdentityProviderSpec]) -> None:
    """Disable the provider, or with deletionPolicy Delete remove it with its mapping and its users. With the provider
    alone removed, Keystone would not recognize its users: an ID follows from domain and name, so that the next login
    would create a user that already exists (shadow_backends/sql.py, create_federated_user). The provider of another
    resource stays as it is.
    """
    if ctx.conflicting_fields:
        return
    keystone, spec = session(ctx, ctx.spec.keystone_ref), ctx.spec
    provider = Provider(keystone, spec, Domain(keystone, None))
    if spec.deletion_policy == "Retain":
        if provider.find() is not None:
            provider.disable()
        return
    # If a domain has a directory, Keystone lists users of one domain only: by default, that of the login.
    users_domain = provider.users_domain()
    domain = {"domain_id": users_domain} if users_domain else {}
    for row in keystone.rows("users", Identified, idp_id=spec.name, **domain):
        if _known_by(keystone, row["id"], spec.name):
            keystone.delete("user", row["id"])
    loop.remove((provider, Mapping(keystone, spec)))


def _known_by(keystone: Keystone, user: str, provider: str) -> bool:
    """Return True if the user came by that provider: a driver may ignore the filter and list other users, too."""
    answer = keystone.call("GET", "/users/{}", ids=(user,))
    rows = member(NAME, answer, "user", _User).get("federated") if answer else None
    return any(row.get("idp_id") == provider for row in rows or ())
