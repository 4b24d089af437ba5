"""What `make cloud` says and does before anything is built; a cluster is never reached from here."""

from __future__ import annotations

import argparse
import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from images import catalog
from images.registry import prefix
from openstack_operator import __version__
from tests.fields import OFF_BY_DEFAULT
from tools.cloud import __main__ as command
from tools.cloud import deploy, own, view
from tools.cloud.session import APPLIED, MINIMAL, Session
from tools.localcluster.kubernetes import KubeError, Kubernetes, existing_cluster
from tools.localcluster.registry_login import PULL_SECRET, Login

REGISTRY = "registry.example.org:5000/team/cloud"


@dataclass(frozen=True)
class Recorded(Kubernetes):
    """A cluster with one node that remembers what is applied to it."""

    applied: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        return ""

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        addresses = [{"type": "InternalIP", "address": "10.0.0.7"}, {"type": "Hostname", "address": "one"}]
        return [{"metadata": {"name": "one"}, "status": {"addresses": addresses}}] if arguments[0] == "nodes" else []

    def apply(self, *documents: dict[str, Any]) -> None:
        self.applied.extend(documents)


def cluster(kind: str = "existing", registry: str = "") -> Recorded:
    return Recorded(kind, None, registry)


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return tmp_path / "sample.yaml"


def write(path: Path, spec: dict[str, Any]) -> Path:
    meta = {"name": "cloud", "namespace": "openstack"}
    path.write_text(yaml.safe_dump({"kind": "OpenStackControlPlane", "metadata": meta, "spec": spec}))
    return path


@pytest.fixture
def users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/somebody/.kube/config")
    monkeypatch.delenv(own.REGISTRY, raising=False)
    # Nothing may be run: neither kubectl nor a builder is to be found.
    monkeypatch.setenv("PATH", "/nonexistent")


@pytest.mark.usefixtures("users_own")
def test_a_cluster_of_ones_own_needs_a_registry_before_anything_is_done() -> None:
    with pytest.raises(KubeError) as refused:
        own.checked(MINIMAL, ["keystone", "operator"])
    assert "Nothing was done" in str(refused.value)
    for said in (own.REGISTRY, "/home/somebody/.kube/config", "keystone, operator", "imageProfile: kolla"):
        assert said in str(refused.value)


@pytest.mark.usefixtures("users_own")
def test_a_registry_that_is_none_is_refused_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(own.REGISTRY, "https://registry.example.org")
    with pytest.raises(KubeError, match=f"{own.REGISTRY}: 'https://registry.example.org' is no registry"):
        own.checked(MINIMAL, ["operator"])


@pytest.mark.usefixtures("users_own")
def test_a_cluster_of_ones_own_needs_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(own.REGISTRY, REGISTRY)
    with pytest.raises(KubeError, match="kubectl is not in PATH"):
        own.checked(MINIMAL, ["operator"])


@pytest.mark.usefixtures("users_own")
def test_a_cluster_of_ones_own_is_never_taken_down() -> None:
    with pytest.raises(KubeError, match="left as it is"):
        command.down()


def test_the_end_says_how_to_change_the_cloud(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(sample.parent))
    (sample.parent / "kubectl").touch(mode=0o755)
    text = command.next_steps({"floating_ip": "172.24.4.10"}, Path("/clusters/kubeconfig"), sample)
    assert "answers on 172.24.4.10" in text
    assert text.index("export KUBECONFIG=/clusters/kubeconfig") < text.index("kubectl ")
    assert f"made from {sample}." in text
    steps = [f"openstack-operator plan -f {APPLIED}", f"kubectl apply --server-side -f {APPLIED}", "wait -n openstack"]
    assert [text.index(step) for step in steps] == sorted(text.index(step) for step in steps)
    assert "`make cloud` applies the sample again" in text


def test_a_machine_without_kubectl_is_told_of_the_one_that_is_there(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(sample.parent))
    text = command.next_steps({"floating_ip": "172.24.4.10"}, None, sample)
    assert f"-m tools.localcluster kubectl apply --server-side -f {APPLIED}" in text


def test_images_of_services_off_by_default_wait_until_these_are_enabled() -> None:
    assert {*OFF_BY_DEFAULT, "cinder", "etcd", "valkey"} <= deploy.optional_services()
    assert not deploy.optional_services() & {"keystone", "nova", "mariadb"}


