"""The loop that keeps things outside Kubernetes as their specs say."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.actuators import ACTUATORS, loop
from openstack_operator.api import crd, references, secret_references
from openstack_operator.plan import SpecError, Transient


class Lamp:
    """A thing whose remote side is a dict shared between lamps."""

    path = "spec.lamp"

    def __init__(self, world: dict[str, dict[str, Any]], name: str, **wanted: Any) -> None:
        self.name = f"lamp {name}"
        self.world = world
        self.key = name
        self.facets = wanted

    @property
    def desired(self) -> loop.Facets:
        return self.facets

    def find(self) -> loop.Facets | None:
        return self.world.get(self.key)

    def create(self) -> None:
        self.world[self.key] = dict(self.facets)

    def update(self, changed: frozenset[str]) -> None:
        for facet in changed:
            if facet in self.facets:
                self.world[self.key][facet] = self.facets[facet]
            else:
                del self.world[self.key][facet]

    def delete(self) -> None:
        del self.world[self.key]


def test_missing_things_are_made_once() -> None:
    world: dict[str, dict[str, Any]] = {}
    lamps = [Lamp(world, "a", color="red"), Lamp(world, "b", color="blue")]
    assert loop.ensure(lamps) == ["lamp a created", "lamp b created"]
    assert loop.ensure(lamps) == []
    assert world == {"a": {"color": "red"}, "b": {"color": "blue"}}


def test_a_difference_is_repaired_and_named_without_its_value() -> None:
    world: dict[str, dict[str, Any]] = {"a": {"color": "secret", "extra": 1}}
    assert loop.ensure([Lamp(world, "a", color="red", bright=None)]) == [
        "lamp a repaired: bright, color, 1 that the spec does not name"
    ]
    assert world == {"a": {"color": "red", "bright": None}}


def test_removal_forgives_what_is_gone() -> None:
    world: dict[str, dict[str, Any]] = {"a": {}}
    loop.remove([Lamp(world, "a"), Lamp(world, "b")])
    assert world == {}


class Raced(Lamp):
    """Somebody else makes the same lamp between our look and our hand."""

    def create(self) -> None:
        self.world[self.key] = {"color": "green"}
        raise loop.Conflict("exists")


def test_losing_a_race_to_create_goes_on_with_what_the_winner_made() -> None:
    world: dict[str, dict[str, Any]] = {}
    assert loop.ensure([Raced(world, "a", color="red")]) == ["lamp a repaired: color"]
    assert world == {"a": {"color": "red"}}


class Vanishing(Lamp):
    """It exists, and nobody ever finds it."""

    def create(self) -> None:
        raise loop.Conflict("exists")


def test_a_conflict_with_something_unseen_is_tried_again() -> None:
    with pytest.raises(Transient, match="exists"):
        loop.ensure([Vanishing({}, "a")])


class Refusing(Lamp):
    def create(self) -> None:
        raise loop.Refused("too bright")

    def delete(self) -> None:
        raise loop.Refused("screwed in")


def test_a_refusal_names_the_field() -> None:
    with pytest.raises(SpecError, match=r"spec\.lamp: too bright"):
        loop.ensure([Refusing({}, "a")])
    with pytest.raises(SpecError, match=r"spec\.lamp: screwed in"):
        loop.remove([Refusing({"a": {}}, "a")])


SPECS: dict[str, dict[str, Any]] = {
    "MariaDBDatabase": {"database": "nova", "user": "nova", "passwordSecretRef": {"name": "p"}},
    "RabbitMQVhost": {"vhost": "nova", "user": "nova", "passwordSecretRef": {"name": "p"}},
    "KeystoneUser": {"user": "nova", "passwordSecretRef": {"name": "p"}},
    "KeystoneDomain": {"domain": "heat", "administrator": "heat_admin", "passwordSecretRef": {"name": "p"}},
    "KeystoneApplicationCredential": {"credential": "k-orc", "passwordSecretRef": {"name": "p"}},
    "KeystoneService": {
        "type": "compute",
        "name": "nova",
        "endpoints": {"public": "http://p:8774", "internal": "http://i:8774"},
    },
    "CinderVolumeType": {"name": "fast"},
    "CinderQuota": {"limits": {"volumes": 1}},
    "CinderBackend": {"backend": "fast", "hosts": ["cinder-volume-fast-0@fast"]},
    "KeystoneIdentityProvider": {
        "name": "sso",
        "remoteIDs": ["https://sso.example.org"],
        "protocol": "openid",
        "mapping": [{"remote": [], "local": []}],
    },
    "OVNChassis": {},
}


@pytest.mark.parametrize("entry", ACTUATORS, ids=lambda entry: entry.resource.kind)
def test_every_kind_has_its_referents_and_a_definition(entry: Any) -> None:
    spec = entry.resource.spec.model_validate(SPECS[entry.resource.kind])
    kept_by_cinder = entry.resource.kind.startswith("Cinder")
    assert len(references(spec)) == 1 + kept_by_cinder
    assert len(secret_references(spec)) == (
        entry.resource.kind not in {"KeystoneService", "KeystoneIdentityProvider", "OVNChassis"} and not kept_by_cinder
    )
    schema = crd(entry.resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    undocumented = [name for name, field in schema["properties"].items() if not field.get("description")]
    assert not undocumented
    refs = [field for name, field in schema["properties"].items() if name.endswith("Ref") and "Secret" not in name]
    assert len(refs) == len(references(spec))
    # Whose node it is, is the operator's to say.
    for ref in refs if entry.resource.kind != "OVNChassis" else ():
        assert any(rule["rule"] == "self == oldSelf" for rule in ref["x-kubernetes-validations"])
