"""Who may create backups does not say that a schedule made one: its retention would count it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from openstack_operator.admission.policy_names import OPERATOR
from openstack_operator.plan import Object, Transient
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import NotAdmitted
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.services.backup.model import BACKUP, OF_SCHEDULE
from openstack_operator.yaml_text import load

from .harness import Cluster, eventually
from .rest import Rest
from .test_node_policies import RBAC
from .test_permissions import ACCOUNT, account

pytestmark = pytest.mark.security

USER = "of-backups"
KIND = Kind.of(BACKUP)
SPEC = {"repository": {"volume": {"claimName": "backups"}, "passwordRef": {"name": "repository"}}}


class Users:
    """The API as one who may write backups has it, and the operator."""

    def __init__(self, cluster: Cluster, user: Client, operator: Client) -> None:
        self._cluster, self.user, self.operator = cluster, user, operator

    def backup(self, name: str, **annotations: str) -> Object:
        metadata = {**self._cluster.meta(name), "annotations": annotations}
        return {"apiVersion": BACKUP.api_version, "kind": BACKUP.kind, "metadata": metadata, "spec": SPEC}

    async def annotate(self, client: Client, name: str, value: str | None) -> None:
        annotations = {} if value is None else {OF_SCHEDULE: value}
        change = {"op": "add", "path": "/metadata/annotations", "value": annotations}
        await client.patch_json(KIND, self._cluster.namespace, name, [change])


@pytest.fixture
async def users(kubeconfig: Path, cluster: Cluster, root: Path) -> AsyncGenerator[Users]:
    rest = Rest(kubeconfig, cluster.namespace)
    policies = [obj for obj in load(root / "deploy/admission.yaml") if obj["metadata"]["name"] == f"{OPERATOR}-backups"]
    roles = [obj for name in ("rbac", "roles") for obj in load(root / f"deploy/{name}.yaml")]
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{OPERATOR}-backups"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": USER}],
    }
    assert len(policies) == 2
    for obj in (*policies, *(role for role in roles if role["metadata"].get("namespace") is None), binding):
        status, answer = rest.apply(obj)
        assert status in (200, 201), answer
    rest.close()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(account(kubeconfig, user)) for user in (USER, ACCOUNT)]
        made = Users(cluster, *clients)

        async def enforced() -> bool:
            # The API server takes up roles and policies some time after they were written.
            try:
                await made.user.create(KIND, made.backup("in-force", **{OF_SCHEDULE: "nightly"}))
            except NotAdmitted:
                return True
            except Transient:
                # The role is not seen yet, or an earlier attempt went through.
                return False
            return False

        await eventually(enforced)
        yield made


async def test_only_the_operator_says_that_a_schedule_made_a_backup(users: Users) -> None:
    with pytest.raises(NotAdmitted, match=f"only the operator writes the annotation {OF_SCHEDULE}; remove it"):
        await users.user.create(KIND, users.backup("forged", **{OF_SCHEDULE: "nightly"}))
    await users.user.create(KIND, users.backup("by-hand", other="value"))
    with pytest.raises(NotAdmitted):
        await users.annotate(users.user, "by-hand", "nightly")
    await users.operator.create(KIND, users.backup("nightly-202601020100", **{OF_SCHEDULE: "nightly"}))
    for value in ("weekly", None):
        with pytest.raises(NotAdmitted):
            await users.annotate(users.user, "nightly-202601020100", value)
    await users.annotate(users.operator, "nightly-202601020100", "weekly")
