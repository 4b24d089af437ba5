"""Apache and shibd of federation as their image has them, with somebody in Keystone's place."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube, pki
from openstack_operator.plan import Release
from openstack_operator.services.keystone.federation import apache
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan
from openstack_operator.testing import context
from tests import leftovers
from tests.e2e.on_federation.provider import Browser
from tests.unit.image_root import image_root
from tests.unit.polling import TIMEOUT, until
from tests.unit.tcp_server import tcp_server

CONTRACTS = {"MariaDB": {"host": "mariadb", "port": "3306"}, "Memcached": {"servers": "m:11211"}}
FORGED = {
    "OIDC-iss": "forged",
    "oidc_iss": "forged",
    "OIDC_ISS": "forged",
    "OIDC-preferred-username": "forged",
    "OIDC_preferred_username": "forged",
    "Shib-Identity-Provider": "forged",
    "Remote-User": "forged",
    "REMOTE_USER": "forged",
    "HTTP_OIDC_ISS": "forged",
}


@contextmanager
def fake_uwsgi() -> Generator[int]:
    """The port of a server that speaks uWSGI's protocol, and answers with the variables it got."""
    with tcp_server(_answer) as port:
        yield port


def _answer(connection: socket.socket) -> None:
    with connection.makefile("rb") as file:
        size = int.from_bytes(file.read(4)[1:3], "little")
        packet, found = file.read(size), dict[str, str]()
        words, at = list[str](), 0
        while at < len(packet):
            length = int.from_bytes(packet[at : at + 2], "little")
            words.append(packet[at + 2 : at + 2 + length].decode("latin-1"))
            at += 2 + length
        found = dict(zip(words[::2], words[1::2], strict=True))
        file.read(int(found.get("CONTENT_LENGTH") or 0))
        text = json.dumps(found).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        connection.sendall(head.encode() + text)


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """The root of a container of the image, which is thrown away."""
    with image_root("federation") as root:
        yield root


def get_json(browser: Browser, url: str, headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, str]]:
    status, text, told = browser.get(url, headers)
    return status, json.loads(text) if told.get("Content-Type") == "application/json" else {}


def mounted_files(
    release: Release, providers: list[dict[str, Any]], secrets: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """What a Keystone with these providers mounts there."""
    spec = {"federation": {"enabled": True, "identityProviders": providers}}
    made = plan(context(KEYSTONE, spec, release=release, published=CONTRACTS, secrets=secrets))
    held = next(obj for obj in made.objects if obj["metadata"]["name"] == "keystone-federation")
    return kube.secret_data(held)


@contextmanager
def image_process(root: Path, *command: str, **env: str) -> Generator[subprocess.Popen[bytes]]:
    """A program as a pod runs it: in the image's root, as its user."""
    script = (
        'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot --userspec=42456:42456 "$0" "$@"'
    )
    where = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **env, **leftovers.marked()}
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-ec", script, str(root), *command],
        env=where,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(TIMEOUT)
        finally:
            process.kill()


def write_files(root: Path, found: Mapping[str, str], ports: Mapping[str, int]) -> None:
    """The files are there, for its user alone, with ports that are free here."""
    for folder in (apache.FOLDER, apache.RUN):
        shutil.rmtree(root / folder[1:], ignore_errors=True)
        (root / folder[1:]).mkdir(parents=True)
        os.chown(root / folder[1:], 42456, 42456)
    for name, content in found.items():
        text = content
        for port, other in ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{other}")
        path = root / apache.FOLDER[1:] / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o440)
        os.chown(path, 0, 42456)


def wait_until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    """Somebody listens there."""
    # A server that starts tells nobody when it listens.
    until("it to listen or to end", lambda: _listens(port) or process.poll() is not None)
    assert process.poll() is None, "it ended"


def _listens(port: int) -> bool:
    with closing(socket.socket()) as tried:
        return not tried.connect_ex(("127.0.0.1", port))


def tls_context(tmp_path: Path, seed: str = "a") -> tuple[ssl.SSLContext, str]:
    """A server's own context, and the authority by which it is checked; another `seed` gives another authority."""
    now = datetime.now(UTC)
    by = pki.authority(seed * 32, "test", now, timedelta(days=2))
    leaf = pki.issue(by, pki.Request(common="sso", names=frozenset({"127.0.0.1", "localhost"})), "b" * 32, now)
    for name, text in (("cert", leaf.cert), ("key", leaf.key)):
        (tmp_path / name).write_text(text)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    return tls, by.cert
