"""Replacement of passwords: a second account beside the first one, which is removed once no program uses it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from ... import kube
from ...api import handle
from ...plan import Context, Key, Object, fitting
from ..brokers import has_two_brokers

SORTS = ("database", "messaging", "identity", "application", "admin", "fernet")
"""Credentials that a service can be ordered to replace; which of them it has follows from its spec."""

IDLE, PREPARING, MIGRATING = "Idle", "Preparing", "Moving"
"""There is one account; a second one is being made; the second one is in use, and the first one still exists."""

REMOTES = (
    "MariaDBDatabase",
    "RabbitMQVhost",
    "KeystoneUser",
    "KeystoneDomain",
    "KeystoneApplicationCredential",
    "User.k8s.mariadb.com",
    "User.rabbitmq.com",
)
"""Kinds whose resources make an account."""

PASSWORD = "openstack.k8s.io/password"  # noqa: S105
"""Annotation of a resource that makes an account and has its password elsewhere: `glance-credentials/database.a`."""

_LOGINS = ("passwordSecretKeyRef", "importCredentialsSecret")
"""Fields by which accounts of mariadb-operator and of the messaging topology operator name a Secret."""

_RETRY = timedelta(seconds=15)
"""Interval at which the users of an account are checked."""
_SAME = timedelta(minutes=5)
"""Time after which a pod made in the second of a change was made because of it: older ones are gone by then."""
_NEVER, _FAR = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def order_name(service: str, sort: str) -> str:
    """Name of the Secret that orders a service to replace credentials of a sort (`at`, RFC 3339), and says how long it
    keeps the old ones unused (`graceDays`).
    """
    return fitting(f"{service}-{sort}-rotation")


@dataclass(frozen=True, kw_only=True)
class Order:
    """Latest order to replace credentials."""

    at: str = ""
    """RFC 3339; empty without an order."""
    grace: int = 0
    """Days."""


def order(ctx: Context[Any], sort: str) -> Order:
    """Return the latest order for this resource; one that cannot be read counts as none."""
    data = ctx.secrets.get(order_name(ctx.owner, sort), {})
    days = data.get("graceDays", "")
    return Order(at=data.get("at", ""), grace=int(days) if days.isdecimal() else 0) if time(data.get("at")) else Order()


def time(text: str | None) -> datetime | None:
    """Return the time of a text in RFC 3339; None for anything else."""
    try:
        parsed = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return parsed if parsed.tzinfo else None


def stamp(at: datetime) -> str:
    """Return the time as text, in whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """State of a replacement, in one key of a Secret, so that a step is done completely or not at all."""

    second: bool = False
    """True if the second of the two accounts is in use."""
    step: str = IDLE
    since: str = ""
    """Time at which the present step began."""
    order: str = ""
    """Last order that was accepted."""
    grace: int = 0
    """Days."""
    completed_at: str = ""
    """Time of the last completed replacement."""
    before: tuple[str, ...] = ()
    """Digests of the configurations that pods had until the second account was in use."""

    @property
    def text(self) -> str:
        """Content of its key."""
        progress = {"second": self.second, "step": self.step, "since": self.since, "order": self.order}
        return json.dumps({**progress, "graceDays": self.grace, "done": self.completed_at, "before": self.before})

    def published(self, waits: Sequence[str] = ()) -> str:
        """Report the state without anything secret, as JSON."""
        report = {"step": self.step, "since": self.since, "order": self.order, "done": self.completed_at}
        report |= {"waits": list(waits)}
        return json.dumps({name: value for name, value in report.items() if value})


def read(text: str | None) -> Rotation | None:
    """Read the content of a key; None if it is missing or makes no sense."""
    try:
        document: Any = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(document, dict) or (fields := cast("dict[str, Any]", document)).get("step") not in {
        IDLE,
        PREPARING,
        MIGRATING,
    }:
        return None
    days, before = fields.get("graceDays"), fields.get("before")
    return Rotation(
        second=fields.get("second") is True,
        step=fields["step"],
        since=str(fields.get("since", "")),
        order=str(fields.get("order", "")),
        grace=days if isinstance(days, int) else 0,
        completed_at=str(fields.get("done", "")),
        before=tuple(map(str, cast("list[Any]", before))) if isinstance(before, list) else (),
    )


def turned(
    stored: Rotation | None,
    latest_order: Order,
    now: datetime,
    *,
    has_remains: bool,
    prepared: bool,
    waits: Sequence[str],
) -> Rotation | None:
    """Return the next state, at most one step further; None if there never was an order. `has_remains` is True if
    anything of the previous account is left, `prepared` if the second account exists; `waits` names what may still use
    the first one.
    """
    if stored:  # Nothing waits for a time that is still to come: the clock was put back.
        since, completed_at = (kube.past_stamp(text, now) for text in (stored.since, stored.completed_at))
        stored = replace(stored, since=since, completed_at=completed_at)
    rotation = stored or Rotation()
    if rotation.step == MIGRATING:
        over = not waits and now >= kept_until(rotation, latest_order)
        return replace(rotation, step=IDLE, since=stamp(now), completed_at=stamp(now), before=()) if over else stored
    if rotation.step == PREPARING:
        return replace(rotation, step=MIGRATING, second=not rotation.second, since=stamp(now)) if prepared else stored
    # A resource left over would count as the account with the new password, while it is ready with the old one.
    if newer(latest_order, rotation) and not has_remains:
        return replace(rotation, step=PREPARING, order=latest_order.at, grace=latest_order.grace, since=stamp(now))
    return stored


