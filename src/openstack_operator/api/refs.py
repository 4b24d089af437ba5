"""Typed references: each states a dependency once, and watches, waiting and order follow from it."""

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, get_args

from pydantic import Field

from .fields import Name, bounded
from .kinds import DEPENDENCY_KINDS
from .model import Model, Template, named_fields


class Ref(Model):
    """Points at another resource in the same namespace, by name."""

    kind: ClassVar[str] = ""
    """Kind of the resource in our own API group."""
    optional: ClassVar[bool] = False
    """True if nothing waits for it to exist."""
    existing: ClassVar[bool] = False
    """True if plans see an optional resource as soon as it exists, before it publishes anything."""
    name: Name
    """Name of the resource."""

    def namespace_in(self, namespace: str) -> str:
        """Return the namespace of the resource, for a reference in a spec of that namespace."""
        return namespace


KindT = TypeVar("KindT", bound=str)


class RefTo(Ref, Generic[KindT]):
    """Points at a resource of one kind: `RefTo[Literal["Nova"]]`."""

    def __class_getitem__(cls, typevar_values: Any) -> Any:
        """Return a class of its own for each kind. Two generics of pydantic would be equal, if the names are."""
        kinds: tuple[str, ...] = get_args(typevar_values)
        return _ref_class(cls, *kinds) if kinds else cls


class OptionalRefTo(RefTo[KindT], Generic[KindT]):
    """Points at a resource of one kind that nothing waits for."""

    optional: ClassVar[bool] = True


class ExistingRefTo(OptionalRefTo[KindT], Generic[KindT]):
    """Points at a resource of one kind that nothing waits for, and that plans see as soon as it exists."""

    existing: ClassVar[bool] = True


@cache
def _ref_class(base: type[Ref], kind: str) -> type[Ref]:
    later = " that may come later, or never: its clients work without it" if base.optional else ""
    text = f"{'An' if kind[0] in 'AEIOU' else 'A'} {kind} in the same namespace{later}."
    annotations = {"kind": ClassVar[str]}  # pyrefly: ignore[invalid-annotation]  (a class made at run time)
    members = {"__module__": __name__, "__doc__": text, "__annotations__": annotations, "kind": kind}
    return type(f"{kind}Ref", (base,), members)


MariaDBRef = RefTo[Literal["MariaDB"]]
RabbitMQRef = RefTo[Literal["RabbitMQ"]]
MemcachedRef = RefTo[Literal["Memcached"]]
KeystoneRef = RefTo[Literal["Keystone"]]
GlanceRef = RefTo[Literal["Glance"]]
PlacementRef = RefTo[Literal["Placement"]]
NeutronRef = RefTo[Literal["Neutron"]]
OVNNetworkRef = RefTo[Literal["OVNNetwork"]]
CephStorageRef = RefTo[Literal["CephStorage"]]
EtcdRef = RefTo[Literal["Etcd"]]
CinderRef = RefTo[Literal["Cinder"]]
BarbicanRef = RefTo[Literal["Barbican"]]
PKIRef = RefTo[Literal["PKI"]]
OptionalNovaRef = OptionalRefTo[Literal["Nova"]]
CortexRef = OptionalRefTo[Literal["Cortex"]]
DesignateRef = OptionalRefTo[Literal["Designate"]]
ExistingCephStorageRef = ExistingRefTo[Literal["CephStorage"]]
OptionalPKIRef = OptionalRefTo[Literal["PKI"]]
OptionalCephStorageRef = OptionalRefTo[Literal["CephStorage"]]

OPTIONAL_KINDS = frozenset(
    ref.kind for ref in (OptionalNovaRef, CortexRef, DesignateRef, OptionalPKIRef, OptionalCephStorageRef)
)
"""Kinds that other services can run without; once such a resource exists, those get a new configuration."""

CLOUD_PKI = OptionalPKIRef(name="internal")
"""The PKI that a cloud makes for its services."""


def optional_ref(kind: str, name: str) -> Ref:
    """Return a reference to a resource that may not exist, of a kind that is known only when it is read."""
    return _ref_class(OptionalRefTo, kind)(name=name)


class NamespacedOVNNetworkRef(Ref):
    """An OVNNetwork in this or another namespace, where an annotation of its own has to allow it."""

    kind: ClassVar[str] = "OVNNetwork"
    namespace: Name | None = None
    """Namespace of the OVNNetwork, that of this resource if unset."""

    def namespace_in(self, namespace: str) -> str:
        """Return the namespace of the OVNNetwork."""
        return self.namespace or namespace


