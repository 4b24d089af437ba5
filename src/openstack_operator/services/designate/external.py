"""DNS servers of the user: entries of a pool, with what workers command them by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ... import kube, parts
from ...plan import Context, MissingReference, SpecError, key_placeholder
from . import config
from .bind9 import RNDC, key_file
from .config import ServerPool, Tsig
from .model import DesignateSpec, ExternalBind9, ExternalPdns4, HmacKey
from .pdns import COMPONENT, TRUST
from .servers import Addresses, Backend

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def tsig(ctx: Context[DesignateSpec], pool: ServerPool, keys: parts.Credentials) -> Tsig:
    """Return the key of transfers of a pool: the user's, or the drawn one. Raise SpecError for what is no key."""
    external = pool.spec.external
    if external and external.tsig_key:
        return _hmac(ctx, external.tsig_key, f"{pool.path}.external.tsigKey")
    return Tsig(name=pool.transfer, secret=config.secret(keys[pool.transfer]))


def keys(pool: ServerPool) -> Sequence[str]:
    """Return the names of the keys to draw for a pool of the user's servers."""
    return () if pool.spec.external and pool.spec.external.tsig_key else (pool.transfer,)


def backend(ctx: Context[DesignateSpec], pool: ServerPool, key: Tsig, addresses: Addresses) -> Backend:
    """Return the user's servers, with the keys of `rndc` in the Secret `<owner>-rndc`. Raise SpecError for an address
    of this machine or of the link, MissingReference for authorities that are missing.
    """
    external = pool.spec.external
    assert external is not None
    masters = [{"host": each.address, "port": each.port} for each in external.primaries] or addresses.outer_masters
    folder = f"{config.FOLDER}/{pool.prefixed(RNDC)}"
    rndc: dict[str, str] = {}
    authorities: dict[str, str] = {}
    targets: list[dict[str, Any]] = []
    for number, server in enumerate(external.servers):
        path, options = f"{pool.path}.external.servers[{number}]", dict[str, Any]()
        _check_host(f"{path}.address", server.address)
        if server.bind9:
            _check_host(f"{path}.bind9.host", server.bind9.host or server.address)
            rndc[f"server-{number}.key"] = key_file(_hmac(ctx, server.bind9.key, f"{path}.bind9.key"))
            options = _rndc_options(server.bind9, server.address, f"{folder}/server-{number}.key")
        if server.pdns4:
            _check_host(f"{path}.pdns4.url", urlsplit(server.pdns4.url).hostname or "")
            mount = f"{TRUST}{pool.prefixed(COMPONENT)}-{number}"
            authorities[mount] = _authority(ctx, server.pdns4, f"{path}.pdns4.caSecretRef")
            options = _api_options(ctx, server.pdns4, f"{path}.pdns4.tokenRef", f"{mount}/ca.crt", key)
        type_ = "bind9" if server.bind9 else "pdns4"
        text = f"external server {number}"
        targets.append(config.target(type_, text, masters, server.address, server.port, **options))
    listed = [{"host": each.address, "port": each.port} for each in external.servers]
    if not rndc:
        return Backend(servers=listed, targets=targets, authorities=authorities)
    file = parts.written(ctx, rndc, suffix=pool.prefixed(RNDC), directory=folder)
    return Backend(
        steps=(file,),
        servers=listed,
        targets=targets,
        prerequisites=(file,),
        authorities=authorities,
        mounts=kube.files(pool.prefixed(RNDC), file.secret, folder, *file.files),
        env={pool.variable("RNDC_DIGEST"): file.digest},
    )


def check(pool: ServerPool) -> None:
    """Raise SpecError if fields contradict each other, or if Designate would send what is for other servers to this
    machine or to the link.
    """
    if (pool.spec.backend == "external") != (pool.spec.external is not None):
        raise SpecError(f"{pool.path}.external", "list your servers here, and set backend: external")
    if pool.spec.external and not pool.spec.ns_records:
        raise SpecError(f"{pool.path}.nsRecords", "list your servers as NS records should show them")
    for number, each in enumerate(pool.spec.also_notifies):
        _check_host(f"{pool.path}.alsoNotifies[{number}].address", each.address)


def _check_host(path: str, host: str) -> None:
    if not kube.may_be_server(host):
        text = f"{host} is a loopback, link-local or metadata address; set the server's own address"
        raise SpecError(path, text)


def _rndc_options(server: ExternalBind9, address: str, file: str) -> dict[str, Any]:
    return {
        "rndc_host": server.host or address,
        "rndc_port": server.port,
        "rndc_key_file": file,
        "clean_zonefile": True,
    }


def _api_options(
    ctx: Context[DesignateSpec], server: ExternalPdns4, path: str, authority: str, key: Tsig
) -> dict[str, Any]:
    token = _value(ctx, server.token_ref)
    # The error of a header that is refused quotes it.
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise SpecError(
            path, f"Secret {server.token_ref.name!r} has no token in this key: write letters without spaces"
        )
    return {
        "api_endpoint": server.url.rstrip("/"),
        "api_token": token,
        "tsigkey_name": key.name,
        "api_ca_cert": authority,
    }


def _authority(ctx: Context[DesignateSpec], server: ExternalPdns4, path: str) -> str:
    name = server.ca_secret_ref.name
    if "ca.crt" not in ctx.secrets.get(name, {}):
        raise MissingReference(path, f"Secret {name!r} has no key 'ca.crt'")
    return name


def _hmac(ctx: Context[DesignateSpec], key: HmacKey, path: str) -> Tsig:
    secret = _value(ctx, key.key_ref)
    is_placeholder = secret == key_placeholder(key.key_ref.name, key.key_ref.key)
    if not secret or not (is_placeholder or _BASE64.fullmatch(secret)):
        text = f"Secret {key.key_ref.name!r} has no key in base64 there; write what follows 'secret' in the key's file"
        raise SpecError(f"{path}.keyRef", text)
    return Tsig(name=key.name, algorithm=key.algorithm, secret=secret)


def _value(ctx: Context[DesignateSpec], ref: Any) -> str:
    return ctx.secrets[ref.name][ref.key].strip()


def duplicates(tsigs: Mapping[str, Tsig]) -> Iterator[str]:
    """Yield the names of pools whose key of transfers has the name of that of a pool before."""
    names: set[str] = set()
    for pool, key in tsigs.items():
        if key.name.lower() in names:
            yield pool
        names.add(key.name.lower())
