"""Who has seen what: whether all who trust, and all who are trusted, are where an authority's replacement needs them.

A pod reads what it trusts from a Secret when it starts, and has what the Secret held by then. Where the Secret holds a
certificate too, the pod follows: kubelets bring it what has changed, and its program reads that by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ... import kube, parts, pki
from ...plan import Object

FOLLOWED = timedelta(minutes=5)
"""Within which a pod that was ready all the time has followed: kubelets take up to two minutes, RabbitMQ two more."""
SHOWN = "what their ports show"
"""What is asked for last, since each port of each pod is."""


@dataclass(frozen=True, kw_only=True)
class _Copy:
    """A Secret with the authorities of a PKI."""

    authorities: str
    followed: bool
    changed: datetime
    """Any of its content, by the clock of the API server."""
    since: datetime
    """When its authorities changed."""


def untrusting(facts: Mapping[str, Any], trusted: Iterable[str], now: datetime) -> list[str]:
    """Who may not trust all of these authorities yet, as `Kind/name (pod)`."""
    return _late(facts, frozenset(trusted), "", now)


def unrenewed(facts: Mapping[str, Any], trusted: Iterable[str], old: str, now: datetime) -> list[str]:
    """Who may still show a certificate by the old authority, or does not trust all of them."""
    return _late(facts, frozenset(trusted), old, now)


def _late(facts: Mapping[str, Any], trusted: frozenset[str], old: str, now: datetime) -> list[str]:
    if "pods" not in facts:
        return ["what the cluster says of their users"]
    secrets: list[Object] = facts["secrets"]
    kinds = {ref["kind"].lower(): ref["kind"] for secret in secrets for ref in _owners(secret)}
    shown: Mapping[str, list[str]] = facts.get("shown", {})
    late: dict[str, str] = {}
    copies: dict[str, _Copy] = {}
    for secret in secrets:
        name, data = secret["metadata"]["name"], kube.secret_data(secret)
        found = pki.each(data.get("ca.crt", ""))
        if not found & trusted:
            continue
        if not trusted <= found or _by(data.get("tls.crt", ""), old):
            late.setdefault(_owner(secret, kinds), name)
        elif not old or "tls.crt" in data:
            copies[name] = _copy(secret["metadata"], data)
    for pod in facts["pods"]:
        name = pod["metadata"]["name"]
        seen = all(_seen(pod, copies[mounted], now) for mounted in _mounted(pod) if mounted in copies)
        if not seen or any(_by(cert, old) for cert in shown.get(name, ())):
            late.setdefault(_owner(pod, kinds), name)
    if not late and old and "shown" not in facts:
        return [SHOWN]
    return [f"{owner} ({what})" for owner, what in sorted(late.items())]


def _copy(metadata: Mapping[str, Any], data: Mapping[str, str]) -> _Copy:
    changed = _changed(metadata)
    since = (metadata.get("annotations") or {}).get(parts.AUTHORITIES_SINCE)
    return _Copy(
        authorities=data["ca.crt"],
        followed="tls.crt" in data,
        changed=changed,
        since=_time(since) if since else changed,
    )


def _by(cert: str, old: str) -> bool:
    try:
        return bool(cert and old) and pki.vouched(cert, [old])
    except ValueError:
        return False


def _owners(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def _owner(obj: Object, kinds: Mapping[str, str]) -> str:
    """Whom an object was made for, by its labels; itself where they do not say."""
    labels = obj["metadata"].get("labels") or {}
    kind, name = labels.get(kube.KIND, ""), labels.get(kube.INSTANCE, "")
    return f"{kinds.get(kind, kind)}/{name}" if kind else f"{obj.get('kind', 'Pod')}/{obj['metadata']['name']}"


def _changed(metadata: Mapping[str, Any]) -> datetime:
    """When the content of an object last changed, by the clock of the API server."""
    writers = [entry for entry in metadata.get("managedFields") or () if "f:data" in entry.get("fieldsV1", {})]
    return max(_time(at) for at in (metadata["creationTimestamp"], *(w["time"] for w in writers if "time" in w)))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _mounted(pod: Object) -> Iterator[str]:
    """The Secrets a pod reads files from, as long as it runs."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return
    for volume in pod["spec"].get("volumes") or ():
        sources = [
            volume.get("secret"),
            *(each.get("secret") for each in volume.get("projected", {}).get("sources", ())),
        ]
        yield from (source.get("secretName") or source["name"] for source in sources if source)


def _seen(pod: Object, copy: _Copy, now: datetime) -> bool:
    """Whether the program has read what the Secret holds now."""
    known = (pod["metadata"].get("annotations") or {}).get(parts.TRUSTS)
    if known and copy.followed and known != kube.digest(copy.authorities):
        return False
    made = _time(pod["metadata"]["creationTimestamp"])
    # Times are whole seconds. Of the same one is who was rolled at once; who was there just before is gone soon after.
    if made > copy.changed or (made == copy.changed and now >= copy.changed + FOLLOWED):
        return True
    ready = kube.conditions(pod).get("Ready", {})
    if not copy.followed or ready.get("status") != "True":
        return False
    return now >= max(copy.since, _time(ready["lastTransitionTime"])) + FOLLOWED
