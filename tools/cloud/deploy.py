"""The operator and a control plane, brought into a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import yaml

from openstack_operator.kube import diagnose, judge
from openstack_operator.services.cloud_services import CLOUD_SERVICES, template_of
from openstack_operator.services.controlplane.model import CONTROL_PLANE

from ..localcluster.kubernetes import ROOT, KubeError, Kubernetes, module
from ..localcluster.registry_login import Login, with_pull_secret

OPERATOR_NAMESPACE = "openstack-operator"
BUILD = "OPERATOR_BUILD"
VERSION = "app.kubernetes.io/version"
RELEASES = "openstack-operator-releases"
RELEASE = "2025.1"
"""The release of OpenStack that a cloud has unless it names another."""

BESIDE = {"bind9": "designate", "pdns": "designate"}
"""Further images that only such a service runs, with its name."""
FEDERATION = "federation"
"""The image of the programs that run only if Keystone accepts users of other identity providers."""

Object = dict[str, Any]


def documents(path: Path) -> list[Object]:
    """Return the objects of a manifest. Raises KubeError for a file that is not one."""
    try:
        # The definitions are a megabyte, for which the parser written in Python takes seconds.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        objects = cast("list[Object | None]", list(yaml.load_all(path.read_text(), Loader=loader)))
    except (OSError, yaml.YAMLError) as error:
        raise KubeError(f"{path}: {error}") from None
    return [doc for doc in objects if doc]


def images(sample: Path, release: str = RELEASE) -> list[str]:
    """Return the images of this checkout that a sample in this release needs; those of Kolla come from their own
    registry.
    """
    spec = _plane(documents(sample), sample)["spec"]
    if spec.get("imageProfile") == "kolla":
        return ["operator"]
    optional = optional_services()
    enabled = {name for name in optional if spec.get(name, {}).get("enabled")} | {spec.get("storageBackend")}
    federated = spec.get("keystone", {}).get("federation", {}).get("enabled")
    enabled |= {image for image, service in BESIDE.items() if service in enabled}
    unused = {*optional, *BESIDE, FEDERATION} - enabled - ({FEDERATION} if federated else set())
    listed = json.loads(module("images", "list", f"--release={release}"))
    return [name for name in listed if name.removesuffix(f"-{release}") not in unused]


def optional_services() -> set[str]:
    """Return the fields of the services that a cloud runs only if they are enabled; images of them have these names."""
    fields = [template_of(service).field for service in CLOUD_SERVICES]
    return {field for field in fields if not getattr(CONTROL_PLANE.spec(), field).enabled}


def cabled(sample: Path) -> bool:
    """Return True if a sample's external network is a cable of the nodes, not an address on one of them."""
    bridge = _plane(documents(sample), sample)["spec"].get("ovn", {}).get("externalBridge", {})
    return bool(bridge.get("interface"))


def asks_for_c5c3(sample: Path) -> bool:
    """Return True if a sample has a kind of c5c3's groups, or a control plane that makes one, or if `C5C3=1` is set."""
    spec = _plane(documents(sample), sample)["spec"]
    groups = [doc["apiVersion"].rpartition("/")[0] for doc in documents(sample)]
    makes_one = any(spec.get(name, {}).get("enabled") for name in ("cortex", "tempest"))
    return makes_one or any(group.endswith("c5c3.io") for group in groups) or bool(os.environ.get("C5C3"))


def install(cluster: Kubernetes, replicas: int = 1, *, c5c3: bool = False, releases: Sequence[str] = ()) -> None:
    """Install the definitions (those of c5c3 only on request), least-privilege RBAC, the roles of users, the data of
    the default release and of `releases`, and the operator, and wait for it. Raises KubeError that says why its pods do
    not start.
    """
    folders = ("crds", "crds-c5c3") if c5c3 else ("crds",)
    paths = [path for folder in folders for path in sorted((ROOT / "deploy" / folder).glob("*.yaml"))]
    crds = [doc for path in paths for doc in documents(path)]
    # The API server takes in a definition after the other from each client; two keep two CPUs busy. What the Deployment
    # is made of is asked for meanwhile, and its pod starts while the last definitions are established.
    with ThreadPoolExecutor() as pool:
        objects = pool.submit(operator, cluster.registry, replicas, cluster.login, releases)
        shares = [crds[0::2], crds[1::2], access()]
        for share in [pool.submit(cluster.apply, *objs) for objs in shares]:
            share.result()
        cluster.apply(*objects.result())
        established = pool.submit(cluster.await_definitions, [crd["metadata"]["name"] for crd in crds], 60)
        _await_rollout(cluster)
        established.result()


def _await_rollout(cluster: Kubernetes) -> None:
    where = ("-n", OPERATOR_NAMESPACE)
    try:
        cluster.kubectl("rollout", "status", "deployment/openstack-operator", *where, "--timeout=120s", timeout=130)
    except KubeError:
        live = cluster.get("deployment", "openstack-operator", *where)
        pods = cluster.items("pods", "-l", "app.kubernetes.io/name=openstack-operator", *where)
        diagnosis = diagnose(live, judge(live), pods, _no_events, datetime.now(UTC))
        raise KubeError(f"the operator did not start within two minutes: {diagnosis.verdict.message}") from None


