"""Images of which the operator knows only the name: a condition says what it assumes."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import IMAGE_PROFILE, READY, State, Verdict, conditions
from openstack_operator.registry import SERVICES
from tests.field_effects import RELEASES
from tests.fields import KINDS

OTHER = {"repository": "registry.example.org/own/keystone", "tag": "28.0.0"}
MIRRORED = {"repository": "registry.example.org/openstack-operator/keystone", "tag": "1"}
OF_KOLLA = {"repository": "quay.io/openstack.kolla/keystone", "tag": "2025.1-debian-bookworm"}


def verdict(kind: str, **spec: Any) -> Verdict | None:
    resource = KINDS[kind]
    manifest = {"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": "one"}, "spec": spec}
    plan = next(OfflineCluster(SERVICES, (), RELEASES, password="drawn").render([manifest], "openstack")).plan
    assert plan is not None
    assert conditions(plan, dict.fromkeys(plan, READY))["Ready"].ready
    return plan.outcome.extra_conditions.get(IMAGE_PROFILE)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"imageProfile": "kolla"},
        {"image": MIRRORED},
        {"image": OF_KOLLA, "imageProfile": "kolla"},
        {"image": {"repository": "registry.example.org/kolla/keystone", "tag": "1"}, "imageProfile": "kolla"},
    ],
)
def test_images_of_the_profile_need_no_word(spec: dict[str, Any]) -> None:
    assert verdict("Keystone", **spec) is None


def test_an_unknown_image_is_started_as_the_profile_says() -> None:
    found = verdict("Keystone", image=OTHER)
    assert found is not None
    assert (found.state, found.cause) == (State.READY, "ImageAssumed")
    assert found.message == (
        "spec.image registry.example.org/own/keystone:28.0.0: these images run with the commands, files and "
        "users of profile debian and release 2025.1; if an image differs, set another imageProfile, or remove them"
    )


@pytest.mark.parametrize(("image", "profile", "wanted"), [(OF_KOLLA, "debian", "kolla"), (MIRRORED, "kolla", "debian")])
def test_an_image_of_another_family_is_named_with_the_fix(image: dict[str, str], profile: str, wanted: str) -> None:
    found = verdict("Keystone", image=image, imageProfile=profile)
    assert found is not None
    assert found.cause == "ImageMismatch"
    assert found.message.endswith(f"set imageProfile: {wanted}")


def test_the_image_of_a_component_counts_too() -> None:
    found = verdict("Nova", scheduler={"image": OTHER})
    assert found is not None
    assert found.message.startswith("spec.scheduler.image registry.example.org/own/keystone:28.0.0: ")


def test_images_of_an_ovn_are_named_by_their_fields() -> None:
    found = verdict("OVNCluster", ovnImage=OTHER, ovsImage=OTHER)
    assert found is not None
    assert found.message.startswith("spec.ovnImage registry.example.org/own/keystone:28.0.0, spec.ovsImage registry")


def test_an_image_that_servers_boot_from_is_none_of_a_pod() -> None:
    assert verdict("Tempest", tests={"image": "cirros"}) is None


def test_an_image_of_cortex_has_its_own_command() -> None:
    assert verdict("Cortex", image=OTHER) is None
