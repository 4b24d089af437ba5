from __future__ import annotations

from datetime import UTC, datetime, timedelta

from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.kubernetes.kinds import CHILDREN, SECRET, Kind
from openstack_operator.runtime.reconcile.contention import (
    FREE_CORRECTIONS,
    LONGEST_PAUSE,
    Contention,
    advice,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def contended(corrections: int = FREE_CORRECTIONS) -> Contention:
    contention = Contention()
    for _ in range(corrections + 1):
        contention.note("uid", "stamp", NOW)
    return contention


def test_the_first_corrections_are_made_at_once():
    contention = Contention()
    assert [contention.note("uid", "stamp", NOW) for _ in range(FREE_CORRECTIONS)] == [False] * FREE_CORRECTIONS
    assert contention.pause("uid", "stamp", NOW) == 0


def test_pauses_grow_up_to_a_minute():
    contention, pauses, now = contended(), list[float](), NOW
    for _ in range(9):
        pauses.append(pause := contention.pause("uid", "stamp", now))
        assert contention.pause("uid", "stamp", now + timedelta(seconds=pause)) == 0
        now += timedelta(seconds=pause)
        assert contention.note("uid", "stamp", now)
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]


def test_other_content_and_other_objects_do_not_wait():
    contention = contended()
    assert contention.pause("uid", "another", NOW) == 0
    assert contention.pause("other", "stamp", NOW) == 0


def test_a_plan_that_goes_to_and_fro_is_no_contention():
    contention = Contention()
    for number in range(100):
        assert not contention.note("uid", f"stamp-{number % 2}", NOW)
    assert contention.pause("uid", "stamp-1", NOW) == 0


def test_an_object_that_was_left_alone_starts_over():
    contention, later = contended(20), NOW + timedelta(minutes=11)
    assert contention.pause("uid", "stamp", later) == 0
    assert not contention.note("uid", "stamp", later)
    assert contention.pause("uid", "stamp", later) == 0


def test_an_object_that_is_gone_is_forgotten():
    contention = contended()
    contention.forget("uid")
    assert contention.pause("uid", "stamp", NOW) == 0


def test_the_advice_is_a_command():
    policy = next(kind for kind in CHILDREN if kind.kind == "NetworkPolicy")
    text = advice(policy, "memcached", "cloud")
    assert "keeps changing NetworkPolicy/memcached;" in text
    assert "kubectl get networkpolicies.networking.k8s.io memcached -n cloud -o yaml" in text


def test_the_advice_is_about_the_kind_that_is_meant():
    """`kubectl get nova` reaches c5c3's kind of that name."""
    nova = Kind.of(next(each for each in RESOURCES if each.crd_name == "novas.openstack.k8s.io"))
    assert "kubectl get novas.openstack.k8s.io nova -n cloud" in advice(nova, "nova", "cloud")
    assert "kubectl get secrets nova-credentials -n cloud" in advice(SECRET, "nova-credentials", "cloud")
