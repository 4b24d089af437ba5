"""The Apache of federation as its image has it, between browsers, a provider and somebody in Keystone's place."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest

from images import catalog
from images.engine import Buildah
from images.shell import CommandError
from openstack_operator import kube, pki
from openstack_operator.plan import Release
from openstack_operator.services.keystone import apache
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan
from openstack_operator.testing import context
from tests.e2e.on_federation.provider import Browser, Provider, serving

CONTRACTS = {"MariaDB": {"host": "mariadb", "port": "3306"}, "Memcached": {"servers": "m:11211"}}
CLIENT, SECRET = "keystone", 'it\'s "$ecret" \\ % and 100 long'
CLAIMS = {"sub": "u-1", "preferred_username": "ada", "email": "ada@example.org", "groups": ["red", "blue"]}
MAPPING = [
    {
        "remote": [{"type": "OIDC-preferred_username"}, {"type": "OIDC-groups"}],
        "local": [{"user": {"name": "{0}"}, "group": {"name": "federated", "domain": {"name": "Default"}}}],
    }
]
AUTH, WEBSSO = apache.auth_path("sso", "openid"), apache.websso_path("sso", "openid")
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


def free() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def uwsgi() -> Generator[int]:
    """The port of a server that speaks uWSGI's protocol, and answers with the variables it got."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as file:
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

    thread = Thread(target=serve)
    thread.start()
    try:
        yield int(listening.getsockname()[1])
    finally:
        # To close it does not wake who accepts.
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """The root of a container of the image, which is thrown away."""
    if os.geteuid() or not all(shutil.which(name) for name in ("buildah", "mmdebstrap", "skopeo", "unshare")):
        pytest.skip("needs root, buildah and what images are built with: Apache runs in a root made of its image")
    try:
        engine = Buildah()
        there = catalog.reference("federation") in engine.references()
    except CommandError as error:
        pytest.skip(f"buildah does not work here: {error}")
    if not there:
        pytest.skip("the image is not built; python -m images build federation")
    with engine.root(catalog.reference("federation")) as root:
        yield root


@dataclass
class Place:
    """Where everything is."""

    url: str
    """Of Apache, in the place of Keystone's address."""
    provider: Provider
    trust: str
    root: Path
    process: subprocess.Popen[bytes]

    @property
    def browser(self) -> Browser:
        return Browser(self.trust)

    def asked(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, str]]:
        """Status and the variables Keystone got; none where nobody asked it."""
        return answered(self.browser, self.url + path, headers)


def answered(browser: Browser, url: str, headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, str]]:
    status, text, told = browser.get(url, headers)
    return status, json.loads(text) if told.get("Content-Type") == "application/json" else {}


def files(
    release: Release, providers: list[dict[str, Any]], secrets: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """What a Keystone with these providers mounts there."""
    spec = {"federation": {"enabled": True, "identityProviders": providers}}
    made = plan(context(KEYSTONE, spec, release=release, published=CONTRACTS, secrets=secrets))
    held = next(obj for obj in made.objects if obj["metadata"]["name"] == "keystone-federation")
    return kube.secret_data(held)


@contextmanager
def inside(root: Path, *command: str, **env: str) -> Generator[subprocess.Popen[bytes]]:
    """A program as a pod runs it: in the image's root, as its user."""
    script = (
        'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot --userspec=42456:42456 "$0" "$@"'
    )
    where = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **env}
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-ec", script, str(root), *command],
        env=where,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def written(root: Path, found: Mapping[str, str], ports: Mapping[str, int]) -> None:
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


def answers(port: int, process: subprocess.Popen[bytes]) -> None:
    """Somebody listens there."""
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        with closing(socket.socket()) as tried:
            if not tried.connect_ex(("127.0.0.1", port)):
                return
        # A server that starts tells nobody when it listens.
        time.sleep(0.05)
    pytest.fail(f"it does not listen: {process.poll()}")


def certified(tmp_path: Path) -> tuple[ssl.SSLContext, str]:
    """A server's own context, and the authority by which it is checked."""
    now = datetime.now(UTC)
    by = pki.authority("a" * 32, "test", now, timedelta(days=2))
    leaf = pki.issue(by, pki.Wanted(common="sso", names=frozenset({"127.0.0.1", "localhost"})), "b" * 32, now)
    for name, text in (("cert", leaf.cert), ("key", leaf.key)):
        (tmp_path / name).write_text(text)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    return tls, by.cert


