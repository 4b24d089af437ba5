"""The virtual hosts that a service has: one, or during a move to another broker one on each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import kube
from ..api import SecretKeyRef
from ..plan import Context, Object, fitting

VHOST = "RabbitMQVhost"
ACCOUNT_MADE = "AccountMade"
"""Condition of a RabbitMQVhost: the operator has made the account on its broker, with the password in the message."""


def password_text(ref: SecretKeyRef) -> str:
    """Return the message of the condition `AccountMade`."""
    return f"with the password {ref.key}{_of_secret(ref.name)}"


def _of_secret(name: str) -> str:
    return f" of Secret/{name}"


def vhosts(ctx: Context[Any]) -> Iterator[Object]:
    """Return the live virtual hosts of a service that are not being deleted, with their accounts."""
    return (live for live in _labeled(ctx) if _is_own(ctx, live))


def _labeled(ctx: Context[Any]) -> Iterator[Object]:
    for (kind, _), live in sorted(ctx.children.items()):
        if kind == VHOST and "deletionTimestamp" not in live["metadata"]:
            yield live


def _is_own(ctx: Context[Any], live: Object) -> bool:
    """Return True if the operator made this account for the service. Every user who may create a RabbitMQVhost may give
    it the labels of any service, and one that counts as a part of a move gets into the service's plan, with all that
    the plan's resources may do. But only the operator writes a status, and it gives an account a password of a service
    only if that service's plan has the account.
    """
    return _has_password(ctx, live) and (is_made(ctx, live) or kube.child_verdict(live).ready)


def is_made(ctx: Context[Any], live: Object) -> bool:
    """Return True if the operator made the account with a password of the service. A rotation changes the key of an
    account that exists; the Secret stays.
    """
    condition = kube.conditions(live).get(ACCOUNT_MADE, {})
    return condition.get("status") == "True" and condition.get("message", "").endswith(_of_secret(_credentials(ctx)))


def _has_password(ctx: Context[Any], live: Object) -> bool:
    """Return True if an account is to have a password of the service's own."""
    return live["spec"]["passwordSecretRef"]["name"] == _credentials(ctx)


def _credentials(ctx: Context[Any]) -> str:
    return fitting(ctx.name("credentials"))


def broker_of(vhost: Object) -> str:
    """Return the name of the RabbitMQ that holds a virtual host."""
    return vhost["spec"]["rabbitmqRef"]["name"]


def has_two_brokers(ctx: Context[Any]) -> bool:
    """Return True while a virtual host of the service has accounts on more than one broker, whether the operator has
    made them yet or not. A forged account counts, too: it can only hold back a rotation.
    """
    lives = [live for live in _labeled(ctx) if _has_password(ctx, live)]
    places = {(live["spec"]["vhost"], broker_of(live)) for live in lives}
    return len(places) > len({vhost for vhost, _ in places})


def other_brokers(ctx: Context[Any], vhost: str, broker: str) -> list[str]:
    """Return the other brokers on which the service has that virtual host."""
    places = {broker_of(live) for live in vhosts(ctx) if live["spec"]["vhost"] == vhost}
    return sorted(places - {broker})


def resource_name(ctx: Context[Any], name: str, broker: str, vhost: str, user: str) -> str:
    """Return the name of the RabbitMQVhost on this broker: `name`, or `<name>--on-<broker>` if another broker has, or
    had, the one called so. No name that the operator makes otherwise has `--on-` in it.
    """
    elsewhere = f"{name}--on-{broker}"
    at_name, at_elsewhere = (list(_accounts(ctx, each, vhost, user)) for each in (name, elsewhere))
    is_taken = any(broker_of(live) != broker for live in at_name)
    exists = any(broker_of(live) == broker for live in at_elsewhere)
    return elsewhere if is_taken or exists else name


def _accounts(ctx: Context[Any], name: str, vhost: str, user: str) -> Iterator[Object]:
    """Yield the live resources of that name for a virtual host, and for one of the two users between which a password
    alternates. Other resources do not count: a user who may create a RabbitMQVhost chooses its name.
    """
    lives = (ctx.children.get((VHOST, each)) for each in _with_second(name))
    for live in lives:
        spec = live["spec"] if live and _has_password(ctx, live) else {}
        if live and spec.get("vhost") == vhost and spec.get("user") in (user, f"{user}_B"):
            yield live


def _with_second(name: str) -> tuple[str, str]:
    """Return the names of the resources of both accounts between which a password alternates."""
    return fitting(name), fitting(f"{name}--b")
