"""Barbican of the image with its secrets in a Vault, and a small Keystone."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openstack_operator import agents, kube
from openstack_operator.plan import Release, key
from openstack_operator.services.barbican.model import BARBICAN
from openstack_operator.services.barbican.service import plan
from openstack_operator.testing import context
from tests.unit.barbican_vaults import Server
from tests.unit.image_root import image_root, inside
from tests.unit.polling import TIMEOUT
from tests.unit.services.test_key_manager_served import USER, Keystone, alone, ready, serving
from tools.localcluster.ports import free_port

ENV = {"HOME": "/tmp", "LANG": "C.UTF-8"}
WORKS = "Vault: a secret was written, read and deleted"


@dataclass
class BarbicanWithVault:
    """A Barbican that changes its configuration."""

    root: Path
    release: Release
    keystone: str
    vault: Server
    port: int = field(default_factory=free_port)

    def configure(self, fields: Mapping[str, Any] | None, server: Server | None = None) -> None:
        """Write the files that the operator mounts, for a spec with these fields of `vault`, or without; the server is
        the stand's, or another."""
        server = server or self.vault
        refs = {"roleIdRef": {"name": "v", "key": "role"}, "secretIdRef": {"name": "v", "key": "secret"}}
        common = {"url": server.url, "mount": server.mount, "caSecretRef": {"name": "ca"}, **refs}
        made = plan(
            context(
                BARBICAN,
                {"vault": {**common, **fields}} if fields is not None else {},
                release=self.release,
                published={
                    "Keystone": {"internalURL": self.keystone},
                    "MariaDB": {"host": "127.0.0.1", "port": "9"},
                    "RabbitMQ": {"host": "127.0.0.1", "port": "9"},
                    "Memcached": {"servers": "127.0.0.1:9"},
                },
                secrets={
                    "v": {"role": server.role, "secret": server.secret},
                    "ca": {"ca.crt": server.authorities},
                },
                draw=lambda: "drawn",
            )
        )
        objects = {key(obj): obj for obj in made.objects}
        conf = self.root / "etc/barbican/barbican.conf"
        conf.write_text(alone(kube.secret_data(objects["Secret", "barbican-config"])["barbican.conf"]))
        trust = self.root / "etc/openstack-vault"
        trust.mkdir(exist_ok=True)
        (trust / "ca.crt").write_text(server.authorities)

    @contextmanager
    def api(self) -> Generator[None]:
        words = [
            word.format(listen=f"127.0.0.1:{self.port}", processes=1, threads=4)
            for word in self.release["barbican-api"].command
        ]
        with inside(self.root, USER, *words, env=ENV) as process:
            ready(self.port, process)
            yield

    def check(self) -> str:
        """What the program of the job says of the Vault; all that it says, if that is nothing of the Vault."""
        words = ("python3", "-c", agents.text("barbican/check_vault.py"))
        with inside(self.root, USER, *words, env=ENV, output=subprocess.PIPE) as process:
            output, _ = process.communicate(timeout=TIMEOUT)
        text = next((line for line in output.splitlines() if line.startswith("Vault: ")), output)
        assert (process.returncode == 0) == (text == WORKS), output
        return text

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str) -> bytes:
        """The answer of Barbican. Raises HTTPError for one that is no success."""
        data = json.dumps(body).encode() if body is not None else None
        sent = {"X-Auth-Token": "member", "Content-Type": "application/json", **headers}
        where = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(where, data, sent, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            content: bytes = answer.read()
        return content

    def store(self, payload: bytes) -> str:
        """The id of a new secret."""
        encoded = {"payload": base64.b64encode(payload).decode(), "payload_content_encoding": "base64"}
        body = {"name": "of a test", "payload_content_type": "application/octet-stream", **encoded}
        return str(json.loads(self.ask("/v1/secrets", body))["secret_ref"]).rpartition("/")[2]

    def read(self, id_: str) -> bytes:
        return self.ask(f"/v1/secrets/{id_}/payload", Accept="application/octet-stream")

    def delete(self, id_: str) -> None:
        self.ask(f"/v1/secrets/{id_}", method="DELETE")


@contextmanager
def barbican_with_vault(release: Release, vault: Server) -> Generator[BarbicanWithVault]:
    """A Barbican with its schema, told of no Vault yet."""
    with ExitStack() as stack:
        root = stack.enter_context(image_root("barbican"))
        keystone = f"http://127.0.0.1:{stack.enter_context(serving(Keystone))}/v3"
        barbican = BarbicanWithVault(root, release, keystone, vault)
        barbican.configure(None)
        with inside(root, USER, "barbican-manage", "db", "upgrade", env=ENV) as schema:
            assert schema.wait(TIMEOUT) == 0
        yield barbican