PUBLIC_KEYS = frozenset({"ca.crt", "tls.crt"})
"""Keys of the operator's own Secrets whose content is public: certificates and authorities."""

KEYSTONE_LOGIN = "login to Keystone"
OVN_LOGIN = "login to OVN"
ANY_PURPOSE = "*"


class SecretRef(Model):
    """A Secret in the same namespace, all of it."""

    field: ClassVar[str] = ".name"
    """Field of the reference that is wrong if there is no such Secret."""
    purpose: ClassVar[str] = ""
    """Purpose of the field, for which other resources share Secrets of theirs; empty if none does."""
    name: Name
    """Name of the Secret."""

    @property
    def read_keys(self) -> frozenset[str] | None:
        """Return the keys that the field reads; None if it may read all."""
        return None

    @property
    def certificate_keys(self) -> frozenset[str]:
        """Return the keys that hold certificates in PEM where the Secret has them."""
        return frozenset()


class AuthoritySecretRef(SecretRef):
    """A Secret in the same namespace with authorities under `ca.crt`, the only key that is read."""

    @property
    def read_keys(self) -> frozenset[str]:
        """Return the key of the authorities."""
        return frozenset({"ca.crt"})

    @property
    def certificate_keys(self) -> frozenset[str]:
        """Return the key of the authorities."""
        return self.read_keys


class ClientSecretRef(SecretRef):
    """A Secret in the same namespace for a client, which may bring the authorities that verify its server."""

    @property
    def certificate_keys(self) -> frozenset[str]:
        """Return the key of the authorities, here or beside a clouds.yaml."""
        return frozenset({"ca.crt", "cacert"})


class KeystoneSecretRef(ClientSecretRef):
    """A Secret in the same namespace with a login to a Keystone."""

    purpose: ClassVar[str] = KEYSTONE_LOGIN


class OVNSecretRef(ClientSecretRef):
    """A Secret in the same namespace with a certificate for clients of OVN's databases."""

    purpose: ClassVar[str] = OVN_LOGIN


class OptionalSecretRef(SecretRef):
    """A Secret that others create, possibly later."""


class OptionalKeystoneSecretRef(OptionalSecretRef):
    """A Secret with a login to a Keystone that others create, possibly later."""

    purpose: ClassVar[str] = KEYSTONE_LOGIN


class LoginSecretRef(ClientSecretRef):
    """A Secret in the same namespace with the login of an external server."""

    keys: ClassVar[tuple[str, ...]] = ("username", "password")
    """Keys that the Secret must have."""


class AppSecretRef(LoginSecretRef):
    """The Secret an AppCredentialRef means."""

    field: ClassVar[str] = ""
    purpose: ClassVar[str] = KEYSTONE_LOGIN
    keys: ClassVar[tuple[str, ...]] = ("application_credential_id", "application_credential_secret")


