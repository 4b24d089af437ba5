"""An image registry beside the cluster: a process of the host that nodes reach over their bridge."""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import os
import secrets
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import build, cgroups
from .components import write_private
from .furnish import STATE
from .layout import Cluster

PORT = 5000
USER = "openstack"
CERTIFICATES = STATE / "registry" / "certs.d"
"""The folder in which containerd of a node looks for what it has to know of a registry, before each pull."""
_START_TIMEOUT = 30.0
_LOOK = 0.05
_LAST_LINES = 12


class RegistryError(Exception):
    """A registry that does not start, with where to look."""


@dataclass(frozen=True)
class Registry:
    """The registry of a cluster. Its images outlive the cluster, like those of nodes; all else goes with it."""

    cluster: Cluster

    @property
    def home(self) -> Path:
        return self.cluster.home / "registry"

    @property
    def data(self) -> Path:
        return self.cluster.home / "images" / "registry"

    @property
    def cgroup(self) -> str:
        return f"{self.cluster.cgroup}/registry"

    @property
    def authority(self) -> Path:
        """The certificate by which clients know it."""
        return self.home / "pki" / "ca.crt"

    @property
    def login(self) -> Path:
        """User and password in the form of Docker's config.json, which is also that of a pull secret."""
        return self.home / "auth.json"

    @property
    def log(self) -> Path:
        """The file with a line for each request."""
        return self.home / "registry.log"

    @property
    def address(self) -> str:
        """Host and port; empty if it was never started in this cluster."""
        configuration = self.home / "config.json"
        return json.loads(configuration.read_text())["http"]["addr"] if configuration.exists() else ""

    def is_running(self) -> bool:
        return bool(cgroups.members(self.cgroup))


def start(cluster: Cluster, subnet: ipaddress.IPv4Network) -> Registry:
    """Start the registry with the login and the images it had. Raises RegistryError if it does not answer."""
    registry = Registry(cluster)
    address = f"{subnet[1]}:{PORT}"
    if registry.address != address:
        _prepare(registry, address)
    if not registry.is_running():
        _run(registry)
    _await(registry)
    return registry


def _prepare(registry: Registry, address: str) -> None:
    """Write keys and a login for this address. The configuration comes last: where it exists, the others do."""
    shutil.rmtree(registry.home, ignore_errors=True)
    registry.home.mkdir(parents=True, mode=0o700)
    registry.data.mkdir(parents=True, exist_ok=True)
    host = address.partition(":")[0]
    pki = registry.authority.parent
    command = [str(build.binary("kubernetes", "certificates")), "-dir", str(pki), "-host", host]
    subprocess.run(command, check=True)
    password = secrets.token_hex(16)
    _write(registry.home / "htpasswd", _htpasswd(password))
    write_private(registry.login, login(address, password))
    hosts = CERTIFICATES.relative_to(STATE / "registry")
    (registry.home / hosts / address).mkdir(parents=True)
    (registry.home / hosts / address / "hosts.toml").write_text(containerd_hosts(address))
    write_private(registry.home / "config.json", configuration(registry, address))


def login(address: str, password: str) -> dict[str, Any]:
    """Return Docker's config.json with a login to the registry."""
    return {"auths": {address: {"auth": base64.b64encode(f"{USER}:{password}".encode()).decode()}}}


def containerd_hosts(address: str) -> str:
    """Return the file by which a node's containerd trusts the registry at the address."""
    authority = STATE / "registry" / "pki" / "ca.crt"
    return (
        f'server = "https://{address}"\n\n[host."https://{address}"]\n'
        f'capabilities = ["pull", "resolve"]\nca = "{authority}"\n'
    )


def configuration(registry: Registry, address: str) -> dict[str, Any]:
    """Return the registry's own configuration: files of this machine, TLS, and a login for every request."""
    pki = registry.authority.parent
    return {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(registry.data)}, "delete": {"enabled": True}},
        "http": {
            "addr": address,
            # The program that makes certificates knows one server, an API server.
            "tls": {"certificate": str(pki / "apiserver.crt"), "key": str(pki / "apiserver.key")},
        },
        "auth": {"htpasswd": {"realm": "openstack-operator", "path": str(registry.home / "htpasswd")}},
    }


def _htpasswd(password: str) -> str:
    command = [str(build.binary("registry", "login")), USER]
    return subprocess.run(command, input=password, capture_output=True, text=True, check=True).stdout


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _run(registry: Registry) -> None:
    cgroups.create(registry.cgroup)
    command = [str(build.binary("registry", "registry")), "serve", str(registry.home / "config.json")]
    with registry.log.open("ab") as output:
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            # Without the last, it looks for a collector of traces.
            env={"PATH": os.defpath, "HOME": "/", "OTEL_TRACES_EXPORTER": "none"},
            start_new_session=True,
            preexec_fn=lambda: cgroups.join(registry.cgroup),  # noqa: PLW1509  # there are no threads
        )


def _await(registry: Registry) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while not answers(registry.address, registry.authority):
        if not registry.is_running() or time.monotonic() > deadline:
            last = registry.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
            raise RegistryError("\n".join([f"the registry does not start; see {registry.log}, which ends:", *last]))
        # A server sends no notice when it is ready: only its answer shows that.
        time.sleep(_LOOK)


def answers(address: str, authority: Path) -> bool:
    """Return True if a registry answers there with a certificate of the authority, and asks for a login."""
    trust = ssl.create_default_context(cafile=str(authority))
    try:
        with urllib.request.urlopen(f"https://{address}/v2/", context=trust, timeout=5):
            return False
    except urllib.error.HTTPError as error:
        return error.code == http.client.UNAUTHORIZED
    except (urllib.error.URLError, OSError, http.client.HTTPException):
        return False
