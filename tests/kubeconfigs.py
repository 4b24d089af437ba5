"""Kubeconfigs, and what a client that reads them sends to a server. Run as a program, it asks kubectl."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from openstack_operator.yaml_text import dump
from tools.localcluster import build

TABLE = Path(__file__).parent / "kubeconfigs.yaml"
GOLDEN = Path(__file__).parent / "kubeconfigs.golden.yaml"
HEADER = "# What kubectl does with the kubeconfigs of kubeconfigs.yaml; `python -m tests.kubeconfigs` writes it.\n"
REFUSED = {"refused": True}
Answer = dict[str, Any]
_LOGIN = """#!/bin/sh
# Prints credentials of a version: a token, or the certificate beside it.
cd "$(dirname "$0")" || exit 1
printf '%s' "$KUBERNETES_EXEC_INFO" > exec-info
status="\\"token\\": \\"$2$TOKEN_SUFFIX\\""
if [ "$2" = certificate ]; then
  status="\\"clientCertificateData\\": \\"$(awk '{printf "%s\\\\n", $0}' cert.pem)\\""
  status="$status, \\"clientKeyData\\": \\"$(awk '{printf "%s\\\\n", $0}' key.pem)\\""
fi
printf '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/%s", "status": {%s}}' "$1" "$status"
"""


def rows() -> list[dict[str, Any]]:
    """Return the table."""
    return yaml.safe_load(TABLE.read_text(encoding="utf-8"))


def golden() -> dict[str, Answer]:
    """Return kubectl's answers by the name of the row."""
    return yaml.safe_load(GOLDEN.read_text(encoding="utf-8"))


@dataclass
class Material:
    """Certificates as PEM: an authority, a server, and a user with the key of another one."""

    files: dict[str, bytes]

    def base64(self, name: str) -> str:
        """Return one as a kubeconfig has it."""
        return base64.b64encode(self.files[name]).decode()


