"""What is installed, as users install it: by kubectl, into an API server that has nothing of ours.

A server that a test leaves changed is that test's alone, so that the tests say the same in every order.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Generator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from openstack_operator import __version__
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import NAMESPACE
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.tempest.model import TEMPEST
from tools.localcluster import apiserver, build
from tools.localcluster.commands import CommandError, run

from .etcd import etcd_data
from .harness import DISCOVERY_PERIOD, TIMEOUT, Cluster, eventually, running
from .helm import CHART, NAME, Helm

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"


class Kubectl:
    """kubectl of one cluster, run in the checkout."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        cache = f"--cache-dir={kubeconfig.parent / 'discovery'}"
        self._command = (str(build.binary("kubernetes", "kubectl")), f"--kubeconfig={kubeconfig}", cache)

    def __call__(self, *arguments: str) -> str:
        return run(*self._command, *arguments)

    def apply(self, *arguments: str) -> str:
        return self("apply", *arguments)

    def install_c5c3(self) -> None:
        """What users who want the names of c5c3 do besides."""
        self.apply("--server-side", "-f", str(DEPLOY / "crds-c5c3"))
        self.established()

    def established(self) -> None:
        self("wait", "crd", "--all", "--for=condition=Established", f"--timeout={TIMEOUT:.0f}s")
        # What kubectl remembers of an API server is looked up anew.
        self("api-resources")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of an etcd into which all of deploy/ was brought by the one command that is documented."""
    try:
        build.binary("kubernetes", "kubectl")
    except build.BuildError as error:
        pytest.skip(str(error))
    paths = sorted(path for path in DEPLOY.rglob("*.yaml") if "charts" not in path.relative_to(DEPLOY).parts)
    files = {str(path): path.read_text(encoding="utf-8") for path in paths}
    return etcd_data(tmp_path_factory, files, _install)


def _install(kubeconfig: Path) -> None:
    kubectl = Kubectl(kubeconfig)
    kubectl.apply("--server-side", "-k", str(DEPLOY))
    kubectl.established()


@contextmanager
def _serving(installed: Path, directory: Path) -> Generator[Kubectl]:
    """A cluster that begins with a copy of that data: some seconds of CPU, of which the command takes many more."""
    shutil.copytree(installed, directory / "etcd")
    with apiserver.api_server(directory) as kubeconfig:
        found = Kubectl(kubeconfig)
        found.established()
        yield found


@pytest.fixture(scope="module")
def kubectl(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A cluster that stays as the command left it."""
    with _serving(installed, tmp_path_factory.mktemp("default")) as found:
        yield found


@pytest.fixture
def kubectl_of_its_own(installed: Path, tmp_path: Path) -> Iterator[Kubectl]:
    """A cluster that the test may change."""
    with _serving(installed, tmp_path) as found:
        yield found


def test_kubectl_apply_installs_everything(kubectl: Kubectl) -> None:
    made = kubectl(
        *("get", "deployment,serviceaccount,role,rolebinding,poddisruptionbudget", "-o", "name"),
        *("-n", "openstack-operator"),
    )
    assert {line.partition(".")[0].partition("/")[0] for line in made.split()} >= {
        "deployment",
        "serviceaccount",
        "role",
        "rolebinding",
        "poddisruptionbudget",
    }
    assert "clusterrole" in kubectl("get", "clusterrole", "openstack-operator", "-o", "name")
    again = kubectl.apply("--server-side", "-k", str(DEPLOY))
    assert "serverside-applied" in again


def test_version_to_wait_for_in_an_upgrade_is_that_of_the_operator(kubectl: Kubectl) -> None:
    page = (ROOT / "docs" / "how-to" / "upgrade-the-operator.md").read_text(encoding="utf-8")
    [command] = re.findall(r"^VERSION=\$\(kubectl (.*?)\)$", page, re.MULTILINE | re.DOTALL)
    words = shlex.split(command.replace("\\\n", " "))
    assert kubectl(*words) == __version__
    kubectl("set", "env", "deploy/openstack-operator", "OPERATOR_BUILD=3d4c", "-n", "openstack-operator")
    try:
        assert kubectl(*words) == f"{__version__}+3d4c"
    finally:
        kubectl("set", "env", "deploy/openstack-operator", "OPERATOR_BUILD-", "-n", "openstack-operator")


