"""A clock that was ahead, and is put back: nothing waits for a time that was written meanwhile, and nothing hurries."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from openstack_operator import kube, pki
from openstack_operator.api import optional_ref
from openstack_operator.kube import RETRY_PAUSE
from openstack_operator.parts.secrets import rotation
from openstack_operator.parts.secrets.tls import AUTHORITIES_SINCE, _since  # pyright: ignore[reportPrivateUsage]
from openstack_operator.plan import Release, ResolvedRef, Verdict, failed
from openstack_operator.plan.times import not_ahead, past_stamp
from openstack_operator.runtime.cache.entries import Cached, Meta, Request, entry
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.clock import steady
from openstack_operator.runtime.guards.node_claims import NodeClaims
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import JOB, Catalog, Kind
from openstack_operator.runtime.reconcile.apply import Applier
from openstack_operator.runtime.reconcile.apply_cache import ApplyCache
from openstack_operator.runtime.reconcile.diagnosis import Diagnostician
from openstack_operator.runtime.reconcile.finalizers import delay
from openstack_operator.runtime.reconcile.grace_period import GracePeriod
from openstack_operator.services.credentialrotation.model import CREDENTIAL_ROTATION
from openstack_operator.services.credentialrotation.service import plan as plan_rotation
from openstack_operator.services.keystone.keys import KeyRing
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import (
    ROTATED,
    _live_ring,  # pyright: ignore[reportPrivateUsage]
)
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.testing import NOW, context

YEAR = timedelta(days=365)
AHEAD = NOW + YEAR


@pytest.mark.parametrize(
    ("moment", "taken"),
    [
        (NOW - YEAR, NOW - YEAR),
        # Clocks of two replicas differ.
        (NOW + timedelta(minutes=10), NOW + timedelta(minutes=10)),
        (AHEAD, NOW),
    ],
)
def test_a_moment_in_the_future_counts_as_now(moment: datetime, taken: datetime) -> None:
    assert not_ahead(moment, NOW) == taken
    text = rotation.stamp(moment)
    assert past_stamp(text, NOW) == rotation.stamp(taken)
    assert past_stamp("no time", NOW) == "no time"


def test_keys_of_keystone_rotate_on_schedule(release: Release) -> None:
    ctx = context(KEYSTONE, release=release)
    secret = kube.annotated(
        kube.secret(ctx, "keystone-fernet-keys", {"0": "a", "1": "b"}), {ROTATED: AHEAD.isoformat()}
    )
    ctx = replace(ctx, children={("Secret", "keystone-fernet-keys"): secret})
    assert _live_ring(ctx, "keystone-fernet-keys") == KeyRing({0: "a", 1: "b"}, NOW)


def test_an_account_that_is_not_used_goes_after_its_grace() -> None:
    state = rotation.Rotation(
        step=rotation.MIGRATING, since=rotation.stamp(AHEAD), order="2026-01-01T00:00:00Z", grace=1
    )
    order = rotation.Order(at=state.order, grace=1)

    def turned(before: rotation.Rotation | None, now: datetime) -> rotation.Rotation | None:
        return rotation.turned(before, order, now, has_remains=False, prepared=True, waits=())

    later = turned(state, NOW)
    assert later
    assert (later.step, later.since) == (rotation.MIGRATING, rotation.stamp(NOW))
    after = turned(later, NOW + timedelta(days=1))
    assert after
    assert after.step == rotation.IDLE


def test_an_order_is_new_though_the_last_one_was_ahead(release: Release) -> None:
    """A service takes only what is later than the order that it accepted."""
    spec = {"target": "database", "serviceRef": {"kind": "Glance", "name": "glance"}, "replaceNow": True}
    report = {"databaseRotation": json.dumps({"step": "Idle", "order": rotation.stamp(AHEAD)})}
    data = {"at": rotation.stamp(AHEAD), "generation": "1", "since": rotation.stamp(AHEAD)}
    refs = {ref: ResolvedRef(report) for ref in (optional_ref("Glance", "glance"),)}
    ctx = context(CREDENTIAL_ROTATION, spec, release=release, refs=refs, generation=2)
    secret = kube.secret(ctx, "glance-database-rotation", data)
    made = plan_rotation(replace(ctx, children={("Secret", "glance-database-rotation"): secret}))
    order = next(kube.secret_data(obj) for obj in made.objects if obj["kind"] == "Secret")
    assert order["at"] == rotation.stamp(AHEAD + timedelta(seconds=1))
    assert order["since"] == rotation.stamp(NOW), "the interval begins now"


def test_pods_are_not_waited_for_until_a_time_to_come() -> None:
    annotations = {AUTHORITIES_SINCE: rotation.stamp(AHEAD)}
    certificate = _certificate()
    assert _since(annotations, certificate, certificate, NOW) == {AUTHORITIES_SINCE: rotation.stamp(NOW)}


def _certificate() -> dict[str, str]:
    pair = pki.authority("k" * 64, "test", NOW, YEAR)
    return {"ca.crt": pair.cert, "tls.crt": pair.cert}


def resource(created: datetime) -> Cached:
    return Cached(Meta("a", uid="u", creation_timestamp=created.isoformat()), b"{}")


def test_a_deadline_set_by_a_clock_ahead_ends_in_time() -> None:
    grace = GracePeriod(30.0, lambda: 100.0, lambda: NOW)
    missing = kube_missing()
    verdict, remaining = grace.judge(Request("Nova", "x", "a"), resource(AHEAD), missing)
    assert remaining is not None
    assert remaining <= 30
    assert verdict.state is not missing.state


def kube_missing() -> Verdict:
    return replace(failed("no such Secret", "MissingReference"), incomplete=True)


def deleted(at: datetime) -> Cached:
    meta = {"name": "a", "namespace": "x", "uid": "u", "resourceVersion": "1", "deletionTimestamp": at.isoformat()}
    return entry({"metadata": meta}, Kind.of(MEMCACHED))


def test_a_deletion_does_not_hang_until_a_time_to_come() -> None:
    world = World(cast("Client", None), Catalog([MEMCACHED]), [], lambda change: None)
    going = deleted(datetime.now(UTC) + YEAR)
    assert delay(world, going) == timedelta()
    # As if this process had known of it for a minute.
    world.deletions["u"] = steady() - timedelta(minutes=1)
    assert delay(world, going) >= timedelta(minutes=1)
    assert delay(world, deleted(datetime.now(UTC) - YEAR)) >= YEAR
    world.stores[Kind.of(MEMCACHED)].put(going)
    world.stores[Kind.of(MEMCACHED)].remove(going)
    assert not world.deletions


class Deleting:
    """An API server whose Jobs go at once and are made again."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str, policy: str) -> None:
        self.deleted.append(name)

    async def page(self, *_: object, **__: object) -> bytes:
        return b'{"items": []}'

    async def apply(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "metadata": {**body["metadata"], "uid": "again", "resourceVersion": "9"}}