def _no_events(kind: str, name: str, uid: str) -> list[Object]:
    """Return no Events: the pods say enough by themselves."""
    return []


def operator(
    registry: str, replicas: int = 1, login: Login | None = None, releases: Sequence[str] = ()
) -> list[Object]:
    """Return deploy/operator.yaml, deploy/rbac.yaml and all optional roles with this checkout's image, from `registry`
    if set, which its pods pull with the login, and with release data.
    """
    deploy = ROOT / "deploy"
    paths = [deploy / "rbac.yaml", *sorted((deploy / "optional-roles").glob("*.yaml")), deploy / "operator.yaml"]
    manifests = [doc for path in paths for doc in documents(path)]
    manifests.sort(key=lambda doc: doc["kind"] != "Namespace")
    origin = [f"--registry={registry}"] if registry else []
    with ThreadPoolExecutor() as pool:
        variables = login.environment() if login else None
        listed = pool.submit(module, "images", "list", *origin, environment=variables)
        pinned = {
            f"{name}.yaml": pool.submit(module, "images", "release", name, *origin, environment=variables)
            for name in sorted({RELEASE, *releases})
        }
    image = json.loads(listed.result())["operator"]
    data = {name: text.result() for name, text in pinned.items()}
    for doc in manifests:
        if doc["kind"] == "Deployment":
            doc["spec"]["replicas"] = replicas
            (container,) = doc["spec"]["template"]["spec"]["containers"]
            container["image"] = image
            # Two images of the same version are told apart by their tags, which follow from what is in them.
            container["env"].append({"name": BUILD, "value": image.partition("@")[0].rpartition(":")[2]})
    if login:
        manifests = [with_pull_secret(doc) if doc["kind"] == "ServiceAccount" else doc for doc in manifests]
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RELEASES, "namespace": OPERATOR_NAMESPACE},
        "data": data,
    }
    # The Deployment comes last: its pods would wait for the ConfigMap in a back-off otherwise.
    return [
        *(doc for doc in manifests if doc["kind"] != "Deployment"),
        *([login.pull_secret(OPERATOR_NAMESPACE)] if login else []),
        config,
        *(d for d in manifests if d["kind"] == "Deployment"),
    ]


def access() -> list[Object]:
    """Return deploy/roles.yaml and deploy/admission.yaml: what users may do, and who may decide what runs on nodes."""
    return [doc for name in ("roles", "admission") for doc in documents(ROOT / "deploy" / f"{name}.yaml")]


def version(cluster: Kubernetes) -> str:
    """Return the version that the installed operator writes to statuses."""
    template = cluster.get("deployment", "openstack-operator", "-n", OPERATOR_NAMESPACE)["spec"]["template"]
    builds = [env["value"] for env in template["spec"]["containers"][0]["env"] if env["name"] == BUILD]
    return "+".join([template["metadata"]["labels"][VERSION], *builds])


def control_plane(
    cluster: Kubernetes,
    sample: Path,
    namespace: str | None = None,
    release: str = RELEASE,
    record: Path | None = None,
) -> Object:
    """Apply a sample, and return the control plane. It is exposed on a node's address, except in the user's own
    cluster, where the sample decides. It has this release, if that is not the default one. The file `record` gets what
    was applied.
    """
    objects = documents(sample)
    plane = _plane(objects, sample)
    if release != RELEASE:
        plane["spec"]["release"] = release
    if namespace:
        for doc in objects:
            doc["metadata"]["name" if doc["kind"] == "Namespace" else "namespace"] = namespace
    if cluster.kind != "existing" or "expose" not in plane["spec"]:
        # The host has no route to ClusterIPs, on purpose; a NodePort on the node's address it reaches.
        plane["spec"]["expose"] = {"type": "NodePort", "host": cluster.address()}
    _await_removal(cluster, plane["metadata"])
    if cluster.login:
        # Before any pod is made: Kubernetes gives none the Secret later.
        cluster.apply(*cluster.login.objects(plane["metadata"]["namespace"]))
    cluster.apply(*objects)
    if record:
        record.parent.mkdir(exist_ok=True)
        # For its owner alone: a sample of yours may have Secrets.
        record.touch(0o600)
        record.write_text(yaml.safe_dump_all(objects, sort_keys=False))
    return plane


def _plane(objects: list[Object], sample: Path) -> Object:
    for doc in objects:
        if doc["kind"] == "OpenStackControlPlane":
            doc.setdefault("spec", {})
            return doc
    raise KubeError(f"{sample}: holds no OpenStackControlPlane")


def _await_removal(cluster: Kubernetes, meta: Object) -> None:
    """Wait until an earlier cloud of that name is gone, if it is being deleted: what is applied would go with it."""
    where = ("openstackcontrolplane", meta["name"], "-n", meta["namespace"])
    live = cluster.kubectl("get", *where, "--ignore-not-found", "-o", "json")
    if live and json.loads(live)["metadata"].get("deletionTimestamp"):
        print(f"    {meta['namespace']}/{meta['name']} is being removed; waiting until it is gone")
        cluster.kubectl("wait", "--for=delete", "--timeout=300s", *where, timeout=310)
