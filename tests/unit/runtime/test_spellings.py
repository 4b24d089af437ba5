"""A field has one name: the one that users write."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.reconcile.gather import parse

(CONTROL_PLANE,) = (each for each in RESOURCES if each.handle == "OpenStackControlPlane")


@pytest.mark.security
@pytest.mark.parametrize(("name", "is_read"), [("nodeSelector", True), ("node_selector", False)])
def test_no_other_spelling_gets_past_a_policy_of_fields(name: str, *, is_read: bool) -> None:
    """The admission policy of fields for nodes looks for `nodeSelector`."""
    selector: dict[str, Any] = {name: {"kubernetes.io/os": "linux"}}
    amphora = {"managementCIDR": "10.254.0.0/24", "controllers": selector}
    spec: Any = parse(CONTROL_PLANE, {"spec": {"nova": {"compute": selector}, "octavia": {"amphora": amphora}}})
    assert ("linux" in str(spec.nova)) is is_read
    assert ("linux" in str(spec.octavia)) is is_read