def newer(latest_order: Order, rotation: Rotation) -> bool:
    """Return True if an order was not accepted yet."""
    ordered_at, accepted_at = time(latest_order.at), time(rotation.order)
    return ordered_at is not None and (accepted_at is None or ordered_at > accepted_at)


def kept_until(rotation: Rotation, latest_order: Order) -> datetime:
    """Time until which an unused account is kept; a changed number of days applies to a running replacement, too."""
    days = latest_order.grace if latest_order.at == rotation.order else rotation.grace
    try:
        return (time(rotation.since) or _NEVER) + timedelta(days=days)
    except OverflowError:
        return _FAR


@dataclass(frozen=True, kw_only=True)
class Account:
    """One of the two accounts a password may be for, which differ by name."""

    key: str
    """Its password in the Secret of credentials."""
    second: bool = False
    used: bool = True
    """True if programs are configured with it."""

    def called(self, name: str) -> str:
        """Name of the account on the server. No Kubernetes name has these characters, so no other resource uses it."""
        return f"{name}_B" if self.second else name

    def resource(self, name: str) -> str:
        """Name of the resource that makes it."""
        return f"{name}--b" if self.second else name


def sort_of(password: str) -> str:
    """Return the sort of a password by its name; empty for one that no order replaces."""
    last = "messaging" if password == "notifications" else password.rpartition("-")[2]  # noqa: S105
    return last if last in {"database", "messaging", "identity", "application"} else ""


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """Passwords by key, their accounts, and the state of their replacement."""

    values: Mapping[str, str]
    accounts: Mapping[str, tuple[Account, ...]] = field(default_factory=dict[str, tuple[Account, ...]])
    """By the password's name, the one in use first."""
    published: Mapping[str, str] = field(default_factory=dict[str, str])
    wake: datetime | None = None


def replaced(ctx: Context[Any], secret: str, stored: Mapping[str, str], names: Sequence[str]) -> Replaced:
    """Return what a Secret of passwords should hold, given its content. A password never moves from one account's key
    to another: only the key `<name>` holds the password of the account in use.
    """
    values = {**stored, **{name: stored.get(name) or ("" if sort_of(name) else ctx.draw()) for name in names}}
    accounts: dict[str, tuple[Account, ...]] = {}
    published: dict[str, str] = {}
    wakes: list[datetime] = []
    for sort in dict.fromkeys(filter(None, map(sort_of, names))):
        members = [name for name in names if sort_of(name) == sort]
        before, latest_order = read(stored.get(f"rotation.{sort}")), order(ctx, sort)
        waits = _waits(ctx, secret, stored, before, members)
        prepared = before is not None and _prepared(ctx, secret, stored, before, members)
        unused_keys = {_accounts(name, before or Rotation())[1].key for name in members}
        leftover = any(key in unused_keys for _, _, key in _remotes(ctx, secret))
        leftover = leftover or (sort == "messaging" and has_two_brokers(ctx))
        after = turned(before, latest_order, ctx.now, has_remains=leftover, prepared=prepared, waits=waits)
        if after and before and (before.step, after.step) == (PREPARING, MIGRATING):
            after = replace(after, before=_digests(ctx))
        if after is None:
            values |= {name: stored.get(name) or ctx.draw() for name in members}
            published[f"{sort}Rotation"] = Rotation().published()
            continue
        values[f"rotation.{sort}"] = after.text
        for name in members:
            accounts[name] = used, unused = _accounts(name, after)
            values[used.key] = values[name] = stored.get(used.key) or stored.get(name) or ctx.draw()
            if after.step == IDLE:
                values.pop(unused.key, None)
                accounts[name] = (used,)
            else:
                values[unused.key] = stored.get(unused.key) or ctx.draw()
        published[f"{sort}Rotation"] = after.published(waits if after == before else ())
        if after.step == MIGRATING:
            until = kept_until(after, latest_order)
            wakes.append(until if after == before and not waits else ctx.now + _RETRY)
    return Replaced(values=values, accounts=accounts, published=published, wake=min(wakes, default=None))


def rotation_in_progress(ctx: Context[Any]) -> bool:
    """Return True if the users of its accounts have to be observed: one is replaced, and the new one is in use."""
    stored = kube.secret_data(ctx.children.get(("Secret", kube.fitting(ctx.name("credentials")))))
    rotations = (read(text) for key, text in stored.items() if key.startswith("rotation."))
    return any(each is not None and each.step == MIGRATING for each in rotations)


def _accounts(name: str, state: Rotation) -> tuple[Account, Account]:
    """Return the account in use, and the other one."""
    account_a, account_b = Account(key=f"{name}.a"), Account(key=f"{name}.b", second=True)
    return (account_b, replace(account_a, used=False)) if state.second else (account_a, replace(account_b, used=False))


