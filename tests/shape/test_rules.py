"""Rules of a field's type hold for the field: of several annotations with rules, pydantic keeps those of the last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from openstack_operator.api import Cidr, Model, validated
from openstack_operator.registry import RESOURCES

RULES = "x-kubernetes-validations"


def models(model: type[Model], seen: set[type[Model]]) -> Iterator[type[Model]]:
    """The model, and those of its fields at any depth."""
    if model in seen:
        return
    seen.add(model)
    yield model
    for hint in get_type_hints(model, include_extras=True).values():
        for part in parts(hint):
            if isinstance(part, type) and issubclass(part, Model):
                yield from models(part, seen)


def parts(hint: Any) -> Iterator[Any]:
    """The type, and all that it is made of."""
    yield hint
    for inner in get_args(hint):
        yield from parts(inner)


def replaced(hint: Any) -> bool:
    """Whether an annotation replaces rules of an earlier one of the same type."""
    return any(
        sum(
            isinstance(each, FieldInfo) and isinstance(each.json_schema_extra, dict) and RULES in each.json_schema_extra
            for each in part.__metadata__
        )
        > 1
        for part in parts(hint)
        if get_origin(part) is Annotated
    )


def test_no_annotation_drops_a_rule_of_its_type() -> None:
    seen: set[type[Model]] = set()
    wrong = [
        f"{model.__name__}.{name}"
        for resource in RESOURCES
        for model in models(resource.spec, seen)
        for name, hint in get_type_hints(model, include_extras=True).items()
        if replaced(hint)
    ]
    assert not wrong, "put the rules of the type and of the field into one validated(...)"
    assert len(seen) > len(RESOURCES)


def test_a_rule_that_is_dropped_is_noticed() -> None:
    assert replaced(list[Annotated[Cidr, validated({"rule": "self == oldSelf", "message": ""})]])
    assert not replaced(Cidr)
