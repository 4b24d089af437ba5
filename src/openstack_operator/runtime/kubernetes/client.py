"""The Kubernetes API as the engine needs it: few verbs, and errors that say what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import httpx2 as httpx
import msgspec

from ...kube import MANAGED_BY
from ...plan import Object, SpecError, Transient
from .. import metrics
from .bodies import APPLY
from .errors import Missing, TooLarge, WatchSilent, error_of, naming_role
from .http_client import NOT_MODIFIED, PATIENCE, HttpClient
from .kinds import POD, UNFENCED, Kind
from .limits import cut_deep
from .transport import INFORMER

FIELD_MANAGER = MANAGED_BY
PAGE = 500
LARGEST_PAGE = 16 << 20
"""Bytes; objects have some ten thousand, and may have two million."""
_LONGEST_LINE = 1 << 20
"""Bytes of a line of a log."""
_OK = 200
SILENCE = 150.0
"""Seconds without a line after which a watch counts as dead; servers send a bookmark about every minute, except for
what they keep in no cache: Events, and whatever `--watch-cache-sizes` says."""
_DISCOVERY = ",".join(
    [
        *(
            f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            for version in ("v2", "v2beta1")
        ),
        "application/json",
    ]
)
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Client(HttpClient):
    """The verbs of the Kubernetes API."""

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """Return the object as it is now, None where there is none."""
        try:
            with naming_role(kind):
                return _object(await self._request("GET", kind.path(namespace, name)))
        except Missing:
            return None

    async def log(self, namespace: str, pod: str, container: str, *, lines: int, previous: bool = False) -> str:
        """Return the last lines that a container wrote, or with `previous` the one before its last restart."""
        path = f"{POD.path(namespace, pod)}/log"
        params = {"container": container, "tailLines": str(lines), "previous": str(previous).lower()}
        response = await self._send("GET", path, params=params)
        return response.content.decode(errors="replace")

    async def log_lines(self, namespace: str, pod: str, container: str, **options: str) -> AsyncIterator[str]:
        """Yield the lines of a log, with the `options` of the API, such as `follow`; a very long line in several parts.
        Raises SpecError for a container that has not begun, Transient if the connection breaks.
        """
        path, timeout = f"{POD.path(namespace, pod)}/log", httpx.Timeout(10, read=None if "follow" in options else 60)
        params = {"container": container, **options}
        try:
            async with self._http.stream("GET", path, params=params, timeout=timeout) as response:
                if response.status_code != _OK:
                    raise error_of(response.status_code, await response.aread(), f"GET {path}")
                rest = b""
                async for chunk in response.aiter_bytes():
                    *lines, rest = (rest + chunk).split(b"\n")
                    lines, rest = ([*lines, rest], b"") if len(rest) > _LONGEST_LINE else (lines, rest)
                    for line in lines:
                        yield line.decode(errors="replace")
                if rest:
                    yield rest.decode(errors="replace")
        except httpx.TransportError as error:
            raise Transient(f"GET {path}: {type(error).__name__} {error}") from error

    async def server_version(self) -> str:
        """Return the version of the API server."""
        return str(_object(await self._request("GET", "/version")).get("gitVersion", ""))

    async def discover(self, etag: str = "") -> tuple[bytes | None, str]:
        """Return an APIGroupDiscoveryList (KEP-3352) and its ETag, or the APIGroupList of a server that knows none;
        None in place of one that is the same as that of the given ETag.
        """
        headers = {"Accept": _DISCOVERY, **({"If-None-Match": etag} if etag else {})}
        response = await self._send("GET", "/apis", headers=headers)
        return (None if response.status_code == NOT_MODIFIED else response.content), response.headers.get("ETag", "")

    async def page(
        self, kind: Kind, namespace: str | None, params: Mapping[str, str], *, metadata_only: bool = False
    ) -> bytes:
        """Return a page of a list as JSON. Raises ResourceExpired for an old `continue`, TooLarge for too much."""
        headers = {"Accept": _METADATA_LIST} if metadata_only else {}
        query = {"limit": str(PAGE), **params}
        path = kind.path(namespace)
        for attempt in range(PATIENCE):
            try:
                response, content = await self._bounded(path, query, headers)
            except httpx.TransportError as error:
                metrics.REQUESTS.labels("<error>", "GET").inc()
                if isinstance(error, (httpx.ReadError, httpx.RemoteProtocolError)) and not attempt:
                    continue
                raise Transient(f"GET {path}: {type(error).__name__} {error}") from error
            metrics.REQUESTS.labels(str(response.status_code), "GET").inc()
            if response.status_code == _OK:
                return cut_deep(content)
            await self._wait_or_raise(response, content, f"GET {path}", attempt)
        raise Transient(f"GET {path}: the connection was closed twice")

    async def _bounded(
        self, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[httpx.Response, bytes]:
        content = bytearray()
        async with self._http.stream("GET", path, params=query, headers=headers, extensions=INFORMER) as response:
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > LARGEST_PAGE and int(query["limit"]) > 1:
                    raise TooLarge(f"GET {path}: {query['limit']} objects have more than {LARGEST_PAGE} bytes")
        return response, bytes(content)

    async def watch(
        self, kind: Kind, namespace: str | None, params: Mapping[str, str], *, metadata_only: bool = False
    ) -> AsyncIterator[bytes]:
        """Yield the lines of a watch until the server ends it. Raises as the other verbs do, and WatchSilent."""
        query = {"watch": "1", "allowWatchBookmarks": "true", **params}
        # Lines as they are sent: nothing is to be unpacked.
        headers = {"Accept-Encoding": "identity"} | ({"Accept": _METADATA_ONLY} if metadata_only else {})
        path, timeout = kind.path(namespace), httpx.Timeout(10, read=SILENCE)
        options: dict[str, Any] = {"params": query, "headers": headers, "timeout": timeout, "extensions": INFORMER}
        try:
            async with self._http.stream("GET", path, **options) as response:
                metrics.REQUESTS.labels(str(response.status_code), "WATCH").inc()
                if response.status_code != _OK:
                    raise error_of(response.status_code, await response.aread(), f"GET {path}")
                rest = b""
                async for chunk in response.aiter_raw():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield cut_deep(line)
        except httpx.ReadTimeout as error:
            raise WatchSilent(f"watch of {kind.plural}: no data for {SILENCE:g} s") from error
        except httpx.TransportError as error:
            raise Transient(f"watch of {kind.plural}: {type(error).__name__} {error}") from error

    async def apply(self, kind: Kind, obj: Object) -> Object:
        """Apply `obj` on the server: every field of it is as given afterwards, except `kind.newer_fields` that the
        server does not know. Returns the whole object. Raises Missing, with the CRD to install, for an optional kind
        that is not installed.
        """
        try:
            with naming_role(kind):
                return await self._apply_known(kind, obj)
        except Missing as error:
            if not kind.optional:
                raise
            crd = f"{kind.plural}.{kind.group}"
            message = f"this cluster does not serve {kind.kind} ({kind.api_version}); install the CRD {crd}"
            raise Missing(message) from error

    async def _apply_known(self, kind: Kind, obj: Object) -> Object:
        try:
            return await self._apply(kind, obj, None)
        except SpecError as error:
            message = str(error)
            unknown = {field for field in kind.newer_fields if f".spec.{field}" in message}
            if not unknown or "field not declared in schema" not in message:
                raise
        spec = {field: value for field, value in obj["spec"].items() if field not in unknown}
        return await self._apply(kind, {**obj, "spec": spec}, None)

    async def disown_fields(self, kind: Kind, obj: Object) -> Object:
        """Make the fields of `obj` stay as they are when `apply` no longer names them. Raises Conflict where they have
        other values by now: then they have another owner already.
        """
        query = {"fieldManager": f"{FIELD_MANAGER}-left", "force": "false"}
        path = kind.path(obj["metadata"]["namespace"], obj["metadata"]["name"])
        return _object(await self._request("PATCH", path, obj, APPLY, params=query))

    async def apply_status(self, kind: Kind, obj: Object) -> Object:
        """Apply `obj["status"]` on the server. Raises Missing where the object is gone, Conflict for another uid."""
        return await self._apply(kind, obj, "status")

    async def _apply(self, kind: Kind, obj: Object, sub: str | None) -> Object:
        meta = obj["metadata"]
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = kind.path(meta["namespace"], meta["name"], sub)
        return _object(await self._request("PATCH", path, obj, APPLY, params=query))

    async def create(self, kind: Kind, obj: Object, *, manager: str = FIELD_MANAGER) -> Object:
        """Create an object, and return it. Raises Conflict when it exists."""
        path = kind.path(obj["metadata"]["namespace"])
        query = {"fieldManager": manager}
        return _object(await self._request("POST", path, obj, params=query, fenced=kind not in UNFENCED))

    async def replace(self, kind: Kind, obj: Object, sub: str | None = None) -> Object:
        """Replace an object, and return it. Raises Conflict where `metadata.resourceVersion` is not the present one."""
        meta = obj["metadata"]
        path, query = kind.path(meta["namespace"], meta["name"], sub), {"fieldManager": FIELD_MANAGER}
        return _object(await self._request("PUT", path, obj, params=query, fenced=kind not in UNFENCED))

    async def patch_json(self, kind: Kind, namespace: str, name: str, operations: list[Object]) -> Object:
        """Send a JSON patch (RFC 6902). Raises SpecError when a test in it fails, Missing when the object is gone."""
        path, query = kind.path(namespace, name), {"fieldManager": FIELD_MANAGER}
        return _object(await self._request("PATCH", path, operations, "application/json-patch+json", params=query))

    async def merge(self, kind: Kind, obj: Object, *, manager: str = FIELD_MANAGER) -> Object:
        """Send a merge patch (RFC 7386): it replaces whole lists. Raises Conflict for another uid."""
        meta = obj["metadata"]
        path, query = kind.path(meta["namespace"], meta["name"]), {"fieldManager": manager}
        return _object(await self._request("PATCH", path, obj, "application/merge-patch+json", params=query))

    async def annotate(self, kind: Kind, live: Object, annotations: Mapping[str, str | None], *, manager: str) -> None:
        """Set annotations of exactly that object, and remove those that are None. Raises Conflict for another uid."""
        meta = {name: live["metadata"][name] for name in ("name", "namespace", "uid")}
        path, body = kind.path(meta["namespace"], meta["name"]), {"metadata": {**meta, "annotations": annotations}}
        await self._request("PATCH", path, body, "application/merge-patch+json", params={"fieldManager": manager})

    async def patch(self, kind: Kind, namespace: str | None, name: str, changes: Object, *, manager: str) -> Object:
        """Send a strategic merge patch: maps are merged, None removes, entries of lists are found by their key. Raises
        Missing where the object is gone, SpecError where `metadata.uid` is that of another.
        """
        path, query = kind.path(namespace, name), {"fieldManager": manager}
        return _object(
            await self._request("PATCH", path, changes, "application/strategic-merge-patch+json", params=query)
        )

    async def merge_status(self, kind: Kind, namespace: str, name: str, status: Object) -> Object:
        """Send a merge patch (RFC 7386) of the status."""
        path, query = kind.path(namespace, name, "status"), {"fieldManager": FIELD_MANAGER}
        body, content = {"status": status}, "application/merge-patch+json"
        return _object(await self._request("PATCH", path, body, content, params=query))

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str, policy: str) -> Object | None:
        """Delete exactly the object with that uid; `policy` is Background, Foreground or Orphan.

        Returns what is left of it while finalizers hold it, None when it is gone. Raises Conflict for another uid.
        """
        body = {"preconditions": {"uid": uid}, "propagationPolicy": policy}
        try:
            with naming_role(kind):
                remainder = _object(await self._request("DELETE", kind.path(namespace, name), body))
        except Missing:
            return None
        return remainder if remainder.get("kind") == kind.kind and "uid" in remainder.get("metadata", {}) else None


def _object(content: bytes) -> Object:
    return cast("Object", msgspec.json.decode(cut_deep(content)))
