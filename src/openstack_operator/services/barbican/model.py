"""Spec of a Barbican."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ...api import (
    AuthoritySecretRef,
    Column,
    Destination,
    HttpApi,
    Model,
    Purge,
    Resource,
    Rule,
    Scalable,
    Schedule,
    SecretKeyRef,
    ServiceSpec,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesLogging,
    UsesMessaging,
    UsesPolicies,
    immutable,
    rule,
    sent,
    validated,
)

_Path = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$")]


class Vault(Model):
    """A Vault or an OpenBao, in which Barbican logs in by AppRole (at `auth/approle`) and stores secrets in a KV engine
    of version 2.
    """

    url: Annotated[str, Field(max_length=255, pattern=r"^https://[^\s/@?#]+/?$")]
    """Address of the server, such as `https://vault.example.org:8200`."""
    role_id_ref: SecretKeyRef
    """Secret with the role ID of Barbican's AppRole login."""
    secret_id_ref: SecretKeyRef
    """Secret with the secret ID of Barbican's AppRole login."""
    mount: Annotated[_Path, validated(immutable("the mount of secrets in Vault"))] = "secret"
    """Path of the KV engine in Vault. Cannot be changed."""
    namespace: Annotated[
        str,
        Field(max_length=128, pattern=r"^([A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*)?$"),
        validated(immutable("the namespace of secrets in Vault")),
    ] = ""
    """Vault namespace of the engine and of the login, the root namespace if empty. Cannot be changed."""
    ca_secret_ref: AuthoritySecretRef | None = None
    """Secret with `ca.crt`, which verifies the server; if unset, Barbican trusts the image's authorities."""
    new_secrets: Literal["vault", "database"] = "vault"
    """Store of new secrets. Secrets stay in the store in which they were created."""

    def destinations(self) -> Sequence[Destination]:
        """Return the server."""
        return sent({"roleIdRef": self.role_id_ref, "secretIdRef": self.secret_id_ref}, self.url)


class ProjectPurge(Purge):
    """Removal of what projects have in Barbican that no longer exist in Keystone."""

    schedule: Schedule = "45 2 * * *"
    """Time of the removal, as a cron expression in UTC."""
    keep: Annotated[str, Field(max_length=6, pattern=r"^([7-9]|[1-9][0-9]+)d$")] = "30d"
    """Number of days for which a project must be missing in Keystone before its secrets are removed. At least 7."""


class BarbicanSpec(ServiceSpec, UsesPolicies, UsesLogging, UsesDatabase, UsesMessaging, UsesCache, UsesIdentity):
    """OpenStack Barbican: secrets, keys and certificates of users and of other services. It encrypts them with a key
    for each project, and these with a key-encryption key in the Secret `<name>-kek`. **Without this Secret no program
    can read them**: keep a copy outside of the cluster. With `vault`, secrets are in a Vault instead.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(oldSelf.vault) || has(self.vault)",
            (
                "secrets in the Vault would become unreadable; to store new ones elsewhere, set vault.newSecrets "
                "to database"
            ),
            ".vault",
        ),
    )

    api: HttpApi = HttpApi()
    """Pods of the Key Manager API."""
    worker: Scalable = Scalable()
    """The worker, which processes orders for new keys."""
    kek_generation: Annotated[int, Field(ge=1)] = 1
    """Raise this number to rotate the key-encryption key. All programs first learn the new key, then encrypt with it; a
    job re-encrypts all project keys, and the operator removes the old key. The condition KEKReady shows the progress. A
    smaller number changes nothing."""
    purge: ProjectPurge = ProjectPurge()
    """Removal of secrets whose project has been missing in Keystone for some days."""
    vault: Vault | None = None
    """Vault that stores new secrets. If unset, they are in the database. Existing secrets do not move."""


BARBICAN = Resource(
    kind="Barbican",
    plural="barbicans",
    spec=BarbicanSpec,
    columns=(Column("Endpoint", ".status.endpoint"), Column("KEK", ".spec.kekGeneration", "integer", priority=1)),
)
