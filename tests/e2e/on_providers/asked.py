"""What operators of others are asked for, and when they say that it is there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException

from tools.cloud import deploy, proof
from tools.cloud.deploy import documents
from tools.cloud.session import MINIMAL
from tools.cloud.view import conditions
from tools.localcluster.kubernetes import KubeError, Kubernetes, module
from tools.operators.catalog import OPERATORS, chosen
from tools.operators.install import install

from ..conftest import stage
from ..waiting import PLANES, Stage, until

NAMESPACE = "providers"
_SERVERS = Path(__file__).with_name("servers.yaml")
_CLUSTER = ("AllReplicasReady", "ClusterAvailable", "ReconcileSuccess")

Object = dict[str, Any]


def objects(group: str) -> list[Object]:
    """Those of servers.yaml that are of an API group."""
    return [each for each in documents(_SERVERS) if each["apiVersion"].startswith(f"{group}/")]


def prepared(cluster: Kubernetes, namespace: str, *optional: str) -> None:
    """A namespace for a cloud, its images and those of these names on the nodes, the operators of others, which a test
    may have removed, and ours.
    """
    images = [*deploy.images(MINIMAL), *optional]
    module("images", "build", *images)
    module("images", "guest")
    module("images", "load", *images)
    install(cluster, chosen(list(OPERATORS)))
    deploy.install(cluster, c5c3=True)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})


@contextmanager
def raised(cluster: Kubernetes, namespace: str, *optional: str) -> Generator[Stage]:
    """A namespace that is prepared for a cloud; whatever comes of it, nothing of it runs on the nodes afterwards."""
    with stage(cluster, namespace) as entered:
        try:
            prepared(cluster, namespace, *optional)
            yield entered
        finally:
            taken_down(cluster, namespace)


def taken_down(cluster: Kubernetes, namespace: str) -> None:
    """No pod of a namespace runs any more. Agents of a cloud that stays would hold the ports of the next one's."""
    # Guests of a deleted cloud run on, and the next one would not start a nova-compute beside them.
    with suppress(KubeError, SDKException, ClientException):
        conn = proof.connect(cluster, namespace)
        for server in conn.compute.servers():
            conn.compute.delete_server(server)
            conn.compute.wait_for_delete(server, interval=0.5, wait=60)
    planes = [kind for kind in PLANES if cluster.exists("crd", kind)]
    for kind in planes:
        cluster.kubectl("-n", namespace, "delete", kind, "--all", "--wait=false")
    # In order first, as users remove it; then all that is left.
    with suppress(KubeError):
        gone = lambda: not any(cluster.items(kind, "-n", namespace) for kind in planes)  # noqa: E731
        until(f"the cloud in {namespace} to be removed", gone, 240, 2, stages=())
    # Kubernetes deletes what is not a pod only after the pods of a namespace, and looks at these again after half of
    # their longest grace, which is nova-compute's half an hour: agents would keep their nodes for so long.
    with suppress(KubeError):
        cluster.kubectl("-n", namespace, "delete", "openstack", "--all", "--wait=false")
    cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
    until(f"the pods of {namespace} to end", lambda: not cluster.items("pods", "-n", namespace), 240, 2, stages=())


def ready(obj: Object) -> bool:
    """Whether its operator says that it is there as it is wanted now, by the rule of its kind."""
    status = obj.get("status", {})
    known = conditions(obj)
    told = {type_: each["status"] for type_, each in known.items()}
    if obj["apiVersion"].startswith("openstack.k-orc.cloud/"):
        seen = known.get("Progressing", {}).get("observedGeneration") == obj["metadata"]["generation"]
        return seen and (told["Progressing"], told.get("Available")) == ("False", "True")
    # mariadb-operator does not say which generation it speaks of.
    silent = obj["apiVersion"].startswith("k8s.mariadb.com/")
    current = silent or status.get("observedGeneration") == obj["metadata"]["generation"]
    wanted = _CLUSTER if obj["kind"] == "RabbitmqCluster" else ("Ready",)
    return current and all(told.get(type_) == "True" for type_ in wanted)


def applied(cluster: Kubernetes, wanted: list[Object], seconds: float = 240) -> None:
    """The objects are there and Ready, in their order."""
    for each in wanted:
        group, _, version = each["apiVersion"].partition("/")
        kind, name = f"{each['kind']}.{version}.{group}", each["metadata"]["name"]
        until(f"{kind}/{name} to be accepted", partial(_accepted, cluster, each), 30, 1)
        until(f"{kind}/{name} to be Ready", partial(_ready, cluster, kind, name), seconds, 1)


def _ready(cluster: Kubernetes, kind: str, name: str) -> bool:
    return ready(cluster.get(kind, name, "-n", NAMESPACE))


def _accepted(cluster: Kubernetes, obj: Object) -> bool:
    """The messaging topology operator's webhook reads Secrets from a cache that may not have them yet."""
    try:
        cluster.apply({**obj, "metadata": {**obj["metadata"], "namespace": NAMESPACE}})
    except KubeError as error:
        if "denied the request" not in str(error):
            raise
        return False
    return True


def secret(cluster: Kubernetes, name: str, values: dict[str, str]) -> None:
    """A Secret that operators of others watch."""
    labels = {"k8s.mariadb.com/watch": "", "rabbitmq.com/topology-operator": "true"}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values})


def says(cluster: Kubernetes, pod: str, container: str, script: str, stdin: str = "") -> str:
    """What a script in a pod prints. Passwords come on its standard input, not on a command line."""
    where = ("-n", NAMESPACE, "exec", "-i", pod, "-c", container)
    return cluster.kubectl(*where, "--", "sh", "-euc", script, stdin=stdin).strip()
