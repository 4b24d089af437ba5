"""Progress of an authority's replacement in pods: which may not trust the new one yet, or show old certificates.

A pod reads what it trusts from a Secret when it starts, and keeps that content. If the Secret has a certificate too,
the pod follows: kubelets bring it each change, and its program reads that by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ... import kube, pki
from ...parts.secrets.node_certificates import ON_NODE, STORED_ON_NODE
from ...parts.secrets.tls import AUTHORITIES_SINCE, TRUSTS
from ...plan import Object

RELOADED_AFTER = timedelta(minutes=5)
"""Time after which a pod that was always ready has followed: kubelets take up to two minutes, RabbitMQ two more."""
SERVED = "the certificates on their ports"
"""The last thing to wait for, since the operator connects to each port of each pod for it."""


@dataclass(frozen=True, kw_only=True)
class _TrustSecret:
    """A Secret with the authorities of a PKI."""

    authorities: str
    is_followed: bool
    changed_at: datetime | None
    """Time of the last change of its content, by the clock of the API server; None if no valid time says so."""
    authorities_since: datetime | None
    """Time of the last change of its authorities; None as above."""


def without_trust(facts: Mapping[str, Any], trusted: Iterable[str], now: datetime) -> list[str]:
    """Return the users that may not trust all of these authorities yet, as `Kind/name (pod)`."""
    return _pending(facts, frozenset(trusted), "", now)


def not_renewed(facts: Mapping[str, Any], trusted: Iterable[str], old: str, now: datetime) -> list[str]:
    """Return the users that may show a certificate by the old authority, or may not trust all of the others yet."""
    return _pending(facts, frozenset(trusted), old, now)


def _pending(facts: Mapping[str, Any], trusted: frozenset[str], old: str, now: datetime) -> list[str]:
    if "pods" not in facts:
        return ["the state of their users"]
    secrets: list[Object] = facts["secrets"]
    kinds = {ref["kind"].lower(): ref["kind"] for secret in secrets for ref in _owners(secret)}
    served: Mapping[str, list[str]] = facts.get("shown", {})
    pending: dict[str, str] = {}
    trust_secrets: dict[str, _TrustSecret] = {}
    for secret in secrets:
        name, data = secret["metadata"]["name"], kube.secret_data(secret)
        authorities = pki.split(data.get("ca.crt", ""))
        if not authorities & trusted:
            continue
        if not trusted <= authorities or _is_by(data.get("tls.crt", ""), old):
            pending.setdefault(_owner(secret, kinds), name)
        elif _differs_on_node(secret):
            pending.setdefault(_owner(secret, kinds), f"files of {name} on its node")
        elif not old or "tls.crt" in data:
            trust_secrets[name] = _trust_secret(secret["metadata"], data)
    for pod in facts["pods"]:
        name = pod["metadata"]["name"]
        has_read = all(_has_read(pod, trust_secrets[mount], now) for mount in _mounts(pod) if mount in trust_secrets)
        if not has_read or any(_is_by(cert, old) for cert in served.get(name, ())):
            pending.setdefault(_owner(pod, kinds), name)
    if not pending and old and "shown" not in facts:
        return [SERVED]
    return [f"{owner} ({name})" for owner, name in sorted(pending.items())]


def _differs_on_node(secret: Object) -> bool:
    """Return True if a node has other files than the Secret made for it: it may be away."""
    annotations: Mapping[str, str] = secret["metadata"].get("annotations") or {}
    return annotations.get(ON_NODE) != annotations.get(STORED_ON_NODE)


def _trust_secret(metadata: Mapping[str, Any], data: Mapping[str, str]) -> _TrustSecret:
    changed_at = _changed_at(metadata)
    since = kube.valid_time((metadata.get("annotations") or {}).get(AUTHORITIES_SINCE))
    return _TrustSecret(
        authorities=data["ca.crt"],
        is_followed="tls.crt" in data,
        changed_at=changed_at,
        authorities_since=since or changed_at,
    )


def _is_by(cert: str, old: str) -> bool:
    try:
        return bool(cert and old) and pki.is_trusted(cert, [old])
    except ValueError:
        return False


def _owners(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def _owner(obj: Object, kinds: Mapping[str, str]) -> str:
    """Return the resource that an object belongs to, by its labels; the object itself without them."""
    labels = obj["metadata"].get("labels") or {}
    kind, name = labels.get(kube.KIND, ""), labels.get(kube.INSTANCE, "")
    return f"{kinds.get(kind, kind)}/{name}" if kind else f"{obj.get('kind', 'Pod')}/{obj['metadata']['name']}"


def _changed_at(metadata: Mapping[str, Any]) -> datetime | None:
    """Return the time of the last change of an object's content, by the clock of the API server; None if no time is
    valid.
    """
    writers = [entry for entry in metadata.get("managedFields") or () if "f:data" in entry.get("fieldsV1", {})]
    stamps = (metadata["creationTimestamp"], *(writer.get("time") for writer in writers))
    return max((at for at in map(kube.valid_time, stamps) if at), default=None)


def _mounts(pod: Object) -> Iterator[str]:
    """Yield the Secrets from which a pod reads files, as long as it runs."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return
    for volume in pod["spec"].get("volumes") or ():
        sources = [
            volume.get("secret"),
            *(each.get("secret") for each in volume.get("projected", {}).get("sources", ())),
        ]
        yield from (source.get("secretName") or source["name"] for source in sources if source)


def _has_read(pod: Object, trust_secret: _TrustSecret, now: datetime) -> bool:
    """Return True if the program has read the present content of the Secret; False if a time that would prove it is not
    valid.
    """
    digest = (pod["metadata"].get("annotations") or {}).get(TRUSTS)
    if digest and trust_secret.is_followed and digest != kube.digest(trust_secret.authorities):
        return False
    created_at = kube.valid_time(pod["metadata"]["creationTimestamp"])
    if created_at is None or trust_secret.changed_at is None:
        return False
    # Times are whole seconds. A pod of the same second is a new one, or an old one that is replaced soon after.
    if created_at > trust_secret.changed_at or (
        created_at == trust_secret.changed_at and now >= trust_secret.changed_at + RELOADED_AFTER
    ):
        return True
    ready = kube.conditions(pod).get("Ready", {})
    if not trust_secret.is_followed or ready.get("status") != "True":
        return False
    since = [trust_secret.authorities_since, kube.valid_time(ready.get("lastTransitionTime"))]
    valid = [at for at in since if at]
    return len(valid) == len(since) and now >= max(valid) + RELOADED_AFTER
