"""haproxy with the configuration of a TLS proxy, in front of APIs that end without an answer."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from openstack_operator import pki
from openstack_operator.plan import Release
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan
from tests.agents.programs import certified, container, planned
from tests.unit.image_root import image_root, listens
from tests.unit.polling import TIMEOUT
from tools.localcluster.ports import free_port

CONTRACTS = {"MariaDB": {"host": "db", "port": "3306"}, "Memcached": {"servers": "m:11211"}}
PORT = 5000


@pytest.fixture(scope="module")
def haproxy() -> Iterator[list[str]]:
    """The command of this machine's haproxy, or of the image's."""
    if program := shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin"):
        yield [program, "-db"]
        return
    with image_root("haproxy") as root:
        libraries = ":".join(str(root / folder) for folder in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"))
        loader = str(root / "lib64/ld-linux-x86-64.so.2")
        yield [loader, "--library-path", libraries, str(root / "usr/sbin/haproxy"), "-db"]


@contextmanager
def proxy(haproxy: list[str], release: Release, folder: Path, api: int, **spec: Any) -> Generator[tuple[int, Path]]:
    """haproxy as beside Keystone's API, which is at the port `api`: its port, and its log."""
    deployment = planned(plan(certified(KEYSTONE, release, spec, published=CONTRACTS)), "Deployment", "keystone-api")
    env = container(deployment, "front")["env"]
    [config] = [each["value"] for each in env if each["name"] == "CONFIG"]
    config = config.replace("/run/front", str(folder)).replace("/etc/openstack-front", str(folder))
    port = free_port()
    config = config.replace(f"${{POD_IP}}:{PORT}", f"127.0.0.1:{port}").replace(f"127.0.0.1:{PORT}", f"127.0.0.1:{api}")
    pair = pki.authority("seed", "test", datetime.now(UTC))
    (folder / "tls.crt").write_text(pair.cert + pair.key, encoding="utf-8")
    (folder / "haproxy.cfg").write_text(config, encoding="utf-8")
    log = folder / "log"
    with ExitStack() as stack:
        output = stack.enter_context(log.open("w", encoding="utf-8"))
        command = [*haproxy, "-f", str(folder / "haproxy.cfg")]
        process = stack.enter_context(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT))
        stack.callback(process.terminate)
        while not listens(port):
            assert process.poll() is None, log.read_text(encoding="utf-8")
        yield port, log


def ask(port: int) -> tuple[http.client.HTTPResponse, dict[str, Any]]:
    """Return an answer with its error."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)) as connection:
        connection.request("GET", "/v3/users", headers={"Connection": "close"})
        with connection.getresponse() as answer:
            return answer, json.loads(answer.read())["error"]


@contextmanager
def ends_connections() -> Generator[int]:
    """An API that ends each connection after the request, as a process that is killed, and is healthy: its port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            # Shut down, the socket accepts no more.
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        if b"GET /healthcheck" in connection.recv(4096):
                            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        thread = Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(TIMEOUT)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_connection_that_ends_is_an_error_in_json_with_an_id(
    haproxy: list[str], release: Release, tmp_path: Path, form: str
) -> None:
    logging = {"logging": {"format": "json"}} if form == "json" else {}
    with ends_connections() as api, proxy(haproxy, release, tmp_path, api, **logging) as (port, log):
        answer, error = ask(port)
        request = answer.headers["x-openstack-request-id"]
        assert (answer.status, error["code"], error["title"]) == (502, 502, "Bad Gateway")
        assert answer.headers["content-type"] == "application/json"
        assert re.fullmatch(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", request)
        assert request in error["message"]
    if form == "json":
        [line] = [line for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
        assert json.loads(line)["request_id"] == request


def test_an_api_that_takes_no_connections_is_an_error_in_json(
    haproxy: list[str], release: Release, tmp_path: Path
) -> None:
    with proxy(haproxy, release, tmp_path, free_port()) as (port, _):
        answer, error = ask(port)
        assert (answer.status, error["title"]) == (503, "Service Unavailable")
