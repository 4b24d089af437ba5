"""Errors of a resource for writes of its objects that the API server refused."""

from __future__ import annotations

from ...kube import FIELD
from ...plan import Incomplete, Object, SpecError, Transient
from ..kubernetes.errors import Missing, NotAdmitted
from ..kubernetes.kinds import VOLUME_CLAIM, Catalog, Kind

_GROW = "; to grow the volume, set allowVolumeExpansion: true in its StorageClass"
_INSTALL = "kubectl apply --server-side -f deploy/crds-"


def not_admitted(catalog: Catalog, kind: Kind, body: Object, error: NotAdmitted) -> SpecError | Transient:
    """Return the error for an object that admission refused, with the field of the spec that made it so.

    It is Transient for an object of another operator without such a field: its webhook may look into a cache that does
    not have yet what was made just before.
    """
    field = body["metadata"]["annotations"].get(FIELD)
    if field:
        return SpecError(field, f"{error}{_GROW if kind is VOLUME_CLAIM else ''}")
    return Transient(str(error)) if kind in catalog.external else error


def not_served(catalog: Catalog, kind: Kind, body: Object, error: Missing) -> Incomplete | Missing:
    """Return the error for an object whose kind this cluster does not serve, with what to install. The error itself for
    a kind that every cluster has, and for an object that no field asks for.
    """
    if kind.optional and kind in catalog.resources:
        reason = f"this cluster serves no {kind.full_name}; install them: {_INSTALL}{kind.project}"
        return Incomplete(f"{kind.kind}/{body['metadata']['name']}", reason)
    field = body["metadata"]["annotations"].get(FIELD)
    if not kind.optional or not field:
        return error
    reason = f"this cluster serves no {kind.full_name} of version {kind.version}"
    remedy = (
        f"install {kind.operator}, or choose builtin" if kind.operator else "install its operator, or remove the field"
    )
    return Incomplete(field, f"{reason}; {remedy}")
