"""A sequence of specs of one resource, as its seed says it, and what became of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

from openstack_operator.cli.offline.schema import with_defaults
from openstack_operator.plan import Service, SpecError
from openstack_operator.registry import SERVICES
from openstack_operator.runtime.rollout.gate import PATIENCE
from tests.schedules.simulation import differences
from tests.toggling import spec_schema

from .admission import refusal
from .bases import CLOUD_ROLE, Base, bases
from .mutations import Mutation, mutations
from .oracles import State, is_allowed, judge_kept, judge_reached, message_problems, state_of
from .world import Variant, World

LENGTH = 12
"""Changes of one seed that the API server takes."""
_TRIES = 6
"""Changes that the API server may refuse before another one is drawn."""
_NO_WAY_BACK = ("may have zones: restore it with retired: true",)
"""Parts of refusals of a way back that are meant, and that name another way."""
SMALL = [
    each
    for each in SERVICES
    if each.resource.handle in ("Memcached", "Etcd", "RabbitMQ", "Valkey", "Horizon", "Placement", "SecretAggregate")
]
"""Kinds whose plans are short."""


@dataclass
class Failure:
    """A transition after which an oracle does not hold."""

    problems: list[str]
    path: list[Any]
    """Specs from the first one to that which failed."""
    mutations: Sequence[Mutation]


@dataclass
class Outcome:
    """What became of a seed."""

    seed: int
    base: Base
    counts: Counter[str] = field(default_factory=Counter[str])
    failures: list[Failure] = field(default_factory=list[Failure])
    trace: list[str] = field(default_factory=list[str])

    @property
    def transitions(self) -> int:
        """Changes that the operator got."""
        return sum(self.counts[name] for name in ("reached", "refused", "waiting", "back"))


class Walk:
    """A resource on its way from spec to spec."""

    def __init__(self, base: Base, variant: Variant = lambda _: None) -> None:
        self.base, self.schema = base, spec_schema(base.service.resource)
        self.world: World = base.world(variant)
        self.path: list[Any] = []
        self.answer = ""
        """What became of the last spec: reached, refused, waiting, or silent if the status is about an earlier one."""
        self._reached: dict[str, State] = {}
        """State by spec, when it was reached first."""

    def go(self, spec: Any) -> list[str]:
        """Write a spec, and return what is wrong then."""
        world = self.world
        before = world.children() if self.path else {}
        self.path.append(spec)
        world.problems.clear()
        world.deleted.clear()
        world.write(spec)
        world.settle()
        if "Reconciling" in world.verdicts and json.dumps(spec, sort_keys=True) in self._reached:
            # A roll-out that a mistake has stopped blocks others for so long.
            world.settle(PATIENCE.total_seconds())
        problems = list(world.problems)
        status = world.live.get("status") or {}
        if status.get("observedGeneration") != world.live["metadata"]["generation"]:
            problems.append("the status is not about the present spec")
            self.answer = "silent"
            return problems
        verdicts = world.verdicts
        if verdicts["Ready"][0] == "True" and not verdicts.keys() & {"Stalled", "Reconciling"}:
            self.answer = "reached"
            state = state_of(world)
            earlier = self._reached.setdefault(json.dumps(spec, sort_keys=True), state)
            way_back = [f"after the way back: {line}" for line in differences(state, earlier) if not is_allowed(line)]
            return [*problems, *judge_reached(world), *way_back]
        self.answer = "refused" if "Stalled" in verdicts else "waiting"
        is_meant = any(text in verdicts["Ready"][2] for text in _NO_WAY_BACK)
        if json.dumps(spec, sort_keys=True) in self._reached and not is_meant:
            problems.append(f"after the way back it is {self.answer}")
        return [*problems, *message_problems(world.verdicts), *judge_kept(world, before)]

    def close(self) -> None:
        """End it."""
        self.world.close()


def _begin(random: Random, variant: Variant, services: Sequence[Service]) -> Walk:
    """Return a walk from a spec of some kind that can be planned."""
    while True:
        choices = bases(random.choice(services).resource.handle)
        with suppress(SpecError, LookupError):
            return Walk(random.choice(choices), variant)


def carry_out(
    seed: int, variant: Variant = lambda _: None, length: int = LENGTH, services: Sequence[Service] = SERVICES
) -> Outcome:
    """Walk from spec to spec as a seed says it."""
    random = Random(seed)
    walk = _begin(random, variant, services)
    outcome = Outcome(seed, walk.base)
    try:
        _walk(random, walk, outcome, length)
    finally:
        walk.close()
    return outcome


def _walk(random: Random, walk: Walk, outcome: Outcome, length: int) -> None:
    spec, role = walk.base.spec, walk.base.service.resource.role
    if not _note(walk, outcome, walk.go(spec), ()):
        return
    outcome.counts[f"base {walk.answer}"] += 1
    for _ in range(length):
        old = spec
        new, changes = _next_spec(random, walk, old, outcome)
        if new is None:
            continue
        if not _note(walk, outcome, walk.go(new), changes):
            return
        outcome.counts[walk.answer] += 1
        if walk.answer == "reached" and random.random() < 0.5:
            spec = new
            continue
        if refusal(walk.schema, new, old) or lowers_generation(new, old) or leaves_to_history(role, new, old):
            outcome.counts["no way back"] += 1
            if walk.answer != "reached":
                return
            spec = new
            continue
        problems = walk.go(old)
        outcome.counts["back"] += 1
        if not _note(walk, outcome, problems, changes):
            return


def lowers_generation(old: Any, new: Any) -> bool:
    """Return True if a field for rotations gets a lower number, which changes nothing."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return False
    before, after = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
    return any(
        after.get(name, 0) < value if name.endswith("Generation") else lowers_generation(value, after.get(name))
        for name, value in before.items()
    )


