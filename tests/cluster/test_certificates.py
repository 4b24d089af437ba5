"""Certificates on a real API server: by cert-manager, which is played here, and while an authority is replaced."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from openstack_operator import pki
from openstack_operator.kube import secret_data
from openstack_operator.plan import Transient
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import POD, SECRET, STATEFUL_SET, Kind
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.memcached.clients import DEMANDS
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.pki.model import PKI

from . import external_definitions
from .conftest import CRD, install
from .harness import Cluster, at_rest, eventually, running
from .test_controlplane import operator

ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
CERTIFICATE = Kind("cert-manager.io/v1", "Certificate", "certificates")
ISSUER = {"name": "internal", "kind": "Issuer"}
TLS = {"pkiRef": {"name": "pki"}}


@asynccontextmanager
async def cert_manager(cluster: Cluster, authority: pki.Pair, refuses: set[str]) -> AsyncGenerator[None]:
    """Issues what is ordered, but not for those it refuses."""
    client = Client.connect()

    async def work() -> None:
        done: set[str] = set()
        while True:
            for order in await orders(client, cluster.namespace):
                if order["metadata"]["name"] not in done and not await issue(order):
                    done.add(order["metadata"]["name"])
            await asyncio.sleep(0.1)

    async def issue(order: dict[str, Any]) -> bool:
        spec, name = order["spec"], order["metadata"]["name"]
        refused = name in refuses
        if not refused:
            names = frozenset({*spec["dnsNames"], *spec.get("ipAddresses", ())})
            wanted = pki.Request(common="x", names=names, life=timedelta(minutes=int(spec["duration"][:-1])))
            pair = pki.issue(authority, wanted, name, datetime.now(UTC))
            files = {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": authority.cert}
            await client.create(
                SECRET,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "type": "kubernetes.io/tls",
                    "metadata": cluster.meta(spec["secretName"]) | {"labels": spec["secretTemplate"]["labels"]},
                    "data": {key: base64.b64encode(text.encode()).decode() for key, text in files.items()},
                },
            )
        ready = {"type": "Ready", "status": "False" if refused else "True", "observedGeneration": 1}
        issuing = {"type": "Issuing", "status": "False", "reason": "Failed" if refused else "Issued", "message": "no"}
        await client.merge_status(CERTIFICATE, cluster.namespace, name, {"conditions": [ready, issuing]})
        return False

    async with running(work()):
        yield
    await client.close()


async def orders(client: Client, namespace: str) -> list[dict[str, Any]]:
    try:
        return msgspec.json.decode(await client.page(CERTIFICATE, namespace, {}))["items"]
    except Transient:
        return []


async def uninstall(cluster: Cluster, definition: str) -> None:
    live = await cluster.client.get(CRD, None, definition)
    assert live
    await cluster.client.delete(CRD, "", definition, live["metadata"]["uid"], "Background")

    async def gone() -> bool:
        return await cluster.client.get(CRD, None, definition) is None

    await eventually(gone)


async def test_certificates_come_from_cert_manager_once_it_is_there(cluster: Cluster, root: Path) -> None:
    by = pki.authority("theirs", "theirs", datetime.now(UTC))
    refuses = {"other-probe"}
    await uninstall(cluster, "certificates.cert-manager.io")
    async with operator(cluster, root), cert_manager(cluster, by, refuses):
        await cluster.create(PKI, "pki", issuerRef=ISSUER)
        await cluster.create(MARIADB, "mariadb", tls=TLS)
        found = await cluster.ready(PKI, "pki", "InvalidSpec")
        assert "spec.issuerRef: this cluster serves no certificates.cert-manager.io" in found["message"]
        await install(external_definitions.definitions("cert-manager"))
        await cluster.ready(PKI, "pki")
        await cluster.ready(MARIADB, "mariadb")
        files = secret_data(await cluster.get(SECRET, "mariadb-tls"))
        assert pki.split(files["ca.crt"]) == pki.split(by.cert)
        assert pki.is_trusted(files["tls.crt"], [by.cert])
        issued = await cluster.get(SECRET, "mariadb-tls-issued")
        assert issued
        assert [ref["kind"] for ref in issued["metadata"]["ownerReferences"]] == ["MariaDB"], "it goes with its user"
        assert await cluster.get(STATEFUL_SET, "mariadb-server")
        await cluster.create(PKI, "other", issuerRef=ISSUER)
        found = await cluster.ready(PKI, "other", "IssuerFailed")
        assert "Issuer/internal refused it: no" in found["message"]


async def test_an_authority_given_up_for_an_issuer_does_not_come_back(cluster: Cluster, root: Path) -> None:
    async def told() -> dict[str, str]:
        return ((await cluster.get(PKI, "pki") or {}).get("status") or {}).get("published") or {}

    async def gone() -> bool:
        return await cluster.get(SECRET, "pki-authority") is None

    by = pki.authority("theirs", "theirs", datetime.now(UTC))
    async with operator(cluster, root) as manager, cert_manager(cluster, by, set()):
        await cluster.create(PKI, "pki")
        await cluster.ready(PKI, "pki")
        assert (await told())["authoritySecret"] == "pki-authority"
        await cluster.change(PKI, "pki", "/spec/issuerRef", ISSUER)
        await eventually(gone)
        await cluster.ready(PKI, "pki")
        # It is issued once here: what was told before is all there is to go by.
        await cluster.delete(SECRET, "pki-probe-issued")
        await at_rest(manager)
        assert "authoritySecret" not in await told()
        assert await gone()


async def pod(cluster: Cluster, name: str, secret: str) -> None:
    """A pod that mounts the Secret."""
    if await cluster.get(ACCOUNT, "default") is None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": cluster.meta("default")}
        await cluster.client.create(ACCOUNT, account)
    spec = {
        "nodeName": "none",
        # Nobody is there to end it.
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "main"}],
        "volumes": [{"name": "files", "secret": {"secretName": secret}}],
    }
    await cluster.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": cluster.meta(name), "spec": spec})


async def end(cluster: Cluster, name: str) -> None:
    live = await cluster.get(POD, name)
    assert live
    await cluster.client.delete(POD, cluster.namespace, name, live["metadata"]["uid"], "Background")


async def test_an_authority_is_replaced_as_users_start_anew(cluster: Cluster, root: Path) -> None:
    async def said(text: str) -> None:
        async def found() -> bool:
            await changed(cluster)
            heard.append((await cluster.condition(PKI, "pki", "RotationReady")).get("message", ""))
            return text in heard[-1]

        heard: list[str] = []
        try:
            await eventually(found)
        except TimeoutError:
            raise AssertionError(heard[-1]) from None

    async with operator(cluster, root):
        await cluster.create(PKI, "pki", overlap="0s")
        await cluster.create(MARIADB, "mariadb", tls=TLS)
        await cluster.ready(MARIADB, "mariadb")
        await pod(cluster, "reader", "pki-bundle")
        first = secret_data(await cluster.get(SECRET, "pki-authority"))["tls.crt"]
        await next_second()
        await cluster.change(PKI, "pki", "/spec/authorityGeneration", 2)
        await said("waits for Pod/reader (reader)")
        trusted = secret_data(await cluster.get(SECRET, "mariadb-tls"))["ca.crt"]
        assert len(pki.split(trusted)) == 2
        await end(cluster, "reader")
        await next_second()
        await pod(cluster, "again", "pki-bundle")
        await said("the authority is replaced from")
        now = secret_data(await cluster.get(SECRET, "pki-authority"))
        assert now["tls.crt"] != first

        async def issued_by_it_alone() -> bool:
            files = secret_data(await cluster.get(SECRET, "mariadb-tls"))
            alone = pki.split(files["ca.crt"]) == pki.split(now["tls.crt"])
            return alone and pki.is_trusted(files["tls.crt"], [now["tls.crt"]])

        await eventually(issued_by_it_alone)


async def test_memcached_demands_certificates_once_no_client_is_without(cluster: Cluster, root: Path) -> None:
    async def command() -> str:
        live = await cluster.get(STATEFUL_SET, "memcached-server")
        return " ".join(live["spec"]["template"]["spec"]["containers"][0]["command"]) if live else ""

    async def waits() -> bool:
        return "Pod/client" in (await cluster.condition(MEMCACHED, "memcached", "ClientsReady")).get("message", "")

    async def demands() -> bool:
        return DEMANDS in await command()

    server = f"memcached-server-0.memcached.{cluster.namespace}.svc.cluster.local:11212"
    metadata = cluster.meta("client-config") | {"labels": {"app.kubernetes.io/managed-by": "openstack-operator"}}
    data = {"client.conf": base64.b64encode(f"memcached_servers = {server}\n".encode()).decode()}
    async with operator(cluster, root):
        await cluster.create(PKI, "pki")
        await cluster.create(MEMCACHED, "memcached", tls=TLS)
        await cluster.ready(MEMCACHED, "memcached")
        await cluster.client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        await pod(cluster, "client", "client-config")
        await cluster.change(MEMCACHED, "memcached", "/spec/tls/required", True)
        await eventually(waits)
        await cluster.ready(MEMCACHED, "memcached")
        assert "notls:127.0.0.1:11211" in await command()
        assert not await demands()
        await end(cluster, "client")
        await eventually(demands)


async def next_second() -> None:
    """Kubernetes tells to the second when something was made: what comes next is younger."""
    await asyncio.sleep(1.1)


async def changed(cluster: Cluster) -> None:
    """Has the operator look again, as time does in the end."""
    await cluster.change(PKI, "pki", "/metadata/annotations", {"test": datetime.now(UTC).isoformat()})
