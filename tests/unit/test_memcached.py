"""Memcached: what must hold besides its goldens."""

from __future__ import annotations

from openstack_operator.plan import Release, key
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.memcached.service import plan
from openstack_operator.testing import context


def test_every_server_is_published_by_its_own_name(release: Release) -> None:
    outcome = plan(context(MEMCACHED, {"replicas": 2}, release=release)).outcome
    assert outcome.published["servers"] == (
        "memcached-server-0.memcached.openstack.svc.cluster.local:11211,"
        "memcached-server-1.memcached.openstack.svc.cluster.local:11211"
    )


def test_no_server_means_no_cache_rather_than_no_answer(release: Release) -> None:
    outcome = plan(context(MEMCACHED, {"replicas": 0}, release=release)).outcome
    assert outcome.published == {"servers": ""}
    assert outcome.endpoint is None


def test_memory_reaches_the_program_and_the_scheduler(release: Release) -> None:
    objects = {key(o): o for o in plan(context(MEMCACHED, {"memoryMB": 512}, release=release)).objects}
    main = objects["StatefulSet", "memcached-server"]["spec"]["template"]["spec"]["containers"][0]
    assert " ".join(main["command"]) == "memcached -l 0.0.0.0 -p 11211 -U 0 -m 512 -c 1024"
    assert main["resources"]["requests"]["memory"] == "528Mi"


def test_what_it_remembers_needs_no_volume(release: Release) -> None:
    objects = {key(o): o for o in plan(context(MEMCACHED, release=release)).objects}
    assert "volumeClaimTemplates" not in objects["StatefulSet", "memcached-server"]["spec"]
