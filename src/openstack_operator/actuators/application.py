"""KeystoneApplicationCredential: a login of a user that is not the user's password, over the identity API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NotRequired

from ..api import AccessRule
from ..plan import Context, SpecError, Transient
from . import access, loop
from .answers import member
from .http import Unauthorized
from .identity import find_exact, refuse_other_name
from .keystone import NAME, Keystone, NamedRow, RuleRow, session, session_of
from .loop import Facets
from .models import CredentialOwner, KeystoneApplicationCredentialSpec
from .name_claims import fold

_AT = "/users/{}/application_credentials"
_RULES = "spec.accessRules"
_DESCRIPTION = "made by openstack-operator"


class _CredentialRow(NamedRow):
    """An application credential, as Keystone lists it."""

    description: NotRequired[str | None]


@dataclass(frozen=True)
class Owner:
    """The user to whom a credential belongs."""

    name: str
    domain: str
    id: Callable[[], str]
    """Returns the id of the user; empty where there is no such user."""
    session: Callable[[], Keystone]
    """Returns the session of the user, who alone may create such a credential: the administrator may not."""


def _row(rule: AccessRule) -> RuleRow:
    return {"service": rule.service, "method": rule.method, "path": rule.path}


def _compared(rule: RuleRow) -> tuple[str, str, str]:
    """Return a rule as Keystone's database compares it: of two paths that differ in case, a user has the first one
    alone.
    """
    return rule["service"].casefold(), rule["method"], rule["path"].casefold()


class Credential:
    """The credential; a login tells whether its secret is right, which Keystone neither shows nor changes, and what its
    access rules are, which it does not change, either.
    """

    path = "spec.credential"

    def __init__(self, keystone: Keystone, called: str, owner: Owner, secret: str, rules: Sequence[AccessRule]) -> None:
        """`keystone` is the session of the administrator, who may list and delete credentials of all users."""
        self.name = f"application credential {called}"
        self._keystone = keystone
        self._called = called
        self._owner = owner
        self._secret = secret
        self._rules = [*map(_row, rules)]
        self._rows: list[_CredentialRow] = []

    @property
    def desired(self) -> Facets:
        return {"secret": True, "accessRules": frozenset(map(_compared, self._rules))}

    def find(self) -> Facets | None:
        if self._secret:
            owner = self._owner
            rules = self._keystone.access_rules(owner.name, owner.domain, self._called, self._secret)
            if rules is not None:
                return {"secret": True, "accessRules": frozenset(map(_compared, rules))}
        return {**self.desired, "secret": False} if self._list_rows() else None

    def _list_rows(self) -> bool:
        if user := self._owner.id():
            answer = self._keystone.call("GET", _AT, params={"name": self._called}, ids=(user,))
            self._rows = member(NAME, answer, "application_credentials", list[_CredentialRow]) if answer else []
        for row in self._rows:
            refuse_other_name(self.path, self._called, row["name"], "credential")
        if not self._secret:
            # To be removed: with a wrong password of its owner, the operator never made the one of that name.
            self._rows = [row for row in self._rows if row.get("description") == _DESCRIPTION]
        return bool(self._rows)

    def create(self) -> None:
        values = {"name": self._called, "secret": self._secret, "description": _DESCRIPTION}
        rules = {"access_rules": self._rules} if self._rules else {}
        keystone = self._owner.session()
        body = {"application_credential": {**values, **rules}}
        if keystone.call("POST", _AT, body, ids=(keystone.user,), secret=True) is None:
            raise Transient(f"Keystone: user {self._owner.name!r} was just deleted")

    def update(self, changed: frozenset[str]) -> None:
        # Nothing is deleted that this owner could not make again.
        _ = self._owner.session().user
        if self._rows or self._list_rows():
            self.delete()
        self.create()

    def delete(self) -> None:
        user = self._owner.id()
        for row in self._rows:
            self._keystone.call("DELETE", f"{_AT}/{{}}", ids=(user, row["id"]))


def _administrator(ctx: Context[KeystoneApplicationCredentialSpec]) -> Owner:
    keystone = session(ctx, ctx.spec.keystone_ref)
    name = access.admin(ctx, ctx.spec.keystone_ref, "username")
    return Owner(name, "Default", lambda: keystone.user, lambda: keystone)


def _service_user(ctx: Context[KeystoneApplicationCredentialSpec], owner: CredentialOwner) -> Owner:
    ref = ctx.spec.keystone_ref
    keystone = session(ctx, ref)

    def user_id() -> str:
        for domain in find_exact(keystone, "domains", owner.domain):
            for row in keystone.rows("users", NamedRow, name=owner.user, domain_id=domain["id"]):
                refuse_other_name("spec.owner.user", owner.user, row["name"])
                return row["id"]
        return ""

    def own_session() -> Keystone:
        password = access.password(ctx, owner.password_secret_ref, "spec.owner.passwordSecretRef")
        of_owner = session_of(ctx, ref, owner.user, password, owner.domain, owner.project)
        try:
            _ = of_owner.user
        except Unauthorized:
            text = f"Keystone: user {owner.user!r} cannot log in to project {owner.project!r} of {owner.domain!r} yet"
            raise Transient(f"{text}; check that its KeystoneUser is Ready") from None
        return of_owner

    return Owner(owner.user, owner.domain, user_id, own_session)


def _credential(ctx: Context[KeystoneApplicationCredentialSpec], secret: str) -> Credential:
    spec = ctx.spec
    owner = _service_user(ctx, spec.owner) if spec.owner else _administrator(ctx)
    return Credential(session(ctx, spec.keystone_ref), spec.credential, owner, secret, spec.access_rules)


def _check(ctx: Context[KeystoneApplicationCredentialSpec]) -> None:
    """Raise SpecError for an owner or rules that Keystone would take for others."""
    spec = ctx.spec
    if spec.owner and fold(spec.owner.domain) == "default":
        administrator = access.admin(ctx, spec.keystone_ref, "username")
        if fold(spec.owner.user) == fold(administrator):
            raise SpecError("spec.owner.user", f"{spec.owner.user!r} administers Keystone; remove spec.owner")
    if len({_compared(_row(rule)) for rule in spec.access_rules}) < len(spec.access_rules):
        raise SpecError(_RULES, "Keystone ignores case in paths; keep one of those that differ in case only")


def ensure(ctx: Context[KeystoneApplicationCredentialSpec]) -> list[str]:
    """Give the owner the credential, with the roles that the owner has in the project. Return what was changed."""
    _check(ctx)
    return loop.ensure((_credential(ctx, access.password(ctx, ctx.spec.password_secret_ref)),))


def remove(ctx: Context[KeystoneApplicationCredentialSpec]) -> None:
    """Delete the credential, and with it every token by it, if the operator made it and no other resource has it."""
    if ctx.conflicting_fields:
        return
    loop.remove((_credential(ctx, ""),))
