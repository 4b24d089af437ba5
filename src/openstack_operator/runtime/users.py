"""Trust in a namespace: the Secrets with authorities, the pods that read them, and the certificates they show."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from ..kube import MANAGED_BY
from ..plan import Context, Object
from .client import Client
from .kinds import POD, SECRET, Kind
from .registry import Observer

_PATIENCE = 2.0
"""Seconds in which a port shows its certificate."""
_FILES = ("ca.crt", "tls.crt")


def tls_observer(needed: Callable[[Context[Any]], bool], nearly: Callable[[Context[Any]], bool]) -> Observer:
    """Return an observer whose facts are, where they are `needed`, the operator's `secrets` that hold authorities,
    without their keys, and all `pods` of the namespace; and, where these leave only that open (`nearly`, called with
    them), the certificates in PEM that are `shown` by pods that mount one, by pod.
    """

    async def observe(client: Client, ctx: Context[Any]) -> Mapping[str, Any]:
        if not needed(ctx):
            return {}
        ours = f"app.kubernetes.io/managed-by={MANAGED_BY}"
        bundles = [
            item for item in await list_all(client, SECRET, ctx.namespace, ours) if "ca.crt" in (item.get("data") or {})
        ]
        secrets = [{**item, "data": {k: v for k, v in item["data"].items() if k in _FILES}} for item in bundles]
        pods = await list_all(client, POD, ctx.namespace)
        facts = {"secrets": secrets, "pods": pods}
        if not nearly(replace(ctx, facts=facts)):
            return facts
        certificates = {item["metadata"]["name"] for item in secrets if "tls.crt" in item["data"]}
        ports = {pod["metadata"]["name"]: _ports(pod, certificates) for pod in pods}
        served = await asyncio.gather(*(_served_certificates(each) for each in ports.values()))
        return {**facts, "shown": dict(zip(ports, served, strict=True))}

    return observe


async def list_all(client: Client, kind: Kind, namespace: str, selector: str = "") -> list[Object]:
    """Return all objects of a kind in a namespace. Raises Transient."""
    objects: list[Object] = []
    query = {"labelSelector": selector} if selector else {}
    while True:
        page = msgspec.json.decode(await client.page(kind, namespace, query))
        objects += page.get("items") or []
        if not (token := page["metadata"].get("continue")):
            return objects
        query = {**query, "continue": token}


def _ports(pod: Object, certificates: Iterable[str]) -> list[tuple[str, Object]]:
    """Return where a pod might show one of these certificates: its address, and each port of it."""
    volumes = pod["spec"].get("volumes") or ()
    address = pod.get("status", {}).get("podIP")
    if not address or {(volume.get("secret") or {}).get("secretName") for volume in volumes}.isdisjoint(certificates):
        return []
    return [(address, port) for container in pod["spec"]["containers"] for port in container.get("ports") or ()]


async def _served_certificates(ports: Iterable[tuple[str, Object]]) -> list[str]:
    served = (certificate(host, port["containerPort"], sql=port.get("name") == "mysql") for host, port in ports)
    return [cert for cert in await asyncio.gather(*served) if cert]


async def certificate(host: str, port: int, *, sql: bool = False) -> str:
    """Return the certificate a port shows to a client of TLS, or of MariaDB, in PEM; empty where it shows none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # It is looked at, not trusted: nothing is said to it.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(host, port, ssl=None if sql else context)
            try:
                if sql:
                    await reader.readexactly(int.from_bytes((await reader.readexactly(4))[:3], "little"))
                    writer.write(_SQL_TLS)
                    await writer.start_tls(context)
                tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
                return ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True) or b"")
            finally:
                # To close TLS politely is to wait for the other side, which may never answer.
                writer.transport.abort()
    except (OSError, EOFError):
        return ""


# CLIENT_PROTOCOL_41, CLIENT_SSL and CLIENT_SECURE_CONNECTION, as the second packet of a connection.
_SQL_TLS = struct.pack("<IIIB23x", 1 << 24 | 32, 0x8A00, 1 << 24, 33)
