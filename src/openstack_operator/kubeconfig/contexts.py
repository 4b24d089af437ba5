"""The connection of a context: server, trust, proxy, login and namespace, each as kubectl has it."""

from __future__ import annotations

import base64
import os
import re
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from .credentials import MODES, VERSIONS, Credentials, Program, TokenFile
from .errors import KubeconfigError
from .files import Cluster, Exec, Kubeconfig, User, decoded, load, paths
from .proxies import proxy_of

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder of a pod with the token of its service account."""
_CLUSTER_EXTENSION = "client.authentication.k8s.io/exec"
_TOKEN = re.compile(rb"[!#$&'*+.^_`|~0-9A-Za-z-]")
"""A byte that the name of a header may have as it is (RFC 9110), but `%`, which escapes the others."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Address, trust and login of an API server."""

    server: str
    """Its URL, perhaps with a path before that of each request."""
    namespace: str = ""
    """Namespace of the context; empty if it names none."""
    authority: bytes = field(default=b"", repr=False)
    """Certificate authorities that the server's certificate is verified with, as PEM; if empty, those of the system."""
    is_insecure: bool = False
    """True if the server's certificate is not verified."""
    server_name: str = ""
    """Name in the server's certificate, if it is not that of the URL."""
    proxy: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Headers of each request: the user to act as, and a login that stays the same."""
    certificate: str = field(default="", repr=False)
    """Certificate and key of the user as PEM."""
    credentials: Credentials | None = None
    """A login that may change."""
    is_compressed: bool = True

    def trust(self, certificate: str = "") -> ssl.SSLContext:
        """Return how the server's certificate is verified, and with which certificate the user logs in; its own without
        another. Raises KubeconfigError for what is no certificate.
        """
        try:
            context = ssl.create_default_context(cadata=self.authority.decode() if self.authority else None)
        except (ssl.SSLError, UnicodeDecodeError):
            raise KubeconfigError("kubeconfig: certificate-authority: has no certificate in PEM") from None
        # From Python 3.13 on certificates without key identifiers are refused, which cluster authorities of many ages
        # lack; the chain, the name and the dates are verified as ever.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.is_insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if pem := certificate or self.certificate:
            # Python takes it from a file alone, which only this user can read, and which is gone at once.
            with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
                file.write(pem)
                file.flush()
                try:
                    context.load_cert_chain(file.name, password=lambda: "")
                except ssl.SSLError:
                    text = "kubeconfig: client-certificate and client-key: not a certificate with its key in PEM"
                    raise KubeconfigError(text) from None
        return context


def connection(
    context: str | None = None, files: Sequence[Path] | None = None, *, account: Path = ACCOUNT
) -> Connection:
    """Return the connection of a context; without one of the current context, then of the cluster this pod runs in.
    Without `files` they are those of $KUBECONFIG, or ~/.kube/config; `account` is the folder of a service account.
    Raises KubeconfigError.
    """
    files = paths() if files is None else files
    kubeconfig = load(files)
    name = context or kubeconfig.current_context
    if name and name not in kubeconfig.contexts:
        choices = ", ".join(sorted(kubeconfig.contexts)) or "none"
        raise KubeconfigError(f"kubeconfig: there is no context {name!r}; it has: {choices}")
    if not name or not kubeconfig.contexts[name].cluster:
        if in_cluster := _in_cluster(account):
            return in_cluster
        listed = ":".join(map(str, files))
        problem = f"context {name!r} names no cluster" if name else f"{listed} names no current-context"
        raise KubeconfigError(f"kubeconfig: {problem}; set KUBECONFIG, or use --context")
    return _connection(kubeconfig, name)


def _connection(kubeconfig: Kubeconfig, name: str) -> Connection:
    context = kubeconfig.contexts[name]
    cluster = kubeconfig.clusters.get(context.cluster or "")
    if cluster is None or not cluster.server:
        raise KubeconfigError(f"kubeconfig: context {name!r}: cluster {context.cluster!r} has no server")
    user = kubeconfig.users.get(context.user or "", User())
    server = _server(cluster.server)
    _check(user, context.user or "")
    is_secure = server.scheme == "https"
    authority = _authority(cluster, is_secure=is_secure)
    proxy = proxy_of(server, cluster.proxy_url)
    connection = partial(
        Connection,
        server=server.geturl(),
        namespace=context.namespace or "",
        proxy=proxy,
        is_compressed=not cluster.disable_compression,
    )
    # Where anybody could read it, nobody logs in; whom to act as is no secret.
    if not is_secure:
        return connection(headers=_impersonation(user))
    certificate = _certificate(user)
    login, credentials = _login(user, certificate, _described(cluster, authority, proxy))
    if not (login or credentials or certificate):
        raise KubeconfigError(
            f"kubeconfig: context {name!r}: user {context.user or ''!r} has no login; add a token, a client certificate"
            " or exec"
        )
    return connection(
        authority=authority,
        is_insecure=bool(cluster.insecure_skip_tls_verify),
        server_name=cluster.tls_server_name or "",
        headers=(*_impersonation(user), *login),
        certificate=certificate,
        credentials=credentials,
    )


def _server(url: str) -> SplitResult:
    """Return the URL of a server; without a scheme it is http, as for kubectl."""
    try:
        server = urlsplit(url)
        if server.scheme not in {"http", "https"} or not server.hostname:
            server = urlsplit(f"http://{url}")
            if server.path.strip("/") or not server.hostname or server.scheme != "http":
                raise ValueError
        server.port  # noqa: B018  (raises for one that is no number)
    except ValueError:
        raise KubeconfigError(
            f"kubeconfig: server: {url!r} is not a URL; write one such as https://host:6443"
        ) from None
    return server._replace(query="", fragment="")


def _authority(cluster: Cluster, *, is_secure: bool) -> bytes:
    authority = decoded(cluster.certificate_authority_data, "certificate-authority-data")
    if cluster.certificate_authority:
        if authority:
            raise KubeconfigError("kubeconfig: certificate-authority and certificate-authority-data: use one of them")
        authority = _content(cluster.certificate_authority, "certificate-authority")
    if authority and cluster.insecure_skip_tls_verify and is_secure:
        raise KubeconfigError("kubeconfig: insecure-skip-tls-verify and certificate-authority: use one of them")
    return authority


def _content(path: str, field_name: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KubeconfigError(f"kubeconfig: {field_name} {path}: {error.strerror or error}") from None


def _check(user: User, name: str) -> None:
    """Raise KubeconfigError for fields that contradict each other."""
    where = f"kubeconfig: user {name!r}: "
    if user.token and (user.username or user.password):
        raise KubeconfigError(f"{where}token and username: use one of them")
    if (user.as_uid or user.as_groups or user.as_user_extra) and not user.impersonate:
        raise KubeconfigError(f"{where}as-uid, as-groups and as-user-extra need `as`, the user to act as")
    if user.client_certificate or user.client_certificate_data:
        if not (user.client_key or user.client_key_data):
            raise KubeconfigError(f"{where}client-certificate needs client-key")
        for each in ("client_certificate", "client_key"):
            if getattr(user, each) and getattr(user, f"{each}_data"):
                field_name = each.replace("_", "-")
                raise KubeconfigError(f"{where}{field_name} and {field_name}-data: use one of them")
            if path := getattr(user, each):
                _content(path, each.replace("_", "-"))
    if user.exec:
        _check_program(user, user.exec, where)


def _check_program(user: User, spec: Exec, where: str) -> None:
    if user.auth_provider:
        raise KubeconfigError(f"{where}exec and auth-provider: use one of them")
    if not spec.command:
        raise KubeconfigError(f"{where}exec.command: is missing")
    if any(not each.name for each in spec.env or ()):
        raise KubeconfigError(f"{where}exec.env: a variable has no name")
    if spec.api_version != VERSIONS[0] and not spec.interactive_mode:
        # Older versions of the protocol did not have the field.
        spec.interactive_mode = "IfAvailable"
    if spec.interactive_mode not in MODES:
        raise KubeconfigError(f"{where}exec.interactiveMode: choose from {', '.join(MODES)}")


def _impersonation(user: User) -> tuple[tuple[str, str], ...]:
    """Return the headers that say as whom to act."""
    if not user.impersonate:
        return ()
    extra = [
        (f"Impersonate-Extra-{_header_name(key)}", value)
        for key, values in (user.as_user_extra or {}).items()
        for value in values or ()
    ]
    return (
        ("Impersonate-User", user.impersonate),
        *([("Impersonate-Uid", user.as_uid)] if user.as_uid else []),
        *(("Impersonate-Group", group) for group in user.as_groups or ()),
        *extra,
    )


def _header_name(key: str) -> str:
    one_byte = (bytes([byte]) for byte in key.encode())
    return "".join(each.decode() if _TOKEN.fullmatch(each) else f"%{each[0]:02X}" for each in one_byte)


def _certificate(user: User) -> str:
    """Return the certificate of a user with its key; empty for none."""
    if not (user.client_certificate or user.client_certificate_data):
        return ""
    parts = [
        _content(path, name) if path else decoded(data, f"{name}-data")
        for name, path, data in (
            ("client-certificate", user.client_certificate, user.client_certificate_data),
            ("client-key", user.client_key, user.client_key_data),
        )
    ]
    return b"\n".join(parts).decode(errors="replace")


def _login(
    user: User, certificate: str, cluster: dict[str, Any]
) -> tuple[tuple[tuple[str, str], ...], Credentials | None]:
    """Return the headers of a login that stays, or one that may change. What is written down wins over a program."""
    if user.auth_provider:
        raise KubeconfigError(
            f"kubeconfig: auth-provider {user.auth_provider.name!r} is not supported; use its exec program instead"
        )
    if user.exec and user.exec.api_version not in VERSIONS:
        raise KubeconfigError(f"kubeconfig: exec.apiVersion: choose from {', '.join(VERSIONS)}")
    if user.token_file:
        return (), TokenFile(user.token_file, user.token or "")
    if user.token:
        return (("Authorization", f"Bearer {user.token}"),), None
    if user.username or user.password:
        text = base64.b64encode(f"{user.username or ''}:{user.password or ''}".encode()).decode()
        return (("Authorization", f"Basic {text}"),), None
    if user.exec and not certificate:
        return (), Program(user.exec, cluster)
    return (), None


def _described(cluster: Cluster, authority: bytes, proxy: str) -> dict[str, Any]:
    """Return the description of the cluster that a program gets (provideClusterInfo)."""
    extensions = {each.name: each.extension for each in cluster.extensions or ()}
    described = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority).decode(),
        "proxy-url": cluster.proxy_url and proxy,
        "disable-compression": cluster.disable_compression,
    }
    config = extensions.get(_CLUSTER_EXTENSION)
    # kubectl writes `config` even where there is none.
    return {**{name: value for name, value in described.items() if value}, "config": config}


def _in_cluster(account: Path) -> Connection | None:
    """Return the connection of a pod to its cluster; None elsewhere."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    token, authority = account / "token", account / "ca.crt"
    if not host or not port or not token.is_file():
        return None
    # A proxy of the environment is meant for the world outside, not for the cluster.
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        authority=authority.read_bytes() if authority.is_file() else b"",
        credentials=TokenFile(str(token)),
    )
