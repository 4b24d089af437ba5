"""KeystoneApplicationCredential: a login of the administrator that is not his password, over the identity API."""

from __future__ import annotations

from ..plan import Context, Transient
from . import access, loop
from .answers import member
from .identity import refuse_other_name
from .keystone import NAME, Keystone, NamedRow, session
from .loop import Facets
from .models import KeystoneApplicationCredentialSpec

_AT = "/users/{}/application_credentials"


class Credential:
    """The credential; a login tells whether its secret is right, which Keystone neither shows nor changes."""

    path = "spec.credential"

    def __init__(self, keystone: Keystone, called: str, user: str, secret: str) -> None:
        self.name = f"application credential {called}"
        self._keystone = keystone
        self._called = called
        self._user = user
        self._secret = secret
        self._rows: list[NamedRow] = []

    @property
    def desired(self) -> Facets:
        return {"secret": True}

    def find(self) -> Facets | None:
        if self._secret and self._keystone.admits(self._user, self._called, self._secret):
            return self.desired
        answer = self._keystone.call("GET", _AT, params={"name": self._called}, ids=(self._keystone.user,))
        self._rows = member(NAME, answer, "application_credentials", list[NamedRow]) if answer else []
        for row in self._rows:
            refuse_other_name(self.path, self._called, row["name"], "credential")
        return {"secret": False} if self._rows else None

    def create(self) -> None:
        values = {"name": self._called, "secret": self._secret, "description": "made by openstack-operator"}
        ids, body = (self._keystone.user,), {"application_credential": values}
        if self._keystone.call("POST", _AT, body, ids=ids, secret=True) is None:
            raise Transient("Keystone: its administrator has just gone")

    def update(self, changed: frozenset[str]) -> None:
        self.delete()
        self.create()

    def delete(self) -> None:
        for row in self._rows:
            self._keystone.call("DELETE", f"{_AT}/{{}}", ids=(self._keystone.user, row["id"]))


def _credential(ctx: Context[KeystoneApplicationCredentialSpec], secret: str) -> Credential:
    ref = ctx.spec.keystone_ref
    return Credential(session(ctx, ref), ctx.spec.credential, access.admin(ctx, ref, "username"), secret)


def ensure(ctx: Context[KeystoneApplicationCredentialSpec]) -> list[str]:
    """The administrator has the credential, with the roles he has in his project; what was changed comes out."""
    return loop.ensure((_credential(ctx, access.password(ctx, ctx.spec.password_secret_ref)),))


def remove(ctx: Context[KeystoneApplicationCredentialSpec]) -> None:
    """The credential is gone, and every token by it, unless it belongs to another resource."""
    if ctx.conflicting_fields:
        return
    loop.remove((_credential(ctx, ""),))
