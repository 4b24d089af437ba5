"""What users add to pods: annotations, labels, sizes of side containers, variables and a proxy."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.api import destinations
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import Object, Permissions, Release, SpecError
from openstack_operator.registry import ACTUATORS, EXTERNAL_KINDS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import plan as cloud
from openstack_operator.services.glance.model import GLANCE, GlanceSpec
from openstack_operator.services.glance.service import plan as glance
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan as keystone
from openstack_operator.testing import context
from openstack_operator.yaml_text import load
from tests.unit.services.test_front import CONTRACTS, objects
from tests.unit.services.test_front import planned as encrypted

ROOT = Path(__file__).parent.parent.parent.parent
PROXY = "http://proxy.example.org:3128"
NO_MESH = {"sidecar.istio.io/inject": "false"}


def templates(found: Any) -> Iterator[tuple[str, Object]]:
    """The pod templates of objects, by kind and name."""
    for obj in found:
        spec = obj["spec"] if obj["kind"] != "CronJob" else obj["spec"]["jobTemplate"]["spec"]
        yield f"{obj['kind']}/{obj['metadata']['name']}", spec["template"]


def pods(found: Any) -> dict[str, Object]:
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")
    return dict(templates(obj for obj in found if obj["kind"] in kinds))


def whole_cloud(spec: dict[str, Any]) -> dict[str, Object]:
    """The pods of a cloud with many services, by name."""
    *_, manifest = load(ROOT / "deploy/samples/controlplane_full.yaml")
    manifest["spec"] |= spec
    served = [kind.handle for kind in EXTERNAL_KINDS]
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"), served=served)
    return pods(obj for planned in paper.render([manifest]) for obj in planned.objects)


def made(release: Release, spec: dict[str, Any], **changes: Any) -> dict[str, Object]:
    ctx = context(KEYSTONE, spec, release=release, published=CONTRACTS, **changes)
    return pods(objects(keystone(ctx)).values())


def env_of(template: Object, name: str = "main") -> dict[str, Any]:
    [container] = [each for each in template["spec"]["containers"] if each["name"] == name]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container.get("env", ())}


def is_root_on_node(template: Object) -> bool:
    text = str(template)
    return any(sign in text for sign in ("'privileged': True", "'hostPath'", "'hostNetwork': True"))


# Annotations and labels


def test_each_pod_has_them_beside_the_operators_own(release: Release) -> None:
    plain, allowed = made(release, {}), Permissions(pod_metadata=("example.org/team",))
    extra = {"podAnnotations": NO_MESH, "podLabels": {"example.org/team": "cloud"}}
    found = made(release, extra, permissions=allowed)
    assert len(found) == len(plain) > 2
    before = {tuple(sorted(each["metadata"]["labels"].items())) for each in plain.values()}
    for template in found.values():
        metadata = template["metadata"]
        assert NO_MESH.items() <= metadata["annotations"].items()
        assert metadata["labels"].pop("example.org/team") == "cloud"
        assert tuple(sorted(metadata["labels"].items())) in before


@pytest.mark.parametrize(
    "name",
    [
        "openstack.k8s.io/config-digest",
        "openstack.k8s.io/kind",
        "app.kubernetes.io/instance",
        "app.kubernetes.io/anything",
        "keystone.openstack.c5c3.io/x",
        "not a name",
        "-x",
        "",
    ],
)
@pytest.mark.parametrize("field", ["podAnnotations", "podLabels"])
@pytest.mark.security
def test_names_of_the_operator_are_refused_by_name(release: Release, field: str, name: str) -> None:
    """Services, NetworkPolicies and disruption budgets of all services select pods by them."""
    with pytest.raises(SpecError) as refused:
        made(release, {field: {name: "x"}}, permissions=Permissions(pod_metadata=("*",)))
    assert refused.value.path == f"spec.{field}.{name}"


@pytest.mark.parametrize("name", ["pod-template-hash", "job-name", "batch.kubernetes.io/job-name", "controller-uid"])
@pytest.mark.security
def test_labels_of_controllers_are_refused(release: Release, name: str) -> None:
    with pytest.raises(SpecError, match="sets this label itself"):
        made(release, {"podLabels": {name: "x"}}, permissions=Permissions(pod_metadata=("*",)))


def test_a_label_is_one(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec\.podLabels\.team: not a value of a label"):
        made(release, {"podLabels": {"team": "a b"}}, permissions=Permissions(pod_metadata=("*",)))


@pytest.mark.parametrize(
    "name",
    [
        "container.apparmor.security.beta.kubernetes.io/main",
        "seccomp.security.alpha.kubernetes.io/pod",
        "container.seccomp.security.alpha.kubernetes.io/main",
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "io.kubernetes.cri-o.Devices",
        "io.katacontainers.config.hypervisor.path",
        "run.oci.handler",
        "org.systemd.property.DeviceAllow",
        "cdi.k8s.io/gpu",
        "vendor.cdi.k8s.io/gpu",
    ],
)
@pytest.mark.security
def test_annotations_that_lift_confinement_are_always_refused(release: Release, name: str) -> None:
    with pytest.raises(SpecError, match=r"the rights of a container on its node; remove it"):
        made(release, {"podAnnotations": {name: "unconfined"}}, permissions=Permissions(pod_metadata=("*",)))


INJECTING = {
    "sidecar.istio.io/inject": "true",
    "sidecar.istio.io/userVolume": "[]",
    "vault.hashicorp.com/agent-inject": "true",
    "k8s.v1.cni.cncf.io/networks": "storage",
    "pre.hook.backup.velero.io/command": "sh",
    "example.org/anything": "x",
}


@pytest.mark.parametrize(("name", "value"), INJECTING.items())
@pytest.mark.parametrize("field", ["podAnnotations", "podLabels"])
@pytest.mark.security
def test_metadata_that_webhooks_obey_needs_a_permission(release: Release, field: str, name: str, value: str) -> None:
    if field == "podLabels":
        value = "true"
    with pytest.raises(SpecError, match=rf"spec\.{field}\..*--pod-metadata 'openstack={name}'"):
        made(release, {field: {name: value}}, permissions=Permissions())
    allowed = Permissions(pod_metadata=(f"openstack={name}",))
    assert all(
        template["metadata"][field.removeprefix("pod").lower()][name] == value
        for template in made(release, {field: {name: value}}, permissions=allowed).values()
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sidecar.istio.io/inject", "false"),
        ("linkerd.io/inject", "disabled"),
        ("vault.hashicorp.com/agent-inject", "false"),
        ("prometheus.io/scrape", "false"),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"),
        ("backup.velero.io/backup-volumes", "data"),
        ("team", "cloud"),
    ],
)
def test_every_user_may_write_harmless_annotations(release: Release, name: str, value: str) -> None:
    found = made(release, {"podAnnotations": {name: value}}, permissions=Permissions())
    assert all(template["metadata"]["annotations"][name] == value for template in found.values())


def test_a_cloud_adds_them_to_each_of_its_services(release: Release) -> None:
    spec = {"podAnnotations": {"a": "cloud", "b": "cloud"}, "glance": {"podAnnotations": {"b": "glance"}}}
    found = objects(cloud(context(CONTROL_PLANE, spec, release=release)))
    assert found["Glance", "glance"]["spec"]["podAnnotations"] == {"a": "cloud", "b": "glance"}
    assert found["MariaDB", "mariadb"]["spec"]["podAnnotations"] == {"a": "cloud", "b": "cloud"}


TEAM = {"example.org/team": "cloud"}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        pytest.param("Cortex", {}, marks=pytest.mark.proves("Cortex", "spec.podAnnotations", "spec.podLabels")),
        pytest.param(
            "Tempest",
            {"schedule": "0 2 * * *"},
            marks=pytest.mark.proves("Tempest", "spec.podAnnotations", "spec.podLabels"),
        ),
    ],
)
def test_kinds_that_c5c3_alone_has_add_them(kind: str, spec: dict[str, Any]) -> None:
    api_version = next(each.resource.api_version for each in SERVICES if each.resource.kind == kind)
    allowed = Permissions(pod_metadata=("openstack=example.org/team",))
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"), permissions=allowed)
    manifest: Object = {"apiVersion": api_version, "kind": kind, "metadata": {"name": kind.lower()}}

    def found(more: dict[str, Any]) -> dict[str, Object]:
        made = paper.render([{**manifest, "spec": {**spec, **more}}], "openstack")
        return pods(obj for planned in made for obj in planned.objects)

    extended = found({"podAnnotations": NO_MESH, "podLabels": TEAM})
    assert extended
    for name, template in found({}).items():
        before, after = template["metadata"], extended[name]["metadata"]
        assert after["annotations"] == {**before.get("annotations", {}), **NO_MESH}
        assert after["labels"] == {**before["labels"], **TEAM}


@pytest.mark.security
@pytest.mark.seconds
def test_pods_that_are_root_on_nodes_get_no_pod_extras() -> None:
    """A webhook that obeys an annotation, or a variable that a loader obeys, would decide what is root on nodes."""
    extra = {"podAnnotations": {"mark": "it"}, "defaultResources": {"limits": {"cpu": "77m"}}}
    found = whole_cloud({**extra, "proxy": {"httpsProxy": PROXY}})
    on_nodes = {name for name, template in found.items() if is_root_on_node(template)}
    assert any("compute" in name for name in on_nodes)
    marked = {name for name, template in found.items() if (template["metadata"].get("annotations") or {}).get("mark")}
    assert marked == found.keys() - on_nodes
    assert {name for name, template in found.items() if PROXY in str(template)} & on_nodes == set()


# Sizes of side containers


def test_each_container_beside_the_program_has_them(release: Release) -> None:
    limits, own = {"cpu": "150m", "memory": "96Mi"}, {"limits": {"cpu": "2"}}
    spec: dict[str, Any] = {"resources": own, "defaultResources": {"limits": limits}, "monitoring": {"enabled": True}}
    found = pods(objects(encrypted(release, KEYSTONE, keystone, **spec)).values())
    [main, *beside] = found["Deployment/keystone-api"]["spec"]["containers"]
    assert main["resources"]["limits"]["cpu"] == "2"
    assert [each["name"] for each in beside] == ["front"]
    for container in beside:
        assert limits.items() <= container["resources"]["limits"].items()


@pytest.mark.seconds
def test_every_container_of_a_cloud_can_have_a_limit() -> None:
    """A ResourceQuota on limits.cpu refuses a pod if one of its containers has none."""
    found = whole_cloud({"defaultResources": {"limits": {"cpu": "1"}}})
    lacking = {
        f"{name}/{container['name']}"
        for name, template in found.items()
        for container in (*template["spec"]["containers"], *template["spec"].get("initContainers", ()))
        if "cpu" not in container["resources"]["limits"]
    }
    assert lacking == set()


@pytest.mark.parametrize(
    ("own", "usual", "limits", "requests"),
    [
        ({}, {"limits": {"cpu": "1"}}, {"cpu": "1"}, {}),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "1"}}, {"cpu": "2"}, {}),
        ({"limits": {"memory": "3Gi"}}, {"limits": {"cpu": "1"}}, {"cpu": "1", "memory": "3Gi"}, {}),
        # Kubernetes refuses a request above its limit.
        ({"requests": {"cpu": "2"}}, {"limits": {"cpu": "1"}}, {"cpu": "2"}, {"cpu": "2"}),
        ({"limits": {"cpu": "1"}}, {"requests": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "1"}),
        ({}, {"limits": {"cpu": "5m"}}, {"cpu": "5m"}, {"cpu": "5m"}),
    ],
)
def test_own_resources_win_over_the_default(
    release: Release, own: dict[str, Any], usual: dict[str, Any], limits: dict[str, str], requests: dict[str, str]
) -> None:
    found = made(release, {"resources": own, "defaultResources": usual})
    resources = found["Deployment/keystone-api"]["spec"]["containers"][0]["resources"]
    assert limits.items() <= resources["limits"].items()
    assert requests.items() <= resources["requests"].items()


# Environment


def test_programs_and_jobs_have_the_variables(release: Release) -> None:
    checks = 0
    for template in made(release, {"env": {"TZ": "Europe/Berlin"}}).values():
        checks += 1
        assert env_of(template)["TZ"] == "Europe/Berlin"
    assert checks


@pytest.mark.parametrize(
    "name",
    [
        *("OS_DEFAULT__DEBUG", "OS_KEYSTONE_AUTHTOKEN__AUTH_URL", "os_default__debug"),
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONWARNINGS"),
        *("PATH", "HOME", "ENV", "BASH_ENV", "BASH_FUNC_x", "IFS", "SHELLOPTS", "PS4", "GCONV_PATH", "UWSGI_MODULE"),
        *("PERL5LIB", "PERL5OPT", "RUBYOPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "ERL_FLAGS", "ERL_LIBS"),
        *("OPENSSL_CONF", "OPENSSL_MODULES", "SSL_CERT_FILE", "SSLKEYLOGFILE", "REQUESTS_CA_BUNDLE", "GLIBC_TUNABLES"),
        *("EVENTLET_HUB", "PBR_VERSION", "CEPH_ARGS", "HOSTALIASES", "GIT_SSH_COMMAND", "KUBERNETES_SERVICE_HOST"),
    ],
)
@pytest.mark.security
def test_a_variable_that_decides_what_a_program_runs_is_refused_by_name(release: Release, name: str) -> None:
    with pytest.raises(SpecError) as refused:
        made(release, {"env": {name: "x"}})
    assert refused.value.path == f"spec.env.{name}"
    assert name in str(refused.value)
    with pytest.raises(SpecError, match=rf"spec\.envSecretRef: {name} "):
        made(release, {"envSecretRef": {"name": "mine"}}, secrets={"mine": {name: "x"}})


def test_a_variable_that_the_operator_sets_is_refused_by_name(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec\.env\.TLS_FOLDER: the operator sets TLS_FOLDER"):
        encrypted(release, KEYSTONE, keystone, env={"TLS_FOLDER": "/run"})


@pytest.mark.parametrize("name", ["a b", "1A", "A-B", "A=B"])
def test_a_name_is_one(release: Release, name: str) -> None:
    with pytest.raises(SpecError, match="not a name of a variable"):
        made(release, {"env": {name: "x"}})


def test_a_secret_brings_variables_whose_change_replaces_pods(release: Release) -> None:
    def found(value: str) -> Object:
        secrets = {"mine": {"HTTPS_PROXY": value, "AWS_PROFILE": "x"}}
        return made(release, {"envSecretRef": {"name": "mine"}}, secrets=secrets)["Deployment/keystone-api"]

    first, second = found("http://a:1@p:3128"), found("http://a:2@p:3128")
    ref = {"secretKeyRef": {"name": "mine", "key": "HTTPS_PROXY"}}
    assert env_of(first)["HTTPS_PROXY"] == env_of(first)["https_proxy"] == ref
    assert ".svc" in env_of(first)["no_proxy"].split(",")
    assert "a:1" not in str(first)
    digest = "openstack.k8s.io/config-digest"
    assert first["metadata"]["annotations"][digest] != second["metadata"]["annotations"][digest]


@pytest.mark.security
def test_a_secret_of_environment_variables_has_to_allow_every_host() -> None:
    """A program may send it anywhere, and the author of the spec may have no right to read it."""
    spec = GlanceSpec.from_spec({"envSecretRef": {"name": "mine"}})
    assert [(each.field, each.secret, each.addresses) for each in destinations(spec)] == [
        ("spec.envSecretRef.name", "mine", ("",))
    ]


# Proxy


def test_a_proxy_is_for_what_is_outside_the_cluster(release: Release) -> None:
    spec: dict[str, Any] = {
        "proxy": {"httpProxy": PROXY, "httpsProxy": PROXY, "noProxy": ["10.96.0.0/12", "vault.example.org"]},
        "networkPolicies": {"nodes": ["192.0.2.0/24"]},
    }
    found = objects(glance(context(GLANCE, spec, release=release, published=CONTRACTS)))
    env = env_of(pods(found.values())["Deployment/glance-api"])
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        assert env[name] == PROXY
    assert env["NO_PROXY"] == env["no_proxy"]
    direct = {"localhost", "127.0.0.1", ".svc", ".cluster.local", "10.96.0.0/12", "vault.example.org", "192.0.2.0/24"}
    assert direct <= set(env["no_proxy"].split(","))


def test_variables_win_over_the_proxy_and_keep_cluster_calls_off_it(release: Release) -> None:
    spec: dict[str, Any] = {
        "proxy": {"httpsProxy": "http://other:1"},
        "env": {"https_proxy": PROXY, "NO_PROXY": "x.org"},
    }
    env = env_of(made(release, spec)["Deployment/keystone-api"])
    assert env["HTTPS_PROXY"] == env["https_proxy"] == PROXY
    assert "HTTP_PROXY" not in env
    assert {"x.org", ".svc", ".cluster.local"} <= set(env["no_proxy"].split(","))


def test_requests_calls_services_directly(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python's own library reads the variables, which OpenStack's clients follow."""
    env = env_of(made(release, {"env": {"HTTPS_PROXY": PROXY}})["Deployment/keystone-api"])
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, env[name])
    proxies = urllib.request.getproxies_environment()
    assert proxies["https"] == PROXY
    for host in ("glance-api.openstack.svc.cluster.local", "glance-api.openstack.svc", "127.0.0.1", "localhost"):
        assert urllib.request.proxy_bypass(host)
    assert not urllib.request.proxy_bypass("images.example.org")


def test_a_cloud_hands_its_proxy_to_services_that_call_others(release: Release) -> None:
    found = objects(cloud(context(CONTROL_PLANE, {"proxy": {"httpsProxy": PROXY}}, release=release)))
    for kind in ("Keystone", "Glance", "Nova", "Neutron"):
        assert found[kind, kind.lower()]["spec"]["proxy"] == {"httpsProxy": PROXY}
    assert "proxy" not in found["MariaDB", "mariadb"]["spec"]