def test_kolla_needs_only_the_operator_from_here(sample: Path) -> None:
    assert deploy.images(write(sample, {"imageProfile": "kolla"})) == ["operator"]
    waiting = {*deploy.optional_services(), *deploy.BESIDE, deploy.FEDERATION}
    needed = [name for name in catalog.deployed() if name not in waiting]
    assert deploy.images(MINIMAL) == needed
    federated = deploy.images(write(sample, {"keystone": {"federation": {"enabled": True}}}))
    assert sorted(federated) == sorted([*needed, deploy.FEDERATION])
    assert deploy.images(write(sample, {"etcd": {"enabled": True}})) == [
        name for name in catalog.deployed() if name in {*needed, "etcd"}
    ]


def test_an_invalid_sample_is_refused(sample: Path) -> None:
    for content, said in (("kind: Namespace", "no OpenStackControlPlane"), ("a: [", "sample.yaml: while parsing")):
        sample.write_text(content)
        with pytest.raises(KubeError, match=said):
            deploy.images(sample)
    with pytest.raises(KubeError, match="No such file"):
        deploy.images(sample.with_name("missing.yaml"))


def test_images_that_were_loaded_keep_their_names() -> None:
    documents = deploy.operator("")
    release = next(doc["data"]["2025.1.yaml"] for doc in documents if doc["metadata"]["name"] == deploy.RELEASES)
    assert catalog.reference("nova") in release


@pytest.fixture
def login(tmp_path: Path) -> Login:
    (tmp_path / "auth.json").write_text('{"auths": {}}')
    return Login(tmp_path / "auth.json", tmp_path / "ca.crt")


@pytest.mark.usefixtures("users_own")
def test_a_registry_of_this_machine_is_for_its_own_cluster() -> None:
    with pytest.raises(KubeError, match=f"/home/somebody/.kube/config.*set {own.REGISTRY} .* Nothing was done"):
        Session.start(MINIMAL, pulls=True)


def test_the_operator_pulls_with_the_login(login: Login) -> None:
    documents = deploy.operator("", login=login)
    kinds = [doc["kind"] for doc in documents]
    secret, account = (documents[kinds.index(kind)] for kind in ("Secret", "ServiceAccount"))
    assert secret["metadata"] == {"name": PULL_SECRET, "namespace": deploy.OPERATOR_NAMESPACE}
    assert base64.b64decode(secret["data"][".dockerconfigjson"]) == login.file.read_bytes()
    assert account["metadata"]["name"] == "openstack-operator"
    assert account["imagePullSecrets"] == [{"name": PULL_SECRET}]
    # Its pod would wait for the Secret otherwise.
    assert kinds.index("Secret") < kinds.index("Deployment")


def test_pods_of_a_cloud_pull_with_the_login_from_the_first_on(sample: Path, login: Login) -> None:
    taken = Recorded("embedded", None, REGISTRY, login=login)
    deploy.control_plane(taken, write(sample, {}))
    assert [doc["kind"] for doc in taken.applied] == ["Namespace", "Secret", "ServiceAccount", "OpenStackControlPlane"]
    assert {doc["metadata"].get("namespace") for doc in taken.applied[1:]} == {"openstack"}
    assert taken.applied[2]["metadata"]["name"] == "default"
    assert taken.applied[2]["imagePullSecrets"] == [{"name": PULL_SECRET}]


def test_without_a_login_of_ours_accounts_stay_as_they_are(sample: Path) -> None:
    taken = cluster()
    deploy.control_plane(taken, write(sample, {}))
    assert [doc["kind"] for doc in taken.applied] == ["OpenStackControlPlane"]
    assert not [doc for doc in deploy.operator("") if "imagePullSecrets" in doc or doc["kind"] == "Secret"]


def test_no_command_line_has_the_password(login: Login) -> None:
    """Commands get the name of a file, in a variable: every user of a machine reads the command lines of others."""
    (login.file).write_text("the-password")
    assert "the-password" not in repr([login, login.environment()])
    assert login.environment() == {"REGISTRY_AUTH_FILE": str(login.file), "SSL_CERT_FILE": str(login.authority)}


