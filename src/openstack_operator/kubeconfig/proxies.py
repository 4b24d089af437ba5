"""The proxy before an API server: what the kubeconfig says, or the environment, as Go programs read it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from .errors import KubeconfigError

_SCHEMES = ("http", "https", "socks5")


def proxy_of(server: SplitResult, proxy_url: str | None, env: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the proxy before a server; empty for none. Raises KubeconfigError for one that is no URL."""
    if proxy_url:
        try:
            scheme = urlsplit(proxy_url).scheme
        except ValueError:
            scheme = ""
        if scheme not in _SCHEMES:
            raise KubeconfigError(f"kubeconfig: proxy-url: {proxy_url!r} is not a URL of {', '.join(_SCHEMES)}")
        return proxy_url
    name = f"{server.scheme}_proxy"
    proxy = env.get(name.upper()) or env.get(name) or ""
    if not proxy or _goes_without(server, env.get("NO_PROXY") or env.get("no_proxy") or ""):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _goes_without(server: SplitResult, exceptions: str) -> bool:
    """Return True for a server that is reached without the proxy of the environment."""
    host = (server.hostname or "").lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or (address and address.is_loopback):
        return True
    port = server.port or {"https": 443}.get(server.scheme, 80)
    return any(_covers(each.strip().lower(), host, port) for each in exceptions.split(",") if each.strip())


def _covers(pattern: str, host: str, port: int) -> bool:
    """Return True for an exception that names the host: an address, a network, or a domain, perhaps with a port."""
    if pattern == "*":
        return True
    address = _address(host)
    try:
        network = ipaddress.ip_network(pattern.strip("[]"), strict=False)
    except ValueError:
        pass
    else:
        return address is not None and address.version == network.version and address in network
    name, _, number = pattern.rpartition(":")
    if name and number.isdigit():
        if int(number) != port:
            return False
        pattern = name
        if address:
            return _address(pattern.strip("[]")) == address
    pattern = pattern.removeprefix("*")
    return host.endswith(pattern) if pattern.startswith(".") else host == pattern or host.endswith(f".{pattern}")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