@pytest.fixture(scope="module", params=["jwksURL", "introspectionURL"])
def place(
    request: pytest.FixtureRequest, image: Path, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    tls, trust = certified(tmp_path_factory.mktemp("sso"))
    with ExitStack() as stack:
        known = Provider("", CLIENT, SECRET, CLAIMS)
        server = stack.enter_context(serving(known, ("127.0.0.1", 0), tls))
        known.issuer = f"https://localhost:{server.server_port}"
        checked = {"jwksURL": f"{known.issuer}/jwks", "introspectionURL": f"{known.issuer}/introspect"}
        openid = {
            "issuer": known.issuer,
            "clientID": CLIENT,
            "clientSecretRef": {"name": "sso", "key": "secret"},
            "bearerTokens": {request.param: checked[request.param]},
        }
        provider = {"name": "sso", "protocol": "openid", "openid": openid, "mapping": MAPPING}
        found = files(
            release, [{**provider, "caSecretRef": {"name": "sso"}}], {"sso": {"secret": SECRET, "ca.crt": trust}}
        )
        backend, port = stack.enter_context(uwsgi()), free()
        written(image, found, {"5001": backend, "5011": free()})
        command = release["keystone-federation"].command
        process = stack.enter_context(inside(image, *command, LISTEN=f"0.0.0.0:{port}"))
        answers(port, process)
        yield Place(f"http://localhost:{port}", known, trust, image, process)


def test_who_logs_in_is_who_the_provider_says(place: Place) -> None:
    browser = place.browser
    status, env = answered(browser, f"{place.url}{WEBSSO}?origin=x", FORGED)
    assert status == 200
    assert env["PATH_INFO"] == WEBSSO
    assert env["QUERY_STRING"] == "origin=x"
    assert env["OIDC-iss"] == place.provider.issuer
    assert env["OIDC-preferred_username"] == "ada"
    assert env["OIDC-groups"] == "red;blue"
    assert "forged" not in str({name: value for name, value in env.items() if "OIDC" in name or "REMOTE" in name})
    assert not [name for name in env if "access_token" in name.lower()]
    began, back = browser.seen[:2]
    assert began.startswith(f"{place.provider.issuer}/authorize?")
    assert f"redirect_uri={quote(place.url + apache.redirect_path('sso'), safe='')}" in began
    assert "code_challenge_method=S256" in began
    assert back.startswith(place.url)
    # The next time nobody is sent anywhere.
    seen = len(browser.seen)
    assert answered(browser, f"{place.url}{WEBSSO}?origin=x")[1]["OIDC-preferred_username"] == "ada"
    assert len(browser.seen) == seen


@pytest.mark.parametrize(
    "path",
    ["/v3/auth/tokens", "/v3", "/", "/v3/auth/OS-FEDERATION/websso/saml2", "/v3/%4fS-FEDERATION/x", "//v3/auth/tokens"],
)
def test_nobody_says_themselves_who_they_are(place: Place, path: str) -> None:
    status, env = place.asked(path, FORGED)
    assert status == 200
    assert "forged" not in env.values()
    assert not [name for name in env if name.startswith(("OIDC", "Shib", "REMOTE_USER", "HTTP_OIDC", "HTTP_REMOTE"))]


def test_what_is_protected_is_shown_to_nobody_else(place: Place) -> None:
    status, _ = place.asked(AUTH, {"Accept": "application/json", **FORGED})
    assert status in {401, 403}
    for stranger in (
        place.provider.token(audience="another-program"),
        place.provider.token(audience=CLIENT)[:-8] + "AAAAAAAA",
        Provider(place.provider.issuer, CLIENT, SECRET, CLAIMS).token(audience=CLIENT),
        "x",
    ):
        if "introspect" in (place.root / apache.FOLDER[1:] / "apache2.conf").read_text() and stranger != "x":
            continue
        headers = {"Authorization": f"Bearer {stranger}", "Accept": "application/json"}
        assert place.asked(AUTH, headers) == (401, {}), stranger


def test_a_program_brings_a_token(place: Place) -> None:
    token = place.provider.token(audience=CLIENT)
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", **FORGED}
    status, env = place.asked(AUTH, headers)
    assert status == 200
    assert env["OIDC-iss"] == place.provider.issuer
    assert env["OIDC-preferred_username"] == "ada"
    assert "forged" not in str({name: value for name, value in env.items() if "OIDC" in name or "REMOTE" in name})
    assert "HTTP_AUTHORIZATION" not in env
    # Browsers are led to the provider, and a token is nothing there.
    browser = place.browser
    answered(browser, f"{place.url}{WEBSSO}", {"Authorization": f"Bearer {token}"})
    assert browser.seen


def test_a_stranger_is_not_asked_who_somebody_is(place: Place) -> None:
    redirect = apache.redirect_path("sso")
    for query in ("iss=https%3A%2F%2Fevil.example.org", "code=x&state=y"):
        status, env = place.asked(f"{redirect}?{query}")
        assert (status >= 400, env) == (True, {})
