"""Readers of passwords in a namespace: the operator's Secrets, and the pods that may have read one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..kube import MANAGED_BY
from ..plan import Context
from .client import Client
from .kinds import POD, SECRET
from .registry import Observer
from .users import list_all


def secret_consumers(needed: Callable[[Context[Any]], bool]) -> Observer:
    """Return an observer whose facts are, where they are `needed`, the operator's `secrets` and all `pods` of the
    namespace, with the times at which they were written.
    """

    async def observe(client: Client, ctx: Context[Any]) -> Mapping[str, Any]:
        if not needed(ctx):
            return {}
        # The Secrets first: a pod that is made meanwhile reads what they hold by now.
        secrets = await list_all(client, SECRET, ctx.namespace, f"app.kubernetes.io/managed-by={MANAGED_BY}")
        return {"secrets": secrets, "pods": await list_all(client, POD, ctx.namespace)}

    return observe
