"""Heat: stacks that are created, changed and deleted, a signal to a wait condition, and the loss of an engine."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from openstack.connection import Connection

from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes

from ..waiting import until
from .stacks import NETWORK, Stack, network, template

ENGINES = "openstack.k8s.io/kind=heat,app.kubernetes.io/component=engine"


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
