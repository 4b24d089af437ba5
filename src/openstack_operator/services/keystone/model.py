"""Spec of a Keystone."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field, model_validator

from ...api import (
    AccessRules,
    CachesResults,
    Column,
    ComponentSettings,
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
    UsesLogging,
    UsesNotifications,
    UsesPolicies,
    immutable_optional,
    rule,
    validated,
)
from .federation.model import Federation
from .ldap.model import Domains


class Rotation(Model):
    """Rotation of keys."""

    rotation_schedule: Schedule = "0 0 * * 0"
    """Schedule of key rotations, as a cron expression in UTC."""
    max_active_keys: Annotated[int, Field(ge=3, le=32)] = 3
    """Number of keys, including the staged and the primary one. Tokens stay valid for (maxActiveKeys - 2) rotations."""


class Bootstrap(Model):
    """The first administrator, and the region."""

    rules: ClassVar[tuple[Rule, ...]] = (immutable_optional("region", "the region"),)

    admin_user: Name = "admin"
    """Name of the administrator."""
    admin_project: Name = "admin"
    """Project of the administrator."""
    admin_password_secret_ref: SecretKeyRef | None = None
    """Secret with the administrator's password; if unset, the operator generates one."""
    application_credential: bool = False
    """Create an application credential for the administrator: the Secret `<name>-app-credential` has a clouds.yaml that
    logs in with it. With catalog.provider k-orc, the operator always creates one."""
    access_rules: AccessRules = []
    """Requests that the application credential may make, and no others. An empty list allows all that its roles allow.
    K-ORC logs in with it, too, and needs each method for `/v3/**` of identity, and what your own resources of K-ORC are
    about."""
    region: Region | None = None
    """The same as `region` of the spec. You cannot change, set or unset it later."""


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
    """Kind of the store: of this namespace, or of the whole cluster."""
    key: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^\S+$")] | None = None
    """Key in the store, `<namespace>/k-orc/app-credential` if unset. In a ClusterSecretStore, other keys than
    `<namespace>/…` need the operator's flag `--secret-store-keys`."""


class Catalog(Model):
    """Operator that manages catalog services and their users."""

    provider: Literal["auto", "builtin", "k-orc"] = "builtin"
    """This operator, or K-ORC by resources of openstack.k-orc.cloud; this operator still manages what K-ORC does not
    support: regions of endpoints and roles of users. `auto` is k-orc if the cluster has its kinds, and builtin
    otherwise. You cannot change the provider later."""
    bootstrap_resources: BootstrapResources = []
    """Initial content of Keystone to create in K-ORC, for your own resources to refer to: domains (`default`; always),
    projects (`admin`, `service`), roles (`admin`, `manager`, `member`, `reader`, `service`)."""
    secret_store_ref: SecretStore | None = None
    """Secret store for K-ORC's login: a PushSecret writes the clouds.yaml there, and an ExternalSecret makes the Secret
    `k-orc-clouds-yaml` from it. If unset, the operator makes that Secret itself."""


class KeystoneSpec(ServiceSpec, UsesPolicies, UsesLogging, UsesDatabase, UsesNotifications, CachesResults):
    """OpenStack Keystone: users, projects, tokens and the service catalog."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            # What the API server fills in is not counted.
            "!has(self.bootstrap) || !has(self.bootstrap.region) || !has(self.region)"
            " || self.region in ['RegionOne', self.bootstrap.region]",
            "region differs from bootstrap.region; remove one of the two",
            ".region",
        ),
    )

    api: HttpApi = HttpApi()
    """Pods of the Identity API."""
    fernet: Rotation = Rotation()
    """Keys that sign tokens, and their rotation."""
    credential_keys: Rotation = Rotation(rotation_schedule="@monthly")
    """Keys that encrypt stored credentials (EC2, TOTP), and their rotation."""
    bootstrap: Bootstrap = Bootstrap()
    """The first administrator and the region."""
    catalog: Catalog = Catalog()
    """Operator that manages catalog services and their users."""
    federation: Federation = Federation()
    """Login for users of external identity providers."""
    domains: Domains = []
    """Domains with users from LDAP."""
    client: ComponentSettings = ComponentSettings(replicas=1)
    """The pod with the openstack command. The service's image, resources and replicas do not apply to it."""

    @model_validator(mode="before")
    @classmethod
    def _copy_region(cls, document: Any) -> Any:
        """Copy `bootstrap.region` to `region`, the field that every service has."""
        if not isinstance(document, Mapping) or not isinstance(boot := document.get("bootstrap"), Mapping):
            return document
        spec, region = cast("Mapping[str, Any]", document), cast("Mapping[str, Any]", boot).get("region")
        return {**spec, "region": region} if region else spec


KEYSTONE = Resource(
    kind="Keystone",
    plural="keystones",
    spec=KeystoneSpec,
    scale=Scale("api"),
    columns=(Column("Endpoint", ".status.endpoint"),),
)
