"""What becomes of the manifests of operators of others, before anything is built or reached."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import tarfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from openstack_operator import pki
from tools.localcluster import archives
from tools.localcluster.build import BuildError
from tools.localcluster.kubernetes import KubeError, Kubernetes
from tools.operators import __main__ as command
from tools.operators import build, charts, crds, install, issuers, modules, operator_manifests
from tools.operators.catalog import BY_NAME, KINDS, OPERATORS, PUBLIC_ADDRESS, PUBLIC_DNS, Chart, Kinds, Module, chosen

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = pki.authority("drawn", "operators", NOW)
SERVING = pki.issue(AUTHORITY, pki.Request(common="webhooks", names=frozenset({"hook.toys.svc"})), "drawn", NOW)

OBJECTS: list[dict[str, Any]] = list(
    yaml.load_all(
        """
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: toys}
---
apiVersion: v1
kind: Namespace
metadata: {name: toys}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toys.example.org}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: own, namespace: toys}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: serving, namespace: toys}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: toys, namespace: toys}
spec:
  template:
    spec:
      containers:
        - name: manager
          image: registry.example.org/toys:latest
          command: [/manager]
          args: [--leader-elect]
          env:
            - {name: RELATED_IMAGE, value: registry.example.org/toy:1}
            - {name: OTHER, value: stays}
          resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "2"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: toys}
webhooks:
  - {name: one, clientConfig: {service: {name: hook, namespace: toys, path: /one}}}
  - {name: two, clientConfig: {service: {name: hook, namespace: toys, path: /two}}}
