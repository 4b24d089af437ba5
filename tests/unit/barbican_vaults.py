"""Vaults for a Barbican: a small one of these tests, and HashiCorp's."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from tests import leftovers, vault
from tests.unit.polling import TIMEOUT, until
from tools.localcluster.build import BuildError
from tools.localcluster.ports import free_port

ROLE, SECRET, MOUNT = "role-of-barbican", "secret-of-barbican", "cloud/kv"


@dataclass
class Server:
    """A Vault, and what Barbican is told of it."""

    url: str
    authorities: str
    """By which Barbican verifies it."""
    role: str
    secret: str
    mount: str
    has: Callable[[bytes], bool]
    """Whether it has a secret."""


class SmallVault(BaseHTTPRequestHandler):
    """AppRole, and KV of version 2 at one mount."""

    stored: ClassVar[dict[str, Any]] = {}

    @classmethod
    def has(cls, payload: bytes) -> bool:
        """Whether a secret is there, of which castellan writes hexadecimal digits."""
        return payload.hex() in json.dumps(list(cls.stored.values()))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def say(self, status: int, body: Mapping[str, Any] | None = None) -> None:
        content = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")

    def id(self) -> str:
        """Id of a secret; empty for another path, or without a token."""
        prefix = f"/v1/{MOUNT}/data/"
        return self.path.removeprefix(prefix) if self.path.startswith(prefix) else ""

    def do_POST(self) -> None:
        body = self.body()
        if self.path == "/v1/auth/approle/login":
            if body != {"role_id": ROLE, "secret_id": SECRET}:
                return self.say(400, {"errors": ["invalid role or secret ID"]})
            return self.say(200, {"auth": {"client_token": "t", "lease_duration": 60}})
        if self.headers["X-Vault-Token"] != "t":
            return self.say(403, {"errors": ["permission denied"]})
        if not self.id():
            return self.say(404, {"errors": ["no handler for route"]})
        self.stored[self.id()] = body["data"]
        return self.say(200, {"data": {"version": 1}})

    def do_GET(self) -> None:
        if self.headers["X-Vault-Token"] != "t" or self.id() not in self.stored:
            return self.say(404, {"errors": []})
        return self.say(200, {"data": {"data": self.stored[self.id()], "metadata": {}}})

    def do_DELETE(self) -> None:
        self.stored.pop(self.id(), None)
        self.say(204)


def write_certificate(folder: Path) -> str:
    """The authority of a certificate for this machine, whose files are in the folder afterwards."""
    files = vault.certificate("127.0.0.1")
    for name, text in files.items():
        (folder / name).write_text(text)
    return files["ca.crt"]


@contextmanager
def small_vault(folder: Path) -> Generator[Server]:
    """AppRole and KV as far as Barbican uses them."""
    authorities = write_certificate(folder)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), SmallVault)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"https://127.0.0.1:{server.server_port}"
        yield Server(url, authorities, ROLE, SECRET, MOUNT, SmallVault.has)
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class RealVault:
    """HashiCorp's, which can be killed."""

    folder: Path
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        (self.folder / "data").mkdir()
        self.authorities = write_certificate(self.folder)
        address, cluster = f"127.0.0.1:{self.port}", f"127.0.0.1:{free_port()}"
        url, certificates, data = f"https://{address}", str(self.folder), str(self.folder / "data")
        text = vault.configuration(url, address, cluster, certificates, data)
        (self.folder / "vault.json").write_text(text)
        self.administrator = vault.Administrator(url, self.folder, until)

    def start(self) -> None:
        """It answers afterwards, and is sealed or was never initialized."""
        command = [str(vault.program()), "server", f"-config={self.folder / 'vault.json'}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, env=leftovers.marked(), stdout=log, stderr=log)
        until("Vault to answer", self.administrator.health)

    def kill(self) -> None:
        """It has no time to say goodbye."""
        if self._process:
            self._process.kill()
            self._process.wait(TIMEOUT)
            self._process = None


@contextmanager
def real_vault(folder: Path) -> Generator[tuple[RealVault, Server]]:
    """Set up by the commands of the documentation. Skips the test where the program is not built."""
    try:
        vault.program()
    except BuildError as error:
        pytest.skip(f"HashiCorp's Vault: {error}")
    real = RealVault(folder)
    try:
        real.start()
        real.administrator.initialize()
        role, secret = real.administrator.login()
        administrator = real.administrator
        yield real, Server(administrator.url, real.authorities, role, secret, vault.MOUNT, administrator.has)
    finally:
        real.kill()
