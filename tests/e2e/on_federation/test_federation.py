"""A cloud that is told to let in users of a provider while it runs, and then not to."""

from __future__ import annotations

import json
from typing import Any

from tools.cloud import proof, view
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes

from ..conftest import Report
from ..facts import ready_again
from ..waiting import until
from .conftest import CLIENT, ISSUER, SECRET, Run

ORIGIN = "https://horizon.example.org/auth/websso/"
AUTH = "/OS-FEDERATION/identity_providers/sso/protocols/openid/auth"
WEBSSO = "/auth/OS-FEDERATION/identity_providers/sso/protocols/openid/websso"
RULE: dict[str, Any] = {
    "remote": [{"type": "OIDC-preferred_username"}, {"type": "OIDC-groups", "any_one_of": ["cloud-users"]}],
    "local": [{"user": {"name": "{0}"}, "group": {"name": "federated", "domain": {"name": "Default"}}}],
}
PROVIDERS = "keystoneidentityproviders.openstack.k8s.io"


def told(cluster: Kubernetes, cloud: Cloud, **federation: Any) -> None:
    """The control plane has these fields of federation."""
    patch = json.dumps({"spec": {"keystone": {"federation": federation}}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", cloud.namespace, "--type=merge", "-p", patch)


def keystone(cluster: Kubernetes, cloud: Cloud) -> dict[str, Any]:
    return cluster.get("keystones.openstack.k8s.io", "keystone", "-n", cloud.namespace)


def internal(cluster: Kubernetes, cloud: Cloud) -> str:
    return keystone(cluster, cloud)["status"]["published"]["internalURL"]


def public(cluster: Kubernetes, cloud: Cloud) -> str:
    return keystone(cluster, cloud)["status"]["endpoint"]


def provider(**changes: Any) -> dict[str, Any]:
    openid = {
        "issuer": ISSUER,
        "clientID": CLIENT,
        "clientSecretRef": {"name": "sso", "key": "clientSecret"},
        "bearerTokens": {"jwksURL": f"{ISSUER}/jwks"},
    }
    own = {"name": "sso", "protocol": "openid", "domain": "people", "openid": openid}
    return {**own, "caSecretRef": {"name": "sso"}, "mapping": [RULE], **changes}


def test_a_cloud_that_runs_is_told_of_a_provider(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    conn = proof.connect(cluster, cloud.namespace)
    group = conn.create_group("federated", "users of the provider", domain="default")
    project = conn.create_project("guests", "default")
    assert conn.grant_role("member", group=group.id, project=project.id)
    told(cluster, cloud, enabled=True, trustedDashboards=[ORIGIN], identityProviders=[provider()])
    ready_again(cluster, cloud, 400)
    live = cluster.get(PROVIDERS, "keystone-idp-sso", "-n", cloud.namespace)
    assert view.ready(live)
    report.add(federation_conditions=view.conditions(keystone(cluster, cloud))["IdentityProvidersReady"]["status"])


def test_a_browser_logs_in(cluster: Kubernetes, cloud: Cloud, run: Run) -> None:
    found = run("login", internal(cluster, cloud) + WEBSSO, ORIGIN)
    assert found["status"] == 200, found
    assert found["seen"][0].startswith(f"{ISSUER}/authorize?")
    assert f'action="{ORIGIN}"' in found["text"]
    assert 'name="token"' in found["text"]


def test_a_program_logs_in_with_a_token_and_has_its_groups_roles(cluster: Kubernetes, cloud: Cloud, run: Run) -> None:
    found = run("bearer", internal(cluster, cloud) + AUTH, ISSUER, CLIENT, SECRET)
    assert found["status"] == 201, found
    token = json.loads(found["text"])["token"]
    assert token["user"]["name"] == "ada"
    assert token["user"]["OS-FEDERATION"]["identity_provider"] == {"id": "sso"}
    conn = proof.connect(cluster, cloud.namespace)
    headers = {"X-Auth-Token": found["token"]}
    projects = conn.session.get(f"{public(cluster, cloud)}/auth/projects", headers=headers, authenticated=False)
    assert [each["name"] for each in projects.json()["projects"]] == ["guests"]


def test_forged_identity_headers_are_ignored(cluster: Kubernetes, cloud: Cloud, run: Run) -> None:
    found = run("forge", f"{internal(cluster, cloud)}{WEBSSO}", ORIGIN)
    # Led to the provider like everybody, and who that says.
    assert found["status"] == 200
    assert found["seen"]
    assert run("forge", f"{internal(cluster, cloud)}/auth/OS-FEDERATION/websso/mapped", ORIGIN)["status"] in {401, 404}
    conn = proof.connect(cluster, cloud.namespace)
    mapped = {"identity_provider": "sso", "protocol": "openid"}
    body = {"auth": {"identity": {"methods": ["mapped"], "mapped": mapped}}}
    headers = {"OIDC-iss": ISSUER, "OIDC-preferred_username": "root", "OIDC-groups": "cloud-users"}
    url = f"{public(cluster, cloud)}/auth/tokens"
    answer = conn.session.post(url, json=body, headers=headers, authenticated=False, raise_exc=False)
    assert answer.status_code in {400, 401, 403}


def test_a_mapping_that_keystone_refuses_is_reported_and_the_old_one_stays(
    cluster: Kubernetes, cloud: Cloud, run: Run
) -> None:
    wrong = {**RULE, "local": [{"nobody": {}}]}
    told(cluster, cloud, identityProviders=[provider(mapping=[wrong])])

    def refused() -> str:
        found = view.conditions(keystone(cluster, cloud)).get("IdentityProvidersReady", {})
        return (
            found["message"]
            if found.get("status") == "False" and "identityProviders[0].mapping" in found["message"]
            else ""
        )

    # Words of a server are not quoted: they may hold a secret.
    assert "HTTP 400" in until("Keystone's refusal", refused, 120, 2)
    assert run("login", internal(cluster, cloud) + WEBSSO, ORIGIN)["status"] == 200
    told(cluster, cloud, identityProviders=[provider()])
    ready_again(cluster, cloud, 400)


def test_no_secret_is_in_a_log(cluster: Kubernetes, cloud: Cloud) -> None:
    where = ("-n", cloud.namespace, "--tail=-1")
    for container in ("federation", "main"):
        assert SECRET not in cluster.kubectl("logs", "deploy/keystone-api", "-c", container, *where)


def test_federation_turned_off_and_on_keeps_its_users(cluster: Kubernetes, cloud: Cloud, run: Run) -> None:
    def user() -> str:
        found = run("bearer", internal(cluster, cloud) + AUTH, ISSUER, CLIENT, SECRET)
        return json.loads(found["text"])["token"]["user"]["id"]

    before = user()
    told(cluster, cloud, enabled=False)
    ready_again(cluster, cloud, 400)
    until("its resources to go", lambda: not cluster.items(PROVIDERS, "-n", cloud.namespace), 120, 2)
    names = {each["metadata"]["name"] for each in cluster.items("secrets", "-n", cloud.namespace)}
    assert not [name for name in names if "federation" in name]
    assert run("login", internal(cluster, cloud) + WEBSSO, ORIGIN)["status"] in {401, 403, 404}
    told(cluster, cloud, enabled=True)
    ready_again(cluster, cloud, 400)
    assert user() == before
