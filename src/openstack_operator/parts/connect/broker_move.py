"""The move of a service from one broker to another: servers first, then clients, then programs bound to a host.

Programs that answer RPC and share only a database are copied: the copies serve the first broker until no program of the
service uses it. Nothing is stored; all is read from live objects (decision 0100).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from ... import kube
from ...api import RabbitMQRef
from ...plan import HOSTS, READY, Context, Key, Object, Plan, SpecError, Step, key, progressing
from ..brokers import VHOST, broker_of, has_two_brokers, is_made, vhosts
from ..secrets.rotation import read_by, rotation_in_progress
from .broker_copies import BROKER, as_planned, copy_name, has_address, is_copy, secret_copy, workload_copy
from .transport import Messaging

_CONDITION = "Messaging"
_RETRY = timedelta(seconds=15)
"""Interval at which pods are looked at: the end of one is no change of its workload."""
_MOST_NAMED = 5
_P = ParamSpec("_P")


def needs_pods(ctx: Context[Any]) -> bool:
    """Return True if the next plan has to know which pods run: passwords are replaced, or the service moves."""
    return rotation_in_progress(ctx) or has_two_brokers(ctx)


def with_moves(planner: Callable[Concatenate[Context[Any], _P], Plan]) -> Callable[Concatenate[Context[Any], _P], Plan]:
    """Return the function that plans a service, with a move while the service has accounts on another broker, too."""

    @wraps(planner)
    def planned(ctx: Context[Any], *args: _P.args, **kwargs: _P.kwargs) -> Plan:
        return plan_move(ctx, planner(ctx, *args, **kwargs))

    return planned


@dataclass(frozen=True)
class Program:
    """A workload that is configured with the address of a virtual host that moves."""

    step: Step
    workload: Object
    live: Object | None
    secrets: frozenset[str]
    """Secrets with the address."""
    vhosts: frozenset[str]
    remaining: tuple[str, ...]
    """Parts of it that still use the first broker, as Kind/name; empty once it has moved."""


@dataclass(frozen=True)
class Move:
    """A move that is under way."""

    programs: Sequence[Program]
    old_accounts: Sequence[Object]
    """Accounts on brokers that the service leaves."""
    vhosts_by_address: Mapping[str, str]
    """Virtual hosts that move, by the address (host:port/path) that programs are to use."""
    vhosts_by_secret: Mapping[str, frozenset[str]]
    """Virtual hosts whose new address is in a Secret, by the Secret's name."""

    @property
    def brokers(self) -> list[str]:
        """Return the names of the brokers that the service leaves."""
        return sorted({broker_of(live) for live in self.old_accounts})

    def remaining(self, before: int | None = None) -> list[str]:
        """Return the workloads and pods that have not moved, as Kind/name: those of turns before `before`, or of all
        turns.
        """
        programs = [each for each in self.programs if before is None or each.step.turn < before]
        return list(dict.fromkeys(name for each in programs for name in each.remaining))


def plan_move(ctx: Context[Any], plan: Plan) -> Plan:
    """Return the plan, in which a service that has accounts on another broker, too, moves; without such accounts the
    plan itself.
    """
    if not (old_accounts := _left_accounts(ctx, plan)):
        return plan
    if len(brokers := sorted({broker_of(live) for live in old_accounts})) > 1:
        text = f"the service moves between {' and '.join(brokers)}; keep one of these until the move is done"
        raise SpecError("spec.messaging.rabbitmqRef", text)
    vhosts_by_address = _vhosts_by_address(plan, {live["spec"]["vhost"] for live in old_accounts})
    vhosts_by_secret = _vhosts_by_secret(plan, vhosts_by_address)
    programs = list(_programs(ctx, plan, vhosts_by_secret))
    move = Move(programs, old_accounts, vhosts_by_address, vhosts_by_secret)
    remaining, live_copies = move.remaining(), list(_live_copies(ctx))
    if not remaining and not live_copies:
        return plan
    # Once no client is left, copies answer what still waits for them, and then they end.
    is_drained = not remaining and all(_is_drained(live) for live in old_accounts)
    copies = () if is_drained else _copies(ctx, move)
    old_brokers = _names(f"RabbitMQ/{each}" for each in move.brokers)
    text = f"moves from {old_brokers}; waits for {_names(remaining or live_copies)}"
    old_objects = tuple(_remaining_objects(ctx, move, drains=not remaining))
    progress = Step(name=_CONDITION, objects=old_objects, verdict=progressing(text), wake=ctx.now + _RETRY)
    return plan.rearranged(_steps_in_order(plan, move, copies), *copies, progress, name=_CONDITION)


