"""How passwords are replaced: another account beside the one in use, which goes when nobody uses it any more."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from .. import kube
from ..api import handle
from ..plan import Context, Key, Object, fitting

SORTS = ("database", "messaging", "identity", "application", "admin", "fernet")
"""What a service may be ordered to replace; which of them it has follows from its spec."""

IDLE, PREPARING, MOVING = "Idle", "Preparing", "Moving"
"""There is one account; a second one is being made; the second one is in use, and the first one is there as well."""

REMOTES = (
    "MariaDBDatabase",
    "RabbitMQVhost",
    "KeystoneUser",
    "KeystoneApplicationCredential",
    "User.k8s.mariadb.com",
    "User.rabbitmq.com",
)
"""What makes an account."""

PASSWORD = "openstack.k8s.io/password"  # noqa: S105
"""Annotation of what makes an account and has its password elsewhere: `glance-credentials/database.a`."""

_LOGINS = ("passwordSecretKeyRef", "importCredentialsSecret")
"""Fields by which accounts of mariadb-operator and of the messaging topology operator name a Secret."""

_AGAIN = timedelta(seconds=15)
"""Until users are looked at again."""
_SAME = timedelta(minutes=5)
"""After which a pod made within the second of a change has been made because of it: others are gone by then."""
_FAR = datetime.max.replace(tzinfo=UTC)


def order_name(service: str, sort: str) -> str:
    """Name of the Secret in which a service finds when it is to replace credentials of a sort (`at`, RFC 3339), and for
    how long the old ones are kept though nobody uses them (`graceDays`).
    """
    return fitting(f"{service}-{sort}-rotation")


@dataclass(frozen=True, kw_only=True)
class Order:
    """What was last asked for."""

    at: str = ""
    """RFC 3339; empty where nothing was."""
    grace: int = 0
    """Days."""


def order(ctx: Context[Any], sort: str) -> Order:
    """What this resource was last asked for; what cannot be read counts as nothing."""
    told = ctx.secrets.get(order_name(ctx.owner, sort), {})
    days = told.get("graceDays", "")
    return Order(at=told.get("at", ""), grace=int(days) if days.isdecimal() else 0) if time(told.get("at")) else Order()


def time(text: str | None) -> datetime | None:
    """A moment as RFC 3339 has it; None for anything else."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None


def stamp(at: datetime) -> str:
    """The moment, in whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """All that is known of it, as one key of a Secret holds it, so that a step is done whole or not at all."""

    second: bool = False
    """Whether the second of the two accounts is in use."""
    step: str = IDLE
    since: str = ""
    """When the present step began."""
    order: str = ""
    """The last order that was taken up."""
    grace: int = 0
    """Days."""
    done: str = ""
    """When something was replaced for the last time."""
    before: tuple[str, ...] = ()
    """Digests of the configurations that pods had until the second account was in use."""

    @property
    def text(self) -> str:
        """What its key holds."""
        known = {"second": self.second, "step": self.step, "since": self.since, "order": self.order}
        return json.dumps({**known, "graceDays": self.grace, "done": self.done, "before": self.before})

    def published(self, waits: Sequence[str] = ()) -> str:
        """What others may know of it."""
        told = {"step": self.step, "since": self.since, "order": self.order, "done": self.done, "waits": list(waits)}
        return json.dumps({name: value for name, value in told.items() if value})


def read(text: str | None) -> Rotation | None:
    """What a key holds; None where there is none that makes sense."""
    try:
        found: Any = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(found, dict) or (known := cast("dict[str, Any]", found)).get("step") not in {
        IDLE,
        PREPARING,
        MOVING,
    }:
        return None
    days, before = known.get("graceDays"), known.get("before")
    return Rotation(
        second=known.get("second") is True,
        step=known["step"],
        since=str(known.get("since", "")),
        order=str(known.get("order", "")),
        grace=days if isinstance(days, int) else 0,
        done=str(known.get("done", "")),
        before=tuple(map(str, cast("list[Any]", before))) if isinstance(before, list) else (),
    )


def turned(
    held: Rotation | None, wanted: Order, now: datetime, *, left: bool, prepared: bool, waits: Sequence[str]
) -> Rotation | None:
    """What comes next, at most one step further; None where nothing was ever asked for. `left` says whether there is
    something of the account before, `prepared` whether the second account is there, `waits` who may still use the
    first one.
    """
    known = held or Rotation()
    if known.step == MOVING:
        over = not waits and now >= kept_until(known, wanted)
        return replace(known, step=IDLE, since=stamp(now), done=stamp(now), before=()) if over else held
    if known.step == PREPARING:
        return replace(known, step=MOVING, second=not known.second, since=stamp(now)) if prepared else held
    # What makes an account would be taken for one of the new password, while it says that it is done with the old one.
    if newer(wanted, known) and not left:
        return replace(known, step=PREPARING, order=wanted.at, grace=wanted.grace, since=stamp(now))
    return held


def newer(wanted: Order, held: Rotation) -> bool:
    """Whether an order was not taken up yet."""
    asked, done = time(wanted.at), time(held.order)
    return asked is not None and (done is None or asked > done)


def kept_until(held: Rotation, wanted: Order) -> datetime:
    """Until when what is not used any more is kept; another number of days counts for what is under way, too."""
    days = wanted.grace if wanted.at == held.order else held.grace
    try:
        return (time(held.since) or datetime.min.replace(tzinfo=UTC)) + timedelta(days=days)
    except OverflowError:
        return _FAR


@dataclass(frozen=True, kw_only=True)
class Account:
    """One of the two accounts a password may be for, which differ by name."""

    key: str
    """Its password in the Secret of credentials."""
    second: bool = False
    used: bool = True
    """Whether programs are told of it."""

    def called(self, name: str) -> str:
        """What the server calls it. No name of Kubernetes' has these characters, so that it is nobody else's."""
        return f"{name}_B" if self.second else name

    def resource(self, name: str) -> str:
        """Name of the resource that makes it."""
        return f"{name}--b" if self.second else name


def sort_of(password: str) -> str:
    """Of which sort a password is, by its name; empty for one that is never replaced by order."""
    last = "messaging" if password == "notifications" else password.rpartition("-")[2]  # noqa: S105
    return last if last in {"database", "messaging", "identity", "application"} else ""


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """Passwords by key, whose they are, and how far their replacement is."""

    values: Mapping[str, str]
    accounts: Mapping[str, tuple[Account, ...]] = field(default_factory=dict[str, tuple[Account, ...]])
    """By the password's name, the one in use first."""
    published: Mapping[str, str] = field(default_factory=dict[str, str])
    wake: datetime | None = None