async def test_a_failed_job_is_tried_again_after_its_pause() -> None:
    client, store = Deleting(), Store(JOB, lambda _: None)
    world: Any = SimpleNamespace(client=client, stores={JOB: store}, catalog=Catalog(()))
    condition = {"type": "Failed", "status": "True", "lastTransitionTime": rotation.stamp(AHEAD)}
    labels = {"openstack.k8s.io/kind": "server", "app.kubernetes.io/instance": "db"}
    meta = {"name": "sync", "namespace": "ns", "uid": "j", "resourceVersion": "1", "labels": labels}
    job = entry({"metadata": meta, "spec": {}, "status": {"conditions": [condition]}}, JOB)
    store.put(job)
    apply_cache, owner_kind = ApplyCache(), Kind("v1", "Server", "servers")
    owner = entry({"metadata": {"name": "db", "namespace": "ns", "uid": "o", "resourceVersion": "1"}}, owner_kind)

    async def retry(known_for: timedelta) -> float | None:
        applier = Applier(
            world,
            apply_cache,
            Request("Server", "ns", "db"),
            owner,
            owner_kind,
            NOW,
            steady=NOW + known_for,
            node_claims=NodeClaims(world),
        )
        await applier._retry_job(JOB, job, {"metadata": {"name": "sync"}})  # pyright: ignore[reportPrivateUsage]
        return applier.recheck_after

    assert await retry(timedelta()) == RETRY_PAUSE.total_seconds()
    assert await retry(RETRY_PAUSE / 2) == RETRY_PAUSE.total_seconds() / 2
    assert not client.deleted
    await retry(RETRY_PAUSE)
    assert client.deleted == ["sync"]


def test_time_within_the_process_only_grows() -> None:
    moments = [steady() for _ in range(1000)]
    assert moments == sorted(moments)


def test_an_unchanged_object_is_applied_again_after_half_an_hour() -> None:
    """A definition that dropped a field may have been upgraded since."""
    now = [NOW]
    cache = ApplyCache(lambda: now[0])
    live = entry(
        {"metadata": {"name": "a", "namespace": "x", "uid": "u", "resourceVersion": "7", "generation": 1}}, JOB
    )
    cache.note_noop(live, "stamp")
    now[0] += timedelta(minutes=29)
    assert cache.is_noop(live, "stamp")
    now[0] += timedelta(minutes=2)
    assert not cache.is_noop(live, "stamp")


def test_an_unknown_status_version_is_awaited_two_minutes_by_any_clock() -> None:
    world = World(cast("Client", None), Catalog([MEMCACHED]), [], lambda change: None)
    request = Request(Kind.of(MEMCACHED).handle, "openstack", "memcached")
    ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
    live = {
        "apiVersion": MEMCACHED.api_version,
        "kind": MEMCACHED.kind,
        "metadata": {"name": "memcached", "generation": 1},
        "status": {"operatorVersion": "1.0", "observedGeneration": 1, "conditions": [ready]},
    }
    apply_cache, began = ApplyCache(), steady()
    answers = [
        Diagnostician(world, request, now, apply_cache, "2.0", steady=began + passed).judge(live).ready
        for now, passed in ((AHEAD, timedelta()), (NOW, timedelta(minutes=1)), (NOW, timedelta(minutes=3)))
    ]
    assert answers == [False, False, True]
