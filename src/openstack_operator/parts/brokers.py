"""The virtual hosts that a service has: one, or during a move to another broker one on each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..plan import Context, Object, fitting

VHOST = "RabbitMQVhost"


def vhosts(ctx: Context[Any]) -> Iterator[Object]:
    """Yield the live virtual hosts of a service that are not being deleted, with their accounts."""
    for (kind, _), live in sorted(ctx.children.items()):
        if kind == VHOST and "deletionTimestamp" not in live["metadata"]:
            yield live


def broker_of(vhost: Object) -> str:
    """Return the name of the RabbitMQ that holds a virtual host."""
    return vhost["spec"]["rabbitmqRef"]["name"]


def has_two_brokers(ctx: Context[Any]) -> bool:
    """Return True while a virtual host of the service exists on more than one broker."""
    places = {(live["spec"]["vhost"], broker_of(live)) for live in vhosts(ctx)}
    return len(places) > len({vhost for vhost, _ in places})


def other_brokers(ctx: Context[Any], vhost: str, broker: str) -> list[str]:
    """Return the other brokers on which the service has that virtual host."""
    places = {broker_of(live) for live in vhosts(ctx) if live["spec"]["vhost"] == vhost}
    return sorted(places - {broker})


def resource_name(ctx: Context[Any], name: str, broker: str) -> str:
    """Return the name of the RabbitMQVhost on this broker: `name`, or `<name>--on-<broker>` if another broker has, or
    had, the one called so. No name that the operator makes otherwise has `--on-` in it.
    """
    elsewhere = f"{name}--on-{broker}"
    lives = [ctx.children.get((VHOST, each)) for each in _with_second(name)]
    is_taken = any(live is not None and broker_of(live) != broker for live in lives)
    exists = any((VHOST, each) in ctx.children for each in _with_second(elsewhere))
    return elsewhere if is_taken or exists else name


def _with_second(name: str) -> tuple[str, str]:
    """Return the names of the resources of both accounts between which a password alternates."""
    return fitting(name), fitting(f"{name}--b")
