"""Permission to send a Secret to a server that a resource names: the operator reads every Secret of a namespace, and a
user who may write a resource may not be allowed to read any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from ...api import ALLOWED_HOSTS, Destination, Model, Ref, allowed_hosts, destinations, host_of, is_allowed
from ...api import secret_references as key_references
from ...kube import secret_data
from ...parts.connect.clouds_yaml import cloud_auth
from ...parts.delegate import EXTERNAL
from ...plan import ResolvedRef
from ..cache.entries import Cached
from ..cache.world import World
from ..kubernetes.kinds import SECRET, Kind

_CLOUDS = "clouds.yaml"
_NAMING = ("host", "endpoint", "url", "auth_url", "authUrl")
"""Keys by which a Secret itself says which server it is for."""


def refusals(spec: Model, secrets: Mapping[str, Cached]) -> Iterator[str]:
    """Yield a sentence for each Secret that goes to a server of the spec's, and does not allow it."""
    yield from (f"{path}: {text}" for path, text in faults_of_destinations(spec, secrets))


def faults_of_destinations(spec: Model, secrets: Mapping[str, Cached]) -> Iterator[tuple[str, str]]:
    """Yield the path and the sentence of each of these refusals."""
    yield from _refusals(destinations(spec), secrets)


def account_refusals(
    world: World,
    kind: Kind,
    resource: Cached,
    spec: Model,
    refs: Mapping[Ref, ResolvedRef],
    secrets: Mapping[str, Cached],
) -> tuple[list[str], list[str]]:
    """Return the same for the password of an account on an external server, which the spec names by a resource; and
    what to wait for, as long as it is not known who made the resource. A password and an account of one plan may go
    together.
    """
    addresses = [name for each in refs.values() for name in each.published.get(EXTERNAL, "").split(",") if name]
    if not addresses:
        return [], []
    maker = world.plans.maker(kind, resource.meta)
    targets: list[Destination] = []
    for path, ref in key_references(spec):
        secret = secrets.get(ref.name)
        if secret is None or (maker.request and world.plans.maker(SECRET, secret.meta) == maker and maker.is_known):
            continue
        targets.append(Destination(path, ref.name, tuple(addresses)))
    texts = [f"{path}: {text}" for path, text in _refusals(targets, secrets)]
    if texts and not maker.is_known:
        return [], ["waiting for the first pass over its owner, which decides whether its password may be sent"]
    return texts, []


def _refusals(targets: Iterable[Destination], secrets: Mapping[str, Cached]) -> Iterator[tuple[str, str]]:
    for path, name, addresses in targets:
        if (secret := secrets.get(name)) is None:
            continue
        allowed = allowed_hosts(secret.meta.annotations)
        hosts = _hosts_named_in(secret)
        lacking = [host for host in map(host_of, addresses) if not is_allowed(host, allowed) and host not in hosts]
        if lacking:
            yield path, _refusal(name, sorted(set(lacking)))


def _refusal(name: str, hosts: list[str]) -> str:
    # Whoever may write the resource has this text shown to administrators: no command to copy without a thought.
    where = " and ".join(host or "a server that the spec does not name literally" for host in hosts)
    entries = ",".join(host or "*" for host in hosts)
    return (
        f"Secret {name!r} may not be sent to {where}. An administrator who trusts the author of this resource and that "
        f"server can add {entries} to the Secret's annotation {ALLOWED_HOSTS}"
    )


def _hosts_named_in(secret: Cached) -> frozenset[str]:
    """Return the servers that a Secret says it is for."""
    data = secret_data(secret.decode())
    addresses = [data[key].strip() for key in _NAMING if key in data]
    if _CLOUDS in data:
        # Its reader says what is wrong with it.
        with suppress(ValueError):
            addresses.append(cloud_auth(data[_CLOUDS]).get("auth_url", ""))
    return frozenset(host for host in map(host_of, addresses) if host)
