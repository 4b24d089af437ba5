"""What happens in one schedule, as its seed says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

FAULTS = (
    *("crash", "conflicts", "loss", "cuts", "stale", "compact", "freeze", "restore", "delete", "edit", "stop"),
    *("overload", "webhook"),
)
LENGTH = 45.0
"""Seconds of virtual time in which users and faults act."""


@dataclass(frozen=True)
class Action:
    """Something at a time."""

    at: float
    what: str
    details: Any = None


@dataclass
class Schedule:
    """One schedule."""

    seed: int
    faults: tuple[str, ...] = ()
    replicas: int = 1
    """Processes of the operator."""
    is_small: bool = False
    """Whether there is a server with an account alone."""
    leads: bool = True
    """Whether they elect a leader."""
    shuffles: bool = False
    chunk: int = 500
    latency: float = 0.05
    lag: float = 0.2
    slowness: float = 1.0
    rates: dict[str, float] = field(default_factory=dict[str, float])
    """Probabilities of what happens by chance."""
    actions: list[Action] = field(default_factory=list[Action])
    options: dict[str, str] = field(default_factory=dict[str, str])
    """Of the stack at the end."""
    size: int = 1
    exists: bool = True
    """Whether the stack exists at the end."""

    def __str__(self) -> str:
        head = (
            f"seed {self.seed}: faults {', '.join(self.faults) or 'none'}; {self.replicas} operators"
            f"{' with a leader' if self.leads else ''}; latency {self.latency:.2f}, lag {self.lag:.2f},"
            f" workloads {self.slowness:.1f}; {self.rates}; chunks of {self.chunk}; shuffles {self.shuffles}"
        )
        lines = [
            head,
            *(
                f"{each.at:9.3f} {each.what} {each.details if each.details is not None else ''}"
                for each in self.actions
            ),
            f"in the end: {'options ' + str(self.options) if self.exists else 'no stack'}, size {self.size}",
        ]
        return "\n".join(lines)


CHILDREN = (
    ("services", "app-api"),
    ("secrets", "app-config"),
    ("secrets", "server-password"),
    ("deployments", "app-api"),
    ("statefulsets", "server-db"),
    ("apps", "app"),
    ("servers", "server"),
    ("accounts", "account"),
)
"""Objects that users delete by mistake."""


SMALL_CHILDREN = (
    ("secrets", "server-password"),
    ("statefulsets", "server-db"),
    ("servers", "server"),
    ("accounts", "account"),
)
CHANGES = ("options", "options", "size", "recreate", "schema")
SMALL_CHANGES = ("size", "size", "recreate")
"""What users do."""


def schedule_of(seed: int, *, length: float = LENGTH) -> Schedule:
    """Return the schedule of a seed."""
    random = Random(seed)
    faults = tuple(sorted(random.sample(FAULTS, random.choice((1, 2, 2, 3, 4)))))
    schedule = Schedule(seed, faults)
    schedule.is_small = random.random() < 0.7
    takes_turns = "freeze" in faults or "stop" in faults
    schedule.leads = takes_turns or random.random() < 0.3
    schedule.replicas = 2 if schedule.leads and (takes_turns or random.random() < 0.5) else 1
    schedule.shuffles = random.random() < 0.5
    schedule.chunk = random.choice((500, 500, 2, 5))
    schedule.latency = random.choice((0.01, 0.05, 0.3, 1.5))
    schedule.lag = random.choice((0.05, 0.2, 1.0, 5.0))
    schedule.slowness = random.choice((0.2, 1.0, 5.0, 20.0))
    chances = {"conflicts": (0.05, 0.3, 0.6), "loss": (0.02, 0.1), "cuts": (0.05, 0.3), "stale": (0.2, 0.5)}
    chances |= {"overload": (0.05, 0.3)}
    schedule.rates = {name: random.choice(values) for name, values in chances.items() if name in faults}
    actions = [Action(0.0, "create")]

    def when() -> float:
        # Most of what is to be disturbed happens early.
        return length * random.random() ** 2

    for _ in range(random.choice((0, 1, 1, 2, 3))):
        what = random.choice(SMALL_CHANGES if schedule.is_small else CHANGES)
        actions.append(Action(when(), what, random.randrange(3)))
    if "crash" in faults:
        # Writes after which each life ends.
        actions += [
            Action(0.0, "crash", [random.choice((1, 2, 3, 5, 8, 13, 21, 34)) for _ in range(random.randint(1, 5))])
        ]
    if "freeze" in faults:
        actions += [
            Action(when(), "freeze", random.choice((1.0, 6.5, 8.0, 12.0, 30.0))) for _ in range(random.randint(1, 2))
        ]
    if "stop" in faults:
        # Writes with which each life is told to stop; 0 for its first question to the server of accounts.
        actions += [Action(0.0, "stop", [random.choice((0, 0, 2, 3, 5, 8, 13)) for _ in range(random.randint(1, 4))])]
    if "restore" in faults:
        for _ in range(random.choice((1, 1, 2))):
            at = when()
            actions += [Action(at, "snapshot"), Action(at + random.choice((0.5, 3.0, 10.0, 30.0)), "restore")]
    if "webhook" in faults:
        for _ in range(random.randint(1, 2)):
            details = random.choice(("does not answer", "denies")), random.choice((1.0, 5.0, 20.0))
            actions.append(Action(when(), "webhook", details))
    if "compact" in faults:
        actions += [Action(when(), "compact") for _ in range(random.randint(1, 4))]
    if "delete" in faults:
        actions += [
            Action(when(), "delete", random.choice(SMALL_CHILDREN if schedule.is_small else CHILDREN))
            for _ in range(random.randint(1, 4))
        ]
    if "edit" in faults:
        actions += [
            Action(when(), "edit", random.choice(("replicas", "labels", "image"))) for _ in range(random.randint(1, 5))
        ]
    if random.random() < 0.15:
        actions.append(Action(length, "remove"))
        schedule.exists = False
    schedule.actions = sorted(actions, key=lambda action: action.at)
    for action in schedule.actions:
        if action.what == "size":
            schedule.size = 1 + action.details
        elif action.what in ("options", "schema"):
            schedule.options |= {"a" if action.what == "options" else "schema": str(action.details)}
    return schedule
