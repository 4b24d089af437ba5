"""Metrics of the operator are for those whom a real API server lets read them, with the operator's own rights."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from openstack_operator.admission.policy_names import NAMESPACE
from openstack_operator.generate.permissions import METRICS_READER
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.serve.scrapers import NO_RIGHT, Scrapers
from openstack_operator.runtime.serve.scraping import MetricsServer
from openstack_operator.runtime.serve.serving_certificate import ServingCertificate
from openstack_operator.yaml_text import load
from tools.localcluster.ports import free_port

from .harness import TIMEOUT, Cluster, eventually, running
from .rest import Rest
from .test_optional_roles import bind
from .test_permissions import account

pytestmark = pytest.mark.security

HOST, TEXT = "127.0.0.1", b"metrics 1\n"
ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
BINDING = Kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings")


@asynccontextmanager
async def served(client: Client) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of metrics that the holder of this connection serves."""
    port = free_port()
    certificate = ServingCertificate(None, ["operator"])
    server = MetricsServer(lambda: TEXT, Scrapers(client, patience=TIMEOUT), certificate)
    url = f"https://{HOST}:{port}"
    async with (
        running(server.serve((HOST, port))),
        httpx.AsyncClient(base_url=url, verify=False, trust_env=False, timeout=2 * TIMEOUT) as http,
    ):

        async def listening() -> bool:
            try:
                return (await http.get("/")).status_code == 404
            except httpx.TransportError:
                return False

        await eventually(listening)
        yield http


async def scrape(http: httpx.AsyncClient, token: str) -> tuple[int, bytes]:
    answer = await http.get("/metrics", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code, answer.content


async def token(cluster: Cluster, name: str, **spec: Any) -> str:
    """A token of a service account of this namespace, which is made where it is not there."""
    if await cluster.client.get(ACCOUNT, cluster.namespace, name) is None:
        await cluster.client.create(
            ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": cluster.meta(name)}
        )
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = ACCOUNT.path(cluster.namespace, name, "token")
    answer = await vars(cluster.client)["_http"].request("POST", path, json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["status"]["token"]


def signed_anew(kubeconfig: Path, text: str, seconds: int) -> str:
    """The same token as if it had been made that many seconds later, by the API server's own key."""
    head, body, _ = text.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    claims |= {name: claims[name] + seconds for name in ("iat", "nbf", "exp")}
    content = f"{head}.{_encoded(json.dumps(claims).encode())}"
    pem = (kubeconfig.parent / "pki" / "service-accounts.key").read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    if isinstance(key, rsa.RSAPrivateKey):
        return f"{content}.{_encoded(key.sign(content.encode(), padding.PKCS1v15(), hashes.SHA256()))}"
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    pair = utils.decode_dss_signature(key.sign(content.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{content}.{_encoded(b''.join(number.to_bytes(32, 'big') for number in pair))}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def altered(text: str) -> str:
    """The same token with another signature."""
    head, claims, signature = text.split(".")
    return f"{head}.{claims}.{signature[:-8]}{'A' * 8}"


async def allow(cluster: Cluster, rest: Rest, root: Path, name: str) -> str:
    """Binds the role that deploy/roles.yaml has for it; the name of the binding."""
    (role,) = (obj for obj in load(root / "deploy" / "roles.yaml") if obj["metadata"]["name"] == METRICS_READER)
    binding = f"{cluster.namespace}-{name}"
    subject = {"kind": "ServiceAccount", "name": name, "namespace": cluster.namespace}
    bound = {
        "apiVersion": BINDING.api_version,
        "kind": BINDING.kind,
        "metadata": {"name": binding},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": METRICS_READER},
        "subjects": [subject],
    }
    for obj in (role, bound):
        assert rest.apply(obj)[0] in (200, 201)
    return binding


async def test_the_api_server_says_who_reads_metrics(kubeconfig: Path, cluster: Cluster, root: Path) -> None:
    user = f"reviews-{cluster.namespace}"
    rest = Rest(kubeconfig, cluster.namespace)
    bind(kubeconfig, cluster, user, "rbac.yaml")
    await allow(cluster, rest, root, "prometheus")
    good = await token(cluster, "prometheus")
    async with (
        account(kubeconfig, f"system:serviceaccount:{NAMESPACE}:{user}") as operator,
        served(operator) as http,
    ):

        async def let_in() -> bool:
            # The authorizer hears of a binding a moment later, and a refusal counts for ten seconds.
            return await scrape(http, good) == (200, TEXT)

        await eventually(let_in)
        assert (await scrape(http, await token(cluster, "somebody")))[0] == 403
        assert (await scrape(http, altered(good)))[0] == 401
        assert (await scrape(http, signed_anew(kubeconfig, good, -7200)))[0] == 401
        assert (await scrape(http, signed_anew(kubeconfig, good, -1)))[0] == 200
        assert (await scrape(http, "garbage"))[0] == 401
        assert (await http.get("/metrics")).status_code == 401
        # One that is for somebody else is none for the operator, though its account may read metrics.
        assert (await scrape(http, await token(cluster, "prometheus", audiences=["vault"])))[0] == 401
        assert await scrape(http, good) == (200, TEXT)
    rest.close()


async def test_a_token_ends_with_its_account(kubeconfig: Path, cluster: Cluster, root: Path) -> None:
    rest = Rest(kubeconfig, cluster.namespace)
    await allow(cluster, rest, root, "prometheus")
    short = await token(cluster, "prometheus", expirationSeconds=3600)
    now = 0.0
    scrapers = Scrapers(cluster.client, lambda: now, patience=TIMEOUT)

    async def let_in() -> bool:
        nonlocal now
        now += 60
        return await scrapers.refusal(short) is None

    await eventually(let_in)
    await cluster.delete(ACCOUNT, "prometheus")

    async def kept_out() -> bool:
        nonlocal now
        now += 60
        refusal = await scrapers.refusal(short)
        return refusal is not None and refusal.status.startswith("401")

    await eventually(kept_out)
    rest.close()


async def test_an_operator_that_may_not_ask_lets_nobody_in(kubeconfig: Path, cluster: Cluster, root: Path) -> None:
    rest = Rest(kubeconfig, cluster.namespace)
    await allow(cluster, rest, root, "prometheus")
    good = await token(cluster, "prometheus")
    async with (
        account(kubeconfig, f"system:serviceaccount:{NAMESPACE}:nobody-{cluster.namespace}") as operator,
        served(operator) as http,
    ):
        assert await scrape(http, good) == (503, f"{NO_RIGHT.reason}\n".encode())
    rest.close()