""",
        yaml.CSafeLoader,
    )
)
TOYS = operator_manifests.Program("localhost/toys:1")
ADAPTED = operator_manifests.adapted(
    OBJECTS, operator_manifests.Program("localhost/toys:1", {"RELATED_IMAGE": "localhost/toy:1"})
)


def only(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def container(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def test_nothing_of_cert_managers_is_applied() -> None:
    assert not [each for each in ADAPTED if each["apiVersion"].startswith("cert-manager.io")]
    assert len(ADAPTED) == len(OBJECTS) - 2


def test_a_namespace_is_there_before_what_is_in_it() -> None:
    assert ADAPTED[0]["kind"] == "Namespace"


def test_the_image_starts_its_own_program_with_the_arguments_of_the_manifest() -> None:
    found = container(ADAPTED)
    assert (found["image"], found["imagePullPolicy"]) == ("localhost/toys:1", "IfNotPresent")
    assert found["args"] == ["--leader-elect"]
    assert "command" not in found


def test_variables_take_the_place_of_those_of_the_same_name() -> None:
    env = {each["name"]: each["value"] for each in container(ADAPTED)["env"]}
    assert env == {"RELATED_IMAGE": "localhost/toy:1", "OTHER": "stays"}
    assert len(container(ADAPTED)["env"]) == 2


def test_an_idle_operator_asks_for_little_and_is_given_what_it_needs() -> None:
    assert container(ADAPTED)["resources"] == {"requests": {"cpu": "10m", "memory": "32Mi"}}


def test_webhooks_without_a_certificate_get_one_where_they_look_for_it() -> None:
    pod = only(ADAPTED, "Deployment")["spec"]["template"]["spec"]
    assert container(ADAPTED)["volumeMounts"] == [
        {"name": "webhook-server-cert", "mountPath": operator_manifests.CERTIFICATES, "readOnly": True}
    ]
    assert operator_manifests.mounted(ADAPTED) == [("toys", "webhook-server-cert")]
    assert len(pod["volumes"]) == 1


def test_a_certificate_that_is_mounted_already_is_not_mounted_again() -> None:
    again = operator_manifests.adapted(ADAPTED, TOYS)
    assert only(again, "Deployment")["spec"]["template"]["spec"]["volumes"] == [
        {"name": "webhook-server-cert", "secret": {"secretName": "webhook-server-cert"}}
    ]
    assert len(container(again)["volumeMounts"]) == 1


def test_operators_without_a_webhook_mount_no_certificate() -> None:
    plain = [each for each in OBJECTS if "webhooks" not in each]
    assert not operator_manifests.mounted(operator_manifests.adapted(plain, TOYS))


def test_the_certificate_bears_the_names_of_the_services() -> None:
    assert operator_manifests.hosts(OBJECTS) == {"hook.toys.svc", "hook.toys.svc.cluster.local"}


def test_webhooks_trust_who_signed_the_certificate_in_the_secret() -> None:
    found = operator_manifests.certified(ADAPTED, SERVING, AUTHORITY.cert)
    data = {name: base64.b64decode(text).decode() for name, text in only(found, "Secret")["data"].items()}
    bundles = [
        base64.b64decode(each["clientConfig"]["caBundle"]).decode()
        for each in only(found, "ValidatingWebhookConfiguration")["webhooks"]
    ]
    wanted = pki.Request(common="webhooks", names=frozenset({"hook.toys.svc"}))
    assert len(bundles) == 2
    assert not pki.fault(pki.Pair(data["tls.key"], data["tls.crt"]), wanted, NOW, authorities=bundles)
    paths = [
        each["clientConfig"]["service"]["path"] for each in only(found, "ValidatingWebhookConfiguration")["webhooks"]
    ]
    assert paths == ["/one", "/two"]


@dataclass(frozen=True)
class Holding(Kubernetes):
    """A cluster with these Secrets."""

    secrets: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        assert arguments == ("secrets", "--namespace=toys", "--field-selector=metadata.name=webhook-server-cert")
        return self.secrets


def drawn(held: list[dict[str, Any]]) -> dict[str, Any]:
    return only(install.certified(Holding("embedded", None, "", held), ADAPTED), "Secret")


def test_a_certificate_that_is_there_stays_while_it_is_good() -> None:
    first = drawn([])
    assert drawn([first]) == first, "the operator has read it, and reads another one late"
    assert drawn([]) != first, "nobody keeps the authority's key"
    assert drawn([only(operator_manifests.certified(ADAPTED, SERVING, AUTHORITY.cert), "Secret")]) != first, (
        "it lacks a name"
    )


def test_clusters_of_the_users_own_are_left_alone() -> None:
    for act in (install.install, install.remove):
        with pytest.raises(KubeError, match="in one of your own, do it as their documentation says"):
            act(Holding("existing", None), [])


def test_webhooks_go_first_and_kinds_stay() -> None:
    going = [each["kind"] for each in operator_manifests.installed(ADAPTED)]
    assert going == ["ValidatingWebhookConfiguration", "Service", "Deployment"]


def test_an_operator_that_there_is_not_is_named_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["build", "percona"]) == 1
    assert "no operator percona; choose from mariadb-operator" in capsys.readouterr().err
    assert [each.name for each in chosen(["k-orc"])] == ["k-orc"]
    assert chosen([]) == list(OPERATORS.values()), "not those that install operators"


def test_each_operator_has_its_own_tag_that_follows_its_version() -> None:
    references = [build.reference(each) for each in BY_NAME.values()]
    assert len(set(references)) == len(references)
    assert all(
        image.startswith(f"localhost/operators/{name}:") for name, image in zip(BY_NAME, references, strict=True)
    )


def test_variables_and_arguments_name_images_that_there_are() -> None:
    for operator in BY_NAME.values():
        named = {"operator": "it", **dict.fromkeys((*operator.servers, *operator.starts), "server")}
        words = [word for words in operator.arguments.values() for word in words]
        assert all(value.format(**named) for value in (*operator.environment.values(), *words))
        if isinstance(operator.manifests, Chart):
            assert charts.valued(operator.manifests.values, {"operator": "it"})


def test_started_and_needed_operators_exist() -> None:
    for operator in BY_NAME.values():
        assert set(operator.needs) <= set(KINDS)
        for name in operator.starts:
            started = BY_NAME[name]
            assert not (started.manifests or started.extra_files or started.own_files), "it only has an image"


def test_images_that_an_operator_starts_are_loaded_with_its_own() -> None:
    named = [each.name for each in install.started([BY_NAME["prometheus-operator"]])]
    assert named == ["prometheus-operator", "prometheus-config-reloader", "prometheus"]
    assert [each.name for each in install.started(BY_NAME.values())] == list(BY_NAME)


def test_our_files_belong_to_an_operator_and_our_objects_exist() -> None:
    assert {path.name for path in build.SOURCES.iterdir()} <= set(BY_NAME)
    named = {name for operator in BY_NAME.values() for name in operator.own_files}
    assert {path.name for path in (build.SOURCES.parent / "objects").iterdir()} == named


def test_an_operator_that_is_changed_here_has_another_tag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pebble, k_orc = BY_NAME["pebble"], BY_NAME["k-orc"]
    before = build.reference(pebble), build.reference(k_orc)
    (tmp_path / "pebble").mkdir()
    (tmp_path / "pebble" / "main.go").write_text("package main\n")
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    assert build.reference(pebble) != before[0]
    assert build.reference(k_orc) == before[1]


def test_a_container_starts_the_program_of_its_name_with_further_arguments() -> None:
    program = operator_manifests.Program(
        "toys:1", commands={"manager": ["/toys", "play"]}, arguments={"manager": ["--loud"]}
    )
    found = container(operator_manifests.adapted(OBJECTS, program))
    assert (found["command"], found["args"]) == (["/toys", "play"], ["--leader-elect", "--loud"])


def test_operators_with_their_own_certificates_mount_none_of_ours() -> None:
    assert not operator_manifests.mounted(operator_manifests.adapted(OBJECTS, TOYS, mount=False))


def test_values_of_charts_name_images() -> None:
    values = {"image": "{operator}", "replicas": 2, "args": ["--image={operator}", {"on": True}]}
    wanted = {"image": "toys:1", "replicas": 2, "args": ["--image=toys:1", {"on": True}]}
    assert charts.valued(values, {"operator": "toys:1"}) == wanted


def test_addresses_of_the_public_internet_are_those_of_services() -> None:
    """cert-manager asks the DNS, and the DNS says of each name that it is at the Ingress controller."""
    folder = build.SOURCES.parent / "objects"
    objects = [each for path in folder.glob("*.yaml") for each in crds.documents(path.read_text())]
    addresses = {
        each["metadata"]["name"]: each["spec"].get("clusterIP") for each in objects if each["kind"] == "Service"
    }
    assert (addresses["public-dns"], addresses["traefik"]) == (PUBLIC_DNS, PUBLIC_ADDRESS)
    pods = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]
    arguments = [word for pod in pods for each in pod["containers"] for word in each["args"]]
    assert f"-address={PUBLIC_ADDRESS}" in arguments


def test_a_private_issuer_has_an_authority_of_its_own() -> None:
    root, authority, issuer = issuers.private("company")
    assert root["spec"] == {"selfSigned": {}}
    assert authority["spec"]["issuerRef"]["name"] == root["metadata"]["name"]
    assert authority["spec"]["isCA"]
    assert issuer["metadata"]["name"] == "company"
    assert issuer["spec"]["ca"]["secretName"] == authority["spec"]["secretName"]


def test_json_objects_in_the_output_of_go_are_separated() -> None:
    assert modules.answers('{"Path": "a"}\n{\n\t"Path": "b"\n}\n') == [{"Path": "a"}, {"Path": "b"}]
    assert modules.answers("") == []


def test_a_module_with_other_content_is_refused() -> None:
    module = Module("example.org/toys", "v1.2.3", "h1:pinned=")
    assert modules.checked(module, {"Sum": "h1:pinned=", "Dir": "/there"}) == Path("/there")
    with pytest.raises(BuildError, match="its content is h1:other=, and h1:pinned= is pinned"):
        modules.checked(module, {"Sum": "h1:other=", "Dir": "/there"})
    with pytest.raises(BuildError, match=r"example.org/toys@v1.2.3: 403 Forbidden"):
        modules.checked(module, {"Error": "403 Forbidden"})


def test_definitions_are_found_among_other_documents(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "all.yaml").write_text(yaml.safe_dump_all(OBJECTS))
    (path,) = crds.paths(tmp_path, Kinds(KINDS["rook-newest"].module, ("config/*.yaml",)))
    assert [each["metadata"]["name"] for each in crds.load(path)] == ["toys.example.org"]


def test_an_equals_sign_is_a_text() -> None:
    assert crds.documents("enum: ['!=', =, =~]")[0] == {"enum": ["!=", "=", "=~"]}


def test_kinds_of_nobody_are_refused() -> None:
    with pytest.raises(ValueError, match="no kinds of percona; choose from mariadb-operator"):
        crds.definitions("percona")


def test_an_image_says_as_whom_it_runs_where_it_is_told(tmp_path: Path) -> None:
    program = tmp_path / "toys"
    program.write_bytes(b"program")
    archives.write(tmp_path / "image.tar", "localhost/toys:1", [program], user="65532:65532")
    assert b'"User":"65532:65532"' in (tmp_path / "image.tar").read_bytes()
    archives.write(tmp_path / "plain.tar", "localhost/toys:1", [program])
    assert b'"User"' not in (tmp_path / "plain.tar").read_bytes()


def test_an_image_stands_on_another_one(tmp_path: Path) -> None:
    """Layers of the one below come first, and all that it says of itself holds, but what is started."""
    below, program = tmp_path / "below", tmp_path / "toys"
    below.write_bytes(b"below")
    program.write_bytes(b"program")
    archives.write(tmp_path / "base.tar", "localhost/base:1", [below], user="7:7", folder="bin/")
    archives.stack(tmp_path / "base.tar", tmp_path / "image.tar", "localhost/toys:1", [program], folder="usr/bin/")
    (base, base_config), (made, config) = (read_image(tmp_path / name) for name in ("base.tar", "image.tar"))
    assert archives.held_by(tmp_path / "image.tar").keys() == {"localhost/toys:1"}
    assert made[:1] == base
    assert [name for layer in made for name in layer] == ["bin/below", "usr/bin/toys"]
    assert config["config"] == {**base_config["config"], "Entrypoint": ["/usr/bin/toys"]}
    assert config["rootfs"]["diff_ids"][:1] == base_config["rootfs"]["diff_ids"]
    assert len(config["rootfs"]["diff_ids"]) == len(config["history"]) == 2


def read_image(archive: Path) -> tuple[list[list[str]], dict[str, Any]]:
    """Names of the files in each layer, and the configuration."""
    with tarfile.open(archive) as tar:

        def blob(digest: str) -> bytes:
            file = tar.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}")
            assert file
            content = file.read()
            assert f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
            return content

        index = tar.extractfile("index.json")
        assert index
        manifest = json.loads(blob(json.load(index)["manifests"][0]["digest"]))
        return [names(blob(each["digest"])) for each in manifest["layers"]], json.loads(
            blob(manifest["config"]["digest"])
        )


def names(layer: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        return tar.getnames()


def test_a_chart_uses_neighbouring_charts_and_drops_others(tmp_path: Path) -> None:
    module, rendering = tmp_path / "module", tmp_path / "helm"
    (module / "toys" / "templates").mkdir(parents=True)
    (module / "library").mkdir()
    dependencies = [
        {"name": "library", "version": "0.0.1", "repository": "file://../library"},
        {"name": "far", "version": "1", "repository": "https://charts.example.org"},
    ]
    (module / "toys" / "Chart.yaml").write_text(yaml.safe_dump({"name": "toys", "dependencies": dependencies}))
    (module / "library" / "Chart.yaml").write_text("name: library")
    (module / "library" / "Chart.yaml").chmod(0o444)
    shutil.copytree(module / "toys", rendering)
    charts.add_local_dependencies(rendering, module / "toys")
    assert yaml.load((rendering / "Chart.yaml").read_text(), yaml.CSafeLoader) == {"name": "toys"}
    assert [path.name for path in (rendering / "charts").iterdir()] == ["library"]
    assert (rendering / "charts" / "library" / "Chart.yaml").read_text() == "name: library"


def test_checksum_database_is_asked_except_for_excluded_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONOSUMDB", "example.org/own")
    listed, unlisted = (
        Module("example.org/a", "v1.0.0", "h1:a"),
        Module("example.org/b", "v1.0.0", "h1:b", unlisted=True),
    )
    assert modules.unlisted([listed, unlisted]) == "example.org/own,example.org/b"
    monkeypatch.delenv("GONOSUMDB")
    assert modules.unlisted([listed]) == ""


def test_rook_starts_no_driver_and_takes_disks_that_are_files() -> None:
    """Without a driver, no image is needed but those of this repository."""
    chart = BY_NAME["rook"].manifests
    assert isinstance(chart, Chart)
    assert chart.values["allowLoopDevices"] is True
    assert chart.values["csi"] == {"enableRbdDriver": False, "enableCephfsDriver": False, "disableCsiDriver": "true"}


class ShyCluster(Kubernetes):
    """A cluster that says nothing of a definition at first."""

    errors: ClassVar[list[str]] = []

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        del stdin, timeout
        assert arguments == ("wait", "--for=condition=Established", "--timeout=60s", "crd/novas.openstack.k8s.io")
        if self.errors:
            raise KubeError(self.errors.pop())
        return ""


def test_definitions_without_conditions_are_waited_for() -> None:
    silent = "error: .status.conditions accessor error: <nil> is of the type <nil>, expected []interface{}"
    ShyCluster.errors[:] = [silent, silent]
    ShyCluster("existing", None).await_definitions(["novas.openstack.k8s.io"], 60)
    assert ShyCluster.errors == []
    ShyCluster.errors[:] = ["timed out waiting for the condition"]
    with pytest.raises(KubeError, match="timed out"):
        ShyCluster("existing", None).await_definitions(["novas.openstack.k8s.io"], 60)
