"""Options of Tempest that only the cloud knows, and what a run makes in it for as long as it lasts; by plain HTTP."""

from __future__ import annotations

import json
import re
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
    "dns": ("designate", ("dns",)),
    "identity": ("", ("identity",)),
    "image": ("glance", ("image",)),
    "key-manager": ("barbican", ("key-manager",)),
    "load-balancer": ("load_balancer", ("load-balancer",)),
    "network": ("neutron", ("network",)),
    "orchestration": ("heat", ("orchestration",)),
    "object-storage": ("swift", ("object-store",)),
    "volume": ("cinder", ("volumev3", "block-storage")),
}
"""Services that can be tested: Tempest's name of each, empty if it always exists, and its types in the catalog."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LOGIN = ("admin_username", "admin_password", "admin_project_name", "admin_domain_name")
"""Options of [auth] that are the login of an administrator."""
_SIZES = {"tempest": 256, "tempest-alt": 384}
"""Flavors that a run makes in a cloud without any, and their memory in MiB."""
_AMPHORA = ("amphora", "amphorav2", "octavia")
"""Names of Octavia's own provider, which has all features."""
_PROVIDERS = ("ovn", *_AMPHORA)
"""Providers of load balancers, the one to test first: no API tells which one is the default."""
_MISSING_IN_OVN = (
    "l7_protocol_enabled",
    "pool_algorithms_enabled",
    "prometheus_listener_enabled",
    "session_persistence_enabled",
    "terminated_tls_enabled",
)
"""Features that OVN lacks. Octavia's plug-in tests each of them unless its option is false."""
_SECONDS = 60


class CloudError(Exception):
    """Reason why a run cannot begin, for the reader of the status."""


class NotOfferedError(CloudError):
    """An API that a service does not have, or denies to this user."""


class Cloud:
    """A session with one region of a cloud."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Log in. Raise CloudError if the Identity API refuses."""
        self._settings = settings
        self._trust = ssl.create_default_context(cafile=settings["trust"] or None)
        answer, headers = self._call("POST", f"{self.identity}/auth/tokens", {"auth": settings["auth"]})
        self._token = headers["X-Subject-Token"]
        self.project: dict[str, Any] = answer["token"].get("project") or {}
        self._catalog: list[dict[str, Any]] = answer["token"].get("catalog") or []

    @property
    def identity(self) -> str:
        """URL of the Identity API, with its version."""
        url: str = self._settings["url"].rstrip("/")
        return url if url.endswith("/v3") else f"{url}/v3"

    def endpoint(self, service: str) -> str:
        """Return the URL of a service in this region, without a version; empty if the catalog has none."""
        for entry in self._catalog:
            for endpoint in entry["endpoints"] if entry["type"] in SERVICES[service][1] else ():
                if all(endpoint[name] == self._settings[name] for name in ("interface", "region")):
                    return endpoint["url"].rstrip("/").removesuffix("/v2").removesuffix("/v2.0")
        return ""

    def ask(self, method: str, url: str, body: Any = None, **query: str) -> Any:
        """Return the decoded answer of an API. Raise CloudError."""
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


def discover(cloud: Cloud, settings: Mapping[str, Any], end: ExitStack) -> dict[str, dict[str, Any]]:
    """Return options of tempest.conf that only the cloud knows, by section. `end` removes what this makes for the run.

    Raise CloudError, with the field of the spec that names something which does not exist.
    """
    tested = _tested_services(cloud, settings["services"])
    # A dashboard is in no catalog, and Tempest would look for one at localhost.
    available = {option: name in tested for name, (option, _) in SERVICES.items() if option} | {"horizon": False}
    options: dict[str, dict[str, Any]] = {"service_available": available}
    if settings["administrator"]:
        options["auth"] = _administrator(cloud, settings["administrator"], end)
    # Tests make servers with the image service also if they do not test that.
    image = _image(cloud, settings["image"]) if cloud.endpoint("image") else {}
    if cloud.endpoint("image"):
        options |= {"image": _formats(cloud), "image-feature-enabled": _stores(cloud)}
    if cloud.endpoint("compute"):
        options["compute"] = _servers(cloud, image, settings["flavor"], end) | _hypervisors(cloud)
    if cloud.endpoint("network"):
        options |= {"network": _network(cloud, settings["network"]), "network-feature-enabled": _extensions(cloud)}
    if available["heat"]:
        options["heat_plugin"] = _stacks(cloud, settings, options)
    if available["load_balancer"]:
        options |= _load_balancers(cloud, settings["loadBalancerProvider"])
    return options


