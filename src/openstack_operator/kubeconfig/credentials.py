"""Logins that change: a token in a file, and what a program prints (client.authentication.k8s.io)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from .errors import KubeconfigError
from .files import Exec

_PERIOD = 10.0
"""Seconds until a file is read again, as client-go has it."""
_GROUP = "client.authentication.k8s.io"
VERSIONS = tuple(f"{_GROUP}/{version}" for version in ("v1", "v1beta1"))
MODES = ("Never", "IfAvailable", "Always")


class Login(NamedTuple):
    """Token and certificate that a request is sent with."""

    token: str = ""
    certificate: str = ""
    """Certificate and key as PEM."""


class Credentials(Protocol):
    """A login that may change."""

    async def login(self) -> Login:
        """Return the present login. Raises KubeconfigError."""
        ...

    async def renewed(self, login: Login) -> Login:
        """Return the login after one that the server did not take. Raises KubeconfigError."""
        ...


@dataclass
class TokenFile:
    """A token in a file, which another program renews."""

    path: str
    token: str = ""
    """The token until the file can be read."""
    clock: Callable[[], float] = time.monotonic
    _read_at: float = field(default=float("-inf"), init=False)

    async def login(self) -> Login:
        """Return the token of the file; the last one if the file cannot be read."""
        if self.clock() - self._read_at >= _PERIOD:
            self._read()
        return Login(self.token)

    async def renewed(self, login: Login) -> Login:
        """Return the token that the file has now."""
        self._read()
        return Login(self.token)

    def _read(self) -> None:
        try:
            text = Path(self.path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            if not self.token:
                raise KubeconfigError(f"kubeconfig: tokenFile {self.path}: {error}") from None
            return
        self.token, self._read_at = text or self.token, self.clock()


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct, rename="camel"):
    """Output of the program: an ExecCredential."""

    kind: str | None = None
    api_version: str | None = None
    status: _Status | None = None


class Program:
    """A program that prints a login."""

    def __init__(self, spec: Exec, cluster: Mapping[str, Any]) -> None:
        """Take the program, and the description of the cluster that it gets."""
        self._spec, self._cluster = spec, cluster
        self._login: Login | None = None
        self._expires: datetime | None = None
        # It may ask the user something: never twice at once.
        self._lock = asyncio.Lock()

    async def login(self) -> Login:
        """Return what the program printed last, unless that has expired."""
        async with self._lock:
            if self._login is None or (self._expires and datetime.now(UTC) > self._expires):
                self._login = await self._run()
            return self._login

    async def renewed(self, login: Login) -> Login:
        """Return the login that the program prints now; the last one if that is newer than `login`."""
        async with self._lock:
            if self._login is login or self._login is None:
                self._login = await self._run()
            return self._login

    async def _run(self) -> Login:
        spec, is_interactive = self._spec, self._is_interactive()
        info = {
            "kind": "ExecCredential",
            "apiVersion": spec.api_version,
            "spec": {
                **({"cluster": self._cluster} if spec.provide_cluster_info else {}),
                "interactive": is_interactive,
            },
        }
        variables = {each.name or "": each.value or "" for each in spec.env or ()}
        environment = {**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info, separators=(",", ":"))}
        command = [spec.command or "", *(spec.args or ())]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdin=None if is_interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
            )
        except (OSError, ValueError) as error:
            hint = f": {spec.install_hint.strip()}" if spec.install_hint else ""
            raise KubeconfigError(f"kubeconfig: exec: {command[0]} cannot be started ({error}){hint}") from None
        output, _ = await process.communicate()
        if process.returncode:
            raise KubeconfigError(f"kubeconfig: exec: {command[0]} ended with exit status {process.returncode}")
        return self._parse(output)

    def _is_interactive(self) -> bool:
        mode = self._spec.interactive_mode or ""
        if mode == "Always" and not sys.stdin.isatty():
            raise KubeconfigError("kubeconfig: exec: interactiveMode is Always, but standard input is not a terminal")
        return mode != "Never" and sys.stdin.isatty()

    def _parse(self, output: bytes) -> Login:
        name = self._spec.command
        try:
            answer = msgspec.json.decode(output, type=_Answer)
        except msgspec.DecodeError as error:
            raise KubeconfigError(f"kubeconfig: exec: {name} does not print an ExecCredential: {error}") from None
        if (answer.kind or "ExecCredential", answer.api_version) != ("ExecCredential", self._spec.api_version):
            raise KubeconfigError(
                f"kubeconfig: exec: {name} prints {answer.kind} of {answer.api_version}, not ExecCredential of"
                f" {self._spec.api_version}; set apiVersion to what it prints"
            )
        status = answer.status or _Status()
        certificate, key = status.client_certificate_data, status.client_key_data
        if bool(certificate) != bool(key) or not (certificate or status.token):
            raise KubeconfigError(f"kubeconfig: exec: {name} prints neither a token nor a certificate with its key")
        expires = status.expiration_timestamp
        self._expires = expires.replace(tzinfo=UTC) if expires and not expires.tzinfo else expires
        return Login(status.token or "", f"{certificate}\n{key}\n" if certificate else "")
