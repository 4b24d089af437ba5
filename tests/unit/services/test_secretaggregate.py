"""Keys of several Secrets in one."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.kube import secret_data
from openstack_operator.plan import MissingReference, Plan, Release, SpecError, key
from openstack_operator.services.secretaggregate.model import SECRET_AGGREGATE
from openstack_operator.services.secretaggregate.service import plan
from openstack_operator.testing import context

SECRETS = {"one": {"a": "1", "b": "2"}, "two": {"a": "3"}}


def planned(release: Release, sources: list[Any], **more: Any) -> Plan:
    spec = {"targetSecretName": "target", "sources": sources}
    return plan(context(SECRET_AGGREGATE, spec, release=release, secrets=more.pop("secrets", SECRETS), **more))


def data(made: Plan) -> dict[str, str]:
    (found,) = made.objects
    assert key(found) == ("Secret", "target")
    return secret_data(found)


@pytest.mark.proves(
    "SecretAggregate", "spec.targetSecretName", "spec.sources[].secretRef.name", "spec.sources[].prefix"
)
@pytest.mark.proves("SecretAggregate", "spec.sources[].keys[].key", "spec.sources[].keys[].as")
def test_keys_are_taken_whole_by_name_and_renamed(release: Release) -> None:
    some = {"secretRef": {"name": "one"}, "keys": [{"key": "a", "as": "first"}, {"key": "b"}], "prefix": "one-"}
    rest = {"secretRef": {"name": "two"}, "prefix": "two."}
    assert data(planned(release, [some, rest])) == {"first": "1", "one-b": "2", "two.a": "3"}


def test_bytes_stay_as_they_are(release: Release) -> None:
    raw = {"data": {"key": "/wD+"}}
    made = planned(release, [{"secretRef": {"name": "raw"}}], secrets={"raw": secret_data(raw)})
    (found,) = made.objects
    assert found["data"] == raw["data"]


def test_all_that_is_missing_is_named(release: Release) -> None:
    wanted = [
        {"secretRef": {"name": "none"}},
        {"secretRef": {"name": "one"}, "keys": [{"key": "a"}, {"key": "c"}]},
        {"secretRef": {"name": "two"}, "keys": [{"key": "d"}]},
    ]
    with pytest.raises(MissingReference) as caught:
        planned(release, wanted)
    assert str(caught.value) == (
        "spec.sources[0].secretRef.name: there is no Secret 'none' in this namespace;"
        " spec.sources[1].keys[1].key: Secret 'one' has no key 'c';"
        " spec.sources[2].keys[0].key: Secret 'two' has no key 'd'"
    )


def test_two_keys_do_not_become_one(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec.sources\[1\]: key 'a' comes from Secret 'one' already"):
        planned(release, [{"secretRef": {"name": "one"}}, {"secretRef": {"name": "two"}}])


def test_an_aggregate_is_not_collected_from_itself(release: Release) -> None:
    with pytest.raises(SpecError, match="is also a source"):
        planned(release, [{"secretRef": {"name": "target"}}], secrets={"target": {"a": "1"}})


def test_the_target_is_created_not_taken(release: Release) -> None:
    (step,) = planned(release, [{"secretRef": {"name": "one"}}])
    assert step.guarded
    assert kube.RETAIN not in str(step.objects)


@pytest.mark.proves("SecretAggregate", "status.conditions[Ready]")
def test_an_aggregate_without_sources_is_refused_and_keeps_its_target(release: Release) -> None:
    """A plan without the target would delete it."""
    with pytest.raises(SpecError, match=r"spec\.sources: empty; add a source"):
        planned(release, [])
