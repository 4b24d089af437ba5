"""Barbican of the image with secrets in a small Vault of this test, over TLS."""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
from image_root import image_root, inside
from patience import PATIENCE
from test_key_manager_served import USER, Keystone, alone, free_port, ready, serving

from openstack_operator import agents, kube, pki
from openstack_operator.plan import Release, key
from openstack_operator.services.barbican.model import BARBICAN
from openstack_operator.services.barbican.service import plan
from openstack_operator.testing import context

ROLE, SECRET, MOUNT = "role-of-barbican", "secret-of-barbican", "cloud/kv"
ENV = {"HOME": "/tmp", "LANG": "C.UTF-8"}


class SmallVault(BaseHTTPRequestHandler):
    """AppRole, and KV of version 2 at one mount."""

    stored: ClassVar[dict[str, Any]] = {}

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


@dataclass
class Server:
    """A Vault, and the authorities by which Barbican verifies it."""

    url: str
    authorities: str


def certificate(folder: Path) -> str:
    """The authority of a certificate for this machine, whose files are in the folder."""
    now = datetime.now(UTC)
    authority = pki.authority("cloud", "cloud", now)
    pair = pki.issue(authority, pki.Request(common="vault", names=frozenset({"127.0.0.1"}), calls=False), "v", now)
    (folder / "tls.crt").write_text(pair.cert)
    (folder / "tls.key").write_text(pair.key)
    return authority.cert


@contextmanager
def small_vault(folder: Path) -> Generator[Server]:
    authorities = certificate(folder)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), SmallVault)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"https://127.0.0.1:{server.server_port}"
        yield Server(url, authorities)
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Stand:
    """A Barbican that changes its configuration."""

    root: Path
    release: Release
    keystone: str
    vault: Server
    port: int = field(default_factory=free_port)

    def configure(self, vault: Mapping[str, Any] | None) -> None:
        """Write the files that the operator mounts."""
        refs = {"roleIdRef": {"name": "v", "key": "role"}, "secretIdRef": {"name": "v", "key": "secret"}}
        more = {"url": self.vault.url, "mount": MOUNT, "caSecretRef": {"name": "ca"}, **refs}
        login = {"role": ROLE, "secret": (vault or {}).get("secret", SECRET)}
        fields = {name: value for name, value in (vault or {}).items() if name != "secret"}
        made = plan(
            context(
                BARBICAN,
                {"vault": {**more, **fields}} if vault is not None else {},
                release=self.release,
                published={
                    "Keystone": {"internalURL": self.keystone},
                    "MariaDB": {"host": "127.0.0.1", "port": "9"},
                    "RabbitMQ": {"host": "127.0.0.1", "port": "9"},
                    "Memcached": {"servers": "127.0.0.1:9"},
                },
                secrets={"v": login, "ca": {"ca.crt": self.vault.authorities}},
                draw=lambda: "drawn",
            )
        )
        objects = {key(obj): obj for obj in made.objects}
        conf = self.root / "etc/barbican/barbican.conf"
        conf.write_text(alone(kube.secret_data(objects["Secret", "barbican-config"])["barbican.conf"]))
        trust = self.root / "etc/openstack-vault"
        trust.mkdir(exist_ok=True)
        (trust / "ca.crt").write_text(self.vault.authorities)

    @contextmanager
    def api(self) -> Generator[None]:
        words = [
            word.format(listen=f"127.0.0.1:{self.port}", processes=1, threads=4)
            for word in self.release["barbican-api"].command
        ]
        with inside(self.root, USER, *words, env=ENV):
            ready(self.port)
            yield

    @contextmanager
    def check(self) -> Generator[subprocess.Popen[str]]:
        """The program of the job."""
        words = ("python3", "-c", agents.text("barbican/check_vault.py"))
        with inside(self.root, USER, *words, env=ENV, output=subprocess.PIPE) as process:
            assert process.stdout is not None
            with process.stdout:
                yield process

    def ask(self, path: str, body: Any = None, **headers: str) -> bytes:
        data = json.dumps(body).encode() if body is not None else None
        sent = {"X-Auth-Token": "member", "Content-Type": "application/json", **headers}
        where = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(urllib.request.Request(where, data, sent), timeout=PATIENCE) as answer:
            content: bytes = answer.read()
        return content

    def store(self, payload: str) -> str:
        """The id of a new secret."""
        body = {"name": payload, "payload": payload, "payload_content_type": "text/plain"}
        return str(json.loads(self.ask("/v1/secrets", body))["secret_ref"]).rpartition("/")[2]

    def read(self, id_: str) -> str:
        return self.ask(f"/v1/secrets/{id_}/payload", Accept="text/plain").decode()

    def has(self, payload: str) -> bool:
        """Whether the Vault has a secret, whose value castellan writes in hexadecimal digits."""
        return payload.encode().hex() in json.dumps(list(SmallVault.stored.values()))


@pytest.fixture(name="stand")
def _stand(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with ExitStack() as stack:
        root = stack.enter_context(image_root("barbican"))
        vault = stack.enter_context(small_vault(tmp_path_factory.mktemp("vault")))
        keystone = f"http://127.0.0.1:{stack.enter_context(serving(Keystone))}/v3"
        stand = Stand(root, release, keystone, vault)
        stand.configure(None)
        with inside(root, USER, "barbican-manage", "db", "upgrade", env=ENV) as schema:
            assert schema.wait(PATIENCE) == 0
        yield stand


def test_secrets_move_to_a_vault_and_old_ones_stay_readable(stand: Stand) -> None:
    with stand.api():
        ids = {"old payload": stand.store("old payload")}
    stand.configure({})
    with stand.check() as job:
        output, _ = job.communicate(timeout=PATIENCE)
        assert job.returncode == 0, output
    assert output.splitlines()[-1] == "Vault: a secret was written, read and deleted"
    with stand.api():
        ids["new payload"] = stand.store("new payload")
        assert {payload: stand.read(id_) for payload, id_ in ids.items()} == {each: each for each in ids}
    assert stand.has("new payload")
    assert not stand.has("old payload")
    database = (stand.root / "tmp/barbican.sqlite").read_bytes()
    assert b"new payload" in database, "its name"
    assert database.count(b"new payload") == 1
    # Back to the database, with the Vault for what is there.
    stand.configure({"newSecrets": "database"})
    with stand.api():
        ids["last payload"] = stand.store("last payload")
        assert {payload: stand.read(id_) for payload, id_ in ids.items()} == {each: each for each in ids}
    assert not stand.has("last payload")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"mount": "no-engine"}, "is not there"),
        ({"secret": "wrong"}, "refuses the login"),
        ({"url": "https://127.0.0.1:9"}, "cannot be reached"),
    ],
)
def test_a_vault_that_would_lose_secrets_is_not_used(stand: Stand, change: dict[str, str], text: str) -> None:
    stand.configure(change)
    with stand.check() as job:
        output, _ = job.communicate(timeout=PATIENCE)
    assert job.returncode == 1
    assert text in next(line for line in output.splitlines() if line.startswith("Vault: "))
