"""The TLS proxy of the image tells an API that is busy from one that does not work."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Lock, Thread

import pytest

from openstack_operator import pki
from openstack_operator.parts.expose.front import SERVES, Clients, Queue, front
from openstack_operator.plan import Release
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.testing import NOW, context
from tests.unit.image_root import image_root, inside, listens
from tests.unit.polling import TIMEOUT, until
from tools.localcluster.ports import free_port

USER = 42454
POD = "127.0.0.2"
_HOST = "keystone-api.openstack.svc.cluster.local"


@dataclass
class Api:
    """An API that answers one request at a time, as long as it is not told to wait."""

    port: int
    may_answer: Event = field(default_factory=Event)
    is_broken: bool = False
    at_once: int = 0
    most_at_once: int = 0
    lock: Lock = field(default_factory=Lock)

    @contextmanager
    def serve(self) -> Generator[None]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

            def do_GET(self) -> None:
                if self.path != "/healthcheck":
                    with api.lock:
                        api.at_once += 1
                        api.most_at_once = max(api.most_at_once, api.at_once)
                    assert api.may_answer.wait(TIMEOUT)
                    with api.lock:
                        api.at_once -= 1
                self.send_response(500 if api.is_broken else 200)
                self.end_headers()

        server = HTTPServer(("127.0.0.1", self.port), Handler)
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            api.may_answer.set()
            server.shutdown()
            server.server_close()


def ask(port: int, path: str = SERVES) -> int:
    """Status of an answer; 0 for none."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"https://{POD}:{port}{path}", timeout=TIMEOUT, context=unverified) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def config_of(release: Release, root: Path, port: int) -> str:
    """The configuration of a proxy of an API with one worker, and its files in the root of the image."""
    authority = pki.authority("a", "a", NOW)
    pair = pki.issue(authority, pki.Request(common="api", names=frozenset({_HOST})), "api", NOW)
    secrets = {"api-tls": {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": authority.cert}}
    ctx = context(KEYSTONE, {"tls": {"secretRef": {"name": "api-tls"}}}, release=release, secrets=secrets)
    queue = Queue(health="/healthcheck", concurrency=1, slowest=600)
    (proxy,) = front(ctx, "api", port, release["keystone-api"], clients=Clients(queue=queue)).containers
    folder = root / "etc/openstack-front"
    folder.mkdir()
    (folder / "tls.crt").write_text(pair.cert)
    (folder / "tls.key").write_text(pair.key)
    (root / "run/front").mkdir()
    (root / "run/front").chmod(0o777)
    text = proxy.env["CONFIG"]
    assert isinstance(text, str)
    return text


@pytest.fixture(name="proxied", scope="module")
def _proxied(release: Release) -> Generator[tuple[Api, int]]:
    port = free_port()
    with image_root("haproxy") as root:
        (root / "tmp/haproxy.cfg").write_text(config_of(release, root, port))
        for path in (root / "etc/openstack-front").iterdir():
            path.chmod(0o644)
        with inside(root, USER, "haproxy", "-f", "/tmp/haproxy.cfg", env={"POD_IP": POD}):
            until("haproxy listens", lambda: ask(port) > 0)
            yield Api(port), port


def test_an_api_serves_while_busy_and_not_while_broken(proxied: tuple[Api, int]) -> None:
    api, port = proxied
    assert not listens(port), "nothing serves behind it"
    until("an API that is not there does not serve", lambda: ask(port) == 503)
    with api.serve():
        until("an API that answers serves", lambda: ask(port) == 200)
        clients = [Thread(target=ask, args=(port, "/v3"), daemon=True) for _ in range(20)]
        for client in clients:
            client.start()
        until("a request is being answered", lambda: api.at_once)
        assert [ask(port) for _ in range(50)] == [200] * 50
        api.may_answer.set()
        for client in clients:
            client.join(TIMEOUT)
        assert api.most_at_once == 1
        assert ask(port, "/v3") == 200
        api.is_broken = True
        until("an API that answers 500 to its health check does not serve", lambda: ask(port) == 503)
        api.is_broken = False
        until("an API that works again serves", lambda: ask(port) == 200)
    until("an API that ended does not serve", lambda: ask(port) == 503)
