"""Small resources, each for one thing that lives outside Kubernetes."""

from typing import Annotated, Literal

from pydantic import Field

from ..api import (
    AccessRules,
    Column,
    DatabaseName,
    KeystoneRef,
    MariaDBRef,
    Model,
    Quantity,
    RabbitMQRef,
    Region,
    Resource,
    SecretKeyRef,
    immutable,
    immutable_optional,
    rule,
    validated,
)

SqlUser = Annotated[
    str,
    # MariaDB's limit is 128; MySQL clients and tools stop at 80.
    Field(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9_]+$"),
    validated(
        immutable("the account's name"),
        rule(
            # The last one replicates for mariadb-operator.
            "!(self.lowerAscii() in ['root', 'mysql', 'public', 'repl'])",
            "the server uses this account itself; choose another name",
        ),
    ),
]

TableName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_]+$")]

BrokerName = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9_.:-]+$")]

IdentityName = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^\S(.*\S)?$")]

Url = Annotated[
    str,
    # 225 is the Identity API's own limit for an endpoint.
    Field(max_length=225, pattern=r"^https?://[^/\s]+\S*$"),
]


Keeper = Literal["builtin", "k-orc"]


class MariaDBDatabaseSpec(Model):
    """A schema in a MariaDB, with an account that may do everything in this schema, or read some of its tables, and
    nothing elsewhere.
    """

    rules = (
        rule(
            "!has(self.collation) || self.collation.startsWith(self.characterSet + '_')",
            "collation belongs to another character set; choose one that starts with characterSet and an underscore",
            ".collation",
        ),
        rule(
            "!(self.database.lowerAscii() in ['mysql', 'information_schema', 'performance_schema', 'sys'])",
            "the server uses this schema itself; choose another name",
            ".database",
        ),
    )

    mariadb_ref: Annotated[MariaDBRef, validated(immutable("mariadbRef"))] = Field(
        default=MariaDBRef(name="mariadb"), alias="mariadbRef"
    )
    """Server that holds the schema. Data does not move between servers by itself, so this cannot be changed."""
    database: DatabaseName
    """Name of the schema. Cannot be changed."""
    user: SqlUser
    """Name of the account. It belongs to this resource alone: privileges it has elsewhere are revoked. Cannot be
    changed."""
    password_secret_ref: SecretKeyRef
    """Secret with the account's password. When the Secret changes, the operator updates the account."""
    readable_tables: (
        Annotated[
            list[TableName],
            Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Tables that the account may read, without other rights. They must exist. If unset, the account has all rights on
    the schema."""
    # DevStack creates every schema this way, so it is what all services are tested with; all of them connect with
    # charset=utf8, and tables that name a character set name this one.
    character_set: Literal["utf8mb3", "utf8mb4"] = "utf8mb3"
    """Character set of new tables. A change does not affect existing tables."""
    # Tables that name a character set without a collation take the server's default. A schema that does the same can
    # be joined with them on any version; MariaDB 11.5 changed that default.
    collation: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9_]+$")] | None = None
    """Sort order of new tables, the server's default for the character set if unset."""
    deletion_policy: Literal["Retain", "Delete"] = "Retain"
    """Retain keeps the schema when this resource is deleted, Delete removes it. The account is always removed."""


Pattern = Annotated[str, Field(max_length=512)]
"""A regular expression of Erlang. It matches anywhere in a name, so begin it with `^` and end it with `$`."""


class BrokerPermissions(Model):
    """Permissions of a user in its virtual host, by names of exchanges and queues; an empty expression allows none."""

    configure: Pattern = ""
    """Regular expression of the objects that the user may create and delete."""
    write: Pattern = ""
    """Regular expression of the exchanges that the user may publish to. The default exchange is `amq.default`."""
    read: Pattern = ""
    """Regular expression of the queues that the user may consume from."""
    routing_keys: Annotated[dict[str, Pattern], Field(max_length=16)] = {}
    """Regular expression of the routing keys with which the user may publish to a topic exchange, by name of the
    exchange. An exchange that is not named accepts all."""


class RabbitMQVhostSpec(Model):
    """A virtual host of a RabbitMQ, with a user that may do everything in it, or what `permissions` allow."""

    rabbitmq_ref: Annotated[RabbitMQRef, validated(immutable("rabbitmqRef"))] = Field(
        default=RabbitMQRef(name="rabbitmq"), alias="rabbitmqRef"
    )
    """Broker that holds the virtual host. Cannot be changed."""
    vhost: Annotated[BrokerName, validated(immutable("the virtual host's name"))]
    """Name of the virtual host. Durable queues in it are quorum queues unless a client asks for another type. Cannot be
    changed."""
    user: Annotated[BrokerName, validated(immutable("the user's name"))]
    """Name of the user. It gets no tag, so it cannot log in to the management interface. Cannot be changed."""
    password_secret_ref: SecretKeyRef
    """Secret with the user's password. When the Secret changes, the operator updates the user."""
    permissions: BrokerPermissions | None = None
    """Permissions of the user in the virtual host. Unset allows everything."""
    queue_limit: Quantity | None = None
    """Maximum size of each queue in bytes; when it is full, it drops its oldest messages. No limit if unset."""
    queues_of: RabbitMQRef | None = None
    """Old broker with a virtual host of the same name, from which clients move to this one. The operator creates its
    durable quorum queues here, empty, to hold messages for programs that have not moved yet."""
    drains: bool = False
    """All clients have moved away: the virtual host is not Ready while it still holds messages for servers."""
    deletion_policy: Literal["Retain", "Delete"] = "Delete"
    """Delete removes the virtual host with all its queues when this resource is deleted, Retain keeps it. The user is
    always removed."""


class KeystoneUserSpec(Model):
    """A user of Keystone with roles in one project, as services use it."""

    keystone_ref: Annotated[KeystoneRef, validated(immutable("keystoneRef"))] = KeystoneRef(name="keystone")
    """Keystone that holds the user. Cannot be changed."""
    user: Annotated[IdentityName, validated(immutable("the user's name"))]
    """Name of the user. Cannot be changed."""
    password_secret_ref: SecretKeyRef
    """Secret with the user's password. When the Secret changes, the operator updates the user."""
    domain: Annotated[str, Field(min_length=1, max_length=64), validated(immutable("domain"))] = "Default"
    """Name of the domain of user and project. It must exist. Cannot be changed."""
    project: Annotated[str, Field(min_length=1, max_length=64), validated(immutable("project"))] = "service"
    """Name of the project. It is created where it does not exist, and kept when this resource is deleted. Cannot be
    changed."""
    roles: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=255)]],
        Field(min_length=1, max_length=32, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = ["admin", "service"]
    """Names of the roles the user has in the project, exactly these. They must exist."""
    provider: Keeper = "builtin"
    """Operator that creates the user and keeps it enabled: builtin is this resource, k-orc is K-ORC, by a User of
    openstack.k-orc.cloud with the name of this resource. This resource always manages the project and the roles, and
    removes the user."""
    deletion_policy: Literal["Retain", "Delete"] = "Delete"
    """Delete removes the user when this resource is deleted. Retain keeps it, for a user whose id Keystone needs later:
    Keystone deletes each trust of a user with the user."""


class KeystoneDomainSpec(Model):
    """A domain of Keystone for the users that a service makes, as Heat does for its stacks, with an administrator of
    its own; and roles of Keystone that the service needs.
    """

    rules = (
        rule(
            "self.domain.lowerAscii() != 'default'",
            "this domain holds the users of services; choose another name",
            ".domain",
        ),
    )

    keystone_ref: Annotated[KeystoneRef, validated(immutable("keystoneRef"))] = KeystoneRef(name="keystone")
    """Keystone that holds the domain. Cannot be changed."""
    domain: Annotated[
        str, Field(min_length=1, max_length=64, pattern=r"^\S(.*\S)?$"), validated(immutable("the domain's name"))
    ]
    """Name of the domain, which belongs to this resource alone. It must not exist yet, or be one that a KeystoneDomain
    made. Cannot be changed."""
    description: Annotated[str, Field(max_length=128)] = ""
    """Description of the domain for people."""
    administrator: Annotated[IdentityName, validated(immutable("the administrator's name"))]
    """Name of a user in the domain with the role admin on it, who manages its users and projects. Keystone takes this
    role, wherever a user has it, for an administrator of everything: let only administrators of the cloud create this
    kind. Cannot be changed."""
    password_secret_ref: SecretKeyRef
    """Secret with the administrator's password. When the Secret changes, the operator updates the user."""
    roles: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=255)]],
        Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = []
    """Names of roles of Keystone that are created where they do not exist, and kept when this resource is deleted."""
    deletion_policy: Literal["Retain", "Delete"] = "Retain"
    """Retain keeps the domain when this resource is deleted, Delete removes it with all its users and projects. The
    administrator is always removed."""


