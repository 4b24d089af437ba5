"""Providers of a server: this operator, another operator, or an external server."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from .destinations import sent
from .fields import HostOrAddress, Port, Server, Url
from .model import Destination, Model, Rule, rule
from .refs import LoginSecretRef

_ELSEWHERE = "(has(self.provider) && self.provider == 'external')"

PROVIDED: tuple[Rule, ...] = (
    rule(
        f"!{_ELSEWHERE} || has(self.external)",
        "provider external needs the address of the server; set external",
        ".external",
    ),
    rule(
        f"{_ELSEWHERE} || !has(self.external)",
        "this field is for provider external; set provider to external, or remove it",
        ".external",
    ),
)
"""CEL rules of a spec with `provider` and `external`."""


class ExternalServer(Model):
    """An external server, and its administrator."""

    host: HostOrAddress
    """DNS name or address of the server."""
    port: Port | None = None
    """Port of the server, the default of its protocol if unset."""
    secret_ref: LoginSecretRef
    """A Secret with `username` and `password` of an administrator, with which the operator creates accounts for
    services. With `ca.crt`, connections use TLS and verify the server with it. The Secret has to allow the host:
    annotate it with `openstack.k8s.io/allowed-hosts`."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses to which the content of the Secret is sent."""
        return (self.host,)

    def destinations(self) -> Sequence[Destination]:
        """Return the destinations of the administrator's Secret."""
        return sent({"secretRef": self.secret_ref}, *self.addresses)


class ExternalBroker(ExternalServer):
    """An external RabbitMQ, and its administrator."""

    management_url: Annotated[Url, Field(alias="managementURL")]
    """URL of its management plugin, with which the operator creates virtual hosts and users."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of both, which may be two servers."""
        return self.host, self.management_url


class ExternalCache(Model):
    """External Memcached servers."""

    servers: Annotated[list[Server], Field(min_length=1, max_length=64)]
    """Addresses of the servers. The default port is 11211."""
