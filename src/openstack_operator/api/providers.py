"""Who runs a server: this operator, another one, or somebody else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from .destinations import sent
from .fields import Hostname, Port, Server, Url
from .model import Destination, Model, Rule, rule
from .refs import LoginSecretRef

_ELSEWHERE = "(has(self.provider) && self.provider == 'external')"

PROVIDED: tuple[Rule, ...] = (
    rule(
        f"!{_ELSEWHERE} || has(self.external)",
        "provider external needs to know where the server is; set external",
        ".external",
    ),
    rule(
        f"{_ELSEWHERE} || !has(self.external)",
        "only provider external is somewhere else; set provider external, or remove this",
        ".external",
    ),
)
"""CEL rules of a spec with `provider` and `external`."""


class ExternalServer(Model):
    """A server that is not looked after here, and its administrator."""

    host: Hostname
    """DNS name or IPv4 address."""
    port: Port | None = None
    """Its port; unset is the usual one."""
    secret_ref: LoginSecretRef
    """A Secret with `username` and `password` of an administrator, by whom accounts are made for services; with
    `ca.crt` the server is called by TLS and checked by that. The Secret has to allow the host: annotate it with
    `openstack.k8s.io/allowed-hosts`."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where what the Secret says is sent to."""
        return (self.host,)

    def destinations(self) -> Sequence[Destination]:
        """Those of the administrator's Secret."""
        return sent({"secretRef": self.secret_ref}, *self.addresses)


class ExternalBroker(ExternalServer):
    """A RabbitMQ that is not looked after here, and its administrator."""

    management_url: Annotated[Url, Field(alias="managementURL")]
    """Where its management plugin answers, by which virtual hosts and users are made."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Both, which may be two servers."""
        return self.host, self.management_url


class ExternalCache(Model):
    """Memcached servers that are not looked after here."""

    servers: Annotated[list[Server], Field(min_length=1, max_length=64)]
    """Their addresses; ports are 11211 unless they are said."""