def leaves_to_history(role: str, old: Any, new: Any) -> bool:
    """Return True for a change after which a cloud says no longer whether it encrypts, or that brings a Ceph and says
    not what is stored there, or after which a MariaDB says no longer whether it has a binary log: what it was before
    decides then, and not the spec alone.
    """
    if leaves_log_to_history(role, old, new):
        return True
    if role != CLOUD_ROLE:
        return False
    before, after = ((spec.get("infrastructure") or spec).get("ceph") for spec in (old, new))
    common = new.get("global") or new
    stores = [(spec.get("global") or spec).get("storageBackend") for spec in (old, new)]
    is_stored_elsewhere = (before != after or stores[0] != stores[1]) and not stores[1]
    return is_stored_elsewhere or "enabled" not in (common.get("tls") or {})


def leaves_log_to_history(role: str, old: Any, new: Any) -> bool:
    """Return True for a change after which a MariaDB of its own or of a cloud no longer says if it has a binary log."""
    if role == CLOUD_ROLE:
        old, new = ((spec.get("infrastructure") or spec).get("mariadb") or {} for spec in (old, new))
    elif role != "MariaDB":
        return False
    before, after = ((spec.get("binaryLog") or {}).get("enabled") for spec in (old, new))
    # The options decide where the field does not.
    return after is None and (before is not None or old.get("config") != new.get("config"))


def _next_spec(random: Random, walk: Walk, old: Any, outcome: Outcome) -> tuple[Any, Sequence[Mutation]]:
    resource = walk.base.service.resource
    for _ in range(_TRIES):
        changes, new = mutations(random, resource, old), old
        for change in changes:
            new = change.apply(walk.schema, new)
        new = with_defaults(walk.schema, new)
        if new == old or leaves_to_history(resource.role, old, new):
            continue
        if said := refusal(walk.schema, old, new):
            outcome.counts["not admitted"] += 1
            outcome.trace.append(f"  not admitted: {'; '.join(map(str, changes))}: {said[:200]}")
            continue
        return new, changes
    return None, ()


def _note(walk: Walk, outcome: Outcome, problems: list[str], changes: Sequence[Mutation]) -> bool:
    said = walk.world.verdicts.get("Ready", ("", "", ""))
    outcome.trace.append(f"{'; '.join(map(str, changes)) or 'base'} → {walk.answer}: {' '.join(said)[:300]}")
    if problems:
        outcome.trace += [f"  PROBLEM: {each}" for each in problems[:20]]
        outcome.failures.append(Failure(problems, list(walk.path), changes))
    return not problems
