"""Access rules: the requests to which an application credential is restricted."""

from typing import Annotated, Literal

from pydantic import Field

from .fields import validated
from .model import Model


class AccessRule(Model):
    """A request that an application credential may make."""

    service: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    """Type of the service in the catalog, such as identity, compute, network and image; of Cinder, volumev3."""
    # Those of Keystone's own schema; K-ORC's has three more, which Keystone refuses.
    method: Literal["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"]
    """Method of the request. GET does not include HEAD."""
    # Keystone's schema allows 225 characters and its table holds 128. Services take what is no wildcard for a part of a
    # regular expression, so that other characters would not stand for themselves.
    path: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^/([A-Za-z0-9_.~%:,@/*-]|\{[A-Za-z0-9_]+\})*$")]
    """Path of the request, from the root of the server and without a query: `/v2.1/servers/{server_id}`. `*` and
    `{name}` stand for one segment, `**` for any number of them. A `.` stands for any character."""


AccessRules = Annotated[
    list[AccessRule],
    Field(max_length=256),
    validated(
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["service", "method", "path"]},
    ),
]
