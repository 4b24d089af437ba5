"""The chart of the operator, as users of Helm install, upgrade and uninstall it."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.localcluster import apiserver, build

from .helm import CHART, NAME, ROOT, Helm

DEPLOY = ROOT / "deploy"
LIMIT = 1024 * 1024
"""Bytes of a Secret, in which helm keeps a release."""


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[Helm]:
    """Helm of an API server that has nothing of ours."""
    try:
        with apiserver.api_server(tmp_path) as kubeconfig:
            yield Helm(kubeconfig)
    except build.BuildError as error:
        pytest.skip(str(error))


def older_chart(folder: Path) -> Path:
    """Return a copy of the chart in which a definition differs, as that of an earlier version does."""
    copy = folder / "older"
    shutil.copytree(CHART, copy)
    path = copy / "charts" / "crds" / "files" / "openstack" / "memcacheds.yaml"
    text = path.read_text(encoding="utf-8")
    assert "\n    - osmemcached\n" in text
    path.write_text(text.replace("\n    - osmemcached\n", "\n    - oldmemcached\n"), encoding="utf-8")
    return copy


def test_a_release_from_its_installation_to_its_end(helm: Helm, tmp_path: Path) -> None:
    everything = ("--set=crds.c5c3=true", "--set=labelsInjector.enabled=true")
    helm("install", NAME, str(older_chart(tmp_path)), "--create-namespace", *everything)
    count = len([path for folder in ("crds", "crds-c5c3") for path in (DEPLOY / folder).glob("*.yaml")])
    assert len(helm.definitions()) == count
    assert "oldmemcached" in helm.kubectl("get", "crd", "memcacheds.openstack.k8s.io", "-o", "yaml")

    # An upgrade upgrades the definitions, too.
    helm("upgrade", NAME, str(CHART), *everything)
    upgraded = helm.kubectl("get", "crd", "memcacheds.openstack.k8s.io", "-o", "yaml")
    assert "osmemcached" in upgraded
    assert "oldmemcached" not in upgraded
    stored = helm.kubectl("get", "secret", "-n", NAME, "-l", "owner=helm", "-o", "jsonpath={.items[-1:].data.release}")
    size = len(base64.b64decode(stored))
    print(f"release with all definitions: {size} bytes, {size / LIMIT:.0%} of what a Secret takes")
    assert size < 0.75 * LIMIT, "split the chart before it no longer fits"

    # Rights follow the namespaces; definitions that are no longer wanted stay.
    helm.kubectl("create", "namespace", "openstack")
    helm("upgrade", NAME, str(CHART), "--set=watchNamespaces={openstack}")
    roles = helm.names("clusterroles,roles")
    assert f"clusterrole.rbac.authorization.k8s.io/{NAME}" not in roles
    assert f"clusterrole.rbac.authorization.k8s.io/{NAME}-nodes" in roles
    assert helm.kubectl("get", "role", NAME, "-n", "openstack", "-o", "name")
    assert len(helm.definitions()) == count

    helm("uninstall", NAME)
    assert helm.names("deployments,clusterroles,roles,serviceaccounts,validatingadmissionpolicies") == set()
    assert len(helm.definitions()) == count