@dataclass(frozen=True)
class Installed(Kubernetes):
    """A cluster that has what `deploy` would bring into it."""

    def get(self, *arguments: str) -> dict[str, Any]:
        assert arguments == ("deployment", "openstack-operator", "-n", deploy.OPERATOR_NAMESPACE)
        return next(doc for doc in deploy.operator("") if doc["kind"] == "Deployment")


def test_the_operator_is_known_by_its_version_and_its_image() -> None:
    assert deploy.version(Installed("embedded", None)) == f"{__version__}+{catalog.tag('operator')}"


@dataclass(frozen=True)
class Unpullable(Installed):
    """A cluster in which the operator's image is not to be had."""

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        if "rollout" in arguments:
            raise KubeError("timed out waiting for the condition")
        return ""

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        assert arguments[0] == "pods"
        waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "operator:1"'}
        container = {"name": "operator", "image": "operator:1", "state": {"waiting": waiting}}
        status = {"phase": "Pending", "containerStatuses": [container]}
        spec = {"nodeName": "node1", "containers": [{"name": "operator", "image": "operator:1"}]}
        return [{"metadata": {"name": "openstack-operator-x", "uid": "1"}, "spec": spec, "status": status}]


@pytest.mark.seconds
def test_an_operator_that_does_not_start_is_told_with_the_reason() -> None:
    with pytest.raises(
        KubeError, match=r"did not start .*: openstack-operator: .* pod openstack-operator-x .*operator:1"
    ):
        deploy.install(Unpullable("embedded", None))


@pytest.mark.parametrize(
    ("written", "version", "is_ready"),
    [("0.1.0+new", "0.1.0+new", True), ("0.1.0+old", "0.1.0+new", False), (None, "0.1.0+new", False), (None, "", True)],
)
def test_ready_is_the_word_of_the_operator_that_is_asked_for(written: str | None, version: str, is_ready: bool) -> None:
    condition = {"type": "Ready", "status": "True", "observedGeneration": 2}
    plane = {"metadata": {"generation": 2}, "status": {"conditions": [condition], "operatorVersion": written}}
    assert view.ready(plane, version) is is_ready
    assert not view.ready({**plane, "metadata": {"generation": 3}}, version)


NODE_PORT = {"type": "NodePort", "host": "10.0.0.7"}
LOAD_BALANCER = {"type": "LoadBalancer"}


@pytest.mark.parametrize(
    ("kind", "wanted", "got"),
    [
        ("existing", None, NODE_PORT),
        ("existing", LOAD_BALANCER, LOAD_BALANCER),
        ("embedded", None, NODE_PORT),
        ("embedded", LOAD_BALANCER, NODE_PORT),
    ],
)
def test_apis_are_exposed_where_the_proof_reaches_them(
    kind: str, wanted: dict[str, str] | None, got: dict[str, str], sample: Path
) -> None:
    target, record = cluster(kind), sample.with_name("applied.yaml")
    plane = deploy.control_plane(target, write(sample, {"expose": wanted} if wanted else {}), record=record)
    assert target.applied == [plane]
    assert deploy.documents(record) == [plane]
    assert plane["spec"]["expose"] == got


@pytest.mark.parametrize("text", ["registry.example.org", "localhost:5000/a/b-c", "127.0.0.1:5000/a_b/", "team/cloud"])
def test_a_registry_is_host_port_and_path(text: str) -> None:
    assert prefix(text) == text.rstrip("/")


@pytest.mark.parametrize(
    "text", ["", "/", "https://registry.example.org", "Registry/x", "a//b", "a:b", "a/b:tag", "-x"]
)
def test_an_invalid_registry_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="HOST"):
        prefix(text)


def test_proof_without_a_cluster_says_how_to_start_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("OPENSTACK_OPERATOR_STATE", str(tmp_path))
    monkeypatch.setenv("OPENSTACK_OPERATOR_CACHE", str(tmp_path / "cache"))
    with pytest.raises(KubeError, match="no cluster runs on this machine; `make cloud` starts one"):
        existing_cluster()
    path = tmp_path / "openstack" / "kubeconfig"
    path.parent.mkdir()
    path.write_text("left from before a reboot")
    with pytest.raises(KubeError, match=r"does not answer; `make cloud` starts it anew\n.*is not built"):
        existing_cluster()
