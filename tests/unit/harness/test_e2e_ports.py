"""What is read of a pod's sockets, and of the list in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.ports import Port, listed, listening

LINE = "   0: {address}:{port} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 1 1 0 100 0 0 10 0"


@pytest.mark.parametrize(
    ("address", "state", "found"),
    [
        ("00000000", "0A", {3306}),
        ("0B00590A", "0A", {3306}),
        ("0100007F", "0A", set()),
        ("0500007F", "0A", set()),
        ("00000000000000000000000000000000", "0A", {3306}),
        ("00000000000000000000000001000000", "0A", set()),
        ("0000000000000000FFFF00000100007F", "0A", set()),
        ("0000000000000000FFFF00000B00590A", "0A", {3306}),
        ("00000000", "01", set()),
    ],
)
def test_ports_that_others_can_reach_are_found(address: str, state: str, found: set[int]) -> None:
    table = f"  sl  local_address rem_address   st\n{LINE.format(address=address, port='0CEA', state=state)}\n"
    assert listening(table) == found


def test_the_list_names_pods_ports_and_what_they_speak(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("| pods | port | speaks | … |\n| --- | --- | --- | --- |\n| `mariadb` | 3306 | plain | a login |\n")
    assert listed(page) == {Port("mariadb", 3306): "plain"}
    assert Port("keystone-api", 5000) in listed()
