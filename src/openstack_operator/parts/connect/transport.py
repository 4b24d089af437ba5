"""Transport URLs of RabbitMQ, as oslo.messaging reads them."""

from __future__ import annotations

from urllib.parse import quote


def rabbit_url(hosts: str, vhost: str, trust: str) -> str:
    """Return the URL of a virtual host at `hosts`, `user:password@host:port` with commas between them. `trust` is the
    path of the authorities to verify them with; empty for plain text.
    """
    return with_tls(f"rabbit://{hosts}/{quote(vhost, safe='')}", trust)


def with_tls(url: str, trust: str) -> str:
    """Return a URL without options with those of TLS."""
    # Parameters of the URL win over the options of the same names, so that each broker has its own.
    return url + (f"?ssl=true&ssl_ca_file={trust}&ssl_enforce_hostname_verification=true" if trust else "")