def _is_drained(live: Object) -> bool:
    """Return True if an account says, after clients have left, that no message waits in its virtual host; and for one
    that does not look, since the virtual host belongs to another account.
    """
    return _belongs_to_another(live) or (live["spec"].get("drains", False) and kube.judge(live).ready)


def _belongs_to_another(live: Object) -> bool:
    return live["spec"].get("deletionPolicy") == "Retain"


def _names(names: Iterable[str]) -> str:
    texts = list(names)
    rest = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return ", ".join(texts[:_MOST_NAMED]) + rest


def _left_accounts(ctx: Context[Any], plan: Plan) -> list[Object]:
    """Return the live accounts on brokers that the plan leaves, in virtual hosts that it has elsewhere."""
    planned: dict[str, set[str]] = {}
    for obj in plan.objects:
        if obj["kind"] == VHOST:
            planned.setdefault(obj["spec"]["vhost"], set()).add(broker_of(obj))
    in_plan = [live for live in vhosts(ctx) if live["spec"]["vhost"] in planned]
    return [live for live in in_plan if broker_of(live) not in planned[live["spec"]["vhost"]]]


def _vhosts_by_address(plan: Plan, names: Collection[str]) -> dict[str, str]:
    return {
        step.url.partition("?")[0].rpartition("@")[2]: obj["spec"]["vhost"]
        for step in plan
        if isinstance(step, Messaging)
        for obj in step.objects
        if obj["kind"] == VHOST and obj["spec"]["vhost"] in names
    }


def _vhosts_by_secret(plan: Plan, vhosts_by_address: Mapping[str, str]) -> dict[str, frozenset[str]]:
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in plan.objects if obj["kind"] == "Secret"}
    by_secret = {
        name: frozenset(vhost for address, vhost in vhosts_by_address.items() if has_address(data, address))
        for name, data in secrets.items()
    }
    return {name: names for name, names in by_secret.items() if names}


def _programs(ctx: Context[Any], plan: Plan, vhosts_by_secret: Mapping[str, frozenset[str]]) -> Iterator[Program]:
    for step in plan:
        for obj in step.workloads:
            if secrets := vhosts_by_secret.keys() & set(read_by(obj["spec"]["template"])):
                names = frozenset(vhost for each in secrets for vhost in vhosts_by_secret[each])
                live = ctx.children.get(key(obj))
                yield Program(step, obj, live, frozenset(secrets), names, tuple(_remaining(ctx, obj, live)))


def _remaining(ctx: Context[Any], obj: Object, live: Object | None) -> Iterator[str]:
    """Yield the workload until it runs with its new configuration, and each pod with an older one until it is gone."""
    if live is None:
        return
    digest = _digest(obj["spec"]["template"])
    has_digest = "pods" in ctx.facts and _digest(live["spec"]["template"]) == digest
    if not has_digest or kube.Rollout(live).is_running:
        yield f"{obj['kind']}/{obj['metadata']['name']}"
    selector = obj["spec"]["selector"]["matchLabels"].items()
    for pod in _pods(ctx):
        if selector <= pod["metadata"]["labels"].items() and _digest(pod) != digest:
            yield f"Pod/{pod['metadata']['name']}"


def _pods(ctx: Context[Any]) -> Iterator[Object]:
    """Yield the pods of the service that have not ended."""
    owner = kube.pods_of(ctx.kind, ctx.owner).items()
    for pod in ctx.facts.get("pods", ()):
        is_own = owner <= (pod["metadata"].get("labels") or {}).items()
        if is_own and (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}:
            yield pod


def _digest(pod: Mapping[str, Any]) -> str:
    return (pod["metadata"].get("annotations") or {}).get(kube.CONFIG_DIGEST, "")


def _live_copies(ctx: Context[Any]) -> Iterator[str]:
    """Yield the copies that exist, and their pods."""
    yield from ("/".join(name) for name, live in sorted(ctx.children.items()) if is_copy(live))
    yield from (f"Pod/{pod['metadata']['name']}" for pod in _pods(ctx) if is_copy(pod))


def _remaining_objects(ctx: Context[Any], move: Move, *, drains: bool) -> Iterator[Object]:
    """Yield what stays as long as programs use the brokers that the service leaves: accounts, which look for messages
    if the virtual host `drains`, and the NetworkPolicies that open these brokers for its pods.
    """
    for live in move.old_accounts:
        account = as_planned(live)
        # `drains` changes the spec. Until the account is Ready again, it counts by the condition AccountMade alone.
        looks = drains and not _belongs_to_another(live) and is_made(ctx, live)
        yield {**account, "spec": {**account["spec"], "drains": True}} if looks else account
    for broker in move.brokers:
        for component in ctx.servers[RabbitMQRef.kind].ports:
            if policy := ctx.live("NetworkPolicy", "uses", RabbitMQRef.kind.lower(), broker, component):
                yield as_planned(policy)