def _prepared(
    ctx: Context[Any], secret: str, stored: Mapping[str, str], before: Rotation, members: Sequence[str]
) -> bool:
    """Return True if each second account is ready, and each first one has its own key, so that a change of the account
    in use does not change the password of either.
    """
    remotes = {key: live for _, live, key in _remotes(ctx, secret)}
    keys = [_accounts(name, before) for name in members]
    return all(
        used.key in remotes and unused.key in remotes and unused.key in stored and kube.judge(remotes[unused.key]).ready
        for used, unused in keys
    )


def _remotes(ctx: Context[Any], secret: str) -> Iterator[tuple[Key, Object, str]]:
    """Yield the resources that make accounts with passwords of that Secret, with the key of each."""
    for child, live in ctx.children.items():
        if child[0] in REMOTES:
            noted = live["metadata"].get("annotations", {}).get(PASSWORD, "").partition("/")
            source = live["spec"].get("passwordSecretRef") or {"name": noted[0], "key": noted[2]}
            if source["name"] == secret:
                yield child, live, source["key"]


def _waits(
    ctx: Context[Any], secret: str, stored: Mapping[str, str], before: Rotation | None, members: Sequence[str]
) -> list[str]:
    """Return what may still use the accounts to remove, as `Kind/name`."""
    if before is None or before.step != MIGRATING:
        return []
    if "pods" not in ctx.facts:
        return ["the state of its users"]
    pairs = [_accounts(name, before) for name in members]
    old = [stored[unused.key] for _, unused in pairs if unused.key in stored]
    new = [stored[used.key] for used, _ in pairs if used.key in stored]
    keys = {unused.key for _, unused in pairs}
    return list(
        dict.fromkeys(
            [
                # Its virtual host would be deleted with it.
                *("/".join(child) for child, live, key in _remotes(ctx, secret) if key in keys and _takes_all(live)),
                *("/".join(child) for child, live in ctx.children.items() if _unfinished(live)),
                *_readers(ctx.facts, secret, set(_logins(ctx)), old, new, ctx.now, before.before),
            ]
        )
    )


def _digests(ctx: Context[Any]) -> tuple[str, ...]:
    """Return the digests of the configurations with which pods start."""
    templates = (live.get("spec", {}).get("template", {}) for live in ctx.children.values())
    return tuple(sorted({digest for each in templates if (digest := _digest(each))}))


def _digest(pod: Mapping[str, Any]) -> str:
    return pod.get("metadata", {}).get("annotations", {}).get(kube.CONFIG_DIGEST, "")


def _takes_all(live: Object) -> bool:
    return live["kind"] == "RabbitMQVhost" and live["spec"].get("deletionPolicy") != "Retain"


def _unfinished(live: Object) -> bool:
    """Return True if its pods may be of an older template, or its job is not complete."""
    kind = handle(live["apiVersion"], live["kind"])
    if kind == "Job":
        return not kube.judge(live).ready
    return kind in {"Deployment", "StatefulSet", "DaemonSet"} and kube.Rollout(live).is_running


def _logins(ctx: Context[Any]) -> Iterator[str]:
    """Yield the Secrets with which other operators make accounts: that of the previous account is deleted with it."""
    for live in ctx.children.values():
        spec = live.get("spec") or {}
        yield from (secret_ref["name"] for field in _LOGINS if (secret_ref := spec.get(field)))
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
    """Yield the Secrets that hold an old password, and pods that may have read one: a pod reads its files when it
    starts, and keeps their content from then. One of `logins`, with which others make an account, is deleted with it.
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
        created, read = kube.valid_time(pod["metadata"]["creationTimestamp"]) or _NEVER, set(read_by(pod))
        times = [changed[name] for name in read if name in changed]
        # Times are whole seconds; a pod with a configuration from after the change was made after it.
        later = before and _digest(pod) not in {"", *before}
        if making & read or any(created < at or (created == at and not later and now < at + _SAME) for at in times):
            yield f"Pod/{pod['metadata']['name']}"


def _changed(metadata: Mapping[str, Any]) -> datetime:
    """Time at which the content of an object last changed, by the clock of the API server; _FAR if none is valid."""
    writers = [entry for entry in metadata.get("managedFields") or () if "f:data" in entry.get("fieldsV1", {})]
    stamps = (metadata["creationTimestamp"], *(entry.get("time") for entry in writers))
    return max((at for at in map(kube.valid_time, stamps) if at), default=_FAR)


def read_by(pod: Object) -> Iterator[str]:
    """Yield the Secrets that a pod reads as long as it runs: as files and variables."""
    if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return
    spec = pod["spec"]
    for volume in spec.get("volumes") or ():
        sources = (volume, *(volume.get("projected") or {}).get("sources", ()))
        yield from (
            secret.get("secretName") or secret["name"] for source in sources if (secret := source.get("secret") or {})
        )
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for variable in (*(container.get("env") or ()), *(container.get("envFrom") or ())):
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef") or variable.get("secretRef") or {}
            yield from (reference[key] for key in ("name",) if key in reference)
