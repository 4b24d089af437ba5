"""A look at the policies in a cluster: not every way of installing the operator brings them."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import structlog

from ..kube import Object
from ..plan import SpecError, Transient
from ..runtime import metrics
from ..runtime.kubernetes.client import Client
from ..runtime.kubernetes.errors import Forbidden
from ..runtime.kubernetes.kinds import Kind
from .backups import backup_policies
from .nodes import node_policies
from .pod_policies import operator_pods
from .policy_names import NAMESPACE

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_API = "admissionregistration.k8s.io/v1"
POLICY_KINDS = (
    Kind(_API, "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    Kind(_API, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
)
_DEFAULTS = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "scope": "*"}
"""Fields that the API server adds, besides selectors that are empty."""
_BY_KIND = {kind.kind: kind for kind in POLICY_KINDS}
PERIOD = 600.0
"""Seconds between two looks, each some 20 small requests: a policy may be deleted by mistake at any time."""


def policies(namespace: str = NAMESPACE) -> list[Object]:
    """Return the policies with their bindings; the account of the operator is in this namespace."""
    return [*node_policies(), *operator_pods(namespace), *backup_policies()]


async def watch_policies(
    client: Client, expected: Callable[[], Sequence[Object]], *, delay: float = 20.0, period: float = PERIOD
) -> NoReturn:
    """Report, after a delay, in the log and in a metric which expected policies are missing, whenever that changes;
    never end.
    """
    # An operator that starts has resources to look at first.
    await asyncio.sleep(delay)
    # A second of work, which is not to hold up the lease and the watches.
    objects = await asyncio.to_thread(expected)
    before: str | None = ""
    while True:
        try:
            names = await absent(client, objects)
        except Forbidden as error:
            # Policies that nobody can see count as absent: 0 would say that all are there.
            metrics.ABSENT_POLICIES.set(len(objects))
            answer = f"cannot be read: {error}"
        except (Transient, SpecError):
            # It is asked again soon enough.
            answer = before
        except Exception as error:
            # A bug here does not end the operator.
            frames = "".join(traceback.format_tb(error.__traceback__))
            _log.error("cannot compare the admission policies", error=type(error).__name__, frames=frames)
            metrics.ABSENT_POLICIES.set(len(objects))
            answer = f"cannot be read: {type(error).__name__}"
        else:
            metrics.ABSENT_POLICIES.set(len(names))
            answer = ", ".join(names)
        if answer and answer != before:
            _log.error("apply deploy/rbac.yaml and deploy/admission.yaml of this version", policies=answer)
        elif before and not answer:
            _log.info("the admission policies are complete")
        before = answer
        await asyncio.sleep(period)


async def absent(client: Client, expected: Sequence[Object]) -> list[str]:
    """Return the objects, as `Kind/name`, that the cluster lacks or has with another content. Raises Forbidden,
    Transient and SpecError.
    """
    names: list[str] = []
    for obj in expected:
        live = await client.get(_BY_KIND[obj["kind"]], None, obj["metadata"]["name"])
        if live is None or _stated(live["spec"]) != _stated(obj["spec"]):
            names.append(f"{obj['kind']}/{obj['metadata']['name']}")
    return names


def _stated(value: Any) -> Any:
    """Return what a policy states, without defaults and what is empty. Fields that the cluster has in addition are
    part of it: one such as `excludeResourceRules` switches a policy off.
    """
    if isinstance(value, Mapping):
        fields: Mapping[str, Any] = value
        stated = {name: _stated(each) for name, each in fields.items() if each != _DEFAULTS.get(name)}
        return {name: each for name, each in stated.items() if each not in ({}, [], None)}
    if isinstance(value, list):
        entries: Sequence[Any] = value
        return [_stated(each) for each in entries]
    return value
