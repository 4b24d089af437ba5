"""What users write to have keys of several Secrets in one."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from ...api import Column, Model, Name, OptionalSecretRef, Resource, Rule, rule

SecretKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""A key in a Secret's data."""


class Collected(Model):
    """A key that is taken."""

    key: SecretKey
    """Key in the Secret it comes from."""
    as_: SecretKey | None = Field(default=None, alias="as")
    """Key in the target; unset is the same, after the prefix."""


class Source(Model):
    """A Secret whose keys are taken."""

    secret_ref: OptionalSecretRef
    """The Secret; in the same namespace."""
    keys: Annotated[list[Collected], Field(min_length=1, max_length=64)] | None = None
    """Which of its keys; unset is all of them."""
    prefix: Annotated[str, Field(max_length=128, pattern=r"^[-._a-zA-Z0-9]*$")] = ""
    """What stands before the key in the target where `as` does not say it."""


class SecretAggregateSpec(Model):
    """SecretAggregate: keys of several Secrets in one, which follows when they change."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.targetSecretName) || !has(self.sources)"
            " || self.sources.all(source, source.secretRef.name != self.targetSecretName)",
            "it would be collected from itself; choose another name",
            ".targetSecretName",
        ),
    )

    target_secret_name: Name | None = None
    """Secret they are written to; unset is the name of this resource. One that is there already and not this one's is
    left alone."""
    sources: Annotated[list[Source], Field(max_length=64)] = []
    """Secrets they are taken from. As long as one of them, or one of the keys, is missing the target stays as it is."""


SECRET_AGGREGATE = Resource(
    kind="SecretAggregate",
    plural="secretaggregates",
    group="c5c3.io",
    spec=SecretAggregateSpec,
    columns=(Column("Target", ".spec.targetSecretName"),),
)
