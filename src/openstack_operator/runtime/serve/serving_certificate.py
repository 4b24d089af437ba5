"""The certificate of a server: files that may change, or one that the process makes for itself."""

from __future__ import annotations

import os
import secrets
import ssl
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from ... import pki

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_LIFE = timedelta(days=90)
"""Life of a certificate that the process makes; it makes another one after two thirds of that."""


class ServingCertificate:
    """The TLS settings for new connections."""

    def __init__(
        self, folder: Path | None, names: Iterable[str], clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """`folder` has tls.crt and tls.key, as a Secret of type kubernetes.io/tls does. Without one, the certificate is
        for these `names`, and no client has a reason to trust it.
        """
        self.context: ssl.SSLContext | None = None
        """None before there is a certificate."""
        self._folder = folder
        self._template = pki.Request(common="openstack-operator", names=frozenset(names), life=_LIFE)
        self._clock = clock
        self._pair: pki.Pair | None = None
        self._trouble = ""

    def refresh(self) -> None:
        """Take the files where they changed, or make another certificate where it is time. Never raises: where the
        files are missing or wrong, the log says so once, and the last good ones serve.
        """
        try:
            pair = self._current()
            if pair != self._pair:
                self.context, self._pair = _context(pair), pair
                _log.info("certificate of metrics loaded", ends=str(pair.ends), folder=str(self._folder or ""))
            self._trouble = ""
        except (OSError, ValueError) as error:
            if self._trouble != str(error):
                self._trouble = str(error)
                _log.warning("no certificate for metrics", folder=str(self._folder), error=str(error))

    def _current(self) -> pki.Pair:
        if self._folder:
            key, cert = (self._folder / name for name in ("tls.key", "tls.crt"))
            return pki.Pair(key.read_text(encoding="ascii"), cert.read_text(encoding="ascii"))
        now = self._clock()
        if self._pair and now < self._pair.due:
            return self._pair
        # A certificate with the same name as its authority would count as self-signed.
        signer = pki.authority(secrets.token_hex(32), f"{self._template.common}-authority", now, _LIFE)
        return pki.issue(signer, self._template, secrets.token_hex(32), now)


def _context(pair: pki.Pair) -> ssl.SSLContext:
    """Return TLS settings with this certificate alone. Raises ValueError, OSError for one that is none."""
    if trouble := pki.read_error(pair):
        raise ValueError(trouble)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python reads certificates from files alone; this one is in memory, so that no disk ever has the key.
    file = os.memfd_create("certificate")
    try:
        with os.fdopen(file, "wb", closefd=False) as stream:
            stream.write(f"{pair.cert}\n{pair.key}".encode())
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context