def _copies(ctx: Context[Any], move: Move) -> tuple[Step, ...]:
    """Return the step with the copies of programs and of their Secrets."""
    objects: dict[Key, Object] = {}
    for program in move.programs:
        brokers = {broker_of(live) for live in move.old_accounts if live["spec"]["vhost"] in program.vhosts}
        # If the service goes back, those that serve the broker to which it goes stay until the program itself is there.
        brokers |= {live["metadata"]["labels"][BROKER] for live in ctx.children.values() if is_copy(live)}
        for broker in sorted(brokers) if program.step.copied else ():
            objects |= {key(obj): obj for obj in _copy(ctx, program, broker, move)}
    return (Step(name="Copies", objects=tuple(objects.values()), barrier=True),) if objects else ()


def _copy(ctx: Context[Any], program: Program, broker: str, move: Move) -> tuple[Object, ...]:
    """Return a copy of a program that has not moved yet, or the copy that exists; empty if there is neither."""
    secrets = [secret_copy(ctx, each, broker, move.vhosts_by_address) for each in sorted(program.secrets)]
    present = tuple(each for each in secrets if each)
    live, planned = program.live, program.workload
    if len(present) < len(secrets):
        return ()
    if copied := ctx.children.get((planned["kind"], copy_name(planned["metadata"]["name"], broker))):
        return (*present, as_planned(copied))
    is_to_move = live is not None and _digest(live["spec"]["template"]) != _digest(planned["spec"]["template"])
    if live is None or not is_to_move or broker not in move.brokers:
        return ()
    return (*present, workload_copy(live, broker, program.secrets))


def _steps_in_order(plan: Plan, move: Move, copies: Sequence[Step]) -> dict[Step, Step]:
    """Return the steps of the plan that wait for others during the move, each with its changed form.

    The order is:

    1. the copies of programs, and the accounts on the new broker;
    2. Jobs that hand an address on, as those of Nova that map cells do;
    3. programs by their turn: those of one turn once all of earlier turns have moved. A Secret changes with the first
       program that reads it. Pods of hosts end in the turn of hosts.
    """
    accounts = [step for step in plan if isinstance(step, Messaging) and _has_vhost(step, move)]
    prepared = (*copies, *accounts)
    jobs = [step for step in plan if _hands_address_on(step, move)]
    program_steps = {each.step for each in move.programs}
    gates = {turn: _gate(move, turn) for turn in {HOSTS, *(step.turn for step in program_steps)}}
    changed: dict[Step, Step] = {step: replace(step, barrier=True) for step in accounts}
    for step in plan:
        if step.ends:
            prerequisites = (*prepared, gates[HOSTS])
        elif step in program_steps:
            prerequisites = (*prepared, *jobs, gates[step.turn])
        elif secrets := _secret_names(step) & move.vhosts_by_secret.keys():
            turns = [each.step.turn for each in move.programs if each.secrets & secrets]
            prerequisites = (*prepared, *([gates[min(turns)]] if turns else ()))
        else:
            continue
        changed[step] = replace(changed.get(step, step), after=(*step.after, *prerequisites))
    return changed


def _has_vhost(step: Step, move: Move) -> bool:
    """Return True if the step has the account of a virtual host that moves."""
    vhosts = set(move.vhosts_by_address.values())
    return any(obj["spec"]["vhost"] in vhosts for obj in step.objects if obj["kind"] == VHOST)


def _hands_address_on(step: Step, move: Move) -> bool:
    """Return True if the step has a Job that reads an address which no program reads from a Secret."""
    unread = move.vhosts_by_secret.keys() - {name for each in move.programs for name in each.secrets}
    jobs = [obj for obj in step.objects if obj["kind"] == "Job"]
    return any(unread & set(read_by(job["spec"]["template"])) for job in jobs)


def _secret_names(step: Step) -> set[str]:
    return {obj["metadata"]["name"] for obj in step.objects if obj["kind"] == "Secret"}


def _gate(move: Move, turn: int) -> Step:
    """Return the step that is ready once all programs of earlier turns have moved. The step of the whole move says what
    is waited for.
    """
    return Step(name=_CONDITION, barrier=True, verdict=progressing("") if move.remaining(turn) else READY)
