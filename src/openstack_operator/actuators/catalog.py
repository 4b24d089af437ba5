"""KeystoneService: an entry of the catalog and its endpoints in one region, over the identity API."""

from __future__ import annotations

from contextlib import suppress
from typing import NotRequired

from ..plan import Context, Drifted
from . import loop
from .keystone import Identified, Keystone, NamedRow, session
from .loop import Conflict, Facets
from .models import KeystoneServiceSpec


class _Service(NamedRow):
    enabled: bool
    description: NotRequired[str | None]


class _Endpoint(Identified):
    region_id: str | None
    interface: str
    url: str
    enabled: bool


class Service:
    """The entry of the catalog."""

    path = "spec.name"

    def __init__(self, keystone: Keystone, spec: KeystoneServiceSpec) -> None:
        self.name = f"service {spec.name} ({spec.type})"
        self.id = ""
        self._keystone = keystone
        self._spec = spec
        self._duplicates: list[_Service] = []

    @property
    def desired(self) -> Facets:
        return {"enabled": True, "description": self._spec.description, "duplicates": 0}

    def find(self) -> Facets | None:
        called = {"type": self._spec.type, "name": self._spec.name}
        # Services may have the same name, so one that Keystone takes for it is just another one.
        rows = [row for row in self._keystone.rows("services", _Service, **called) if row["name"] == self._spec.name]
        if not rows:
            return None
        if len(rows) > 1:
            # Clients use the one with endpoints, and Keystone removes the endpoints of a service with it.
            rows.sort(key=lambda row: -len(self._keystone.rows("endpoints", _Endpoint, service_id=row["id"])))
        service, *self._duplicates = rows
        self.id = service["id"]
        return {
            "enabled": service["enabled"],
            "description": service.get("description") or "",
            "duplicates": len(self._duplicates),
        }

    def create(self) -> None:
        values = {"type": self._spec.type, "name": self._spec.name, "description": self._spec.description}
        self.id = self._keystone.create("service", values)

    def update(self, changed: frozenset[str]) -> None:
        for row in self._duplicates:
            self._keystone.delete("service", row["id"])
        if changed - {"duplicates"}:
            self._keystone.update("service", self.id, {"enabled": True, "description": self._spec.description})

    def delete(self) -> None:
        """Delete the service once no region has an endpoint of it."""
        if not self._keystone.rows("endpoints", _Endpoint, service_id=self.id):
            self._keystone.delete("service", self.id)


_IDENTITY = "identity"


class KeptService(Service):
    """The entry where K-ORC makes it and keeps it enabled and described."""

    @property
    def desired(self) -> Facets:
        return {}

    def find(self) -> Facets | None:
        facets = super().find()
        if facets is None or not facets["enabled"]:
            raise Drifted(f"{self.name} is {'disabled' if facets else 'not'} in Keystone, where K-ORC is to keep it")
        return {}


class Endpoints:
    """The endpoints of a service in one region, looked at together: one request lists them all."""

    path = "spec.endpoints"

    def __init__(self, keystone: Keystone, spec: KeystoneServiceSpec, service: Service) -> None:
        self.name = f"endpoints of {spec.name} in {spec.region}"
        self._keystone = keystone
        self._region = spec.region
        self._urls = {name: url for name, url in spec.endpoints.model_dump().items() if url}
        self._service = service
        self._rows: list[_Endpoint] = []

    @property
    def desired(self) -> Facets:
        return {interface: [(url, True)] for interface, url in self._urls.items()}

    def find(self) -> Facets | None:
        rows = self._keystone.rows("endpoints", _Endpoint, service_id=self._service.id) if self._service.id else []
        self._rows = [row for row in rows if row["region_id"] == self._region]
        facets: dict[str, list[tuple[str, bool]]] = {row["interface"]: [] for row in self._rows}
        for row in self._rows:
            facets[row["interface"]].append((row["url"], row["enabled"]))
        return facets or None

    def _of(self, interface: str) -> list[_Endpoint]:
        return [row for row in self._rows if row["interface"] == interface]

    def create(self) -> None:
        with suppress(Conflict):  # most often it exists already
            self._keystone.create("region", {"id": self._region})
        self.update(frozenset(self._urls))

    def update(self, changed: frozenset[str]) -> None:
        for interface in sorted(changed):
            rows, url = self._of(interface), self._urls.get(interface)
            remaining = rows[:1] if url else []
            for row in rows[len(remaining) :]:
                self._keystone.delete("endpoint", row["id"])
            values = {"url": url, "enabled": True}
            if remaining:
                self._keystone.update("endpoint", remaining[0]["id"], values)
            elif url:
                place = {"service_id": self._service.id, "region_id": self._region, "interface": interface}
                self._keystone.create("endpoint", {**place, **values})

    def delete(self) -> None:
        for row in self._rows:
            self._keystone.delete("endpoint", row["id"])


def ensure(ctx: Context[KeystoneServiceSpec]) -> list[str]:
    """Make service and endpoints as the spec says, each once, and return what was changed."""
    keystone = session(ctx, ctx.spec.keystone_ref)
    # K-ORC finds Keystone by Keystone's own entry, so that one is created first, and K-ORC adopts it.
    keeper = KeptService if ctx.spec.provider == "k-orc" and ctx.spec.type != _IDENTITY else Service
    service = keeper(keystone, ctx.spec)
    return loop.ensure((service, Endpoints(keystone, ctx.spec, service)))


def remove(ctx: Context[KeystoneServiceSpec]) -> None:
    """Delete the endpoints in this region, and the service if no other region has one. What belongs to another resource
    stays.
    """
    if ctx.conflicting_fields:
        return
    keystone = session(ctx, ctx.spec.keystone_ref)
    service = Service(keystone, ctx.spec)
    if service.find() is not None:
        loop.remove((Endpoints(keystone, ctx.spec, service), service))
