"""Logins that a resource would have sent without TLS: others on the way read them, and the user who wrote the resource
says where that way leads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from ..api import AppSecretRef, Model, destinations, host_of, logins
from ..parts.secrets.tls import authority
from ..plan import Permissions, is_own_service, whom_to_ask

_NEAR = tuple(
    ip_network(network)
    for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "fc00::/7", "::1")
)
"""Networks of nodes, pods and Services: private and shared addresses."""
_LOOPBACK = tuple(ip_network(network) for network in ("127.0.0.0/8", "::1"))


def plain_text(
    spec: Model, secrets: Mapping[str, Mapping[str, str]], namespace: str, domain: str, permissions: Permissions
) -> Iterator[tuple[str, str]]:
    """Yield (path, message) of each login that would go through networks as plain text, and may not. `secrets` has the
    data of those that are known.
    """
    targets = [(path, name, addresses) for path, name, addresses in destinations(spec)]
    # By SQL, AMQP and the like: whether it is TLS depends on the authorities beside the login.
    bare = {path: ref.name for path, ref in logins(spec) if not isinstance(ref, AppSecretRef)}
    paths = {path for path, _, _ in targets}
    # What the spec says goes before what the Secret says.
    targets += [
        (path, name, (secrets[name]["host"],))
        for path, name in bare.items()
        if path not in paths and secrets.get(name, {}).get("host")
    ]
    for path, name, addresses in targets:
        is_bare = path in bare and name in secrets and not authority(secrets[name])
        for host, fault in dict.fromkeys(_faults(addresses, name, namespace, domain, is_bare=is_bare)):
            if not permissions.allows_plain_text(namespace, host):
                ask = whom_to_ask("allow-plain-text-to", namespace, host or "*")
                yield path, f"{fault}, or {ask}"


def _faults(
    addresses: tuple[str, ...], secret: str, namespace: str, domain: str, *, is_bare: bool
) -> Iterator[tuple[str, str]]:
    """Yield (host, what is wrong) of each address that is spoken to as plain text and is not near."""
    for address in addresses:
        host = host_of(address)
        at = host or "a server that the spec does not name literally"
        if address.lower().startswith("http://"):
            if not _is_own(host, namespace, domain):
                yield host, f"the login would go to {at} unencrypted; use https"
        elif is_bare and "://" not in address and not _is_near(host, domain):
            yield host, f"the login would go to {at} without TLS; add ca.crt to Secret {secret!r}"


def _is_own(host: str, namespace: str, domain: str) -> bool:
    """Return whether it is a Service of the namespace, which pods call by one label, too, or the pod itself."""
    return is_own_service(host, namespace, domain) or _has_labels(host, 1) or _is_in(host, _LOOPBACK)


def _is_near(host: str, domain: str) -> bool:
    """Return whether it is a Service or pod of the cluster (`database`, `broker-0.broker`), or a private address."""
    return host.endswith((".svc", f".svc.{domain}")) or _has_labels(host, 2) or _is_in(host, _NEAR)


def _has_labels(host: str, most: int) -> bool:
    """Return whether Kubernetes completes the name. Numbers are addresses, in whatever way they are written."""
    return host[:1].isalpha() and host.count(".") < most


def _is_in(host: str, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    return any(address in network for network in networks)
