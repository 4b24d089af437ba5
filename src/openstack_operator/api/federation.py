"""Words for identity providers, as Keystone's spec and the resource of each provider use them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from .fields import immutable, validated
from .model import rule

_NAME = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

_NAME_RULE = rule(
    f"self.matches('{_NAME}')", "becomes part of URLs and object names; use lower case letters, digits and dashes"
)
ProviderName = Annotated[str, Field(min_length=1, max_length=40, pattern=_NAME), validated(_NAME_RULE)]
"""An identity provider's name."""

FixedProviderName = Annotated[
    str,
    Field(min_length=1, max_length=40, pattern=_NAME),
    validated(_NAME_RULE, immutable("the provider's name")),
]
"""An identity provider's name, which stays."""

RemoteIdAttribute = Annotated[
    str,
    Field(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_-]*$"),
    validated(
        rule(
            "!self.upperAscii().startsWith('HTTP_')",
            "clients can forge variables that begin with HTTP_; name one that the provider sets, such as OIDC-iss",
        )
    ),
]
"""The variable in which Keystone finds the identity provider of a user."""

MappingRules = Annotated[
    list[dict[str, Any]],
    Field(
        min_length=1,
        max_length=64,
        json_schema_extra={
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "maxProperties": 16}
        },
    ),
]
"""The rules of a mapping, as Keystone's API takes them."""