def test_client_side_apply_takes_every_definition_but_those_of_clouds(kubectl: Kubectl) -> None:
    """It keeps a copy of each in an annotation of at most 256 KiB. The largest that fits stands for all: the size of
    each is tested without a server.
    """
    clouds = [DEPLOY / "crds" / "openstackcontrolplanes.yaml", DEPLOY / "crds-c5c3" / "controlplanes.yaml"]
    paths = [path for folder in ("crds", "crds-c5c3") for path in (DEPLOY / folder).glob("*.yaml")]
    largest = max({*paths} - {*clouds}, key=lambda path: path.stat().st_size)
    kubectl.apply("--dry-run=server", "-f", str(largest))
    for cloud in clouds:
        with pytest.raises(CommandError, match="annotations: Too long"):
            kubectl.apply("--dry-run=server", "-f", str(cloud))


def test_the_plain_name_of_a_service_is_ours(kubectl: Kubectl) -> None:
    for name in ("nova", "keystone", "glance", "neutron", "cinder", "placement"):
        assert kubectl("get", name, "-A", "--ignore-not-found") == ""
        assert f"GROUP:      openstack.k8s.io\nKIND:       {name.title()}" in kubectl("explain", name)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("keystone.replicas", "Number of pods of each scalable program of the service. Default: 1."),
        ("nova.config", "Extra options, merged over the operator's defaults: section, option, value."),
        ("nova.api.resources.requests", "CPU cores, such as `500m` or `2`."),
        ("keystone.networkPolicies.enabled", "Default: false."),
        ("keystone.api.autoscaling", "Default: 80."),
        ("keystone.credentialKeys", 'Default: {"rotationSchedule": "@monthly"}.'),
        ("neutron.ml2.tenantNetworkTypes", 'Default: ["geneve"].'),
    ],
)
def test_the_default_of_a_field_of_a_template_is_explained(kubectl: Kubectl, path: str, words: str) -> None:
    # It breaks lines.
    assert words in " ".join(kubectl("explain", f"openstackcontrolplanes.openstack.k8s.io.spec.{path}").split())


def test_a_release_of_helm_takes_over_what_kubectl_installed(kubectl_of_its_own: Kubectl) -> None:
    helm = Helm(kubectl_of_its_own.kubeconfig)
    template = ("get", "deploy", NAME, "-n", NAME, "-o", "jsonpath={.spec.template}")
    before = kubectl_of_its_own(*template)
    assert "invalid ownership metadata" in helm.error("install", NAME, str(CHART))
    helm("install", NAME, str(CHART), "--take-ownership", "--set=image.tag=latest")
    assert kubectl_of_its_own(*template) == before


async def test_the_operator_works_without_the_kinds_of_c5c3(
    kubectl_of_its_own: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = kubectl_of_its_own
    monkeypatch.setitem(os.environ, "KUBECONFIG", str(kubectl.kubeconfig))
    async with AsyncExitStack() as opened:
        client, served = Client.connect(), Client.connect()
        opened.push_async_callback(client.close)
        opened.push_async_callback(served.close)
        await _without_c5c3(kubectl, client, served)
    # To start a server of its own for this, with these kinds, would take ten seconds of CPU.
    _names_of_groups(kubectl)


async def _without_c5c3(kubectl: Kubectl, client: Client, served: Client) -> None:
    await client.create(
        NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plain", "namespace": None}}
    )
    cluster = Cluster(client, "plain")
    releases = ReleaseFiles(ROOT / "releases")
    manager = Manager(served, SERVICES, ACTUATORS, releases, ["plain"], discovery_period=DISCOVERY_PERIOD)
    async with running(manager.run()):
        await asyncio.wait_for(manager.world.wait_until_synced(), TIMEOUT)
        await cluster.create(CONTROL_PLANE, "cloud", tempest={"enabled": True})
        condition = await cluster.ready(CONTROL_PLANE, "cloud", "InvalidSpec")
        assert "this cluster serves no tempests.tempest.openstack.c5c3.io" in condition["message"]
        assert "kubectl apply --server-side -f deploy/crds-c5c3" in condition["message"]
        assert "keystone" in kubectl("get", "keystone", "-n", "plain", "-o", "name")
        # They may come later, which the operator notices without a restart.
        kubectl.install_c5c3()
        await eventually(lambda: cluster.get(TEMPEST, "tempest"))


def _names_of_groups(kubectl: Kubectl) -> None:
    """Check that each group has names of its own, in a server with the kinds of c5c3."""
    # docs/reference/c5c3.md: all groups have one priority, and of equals the first in the alphabet counts.
    for name, group in (("nova", "nova.openstack.c5c3.io"), ("placement", "openstack.k8s.io")):
        assert f"GROUP:      {group}\n" in kubectl("explain", name)
    for name, group in (("osnova", "openstack.k8s.io"), ("c5nova", "nova.openstack.c5c3.io")):
        assert f"GROUP:      {group}\n" in kubectl("explain", name)
    explained = kubectl("explain", "novas.openstack.k8s.io.spec.compute")
    assert "GROUP:      openstack.k8s.io\n" in explained
    assert "virtType" in explained
