"""The webhook's certificate: drawn, renewed, and registered with the API server, by a program with no other rights.

An authority signs one certificate, and its key is thrown away: there is nothing to steal that signs another. At a
renewal the API server trusts the next authority, too, before the next certificate is put in its place.
"""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import structlog

from .. import pki
from ..kube import secret_data
from ..plan import Object, SpecError, Transient
from ..runtime.kubernetes.client import Client
from ..runtime.kubernetes.errors import Missing
from ..runtime.kubernetes.kinds import SECRET
from .object_names import CALLER, CONFIGURATION, HOST, INJECTOR, WEBHOOK

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_LIFE = timedelta(days=90)
"""Short enough that administrators see a renewal more than once a year."""
_CALLER = re.compile(r"[0-9a-f]{64}")
_LOOK, _RETRY = 600.0, 15.0
"""Seconds until it is looked at again, and after a failure."""


def renew(files: Mapping[str, str], request: pki.Request, draw: Callable[[], str], now: datetime) -> Mapping[str, str]:
    """Return the same files while their certificate is good and has a third of its life left; otherwise new ones, whose
    ca.crt still holds the authority of the old one.
    """
    current_pair, authorities = (
        pki.Pair(files.get("tls.key", ""), files.get("tls.crt", "")),
        pki.split(files.get("ca.crt", "")),
    )
    if not pki.fault(current_pair, request, now, authorities=authorities) and now < current_pair.due:
        return files
    # A certificate with the name of its issuer counts as self-signed.
    signer = pki.authority(draw(), f"{request.common}-authority", now, _LIFE)
    pair = pki.issue(signer, request, draw(), now)
    return {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": pki.bundle([signer.cert, *sorted(authorities)], now)}


async def certify(client: Client, host: str = HOST, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
    """Write a good certificate for that host to the Secret, and its authority to the webhook configuration. Raises
    Transient or SpecError if one of the two does not exist or could not be written.
    """
    request = pki.Request(common=INJECTOR, names=frozenset({host}), life=_LIFE)
    live = _need(await client.get(SECRET, INJECTOR, INJECTOR), f"Secret {INJECTOR}/{INJECTOR}")
    current_files = secret_data(live)
    renewed = renew(current_files, request, lambda: secrets.token_hex(32), clock())
    caller = current_files.get(CALLER, "")
    files = {**renewed, CALLER: caller if _CALLER.fullmatch(caller) else secrets.token_hex(32)}
    await _register(client, files["ca.crt"], files[CALLER])
    if files != current_files:
        data = {key: base64.b64encode(text.encode()).decode() for key, text in files.items()}
        await client.replace(SECRET, {**live, "data": data})
        _log.info("certificate renewed", host=host)


async def keep(client: Client) -> NoReturn:
    """Certify again and again until canceled."""
    while True:
        try:
            await certify(client)
            pause = _LOOK
        except (Transient, SpecError) as error:
            _log.warning("cannot certify", error=str(error))
            pause = _RETRY
        await asyncio.sleep(pause)


async def _register(client: Client, authorities: str, caller: str) -> None:
    """Have the API server trust these authorities, and no others, when it asks the webhook at the path `caller`."""
    bundle = base64.b64encode(authorities.encode()).decode()
    live = _need(await client.get(CONFIGURATION, None, INJECTOR), f"{CONFIGURATION.kind} {INJECTOR}")
    hook = next((each for each in live.get("webhooks") or () if each["name"] == WEBHOOK), None)
    config = _need(hook, f"webhook {WEBHOOK} of {CONFIGURATION.kind} {INJECTOR}")["clientConfig"]
    fields: Object = {"caBundle": bundle, **_address(config, caller)}
    if any(not _has(config.get(name), value) for name, value in fields.items()):
        changes = {"webhooks": [{"name": WEBHOOK, "clientConfig": fields}]}
        await client.patch(CONFIGURATION, None, INJECTOR, changes, manager=INJECTOR)
        _log.info("authorities told", configuration=INJECTOR)


def _address(config: Object, caller: str) -> Object:
    """Return the fields of a client's configuration that name its server, with the path."""
    if url := config.get("url"):
        return {"url": f"{'/'.join(url.split('/')[:3])}/{caller}"}
    return {"service": {"path": f"/{caller}"}}


def _has(live: object, fields: object) -> bool:
    if isinstance(live, dict) and isinstance(fields, dict):
        return {**live, **fields} == live
    return live == fields


def _need(live: Object | None, name: str) -> Object:
    if live is None:
        raise Missing(f"there is no {name}; apply deploy/labels-injector.yaml")
    return live
