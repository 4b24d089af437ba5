"""Metadata of a SAML provider by URL: whose server and whose signature count."""

from __future__ import annotations

import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from openstack_operator.plan import Release
from tests.e2e.on_federation.provider import Browser
from tests.unit.federation_image import FORGED, image, tls_context
from tests.unit.polling import until
from tests.unit.saml_provider import PROVIDER, SSO, WEBSSO, FederatedKeystone, SamlProvider, federated_keystone

__all__ = ["image"]

pytestmark = pytest.mark.security


class Published:
    """A web server with the metadata of a provider."""

    def __init__(self, text: str, tls: ssl.SSLContext) -> None:
        self.asked = 0
        """Times somebody got it."""
        published = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/samlmetadata+xml")
                # Without its length it would end with the connection, which by TLS has an end of its own.
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())
                published.asked += 1

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.refused = 0
        """Connections that ended in their handshake."""
        self._tls = tls
        self._server.get_request = self._accepted
        self._thread = Thread(target=self._server.serve_forever)

    def _accepted(self) -> tuple[ssl.SSLSocket, Any]:
        connection, address = self._server.socket.accept()
        try:
            return self._tls.wrap_socket(connection, server_side=True), address
        except OSError:
            self.refused += 1
            raise

    def __enter__(self) -> Published:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def published(port: int, **more: Any) -> dict[str, Any]:
    """The provider with its metadata at that port."""
    saml2 = {name: value for name, value in PROVIDER["saml2"].items() if name != "metadataSecretRef"}
    return {**PROVIDER, "saml2": {**saml2, "metadataURL": f"https://127.0.0.1:{port}/metadata", **more}}


def is_known(place: FederatedKeystone) -> bool:
    """Whether users are sent to the provider, as its metadata says where it is."""
    browser = Browser(stops=SSO)
    browser.get(f"http://localhost:{place.port}{WEBSSO}?origin=x", FORGED)
    # Until Shibboleth has the metadata it sends users nowhere.
    return bool(browser.seen) and browser.seen[-1].startswith(SSO)


@pytest.mark.parametrize("signed", [False, True])
def test_metadata_of_a_server_with_the_right_certificate_counts(
    image: Path, release: Release, tmp_path: Path, *, signed: bool
) -> None:
    idp = SamlProvider()
    tls, authority = tls_context(tmp_path)
    secrets = {"ca": {"ca.crt": authority}, "signer": {"tls.crt": idp.certificate}}
    with Published(idp.signed_metadata if signed else idp.metadata, tls) as server:
        how = {"metadataCertificateSecretRef": {"name": "signer"}} if signed else {}
        provider = {**published(server.port, **how), "caSecretRef": {"name": "ca"}}
        with federated_keystone(image, release, idp, provider, secrets) as place:
            until("the provider to be known", lambda: is_known(place))


def test_metadata_of_a_server_by_another_authority_counts_for_nothing(
    image: Path, release: Release, tmp_path: Path
) -> None:
    tls, _ = tls_context(tmp_path)
    (tmp_path / "other").mkdir()
    idp, others = SamlProvider(), {"ca": {"ca.crt": tls_context(tmp_path / "other", seed="c")[1]}}
    for trusted in ({"caSecretRef": {"name": "ca"}}, {}):
        with (
            Published(idp.metadata, tls) as server,
            federated_keystone(image, release, idp, {**published(server.port), **trusted}, others) as place,
        ):
            until("somebody to ask for it", lambda server=server: server.refused)
            assert not is_known(place)
            assert not server.asked


@pytest.mark.parametrize("signer", ["nobody", "a stranger"])
def test_metadata_that_is_not_signed_by_whom_it_must_counts_for_nothing(
    image: Path, release: Release, tmp_path: Path, signer: str
) -> None:
    tls, authority = tls_context(tmp_path)
    idp = SamlProvider()
    secrets = {"ca": {"ca.crt": authority}, "signer": {"tls.crt": SamlProvider().certificate}}
    with Published(idp.metadata if signer == "nobody" else idp.signed_metadata, tls) as server:
        provider = published(server.port, metadataCertificateSecretRef={"name": "signer"})
        with federated_keystone(image, release, idp, {**provider, "caSecretRef": {"name": "ca"}}, secrets) as place:
            until("somebody to ask for it", lambda: server.asked)
            assert not is_known(place)
