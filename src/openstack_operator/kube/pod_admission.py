"""Pods that their workload cannot make: admission, quotas and policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..plan import Object
from .pod_causes import SETTLE, STALLED_SOON_AFTER, Cause, Warnings, first_seen, last_seen, latest, with_reasons
from .pod_facts import created_at, parse_time
from .pod_reasons import REFUSED
from .quotes import one_line
from .rollout import Rollout, conditions

_STALE = timedelta(minutes=20)
"""A controller that is refused pods tries again after 16 minutes at most; an older refusal is old news."""

NEW_CLAIM = "after its deletion, Kubernetes creates a new, empty claim; restore the data into it"
"""Advice about a claim that is being deleted."""
_ADVICE = (
    ("exceeded quota", "raise the quota, or lower the requests of the pods"),
    (
        "failed quota",
        (
            "set what it must specify in spec.defaultResources, such as {limits: {cpu: 500m}}, or create a LimitRange"
            " with such a default for containers in this namespace, or change the quota"
        ),
    ),
    ("violates PodSecurity", "label the namespace pod-security.kubernetes.io/enforce=privileged"),
    ("failed calling webhook", "let the API server reach that webhook, or remove its configuration"),
    ("denied the request", "change the policy of that webhook, or the fields of the pods"),
    # pvc x is being deleted, persistentvolumeclaim "x" is being deleted
    ("is being deleted", NEW_CLAIM),
)
"""Advice about a refusal, by words of the API server and its controllers."""
_ADVICE_OTHERWISE = "change the named policy, or the fields of the pods"


def refusal_causes(
    workload: Mapping[str, Any], pods: Sequence[Object], warnings: Warnings, now: datetime
) -> Iterable[Cause]:
    """Yield causes for pods that the controller of a workload could not create: a quota, a policy or a webhook refuses
    them.
    """
    kind, meta = workload["kind"], workload["metadata"]
    if kind == "Deployment":
        refused = conditions(workload).get("ReplicaFailure", {})
        if refused.get("status") == "True":
            yield _refusal_cause(refused.get("message", ""), parse_time(refused.get("lastTransitionTime"), now))
        return
    rollout = Rollout(workload)
    desired, actual = (1, len(pods)) if kind == "Job" else (rollout.desired, rollout.existing)
    if actual >= desired:
        return
    events = warnings(kind, meta["name"], meta.get("uid", ""))
    if not (last := latest(with_reasons(events, {"FailedCreate"}))):
        return
    refused_at = last_seen(last)
    # What was taken later shows that the quota or the policy is another one by now; the rest follows in its turn.
    if now - refused_at < _STALE and not any(created_at(pod) > refused_at for pod in pods):
        yield _refusal_cause(last["message"], first_seen(last))


def _refusal_cause(message: str, since: datetime) -> Cause:
    said = one_line(message.partition("failed error: ")[2] or message.removeprefix("Error creating: "))
    advice = next((advice for words, advice in _ADVICE if words in said), _ADVICE_OTHERWISE)
    text = f"Kubernetes refuses its pods: {said}; {advice}"
    return Cause(reason=REFUSED, text=text, since=since, stalls=STALLED_SOON_AFTER, shown_at=since + SETTLE)
