"""Heat: stacks that are created, changed and deleted, a signal to a wait condition, and the loss of an engine."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from openstack.connection import Connection

from cloud import proof
from cloud.kubernetes import Kubernetes
from cloud.session import Cloud

from ..waiting import until

NETWORK = "heat-test"
ENGINES = "openstack.k8s.io/kind=heat,app.kubernetes.io/component=engine"


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
    """A stack of the administrator's project."""

    def __init__(self, conn: Connection, name: str, content: dict[str, Any]) -> None:
        self._api: Any = conn.orchestration
        self._name = name
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


@pytest.fixture
def stacks(conn: Connection) -> Generator[Any]:
    """Makes stacks, which are deleted in the end."""
    made: list[Stack] = []

    def stack(name: str, content: dict[str, Any]) -> Stack:
        made.append(Stack(conn, name, content))
        return made[-1]

    yield stack
    for each in made:
        each.delete()


def test_a_stack_is_created_changed_and_deleted(conn: Connection, stacks: Any) -> None:
    stack = stacks("network", network(20))
    assert stack.reaches("CREATE_COMPLETE")
    first = stack.outputs
    assert len(first["secret"]) == 20
    found: Any = conn.network.find_network(NETWORK)
    assert found.id == first["net"]
    # By the trust of its owner, with what is stored encrypted.
    stack.update(network(24))
    assert stack.reaches("UPDATE_COMPLETE")
    assert len(stack.outputs["secret"]) == 24
    assert stack.outputs["net"] == first["net"]
    stack.delete()
    assert conn.network.find_network(NETWORK) is None


def test_a_signed_signal_completes_a_wait_condition(conn: Connection, stacks: Any) -> None:
    """By the CloudFormation API, from outside of the cluster, as a server would."""
    handle = {"get_resource": "handle"}
    resources = {
        "handle": {"type": "AWS::CloudFormation::WaitConditionHandle"},
        "condition": {
            "type": "AWS::CloudFormation::WaitCondition",
            "properties": {"Handle": handle, "Timeout": 300, "Count": 1},
        },
    }
    stack = stacks("signal", template(resources, url=handle, data={"get_attr": ["condition", "Data"]}))
    url = until("the address of the signal", lambda: _signed(stack.outputs.get("url")), 60, 1)
    assert stack.look().status == "CREATE_IN_PROGRESS"
    forged = conn.session.put(url.replace("Signature=", "Signature=x"), authenticated=False, raise_exc=False, json={})
    assert forged.status_code == 403, forged.text
    signal = {"Status": "SUCCESS", "Reason": "set up", "UniqueId": "1", "Data": "hello"}
    answer = conn.session.put(url, authenticated=False, raise_exc=False, json=signal)
    assert answer.status_code == 200, answer.text
    assert stack.reaches("CREATE_COMPLETE")
    assert "hello" in str(stack.outputs["data"])


def _signed(url: Any) -> str:
    return url if isinstance(url, str) and "Signature=" in url else ""


SIGNAL = """#!/bin/sh
url='$url'
rest=${url#*://}
where=${rest%%/*}
body='{"Status": "SUCCESS", "Reason": "set up", "UniqueId": "1", "Data": "hello from the guest"}'
printf '%s\\r\\n' "PUT /${rest#*/} HTTP/1.1" "Host: $where" 'Connection: close' \\
    'Content-Type: application/json' "Content-Length: ${#body}" '' > /run/request
printf '%s' "$body" >> /run/request
# nc gives the connection as standard input, and ssl_client encrypts what goes through it.
printf '#!/bin/sh\\nexec 3<&0\\nexec ssl_client -s 3 < /run/request > /run/answer\\n' > /run/put
chmod +x /run/put
until nc "${where%:*}" "${where#*:}" -e /run/put && head -n 1 /run/answer | grep ' 200 '; do sleep 2; done
"""


def test_a_server_signals_that_it_is_set_up(conn: Connection, stacks: Any) -> None:
    """A stack of a network, a router and a server, which is complete when the guest itself has signalled, by the
    CloudFormation API.
    """
    image, flavor = proof.image(conn), proof.flavor(conn)
    _, external, _ = proof.networks(conn)
    handle = {"get_resource": "handle"}
    data = {"str_replace": {"template": SIGNAL, "params": {"$url": handle}}}
    resources = {
        **network(20)["resources"],
        "router": {"type": "OS::Neutron::Router", "properties": {"external_gateway_info": {"network": external.id}}},
        "handle": {"type": "AWS::CloudFormation::WaitConditionHandle"},
        "condition": {
            "type": "AWS::CloudFormation::WaitCondition",
            "depends_on": "server",
            "properties": {"Handle": handle, "Timeout": 600, "Count": 1},
        },
        "server": {
            "type": "OS::Nova::Server",
            "depends_on": "interface",
            "properties": {
                "image": image.id,
                "flavor": flavor.id,
                "networks": [{"subnet": {"get_resource": "subnet"}}],
                "user_data_format": "RAW",
                "user_data": data,
            },
        },
    }
    stack = stacks("server", template(resources, data={"get_attr": ["condition", "Data"]}))
    assert stack.reaches("CREATE_COMPLETE", 480)
    assert "hello from the guest" in str(stack.outputs["data"])


def test_a_stack_outlives_the_engine_that_creates_it(cluster: Kubernetes, cloud: Cloud, stacks: Any) -> None:
    steps = [f"step{number}" for number in range(3)]
    resources = {
        step: {
            "type": "OS::Heat::TestResource",
            "properties": {"value": step, "wait_secs": 10},
            **({"depends_on": steps[number - 1]} if number else {}),
        }
        for number, step in enumerate(steps)
    }
    stack = stacks("engine", template(resources))
    assert stack.reaches("CREATE_IN_PROGRESS", 30)
    before = {pod["metadata"]["name"] for pod in cluster.items("pods", "-n", cloud.namespace, "-l", ENGINES)}
    cluster.kubectl("delete", "pod", "-n", cloud.namespace, "-l", ENGINES, "--wait=false")
    assert stack.reaches("CREATE_COMPLETE", 300)
    after = {pod["metadata"]["name"] for pod in cluster.items("pods", "-n", cloud.namespace, "-l", ENGINES)}
    assert before
    assert not before & after


def test_keystone_is_repaired(cluster: Kubernetes, cloud: Cloud, conn: Connection, stacks: Any) -> None:
    """Users of stacks need the domain and its administrator."""
    identity: Any = conn.identity
    domain = identity.find_domain("heat")
    identity.update_domain(domain, is_enabled=False)
    # A change of the resource is looked at at once; without one, it takes two minutes.
    cluster.kubectl("annotate", "keystonedomain", "heat-domain", "-n", cloud.namespace, "test/look=now", "--overwrite")
    until("the domain to be enabled", lambda: identity.find_domain("heat").is_enabled, 180, 1)
    handle = {"type": "OS::Heat::WaitConditionHandle"}
    assert stacks("users", template({"handle": handle})).reaches("CREATE_COMPLETE")
