"""Writes to the services that are off by default: secrets, zones, stacks and load balancers; and the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import requests

from tools.localcluster.kubernetes import ours

from .api import Access, Api
from .load import Client, Writer
from .site import Object, Site
from .writers import Turnover

OPTIONAL = ("barbican", "designate", "heat", "horizon", "octavia")
"""Fields of a control plane's spec by the services."""
FURTHER: Object = {"designate": {"quotas": {"zones": 1_000}}}
"""Further fields of a control plane's spec by the services: Designate allows a project ten zones."""
_ZONE = ".chaos.example."
_TEMPLATE: Object = {
    "heat_template_version": "2021-04-16",
    "resources": {"word": {"type": "OS::Heat::RandomString"}},
}


def enabled(site: Site) -> list[str]:
    """Return which of the services that are off by default the cloud has. Raises KubeError."""
    spec = site.get(ours("openstackcontrolplane"), site.plane)["spec"]
    return [service for service in OPTIONAL if spec.get(service, {}).get("enabled")]


class Secrets(Turnover):
    """Secrets in Barbican, whose payload is their name."""

    kind: str = "secrets"
    interval: float = 10.0
    service = "key-manager"

    def create(self, key: str) -> str:
        body = {"name": key, "payload": key, "payload_content_type": "text/plain"}
        answer = self._api.json(self.service, "POST", "/v1/secrets", json=body)
        return f"/v1/secrets/{answer['secret_ref'].rpartition('/')[2]}"

    def listed(self) -> set[str]:
        return {
            secret["name"]
            for secret in self._api.listed(self.service, "/v1/secrets?limit=100", "secrets")
            if self._payload(secret) == secret["name"]
        }

    def _payload(self, secret: Object) -> str:
        path = f"/v1/secrets/{secret['secret_ref'].rpartition('/')[2]}/payload"
        return self._api.call(self.service, "GET", path, headers={"Accept": "text/plain"}).text


class Zones(Turnover):
    """Zones in Designate."""

    kind: str = "zones"
    interval: float = 20.0
    service = "dns"

    def create(self, key: str) -> str:
        body = {"name": f"{key}{_ZONE}", "email": "hostmaster@example.org"}
        return f"/v2/zones/{self._api.json(self.service, 'POST', '/v2/zones', json=body)['id']}"

    def listed(self) -> set[str]:
        zones = self._api.listed(self.service, "/v2/zones?limit=100", "zones")
        return {zone["name"].removesuffix(_ZONE) for zone in zones}


class Stacks(Turnover):
    """Stacks in Heat, of one resource that needs no other service."""

    kind: str = "stacks"
    interval: float = 30.0
    service = "orchestration"

    def create(self, key: str) -> str:
        body = {"stack_name": key, "template": _TEMPLATE}
        return f"/stacks/{key}/{self._api.json(self.service, 'POST', '/stacks', json=body)['stack']['id']}"

    def listed(self) -> set[str]:
        stacks = self._api.json(self.service, "GET", "/stacks")["stacks"]
        return {stack["stack_name"] for stack in stacks if not stack["stack_status"].endswith("_FAILED")}


_CREATE_TIMEOUT = 30.0
"""Seconds: Octavia asks Keystone and Neutron several times before it answers."""


class LoadBalancers(Turnover):
    """Load balancers in Octavia, without listeners."""

    kind: str = "load balancers"
    interval: float = 30.0
    service = "load-balancer"

    def __init__(self, api: Api, subnet: str) -> None:
        super().__init__(api)
        self._subnet = subnet

    def create(self, key: str) -> str:
        body = {"loadbalancer": {"name": key, "vip_subnet_id": self._subnet}}
        path = "/v2/lbaas/loadbalancers"
        answer = self._api.json(self.service, "POST", path, json=body, timeout=_CREATE_TIMEOUT)
        return f"/v2/lbaas/loadbalancers/{answer['loadbalancer']['id']}"

    def listed(self) -> set[str]:
        path = "/v2/lbaas/loadbalancers?limit=100&fields=name&fields=provisioning_status"
        balancers = self._api.listed(self.service, path, "loadbalancers")
        return {each["name"] for each in balancers if each["provisioning_status"] != "ERROR"}


@dataclass
class Dashboard:
    """The page on which users log in to Horizon."""

    site: Site
    access: Access
    kind: str = "dashboard"
    interval: float = 2.0
    _url: str = ""

    def attempt(self, number: int) -> str:
        del number
        self._url = self._url or self.site.get(ours("horizon"), "horizon")["status"]["endpoint"].rstrip("/")
        self.access.plugin()
        answer = requests.get(f"{self._url}/auth/login/", verify=self.access.verify, timeout=self.access.timeout)
        answer.raise_for_status()
        return ""


def writers(services: Sequence[str], access: Access, subnet: str) -> list[Writer]:
    """Return a writer for each service that has an API."""
    writers_by_service: dict[str, Any] = {
        "barbican": lambda: Secrets(Api(access)),
        "designate": lambda: Zones(Api(access)),
        "heat": lambda: Stacks(Api(access)),
        "octavia": lambda: LoadBalancers(Api(access), subnet),
    }
    return [writers_by_service[service]() for service in services if service in writers_by_service]


def readers(services: Sequence[str], site: Site, access: Access) -> list[Client]:
    """Return a client of the dashboard, if the cloud has one."""
    return [Dashboard(site, access)] if "horizon" in services else []
