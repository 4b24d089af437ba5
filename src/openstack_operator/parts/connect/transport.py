"""Virtual hosts of RabbitMQ, and their transport URLs as oslo.messaging reads them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from ... import kube, oslo
from ...api import Sections
from ...plan import Step
from ..run.workloads import connected


@dataclass(frozen=True, kw_only=True, eq=False)
class Messaging(Step):
    """A virtual host of the broker and its user."""

    # One address for all members of a broker of ours: with a list of them, kombu 5.5 never leaves a member that accepts
    # a connection and then does not answer. A list of the user's stays a list: its first entry alone would fail with
    # that member, which happens more often.
    url: str
    server: str = ""
    """Resource of its server, if that is one of ours."""
    clustered: bool = False
    quorum_only: bool = False
    """True if the broker refuses queues of other types."""
    ports: frozenset[int] = frozenset()
    """Ports of the broker, if they are not the default ones."""

    @property
    def connected(self) -> kube.Probe:
        """Readiness of a program that only speaks RPC."""
        return connected(self.ports)

    def options(self, notifications: Messaging | None = None) -> Sections:
        """Return the options of a client, with the broker of its notifications."""
        return oslo.options.messaging(
            self.url,
            clustered=self.clustered,
            quorum_only=self.quorum_only,
            notifications=notifications.url if notifications else "",
        )


def rabbit_url(hosts: str, vhost: str, trust: str) -> str:
    """Return the URL of a virtual host at `hosts`, `user:password@host:port` with commas between them. `trust` is the
    path of the authorities to verify them with; empty for plain text.
    """
    return with_tls(f"rabbit://{hosts}/{quote(vhost, safe='')}", trust)


def with_tls(url: str, trust: str) -> str:
    """Return a URL without options with those of TLS."""
    # Parameters of the URL win over the options of the same names, so that each broker has its own.
    return url + (f"?ssl=true&ssl_ca_file={trust}&ssl_enforce_hostname_verification=true" if trust else "")
