"""The cluster on paper: references answered, Secrets found, circles said."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from openstack_operator import kube
from openstack_operator.api import Model, Ref, Resource, SecretKeyRef
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import Context, MissingReference, Object, Plan, Release, SpecError, Step
from openstack_operator.plan.service import Service


class NodeRef(Ref):
    """Another node."""

    kind: ClassVar[str] = "Node"


class NodeSpec(Model):
    """A node of a graph."""

    next: NodeRef | None = None
    """What it leans on."""
    password: SecretKeyRef | None = None
    """A password."""
    size: int = 1
    """A number."""


NODE = Resource(kind="Node", plural="nodes", spec=NodeSpec)


def plan(ctx: Context[NodeSpec]) -> Plan:
    ref, password = ctx.spec.next, ctx.spec.password
    data = {"drawn": ctx.draw(), "path": f"{ctx.refs[ref]['path']}/{ctx.owner}" if ref else ctx.owner}
    if password:
        data["password"] = ctx.secrets[password.name][password.key]
    if ref:
        data["admin"] = ctx.secrets[ctx.refs[ref]["adminSecret"]]["drawn"]
    wanted = kube.secret(ctx, ctx.name("s"), data)
    published = {"path": data["path"], "adminSecret": wanted["metadata"]["name"]}
    return Plan(Step(name="S", objects=(wanted,)), published=published)


def paper() -> OfflineCluster:
    return OfflineCluster(
        [Service(resource=NODE, plan=plan)], [], lambda _: Release("r", "debian", {}), password="drawn"
    )


def node(name: str, **spec: Any) -> Object:
    return {"kind": "Node", "metadata": {"name": name}, "spec": spec}


def contents(*manifests: Object) -> list[dict[str, str]]:
    return [kube.secret_data(obj) for planned in paper().render(manifests) for obj in planned.objects]


def test_references_are_answered_in_whatever_order() -> None:
    found = contents(node("b", next={"name": "a"}), node("a"))
    assert found[0] == {"drawn": "drawn", "path": "a/b", "admin": "drawn"}


def test_absent_references_render_with_defaults() -> None:
    found = contents(node("b", next={"name": "elsewhere"}))
    assert found == [{"drawn": "drawn", "path": "elsewhere/b", "admin": "drawn"}]


def test_secrets_beside_the_manifest_are_read() -> None:
    ref = {"name": "mine", "key": "pw"}
    secret = {"kind": "Secret", "metadata": {"name": "mine"}, "stringData": {"pw": "chosen"}}
    assert contents(secret, node("a", password=ref))[0]["password"] == "chosen"
    assert contents(node("a", password=ref))[0]["password"] == "<mine.pw>"


def test_a_circle_is_said() -> None:
    with pytest.raises(MissingReference, match="these wait for each other: Node/a → Node/b → Node/a"):
        contents(node("a", next={"name": "b"}), node("b", next={"name": "a"}))


def test_a_spec_its_model_refuses_is_said() -> None:
    with pytest.raises(SpecError, match=r"spec.size: Input should be a valid integer"):
        contents(node("a", size="large"))


def test_other_kinds_are_left_alone() -> None:
    assert contents({"kind": "ConfigMap", "metadata": {"name": "c"}}) == []
