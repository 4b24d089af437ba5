"""When the controller of a StatefulSet is asked again to make its pods."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from openstack_operator.plan import Object
from openstack_operator.runtime.cache.entries import Cached, entry
from openstack_operator.runtime.kubernetes.kinds import STATEFUL_SET
from openstack_operator.runtime.reconcile.missing_pods import NUDGED_AT, PATIENCE, nudge

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WANTED: Object = {"kind": "StatefulSet", "metadata": {"name": "db"}}


def held(pods: int, *, seen: int = 2, annotation: str = "") -> Cached:
    meta: dict[str, Any] = {"name": "db", "namespace": "ns", "uid": "u", "resourceVersion": "9", "generation": 2}
    if annotation:
        meta["annotations"] = {NUDGED_AT: annotation}
    live = {"metadata": meta, "spec": {"replicas": 3}, "status": {"replicas": pods, "observedGeneration": seen}}
    return entry({"apiVersion": "apps/v1", "kind": "StatefulSet", **live}, STATEFUL_SET)


def word(found: tuple[Object, float | None]) -> tuple[str, float | None]:
    return found[0]["metadata"].get("annotations", {}).get(NUDGED_AT, ""), found[1]


def test_a_complete_stateful_set_is_not_nudged():
    since = {"u": NOW}
    assert word(nudge(held(3), WANTED, since, NOW)) == ("", None)
    assert since == {}


def test_a_stateful_set_without_pods_is_nudged_repeatedly():
    since: dict[str, datetime] = {}
    wait = PATIENCE.total_seconds()
    assert word(nudge(held(2), WANTED, since, NOW)) == ("", wait)
    assert word(nudge(held(2), WANTED, since, NOW + PATIENCE / 3)) == ("", wait * 2 / 3)
    later = NOW + PATIENCE
    assert word(nudge(held(2), WANTED, since, later)) == ("2026-01-01T00:00:15+00:00", wait)
    # What was written stays until there is a reason to write again.
    one = held(2, annotation="2026-01-01T00:00:15+00:00")
    assert word(nudge(one, WANTED, since, later + timedelta(seconds=5))) == ("2026-01-01T00:00:15+00:00", wait - 5)
    assert word(nudge(one, WANTED, since, later + PATIENCE)) == ("2026-01-01T00:00:30+00:00", wait)
    whole = held(3, annotation="2026-01-01T00:00:30+00:00")
    assert word(nudge(whole, WANTED, since, later + PATIENCE * 2)) == ("2026-01-01T00:00:30+00:00", None)


def test_a_stateful_set_unseen_by_its_controller_is_nudged():
    since: dict[str, datetime] = {}
    nudge(held(3, seen=1), WANTED, since, NOW)
    assert word(nudge(held(3, seen=1), WANTED, since, NOW + PATIENCE))[0]
