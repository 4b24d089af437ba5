"""The pod with the openstack command, and the commands of each service's plug-in."""

from __future__ import annotations

import json

import pytest

from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes

ENABLED = (
    "endpoint list",
    "image list",
    "network list",
    "server list",
    "volume list",
    "resource provider list",
    "stack list",
    "loadbalancer list",
)
OTHERS = ("secret list", "zone list")


def openstack(cluster: Kubernetes, cloud: Cloud, command: str, *options: str) -> str:
    """Output of a command in the pod."""
    words = (*command.split(), *options)
    return cluster.kubectl("exec", "-n", cloud.namespace, "deploy/keystoneclient", "--", "openstack", *words)


@pytest.mark.parametrize("command", ENABLED)
def test_client_pod_runs_the_commands_of_enabled_services(cluster: Kubernetes, cloud: Cloud, command: str) -> None:
    assert isinstance(json.loads(openstack(cluster, cloud, command, "-f", "json")), list)


@pytest.mark.parametrize("command", OTHERS)
def test_client_pod_has_the_commands_of_optional_services(cluster: Kubernetes, cloud: Cloud, command: str) -> None:
    assert f"usage: openstack {command}" in openstack(cluster, cloud, command, "--help")


def test_login_of_the_client_pod_is_not_in_its_environment(cluster: Kubernetes, cloud: Cloud) -> None:
    read = ("exec", "-n", cloud.namespace, "deploy/keystoneclient", "--", "env")
    names = {line.partition("=")[0] for line in cluster.kubectl(*read).splitlines()}
    assert {name for name in names if name.startswith("OS_") and "PASSWORD" in name} == set()
    assert "OS_CLOUD" in names
