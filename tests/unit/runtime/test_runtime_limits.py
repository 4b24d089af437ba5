"""What is nested too deeply or too large is left out, and nothing else is touched."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.plan import SpecError
from openstack_operator.runtime.cache.entries import cached
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.kubernetes.limits import CUT, KIBIBYTES, LEVELS, check_limits, cut_deep

pytestmark = pytest.mark.security

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=300,
)
BRACKETS = st.text(alphabet='[]{}"\\,:ab', max_size=300)


def nested(levels: int, leaf: str = "1") -> bytes:
    return b'{"a":' * levels + leaf.encode() + b"}" * levels


def depth(value: object) -> int:
    levels = 0
    layer = [value]
    while layer:
        inner = [each.values() if isinstance(each, dict) else each for each in layer if isinstance(each, (dict, list))]
        levels += bool(inner)
        layer = [each for group in inner for each in group]
    return levels


@given(JSON)
def test_flat_content_stays_unchanged(value: object) -> None:
    content = msgspec.json.encode(value)
    assert cut_deep(content) is content


@pytest.mark.parametrize("levels", [1_000, 10_000, 100_000])
def test_too_deep_content_is_cut_and_refused(levels: int) -> None:
    found = msgspec.json.decode(cut_deep(b'{"spec":{"config":' + nested(levels) + b'},"z":[1]}'))
    assert depth(found) == LEVELS
    assert found["z"] == [1]
    with pytest.raises(SpecError) as raised:
        check_limits(msgspec.json.encode(found))
    assert str(raised.value) == f"spec.config.a.a.a: is nested deeper than {LEVELS} levels; make it flatter"


@given(BRACKETS, BRACKETS)
def test_brackets_in_texts_are_no_levels(before: str, after: str) -> None:
    value = {before: before, "deep": None, f"{after}.": [after]}
    content = msgspec.json.encode(value).replace(b"null", nested(5_000, msgspec.json.encode(after).decode()))
    found = msgspec.json.decode(cut_deep(content))
    assert found | {"deep": None} == value
    assert CUT in msgspec.json.encode(found["deep"]).decode()


def test_every_deep_field_is_cut() -> None:
    content = b"[" + nested(2_000) + b',{"b":' + nested(3_000) + b"},2]"
    first, second, last = msgspec.json.decode(cut_deep(content))
    assert (depth(first), depth(second), last) == (LEVELS - 1, LEVELS - 1, 2)


def test_invalid_json_is_left_to_its_reader() -> None:
    content = nested(5_000)[:-7]
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(cut_deep(content[:600]))


def test_a_resource_without_it_passes() -> None:
    check_limits(msgspec.json.encode({"spec": {"config": [[["x"]]]}}))


PLACEMENT = Kind("openstack.k8s.io/v1alpha1", "Placement", "placements")


def placement(**fields: object) -> bytes:
    return msgspec.json.encode({"metadata": {"name": "placement", "generation": 3}, **fields})


def test_a_large_spec_is_left_out_and_refused_by_its_name() -> None:
    item = cached(placement(spec={"config": [[]] * 400_000}, status={"endpoint": "here"}), PLACEMENT)
    assert len(item.raw) < 1_000
    assert item.meta.generation == 3
    assert item.decode()["status"] == {"endpoint": "here"}
    with pytest.raises(SpecError) as raised:
        check_limits(item.raw)
    assert str(raised.value) == f"spec: is larger than {KIBIBYTES} KiB; make it smaller"


def test_a_large_status_is_left_out_and_its_resource_goes_on() -> None:
    item = cached(placement(spec={"replicas": 2}, status={"published": {"a": "b" * (KIBIBYTES << 10)}}), PLACEMENT)
    assert len(item.raw) < 1_000
    check_limits(item.raw)
    assert item.decode()["spec"] == {"replicas": 2}


def test_a_spec_of_the_largest_size_stays() -> None:
    spec = {"config": "x" * ((KIBIBYTES << 10) - len('{"config":""}'))}
    item = cached(placement(spec=spec), PLACEMENT)
    check_limits(item.raw)
    assert item.decode()["spec"] == spec
