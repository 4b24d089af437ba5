"""Stacks of Heat, and templates of them."""

from __future__ import annotations

from typing import Any

from openstack.connection import Connection

from ..waiting import until

NETWORK = "heat-test"
"""Name of the network in a stack of `network`."""


def template(resources: dict[str, Any], **outputs: Any) -> dict[str, Any]:
    return {
        "heat_template_version": "2021-04-16",
        "resources": resources,
        "outputs": {name: {"value": value} for name, value in outputs.items()},
    }


def network(length: int) -> dict[str, Any]:
    """A network with a router, and a secret of that length."""
    resources = {
        "net": {"type": "OS::Neutron::Net", "properties": {"name": NETWORK}},
        "subnet": {
            "type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "net"}, "cidr": "10.77.0.0/24"},
        },
        "router": {"type": "OS::Neutron::Router"},
        "interface": {
            "type": "OS::Neutron::RouterInterface",
            "properties": {"router": {"get_resource": "router"}, "subnet": {"get_resource": "subnet"}},
        },
        "secret": {"type": "OS::Heat::RandomString", "properties": {"length": length}},
    }
    return template(resources, secret={"get_attr": ["secret", "value"]}, net={"get_resource": "net"})


class Stack:
    """A stack of the administrator's project: a new one, or without a template that of the name."""

    def __init__(self, conn: Connection, name: str, content: dict[str, Any] | None = None) -> None:
        self._api: Any = conn.orchestration
        self._name = name
        if content:
            self._api.create_stack(name=name, template=content, timeout_mins=10)

    def look(self) -> Any:
        return self._api.find_stack(self._name, ignore_missing=True, resolve_outputs=True)

    @property
    def outputs(self) -> dict[str, Any]:
        stack = self.look()
        return {each["output_key"]: each["output_value"] for each in stack.outputs or ()} if stack else {}

    def reaches(self, status: str, timeout: float = 180) -> bool:
        """It has that status within the timeout, and never one of a failure."""

        def has_ended() -> bool:
            stack = self.look()
            assert stack is None or not stack.status.endswith("FAILED"), f"{stack.status}: {stack.status_reason}"
            return stack is not None and stack.status == status

        return until(f"stack {self._name} to be {status}", has_ended, timeout, 1)

    def update(self, content: dict[str, Any]) -> None:
        self._api.update_stack(self.look(), template=content)

    def delete(self) -> None:
        if (stack := self.look()) is not None:
            self._api.delete_stack(stack)
        until(f"stack {self._name} to be gone", lambda: self.look() is None, 180, 1)