def replaced(ctx: Context[Any], secret: str, held: Mapping[str, str], names: Sequence[str]) -> Replaced:
    """What a Secret of passwords should hold, given what it holds. A password never moves from one key to another that
    an account is made with: the name alone stands for whichever is in use.
    """
    values = {**held, **{name: held.get(name) or ("" if sort_of(name) else ctx.draw()) for name in names}}
    accounts: dict[str, tuple[Account, ...]] = {}
    published: dict[str, str] = {}
    wakes: list[datetime] = []
    for sort in dict.fromkeys(filter(None, map(sort_of, names))):
        members = [name for name in names if sort_of(name) == sort]
        before, wanted = read(held.get(f"rotation.{sort}")), order(ctx, sort)
        waits = _waits(ctx, secret, held, before, members)
        prepared = before is not None and _prepared(ctx, secret, held, before, members)
        others = {_accounts(name, before or Rotation())[1].key for name in members}
        left = any(key in others for _, _, key in _remotes(ctx, secret))
        after = turned(before, wanted, ctx.now, left=left, prepared=prepared, waits=waits)
        if after and before and (before.step, after.step) == (PREPARING, MOVING):
            after = replace(after, before=_digests(ctx))
        if after is None:
            values |= {name: held.get(name) or ctx.draw() for name in members}
            published[f"{sort}Rotation"] = Rotation().published()
            continue
        values[f"rotation.{sort}"] = after.text
        for name in members:
            accounts[name] = used, other = _accounts(name, after)
            values[used.key] = values[name] = held.get(used.key) or held.get(name) or ctx.draw()
            if after.step == IDLE:
                values.pop(other.key, None)
                accounts[name] = (used,)
            else:
                values[other.key] = held.get(other.key) or ctx.draw()
        published[f"{sort}Rotation"] = after.published(waits if after == before else ())
        if after.step == MOVING:
            until = kept_until(after, wanted)
            wakes.append(until if after == before and not waits else ctx.now + _AGAIN)
    return Replaced(values=values, accounts=accounts, published=published, wake=min(wakes, default=None))


def moving(ctx: Context[Any]) -> bool:
    """Whether it has to be known who uses what: something of this resource's is replaced, and in use already."""
    held = kube.secret_data(ctx.children.get(("Secret", kube.fitting(ctx.name("credentials")))))
    found = (read(text) for key, text in held.items() if key.startswith("rotation."))
    return any(each is not None and each.step == MOVING for each in found)


def _accounts(name: str, held: Rotation) -> tuple[Account, Account]:
    """(the one in use, the other one)."""
    first, second = Account(key=f"{name}.a"), Account(key=f"{name}.b", second=True)
    return (second, replace(first, used=False)) if held.second else (first, replace(second, used=False))


def _prepared(
    ctx: Context[Any], secret: str, held: Mapping[str, str], before: Rotation, members: Sequence[str]
) -> bool:
    """Whether each second account is there, and each first one has a key of its own, so that a change of what is in use
    is none of its password.
    """
    made = {key: live for _, live, key in _remotes(ctx, secret)}
    keys = [_accounts(name, before) for name in members]
    return all(
        used.key in made and other.key in made and other.key in held and kube.judge(made[other.key]).ready
        for used, other in keys
    )


