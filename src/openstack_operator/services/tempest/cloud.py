"""What a run needs to know of a cloud, and makes in it for as long as it lasts: plain HTTP, in Tempest's own pod."""

from __future__ import annotations

import json
import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode

SERVICES = {
    "compute": ("nova", ("compute",)),
    "identity": ("", ("identity",)),
    "image": ("glance", ("image",)),
    "network": ("neutron", ("network",)),
    "object-storage": ("swift", ("object-store",)),
    "volume": ("cinder", ("volumev3", "block-storage")),
}
"""Services that can be tested: Tempest's name of each, none where it is always there, and its types in the catalog."""

_SIZES = {"tempest": 256, "tempest-alt": 384}
"""Flavors made where there is none, and their memory in MiB."""
_SECONDS = 60


class CloudError(Exception):
    """Why a run cannot begin, for whoever reads the status."""


class NotOfferedError(CloudError):
    """The service has no such API, or denies it to this user."""


class Cloud:
    """A session with one region of a cloud."""

    def __init__(self, wanted: Mapping[str, Any]) -> None:
        """Logs in. Raises CloudError where the Identity API does not let it."""
        self._wanted = wanted
        self._trust = ssl.create_default_context(cafile=wanted["trust"] or None)
        answer, headers = self._call("POST", f"{self.identity}/auth/tokens", {"auth": wanted["auth"]})
        self._token = headers["X-Subject-Token"]
        self.project: dict[str, Any] = answer["token"].get("project") or {}
        self._catalog: list[dict[str, Any]] = answer["token"].get("catalog") or []

    @property
    def identity(self) -> str:
        """URL of the Identity API, with its version."""
        url: str = self._wanted["url"].rstrip("/")
        return url if url.endswith("/v3") else f"{url}/v3"

    def endpoint(self, service: str) -> str:
        """URL of a service in this region, without a version; empty where the catalog has none."""
        for entry in self._catalog:
            for found in entry["endpoints"] if entry["type"] in SERVICES[service][1] else ():
                if (found["interface"], found["region"]) == (self._wanted["interface"], self._wanted["region"]):
                    return found["url"].rstrip("/").removesuffix("/v2").removesuffix("/v2.0")
        return ""

    def ask(self, method: str, url: str, body: Any = None, **query: str) -> Any:
        """What an API answers. Raises CloudError."""
        return self._call(method, f"{url}?{urlencode(query)}" if query else url, body)[0]

    def _call(self, method: str, url: str, body: Any = None) -> tuple[Any, Mapping[str, str]]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= {"X-Auth-Token": self._token} if hasattr(self, "_token") else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310  (http, says the CRD)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS, context=self._trust) as answer:  # noqa: S310
                return json.loads(answer.read() or "null"), answer.headers
        except urllib.error.HTTPError as error:
            kind = NotOfferedError if error.code in (403, 404) else CloudError
            raise kind(f"{method} {url}: {error.code} {error.read(300).decode(errors='replace')}") from None
        except (OSError, ValueError) as error:
            raise CloudError(f"{method} {url}: {error}") from None


def found(cloud: Cloud, wanted: Mapping[str, Any], end: ExitStack) -> dict[str, dict[str, Any]]:
    """Options of tempest.conf that only the cloud knows, by section. What is made for the run goes when `end` does.

    Raises CloudError, with the field of the spec that names what is not there.
    """
    tested = _tested(cloud, wanted["services"])
    # A dashboard is in no catalog, and Tempest would look for one at localhost.
    available = {option: name in tested for name, (option, _) in SERVICES.items() if option} | {"horizon": False}
    options: dict[str, dict[str, Any]] = {"service_available": available}
    if wanted["administrator"]:
        options["auth"] = _administrator(cloud, wanted["administrator"], end)
    # A service that is not tested may still be what servers are made with.
    image = _image(cloud, wanted["image"]) if cloud.endpoint("image") else {}
    if cloud.endpoint("image"):
        options |= {"image": _formats(cloud), "image-feature-enabled": _stores(cloud)}
    if cloud.endpoint("compute"):
        options["compute"] = _servers(cloud, image, wanted["flavor"], end) | _hypervisors(cloud)
    if cloud.endpoint("network"):
        options |= {"network": _network(cloud, wanted["network"]), "network-feature-enabled": _extensions(cloud)}
    return options


def _tested(cloud: Cloud, asked: list[str] | None) -> set[str]:
    there = {name for name in SERVICES if cloud.endpoint(name)} | {"identity"}
    if asked is None:
        return there
    if missing := sorted(set(asked) - there):
        raise CloudError(f"spec.tests.services: Keystone's catalog has no {' and no '.join(missing)} in this region")
    return set(asked)


