"""The webhook's certificate: drawn, renewed, and told to the API server, by a program with no other rights.

An authority signs one certificate, and its key is thrown away: there is nothing to steal that signs another. At a
renewal the API server is told to trust the next authority, too, before the next certificate is put in its place.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import structlog

from .. import pki
from ..kube import secret_data
from ..plan import Object, SpecError, Transient
from ..runtime.client import Client, Missing
from ..runtime.kinds import SECRET
from .names import CONFIGURATION, HOST, INJECTOR, WEBHOOK

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_LIFE = timedelta(days=90)
"""Short enough that a renewal is nothing that nobody has seen for years."""
_LOOK, _AGAIN = 600.0, 15.0
"""Seconds until it is looked at again, and after a failure."""


def renewed(files: Mapping[str, str], wanted: pki.Wanted, draw: Callable[[], str], now: datetime) -> Mapping[str, str]:
    """The same files while their certificate is good and has a third of its life left; otherwise new ones, whose ca.crt
    still holds who vouched for the old one.
    """
    held, known = pki.Pair(files.get("tls.key", ""), files.get("tls.crt", "")), pki.each(files.get("ca.crt", ""))
    if not pki.fault(held, wanted, now, authorities=known) and now < held.due:
        return files
    # A certificate that bears the name of who issued it counts as one that vouches for itself.
    signer = pki.authority(draw(), f"{wanted.common}-authority", now, _LIFE)
    pair = pki.issue(signer, wanted, draw(), now)
    return {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": pki.bundle([signer.cert, *sorted(known)], now)}


async def certify(client: Client, host: str = HOST, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
    """The Secret holds a good certificate for that host, and the webhook configuration trusts it. Raises Transient,
    SpecError where one of the two is not there or could not be written.
    """
    wanted = pki.Wanted(common=INJECTOR, names=frozenset({host}), life=_LIFE)
    live = _there(await client.get(SECRET, INJECTOR, INJECTOR), f"Secret {INJECTOR}/{INJECTOR}")
    held = secret_data(live)
    files = renewed(held, wanted, lambda: secrets.token_hex(32), clock())
    await _trusted(client, files["ca.crt"])
    if files != held:
        data = {key: base64.b64encode(text.encode()).decode() for key, text in files.items()}
        await client.replace(SECRET, {**live, "data": data})
        _log.info("certificate renewed", host=host)


async def keep(client: Client) -> NoReturn:
    """Certifies again and again until canceled."""
    while True:
        try:
            await certify(client)
            pause = _LOOK
        except (Transient, SpecError) as error:
            _log.warning("cannot certify", error=str(error))
            pause = _AGAIN
        await asyncio.sleep(pause)


async def _trusted(client: Client, authorities: str) -> None:
    """The API server trusts these authorities, and no others, when it asks the webhook."""
    bundle = base64.b64encode(authorities.encode()).decode()
    live = _there(await client.get(CONFIGURATION, None, INJECTOR), f"{CONFIGURATION.kind} {INJECTOR}")
    hook = next((each for each in live.get("webhooks") or () if each["name"] == WEBHOOK), None)
    if _there(hook, f"webhook {WEBHOOK} of {CONFIGURATION.kind} {INJECTOR}")["clientConfig"].get("caBundle") != bundle:
        changes = {"webhooks": [{"name": WEBHOOK, "clientConfig": {"caBundle": bundle}}]}
        await client.patch(CONFIGURATION, None, INJECTOR, changes, manager=INJECTOR)
        _log.info("authorities told", configuration=INJECTOR)


def _there(found: Object | None, what: str) -> Object:
    if found is None:
        raise Missing(f"there is no {what}; apply deploy/labels-injector.yaml")
    return found
