"""Memcached's own program, and the clients of the images as the images change them: who is let in."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest

from openstack_operator import pki
from openstack_operator.services.memcached.clients import DEMANDS
from tests import leftovers
from tests.unit import debian_patches
from tests.unit.image_root import image_root, listens
from tests.unit.polling import TIMEOUT, until
from tools.localcluster.ports import free_port

pytestmark = pytest.mark.security

SERVER, FOLDER = "localhost", "tls"
UID = 42457
NOW = datetime.now(UTC)
AUTHORITY, ANOTHER = (pki.authority(name, name, NOW) for name in ("ours", "another"))

# A value is put there and read, by a client of the image; twice, with a wait for a line between, where a word says so.
ASK = """
import sys
import cache_tls
client, port, folder, *options = sys.argv[1:]
files = [f"{folder}/tls.crt", f"{folder}/tls.key"] if "with" in options else []
context = cache_tls.Context(f"{folder}/ca.crt", *files)

def ask():
    if client == "pymemcache":
        from pymemcache.client.hash import HashClient
        server = HashClient([("localhost", int(port))], tls_context=context, timeout=60, connect_timeout=60)
        try:
            server.set("key", b"value", noreply=False)
            return server.get("key") == b"value"
        except OSError:
            return False
    import memcache
    server = memcache.Client([f"localhost:{port}"], socket_timeout=60, dead_retry=0)
    for host in server.servers:
        host.tls = context
    return bool(server.set("key", "value")) and server.get("key") == "value"

print(ask(), flush=True)
for _ in sys.stdin:
    print(ask(), flush=True)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clients, changed as the images change them."""
    folder, images = tmp_path_factory.mktemp("packages"), Path(__file__).parents[2] / "images/oslo"
    for name in ("memcache", "pymemcache"):
        spec = find_spec(name)
        assert spec
        assert spec.origin
        if name == "memcache":
            shutil.copy(spec.origin, folder / "memcache.py")
        else:
            shutil.copytree(Path(spec.origin).parent, folder / name)
    shutil.copy(images / "cache_tls", folder / "cache_tls.py")
    debian_patches.apply("python-memcached/01-tls", folder)
    return folder


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Where a Memcached listens that demands certificates."""
    with image_root("memcached") as root:
        number = free_port()
        write(root / FOLDER, issue(AUTHORITY, SERVER), AUTHORITY)
        for path in (root / FOLDER).iterdir():
            path.chmod(0o444)
        files = f"ssl_chain_cert=/{FOLDER}/tls.crt,ssl_key=/{FOLDER}/tls.key,ssl_ca_cert=/{FOLDER}/ca.crt,{DEMANDS}"
        command = ["memcached", "-l", f"127.0.0.1:{number}", "-p", str(number), "-U", "0", "-Z", "-o", files]
        program = subprocess.Popen(["chroot", f"--userspec={UID}:{UID}", str(root), *command])
        try:
            until("memcached to listen", lambda: listens(number) or program.poll() is not None)
            assert program.poll() is None
            yield number
        finally:
            program.terminate()
            program.wait(TIMEOUT)


def issue(by: pki.Pair, name: str, *, calls: bool = False, drawn: str = "drawn") -> pki.Pair:
    wanted = pki.Request(common=name, names=frozenset({name}), calls=calls, life=timedelta(days=1))
    return pki.issue(by, wanted, drawn, NOW)


def write(folder: Path, shown: pki.Pair, trusted: pki.Pair) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in {"tls.crt": shown.cert, "tls.key": shown.key, "ca.crt": trusted.cert}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def client(packages: Path, name: str, port: int, folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-B", "-c", ASK, name, str(port), str(folder), *options]
    env = {"PYTHONPATH": str(packages), **leftovers.marked()}
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


CLIENTS = pytest.mark.parametrize("name", ["memcache", "pymemcache"])
STRANGERS = {
    "by another authority": issue(ANOTHER, "client", calls=True),
    "for servers alone": issue(AUTHORITY, "client"),
}


@CLIENTS
def test_clients_without_a_certificate_cannot_use_the_cache(
    packages: Path, port: int, tmp_path: Path, name: str
) -> None:
    folder = write(tmp_path, issue(AUTHORITY, "client", calls=True), AUTHORITY)
    assert client(packages, name, port, folder).communicate("")[0] == "False\n"
    assert client(packages, name, port, folder, "with").communicate("")[0] == "True\n"


@CLIENTS
@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_certificate_of_a_stranger_is_refused(
    packages: Path, port: int, tmp_path: Path, name: str, stranger: str
) -> None:
    folder = write(tmp_path, STRANGERS[stranger], AUTHORITY)
    assert client(packages, name, port, folder, "with").communicate("")[0] == "False\n"


@CLIENTS
def test_a_client_that_runs_shows_its_certificate_as_it_was_renewed(
    packages: Path, port: int, tmp_path: Path, name: str
) -> None:
    """The first one is as good as ended."""
    folder = write(tmp_path, STRANGERS["by another authority"], AUTHORITY)
    with client(packages, name, port, folder, "with") as program:
        assert program.stdout
        assert program.stdout.readline() == "False\n"
        write(folder, issue(AUTHORITY, "client", calls=True, drawn="renewed"), AUTHORITY)
        assert program.communicate("again\n")[0] == "True\n"


def test_everybody_sees_which_certificate_it_shows(port: int) -> None:
    """The operator, which has none for it, replaces an authority on proof (runtime.users)."""
    context = ssl.create_default_context(cadata=AUTHORITY.cert)
    with socket.create_connection((SERVER, port)) as sock, context.wrap_socket(sock, server_hostname=SERVER) as tls:
        assert ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True) or b"") == issue(AUTHORITY, SERVER).cert
