"""OVNChassis: what a southbound database tells of a node, and that it forgets one that is gone."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from openstack_operator import pki
from openstack_operator.actuators import ovn
from openstack_operator.actuators.network_models import CHASSIS
from openstack_operator.actuators.ovsdb import transact
from openstack_operator.plan import Context, Node, Outcome, Release, Transient
from openstack_operator.testing import NOW, context
from tests.cluster.southbound import Southbound
from tests.searches import examples

NODE = "node-1.example.org"
BEAT = int((NOW - timedelta(minutes=7)).timestamp() * 1000)


@pytest.fixture
def southbound() -> Iterator[Southbound]:
    database = Southbound()
    with database.serving():
        yield database


def chassis(southbound: Southbound, spec: dict[str, Any] | None = None, **changes: Any) -> Context[Any]:
    # The first does not answer.
    members = f"tcp:127.0.0.1:1,tcp:127.0.0.1:{southbound.port}"
    published = {"OVNNetwork": {"southbound": members, "nodes": "a=b,c="}}
    changed: dict[str, Any] = {"owner": NODE, **changes}
    return context(CHASSIS, spec, release=Release("", "", {}), published=published, **changed)


def ready(outcome: Outcome) -> list[bool]:
    return [outcome.extra_conditions[name].ready for name in (ovn.CONNECTED, "Ready")]


def test_a_node_that_is_not_there_yet_is_waited_for(southbound: Southbound) -> None:
    assert ovn.ensure(chassis(southbound)) == ()
    found = ovn.observe(chassis(southbound))
    assert (ready(found), found.details) == ([False, False], {})
    assert f"{NODE} has not registered" in found.extra_conditions["Ready"].message


@pytest.mark.proves("OVNChassis", "status.registeredAt", "status.lastHeartbeat")
@pytest.mark.proves("OVNChassis", "status.bridgeMappings[].physicalNetwork", "status.bridgeMappings[].bridge")
@pytest.mark.proves("OVNChassis", "status.encapsulation.type", "status.encapsulation.ip")
def test_registration_of_a_chassis_is_reported_with_its_time(southbound: Southbound) -> None:
    southbound.register(NODE, "192.0.2.1", "physnet1:br-ex", beat=BEAT)
    assert ovn.ensure(chassis(southbound)) == (f"chassis {NODE} noted as registered",)
    assert ovn.ensure(chassis(southbound, now=NOW + timedelta(days=1))) == ()
    found = ovn.observe(chassis(southbound))
    assert ready(found) == [True, True]
    assert found.details == {
        "registeredAt": "2026-01-01T00:00:00Z",
        # In steps of five minutes, so that it is not written with each look.
        "lastHeartbeat": "2025-12-31T23:50:00Z",
        "bridgeMappings": [{"physicalNetwork": "physnet1", "bridge": "br-ex"}],
        "encapsulation": {"type": "geneve", "ip": "192.0.2.1"},
    }


@pytest.mark.proves("OVNChassis", "status.conditions[OVSConnected]")
@pytest.mark.parametrize(
    ("behind", "age", "connected"), [(1, 60, True), (2, 4, True), (2, 6, False)], ids=["one", "recent", "away"]
)
def test_a_node_that_does_not_answer_is_not_connected(
    southbound: Southbound, behind: int, age: int, connected: bool
) -> None:
    beat = int((NOW - timedelta(minutes=age)).timestamp() * 1000)
    southbound.register(NODE, "192.0.2.1", nb_cfg=5, beat=beat)
    southbound.tables["SB_Global"][0]["nb_cfg"] = 5 + behind
    assert ready(ovn.observe(chassis(southbound))) == [connected, connected]


@pytest.mark.proves("OVNChassis", "status.conditions[Ready]")
def test_a_chassis_is_ready_once_the_node_took_over_its_settings(southbound: Southbound) -> None:
    said = {"bridgeMappings": [{"physicalNetwork": "a", "bridge": "br-a"}], "encapsulation": {"ip": "192.0.2.9"}}
    southbound.register(NODE, "192.0.2.1", "physnet1:br-ex")
    found = ovn.observe(chassis(southbound, said))
    assert ready(found) == [True, False]
    assert "not applied spec.bridgeMappings, spec.encapsulation" in found.extra_conditions["Ready"].message
    southbound.register(NODE, "192.0.2.9", "a:br-a")
    assert ready(ovn.observe(chassis(southbound, said))) == [True, True]


@pytest.mark.proves("OVNChassis", "spec.encapsulation.type")
def test_packets_reach_a_node_by_geneve_and_nothing_else_may_be_written(southbound: Southbound) -> None:
    southbound.register(NODE, "192.0.2.1")
    assert ready(ovn.observe(chassis(southbound, {"encapsulation": {"type": "geneve", "ip": "192.0.2.1"}}))) == [
        True,
        True,
    ]
    southbound.tables["Encap"][0]["type"] = "vxlan"
    assert ready(ovn.observe(chassis(southbound, {"encapsulation": {"type": "geneve", "ip": "192.0.2.1"}}))) == [
        True,
        False,
    ]
    with pytest.raises(ValidationError, match="geneve"):
        chassis(southbound, {"encapsulation": {"type": "vxlan"}})


def test_a_removed_node_is_forgotten_and_a_deleted_resource_is_not(southbound: Southbound) -> None:
    southbound.register(NODE, "192.0.2.1")
    southbound.register("other", "192.0.2.2")
    before = southbound.names()
    ovn.remove(chassis(southbound, nodes={NODE: Node("uid", {"a": "b", "c": "", "d": "e"})}))
    assert southbound.names() == before
    ovn.remove(chassis(southbound, nodes={NODE: Node("uid", {"a": "b"})}))
    assert southbound.names() == {table: ["other"] for table in before}
    ovn.remove(chassis(southbound))


def test_tls_shows_a_certificate_and_trusts_only_the_same_authority(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    theirs, ours = (pki.authority(name, name, now - timedelta(hours=1)) for name in ("theirs", "ours"))
    wanted = pki.Request(common="ovn", names=frozenset({"ovn-sb"}), life=timedelta(days=1), calls=True)
    shown = {name: pki.issue(by, wanted, name, now) for name, by in (("ours", ours), ("theirs", theirs))}
    for name, text in {"crt": shown["ours"].cert, "key": shown["ours"].key, "ca": ours.cert}.items():
        (tmp_path / name).write_text(text)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    server.load_verify_locations(tmp_path / "ca")
    server.verify_mode = ssl.CERT_REQUIRED
    database = Southbound()
    database.register(NODE, "192.0.2.1")
    with database.serving(server) as remote:
        known = {"southbound": remote, "clientSecret": "client"}
        secret = {"ca.crt": ours.cert, "tls.crt": shown["ours"].cert, "tls.key": shown["ours"].key}
        ctx = chassis(database)
        refs = {ref: replace(each, published=known) for ref, each in ctx.refs.items()}
        ctx = replace(ctx, refs=refs, secrets={"client": secret})
        assert ready(ovn.observe(ctx)) == [True, True]
        stranger = {"ca.crt": theirs.cert, "tls.crt": shown["theirs"].cert, "tls.key": shown["theirs"].key}
        for wrong in (stranger, {}):
            with pytest.raises(Transient, match="OVN_Southbound does not answer") as raised:
                ovn.observe(replace(ctx, secrets={"client": wrong}))
            assert "BEGIN" not in str(raised.value)


def test_a_database_that_is_not_there_is_asked_again() -> None:
    with pytest.raises(Transient, match=r"OVN_Southbound does not answer: tcp:127\.0\.0\.1:1: "):
        transact("tcp:127.0.0.1:1", "OVN_Southbound", [])


class Malformed(Southbound):
    """A database whose answers to operations are something else."""

    value: Any = None

    def done(self, operation: dict[str, Any]) -> Any:
        super().done(operation)
        return self.value


WORDS = st.sampled_from(("rows", "error", "details", "map", "nb_cfg", "nb_cfg_timestamp", "external_ids", "type", "ip"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from((2**60, -1, 1.5)) | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
ROW: dict[str, Any] = {
    "nb_cfg": 0,
    "nb_cfg_timestamp": 0,
    "external_ids": ["map", []],
    "other_config": ["map", []],
    "type": "geneve",
    "ip": "192.0.2.1",
}


def row(name: str, value: Any) -> dict[str, Any]:
    """An answer with one row, of which one column is another one."""
    return {"rows": [{**ROW, name: value}]}


ROWS = st.builds(row, st.sampled_from(sorted(ROW)), JSON)


@pytest.mark.search
def test_any_answer_is_an_outcome() -> None:
    database = Malformed()

    @settings(max_examples=examples(150))
    @given(ROWS | JSON)
    @example({"rows": [{**ROW, "nb_cfg_timestamp": 2**60}]})
    @example({"error": "x" * 100_000})
    @example([])
    def attempt(value: Any) -> None:
        database.value = value
        for work in (ovn.ensure, ovn.observe, ovn.remove):
            try:
                work(chassis(database))
            except Transient as error:
                assert len(str(error)) < 2000

    with database.serving():
        attempt()


@pytest.mark.parametrize("said", [b"[]", b"1", b'"x"', b"[" * 50_000, b'{"id": 0, "result": 1}', b"\xff"])
def test_an_answer_that_is_no_ovsdb_is_transient(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            client, _ = listening.accept()
            with suppress(OSError), client:
                client.sendall(said)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(Transient, match="OVN_Southbound does not answer"):
            transact(f"tcp:127.0.0.1:{listening.getsockname()[1]}", "OVN_Southbound", [])
        thread.join()
