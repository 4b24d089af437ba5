"""Observations of the live world before a plan, as the records of services order them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2 as httpx
import msgspec

from ...kube import MANAGED_BY
from ...plan import (
    CloudContents,
    CloudDatabases,
    CloudResources,
    Context,
    MemberReports,
    Object,
    Observation,
    SecretReaders,
    Served,
    ServedContents,
    StartTLS,
    TrustInUse,
)
from ..kubernetes.client import Client
from ..kubernetes.errors import Forbidden
from ..kubernetes.kinds import POD, SECRET, Kind
from .contents import CloudReader

ANSWER_TIMEOUT = 1.0
"""Seconds; a pass waits that long at most, however many members do not answer."""
_LARGEST_REPORT = 64 << 10
"""Bytes of what a member reports; that has some hundred."""
_TLS_TIMEOUT = 2.0
"""Seconds in which a port shows its certificate."""
_PORTS, _AT_ONCE = 16, 64
"""Ports of a pod that are looked at, and ports that are at once: users write pods, too."""
_TRUST_FILES = ("ca.crt", "tls.crt")
_LARGEST_CONTENTS, _MOST_CONTAINERS = 8 << 20, 400_000
"""Bytes of the contents of a backup, and lists and objects in their JSON: these take much more memory than text."""
_CONTENTS_TIMEOUT = 10.0

Target = tuple[Kind, str | None, str]
"""An object by its kind, namespace (none for one of the whole cluster) and name."""


class Observer:
    """Reads what a service looks at."""

    def __init__(
        self,
        client: Client,
        start_tls: Mapping[str, StartTLS],
        cloud: CloudReader | None = None,
    ) -> None:
        """Take as `start_tls` the functions for ports that do not begin with TLS, by the port's name; `cloud` reads a
        namespace for the services that observe one.
        """
        self._client = client
        self._start_tls = start_tls
        self._cloud_reader = cloud
        self._looks = asyncio.Semaphore(_AT_ONCE)

    async def observe(self, observation: Observation, ctx: Context[Any]) -> Mapping[str, Any]:
        """Return the facts. Raises Transient if the API server does not answer."""
        match observation:
            case MemberReports():
                return await self._reports(observation, ctx)
            case SecretReaders():
                return await self._readers(ctx) if observation.needed(ctx) else {}
            case TrustInUse():
                trust = await self._trust(observation, ctx) if observation.needed(ctx) else {}
                return {**trust, **await self._issuer(observation.issuer(ctx))}
            case CloudContents() | CloudDatabases() | CloudResources():
                return await self._cloud(observation, ctx) if observation.needed(ctx) else {}
            case ServedContents():
                source = observation.source(ctx)
                contents = await _served_contents(source) if source else {}
                return {**contents, "databases": self._databases(observation, ctx)}

    def _databases(self, observation: ServedContents, ctx: Context[Any]) -> Sequence[Object]:
        if self._cloud_reader is None or not observation.databases_needed(ctx):
            return ()
        return self._cloud_reader.servers(ctx.namespace, observation.databases)

    async def _cloud(
        self, observation: CloudContents | CloudDatabases | CloudResources, ctx: Context[Any]
    ) -> Mapping[str, Any]:
        if (reader := self._cloud_reader) is None:
            return {}
        if isinstance(observation, CloudContents):
            return await reader.contents(ctx.namespace, observation)
        if isinstance(observation, CloudResources):
            return {"resources": reader.resources(ctx.namespace, observation.kinds)}
        return {
            "databases": reader.servers(ctx.namespace, observation.databases),
            "siblings": reader.siblings(ctx.namespace, ctx.kind),
            "reports": await self._reports(observation, ctx),
        }

    async def _reports(self, observation: MemberReports | CloudDatabases, ctx: Context[Any]) -> Mapping[str, Any]:
        urls = observation.urls(ctx)
        answers = await asyncio.gather(*(_report(self._client.members, url) for url in urls.values()))
        return dict(zip(urls, answers, strict=True))

    async def _readers(self, ctx: Context[Any]) -> Mapping[str, Any]:
        # The Secrets first: a pod that is made meanwhile reads what they hold by now.
        secrets = await self._list(SECRET, ctx.namespace, f"app.kubernetes.io/managed-by={MANAGED_BY}")
        return {"secrets": secrets, "pods": await self._list(POD, ctx.namespace)}

    async def _trust(self, observation: TrustInUse, ctx: Context[Any]) -> Mapping[str, Any]:
        facts = await self._readers(ctx)
        secrets = [
            {**item, "data": {key: text for key, text in item["data"].items() if key in _TRUST_FILES}}
            for item in facts["secrets"]
            if "ca.crt" in (item.get("data") or {})
        ]
        facts = {"secrets": secrets, "pods": facts["pods"]}
        if not observation.certificates_needed(replace(ctx, facts=facts)):
            return facts
        certificates = {item["metadata"]["name"] for item in secrets if "tls.crt" in item["data"]}
        ports = {pod["metadata"]["name"]: _ports(pod, certificates) for pod in facts["pods"]}
        served = await asyncio.gather(*(self._served(each) for each in ports.values()))
        return {**facts, "shown": dict(zip(ports, served, strict=True))}

    async def _issuer(self, issuer: Target | None) -> Mapping[str, Any]:
        """Return the issuer; nothing without one, or without the right to read it. Raises Transient."""
        if issuer is None:
            return {}
        try:
            live = await self._client.get(*issuer)
        except Forbidden:
            return {}
        return {"issuer": live} if live else {}

    async def _list(self, kind: Kind, namespace: str, selector: str = "") -> list[Object]:
        """Return all objects of a kind in a namespace. Raises Transient."""
        objects: list[Object] = []
        query = {"labelSelector": selector} if selector else {}
        while True:
            page = msgspec.json.decode(await self._client.page(kind, namespace, query))
            objects += page.get("items") or []
            if not (token := page["metadata"].get("continue")):
                return objects
            query = {**query, "continue": token}

    async def _served(self, ports: Iterable[tuple[str, Object]]) -> list[str]:
        async def look(host: str, port: Object) -> str:
            async with self._looks:
                return await certificate(host, port["containerPort"], self._start_tls.get(port.get("name", "")))

        return [cert for cert in await asyncio.gather(*(look(host, port) for host, port in ports)) if cert]


async def _report(http: httpx.AsyncClient, url: str) -> Any:
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT), http.stream("GET", url, timeout=ANSWER_TIMEOUT) as response:
            content = await _content(response.aiter_raw(), _LARGEST_REPORT)
        answer = msgspec.json.decode(content) if response.status_code == 200 else None
    except (httpx.HTTPError, TimeoutError, ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


async def _served_contents(source: Served) -> Mapping[str, Any]:
    """Return what a pod serves; empty while it does not answer, or answers anything but one JSON object."""
    headers = {"Authorization": f"Bearer {source.token}"}
    try:
        trust = ssl.create_default_context(cadata=source.authority)
        async with (
            asyncio.timeout(_CONTENTS_TIMEOUT),
            httpx.AsyncClient(verify=trust, trust_env=False) as client,
            client.stream("GET", source.url, headers=headers, timeout=_CONTENTS_TIMEOUT) as response,
        ):
            content = await _content(response.aiter_bytes(), _LARGEST_CONTENTS)
        if content.count(b"[") + content.count(b"{") > _MOST_CONTAINERS:
            return {}
        answer = msgspec.json.decode(content) if response.status_code == 200 else None
    except (httpx.HTTPError, OSError, TimeoutError, ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


async def _content(pieces: AsyncIterator[bytes], limit: int) -> bytes:
    """Return the content of an answer. Raises ValueError for more bytes than the limit."""
    content = bytearray()
    async for piece in pieces:
        content += piece
        if len(content) > limit:
            raise ValueError("what an agent serves is too large")
    return bytes(content)


def _ports(pod: Object, certificates: Iterable[str]) -> list[tuple[str, Object]]:
    """Return where a pod might show one of these certificates: its address, and each port of it."""
    volumes = pod["spec"].get("volumes") or ()
    address = pod.get("status", {}).get("podIP")
    if not address or {(volume.get("secret") or {}).get("secretName") for volume in volumes}.isdisjoint(certificates):
        return []
    ports = [(address, port) for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
    return ports[:_PORTS]


async def certificate(host: str, port: int, start_tls: StartTLS | None = None) -> str:
    """Return the certificate a port shows to a client of TLS, after `start_tls` if there is one, in PEM; empty where it
    shows none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # It is looked at, not trusted: nothing is said to it.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_TLS_TIMEOUT):
            reader, writer = await asyncio.open_connection(host, port, ssl=None if start_tls else context)
            try:
                if start_tls:
                    await start_tls(reader, writer)
                    await writer.start_tls(context)
                tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
                return ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True) or b"")
            finally:
                # To close TLS politely is to wait for the other side, which may never answer.
                writer.transport.abort()
    except (OSError, EOFError):
        return ""
