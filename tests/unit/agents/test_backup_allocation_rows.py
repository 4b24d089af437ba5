"""Rows of Placement about servers, compared with those of Nova."""

from __future__ import annotations

from openstack_operator.agents.backup.allocation_rows import allocation_report

ANSWERS = {
    "'consumer_types'": "placement\n",
    "'instance_extra'": "nova_cell0\nnova_cell1\n",
    "'cell_mappings'": "nova_api\n",
    "nova_api.cell_mappings": "2\n",
    "placement.allocations": "runs\nmoves\nis-deleted\n",
    # One that was never scheduled uses nothing.
    "nova_cell0.instances": "failed\t0\n",
    "nova_cell0.migrations": "",
    "nova_cell1.instances": "runs\t1\nis-doubled\t1\nis-shelved\t0\n",
    "nova_cell1.migrations": "moves\n",
}


def ask(statement: str, **changes: str) -> str:
    [answer] = [answer for words, answer in (ANSWERS | changes).items() if words in statement]
    return answer


def test_each_side_names_servers_that_the_other_does_not_know() -> None:
    assert allocation_report(ask) == {
        "servers": 4,
        "withoutServer": {"count": 1, "images": ["is-deleted"]},
        "withoutAllocation": {"count": 1, "images": ["is-doubled"]},
    }


def test_a_database_without_one_of_both_has_no_report() -> None:
    for table in ("'consumer_types'", "'instance_extra'", "'cell_mappings'"):
        assert allocation_report(lambda statement, table=table: ask(statement, **{table: ""})) is None


def test_a_cell_in_another_database_leaves_no_report() -> None:
    """Its servers would all be without a row."""
    assert allocation_report(lambda statement: ask(statement, **{"'instance_extra'": "nova_cell0\n"})) is None
