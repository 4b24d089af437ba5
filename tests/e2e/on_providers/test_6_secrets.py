"""The External Secrets Operator writes Secrets into a Vault and reads them from there; cert-manager certifies by it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests import vault
from tools.cloud.view import conditions
from tools.localcluster.kubernetes import KubeError, Kubernetes
from tools.operators import issuers

from ..on_services import vault_pod
from ..waiting import until
from .asked import NAMESPACE
from .test_5_certificates import certificate, fault, files

STORE, MOUNT, KEY = "openbao-cluster-store", "kv-v2", "openstack/k-orc/app-credential"
_REMOTE = {"remoteKey": f"{MOUNT}/data/{KEY}", "property": "clouds.yaml"}
_TARGET = "k-orc-clouds-yaml"
FIRST, SECOND = "clouds: {admin: {region_name: One}}\n", "clouds: {admin: {region_name: Two}}\n"
# What the store may do: all with the secrets of its engine, and nothing else.
_POLICY = f'path "{MOUNT}/*" {{ capabilities = ["create", "read", "update", "delete", "list"] }}'
_NEW_AUTHORITY = "/".join(("pki", "root", "generate", "internal"))
"""Where a Vault makes an authority whose key it keeps; no path of a file."""
_SIGN = 'path "pki/sign/internal" { capabilities = ["create", "update"] }'

Object = dict[str, Any]


@pytest.fixture(scope="module")
def administrator(cluster: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> vault.Administrator:
    """A Vault with an engine of secrets, and a role that may use it."""
    administrator = vault_pod.start(cluster, tmp_path_factory.mktemp("vault"))
    administrator.run("secrets", "enable", f"-path={MOUNT}", "-version=2", "kv")
    administrator.run("policy", "write", "openstack", "-", stdin=_POLICY)
    administrator.run("auth", "enable", "approle")
    administrator.run("write", "auth/approle/role/openstack", "token_policies=openstack")
    return administrator


def test_a_cluster_secret_store_logs_in(cluster: Kubernetes, administrator: vault.Administrator) -> None:
    login = _login(cluster, administrator, "openstack")
    login["secretRef"]["namespace"] = NAMESPACE
    provider = {
        "server": f"https://{vault_pod.HOST}:{vault_pod.PORT}",
        "path": MOUNT,
        "version": "v2",
        "caBundle": base64.b64encode((administrator.home / "ca.crt").read_bytes()).decode(),
        "auth": {"appRole": login},
    }
    store = _object("external-secrets.io/v1", "ClusterSecretStore", STORE, provider={"vault": provider})
    del store["metadata"]["namespace"]
    _accepted(cluster, store)
    until("the store to be Ready", lambda: _ready(cluster, "clustersecretstores", STORE), 120, 1)


def test_cert_manager_certifies_by_the_vault(cluster: Kubernetes, administrator: vault.Administrator) -> None:
    administrator.run("secrets", "enable", "pki")
    administrator.run("write", _NEW_AUTHORITY, "common_name=authority of the Vault", "ttl=24h")
    rule = ("allowed_domains=svc", "allow_subdomains=true", "require_cn=false", "key_type=any", "max_ttl=12h")
    administrator.run("write", "pki/roles/internal", *rule)
    administrator.run("policy", "write", "certificates", "-", stdin=_SIGN)
    administrator.run("write", "auth/approle/role/certificates", "token_policies=certificates")
    provider = {
        "server": f"https://{vault_pod.HOST}:{vault_pod.PORT}",
        "path": "pki/sign/internal",
        "caBundle": base64.b64encode((administrator.home / "ca.crt").read_bytes()).decode(),
        "auth": {"appRole": _login(cluster, administrator, "certificates")},
    }
    issuers.ready(cluster, _object("cert-manager.io/v1", "Issuer", "vault", vault=provider))
    name = f"keystone.{NAMESPACE}.svc"
    order = certificate("by-vault", "vault", name)
    order["spec"] |= {"duration": "6h", "issuerRef": {"name": "vault", "kind": "Issuer"}}
    issuers.ready(cluster, order)
    issued = files(cluster, "by-vault")
    assert not fault(issued, frozenset({name}), issued["ca.crt"])


def test_a_secret_is_pushed_and_read_back(cluster: Kubernetes, administrator: vault.Administrator) -> None:
    _secret(cluster, "k-orc-app-credential", {"clouds.yaml": FIRST})
    store = {"name": STORE, "kind": "ClusterSecretStore"}
    pushed = _object(
        "external-secrets.io/v1alpha1",
        "PushSecret",
        "k-orc-app-credential",
        refreshInterval="2s",
        secretStoreRefs=[store],
        selector={"secret": {"name": "k-orc-app-credential"}},
        data=[{"match": {"secretKey": "clouds.yaml", "remoteRef": _REMOTE}}],
    )
    read = _object(
        "external-secrets.io/v1beta1",
        "ExternalSecret",
        _TARGET,
        refreshInterval="2s",
        secretStoreRef=store,
        target={"name": _TARGET, "creationPolicy": "Owner"},
        data=[{"secretKey": "clouds.yaml", "remoteRef": {"key": _REMOTE["remoteKey"], "property": "clouds.yaml"}}],
    )
    for each in (pushed, read):
        _accepted(cluster, each)
    until("the Secret to be pushed", lambda: _ready(cluster, "pushsecrets", "k-orc-app-credential"), 60, 1)
    until("the Secret to come back", lambda: _ready(cluster, "externalsecrets", _TARGET), 60, 1)
    assert _content(cluster) == FIRST
    stored = json.loads(administrator.run("kv", "get", "-format=json", f"-mount={MOUNT}", KEY))
    assert stored["data"]["data"] == {"clouds.yaml": FIRST}


def test_a_changed_secret_follows(cluster: Kubernetes) -> None:
    _secret(cluster, "k-orc-app-credential", {"clouds.yaml": SECOND})
    until("the new content to come back", lambda: _content(cluster) == SECOND, 60, 1)


def test_a_vault_without_the_secret_is_named(cluster: Kubernetes) -> None:
    """Last here: what is missing shows in the condition, and the Secret that is there stays."""
    cluster.kubectl("-n", NAMESPACE, "delete", "pushsecrets.external-secrets.io", "k-orc-app-credential")
    patch = {"spec": {"data": [{"secretKey": "clouds.yaml", "remoteRef": {"key": f"{MOUNT}/data/nothing"}}]}}
    name = ("externalsecrets.external-secrets.io", _TARGET, "-n", NAMESPACE)
    cluster.kubectl("patch", *name, "--type=merge", "-p", json.dumps(patch))
    until("the missing secret to be named", lambda: not _ready(cluster, "externalsecrets", _TARGET), 60, 1)
    assert _content(cluster) == SECOND
    cluster.kubectl("delete", "namespace", vault_pod.NAMESPACE, "--timeout=120s", timeout=130)


def _login(cluster: Kubernetes, administrator: vault.Administrator, role: str) -> Object:
    """Return a login as that role, whose secret is in a Secret of that name."""
    path = f"auth/approle/role/{role}"
    role_id = json.loads(administrator.run("read", "-format=json", f"{path}/role-id"))["data"]["role_id"]
    secret = json.loads(administrator.run("write", "-format=json", "-force", f"{path}/secret-id"))["data"]["secret_id"]
    name = f"vault-{role}"
    _secret(cluster, name, {"secret-id": secret})
    return {"path": "approle", "roleId": role_id, "secretRef": {"name": name, "key": "secret-id"}}


def _object(version: str, kind: str, name: str, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _secret(cluster: Kubernetes, name: str, values: dict[str, str]) -> None:
    metadata = {"name": name, "namespace": NAMESPACE}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values})


def _ready(cluster: Kubernetes, plural: str, name: str) -> bool:
    live = cluster.get(f"{plural}.external-secrets.io", name, "-n", NAMESPACE)
    return conditions(live).get("Ready", {}).get("status") == "True"


def _content(cluster: Kubernetes) -> str:
    return base64.b64decode(cluster.get("secret", _TARGET, "-n", NAMESPACE)["data"]["clouds.yaml"]).decode()


def _accepted(cluster: Kubernetes, obj: Object) -> None:
    """The operator's webhook is trusted some seconds after it answers."""

    def accepted() -> bool:
        try:
            cluster.apply(obj)
        except KubeError as error:
            if "failed calling webhook" not in str(error):
                raise
            return False
        return True

    until(f"{obj['kind']} to be accepted", accepted, 60, 1)
