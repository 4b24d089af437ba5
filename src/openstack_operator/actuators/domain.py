"""KeystoneDomain: a domain for the users of a service, its administrator and roles, over the identity API."""

from __future__ import annotations

from typing import NotRequired

from ..plan import Context, SpecError
from . import access, loop
from .identity import Roles, User, find_exact, refuse_other_name
from .keystone import Keystone, NamedRow, session
from .loop import Facets
from .models import KeystoneDomainSpec

MARK = "made by openstack-operator"
"""End of the description of a domain that a KeystoneDomain made: nothing of another one is changed or deleted."""
ADMINISTRATES = ("admin",)


class _Row(NamedRow):
    enabled: bool
    description: NotRequired[str | None]


class OwnDomain:
    """The domain, of which the resource is the only maker."""

    path = "spec.domain"

    def __init__(self, keystone: Keystone, spec: KeystoneDomainSpec) -> None:
        self.name = f"domain {spec.domain}"
        self.called = spec.domain
        self.id = ""
        self._keystone = keystone
        self._values = {"enabled": True, "description": f"{spec.description} ({MARK})" if spec.description else MARK}

    @property
    def desired(self) -> Facets:
        return self._values

    def find(self) -> Facets | None:
        for row in self._keystone.rows("domains", _Row, name=self.called):
            refuse_other_name(self.path, self.called, row["name"], "domain")
            description = row.get("description") or ""
            if MARK not in description:
                text = f"domain {self.called!r} is not managed by this operator: its description lacks {MARK!r}"
                raise SpecError(self.path, f"{text}; choose another name, or add it to hand the domain over")
            self.id = row["id"]
            return {"enabled": row["enabled"], "description": description}
        return None

    def create(self) -> None:
        self.id = self._keystone.create("domain", {"name": self.called, **self._values})

    def update(self, changed: frozenset[str]) -> None:
        self._keystone.update("domain", self.id, {name: self._values[name] for name in sorted(changed)})

    def delete(self) -> None:
        """Delete the domain with all its users and projects, disabled first: Keystone deletes no enabled domain."""
        self._keystone.update("domain", self.id, {"enabled": False})
        self._keystone.delete("domain", self.id)


class Administrator(User):
    """The user who manages the domain."""

    path = "spec.administrator"


class Administration(Roles):
    """The roles of that user on the domain."""

    path = "spec.administrator"
    scope = "domain"


class Role:
    """A role that exists. It may be older than the domain."""

    path = "spec.roles"

    def __init__(self, keystone: Keystone, role: str) -> None:
        self.name = f"role {role}"
        self._keystone = keystone
        self._role = role

    @property
    def desired(self) -> Facets:
        return {}

    def find(self) -> Facets | None:
        for row in self._keystone.rows("roles", NamedRow, name=self._role):
            refuse_other_name(self.path, self._role, row["name"], "role")
            return {}
        return None

    def create(self) -> None:
        self._keystone.create("role", {"name": self._role})

    def update(self, changed: frozenset[str]) -> None:
        """Do nothing: a role has nothing to change."""

    def delete(self) -> None:
        """Do nothing: users of other domains may have the role."""


def ensure(ctx: Context[KeystoneDomainSpec]) -> list[str]:
    """Make domain, administrator and roles as the spec says, and return what was changed."""
    spec = ctx.spec
    password = access.password(ctx, spec.password_secret_ref)
    keystone = session(ctx, spec.keystone_ref)
    domain = OwnDomain(keystone, spec)
    user = Administrator(keystone, spec.administrator, password, domain)
    roles = [Role(keystone, role) for role in spec.roles]
    return loop.ensure((domain, *roles, user, Administration(keystone, user, domain, ADMINISTRATES)))


def remove(ctx: Context[KeystoneDomainSpec]) -> None:
    """Delete the administrator, and with deletionPolicy Delete the domain. One that belongs to others stays whole."""
    if ctx.conflicting_fields:
        return
    keystone, spec = session(ctx, ctx.spec.keystone_ref), ctx.spec
    domain = OwnDomain(keystone, spec)
    try:
        facets = domain.find()
    except SpecError:
        return
    if facets is None:
        return
    if spec.deletion_policy == "Delete":
        domain.delete()
        return
    for row in find_exact(keystone, "users", spec.administrator, domain_id=domain.id):
        keystone.delete("user", row["id"])
