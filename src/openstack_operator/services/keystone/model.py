"""What users write to get a Keystone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field, model_validator

from ...api import (
    CachesResults,
    Column,
    Component,
    HttpApi,
    Model,
    Name,
    Region,
    Resource,
    Rule,
    Scale,
    Schedule,
    SecretKeyRef,
    ServiceSpec,
    UsesDatabase,
    rule,
    settled,
    validated,
)
from .federation.model import Federation


class Rotation(Model):
    """How keys age."""

    rotation_schedule: Schedule = "0 0 * * 0"
    """When the primary key is replaced, as a cron expression in UTC."""
    max_active_keys: Annotated[int, Field(ge=3, le=32)] = 3
    """Keys kept, the staged and the primary one included. Tokens stay valid for (maxActiveKeys - 2) rotations."""


class Bootstrap(Model):
    """The first administrator, and the region."""

    rules: ClassVar[tuple[Rule, ...]] = (settled("region", "the region"),)

    admin_user: Name = "admin"
    """Name of the administrator."""
    admin_project: Name = "admin"
    """Project of the administrator."""
    admin_password_secret_ref: SecretKeyRef | None = None
    """Password of the administrator; unset has the operator draw one."""
    application_credential: bool = False
    """Whether the administrator has an application credential: the Secret `<name>-app-credential` has a clouds.yaml
    that logs in by it. With catalog.provider k-orc he has one in any case."""
    region: Region | None = None
    """The same as `region` beside it. Cannot be changed, set or unset later."""


BootstrapResources = Annotated[
    list[Literal["domains", "projects", "roles"]],
    Field(max_length=3),
    validated(**{"x-kubernetes-list-type": "set"}),
]


class SecretStore(Model):
    """A store of secrets that the External Secrets Operator reaches."""

    name: Name
    """Name of the SecretStore or ClusterSecretStore."""
    kind: Literal["SecretStore", "ClusterSecretStore"] = "ClusterSecretStore"
    """Which of the two."""
    key: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^\S+$")] | None = None
    """Where in the store; unset is `<namespace>/k-orc/app-credential`. Others than `<namespace>/…` in a
    ClusterSecretStore need the operator's flag `--secret-store-keys`."""


class Catalog(Model):
    """Who keeps the services of the catalog, and their users."""

    provider: Literal["auto", "builtin", "k-orc"] = "builtin"
    """This operator, or K-ORC by resources of openstack.k-orc.cloud; what that has nothing for, regions of endpoints
    and roles of users, stays with this operator. `auto` is k-orc where the cluster has its kinds, and builtin
    otherwise. It stays as it was at first."""
    bootstrap_resources: BootstrapResources = []
    """What of Keystone's beginning K-ORC is shown, for resources of your own to refer to: domains (`default`), projects
    (`admin`, `service`), roles (`admin`, `manager`, `member`, `reader`, `service`). The domain is shown in any case."""
    secret_store_ref: SecretStore | None = None
    """By way of which store K-ORC is told how to log in: a PushSecret brings the clouds.yaml there, an ExternalSecret
    makes the Secret `k-orc-clouds-yaml` of it. Unset, that Secret is made directly."""


class KeystoneSpec(ServiceSpec, UsesDatabase, CachesResults):
    """OpenStack Keystone: users, projects, tokens and the service catalog."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            # What the API server fills in is not counted.
            "!has(self.bootstrap) || !has(self.bootstrap.region) || !has(self.region)"
            " || self.region in ['RegionOne', self.bootstrap.region]",
            "another region than bootstrap.region; keep one of the two",
            ".region",
        ),
    )

    api: HttpApi = HttpApi()
    """The Identity API."""
    fernet: Rotation = Rotation()
    """Keys that sign tokens."""
    credential_keys: Rotation = Rotation(rotation_schedule="@monthly")
    """Keys that encrypt stored credentials (EC2, TOTP)."""
    bootstrap: Bootstrap = Bootstrap()
    """The first administrator and the region."""
    catalog: Catalog = Catalog()
    """Who keeps the services of the catalog, and their users."""
    federation: Federation = Federation()
    """Users of identity providers outside of this cloud."""
    client: Component = Component(replicas=1)
    """The pod with the openstack command; the service's image, resources and replicas do not apply to it."""

    @model_validator(mode="before")
    @classmethod
    def _in_other_words(cls, given: Any) -> Any:
        """What `bootstrap.region` says stands in the field of every service."""
        if not isinstance(given, Mapping) or not isinstance(boot := given.get("bootstrap"), Mapping):
            return given
        spec, region = cast("Mapping[str, Any]", given), cast("Mapping[str, Any]", boot).get("region")
        return {**spec, "region": region} if region else spec


KEYSTONE = Resource(
    kind="Keystone",
    plural="keystones",
    spec=KeystoneSpec,
    scale=Scale("api"),
    columns=(Column("Endpoint", ".status.endpoint"),),
)
