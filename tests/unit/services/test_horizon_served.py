"""The dashboard of the image with the operator's settings, in front of a small Keystone and a small Memcached."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import pickle
import re
import socket
import socketserver
import ssl
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest

from openstack_operator import kube, pki
from openstack_operator.plan import Release, key
from openstack_operator.services.horizon.model import HORIZON
from openstack_operator.services.horizon.service import plan
from openstack_operator.testing import context
from tests.unit.image_root import image_root, inside
from tests.unit.polling import TIMEOUT
from tools.localcluster.ports import free_port

USER = 42420
NAME, PASSWORD, TOKEN = "ada", "correct horse", "gAAAA-token-of-a-user"
PREFIX = ":1:django.contrib.sessions.cache"
"""Of the names of entries with sessions, as Django makes them."""


class Keystone(BaseHTTPRequestHandler):
    """One user with one project, and a catalog of Keystone alone."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def say(self, status: int, body: Mapping[str, Any], **headers: str) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        told = {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    @property
    def url(self) -> str:
        return f"http://{self.headers['Host']}/v3"

    def do_GET(self) -> None:
        project = {"id": "p", "name": "guests", "domain_id": "default", "enabled": True, "links": {}}
        if self.path.split("?")[0] in {"/v3/users/u/projects", "/v3/auth/projects", "/v3/projects"}:
            return self.say(200, {"projects": [project], "links": {}})
        links = [{"rel": "self", "href": self.url}]
        return self.say(200, {"version": {"id": "v3.14", "status": "stable", "links": links}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        login = body["auth"]["identity"].get("password", {}).get("user", {})
        if login and login["password"] != PASSWORD:
            return self.say(401, {"error": {"code": 401, "message": "no", "title": "Unauthorized"}})
        domain = {"id": "default", "name": "Default"}
        token: dict[str, Any] = {
            "methods": ["password"],
            "user": {"id": "u", "name": NAME, "domain": domain, "password_expires_at": None},
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "audit_ids": ["a"],
        }
        if "scope" in body["auth"]:
            endpoints = [
                {"id": each, "interface": each, "region": "RegionOne", "region_id": "RegionOne", "url": self.url}
                for each in ("public", "internal")
            ]
            token |= {
                "project": {"id": "p", "name": "guests", "domain": domain},
                "roles": [{"id": "m", "name": "member"}],
                "catalog": [{"id": "k", "type": "identity", "name": "keystone", "endpoints": endpoints}],
            }
        return self.say(201, {"token": token}, **{"X-Subject-Token": TOKEN})


class Memcached(socketserver.ThreadingTCPServer):
    """What clients store, by key: kind and bytes."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), Client)
        self.stored: dict[str, tuple[str, bytes]] = {}
        self._tls = tls

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        return self._tls.wrap_socket(connection, server_side=True), address


class Client(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Memcached)
        stored = self.server.stored
        while line := self.rfile.readline():
            command, *words = line.decode().split()
            match command:
                case "get" | "gets":
                    for name in words:
                        if name in stored:
                            flags, value = stored[name]
                            self.wfile.write(f"VALUE {name} {flags} {len(value)}\r\n".encode() + value + b"\r\n")
                    self.wfile.write(b"END\r\n")
                case "set" | "add":
                    value = self.rfile.read(int(words[3]) + 2)[:-2]
                    is_new = command == "set" or words[0] not in stored
                    if is_new:
                        stored[words[0]] = words[1], value
                    self.wfile.write(b"STORED\r\n" if is_new else b"NOT_STORED\r\n")
                case "delete":
                    self.wfile.write(b"DELETED\r\n" if stored.pop(words[0], None) else b"NOT_FOUND\r\n")
                case _:
                    self.wfile.write(b"ERROR\r\n")


@contextmanager
def serving(server: socketserver.TCPServer) -> Generator[int]:
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.socket.getsockname()[1]
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str


@dataclass
class Browser:
    """Follows redirects, and keeps cookies."""

    port: int
    cookies: dict[str, str] = field(default_factory=dict[str, str])
    flags: dict[str, str] = field(default_factory=dict[str, str])
    """What was said of each cookie besides its value."""

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, **fields: str) -> Answer:
        return self.ask("POST", path, urlencode({**fields, "csrfmiddlewaretoken": self.cookies["csrftoken"]}))

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        for _ in range(10):
            answer = self._once(method, path, body, headers)
            if answer.status not in {301, 302}:
                return answer
            method, body, path = "GET", None, re.sub("^http://localhost(:[0-9]+)?", "", answer.headers["Location"])
        raise AssertionError(f"redirects without an end, to {path}")

    def _once(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        sent = {"Host": "localhost", "Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        form = {"Content-Type": "application/x-www-form-urlencoded"} if body is not None else {}
        connection.request(method, path, body, {**sent, **form, **headers})
        found = connection.getresponse()
        answer = Answer(found.status, found.headers, found.read().decode(errors="replace"))
        connection.close()
        for each in found.headers.get_all("Set-Cookie") or ():
            for name, morsel in SimpleCookie(each).items():
                self.cookies[name], self.flags[name] = morsel.value, each
        return answer

    def log_in(self, password: str = PASSWORD) -> Answer:
        self.get("/auth/login/")
        region = re.search(r'name="region"[^>]*value="([^"]*)"', self.get("/auth/login/").text)
        return self.post("/auth/login/", username=NAME, password=password, region=region[1] if region else "default")


@dataclass
class Stand:
    """Two pods of the dashboard, and the cache that they share."""

    ports: list[int]
    stored: dict[str, tuple[str, bytes]]
    root: Path


STATIC = "/var/lib/openstack-dashboard/static"


def certified(root: Path) -> ssl.SSLContext:
    """A Memcached that wants certificates of its clients; the dashboard has one, and knows the authority."""
    now = datetime.now(UTC)
    authority = pki.authority("cloud", "cloud", now)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.cert)
    context.verify_mode = ssl.CERT_REQUIRED
    folder = root / "etc/openstack-cache-tls"
    trust = root / "etc/openstack-trust/bundle"
    for each in (folder, trust):
        each.mkdir(parents=True)
    (trust / "ca.crt").write_text(authority.cert)
    request = pki.Request(common="memcached", names=frozenset({"127.0.0.1"}), calls=True)
    pair = pki.issue(authority, request, "memcached", now)
    (folder / "tls.crt").write_text(pair.cert)
    (folder / "tls.key").write_text(pair.key)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def mounted(
    root: Path, release: Release, keystone: int = 9, memcached: int = 9, branding: dict[str, str] | None = None
) -> None:
    """The files that the operator mounts are there."""
    contract = {"servers": f"127.0.0.1:{memcached}", "trustSecret": "bundle", "clientSecret": "client"}
    made = plan(
        context(
            HORIZON,
            {"branding": {"title": "Cloud of the North", **(branding or {})}},
            release=release,
            published={
                "Keystone": {"internalURL": f"http://127.0.0.1:{keystone}/v3"},
                "Memcached": contract,
            },
            secrets={"bundle": {"ca.crt": "x"}, "client": {}},
            draw=lambda: "0123456789abcdef0123456789abcdef",
        )
    )
    objects = {key(obj): obj for obj in made.objects}
    folder = root / "etc/horizon"
    folder.mkdir(exist_ok=True)
    for name, text in kube.secret_data(objects["Secret", "horizon-config"]).items():
        (folder / name).write_text(text)
    scratch = root / "var/lib/horizon"
    scratch.mkdir(exist_ok=True)
    os.chown(scratch, USER, USER)


@contextmanager
def dashboard(root: Path, release: Release, port: int, static: str = STATIC) -> Generator[Browser]:
    """A pod of the dashboard, and a browser that calls it."""
    words = [
        word.format(listen=f"127.0.0.1:{port}", processes=1, threads=4).replace("$(STATIC_FOLDER)", static)
        for word in release["horizon-api"].command
    ]
    with inside(root, USER, *words, env={"STATIC_FOLDER": static, "HOME": "/tmp", "LANG": "C.UTF-8"}):
        ready(port)
        yield Browser(port)


@pytest.fixture(name="stand", scope="module")
def _stand(release: Release) -> Iterator[Stand]:
    with ExitStack() as stack:
        root = stack.enter_context(image_root("horizon"))
        cache = Memcached(certified(root))
        keystone = stack.enter_context(serving(ThreadingHTTPServer(("127.0.0.1", 0), Keystone)))
        memcached = stack.enter_context(serving(cache))
        mounted(root, release, keystone, memcached)
        ports = [free_port(), free_port()]
        for port in ports:
            stack.enter_context(dashboard(root, release, port))
        yield Stand(ports, cache.stored, root)


def ready(port: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            # As kubelet: by an address, which is no name of the dashboard's.
            assert Browser(port).get("/healthcheck", Host="192.0.2.7:8080").status == 200
            return
        except OSError:
            assert time.monotonic() < deadline, "the dashboard does not answer"
            time.sleep(0.2)


def entry(cookie: str) -> str:
    """Name of the entry of a session."""
    return PREFIX + hashlib.sha256(b"session " + cookie.encode()).hexdigest()


def sessions(stand: Stand) -> dict[str, bytes]:
    return {name: value for name, (_, value) in stand.stored.items() if name.startswith(PREFIX)}


@pytest.mark.security
def test_the_page_of_a_login_has_its_styles_and_its_headers(stand: Stand) -> None:
    browser = Browser(stand.ports[0])
    page = browser.get("/auth/login/")
    assert page.status == 200
    assert "<title>" in page.text
    assert "Cloud of the North" in page.text
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["X-Frame-Options"] == "DENY"
    styles = re.findall(r'href="(/static/dashboard/css/[^"]+)"', page.text)
    scripts = re.findall(r'src="(/static/dashboard/js/[^"]+)"', page.text)
    assert styles
    assert scripts
    for path in (*styles, *scripts, "/static/dashboard/img/logo.svg"):
        assert browser.get(path).status == 200, path
    assert browser.get("/auth/login/", Host="attacker.example.org").status == 400


@pytest.mark.security
def test_a_user_logs_in_and_the_session_is_sealed(stand: Stand) -> None:
    browser = Browser(stand.ports[0])
    assert "Invalid credentials" in browser.log_in("wrong").text
    # There is no service whose panel could be shown.
    page = browser.log_in()
    assert f'<span class="user-name">{NAME}</span>' in page.text
    assert "HttpOnly" in browser.flags["sessionid"]
    value = sessions(stand)[entry(browser.cookies["sessionid"])]
    assert TOKEN.encode() not in value
    assert b"openstack_auth" not in value
    assert not any(browser.cookies["sessionid"] in name for name in stand.stored)


def test_a_session_outlives_the_pod_that_made_it(stand: Stand) -> None:
    browser = Browser(stand.ports[0])
    browser.log_in()
    browser.port = stand.ports[1]
    assert NAME in browser.get("/identity/").text
    name = entry(browser.cookies["sessionid"])
    assert name in sessions(stand)
    browser.get("/auth/logout/")
    assert name not in sessions(stand)
    assert 'name="password"' in browser.get("/identity/").text


@pytest.mark.security
def test_a_copied_session_gives_no_access(stand: Stand) -> None:
    victim, thief = Browser(stand.ports[0]), Browser(stand.ports[0])
    victim.log_in()
    thief.cookies["sessionid"] = "a" * 32
    flags, value = stand.stored[entry(victim.cookies["sessionid"])]
    stand.stored[entry("a" * 32)] = flags, value
    assert 'name="password"' in thief.get("/identity/").text
    assert NAME in victim.get("/identity/").text


class Attack:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, ("/tmp/attacked",)


@pytest.mark.security
@pytest.mark.parametrize("flags", ["0", "1", "16", "64"])
def test_writing_to_memcached_runs_no_code_in_horizon(stand: Stand, flags: str) -> None:
    thief = Browser(stand.ports[0])
    thief.cookies["sessionid"] = "b" * 32
    stand.stored[entry("b" * 32)] = flags, pickle.dumps(Attack())
    assert 'name="password"' in thief.get("/identity/").text
    assert not (stand.root / "tmp/attacked").exists()


def test_a_theme_is_made_of_a_users_files(release: Release) -> None:
    with image_root("horizon") as root:
        mounted(root, release, branding={"configMap": "look-1"})
        files = root / "etc/horizon-branding"
        files.mkdir()
        base = (root / "usr/share/openstack-dashboard/themes/default/_styles.scss").read_text()
        (files / "_styles.scss").write_text(f"{base}\n.of-the-north {{ color: #123456; }}\n")
        (files / "logo-splash.svg").write_text("<svg/>")
        static = "/var/lib/horizon/static"
        command = release["horizon-api"].commands["prepare"]
        env = {"STATIC_FOLDER": static, "BASE_THEME": "default", "HOME": "/tmp", "LANG": "C.UTF-8"}
        with inside(root, USER, *command, env=env) as process:
            assert process.wait(TIMEOUT) == 0
        with dashboard(root, release, free_port(), static) as browser:
            page = browser.get("/auth/login/")
            styles = re.findall(r'href="(/static/dashboard/css/[^"]+)"', page.text)
            assert any("#123456" in browser.get(path).text for path in styles)
            assert "/static/themes/custom/img/logo-splash.svg" in page.text
            assert browser.get("/static/themes/custom/img/logo-splash.svg").text == "<svg/>"
