"""The Apache of federation as its image has it, between browsers, a provider and somebody in Keystone's place."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from openstack_operator.plan import Release
from openstack_operator.services.keystone.federation import apache
from tests.e2e.on_federation.provider import Browser, Provider, serving
from tests.unit.federation_image import (
    FORGED,
    fake_uwsgi,
    get_json,
    image,
    image_process,
    mounted_files,
    tls_context,
    wait_until_listening,
    write_files,
)
from tools.localcluster.ports import free_port

__all__ = ["image"]

CLIENT, SECRET = "keystone", 'it\'s "$ecret" \\ % and 100 long'
CLAIMS = {"sub": "u-1", "preferred_username": "ada", "email": "ada@example.org", "groups": ["red", "blue"]}
MAPPING = [
    {
        "remote": [{"type": "OIDC-preferred_username"}, {"type": "OIDC-groups"}],
        "local": [{"user": {"name": "{0}"}, "group": {"name": "federated", "domain": {"name": "Default"}}}],
    }
]
AUTH, WEBSSO = apache.auth_path("sso", "openid"), apache.websso_path("sso", "openid")


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
        return get_json(self.browser, self.url + path, headers)


@pytest.fixture(scope="module", params=["jwksURL", "introspectionURL"])
def place(
    request: pytest.FixtureRequest, image: Path, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    tls, trust = tls_context(tmp_path_factory.mktemp("sso"))
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
        found = mounted_files(
            release, [{**provider, "caSecretRef": {"name": "sso"}}], {"sso": {"secret": SECRET, "ca.crt": trust}}
        )
        backend, port = stack.enter_context(fake_uwsgi()), free_port()
        write_files(image, found, {"5001": backend, "5011": free_port()})
        command = release["keystone-federation"].command
        process = stack.enter_context(image_process(image, *command, LISTEN=f"0.0.0.0:{port}"))
        wait_until_listening(port, process)
        yield Place(f"http://localhost:{port}", known, trust, image, process)


def test_openid_login_gets_the_identity_of_the_provider(place: Place) -> None:
    browser = place.browser
    status, env = get_json(browser, f"{place.url}{WEBSSO}?origin=x", FORGED)
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
    assert get_json(browser, f"{place.url}{WEBSSO}?origin=x")[1]["OIDC-preferred_username"] == "ada"
    assert len(browser.seen) == seen


@pytest.mark.security
@pytest.mark.parametrize(
    "path",
    ["/v3/auth/tokens", "/v3", "/", "/v3/auth/OS-FEDERATION/websso/saml2", "/v3/%4fS-FEDERATION/x", "//v3/auth/tokens"],
)
def test_forged_identity_headers_reach_no_openid_path(place: Place, path: str) -> None:
    status, env = place.asked(path, FORGED)
    assert status == 200
    assert "forged" not in env.values()
    assert not [name for name in env if name.startswith(("OIDC", "Shib", "REMOTE_USER", "HTTP_OIDC", "HTTP_REMOTE"))]


@pytest.mark.security
def test_protected_paths_refuse_foreign_tokens(place: Place) -> None:
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
    get_json(browser, f"{place.url}{WEBSSO}", {"Authorization": f"Bearer {token}"})
    assert browser.seen


@pytest.mark.security
def test_a_stranger_is_not_asked_who_somebody_is(place: Place) -> None:
    redirect = apache.redirect_path("sso")
    for query in ("iss=https%3A%2F%2Fevil.example.org", "code=x&state=y"):
        status, env = place.asked(f"{redirect}?{query}")
        assert (status >= 400, env) == (True, {})
