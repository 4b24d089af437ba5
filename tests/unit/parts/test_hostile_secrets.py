"""Secrets that are small and cost much: each is read, or refused, in a time that follows its size."""

from __future__ import annotations

import pytest

from openstack_operator.parts.connect.ceph import coordinates, logins, monitors
from openstack_operator.parts.connect.clouds_yaml import cloud_auth
from tests.unit.polling import cpu_time_limit

pytestmark = pytest.mark.security

LARGE = 1 << 20
"""What a Secret may hold at most (Kubernetes' `MaxSecretSize`)."""
CLOUD = "clouds: {{a: {{auth: {{username: ada, password: {}}}}}}}"


def bomb(levels: int) -> str:
    """A text that stands for 10 to the power of `levels` others."""
    names = [f"n{level}: &n{level} [{', '.join([f'*n{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join(["n0: &n0 x", *names, CLOUD.format(f"*n{levels - 1}")])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (bomb(9), "alias"),
        (CLOUD.format("&me [*me]"), "alias"),
        ("[" * 1000, "nested deeper"),
        ("- " * 10_000, "nested deeper"),
        (CLOUD.format("x" * LARGE), "longer than 64 KiB"),
        ("clouds: {a: {}}", "is not valid"),
        ("clouds: [1]", "is not valid"),
        ("clouds: {a: {auth: x}}", "is not valid"),
        ("{a: b}: c", "is not valid"),
        ("clouds: {a: {auth: {}}, b: {auth: {}}}", "is not valid"),
        ("", "is not valid"),
        ("\x00", "is not valid"),
        ("\udcff", "is not valid"),
        ("!!python/object/apply:os.system [true]", "is not valid"),
    ],
)
def test_a_clouds_yaml_that_cannot_be_a_login_is_refused(text: str, why: str) -> None:
    with cpu_time_limit(), pytest.raises(ValueError, match=why):
        cloud_auth(text)


@pytest.mark.parametrize("value", ["9" * 60_000, "1:" * 20_000 + "1", "2026-11-23", "true", "0x1f", "1_000"])
def test_a_login_is_read_as_it_is_written(value: str) -> None:
    with cpu_time_limit():
        assert cloud_auth(CLOUD.format(value)) == {"username": "ada", "password": value}


@pytest.mark.parametrize(
    "piece", ["[client.a]\n", "[client.a]\nx\n", "[client.a]\n\tkey = \n", "key" + " " * 9, "\n", "["]
)
def test_a_keyring_without_a_key_is_read_once(piece: str) -> None:
    with cpu_time_limit():
        assert logins(piece * (LARGE // len(piece))) == []


@pytest.mark.parametrize("piece", ["[", "[a", "a,", "[]", " ", "]["])
def test_addresses_of_monitors_are_read_once(piece: str) -> None:
    with cpu_time_limit():
        monitors(piece * (LARGE // len(piece)))


def test_a_keyring_has_the_key_of_each_client() -> None:
    ring = """\
[client.a]
\tkey = AQAa==
\tcaps mon = "profile rbd"
[mon.]
\tkey = AQBb==
[client.b]
caps osd = "allow *"
 key=AQCc==
\tkey = AQDd==
[client.c]
\tkey = not one
"""
    assert logins(ring) == [("client.a", "AQAa=="), ("client.b", "AQCc==")]
    assert monitors("[v2:a:3300,v1:a:6789], b:6789;c") == ("[v2:a:3300,v1:a:6789]", "b:6789", "c")


def test_options_of_ceph_conf_are_read_once() -> None:
    with cpu_time_limit():
        found = coordinates({"ceph.conf": "fsid = A\nmon host = b\n" + " _-" * (LARGE // 3)}, "s", "spec")
    assert found[1:] == ("a", ("b",))
