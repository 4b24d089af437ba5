"""Files of a bucket that are written only if they do not exist yet, which restic cannot do."""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import unescape

from .run import RunError

_TIMEOUT = 60
_CONFLICTS = (409, 412)
"""Statuses for a file that exists, or that another client is writing."""
_REFUSED = (401, 403, 405)
"""Statuses for an account that may not."""
_ERROR_CODE = re.compile(rb"<Code>([A-Za-z0-9]{1,64})</Code>")
_MAX_ANSWER = 4096
"""Bytes of an error in which its code is looked for."""
_KEY = re.compile(r"<Key>([^<]*)</Key>")
_FOLDER = re.compile(r"<CommonPrefixes>\s*<Prefix>([^<]*)</Prefix>")
_TOKEN = re.compile(r"<NextContinuationToken>([^<]+)</NextContinuationToken>")
_LIST_PAGE = 1000
"""Names in one answer."""
_MAX_FILE = 1 << 30
"""Bytes of a file that are read: what has more is none of ours."""


class DeletionRefusedError(RunError):
    """The server does not let this account delete."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirection: another server would get the signature."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        """Follow none, so that it is an error."""


class _RefusedError(Exception):
    """Error that a server of S3 answered."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}".strip())
        self.status, self.code = status, code


@dataclass(frozen=True)
class Bucket:
    """A prefix in a bucket, and the account that writes there."""

    url: str
    """`https://host:port/bucket/prefix`."""
    region: str
    is_path_style: bool
    access_key: str
    secret_key: str
    authority: Path | None

    def put_new(self, name: str, body: bytes, now: datetime | None = None) -> bool:
        """Write a file below the prefix; return False if there is one, by the answer of the server to If-None-Match.
        Raise RunError if it cannot be written.
        """
        headers = {"If-None-Match": "*", "Content-Type": "application/octet-stream"}
        try:
            self._send("PUT", self.address(name), body, headers, now)
        except _RefusedError as error:
            if error.status in _CONFLICTS:
                return False
            raise RunError(f"the bucket refused a new {_kind(name)} at {self.url}: {error}") from None
        return True

    def read(self, name: str) -> bytes | None:
        """Return a file below the prefix; None if there is none. Raise RunError."""
        try:
            return self._send("GET", self.address(name))
        except _RefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND and error.code != "NoSuchBucket":
                return None
            raise RunError(f"the bucket refused to read {name} at {self.url}: {error}") from None

    def remove(self, name: str) -> None:
        """Remove a file below the prefix, if there is one. Raise DeletionRefusedError if the account may not, and
        RunError.
        """
        try:
            self._send("DELETE", self.address(name))
        except _RefusedError as error:
            text = f"the bucket refused to delete {name} at {self.url}: {error}"
            if error.status in _REFUSED:
                raise DeletionRefusedError(text) from None
            if error.status != HTTPStatus.NOT_FOUND or error.code == "NoSuchBucket":
                raise RunError(text) from None

    def names(self, folder: str, after: str, limit: int) -> list[str]:
        """Return at most `limit` names of the files in a folder, which ends in a slash, that come after the path of
        another file below the prefix. Raise RunError.
        """
        # The name of the folder itself is perhaps an object, too.
        names = (name for name in self._list(folder, after, limit, _KEY) if name and "/" not in name)
        return list(islice(names, limit))

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder, which ends in a slash. Raise RunError."""
        return [name.rstrip("/") for name in self._list(folder, "", _LIST_PAGE, _FOLDER)]

    def _list(self, folder: str, after: str, limit: int, pattern: re.Pattern[str]) -> Iterator[str]:
        """Yield what a pattern finds in the answers, without the prefix: `limit` is that of the first one alone, since
        it counts names and folders of others, too.
        """
        server, path, prefix = self._place()
        begin = (f"{prefix}/" if prefix else "") + folder
        words = {"delimiter": "/", "list-type": "2", "max-keys": str(limit), "prefix": begin}
        words |= {"start-after": begin.removesuffix(folder) + after} if after else {}
        token = ""
        while True:
            query = "&".join(f"{name}={quote(words[name], safe='-_.~')}" for name in sorted(words))
            try:
                answer = self._send("GET", f"{server}{path or '/'}?{query}").decode(errors="replace")
            except _RefusedError as error:
                raise RunError(f"the bucket refused to list {folder} at {self.url}: {error}") from None
            yield from sorted(name.removeprefix(begin) for name in pattern.findall(answer) if name.startswith(begin))
            match = _TOKEN.search(answer)
            if not match or match[1] == token:
                return
            token = match[1]
            words |= {"continuation-token": unescape(token), "max-keys": str(_LIST_PAGE)}

    def _send(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        now: datetime | None = None,
    ) -> bytes:
        """Return what the server answers. Raise _RefusedError for its errors, RunError if there is no answer."""
        headers = (headers or {}) | self.signature(url, body, now or datetime.now(UTC), method)
        request = urllib.request.Request(url, body or None, headers, method=method)  # noqa: S310  (http, if the URL says so)
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=self._trust()), _NoRedirects)
        try:
            with opener.open(request, timeout=_TIMEOUT) as answer:
                return bytes(answer.read(_MAX_FILE))
        except urllib.error.HTTPError as error:
            with error:
                raise _RefusedError(error.code, self._error_code(error)) from None
        except OSError as error:
            raise RunError(f"the bucket at {self.url} does not answer: {error}") from None
        except (ValueError, HTTPException) as error:
            # Their texts have what was sent, such as the account, or what the server answered.
            advice = "check its address, accessKey and secretKey"
            raise RunError(f"the bucket at {self.url} cannot be asked: {type(error).__name__}; {advice}") from None

    def _error_code(self, error: urllib.error.HTTPError) -> str:
        """Return the code of S3 in an answer, nothing else of it: any server inside the cloud may have this address.
        Empty if there is none.
        """
        try:
            match = _ERROR_CODE.search(error.read(_MAX_ANSWER))
        except (OSError, HTTPException):
            return ""
        code = match[1].decode() if match else ""
        return "" if self.access_key in code else code

    def check_certificate(self) -> None:
        """Raise RunError if the server has a certificate that is not trusted: restic would try again for 15 minutes.
        A server that does not answer is left to restic.
        """
        parts = urlsplit(self.address(""))
        if parts.scheme != "https" or not parts.hostname:
            return
        trust = self._trust()
        try:
            with socket.create_connection((parts.hostname, parts.port or 443), _TIMEOUT) as connection:
                trust.wrap_socket(connection, server_hostname=parts.hostname).close()
        except ssl.SSLCertVerificationError as error:
            fault = f"the certificate of {self.url} is not trusted: {error.verify_message}"
            advice = "name a Secret with the certificate of its authority (ca.crt) in caRef of s3, in a new resource"
            if self.authority:
                advice = "write the certificate of its authority into ca.crt of the Secret that caRef of s3 names"
            raise RunError(f"{fault}; {advice}") from None
        except OSError:
            pass

    def _trust(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.authority)
        except ssl.SSLError as error:
            raise RunError(f"ca.crt of the Secret that caRef of s3 names has no certificate: {error.reason}") from None

    def address(self, name: str) -> str:
        """Return the URL of a file."""
        server, path, prefix = self._place()
        return server + quote("/".join([path, *(part for part in (prefix, name) if part)]))

    def _place(self) -> tuple[str, str, str]:
        """Return the URL of the server, the path of the bucket there, and the prefix in the bucket."""
        parts = urlsplit(self.url)
        bucket, _, prefix = parts.path.strip("/").partition("/")
        host = parts.netloc if self.is_path_style else f"{bucket}.{parts.netloc}"
        return f"{parts.scheme}://{host}", f"/{bucket}" if self.is_path_style else "", prefix

    def signature(self, url: str, body: bytes, now: datetime, method: str = "PUT") -> dict[str, str]:
        """Return the headers by which S3 knows who sends a file: Signature Version 4, in one chunk."""
        parts, time, sha256 = urlsplit(url), now.strftime("%Y%m%dT%H%M%SZ"), hashlib.sha256(body).hexdigest()
        scope = f"{time[:8]}/{self.region}/s3/aws4_request"
        signed = {"host": parts.netloc, "x-amz-content-sha256": sha256, "x-amz-date": time}
        lines = "".join(f"{header}:{value}\n" for header, value in signed.items())
        request = f"{method}\n{parts.path}\n{parts.query}\n{lines}\n{';'.join(signed)}\n{sha256}"
        text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        digest = hmac.digest(key, text.encode(), "sha256").hex()
        credential = f"Credential={self.access_key}/{scope}"
        return {
            "X-Amz-Content-Sha256": sha256,
            "X-Amz-Date": time,
            "Authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={';'.join(signed)}, Signature={digest}",
        }


def _kind(name: str) -> str:
    """Return what a file belongs to: the two that restic cannot write are those of a new repository."""
    return "object of the archive" if "/" in name and not name.startswith("keys/") else "repository"
