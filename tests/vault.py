"""HashiCorp's Vault, and its client in the hands of an administrator."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import ssl
import subprocess
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

from openstack_operator import pki
from tests.e2e import documented
from tools.localcluster import build

PAGE = documented.ROOT / "docs" / "how-to" / "store-secrets.md"
MOUNT, HOST = "barbican", "vault.example.org"
"""The names of the page."""
ACTIVE, SEALED = 200, 503
Wait = Callable[[str, Callable[[], object]], object]
"""Waits for an answer that is true."""


def program() -> Path:
    """The server and the client. Raises BuildError where it is not built."""
    return build.binary("vault", "vault")


def certificate(*names: str) -> dict[str, str]:
    """Content of the files of a server with these names: `ca.crt`, `tls.crt`, `tls.key`."""
    now = datetime.now(UTC)
    authority = pki.authority(secrets.token_hex(16), "authority of Vault", now)
    request = pki.Request(common="vault", names=frozenset(names))
    pair = pki.issue(authority, request, secrets.token_hex(16), now)
    return {"ca.crt": authority.cert, "tls.crt": pair.cert, "tls.key": pair.key}


def configuration(url: str, address: str, cluster: str, certificates: str, data: str) -> str:
    """Of a server that clients reach at a URL; it listens at an address, and at another for other members, with
    `tls.crt` and `tls.key` in one folder and data in another."""
    files = {f"tls_{kind}_file": f"{certificates}/tls.{end}" for kind, end in (("cert", "crt"), ("key", "key"))}
    return json.dumps(
        {
            "listener": {"tcp": {"address": address, "cluster_address": cluster, **files}},
            "storage": {"raft": {"path": data, "node_id": "one"}},
            "api_addr": url,
            "cluster_addr": f"https://{cluster}",
            # Memory that cannot be swapped needs a capability.
            "disable_mlock": True,
        }
    )


@dataclass
class Administrator:
    """Who has the key and the token of root, once `initialize` made them."""

    url: str
    home: Path
    """A folder with the authorities of the server in `ca.crt`; the client keeps its token there."""
    wait: Wait

    def __post_init__(self) -> None:
        tool = self.home / "bin" / "vault"
        tool.parent.mkdir()
        env = {"VAULT_ADDR": self.url, "VAULT_CACERT": str(self.home / "ca.crt"), "HOME": str(self.home)}
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
        tool.write_text(f'#!/bin/sh\nexec env {words} {shlex.quote(str(program()))} "$@"\n')
        tool.chmod(0o755)

    @property
    def path(self) -> str:
        """Value of PATH with the client that logs in at this server."""
        return f"{self.home / 'bin'}:{os.environ['PATH']}"

    def run(self, *arguments: str, stdin: str = "") -> str:
        """What the client prints. Raises AssertionError with its messages if it fails."""
        return self._checked(["vault", *arguments], stdin)

    def script(self, text: str) -> str:
        """What commands of a shell print."""
        return self._checked(["sh", "-ec", text])

    def _checked(self, command: list[str], stdin: str = "") -> str:
        env = {"PATH": self.path}
        done = subprocess.run(command, env=env, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command[:3]}: {done.stdout[-1000:]}\n{done.stderr[-1000:]}"
        return done.stdout

    def health(self) -> int:
        """Status of the server's own check; 0 if it does not answer."""
        tls = ssl.create_default_context(cafile=str(self.home / "ca.crt"))
        try:
            with urllib.request.urlopen(f"{self.url}/v1/sys/health", timeout=30, context=tls) as answer:
                status: int = answer.status
        except HTTPError as error:
            with error:
                return error.code
        except (URLError, OSError):
            return 0
        return status

    def initialize(self) -> None:
        """The server is active afterwards."""
        self.wait("Vault to answer", self.health)
        answer = json.loads(self.run("operator", "init", "-key-shares=1", "-key-threshold=1", "-format=json"))
        for name, text in ((".vault-token", answer["root_token"]), ("key", answer["unseal_keys_b64"][0])):
            (self.home / name).touch(0o600)
            (self.home / name).write_text(text)
        self.unseal()

    def unseal(self) -> None:
        """The server is active afterwards."""
        self.run("write", "sys/unseal", "-", stdin=json.dumps({"key": (self.home / "key").read_text()}))
        self.wait("Vault to be active", lambda: self.health() == ACTIVE)

    def seal(self) -> None:
        self.run("operator", "seal")
        self.wait("Vault to be sealed", lambda: self.health() == SEALED)

    def login(self) -> tuple[str, str]:
        """Carry out the page's commands for the engine and the role. Return the ids of the role and of its secret."""
        text = documented.script(PAGE, ("vault-engine", "vault-login"))
        role, secret = self.script(f"{text}\necho $ROLE_ID $SECRET_ID").split()[-2:]
        return role, secret

    def has(self, payload: bytes) -> bool:
        """Whether a secret of castellan's is there, of which it writes hexadecimal digits, and was not deleted."""
        return any(
            self._read(f"data/{id_}")["data"]["value"] == payload.hex() for id_ in self._ids() if self._lives(id_)
        )

    def _ids(self) -> list[str]:
        done = subprocess.run(
            ["vault", "list", "-format=json", f"{MOUNT}/metadata"],
            env={"PATH": self.path},
            capture_output=True,
            text=True,
            check=False,
        )
        # Without any it prints an empty object, and fails.
        return list(json.loads(done.stdout))

    def _lives(self, id_: str) -> bool:
        metadata = self._read(f"metadata/{id_}")
        return not metadata["versions"][str(metadata["current_version"])]["deletion_time"]

    def _read(self, path: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.run("read", "-format=json", f"{MOUNT}/{path}"))["data"]
        return answer
