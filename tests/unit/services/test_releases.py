"""What a release of OpenStack changes besides images, in the plans of services."""

from __future__ import annotations

import pytest

from openstack_operator import kube
from openstack_operator.plan import Key, Object
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.neutron.model import NEUTRON
from openstack_operator.services.neutron.service import plan as plan_neutron
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan as plan_nova
from openstack_operator.testing import context
from tests.planning import objects
from tests.unit.services.test_neutron import PUBLISHED as OF_NEUTRON
from tests.unit.services.test_nova import PUBLISHED as OF_NOVA
from tests.unit.services.test_nova import SECRETS

RELEASES = ReleaseFiles()


def nova(release: str) -> dict[Key, Object]:
    spec = {"release": release}
    given = {"published": OF_NOVA, "secrets": SECRETS}
    return objects(plan_nova(context(NOVA, spec, release=RELEASES(NOVA.spec.model_validate(spec)), **given)))


def neutron(release: str) -> dict[Key, Object]:
    spec = {"release": release}
    released = RELEASES(NEUTRON.spec.model_validate(spec))
    return objects(plan_neutron(context(NEUTRON, spec, release=released, published=OF_NEUTRON)))


def environment(obj: Object) -> dict[str, str]:
    (container,) = (each for each in obj["spec"]["template"]["spec"]["containers"] if each["name"] == "main")
    return {each["name"]: each.get("value", "") for each in container["env"]}


@pytest.mark.parametrize(("release", "seconds"), [("2025.1", None), ("2025.2", None), ("2026.1", "5")])
def test_nova_does_not_wait_long_at_its_end(release: str, seconds: str | None) -> None:
    conf = kube.secret_data(nova(release)["Secret", "nova-config"])["nova.conf"]
    assert ("manager_shutdown_timeout = 5" in conf.splitlines()) == bool(seconds)
    assert ("manager_shutdown_timeout" in conf) == bool(seconds)


def test_nova_keeps_its_green_threads_over_a_change_of_the_release() -> None:
    variable = "OS_NOVA_DISABLE_EVENTLET_PATCHING"
    for name in ("nova-api", "nova-metadata"):
        assert environment(nova("2026.1")["Deployment", name])[variable] == "false"
        assert variable not in environment(nova("2025.1")["Deployment", name])


def test_an_option_that_a_release_lost_is_left_out() -> None:
    def conf(release: str) -> str:
        return kube.secret_data(neutron(release)["Secret", "neutron-config"])["neutron.conf"]

    assert "ovn_emit_need_to_frag = false" in conf("2025.1")
    assert "ovn_emit_need_to_frag = false" in conf("2025.2")
    assert "ovn_emit_need_to_frag" not in conf("2026.1")
