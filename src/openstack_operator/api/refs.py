"""Typed references: each states a dependency once, and watches, waiting and order follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from .fields import Name
from .model import Model, Template


class Ref(Model):
    """Points at another resource in the same namespace, by name."""

    kind: ClassVar[str] = ""
    """Kind of the resource in our own API group."""
    optional: ClassVar[bool] = False
    """Whether nothing waits for it to be there."""
    name: Name
    """Name of the resource."""


class MariaDBRef(Ref):
    """A MariaDB in the same namespace."""

    kind: ClassVar[str] = "MariaDB"


class RabbitMQRef(Ref):
    """A RabbitMQ in the same namespace."""

    kind: ClassVar[str] = "RabbitMQ"


class MemcachedRef(Ref):
    """A Memcached in the same namespace."""

    kind: ClassVar[str] = "Memcached"


class KeystoneRef(Ref):
    """A Keystone in the same namespace."""

    kind: ClassVar[str] = "Keystone"


class GlanceRef(Ref):
    """A Glance in the same namespace."""

    kind: ClassVar[str] = "Glance"


class PlacementRef(Ref):
    """A Placement in the same namespace."""

    kind: ClassVar[str] = "Placement"


class NeutronRef(Ref):
    """A Neutron in the same namespace."""

    kind: ClassVar[str] = "Neutron"


class NovaRef(Ref):
    """A Nova in the same namespace."""

    kind: ClassVar[str] = "Nova"


class OptionalNovaRef(NovaRef):
    """A Nova in the same namespace that may come later, or never."""

    optional: ClassVar[bool] = True


class OVNNetworkRef(Ref):
    """An OVNNetwork in the same namespace."""

    kind: ClassVar[str] = "OVNNetwork"


class CephStorageRef(Ref):
    """A CephStorage in the same namespace."""

    kind: ClassVar[str] = "CephStorage"


class EtcdRef(Ref):
    """An Etcd in the same namespace."""

    kind: ClassVar[str] = "Etcd"


class CinderRef(Ref):
    """A Cinder in the same namespace."""

    kind: ClassVar[str] = "Cinder"


class PKIRef(Ref):
    """A PKI in the same namespace."""

    kind: ClassVar[str] = "PKI"


class SecretRef(Model):
    """A Secret in the same namespace, all of it."""

    name: Name
    """Name of the Secret."""


class OptionalSecretRef(SecretRef):
    """A Secret that others make, in their time."""


class SecretKeyRef(Model):
    """One key of a Secret in the same namespace."""

    name: Name
    """Name of the Secret."""
    key: str = "password"
    """Key in the Secret's data."""


def found(spec: Any, kind: type[Any], path: str = "spec") -> Iterator[tuple[str, Any]]:
    """Every value of `kind` in a spec with its path as users write it: (`spec.database.mariadbRef`, ref).

    All the runtime needs to fetch, index and watch what a resource depends on. What a template names is left out:
    the resource made of it waits for that.
    """
    if isinstance(spec, kind):
        yield path, spec
    elif isinstance(spec, Model) and not isinstance(spec, Template):
        for name, info in type(spec).model_fields.items():
            yield from found(getattr(spec, name), kind, f"{path}.{info.alias or name}")
        for name, value in spec.implied().items():
            yield from found(value, kind, f"{path}.{name}")
    elif isinstance(spec, Mapping):
        for name, value in spec.items():
            yield from found(value, kind, f"{path}.{name}")
    elif isinstance(spec, (list, tuple)):
        for index, value in enumerate(spec):
            yield from found(value, kind, f"{path}[{index}]")


def references(spec: Model) -> list[tuple[str, Ref]]:
    """Every resource of ours this spec points at, with the field's path."""
    return list(found(spec, Ref))


def secret_references(spec: Model) -> list[tuple[str, SecretKeyRef]]:
    """Every key of a Secret this spec points at, with the field's path."""
    return list(found(spec, SecretKeyRef))


def whole_secrets(spec: Model) -> list[tuple[str, SecretRef]]:
    """Every Secret this spec points at as a whole, with the field's path."""
    return list(found(spec, SecretRef))
