"""Permissions of resources beyond their own namespace, granted by the operator's administrator: only what is listed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from .errors import SpecError
from .node_labels import NodeLabels

_SAFE_KEY = re.compile(r"(?!(?:.*/)?\.{1,2}(?:/|$))[^/%\\]+(?:/[^/%\\]+)*")
"""A key of a store that stands for itself, not for one that another way leads to."""

_RESERVED_PREFIX = "system-"
"""Begin of the names of Kubernetes' own PriorityClasses; Kubernetes refuses such a name for others."""


def _refuse(path: str, message: str) -> None:
    raise SpecError(path, message)


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """Entries are `PATTERN` for all namespaces, or `NAMESPACE=PATTERN`; `*` in either stands for any characters."""

    issuer_hosts: tuple[str, ...] = ()
    """Names and networks that resources may let issuers of the whole cluster certify."""
    secret_store_keys: tuple[str, ...] = ()
    """Keys of ClusterSecretStores."""
    ingress_annotations: tuple[str, ...] = ()
    """Names of annotations of Ingresses."""
    service_annotations: tuple[str, ...] = ()
    """Names of annotations of Services and routes."""
    pod_metadata: tuple[str, ...] = ()
    """Names of annotations and labels of pods."""
    plain_text_to: tuple[str, ...] = ()
    """Hosts and networks that logins may be sent to without TLS."""
    priority_classes: tuple[str, ...] = ()
    """PriorityClasses of Kubernetes itself (`system-…`) that pods may have; they may have each other class."""
    node_labels: NodeLabels = "legacy"
    """Labels that give nodes their roles."""
    refuse: Callable[[str, str], None] = _refuse
    """Takes the path and what is lacking; raises SpecError. Offline, where the permissions are not known, it reports a
    finding."""

    def check_issuer_hosts(self, path: str, namespace: str, domain: str, issuer: str, hosts: Iterable[str]) -> None:
        """Refuse names that an issuer of the whole cluster may not certify for this namespace."""
        if lacking := sorted(host for host in hosts if not self._is_certifiable(host, namespace, domain)):
            text = f"{issuer} is cluster-wide, and this namespace may not get certificates for"
            self._lacks(path, f"{text} {', '.join(lacking)}", "issuer-hosts", namespace, lacking[0])

    def check_store_key(self, path: str, namespace: str, store: str, key: str) -> None:
        """Refuse a key of a store (`KIND/NAME`) that serves the whole cluster and is not below the namespace's own."""
        if store.startswith("SecretStore/"):
            return
        is_plain = _SAFE_KEY.fullmatch(key) is not None
        if is_plain and (key.startswith(f"{namespace}/") or _allows(self.secret_store_keys, namespace, key)):
            return
        if {key, f"{namespace}={key}"} & set(self.secret_store_keys):
            return
        text = f"{store} is cluster-wide, and {key!r} is not below {namespace!r}; choose a key such as"
        self._lacks(path, f"{text} {namespace}/k-orc", "secret-store-keys", namespace, key)

    def check_annotation(self, path: str, namespace: str, name: str) -> None:
        """Refuse an annotation of an Ingress that is not on the list."""
        if not _allows(self.ingress_annotations, namespace, name):
            text = "a cluster-wide controller acts on it; remove it, or use one of the allowed values"
            self._lacks(path, text, "ingress-annotations", namespace, name)

    def check_service_annotation(self, path: str, namespace: str, name: str) -> None:
        """Refuse an annotation of a Service or a route that is not on the list."""
        if not _allows(self.service_annotations, namespace, name):
            text = "it may configure a cluster-wide proxy; remove it"
            self._lacks(path, text, "service-annotations", namespace, name)

    def check_pod_metadata(self, path: str, namespace: str, name: str, reason: str) -> None:
        """Refuse an annotation or a label of pods that is not on the list, for that reason."""
        if not _allows(self.pod_metadata, namespace, name):
            self._lacks(path, f"{reason}; remove it", "pod-metadata", namespace, name)

    def allows_plain_text(self, namespace: str, host: str) -> bool:
        """Return True if logins may be sent to the host without TLS."""
        return _allows(self.plain_text_to, namespace, host, is_host=True)

    def allows_priority_class(self, namespace: str, name: str) -> bool:
        """Return True if pods may have this PriorityClass."""
        return not name.startswith(_RESERVED_PREFIX) or _allows(self.priority_classes, namespace, name)

    def _is_certifiable(self, host: str, namespace: str, domain: str) -> bool:
        return (
            host in ("localhost", "127.0.0.1")
            or is_own_service(host, namespace, domain)
            or _allows(self.issuer_hosts, namespace, host, is_host=True)
        )

    def _lacks(self, path: str, text: str, flag: str, namespace: str, entry: str) -> None:
        self.refuse(path, f"{text}; {whom_to_ask(flag, namespace, entry)}")


NO_PERMISSIONS = Permissions()
"""Nothing beyond the namespace."""


def whom_to_ask(flag: str, namespace: str, entry: str) -> str:
    """Advise a user who needs more than is allowed."""
    return f"the operator's administrator may allow it with --{flag} '{namespace}={entry}'"


def is_own_service(host: str, namespace: str, domain: str) -> bool:
    """Return True if the name is that of a Service of the namespace, or of a pod behind one, in a form that no other
    namespace and no host outside of the cluster has.
    """
    return host.endswith((f".{namespace}.svc", f".{namespace}.svc.{domain}"))


def wrong_entry(entry: str) -> str:
    """Describe what is wrong with an entry of a list; empty for a good one."""
    namespace, _, pattern = entry.partition("=") if "=" in entry else ("*", "", entry)
    if not pattern or not namespace or any(letter.isspace() for letter in entry):
        return f"{entry!r} is neither PATTERN nor NAMESPACE=PATTERN"
    if re.fullmatch(r"[0-9a-fA-F.:]+/[0-9]+", pattern):
        try:
            ip_network(pattern)
        except ValueError as error:
            return str(error)
    return ""


def _allows(entries: Iterable[str], namespace: str, value: str, *, is_host: bool = False) -> bool:
    for entry in entries:
        where, _, pattern = entry.partition("=") if "=" in entry else ("*", "", entry)
        if not _matches(where, namespace):
            continue
        if is_host and (_contains(pattern, value) or _matches(pattern.lower(), value.lower().rstrip("."))):
            return True
        if not is_host and _matches(pattern, value):
            return True
    return False


def _matches(pattern: str, value: str) -> bool:
    """Return True if a pattern, in which `*` is any characters, matches the whole value."""
    prefix, *rest = map(re.escape, pattern.split("*"))
    # Each part is where it comes first: to go back for another place takes a power of the length, and finds no more.
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return re.fullmatch(prefix + middle + "".join(f".*{last}" for last in rest[-1:]), value) is not None


def _contains(network: str, address: str) -> bool:
    try:
        return ip_address(address.strip("[]")) in ip_network(network)
    except ValueError:
        return False
