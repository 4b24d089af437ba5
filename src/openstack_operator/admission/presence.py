"""A look at the policies in a cluster: not every way of installing the operator brings them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NoReturn

import structlog

from ..kube import Object
from ..plan import SpecError, Transient
from ..preview.definitions import differs
from ..runtime import metrics
from ..runtime.client import Client
from ..runtime.errors import Forbidden
from ..runtime.kinds import Kind
from .names import NAMESPACE
from .nodes import node_policies
from .pods import operator_pods

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_API = "admissionregistration.k8s.io/v1"
POLICY_KINDS = (
    Kind(_API, "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    Kind(_API, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
)
_BY_KIND = {kind.kind: kind for kind in POLICY_KINDS}
PERIOD = 600.0
"""Seconds between two looks, each some 20 small requests: a policy may be deleted by mistake at any time."""


def policies(namespace: str = NAMESPACE) -> list[Object]:
    """Return the policies with their bindings; the account of the operator is in this namespace."""
    return [*node_policies(), *operator_pods(namespace)]


async def watch_policies(client: Client, namespace: str, *, delay: float = 20.0, period: float = PERIOD) -> NoReturn:
    """After a delay, say in the log and in a metric which policies are missing, whenever that changes; never end."""
    # A new leader has resources to look at first.
    await asyncio.sleep(delay)
    # A second of work, which is not to hold up the lease and the watches.
    expected = await asyncio.to_thread(policies, namespace)
    before: str | None = ""
    while True:
        try:
            names = await absent(client, expected)
        except Forbidden as error:
            answer = f"cannot be read: {error}"
        except (Transient, SpecError):
            # It is asked again soon enough.
            answer = before
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
        if live is None or differs(live, obj):
            names.append(f"{obj['kind']}/{obj['metadata']['name']}")
    return names
