"""The base of everything users write: frozen values, documented by attribute docstrings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

Rule = dict[str, Any]
"""An entry of x-kubernetes-validations."""


def rule(expression: str, message: str, field: str | None = None) -> Rule:
    """A CEL rule of a CRD: `expression` over self (and oldSelf), the `message` a user sees when it is false."""
    return {"rule": expression, "message": message} | ({"fieldPath": field} if field else {})


def _add_rules(schema: dict[str, Any], model: type[Any]) -> None:
    rules = [entry for base in reversed(model.__mro__) for entry in base.__dict__.get("rules", ())]
    for old, new in model.renamed.items():
        # Without the field the API server would drop what is in it, and nobody would hear of it.
        schema.setdefault("properties", {})[old] = {RENAMED: True, "description": f"{IS_NOW}{new}."}
        rules.append(rule(f"!has(self.{old})", f"{old} was renamed; write {new}", f".{old}"))
    if rules:
        schema["x-kubernetes-validations"] = rules
    if issubclass(model, (Template, Templates)):
        schema[HANDED_ON] = TEMPLATE if issubclass(model, Template) else TEMPLATES


IS_NOW = "Renamed; write "
RENAMED = "x-kubernetes-int-or-string"
"""What a field that has another name now takes, so that the rule tells of the other name: CEL sees no untyped ones."""
HANDED_ON = "x-handed-on"
"""Marks a schema whose defaults are someone else's to fill in; never leaves this package."""
TEMPLATE, TEMPLATES = "template", "templates"
"""Values of that mark: a template, and what only holds some."""


AS_OBJECT = "x-as-object"
"""Marks a schema with another one, for kinds whose images are objects; never leaves this package."""


class Model(BaseModel):
    """A frozen value read from the API; unknown fields are left to the API server to prune."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        json_schema_extra=_add_rules,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
    """CEL rules over the whole object, checked by the API server; a subclass adds to its bases'."""

    renamed: ClassVar[Mapping[str, str]] = {}
    """Earlier names of fields, with what to write instead; the API server refuses them by a rule that says so."""

    def implied(self) -> Mapping[str, Any]:
        """Values that hold though nobody wrote them, by field: references that are there only where another field asks
        for them.
        """
        return {}

    @property
    def runs_release(self) -> str:
        """The OpenStack release that is to run; empty for what is no part of OpenStack itself. Kinds that say one tell
        in their status which one runs.
        """
        return ""

    def __hash__(self) -> int:
        """By content, so that values with maps in them can be keys too."""
        return hash((type(self), self.model_dump_json()))


class Template(Model):
    """Mixed into a spec that becomes another resource's. What is unset stays unset, so that the other resource's own
    defaults hold, and its references are that resource's concern.
    """

    enabled: bool = True
    """Whether this service runs. Turning it off removes what it made; volumes follow their own retention."""


class Templates(Model):
    """Templates side by side: what is unset among them stays unset, too."""
