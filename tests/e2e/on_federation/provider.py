"""An identity provider small enough for a test: OpenID Connect with one user, and a browser that logs in there.

Run as a program it serves, or logs in; it needs Python and its cryptography alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import ssl
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from email.message import Message
from http.cookiejar import CookieJar
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class Provider:
    """Who is known, and what was promised to whom."""

    def __init__(self, issuer: str, client: str, secret: str, claims: Mapping[str, Any]) -> None:
        self.issuer, self.client, self.secret, self.claims = issuer, client, secret, dict(claims)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._codes: dict[str, dict[str, str]] = {}

    def token(self, *, audience: str, **more: Any) -> str:
        """A token of the user's, signed."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": audience, "iat": now, "exp": now + 600, **self.claims, **more}
        signed = ".".join(_text(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "one"}, claims))
        return f"{signed}.{_text(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def answer(self, path: str, asked: Mapping[str, str], authorization: str) -> tuple[int, dict[str, Any], str]:
        """Status, body and where to go on."""
        match path:
            case "/.well-known/openid-configuration":
                return 200, self._discovery(), ""
            case "/jwks":
                public = self._key.public_key().public_numbers()
                key = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256"}
                return 200, {"keys": [{**key, "n": _number(public.n), "e": _number(public.e)}]}, ""
            case "/authorize" if asked.get("client_id") == self.client:
                code = secrets.token_urlsafe(8)
                self._codes[code] = dict(asked)
                back = {"code": code, "state": asked["state"]}
                return 302, {}, f"{asked['redirect_uri']}?{urlencode(back)}"
            case "/token" if self._known(asked, authorization):
                return self._granted(asked)
            case "/introspect" if self._known(asked, authorization):
                good = asked.get("token", "").count(".") == 2
                told = {"iss": self.issuer, "client_id": self.client, "exp": int(time.time()) + 600, **self.claims}
                return 200, {"active": good, **(told if good else {})}, ""
            case _:
                return 403, {"error": "access_denied"}, ""

    def _discovery(self) -> dict[str, Any]:
        places = {"authorization": "authorize", "token": "token", "introspection": "introspect"}
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            **{f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in places.items()},
        }

    def _known(self, asked: Mapping[str, str], authorization: str) -> bool:
        basic = base64.b64decode(authorization.removeprefix("Basic ")).decode() if authorization else ""
        given = tuple(unquote(part) for part in basic.split(":", 1)) if basic else ()
        return (given or (asked.get("client_id"), asked.get("client_secret"))) == (self.client, self.secret)

    def _granted(self, asked: Mapping[str, str]) -> tuple[int, dict[str, Any], str]:
        token = {"access_token": self.token(audience=self.client), "token_type": "Bearer", "expires_in": 600}
        if asked["grant_type"] != "authorization_code":
            return 200, token, ""
        begun = self._codes.pop(asked.get("code", ""), None)
        proof = _text(hashlib.sha256(asked.get("code_verifier", "").encode()).digest())
        if begun is None or begun.get("code_challenge", proof) != proof:
            return 400, {"error": "invalid_grant"}, ""
        return 200, {**token, "id_token": self.token(audience=self.client, nonce=begun.get("nonce", ""))}, ""


@contextmanager
def serving(provider: Provider, address: tuple[str, int], tls: ssl.SSLContext) -> Generator[ThreadingHTTPServer]:
    """The server, which answers until the end."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            asked = {name: values[0] for name, values in parse_qs(f"{url.query}&{body}").items()}
            status, found, where = provider.answer(url.path, asked, self.headers.get("Authorization", ""))
            text = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            if where:
                self.send_header("Location", where)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Silent: the tests look at what is true afterwards."""

    server = ThreadingHTTPServer(address, Handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Shown(HTTPRedirectHandler):
    """Follows redirects and remembers them, but those to where it is to stop."""

    def __init__(self, stops: str) -> None:
        self.seen: list[str] = []
        self._stops = stops

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        self.seen.append(newurl)
        if self._stops and newurl.startswith(self._stops):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _titled(headers: Message) -> dict[str, str]:
    """Headers as `Subject-Token`, however they were written on the way."""
    return {name.title(): value for name, value in headers.items()}


class Browser:
    """Somebody with cookies who goes where they are sent."""

    def __init__(self, trust: str = "", stops: str = "") -> None:
        """`trust` are authorities in PEM; to what begins with `stops` nobody goes."""
        self._shown = _Shown(stops)
        self.cookies = CookieJar()
        context = ssl.create_default_context(cadata=trust or None)
        self._opener = build_opener(HTTPSHandler(context=context), HTTPCookieProcessor(self.cookies), self._shown)

    @property
    def seen(self) -> list[str]:
        """Where they were sent so far."""
        return self._shown.seen

    def get(
        self, url: str, headers: Mapping[str, str] | None = None, form: Mapping[str, str] | None = None
    ) -> tuple[int, str, Mapping[str, str]]:
        """Status, text and headers of where they end up; a form is posted."""
        body = urlencode(form).encode() if form else None
        request = Request(url, body, headers={"Accept": "text/html", **(headers or {})})
        try:
            with self._opener.open(request, timeout=30) as answer:
                return answer.status, answer.read().decode(), _titled(answer.headers)
        except HTTPError as error:
            with error:
                return error.code, error.read().decode(), _titled(error.headers)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


def main(arguments: list[str]) -> None:
    """`serve FILE`, with all it needs as JSON, `login URL ORIGIN CA...`, `bearer URL ISSUER CLIENT SECRET CA...`, or
    `forge URL ORIGIN CA...`."""
    match arguments:
        case ["serve", path]:
            told = json.loads(_read(path))
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(told["cert"], told["key"])
            provider = Provider(told["issuer"], told["client"], told["secret"], told["claims"])
            with serving(provider, ("", told["port"]), tls) as server:
                print("serving", server.server_port, flush=True)
                while True:
                    # Nothing to do but to stay; it ends with its pod.
                    time.sleep(3600)
        case ["login" | "forge" as how, url, origin, *trust]:
            browser = Browser("".join(_read(path) for path in trust))
            claims = {"OIDC-iss": "forged", "OIDC_iss": "forged", "Remote-User": "admin"} if how == "forge" else {}
            status, text, _ = browser.get(f"{url}?origin={quote(origin, safe='')}", claims)
            print(json.dumps({"status": status, "text": text, "seen": browser.seen}))
        case ["bearer", url, issuer, client, secret, *trust]:
            browser = Browser("".join(_read(path) for path in trust))
            asked = urlencode({"grant_type": "password", "client_id": client, "client_secret": secret})
            _, text, _ = browser.get(f"{issuer}/token?{asked}")
            token = json.loads(text)["access_token"]
            status, text, headers = browser.get(url, {"Authorization": f"Bearer {token}", "Accept": "application/json"})
            print(json.dumps({"status": status, "text": text, "token": headers.get("X-Subject-Token", "")}))
        case _:
            sys.exit(main.__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