class SecretFileRef(SecretRef):
    """A file in a Secret in the same namespace, with any number of lines."""

    default_key: ClassVar[str] = "ca.crt"
    """Key if none is set."""
    key: Annotated[str, Field(max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")] | None = None
    """Key in the Secret's data."""

    @property
    def read_keys(self) -> frozenset[str]:
        """Return the key; if none is set, those that the operator reads then: certificates, or a user's metadata."""
        return frozenset({self.key}) if self.key else PUBLIC_KEYS

    @property
    def file_key(self) -> str:
        """Return the key of the file."""
        return self.key or self.default_key


class MetadataFileRef(SecretFileRef):
    """A file in a Secret in the same namespace with metadata of SAML."""

    default_key: ClassVar[str] = "metadata.xml"


class AuthorityFileRef(SecretFileRef):
    """A file in a Secret in the same namespace with authorities."""

    @property
    def certificate_keys(self) -> frozenset[str]:
        """Return the key of the file."""
        return frozenset({self.file_key})


class CertificateFileRef(AuthorityFileRef):
    """A file in a Secret in the same namespace with a certificate."""

    default_key: ClassVar[str] = "tls.crt"


class SecretKeyRef(Model):
    """One key of a Secret in the same namespace."""

    field: ClassVar[str] = ".name"
    purpose: ClassVar[str] = ""
    name: Name
    """Name of the Secret."""
    key: Annotated[str, bounded(253)] = "password"
    """Key in the Secret's data."""

    @property
    def read_keys(self) -> frozenset[str]:
        """Return the key."""
        return frozenset({self.key})


if TYPE_CHECKING:
    DependencyKind = str
else:
    DependencyKind = Literal[DEPENDENCY_KINDS]


class Dependency(Model):
    """A condition of another resource in the same namespace."""

    kind: DependencyKind
    """Kind of the resource to wait for."""
    name: Name
    """Name of the resource to wait for."""
    condition: Annotated[str, Field(max_length=63, pattern="^[A-Z][A-Za-z]*$")] = "Ready"
    """Condition of the resource that must be true."""


def find_by_type(spec: Any, kind: type[Any] | tuple[type[Any], ...], path: str = "spec") -> Iterator[tuple[str, Any]]:
    """Yield every value of `kind` in a spec with its path as users write it: (`spec.database.mariadbRef`, ref).

    The runtime needs no more to fetch, index and watch the dependencies of a resource. The references of a template are
    left out: the resource made of it waits for them.
    """
    if spec is None:
        return
    if isinstance(spec, kind):
        yield path, spec
    elif isinstance(spec, Model) and not isinstance(spec, Template):
        default_refs = dict(spec.default_refs())
        for name, field, may_hold_models in named_fields(type(spec)):
            if may_hold_models:
                yield from find_by_type(getattr(spec, name), kind, f"{path}.{field}")
            for inner in [each for each in default_refs if each.startswith(f"{field}.")] if default_refs else ():
                yield from find_by_type(default_refs.pop(inner), kind, f"{path}.{inner}")
        for name, value in default_refs.items():
            yield from find_by_type(value, kind, f"{path}.{name}")
    elif isinstance(spec, Mapping):
        for name, value in spec.items():
            yield from find_by_type(value, kind, f"{path}.{name}")
    elif isinstance(spec, (list, tuple)):
        for index, value in enumerate(spec):
            yield from find_by_type(value, kind, f"{path}[{index}]")


class _Identity:
    """A spec as the key of a cache: specs are frozen, so that the same one always has the same references."""

    def __init__(self, spec: Model) -> None:
        self.spec = spec

    def __hash__(self) -> int:
        return id(self.spec)

    def __eq__(self, value: object, /) -> bool:
        return isinstance(value, _Identity) and self.spec is value.spec


@lru_cache(maxsize=32)
def _references(key: _Identity) -> tuple[tuple[str, Any], ...]:
    """Return all references in a spec: each pass and each plan asks for all kinds of them, one after the other."""
    return tuple(find_by_type(key.spec, (Ref, SecretRef, SecretKeyRef, Dependency)))


RefT = TypeVar("RefT")


def _of_kind(spec: Model, kind: type[RefT]) -> list[tuple[str, RefT]]:
    return [(path, ref) for path, ref in _references(_Identity(spec)) if isinstance(ref, kind)]


def references(spec: Model) -> list[tuple[str, Ref]]:
    """Return every resource of ours this spec points at, with the field's path."""
    return _of_kind(spec, Ref)


def secret_references(spec: Model) -> list[tuple[str, SecretKeyRef]]:
    """Return every key of a Secret this spec points at, with the field's path."""
    return _of_kind(spec, SecretKeyRef)


def logins(spec: Model) -> list[tuple[str, LoginSecretRef]]:
    """Return every Secret this spec points at with the login of an external server, with the field's path."""
    return _of_kind(spec, LoginSecretRef)


def dependencies(spec: Model) -> list[tuple[str, Dependency]]:
    """Return everything this spec waits for without using it, with the field's path."""
    return _of_kind(spec, Dependency)


def whole_secrets(spec: Model) -> list[tuple[str, SecretRef]]:
    """Return every Secret this spec points at as a whole, with the field's path."""
    return _of_kind(spec, SecretRef)


class SecretUse(NamedTuple):
    """A use of a Secret by a field of a spec."""

    path: str
    """Path of the field with the Secret's name."""
    name: str
    """Name of the Secret."""
    keys: frozenset[str] | None
    """Keys that the field reads; None if it may read all."""
    purpose: str
    """Purpose of the field, as in `SecretRef.purpose`; ANY_PURPOSE fits each."""


def secret_uses(spec: Model) -> list[SecretUse]:
    """Return every use of a Secret that this spec names."""
    refs: list[tuple[str, SecretRef | SecretKeyRef]] = [*secret_references(spec), *whole_secrets(spec)]
    return [SecretUse(f"{path}{ref.field}", ref.name, ref.read_keys, ref.purpose) for path, ref in refs]