def _load_balancers(cloud: Cloud, chosen: str | None) -> dict[str, dict[str, Any]]:
    """Return options of Octavia's plug-in: the providers by their descriptions, which it compares, and what the tested
    one lacks, which is `chosen` or the first of `_PROVIDERS`. A provider other than Octavia's own refuses what it
    cannot do (501), so that tests of it are skipped.
    """
    try:
        providers = cloud.ask("GET", f"{cloud.endpoint('load-balancer')}/v2/lbaas/providers")["providers"]
    except NotOfferedError:
        return {}
    descriptions = {each["name"]: each.get("description") or "" for each in providers}
    provider = chosen or next((name for name in (*_PROVIDERS, *descriptions) if name in descriptions), None)
    if provider is None:
        return {}
    drivers = ",".join(f"{name}:{description}" for name, description in descriptions.items())
    features = {} if provider in _AMPHORA else {"not_implemented_is_error": False}
    if provider == "ovn":
        features |= dict.fromkeys(_MISSING_IN_OVN, False)
    return {
        "load_balancer": {"provider": provider, "enabled_provider_drivers": drivers},
        **({"loadbalancer-feature-enabled": features} if features else {}),
    }


def _stacks(cloud: Cloud, settings: Mapping[str, Any], options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return options of Heat's plug-in, whose tests use no users of Tempest's: they all run as the administrator."""
    if (login := options.get("auth")) is None:
        user, project = settings["auth"]["identity"]["password"]["user"], settings["auth"]["scope"]["project"]
        login = dict(
            zip(_LOGIN, (user["name"], user["password"], project["name"], project["domain"]["name"]), strict=True)
        )
    name, password, project_name, domain = (login[option] for option in _LOGIN)
    servers = options.get("compute", {})
    image, flavor = servers.get("image_ref", ""), servers.get("flavor_ref", "")
    return {
        **{f"{prefix}username": name for prefix in ("", "admin_")},
        **{f"{prefix}password": password for prefix in ("", "admin_")},
        **{f"{prefix}project_name": project_name for prefix in ("", "admin_")},
        **{f"{owner}_domain_name": domain for owner in ("user", "project")},
        "auth_url": cloud.identity,
        **({"ca_file": settings["trust"]} if settings["trust"] else {}),
        **({"image_ref": image, "minimal_image_ref": image} if image else {}),
        **({"instance_type": flavor, "minimal_instance_type": flavor} if flavor else {}),
        **{name: value for name, value in options.get("network", {}).items() if name == "floating_network_name"},
    }


def _tested_services(cloud: Cloud, services: list[str] | None) -> set[str]:
    in_catalog = {name for name in SERVICES if cloud.endpoint(name)} | {"identity"}
    if services is None:
        return in_catalog
    if missing := sorted(set(services) - in_catalog):
        raise CloudError(f"spec.tests.services: Keystone's catalog has no {' and no '.join(missing)} in this region")
    return set(services)


def _select(name: str | None, entries: list[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """Return the entries of that name or id; all without a name. Raise CloudError if there is none of it."""
    if name is None:
        return entries
    if selection := [entry for entry in entries if name in (entry["name"], entry["id"])]:
        return selection
    raise CloudError(f"spec.tests.{field}: the cloud has no {field} {name!r} to test with; create it, or unset {field}")


def _image(cloud: Cloud, name: str | None) -> dict[str, Any]:
    """Return the smallest image of that name, or the one of that id, among those that no user of the cloud uploaded for
    themselves: each user may give an image any name.
    """
    query = {"visibility": "public"}
    if name:
        query = {"id": f"in:{name}"} if _UUID.fullmatch(name) else {"name": name}
    url = f"{cloud.endpoint('image')}/v2/images"
    images = cloud.ask("GET", url, status="active", sort="size:asc", **query)["images"]
    trusted = [each for each in images if each["visibility"] == "public" or each["owner"] == cloud.project["id"]]
    return next(iter(_select(name, trusted, "image")), {})


def _formats(cloud: Cloud) -> dict[str, Any]:
    """Return formats of images, those of servers' images first: Tempest makes most images of the first format."""
    schema = cloud.ask("GET", f"{cloud.endpoint('image')}/v2/schemas/image")["properties"]
    formats: dict[str, Any] = {}
    for name, preferred in (("container_format", "bare"), ("disk_format", "qcow2")):
        # An image may have none yet: one of the entries is null.
        values = [value for value in schema.get(name, {}).get("enum", ()) if value]
        if values:
            formats[f"{name}s"] = ",".join(sorted(values, key=lambda value, preferred=preferred: value != preferred))
    return formats


def _stores(cloud: Cloud) -> dict[str, Any]:
    """Return features of the Image API's stores; nothing from one that has a single store, and so no list of them."""
    try:
        stores = cloud.ask("GET", f"{cloud.endpoint('image')}/v2/info/stores/detail")["stores"]
    except NotOfferedError:
        return {}
    weights = {store.get("weight", 0) for store in stores}
    return {
        "http_store_enabled": any(store.get("type") == "http" for store in stores),
        "store_weight_enabled": len(weights) > 1,
    }


def _servers(cloud: Cloud, image: Mapping[str, Any], name: str | None, end: ExitStack) -> dict[str, Any]:
    """Return image and flavor of servers, and the flavor to which tests resize them."""
    url = f"{cloud.endpoint('compute')}/flavors"
    flavors: list[dict[str, Any]] = cloud.ask("GET", f"{url}/detail", sort_key="memory_mb", sort_dir="asc")["flavors"]
    flavors = flavors or [_make_flavor(cloud, url, size, end) for size in _SIZES]
    ram, disk = image.get("min_ram", 0), image.get("min_disk", 0)
    fit = [flavor for flavor in flavors if flavor["ram"] >= ram and flavor["disk"] >= disk]
    flavor = next(iter(_select(name, flavors if name else fit, "flavor")), None)
    alternative = next((each for each in fit if each is not flavor), flavor)
    options = {"image_ref": image.get("id"), "image_ref_alt": image.get("id")}
    if flavor and alternative:
        options |= {"flavor_ref": flavor["id"], "flavor_ref_alt": alternative["id"]}
    return {option: value for option, value in options.items() if value}


def _make_flavor(cloud: Cloud, url: str, name: str, end: ExitStack) -> dict[str, Any]:
    flavor = cloud.ask("POST", url, {"flavor": {"name": name, "ram": _SIZES[name], "vcpus": 1, "disk": 1}})["flavor"]
    end.callback(_clean_up, lambda: cloud.ask("DELETE", f"{url}/{flavor['id']}"))
    return flavor


def _hypervisors(cloud: Cloud) -> dict[str, Any]:
    """Return their number, and the newest microversion of their API: without it Tempest tests none."""
    url = cloud.endpoint("compute")
    services = cloud.ask("GET", f"{url}/os-services", binary="nova-compute")["services"]
    usable = [service for service in services if (service["state"], service["status"]) == ("up", "enabled")]
    newest = cloud.ask("GET", f"{url}/")["version"].get("version")
    return {"min_compute_nodes": max(1, len(usable)), **({"max_microversion": newest} if newest else {})}


def _network(cloud: Cloud, name: str | None) -> dict[str, Any]:
    """Return the external network of that name or id, or the first one, of those that are external for each project: a
    user may make one of their own external for a project.
    """
    url = f"{cloud.endpoint('network')}/v2.0"
    sorting = {"sort_key": "name", "sort_dir": "asc"}
    networks = cloud.ask("GET", f"{url}/networks", **{"router:external": "true", **sorting})["networks"]
    query = {"object_type": "network", "action": "access_as_external", "target_tenant": "*"}
    policies = cloud.ask("GET", f"{url}/rbac-policies", **query)["rbac_policies"]
    for_all = {each["object_id"] for each in policies if each.get("target_tenant") == "*"}
    network = next(iter(_select(name, [each for each in networks if each["id"] in for_all], "network")), None)
    return {"public_network_id": network["id"], "floating_network_name": network["name"]} if network else {}


def _extensions(cloud: Cloud) -> dict[str, Any]:
    """Return the extensions of Neutron: without a list, Tempest takes all for granted, and fails if one is missing."""
    extensions = cloud.ask("GET", f"{cloud.endpoint('network')}/v2.0/extensions")["extensions"]
    aliases = sorted(extension["alias"] for extension in extensions)
    return {
        "api_extensions": ",".join(aliases),
        "port_security": "port-security" in aliases,
        # Every subnet has them, without an extension.
        "ipv6_subnet_attributes": True,
    }


def _administrator(cloud: Cloud, name: str, end: ExitStack) -> dict[str, Any]:
    """Return the options of an administrator with a password, in the project of the application credential. Take over
    one that exists: a run that was killed did not delete it.
    """
    url, domain, password = f"{cloud.identity}/users", cloud.project["domain"], secrets.token_urlsafe(24)
    user = {"name": name, "domain_id": domain["id"], "password": password, "enabled": True}
    live = cloud.ask("GET", url, name=name, domain_id=domain["id"])["users"]
    if live:
        account = cloud.ask("PATCH", f"{url}/{live[0]['id']}", {"user": user})["user"]
    else:
        account = cloud.ask("POST", url, {"user": user})["user"]
    end.callback(_clean_up, lambda: cloud.ask("DELETE", f"{url}/{account['id']}"))
    roles = cloud.ask("GET", f"{cloud.identity}/roles", name="admin")["roles"]
    if not roles:
        raise CloudError("Keystone has no role admin")
    project = cloud.project["id"]
    cloud.ask("PUT", f"{cloud.identity}/projects/{project}/users/{account['id']}/roles/{roles[0]['id']}")
    return dict(zip(_LOGIN, (name, password, cloud.project["name"], domain["name"]), strict=True))


def _clean_up(remove: Callable[[], object]) -> None:
    """Remove something; a failure changes no result of a test."""
    try:
        remove()
    except CloudError as error:
        print(f"not removed: {error}", flush=True)