def material() -> Material:
    """Return certificates that were just signed."""
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "server", "user", "other")}
    names = {name: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in keys}
    now = datetime.now(UTC)

    def signed(name: str, *extensions: x509.ExtensionType) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(names[name])
            .issuer_name(names["ca"])
            .public_key(keys[name].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )
        for each in extensions:
            builder = builder.add_extension(each, critical=isinstance(each, x509.BasicConstraints))
        return builder.sign(keys["ca"], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def key(name: str) -> bytes:
        return keys[name].private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    address = x509.IPAddress(ip_address("127.0.0.1"))
    names_of_server = x509.SubjectAlternativeName([x509.DNSName("kube.example"), address])
    return Material(
        {
            "ca.pem": signed("ca", x509.BasicConstraints(ca=True, path_length=None)),
            "server.pem": signed("server", names_of_server) + key("server"),
            "cert.pem": signed("user"),
            "key.pem": key("user"),
            "other.pem": key("other"),
        }
    )


class Recorder(ThreadingTCPServer):
    """An API server for one request at a time, over TLS or not, which is a proxy to itself, too."""

    def __init__(self, files: Material, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[Answer] = []
        self.names: list[str | None] = []
        for name in ("server.pem", "ca.pem"):
            (folder / name).write_bytes(files.files[name])
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
        self.context.load_cert_chain(str(folder / "server.pem"))
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.context.sni_callback = lambda _socket, name, _context: self.names.append(name)

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust the server ends the connection."""


class _Handler(StreamRequestHandler):
    server: Recorder  # type: ignore[assignment]

    def handle(self) -> None:
        peer: dict[str, Any] = {}
        if self.request.recv(1, 0x2) == b"\x16":
            self._secure(peer)
        while line := self.rfile.readline().decode().split():
            headers: list[tuple[str, str]] = []
            while text := self.rfile.readline().decode().strip():
                name, _, value = text.partition(":")
                headers.append((name.lower(), value.strip()))
            if line[0] == "CONNECT":
                peer["proxy"] = line[1]
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                self._secure(peer)
                continue
            self._record(line, headers, peer)
            body = b'{"gitVersion": "v1.34.0"}'
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            self.wfile.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            self.wfile.flush()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        self.rfile.close()
        self.request.close()

    def _secure(self, peer: dict[str, Any]) -> None:
        self.rfile.close()
        plain = self.request
        try:
            self.request = self.server.context.wrap_socket(plain, server_side=True)
        except OSError:
            plain.close()
            raise
        self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb")
        peer["tls"] = True
        if certificate := self.request.getpeercert():
            subject: Any = certificate["subject"]
            peer["certificate"] = dict(part[0] for part in subject)["commonName"]

    def _record(self, line: list[str], headers: list[tuple[str, str]], peer: Mapping[str, Any]) -> None:
        sent = [
            f"{name}: {value}"
            for name, value in sorted(headers)
            if name in {"authorization", "proxy-authorization"} or name.startswith("impersonate-")
        ]
        compressed = any(name == "accept-encoding" and "gzip" in value for name, value in headers)
        answer = {"request": f"{line[0]} {line[1]}", "headers": sent, "compressed": compressed, **peer}
        if name := next((each for each in self.server.names if each), None):
            answer["server_name"] = name
        self.server.requests.append(answer)


@dataclass
class Stand:
    """A folder with certificates, and a server."""

    folder: Path
    files: Material
    recorder: Recorder
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def prepare(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Write the files of a row. Returns the environment of a client."""
        self.recorder.requests.clear()
        self.recorder.names.clear()
        (self.folder / "exec-info").unlink(missing_ok=True)
        for name, content in {**self.files.files, "sub/tok": b"in-file\n", "deep/tok": b"deep\n"}.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content)
        (self.folder / "login").write_text(_LOGIN, encoding="utf-8")
        (self.folder / "login").chmod(0o700)
        config = self._config(row)
        for name, content in {row.get("place", "config"): yaml.safe_dump(config), **row.get("files", {})}.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(self._filled(content), encoding="utf-8")
        place = row.get("place", "config")
        given = {"KUBECONFIG": place, **{name: self._filled(text) for name, text in row.get("env", {}).items()}}
        given["KUBECONFIG"] = ":".join(
            str(self.folder / name) if name else "" for name in given["KUBECONFIG"].split(":")
        )
        # kubectl asks this one where a kubeconfig names no server.
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "nobody"),
            "KUBERNETES_MASTER": "http://127.0.0.1:9",
            **given,
        }

    def _config(self, row: Mapping[str, Any]) -> dict[str, Any]:
        secure = row.get("secure", False)
        cluster = (
            {"server": "https://<HTTP>", "certificate-authority-data": "<CA>"}
            if secure
            else {"server": "http://<HTTP>"}
        )
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": row.get("current", "a"),
            "clusters": [{"name": "a", "cluster": {**cluster, **row.get("cluster", {})}}],
            "contexts": [{"name": "a", "context": row.get("context", {"cluster": "a", "user": "a"})}],
            "users": [{"name": "a", "user": row.get("user", {})}],
        }

    def _filled(self, text: str) -> str:
        for word, value in {
            "<CA>": self.files.base64("ca.pem"),
            "<CERT>": self.files.base64("cert.pem"),
            "<KEY>": self.files.base64("key.pem"),
            "<HTTP>": self.recorder.address,
            "<FOLDER>": str(self.folder),
        }.items():
            text = text.replace(word, value)
        return text

    def answer(self, *, sent: bool) -> Answer:
        """Return what the server recorded, in words that are the same each time."""
        requests = self.recorder.requests
        if not sent:
            return REFUSED
        (last,) = requests[-1:]
        answer: Answer = json.loads(json.dumps(last).replace(self.recorder.address, "<HTTP>"))
        with suppress(FileNotFoundError):
            info = (self.folder / "exec-info").read_text(encoding="utf-8")
            filled = info.replace(self.recorder.address, "<HTTP>").replace(self.files.base64("ca.pem"), "<CA>")
            answer["told"] = json.loads(filled)
        return answer


@contextmanager
def stand() -> Generator[Stand]:
    """Run a server for clients."""
    with tempfile.TemporaryDirectory() as name:
        files = material()
        with Recorder(files, Path(name)) as recorder:
            thread = Thread(target=recorder.serve_forever, args=(0.02,), daemon=True)
            thread.start()
            try:
                yield Stand(Path(name), files, recorder)
            finally:
                recorder.shutdown()
                thread.join()


def kubectl(stand_: Stand, row: Mapping[str, Any]) -> Answer:
    """Return what kubectl does."""
    environment = stand_.prepare(row)
    program = [
        str(build.binary("kubernetes", "kubectl")),
        *([f"--context={row['argument']}"] if "argument" in row else []),
    ]
    run: Callable[..., Any] = subprocess.run
    options: dict[str, Any] = {"env": environment, "stdin": subprocess.DEVNULL, "capture_output": True, "check": False}
    done = run([*program, "get", "--raw", "/version"], **options)
    answer = stand_.answer(sent=done.returncode == 0)
    if row.get("shows_namespace"):
        view = run([*program, "config", "view", "--minify", "-o", "jsonpath={..namespace}"], **options)
        answer = {**answer, "namespace": view.stdout.decode()}
    return answer


def main() -> None:
    """Write kubectl's answers."""
    with stand() as one:
        answers = {row["name"]: kubectl(one, row) for row in rows()}
    GOLDEN.write_text(HEADER + dump(answers), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