class CredentialOwner(Model):
    """A user of Keystone, as a KeystoneUser makes it."""

    user: IdentityName
    """Name of the user."""
    password_secret_ref: SecretKeyRef
    """Secret with the user's password. Keystone lets only the user itself create a credential. When the password
    changes, the credential stays."""
    domain: Annotated[str, Field(min_length=1, max_length=64)] = "Default"
    """Name of the domain of user and project."""
    project: Annotated[str, Field(min_length=1, max_length=64)] = "service"
    """Name of the project in which the credential is used. Its roles are those that the user has there when the
    operator creates it."""


class KeystoneApplicationCredentialSpec(Model):
    """An application credential of Keystone's administrator, or of another user, with the user's roles in its
    project.
    """

    rules = (immutable_optional("owner", "the credential's owner"),)

    keystone_ref: Annotated[KeystoneRef, validated(immutable("keystoneRef"))] = KeystoneRef(name="keystone")
    """Keystone that holds the credential. Cannot be changed."""
    credential: Annotated[IdentityName, validated(immutable("the credential's name"))]
    """Name of the credential. Cannot be changed."""
    password_secret_ref: SecretKeyRef
    """Secret with the secret of the credential. When it changes, the credential is replaced."""
    owner: CredentialOwner | None = None
    """User to whom the credential belongs, the administrator if unset. You cannot change, set or unset it later."""
    access_rules: AccessRules = []
    """Requests that the credential may make, and no others. An empty list allows all that the user's roles allow. When
    the rules change, the credential is replaced by one of the same name and secret, and its tokens end. A service
    refuses other requests with 401."""