def _named(wanted: str | None, entries: list[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    """The entries of that name or id, or all. Raises CloudError where there is none of it."""
    if wanted is None:
        return entries
    if chosen := [entry for entry in entries if wanted in (entry["name"], entry["id"])]:
        return chosen
    raise CloudError(f"spec.tests.{what}: the cloud has no {what} {wanted!r} to test with; create it, or unset {what}")


def _image(cloud: Cloud, wanted: str | None) -> dict[str, Any]:
    query = {"status": "active", "sort": "size:asc", **({"name": wanted} if wanted else {"visibility": "public"})}
    listed = cloud.ask("GET", f"{cloud.endpoint('image')}/v2/images", **query)["images"]
    return next(iter(_named(wanted, listed, "image")), {})


def _formats(cloud: Cloud) -> dict[str, Any]:
    """Formats an image may have, the one of servers' images first: Tempest makes most images of the first."""
    schema = cloud.ask("GET", f"{cloud.endpoint('image')}/v2/schemas/image")["properties"]
    formats: dict[str, Any] = {}
    for name, first in (("container_format", "bare"), ("disk_format", "qcow2")):
        # An image may have none yet: one of the entries is null.
        listed = [each for each in schema.get(name, {}).get("enum", ()) if each]
        if listed:
            formats[f"{name}s"] = ",".join(sorted(listed, key=lambda each, first=first: each != first))
    return formats


def _stores(cloud: Cloud) -> dict[str, Any]:
    """What the Image API's stores can do; nothing where it has one store alone, and so no list of them."""
    try:
        stores = cloud.ask("GET", f"{cloud.endpoint('image')}/v2/info/stores/detail")["stores"]
    except NotOfferedError:
        return {}
    weights = {store.get("weight", 0) for store in stores}
    return {
        "http_store_enabled": any(store.get("type") == "http" for store in stores),
        "store_weight_enabled": len(weights) > 1,
    }


def _servers(cloud: Cloud, image: Mapping[str, Any], wanted: str | None, end: ExitStack) -> dict[str, Any]:
    """Image and flavor of servers, and the flavor they are resized to."""
    url = f"{cloud.endpoint('compute')}/flavors"
    listed: list[dict[str, Any]] = cloud.ask("GET", f"{url}/detail", sort_key="memory_mb", sort_dir="asc")["flavors"]
    listed = listed or [_flavor(cloud, url, name, end) for name in _SIZES]
    ram, disk = image.get("min_ram", 0), image.get("min_disk", 0)
    fit = [each for each in listed if each["ram"] >= ram and each["disk"] >= disk]
    chosen = next(iter(_named(wanted, listed if wanted else fit, "flavor")), None)
    other = next((each for each in fit if each is not chosen), chosen)
    known = {"image_ref": image.get("id"), "image_ref_alt": image.get("id")}
    if chosen and other:
        known |= {"flavor_ref": chosen["id"], "flavor_ref_alt": other["id"]}
    return {name: value for name, value in known.items() if value}


def _flavor(cloud: Cloud, url: str, name: str, end: ExitStack) -> dict[str, Any]:
    made = cloud.ask("POST", url, {"flavor": {"name": name, "ram": _SIZES[name], "vcpus": 1, "disk": 1}})["flavor"]
    end.callback(_leave_out, lambda: cloud.ask("DELETE", f"{url}/{made['id']}"))
    return made


def _hypervisors(cloud: Cloud) -> dict[str, Any]:
    """How many there are, and the newest microversion of their API: without it Tempest tests none."""
    url = cloud.endpoint("compute")
    services = cloud.ask("GET", f"{url}/os-services", binary="nova-compute")["services"]
    usable = [each for each in services if (each["state"], each["status"]) == ("up", "enabled")]
    newest = cloud.ask("GET", f"{url}/")["version"].get("version")
    return {"min_compute_nodes": max(1, len(usable)), **({"max_microversion": newest} if newest else {})}


def _network(cloud: Cloud, wanted: str | None) -> dict[str, Any]:
    url = f"{cloud.endpoint('network')}/v2.0/networks"
    listed = cloud.ask("GET", url, **{"router:external": "true", "sort_key": "name", "sort_dir": "asc"})["networks"]
    chosen = next(iter(_named(wanted, listed, "network")), None)
    return {"public_network_id": chosen["id"], "floating_network_name": chosen["name"]} if chosen else {}


def _extensions(cloud: Cloud) -> dict[str, Any]:
    """The extensions there are: Tempest takes all for granted, and fails where one is not."""
    listed = cloud.ask("GET", f"{cloud.endpoint('network')}/v2.0/extensions")["extensions"]
    aliases = sorted(each["alias"] for each in listed)
    return {
        "api_extensions": ",".join(aliases),
        "port_security": "port-security" in aliases,
        # No extension, but a part of every subnet.
        "ipv6_subnet_attributes": True,
    }


def _administrator(cloud: Cloud, name: str, end: ExitStack) -> dict[str, Any]:
    """One with a password, in the project of the application credential. One that a run which was killed has left is
    taken over.
    """
    url, domain, password = f"{cloud.identity}/users", cloud.project["domain"], secrets.token_urlsafe(24)
    user = {"name": name, "domain_id": domain["id"], "password": password, "enabled": True}
    left = cloud.ask("GET", url, name=name, domain_id=domain["id"])["users"]
    if left:
        made = cloud.ask("PATCH", f"{url}/{left[0]['id']}", {"user": user})["user"]
    else:
        made = cloud.ask("POST", url, {"user": user})["user"]
    end.callback(_leave_out, lambda: cloud.ask("DELETE", f"{url}/{made['id']}"))
    roles = cloud.ask("GET", f"{cloud.identity}/roles", name="admin")["roles"]
    if not roles:
        raise CloudError("Keystone has no role admin")
    project = cloud.project["id"]
    cloud.ask("PUT", f"{cloud.identity}/projects/{project}/users/{made['id']}/roles/{roles[0]['id']}")
    return {
        "admin_username": name,
        "admin_password": password,
        "admin_project_name": cloud.project["name"],
        "admin_domain_name": domain["name"],
    }


def _leave_out(remove: Callable[[], object]) -> None:
    """Cleaning up is no part of the result."""
    try:
        remove()
    except CloudError as error:
        print(f"left behind: {error}", flush=True)
