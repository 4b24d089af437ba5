"""How plans unfold over passes, through outages and upgrades, as text people read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.plan import READY, Object, Plan, Release, key, progressing

from .narrator import Story

HERE = Path(__file__).parent


@pytest.fixture
def told(request: pytest.FixtureRequest, update: bool) -> Callable[[Story], None]:
    """Compares a story with the one written down under the test's name."""
    path = HERE / f"{request.node.name.removeprefix('test_')}.story"

    def compare(story: Story) -> None:
        if update:
            path.write_text(story.text, encoding="utf-8")
        assert path.exists(), f"there is no {path.name} yet; make it with `pytest tests/stories --update` and read it"
        assert story.text == path.read_text(encoding="utf-8"), "the story changed; read the diff, then --update"

    return compare


def renewed(release: Release) -> Release:
    """The same programs in other images."""
    components = {
        name: dataclasses.replace(component, image=f"{component.image}-next")
        for name, component in release.components.items()
    }
    return dataclasses.replace(release, name="next", components=components)


async def test_placement_unfolds(release: Release, told: Callable[[Story], None]) -> None:
    story = Story("Placement", release)
    story.say("A Placement appears; its database answers, Keystone does not yet.")
    await story.look()
    story.finishes("MariaDBDatabase")
    await story.look()
    story.finishes("Job")
    await story.look()
    story.finishes("KeystoneUser")
    await story.look()
    story.finishes("Deployment")
    await story.look()
    story.finishes()
    await story.look()
    story.say("Nothing changes.")
    await story.look()
    told(story)


async def test_keystone_unfolds(release: Release, told: Callable[[Story], None]) -> None:
    story = Story("Keystone", release)
    story.say("A Keystone appears.")
    await story.look()
    story.finishes("MariaDBDatabase")
    await story.look()
    story.finishes("Job")
    await story.look()
    story.finishes("Deployment")
    await story.look()
    story.finishes()
    await story.look()
    told(story)


async def test_nova_unfolds(release: Release, told: Callable[[Story], None]) -> None:
    story = Story("Nova", release)
    story.referent("Neutron", progressing("not ready: API: neutron-api: 0/1 pods ready"))
    await story.look()
    story.finishes("MariaDBDatabase", "RabbitMQVhost", "KeystoneUser")
    await story.look()
    story.finishes("Job")
    await story.look()
    story.referent("Neutron", READY)
    await story.look()
    await story.look_until_quiet()
    told(story)


async def test_cinder_unfolds(release: Release, told: Callable[[Story], None]) -> None:
    ceph = {"name": "ceph", "type": "ceph"}
    shares = {"name": "files", "type": "nfs", "nfs": {"shares": ["files.example:/volumes"]}}
    story = Story("Cinder", release, {"backends": [ceph]})
    story.referent("CephStorage", progressing("Ceph does not answer yet"))
    await story.look()
    story.finishes("MariaDBDatabase", "RabbitMQVhost", "KeystoneUser")
    await story.look()
    story.finishes("Job")
    await story.look()
    story.referent("CephStorage", READY)
    await story.look()
    await story.look_until_quiet()
    story.reports("CinderBackend", "cinder-ceph", status="Down", message="no cinder-volume reports for it")
    await story.look()
    story.reports("CinderBackend", "cinder-ceph", status="Ready", availableCapacity="100Gi", volumes=2)
    story.user_writes(backends=[shares])
    await story.look()
    story.user_writes(backends=[ceph, shares])
    await story.look_until_quiet()
    story.reports("CinderBackend", "cinder-ceph", status="Ready", availableCapacity="100Gi", volumes=0)
    story.user_writes(backends=[shares])
    await story.look()
    story.finishes()
    await story.look()
    await story.look()
    told(story)


async def test_an_outage_does_not_block_scaling(release: Release, told: Callable[[Story], None]) -> None:
    story = Story("Placement", release)
    await story.look_until_quiet()
    story.breaks("KeystoneUser", "KeystoneService", message="Keystone/keystone: API: keystone-api: 0/1 pods ready")
    story.user_writes(replicas=3)
    await story.look()
    told(story)


async def test_a_new_release_waits_for_its_schema(release: Release, told: Callable[[Story], None]) -> None:
    story = Story("Placement", release)
    await story.look_until_quiet()
    story.release_becomes(renewed(release))
    await story.look()
    story.finishes("Job")
    await story.look()
    story.finishes()
    await story.look()
    told(story)


async def test_a_failed_schema_keeps_what_runs(release: Release, told: Callable[[Story], None]) -> None:
    story = Story("Placement", release)
    await story.look_until_quiet()
    story.release_becomes(renewed(release))
    await story.look()
    story.fails("placement-db-sync", "DBMigrationError: Table 'traits' already exists")
    await story.look()
    story.release_becomes(release)
    await story.look()
    told(story)


async def test_a_wired_option_leaves_everything_as_it_is(release: Release, told: Callable[[Story], None]) -> None:
    story = Story("Placement", release)
    await story.look_until_quiet()
    story.user_writes(config={"keystone_authtoken": {"password": "mine"}})
    await story.look()
    story.user_writes(config={})
    await story.look()
    told(story)