class Endpoints(Model):
    """URLs of a service by who uses them."""

    public: Url
    """URL for everyone."""
    internal: Url
    """URL for services of the same cloud."""
    admin: Url | None = None
    """URL for administrators. Few services still use it."""


OBEYED_TYPES = (
    "accelerator",
    "block-storage",
    "block-store",
    "identity",
    "image",
    "key-manager",
    "network",
    "placement",
    "share",
    "shared-file-system",
    "sharev2",
    "volume",
    "volumev2",
    "volumev3",
)
"""Types of the catalog in which nova-compute looks for services, with their other names (os-service-types)."""


class KeystoneServiceSpec(Model):
    """A service in Keystone's catalog with its endpoints in one region."""

    node_values = {"type": OBEYED_TYPES}

    keystone_ref: Annotated[KeystoneRef, validated(immutable("keystoneRef"))] = KeystoneRef(name="keystone")
    """Keystone that holds the catalog. Cannot be changed."""
    type: Annotated[
        str,
        # Clients take block_storage for block-storage, so that it would be another name of an obeyed type.
        Field(min_length=1, max_length=255, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        validated(immutable("the service's type")),
    ]
    """Type by which clients find the service: compute, image, network. Cannot be changed."""
    name: Annotated[IdentityName, validated(immutable("the service's name"))]
    """Name of the service, shown to people. Cannot be changed."""
    description: Annotated[str, Field(max_length=1024)] = ""
    """Description of the service for people."""
    region: Region = "RegionOne"
    """Region of the endpoints; the operator does not change endpoints in other regions. Cannot be changed."""
    endpoints: Endpoints
    """URLs of the service; the operator removes interfaces that are not listed."""
    provider: Keeper = "builtin"
    """Operator that creates the service and keeps it enabled and described: builtin is this resource, k-orc is K-ORC,
    by a Service of openstack.k-orc.cloud with the name of this resource. This resource always manages the endpoints,
    and removes the service."""


DATABASE = Resource(
    kind="MariaDBDatabase",
    plural="mariadbdatabases",
    spec=MariaDBDatabaseSpec,
    short_names=("mdbdb",),
    columns=(Column("Database", ".spec.database"), Column("Server", ".spec.mariadbRef.name")),
)
VHOST = Resource(
    kind="RabbitMQVhost",
    plural="rabbitmqvhosts",
    spec=RabbitMQVhostSpec,
    short_names=("rmqvhost",),
    columns=(Column("Vhost", ".spec.vhost"), Column("Broker", ".spec.rabbitmqRef.name")),
)
USER = Resource(
    kind="KeystoneUser",
    plural="keystoneusers",
    spec=KeystoneUserSpec,
    short_names=("ksuser",),
    columns=(Column("User", ".spec.user"), Column("Project", ".spec.project")),
)
DOMAIN = Resource(
    kind="KeystoneDomain",
    plural="keystonedomains",
    spec=KeystoneDomainSpec,
    short_names=("ksdomain",),
    columns=(Column("Domain", ".spec.domain"), Column("Administrator", ".spec.administrator")),
)
APPLICATION_CREDENTIAL = Resource(
    kind="KeystoneApplicationCredential",
    plural="keystoneapplicationcredentials",
    spec=KeystoneApplicationCredentialSpec,
    short_names=("ksappcred",),
    columns=(Column("Credential", ".spec.credential"),),
)
SERVICE = Resource(
    kind="KeystoneService",
    plural="keystoneservices",
    spec=KeystoneServiceSpec,
    short_names=("kssvc",),
    columns=(Column("Type", ".spec.type"), Column("Public", ".spec.endpoints.public", priority=1)),
)
