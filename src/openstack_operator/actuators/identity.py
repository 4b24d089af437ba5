"""KeystoneUser: a service user with its project and roles, over the identity API."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol, TypedDict

from ..plan import Context, Drifted, SpecError
from . import access, loop
from .keystone import Keystone, Login, NamedRow, session
from .loop import Facets
from .models import KeystoneUserSpec
from .name_claims import fold


class _Project(NamedRow):
    enabled: bool


class _User(NamedRow):
    enabled: bool


class _Role(TypedDict):
    name: str


class _Assignment(TypedDict):
    role: _Role


class DomainRow(Protocol):
    """A domain that exists."""

    called: str

    @property
    def id(self) -> str: ...


class Domain:
    """The domain of user and project, looked up once a pass and only when needed."""

    def __init__(self, keystone: Keystone, name: str) -> None:
        self.called = name
        self._keystone = keystone

    @property
    def id(self) -> str:
        """Raises SpecError where there is no such domain."""
        return self._id

    @cached_property
    def _id(self) -> str:
        if not (rows := self._keystone.rows("domains", NamedRow, name=self.called)):
            raise SpecError("spec.domain", f"Keystone has no domain {self.called!r}")
        refuse_other_name("spec.domain", self.called, rows[0]["name"], "domain")
        return rows[0]["id"]


class Project:
    """The project the user works in."""

    path = "spec.project"

    def __init__(self, keystone: Keystone, project: str, domain: Domain, login: Login | None) -> None:
        self.name = f"project {project}"
        self.id = login.project if login else ""
        self._keystone = keystone
        self._project = project
        self._domain = domain

    @property
    def desired(self) -> Facets:
        return {"enabled": True}

    def find(self) -> Facets | None:
        if self.id:
            return self.desired
        for row in self._keystone.rows("projects", _Project, name=self._project, domain_id=self._domain.id):
            refuse_other_name(self.path, self._project, row["name"], "project")
            self.id = row["id"]
            return {"enabled": row["enabled"]}
        return None

    def create(self) -> None:
        self.id = self._keystone.create("project", {"name": self._project, "domain_id": self._domain.id})

    def update(self, changed: frozenset[str]) -> None:
        self._keystone.update("project", self.id, {"enabled": True})

    def delete(self) -> None:
        self._keystone.delete("project", self.id)


class User:
    """The user; only a login tells whether the password is right, since Keystone does not show it."""

    path = "spec.user"

    def __init__(
        self, keystone: Keystone, user: str, password: str, domain: DomainRow, login: Login | None = None
    ) -> None:
        self.name = f"user {user}"
        self.id = login.user if login else ""
        self._keystone = keystone
        self._user = user
        self._password = password
        self._domain = domain

    @property
    def desired(self) -> Facets:
        return {"enabled": True, "password": True}

    def _works(self) -> bool:
        return self._keystone.login(self._user, self._password, self._domain.called) is not None

    def find(self) -> Facets | None:
        if self.id:
            return self.desired
        for row in self._keystone.rows("users", _User, name=self._user, domain_id=self._domain.id):
            refuse_other_name(self.path, self._user, row["name"])
            self.id = row["id"]
            return {"enabled": row["enabled"], "password": self._works()}
        return None

    def create(self) -> None:
        values = {"name": self._user, "domain_id": self._domain.id, "password": self._password}
        self.id = self._keystone.create("user", values, secret=True)

    def update(self, changed: frozenset[str]) -> None:
        if "enabled" in changed:
            self._keystone.update("user", self.id, {"enabled": True})
            # Before, no password worked; and to set the one it has again may break a password policy.
            if self._works():
                return
        if "password" in changed:
            self._keystone.update("user", self.id, {"password": self._password}, secret=True)

    def delete(self) -> None:
        self._keystone.delete("user", self.id)


def refuse_other_name(path: str, name: str, existing: str, kind: str = "user") -> None:
    """Raise SpecError where Keystone's database takes the name of another thing of that kind for the same: its
    collation may ignore case, accents, or spaces at the end.
    """
    if existing != name:
        text = f"Keystone takes {name!r} for the name of a {kind} spelled differently; choose another name"
        raise SpecError(path, text)


def find_exact(keystone: Keystone, collection: str, name: str, **filters: str) -> list[NamedRow]:
    """Return what is called so byte by byte, and not what Keystone's database takes for the same."""
    return [row for row in keystone.rows(collection, NamedRow, name=name, **filters) if row["name"] == name]


