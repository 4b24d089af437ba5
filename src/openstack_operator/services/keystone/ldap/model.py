"""Spec of the domains whose users are in a directory."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from ....api import (
    AuthoritySecretRef,
    Destination,
    Model,
    Rule,
    SecretKeyRef,
    Sections,
    rule,
    sent,
    validated,
)

_SERVER = r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_URL = "^(" + "|".join(f"{scheme}{_SERVER}(,{scheme}{_SERVER})*" for scheme in ("ldaps://", "ldap://")) + ")$"

DN = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A distinguished name, such as `ou=people,dc=example,dc=org`."""

DomainName = Annotated[
    str,
    # It is in the name of a file.
    Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"),
    validated(
        rule(
            "self.lowerAscii() != 'default'",
            "this domain holds the users of services, which could no longer log in; choose another name",
        )
    ),
]


class LDAP(Model):
    """A directory that speaks LDAP. Keystone reads it, and changes nothing there."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "has(self.bindDN) == has(self.bindPasswordSecretRef)",
            "bindDN and bindPasswordSecretRef go together; set both, or neither",
            ".bindPasswordSecretRef",
        ),
    )

    url: Annotated[
        str,
        Field(max_length=512, pattern=_URL),
        validated(
            rule(
                f"self.matches(r'{_URL}')",
                "not an LDAP URL; write one such as ldaps://ldap.example.org, or several separated by commas",
            )
        ),
    ]
    """Address, such as `ldaps://ldap.example.org`. Several addresses of one directory have commas between them, and
    Keystone uses the first that answers. With `ldap://`, Keystone starts TLS before it sends anything else."""
    ca_secret_ref: AuthoritySecretRef | None = Field(default=None, alias="caSecretRef")
    """Secret with `ca.crt`, by which Keystone verifies the directory; if unset, it takes the authorities of the image.
    All directories are verified by one file: set it for each domain, or for none."""
    bind_dn: DN | None = Field(default=None, alias="bindDN")
    """DN that Keystone binds as to search users. If unset, it binds anonymously."""
    bind_password_secret_ref: SecretKeyRef | None = None
    """Secret with the password for `bindDN`."""
    user_tree_dn: DN = Field(alias="userTreeDN")
    """Base DN of users. Keystone looks for them directly below it, unless `config` sets `ldap.query_scope` to `sub`."""
    group_tree_dn: DN | None = Field(default=None, alias="groupTreeDN")
    """Base DN of groups."""

    def destinations(self) -> Sequence[Destination]:
        """Return the servers of the directory."""
        return sent({"bindPasswordSecretRef": self.bind_password_secret_ref}, *self.url.split(","))


class Domain(Model):
    """A domain whose users are in a directory."""

    name: DomainName
    """Name of the domain. The operator creates it if it does not exist. If you remove it from the list, it stays, and
    its users cannot log in."""
    ldap: LDAP
    """Address of the directory, and the login there."""
    config: Sections = {}
    """Further options for this domain, in the sections `ldap` and `identity`: attributes and classes of users and
    groups."""


Domains = Annotated[
    list[Domain],
    Field(max_length=16),
    validated(
        rule(
            "self.all(one, self.exists_one(other, other.name.lowerAscii() == one.name.lowerAscii()))",
            "two domains have the same name; rename one",
        )
    ),
]
