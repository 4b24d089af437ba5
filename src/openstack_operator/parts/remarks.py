"""Conditions of resources made from templates that name fields, as the user of the owner wrote these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import kube
from ..plan import (
    CONFIG_VALID,
    FIELDS_IGNORED,
    FIELDS_INCONSISTENT,
    Context,
    Object,
    State,
    Verdict,
    ignored_verdict,
    inconsistent_verdict,
)


def of_resources(ctx: Context[Any]) -> Mapping[str, Verdict]:
    """Return the conditions with the fields that resources ignore, with those that do not go together, and with what is
    to be said of options.
    """
    on_fields = {
        **ignored_verdict(*(_message(*each) for each in _reports(ctx, FIELDS_IGNORED))),
        **inconsistent_verdict(*(_message(*each) for each in _reports(ctx, FIELDS_INCONSISTENT))),
    }
    reports = sorted(_reports(ctx, CONFIG_VALID), key=lambda report: report[1]["status"] == "True")
    if not reports:
        return on_fields
    condition = reports[0][1]
    state = State.READY if condition["status"] == "True" else State.FAILED
    text = "; ".join(_message(*report) for report in reports)
    return {**on_fields, CONFIG_VALID: Verdict(state, text, condition["reason"])}


def _reports(ctx: Context[Any], type_: str) -> Iterator[tuple[Object, Mapping[str, Any]]]:
    """Yield each resource that says something in a condition, and the condition."""
    for child in ctx.children.values():
        condition = kube.conditions(child).get(type_)
        if condition and condition["message"]:
            yield child, condition


def _message(child: Object, condition: Mapping[str, Any]) -> str:
    return kube.as_owner_says(child, condition["message"])