class KeptUser(User):
    """The user where K-ORC makes it and keeps it enabled. Of one that was there before, it takes the password for what
    its Secret says.
    """

    @property
    def desired(self) -> Facets:
        return {"password": True}

    def find(self) -> Facets | None:
        if self.id:
            return self.desired
        facets = super().find()
        if facets is None or not facets["enabled"]:
            raise Drifted(f"{self.name} is {'disabled' if facets else 'not'} in Keystone, where K-ORC is to keep it")
        return {"password": facets["password"]}


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


class Roles:
    """The roles the user has in the project."""

    path = "spec.roles"
    scope = "project"

    def __init__(self, keystone: Keystone, user: User, target: _HasId, roles: Sequence[str]) -> None:
        self.name = user.name.replace("user ", "roles of ", 1)
        self._keystone = keystone
        self._roles = roles
        self._user = user
        self._target = target

    @property
    def desired(self) -> Facets:
        return dict.fromkeys(self._roles, True)

    def find(self) -> Facets | None:
        # A token lists implied roles too; only the assignments tell what was given.
        scope = {"user.id": self._user.id, f"scope.{self.scope}.id": self._target.id}
        rows = self._keystone.rows("role_assignments", _Assignment, include_names="true", **scope)
        return {row["role"]["name"]: True for row in rows}

    def create(self) -> None:
        self.update(frozenset(self._roles))

    def update(self, changed: frozenset[str]) -> None:
        role_ids = {row["name"]: row["id"] for row in self._keystone.rows("roles", NamedRow)}
        for role in sorted(changed):
            if role not in role_ids:
                # A role that the user has and should not have is the server's word.
                problem = f"there is no role {role!r}" if role in self._roles else "a role of the user was just deleted"
                raise SpecError(self.path, f"{problem} in Keystone; see `openstack role list`")
            ids = self._target.id, self._user.id, role_ids[role]
            at = f"/{self.scope}s/{{}}/users/{{}}/roles/{{}}"
            self._keystone.call("PUT" if role in self._roles else "DELETE", at, ids=ids)

    def delete(self) -> None:
        self.update(frozenset(self._roles))


def _refuse_other_names(spec: KeystoneUserSpec, login: Login) -> None:
    """Raise SpecError where the login was that of another user, or in another domain or project."""
    if login.domain_name:
        refuse_other_name("spec.domain", spec.domain, login.domain_name, "domain")
    if login.project_name:
        refuse_other_name("spec.project", spec.project, login.project_name, "project")
    if login.name:
        refuse_other_name("spec.user", spec.user, login.name)


def _administers(ctx: Context[KeystoneUserSpec]) -> bool:
    return fold(ctx.spec.user) == fold(access.admin(ctx, ctx.spec.keystone_ref, "username"))


def ensure(ctx: Context[KeystoneUserSpec]) -> list[str]:
    """Make user, project and roles as the spec says, and return what was changed.

    A login into the project proves in one request what matters to the service: that it can log in. Where it works only
    the roles are listed; where it does not, each thing is looked at. It costs Keystone one bcrypt hash a pass.
    """
    spec = ctx.spec
    keystone = session(ctx, spec.keystone_ref)
    if _administers(ctx):
        raise SpecError("spec.user", f"{spec.user!r} administers Keystone; choose another name")
    password = access.password(ctx, spec.password_secret_ref)
    login = keystone.login(spec.user, password, spec.domain, spec.project)
    if login:
        _refuse_other_names(spec, login)
    domain = Domain(keystone, spec.domain)
    project = Project(keystone, spec.project, domain, login)
    keeper = KeptUser if spec.provider == "k-orc" else User
    user = keeper(keystone, spec.user, password, domain, login)
    return loop.ensure((project, user, Roles(keystone, user, project, spec.roles)))


def remove(ctx: Context[KeystoneUserSpec]) -> None:
    """Delete the user and its roles, unless it is retained. The project stays: other service users work in it."""
    if ctx.conflicting_fields or _administers(ctx) or ctx.spec.deletion_policy == "Retain":
        return
    keystone = session(ctx, ctx.spec.keystone_ref)
    for domain in find_exact(keystone, "domains", ctx.spec.domain):
        for row in find_exact(keystone, "users", ctx.spec.user, domain_id=domain["id"]):
            keystone.delete("user", row["id"])
