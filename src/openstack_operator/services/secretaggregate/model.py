"""Spec of a SecretAggregate."""

from typing import Annotated, ClassVar

from pydantic import Field

from ...api import Column, Model, Name, OptionalSecretRef, Resource, Rule, rule

SecretKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""A key in a Secret's data."""


class SelectedKey(Model):
    """A key to copy."""

    key: SecretKey
    """Key in the source Secret."""
    as_: SecretKey | None = Field(default=None, alias="as")
    """Key in the target; if unset, the prefix and the source key."""


class Source(Model):
    """A Secret whose keys the operator copies."""

    secret_ref: OptionalSecretRef
    """Secret in the same namespace to copy from."""
    keys: Annotated[list[SelectedKey], Field(min_length=1, max_length=64)] | None = None
    """Keys to copy, all if unset."""
    prefix: Annotated[str, Field(max_length=128, pattern=r"^[-._a-zA-Z0-9]*$")] = ""
    """Prefix of the keys in the target, except those that `as` names."""


class SecretAggregateSpec(Model):
    """SecretAggregate: keys of several Secrets in one, which the operator updates when they change."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.targetSecretName) || !has(self.sources)"
            " || self.sources.all(source, source.secretRef.name != self.targetSecretName)",
            "the target is also a source; choose another name",
            ".targetSecretName",
        ),
    )

    target_secret_name: Name | None = None
    """Name of the target Secret, the name of this resource if unset. The operator does not change an existing Secret of
    another owner."""
    sources: Annotated[list[Source], Field(max_length=64)] = []
    """Secrets to copy from. The target does not change while one of them, or one of the keys, is missing."""


SECRET_AGGREGATE = Resource(
    kind="SecretAggregate",
    plural="secretaggregates",
    group="c5c3.io",
    spec=SecretAggregateSpec,
    columns=(Column("Target", ".spec.targetSecretName"),),
)