def _remotes(ctx: Context[Any], secret: str) -> Iterator[tuple[Key, Object, str]]:
    """What makes accounts with passwords of that Secret, and the key of each."""
    for known, live in ctx.children.items():
        if known[0] in REMOTES:
            noted = live["metadata"].get("annotations", {}).get(PASSWORD, "").partition("/")
            source = live["spec"].get("passwordSecretRef") or {"name": noted[0], "key": noted[2]}
            if source["name"] == secret:
                yield known, live, source["key"]


def _waits(
    ctx: Context[Any], secret: str, held: Mapping[str, str], before: Rotation | None, members: Sequence[str]
) -> list[str]:
    """Who may still use what is to go, as `Kind/name`."""
    if before is None or before.step != MOVING:
        return []
    if "pods" not in ctx.facts:
        return ["what the cluster says of its users"]
    pairs = [_accounts(name, before) for name in members]
    old = [held[other.key] for _, other in pairs if other.key in held]
    new = [held[used.key] for used, _ in pairs if used.key in held]
    keys = {other.key for _, other in pairs}
    return list(
        dict.fromkeys(
            [
                # Its virtual host would go with it.
                *("/".join(known) for known, live, key in _remotes(ctx, secret) if key in keys and _takes_all(live)),
                *("/".join(known) for known, live in ctx.children.items() if _unfinished(live)),
                *_readers(ctx.facts, secret, set(_logins(ctx)), old, new, ctx.now, before.before),
            ]
        )
    )


def _digests(ctx: Context[Any]) -> tuple[str, ...]:
    """Of the configurations with which pods are started."""
    templates = (live.get("spec", {}).get("template", {}) for live in ctx.children.values())
    return tuple(sorted({digest for each in templates if (digest := _digest(each))}))


def _digest(pod: Mapping[str, Any]) -> str:
    return pod.get("metadata", {}).get("annotations", {}).get(kube.CONFIG_DIGEST, "")


def _takes_all(live: Object) -> bool:
    return live["kind"] == "RabbitMQVhost" and live["spec"].get("deletionPolicy") != "Retain"


def _unfinished(live: Object) -> bool:
    """Whether its pods may be of an older template, or what it does once may not be done."""
    kind = handle(live["apiVersion"], live["kind"])
    if kind == "Job":
        return not kube.judge(live).ready
    return kind in {"Deployment", "StatefulSet", "DaemonSet"} and kube.rolling(live)


def _logins(ctx: Context[Any]) -> Iterator[str]:
    """Secrets by which operators of others make accounts: that of the one before goes with it."""
    for live in ctx.children.values():
        spec = live.get("spec") or {}
        yield from (found["name"] for field in _LOGINS if (found := spec.get(field)))
        if reference := (spec.get("resource") or {}).get("passwordRef"):
            yield reference


def _readers(
    facts: Mapping[str, Any],
    secret: str,
    logins: Collection[str],
    old: Sequence[str],
    new: Sequence[str],
    now: datetime,
    before: Sequence[str],
) -> Iterator[str]:
    """Secrets that hold an old password, and pods that may have read one: a pod reads its files when it starts, and has
    what they held by then. One of `logins`, by which others make the old account, goes with that one.
    """
    changed, making = dict[str, datetime](), set[str]()
    for item in facts["secrets"]:
        name, text = item["metadata"]["name"], "\n".join(kube.secret_data(item).values())
        aged = name != secret and any(password in text for password in old)
        if aged and name in logins:
            making.add(name)
        elif aged:
            yield f"Secret/{name}"
        elif any(password in text for password in new):
            changed[name] = _changed(item["metadata"])
    for pod in facts["pods"]:
        made, read = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]), set(read_by(pod))
        times = [changed[name] for name in read if name in changed]
        # Times are whole seconds; one that has a configuration of its own since then was made after it.
        later = before and _digest(pod) not in {"", *before}
        if making & read or any(made < at or (made == at and not later and now < at + _SAME) for at in times):
            yield f"Pod/{pod['metadata']['name']}"


def _changed(metadata: Mapping[str, Any]) -> datetime:
    """When the content of an object last changed, by the clock of the API server."""
    writers = [entry for entry in metadata.get("managedFields") or () if "f:data" in entry.get("fieldsV1", {})]
    times = (metadata["creationTimestamp"], *(entry["time"] for entry in writers if "time" in entry))
    return max(map(datetime.fromisoformat, times))


def read_by(pod: Object) -> Iterator[str]:
    """Secrets a pod reads, as long as it runs: files and variables."""
    if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return
    spec = pod["spec"]
    for volume in spec.get("volumes") or ():
        sources = (volume, *(volume.get("projected") or {}).get("sources", ()))
        yield from (
            found.get("secretName") or found["name"] for source in sources if (found := source.get("secret") or {})
        )
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for variable in (*(container.get("env") or ()), *(container.get("envFrom") or ())):
            named = (variable.get("valueFrom") or {}).get("secretKeyRef") or variable.get("secretRef") or {}
            yield from (named[key] for key in ("name",) if key in named)
