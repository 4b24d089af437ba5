"""The two files of a new repository in a bucket: one of several programs that create it at once writes them."""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from openstack_operator import pki
from openstack_operator.agents.backup.bucket import Bucket, DeletionRefusedError
from openstack_operator.agents.backup.run import RunError

ACCOUNT, SECRET = "account", "secret+key/of S3"


class Server(HTTPServer):
    """A server of S3 that checks signatures, and its files by their paths."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.files: dict[str, bytes] = {}
        self.refusal: tuple[int, bytes] | None = None
        """Answer to each request, if there is one."""


class _S3(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Server)
        if self.server.refusal:
            return self._answer(*self.server.refusal)
        if not self._is_signed(body):
            return self._answer(403, b"<Code>SignatureDoesNotMatch</Code>")
        if self.path in self.server.files and self.headers["If-None-Match"] == "*":
            return self._answer(412)
        self.server.files[self.path] = body
        return self._answer(200)

    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        path, _, query = self.path.partition("?")
        if self.server.refusal:
            return self._answer(*self.server.refusal)
        if not self._is_signed(b""):
            return self._answer(403, b"<Code>SignatureDoesNotMatch</Code>")
        if not query:
            body = self.server.files.get(path)
            return self._answer(404, b"<Code>NoSuchKey</Code>") if body is None else self._answer(200, body)
        return self._answer(200, self._list(path, {name: text for name, [text] in parse_qs(query).items()}))

    def do_DELETE(self) -> None:
        assert isinstance(self.server, Server)
        if self.server.refusal:
            return self._answer(*self.server.refusal)
        if not self._is_signed(b""):
            return self._answer(403, b"<Code>SignatureDoesNotMatch</Code>")
        self.server.files.pop(self.path, None)
        return self._answer(204)

    def _list(self, bucket: str, words: dict[str, str]) -> bytes:
        """List as ListObjectsV2 does with a delimiter."""
        assert isinstance(self.server, Server)
        begin, limit = words["prefix"], int(words["max-keys"])
        names = sorted(unquote(path).removeprefix(f"{bucket}/") for path in self.server.files)
        names = [name for name in names if name.startswith(begin) and name > words.get("start-after", "")]
        folders = {name[: name.index("/", len(begin)) + 1] for name in names if "/" in name[len(begin) :]}
        # Names and folders count alike.
        entries = sorted({*folders, *(name for name in names if "/" not in name[len(begin) :])})
        entries = [name for name in entries if name > words.get("continuation-token", "")[:-1]]
        parts = [
            f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"
            if name in folders
            else f"<Contents><Key>{name}</Key></Contents>"
            for name in entries[:limit]
        ]
        # A token may be any text.
        if len(entries) > limit:
            parts.append(f"<NextContinuationToken>{entries[limit - 1]}&amp;</NextContinuationToken>")
        return f"<ListBucketResult>{''.join(parts)}</ListBucketResult>".encode()

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _is_signed(self, body: bytes) -> bool:
        """Calculate the signature as the reference of Signature Version 4 has it."""
        match = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=(\w+)/(\d+)/([\w-]+)/s3/aws4_request, SignedHeaders=(\S+), Signature=(\w+)",
            self.headers["Authorization"],
        )
        assert match
        account, day, region, names, signature = match.groups()
        headers = "".join(f"{name}:{self.headers[name].strip()}\n" for name in names.split(";"))
        path, _, query = self.path.partition("?")
        request = "\n".join([self.command, path, query, headers, names, hashlib.sha256(body).hexdigest()])
        scope = f"{day}/{region}/s3/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["X-Amz-Date"], scope, digest])
        key = f"AWS4{SECRET}".encode()
        for part in (day, region, "s3", "aws4_request", text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return account == ACCOUNT and key.hex() == signature

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (its name in the class above)
        pass


@contextmanager
def s3(
    trust: ssl.SSLContext | None = None, refusal: tuple[int, bytes] | None = None
) -> Generator[tuple[str, dict[str, bytes]]]:
    with Server(("127.0.0.1", 0), _S3) as server:
        server.refusal = refusal
        if trust:
            server.socket = trust.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", server.files
        finally:
            server.shutdown()
            thread.join()


def bucket(url: str, secret: str = SECRET, *, is_path_style: bool = True, authority: Path | None = None) -> Bucket:
    return Bucket(url, "us-east-1", is_path_style, ACCOUNT, secret, authority)


def test_the_first_of_two_programs_writes_the_configuration() -> None:
    with s3() as (url, files):
        assert bucket(f"{url}/bucket/my cloud").put_new("config", b"first")
        assert not bucket(f"{url}/bucket/my cloud").put_new("config", b"second")
        assert files == {"/bucket/my%20cloud/config": b"first"}


def test_files_are_listed_in_the_order_of_their_names() -> None:
    with s3() as (url, _):
        one = bucket(f"{url}/bucket/my cloud")
        for name in ("archive/b/2", "archive/b/1", "archive/b/3", "archive/c/1", "archive/b/folder/1", "other"):
            one.put_new(name, name.encode())
        assert one.read("archive/b/2") == b"archive/b/2"
        assert one.read("archive/b/4") is None
        assert one.names("archive/b/", "", 9) == ["1", "2", "3"]
        assert one.names("archive/b/", "archive/b/1", 1) == ["2"]
        assert one.names("archive/d/", "", 9) == []
        assert one.folders("archive/") == ["b", "c"]
        whole = bucket(f"{url}/bucket")
        assert whole.names("my cloud/archive/c/", "", 9) == ["1"]


def test_a_file_is_deleted_once_and_for_all() -> None:
    with s3() as (url, files):
        one = bucket(f"{url}/bucket/my cloud")
        one.put_new("archive/1", b"")
        one.remove("archive/1")
        one.remove("archive/1")
        assert files == {}


@pytest.mark.parametrize(
    ("status", "error"), [(403, DeletionRefusedError), (405, DeletionRefusedError), (500, RunError)]
)
def test_a_refused_deletion_is_known_from_a_failure(status: int, error: type[RunError]) -> None:
    with s3(refusal=(status, b"<Code>No</Code>")) as (url, _), pytest.raises(RunError) as raised:
        bucket(f"{url}/bucket").remove("archive/1")
    assert type(raised.value) is error
    assert f"refused to delete archive/1 at {url}/bucket: {status} No" in str(raised.value)


@pytest.mark.security
def test_folders_of_others_do_not_end_a_list() -> None:
    """They count like names, and those that sort first would fill the only page."""
    with s3() as (url, files):
        one = bucket(f"{url}/bucket")
        for name in ("", "0/1", "1/1", "2/1", "3/1", "4", "5", "6/1", "7"):
            one.put_new(f"archive/b/{name}", b"")
        assert one.names("archive/b/", "", 1) == ["4"]
        assert one.names("archive/b/", "", 2) == ["4", "5"]
        assert one.names("archive/b/", "archive/b/5", 9) == ["7"]
        assert one.names("archive/b/", "archive/b/7", 9) == []
        assert one.folders("archive/b/") == ["0", "1", "2", "3", "6"]
        files.update({f"/bucket/archive/a/{number:04}/1": b"" for number in range(1002)})
        assert one.folders("archive/a/")[-1] == "1001"


@pytest.mark.parametrize("code", ["AccessDenied", "NoSuchBucket"])
def test_an_unreadable_file_is_not_a_missing_one(code: str) -> None:
    status = 404 if code == "NoSuchBucket" else 403
    with s3(refusal=(status, f"<Code>{code}</Code>".encode())) as (url, _):
        one = bucket(f"{url}/bucket")
        with pytest.raises(RunError, match=f"the bucket refused to read archive/1 at .*: {status} {code}$"):
            one.read("archive/1")
        with pytest.raises(RunError, match=f"the bucket refused to list archive/ at .*: {status} {code}$"):
            one.names("archive/", "", 1)
        with pytest.raises(RunError, match=f"the bucket refused a new object of the archive at .*: {status} {code}$"):
            one.put_new("archive/1", b"")


@pytest.mark.security
def test_a_redirection_is_an_error() -> None:
    with s3(refusal=(307, b"")) as (url, _), pytest.raises(RunError, match=r"refused to read archive/1 at .*: 307$"):
        bucket(f"{url}/bucket").read("archive/1")


@pytest.mark.security
def test_another_secret_key_is_refused_by_name() -> None:
    with s3() as (url, files):
        with pytest.raises(RunError, match=r"refused a new repository at .*: 403 SignatureDoesNotMatch$") as error:
            bucket(f"{url}/bucket", "another one").put_new("config", b"")
        assert files == {}
        assert "another one" not in str(error.value)


@pytest.mark.security
@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (b"<Error><Code>AccessDenied</Code><Message>internal</Message></Error>", "403 AccessDenied"),
        (b"internal", "403"),
        (b"<Code>in ternal</Code>", "403"),
        (b"<Code>" + b"internal" * 9 + b"</Code>", "403"),
        (f"<Code>of{ACCOUNT}</Code>".encode(), "403"),
        (b" " * 100_000 + b"<Code>internal</Code>", "403"),
    ],
)
def test_an_error_shows_only_the_code_of_an_answer(answer: bytes, shown: str) -> None:
    with s3(refusal=(403, answer)) as (url, _), pytest.raises(RunError) as error:
        bucket(f"{url}/bucket").put_new("config", b"")
    assert str(error.value) == f"the bucket refused a new repository at {url}/bucket: {shown}"


@pytest.mark.security
def test_an_account_that_no_header_can_have_stays_secret() -> None:
    broken = Bucket("http://127.0.0.1:1/bucket", "us-east-1", True, "acc\nount", SECRET, None)
    with pytest.raises(RunError, match=r"cannot be asked: ValueError; check its address, accessKey") as error:
        broken.put_new("config", b"")
    assert "ount" not in str(error.value)


@pytest.mark.security
def test_an_answer_that_is_no_http_stays_secret() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as request:
                while request.readline().strip():
                    pass
                connection.sendall(b"220 internal\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(RunError, match="cannot be asked: BadStatusLine") as error:
            bucket(f"http://127.0.0.1:{server.getsockname()[1]}/bucket").put_new("config", b"")
        thread.join()
    assert "internal" not in str(error.value)


def test_a_server_that_is_away_is_named() -> None:
    with s3() as (url, _):
        pass
    with pytest.raises(RunError, match=f"the bucket at {url}/bucket does not answer"):
        bucket(f"{url}/bucket").put_new("config", b"")


def test_buckets_are_a_part_of_the_path_or_of_the_host() -> None:
    url = "https://s3.example.com:9000/bucket/cloud/one/"
    assert bucket(url).address("keys/1") == "https://s3.example.com:9000/bucket/cloud/one/keys/1"
    virtual = bucket(url, is_path_style=False)
    assert virtual.address("config") == "https://bucket.s3.example.com:9000/cloud/one/config"
    assert bucket("https://s3/bucket").address("config") == "https://s3/bucket/config"


def test_a_signature_depends_on_all_that_is_sent() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    one = bucket("https://s3/bucket")
    signatures = {
        one.signature(f"https://s3/bucket/{name}", body, time)["Authorization"]
        for name, body, time in (("a", b"a", now), ("b", b"a", now), ("a", b"b", now), ("a", b"a", now.replace(hour=4)))
    }
    assert len(signatures) == 4


@pytest.mark.security
def test_a_certificate_that_is_not_trusted_is_named_at_once(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    ours, theirs = pki.authority("ours", "pki", now), pki.authority("theirs", "pki", now)
    pair = pki.issue(ours, pki.Request(common="s3", names=frozenset({"localhost"})), "drawn", now)
    for name, text in {"tls.crt": pair.cert, "tls.key": pair.key, "ours": ours.cert, "theirs": theirs.cert}.items():
        (tmp_path / name).write_text(text)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    with s3(trust) as (url, _):
        address = f"{url.replace('http', 'https').replace('127.0.0.1', 'localhost')}/bucket"
        bucket(address, authority=tmp_path / "ours").check_certificate()
        with pytest.raises(RunError, match=f"certificate of {address} is not trusted: .*; write the certificate of"):
            bucket(address, authority=tmp_path / "theirs").check_certificate()
        with pytest.raises(RunError, match=r"in caRef of s3, in a new resource"):
            bucket(address).check_certificate()
    (tmp_path / "empty").write_text("no certificate")
    with pytest.raises(RunError, match=r"ca\.crt of the Secret that caRef of s3 names has no cert"):
        bucket(address, authority=tmp_path / "empty").check_certificate()
    # A server that is away is left to restic, which tries again.
    bucket(address, authority=tmp_path / "ours").check_certificate()
