from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tools.localcluster import ports
from tools.localcluster.ports import free_port


@pytest.mark.parametrize(("clients", "end"), [("32768\t60999\n", 30_000), ("20000\t60999\n", 20_000)])
def test_a_port_is_one_that_the_kernel_gives_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clients: str, end: int
) -> None:
    (tmp_path / "range").write_text(clients)
    monkeypatch.setattr(ports, "_RANGE_OF_CLIENTS", tmp_path / "range")
    assert all(17_000 <= free_port() < end for _ in range(50))


def test_no_port_is_given_twice() -> None:
    given = [free_port() for _ in range(200)]
    assert len(set(given)) == 200


def test_a_port_is_free_at_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(ports, "_FIRST", port)
    monkeypatch.setattr(ports, "_END", port + 1)
    monkeypatch.setattr(ports, "_past_choices", set())
    with socket.create_server(("127.0.0.2", port)), pytest.raises(OSError, match=r"no port .* is free at 127\.0\.0\.1"):
        free_port(("127.0.0.1", "127.0.0.2"))
    assert free_port(("127.0.0.1", "127.0.0.2")) == port
