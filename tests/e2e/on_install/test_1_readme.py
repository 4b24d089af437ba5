"""The three commands of README lead from a registry to a server."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.cloud import ways
from tools.cloud.ways import NAME, Release
from tools.localcluster import registry_login
from tools.localcluster.kubernetes import ROOT, Kubernetes
from tools.operators import build

from ..conftest import Report
from .conftest import Laboratory

CLOUD = "openstack"
"""The namespace of README's cloud."""


def test_three_commands_lead_to_a_server(laboratory: Laboratory, report: Report, tmp_path: Path) -> None:
    """As they stand, but for the registry, the node, and the login that this registry asks for."""
    cluster, release = laboratory.cluster, laboratory.releases[0]
    assert cluster.login
    ways.prepare(cluster, release)
    cluster.apply(*cluster.login.objects(CLOUD))
    values = tmp_path / "cloud.yaml"
    values.write_text(block("cloud.yaml", "yaml").replace("192.0.2.10", cluster.address()), encoding="utf-8")
    script = block("three-commands", "sh").replace("registry.example.org/team", release.registry)
    operator, cloud, server = script.replace("cloud.yaml", str(values)).splitlines()
    watch = laboratory.session.watch
    for name, command in (
        ("operator", f"{operator} --set imagePullSecrets[0].name={registry_login.PULL_SECRET}"),
        ("cloud", cloud),
        ("server", server),
    ):
        with watch.step(f"README: {name}"):
            shell(command, environment(cluster, release))
    report.add(readme_seconds={name: seconds for name, seconds in watch.steps.items() if name.startswith("README")})
    # A guest outlives its cloud, and the node would not be taken by the next one.
    delete = "openstack server list -f value -c ID | xargs -r openstack server delete --wait"
    cluster.kubectl("exec", "-n", CLOUD, "deploy/keystoneclient", "--", "sh", "-c", delete, timeout=120)
    for arguments in (f"cloud -n {CLOUD}", f"{NAME} -n {NAME}"):
        shell(f"helm uninstall --wait --timeout 5m {arguments}", environment(cluster, release))
    for namespace in (CLOUD, NAME):
        cluster.kubectl("delete", "namespace", namespace, "--timeout=180s", timeout=190)


def block(name: str, language: str) -> str:
    """Return a block of README by the comment before it."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    [found] = re.findall(rf"^<!-- {name} -->\n```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return found


def environment(cluster: Kubernetes, release: Release) -> Mapping[str, str]:
    """Return what README asks for: the programs, the cluster, and a registry that this machine trusts."""
    login = {"HELM_REGISTRY_CONFIG": str(release.login.file), "SSL_CERT_FILE": str(release.login.authority)}
    path = f"{build.helm().parent}:{os.environ['PATH']}"
    return {**os.environ, **login, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig)}


def shell(command: str, variables: Mapping[str, str]) -> None:
    result = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=1900, check=False
    )
    assert result.returncode == 0, f"{command}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}"
