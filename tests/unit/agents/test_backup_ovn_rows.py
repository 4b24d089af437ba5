"""Rows of Neutron are compared with those of a stored northbound database."""

from __future__ import annotations

import hashlib
import json
from typing import Any, cast

import pytest

from openstack_operator.agents.backup.ovn_rows import network_report, network_rows, stored_names
from openstack_operator.agents.backup.repository import Repository
from openstack_operator.agents.backup.run import RunError

HERE, GONE, NEW, HEALTH = (f"{number:08x}-0000-4000-8000-000000000000" for number in range(4))
ENTRY = {"snapshot": "4f2a", "file": "ovn.ovsdb"}


def of_neutron(name: str, key: str) -> dict[str, Any]:
    return {"name": name, "external_ids": ["map", [["neutron:revision_number", "1"], [f"neutron:{key}", "x"]]]}


STORED: list[dict[str, Any]] = [
    {"name": "OVN_Northbound", "version": "7.6.0"},
    {
        "_date": 1,
        "Logical_Switch": {"a": of_neutron(f"neutron-{HERE}", "network_name"), "b": {"name": "of somebody else"}},
        "Logical_Router": {
            "c": of_neutron(f"neutron-{GONE}", "router_name"),
            "d": of_neutron(f"neutron-{HEALTH}", "router_name"),
            # Neutron leaves alone what does not say so.
            "h": {"name": f"neutron-{NEW}", "external_ids": ["map", []]},
        },
        "Logical_Switch_Port": {"e": of_neutron(HERE, "port_name"), "f": {"name": f"provnet-{HERE}"}, "g": {}},
    },
    {"_date": 2, "Logical_Router": {"d": None}, "Logical_Switch_Port": {"e": {"up": False}}},
]


class Stored:
    """A repository with one northbound database."""

    def __init__(self, *records: Any) -> None:
        texts = [json.dumps(record) for record in records]
        digests = [hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() for text in texts]
        pairs = zip(texts, digests, strict=True)
        self.database = "".join(f"OVSDB JSON {len(text)} {digest}\n{text}" for text, digest in pairs).encode()

    def read(self, snapshot: str, name: str, limit: int) -> bytes:
        assert (snapshot, name) == ("4f2a", "ovn.ovsdb")
        assert len(self.database) < limit
        return self.database


def repository(*records: dict[str, Any]) -> Repository:
    return cast("Repository", Stored(*records))


def ask(statement: str) -> str:
    answers = {"information_schema": "neutron\n", ".networks": f"{HERE}\n", ".routers": "", ".ports": f"{HERE}\n{NEW}"}
    [answer] = [answer for words, answer in answers.items() if words in statement]
    return answer


def test_each_side_names_what_the_other_does_not_have() -> None:
    rows = network_rows(ask) or frozenset()
    assert rows == {f"network-{HERE}", f"port-{HERE}", f"port-{NEW}"}
    assert network_report(rows, repository(*STORED), [ENTRY]) == {
        "rows": 3,
        "withoutRow": {"count": 1, "images": [f"router-{GONE}"]},
        "withoutOVN": {"count": 1, "images": [f"port-{NEW}"]},
    }


def test_a_cloud_with_several_networks_or_no_neutron_has_no_report() -> None:
    assert network_report(frozenset(), repository(*STORED), [ENTRY, ENTRY]) is None
    assert network_rows(lambda _: "") is None
    assert network_rows(lambda _: "neutron\nanother\n") is None


@pytest.mark.parametrize(
    "database",
    [
        b"no database",
        Stored(*STORED).database + b"more",
        *(Stored(record).database for record in ([], {"Logical_Switch": []}, {"Logical_Switch": {"a": [1]}})),
        Stored({"Logical_Switch": {"a": {"name": f"neutron-{HERE}", "external_ids": 7}}}).database,
        b"OVSDB JSON 100000 " + b"0" * 40 + b"\n" + b"[" * 100_000,
    ],
)
def test_another_text_than_a_database_is_refused(database: bytes) -> None:
    with pytest.raises(RunError, match="cannot be read"):
        stored_names(database)