async def test_a_wrong_value_leaves_everything_as_it_is(release: Release, told: Callable[[Story], None]) -> None:
    story = Story("Nova", release)
    await story.look_until_quiet()
    story.user_writes(config={"DEFAULT": {"cpu_allocation_ratio": -1, "debgu": True}, "vnc": {"enabled": "maybe"}})
    await story.look()
    story.user_writes(config={"DEFAULT": {"cpu_allocation_ratio": 2, "debgu": True}})
    await story.look()
    told(story)


async def test_ceph_unfolds(release: Release, told: Callable[[Story], None]) -> None:
    story = Story("CephStorage", release)
    story.say("A CephStorage appears, with a Ceph of its own.")
    await story.look()
    for kind in ("StatefulSet", "StatefulSet", "Deployment", "Job"):
        story.finishes(kind)
        await story.look()
    story.say("The pod that looks is heard.")
    gib = 1024**3
    fine = {"reachable": True, "message": "", "refused": {}, "missing": {}, "health": "HEALTH_OK", "checks": {}}
    fine |= {"total": 19 * gib, "used": gib, "available": 18 * gib, "pools": ["volumes"]}
    story.hears({"status": fine})
    await story.look()
    story.say("An OSD fills up.")
    story.hears({"status": fine | {"health": "HEALTH_ERR", "checks": {"OSD_FULL": "1 full osd(s); osd.0 is full"}}})
    await story.look()
    story.say("Somebody removes the monitors' Service.")
    story.hears({"status": fine})
    story.loses("Service", "cephstorage-mon-a")
    await story.look()
    told(story)


async def test_a_password_is_replaced(release: Release, told: Callable[[Story], None]) -> None:
    def facts(story: Story, *pods: Object) -> Mapping[str, Any]:
        at = {"creationTimestamp": "2026-01-01T00:00:00Z"}
        secrets = [story.child("Secret", name) for name in ("placement-config", "placement-credentials")]
        return {"secrets": [{**each, "metadata": {**each["metadata"], **at}} for each in secrets], "pods": pods}

    def pod(name: str, *, made: str) -> Object:
        volumes = [{"secret": {"secretName": "placement-config"}}]
        return {"metadata": {"name": name, "creationTimestamp": made}, "spec": {"volumes": volumes}}

    drawn = count()
    story = Story("Placement", release)
    story.draws(lambda: f"drawn-{next(drawn)}-drawn")
    await story.look_until_quiet()
    story.say("A CredentialRotation orders another account in the database.")
    story.holds("placement-database-rotation", at="2026-01-01T00:00:00Z", graceDays="0")
    await story.look()
    story.begins_anew()
    await story.look()
    story.finishes("MariaDBDatabase")
    await story.look()
    story.begins_anew()
    await story.look()
    story.say("The API has not rolled.")
    story.hears(facts(story, pod("placement-api-1", made="2025-12-31T23:00:00Z")))
    await story.look()
    story.finishes("Deployment")
    story.say("Its pods are new, but for one on a node that does not answer.")
    old, new = pod("placement-api-1", made="2025-12-31T23:00:00Z"), pod("placement-api-2", made="2026-01-01T00:01:00Z")
    story.hears(facts(story, old, new))
    await story.look()
    story.say("That one is gone, too.")
    story.hears(facts(story, new))
    await story.look()
    story.say("Nothing changes.")
    await story.look()
    told(story)


async def test_an_authority_is_replaced(release: Release, told: Callable[[Story], None]) -> None:
    def bundle(plan: Plan | None) -> list[Object]:
        found = [obj for obj in (plan.objects if plan else ()) if key(obj) == ("Secret", "pki-bundle")]
        return [{**obj, "metadata": {**obj["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}} for obj in found]

    def client(name: str, *, made: str) -> Object:
        labels = {"openstack.k8s.io/kind": "nova", "app.kubernetes.io/instance": "nova"}
        volumes = [{"secret": {"secretName": "pki-bundle"}}]
        return {
            "metadata": {"name": name, "labels": labels, "creationTimestamp": f"{made}:00Z"},
            "spec": {"nodeName": "node1", "volumes": volumes},
        }

    def facts(plan: Plan | None, pod: Object) -> Mapping[str, Any]:
        return {"secrets": bundle(plan), "pods": [pod], "shown": {}}

    story = Story("PKI", release, {"overlap": "0s"})
    story.say("A PKI appears.")
    await story.look()
    story.finishes()
    story.user_writes(authorityGeneration=2)
    plan = await story.look()
    story.say("A client runs that started before.")
    old = client("nova-api-1", made="2025-12-31T00:00")
    story.hears(facts(plan, old))
    await story.look()
    story.say("It was made anew since.")
    new = client("nova-api-2", made="2026-01-01T00:01")
    story.hears(facts(plan, new))
    plan = await story.look()
    story.say("No Secret holds a certificate by the old authority, and no port shows one.")
    story.hears(facts(plan, new))
    await story.look()
    story.say("Nothing changes.")
    await story.look()
    told(story)
