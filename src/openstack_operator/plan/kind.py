"""Kinds of the Kubernetes API: their names, and what is special about those of other projects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..api import Resource, handle
from .url_path import object_segment


@dataclass(frozen=True)
class Kind:
    """A kind and its collection in the API."""

    api_version: str
    kind: str
    plural: str
    alias: str = ""
    """Kind that one of ours replaces."""
    project: str = ""
    """Name of the project whose kinds a cluster may lack, or install or remove later; empty for a kind that each
    cluster has."""
    operator: str = ""
    """Name of the external operator that serves the kind, if a kind of ours does the same."""
    recreates_children: bool = False
    """True if that operator recreates the children of an object while the object is being deleted."""
    finalizer: str = ""
    """Finalizer by which that operator keeps an object until it has handled the remote side; only of kinds whose remote
    side need not go with the object, so that it is safe to remove the finalizer."""
    superseded_by: str = ""
    """The apiVersion to use instead of this one if the API serves both, which show the same objects."""
    newer_fields: tuple[str, ...] = ()
    """Fields of the spec that older definitions of the kind lack, and that an object can do without there."""

    @property
    def handle(self) -> str:
        """Identifier of the kind in the engine."""
        return handle(self.api_version, self.kind)

    @property
    def versioned(self) -> str:
        """The handle with the version in it, as kubectl takes it: `ExternalSecret.v1.external-secrets.io`."""
        return ".".join((self.kind, self.version, self.group))

    @property
    def full_name(self) -> str:
        """Unambiguous name for kubectl: `novas.openstack.k8s.io`; the plural alone in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def optional(self) -> bool:
        """True if a cluster may lack it, or install it later."""
        return bool(self.project)

    @property
    def role(self) -> str:
        """Name of the kind in references and labels."""
        return self.alias or self.kind

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version without its group."""
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
        """Return the URL path of the collection, of one object, or of its subresource. Raises SpecError for a name that
        no object can have, so that none leads elsewhere.
        """
        parts = ["apis" if "/" in self.api_version else "api", self.api_version]
        if namespace:
            parts += ["namespaces", object_segment(namespace, "namespace")]
        parts += [self.plural]
        if name:
            parts += [object_segment(name, f"name of {self.kind}")]
        if sub:
            parts += [sub]
        return "/" + "/".join(parts)

    @classmethod
    def of(cls, resource: Resource[Any]) -> Kind:
        """Return the kind of one of our own resources."""
        return cls(resource.api_version, resource.kind, resource.plural, resource.alias, project=resource.project)
