"""A module with the conditions that each kind may have, from the plans of all cases."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from ..actuators import ovn
from ..plan import CONFIG_VALID, FIELDS_IGNORED, FIELDS_INCONSISTENT, IMAGE_PROFILE, SINGLE_COPY, condition_type
from ..planned import Planned

OF_MANY_KINDS = frozenset({CONFIG_VALID, FIELDS_IGNORED, FIELDS_INCONSISTENT, IMAGE_PROFILE, SINGLE_COPY})
"""Conditions that plans of any kind may report."""
_OF_ACTUATORS = {"OVNChassis": {ovn.CONNECTED}}
"""Conditions besides Ready of kinds that have no plan."""
_HEAD = '''\
"""Conditions by kind, besides those of all kinds. Made by `openstack-operator generate` from the cases of services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CONDITION_TYPES: Mapping[str, Sequence[str]] = {
'''


def conditions_by_kind(planned: Iterable[Planned]) -> dict[str, set[str]]:
    """Return the types of conditions that plans report, by kind."""
    types: defaultdict[str, set[str]] = defaultdict(set, {kind: set(each) for kind, each in _OF_ACTUATORS.items()})
    for each in planned:
        if each.plan:
            reported = types[each.context.kind]
            reported |= {condition_type(name) for name in each.plan.condition.values()}
            reported |= {*each.plan.outcome.extra_conditions} - OF_MANY_KINDS
    return dict(types)


def condition_types(planned: Iterable[Planned]) -> str:
    """Return the source of the module, as the formatter leaves it."""
    lines = [_HEAD]
    for kind, types in sorted(conditions_by_kind(planned).items()):
        lines += [
            f"    {json.dumps(kind)}: [\n",
            *(f"        {json.dumps(each)},\n" for each in sorted(types)),
            "    ],\n",
        ]
    return "".join([*lines, "}\n"])
