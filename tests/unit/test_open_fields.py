"""What the definition of OpenStackControlPlane leaves open (DETAILS_IN_KIND) is read as strictly as the rest."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.catalogue import RESOURCES
from openstack_operator.plan import SpecError
from openstack_operator.runtime.gather import parse

(CONTROL_PLANE,) = (each for each in RESOURCES if each.handle == "OpenStackControlPlane")
AMPHORA = {"managementCIDR": "10.254.0.0/24"}


def read(**spec: Any) -> Any:
    return parse(CONTROL_PLANE, {"spec": spec})


@pytest.mark.security
def test_no_other_spelling_gets_past_a_policy_of_fields() -> None:
    """The admission policy of fields for nodes looks for `nodeSelector`."""
    amphora = {**AMPHORA, "controllers": {"node_selector": {"kubernetes.io/os": "linux"}}}
    with pytest.raises(SpecError, match=r"octavia\.amphora\.controllers\.node_selector: there is no such field"):
        read(octavia={"amphora": amphora})
    # Where the definition is closed, the API server has removed it.
    assert "linux" not in str(read(nova={"compute": {"node_selector": {"kubernetes.io/os": "linux"}}}))


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"octavia": {"amphora": {**AMPHORA, "flavour": {}}}}, "spec.octavia.amphora.flavour"),
        ({"designate": {"pools": [{"name": "a"}, {"name": "b", "zone": 1}]}}, "spec.designate.pools[1].zone"),
        ({"barbican": {"purge": {"keeps": "30d"}}}, "spec.barbican.purge.keeps"),
    ],
)
def test_an_unknown_field_is_named(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(SpecError) as problem:
        read(**spec)
    assert str(problem.value) == f"{path}: there is no such field; remove it, or correct its name"


def test_known_fields_are_read() -> None:
    spec = read(octavia={"amphora": {**AMPHORA, "controllers": {"nodeSelector": {"rack": "a"}}}})
    assert spec.octavia.amphora.controllers.node_selector == {"rack": "a"}
