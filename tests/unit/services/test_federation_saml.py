"""Shibboleth of federation as its image has it, told by a provider that signs as XML wants it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree as ET

import pytest

from openstack_operator.plan import Release
from tests.e2e.on_federation.provider import Browser
from tests.unit.federation_image import FORGED, get_json, image
from tests.unit.saml_provider import (
    AUTH,
    ENTITY,
    PROVIDER,
    SAMLP,
    SSO,
    WEBSSO,
    FederatedKeystone,
    SamlProvider,
    federated_keystone,
)

__all__ = ["image"]


@pytest.fixture(scope="module")
def place(image: Path, release: Release) -> Iterator[FederatedKeystone]:
    idp = SamlProvider()
    with federated_keystone(image, release, idp, PROVIDER, {"campus": {"metadata.xml": idp.metadata}}) as found:
        yield found


def sent(place: FederatedKeystone, browser: Browser, path: str) -> tuple[ET.Element, str]:
    """What a browser that comes there is sent to the provider with: the request, and its state."""
    status, _, _ = browser.get(f"http://localhost:{place.port}{path}", FORGED)
    assert status == 302
    assert browser.seen[-1].startswith(SSO)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(browser.seen[-1]).query).items()}
    return ET.fromstring(zlib.decompress(base64.b64decode(asked["SAMLRequest"]), -15)), asked["RelayState"]


def logged_in(place: FederatedKeystone, **changes: str) -> tuple[int, dict[str, str]]:
    """Status and the variables Keystone got, where the response was changed on its way."""
    browser = Browser(stops=SSO)
    request, state = sent(place, browser, f"{WEBSSO}?origin=x")
    response = place.idp.answer(request, f"http://localhost:{place.port}/shibboleth", "ada@example.org")
    text = base64.b64decode(response).decode()
    for old, new in changes.items():
        text = text.replace(old, new)
    response = base64.b64encode(text.encode()).decode()
    acs = request.get("AssertionConsumerServiceURL", "")
    assert acs == f"http://localhost:{place.port}/Shibboleth.sso/SAML2/POST"
    status, text, told = browser.get(acs, FORGED, {"SAMLResponse": response, "RelayState": state})
    return status, json.loads(text) if told.get("Content-Type") == "application/json" else {}


def test_saml_login_gets_the_identity_of_the_provider(place: FederatedKeystone) -> None:
    status, env = logged_in(place)
    assert (status, env.get("PATH_INFO"), env.get("QUERY_STRING")) == (200, WEBSSO, "origin=x")
    assert env["Shib-Identity-Provider"] == ENTITY
    assert (env["mail"], env["department"]) == ("ada@example.org", "engines")
    said = {name: value for name, value in env.items() if not name.startswith("HTTP_")}
    assert "forged" not in str(said)
    assert not [name for name in env if name.startswith(("HTTP_SHIB", "HTTP_MAIL", "HTTP_REMOTE", "HTTP_OIDC_ISS"))]


@pytest.mark.security
def test_assertions_of_another_provider_are_refused(place: FederatedKeystone) -> None:
    forged = logged_in(place, **{"ada@example.org": "root@example.org"})
    assert forged[0] >= 400 or not forged[1]
    stranger, place.idp = place.idp, SamlProvider()
    try:
        status, env = logged_in(place)
    finally:
        place.idp = stranger
    assert "mail" not in env
    assert status >= 400 or not env


@pytest.mark.security
@pytest.mark.parametrize("path", ["/v3/auth/tokens", "/v3", "/v3/%4fS-FEDERATION/x", "//v3/auth/tokens"])
def test_forged_identity_headers_reach_no_saml_path(place: FederatedKeystone, path: str) -> None:
    status, env = get_json(Browser(), f"http://localhost:{place.port}{path}", {"mail": "forged", **FORGED})
    assert status == 200
    assert not [name for name, value in env.items() if value == "forged" and not name.startswith("HTTP_OIDC_PRE")]


def test_the_provider_is_told_of_this_keystone(place: FederatedKeystone) -> None:
    status, text, _ = Browser().get(f"http://localhost:{place.port}/Shibboleth.sso/Metadata")
    assert status == 200
    assert ET.fromstring(text).get("entityID") == f"http://localhost:{place.port}/shibboleth"
    request, _ = sent(place, Browser(stops=SSO), AUTH)
    assert request.tag == f"{{{SAMLP}}}AuthnRequest"
