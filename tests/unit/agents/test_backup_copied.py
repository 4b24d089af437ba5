"""Streams of mariadb-backup are read part by part, and copies that are none are refused."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from openstack_operator.agents.backup.copied import copy_in, pieces
from openstack_operator.agents.backup.run import RunError

INFO = b"GTID of the last change '0-7-12'\nserver_version = 11.8.2-MariaDB"


def part(kind: bytes, name: bytes, rest: bytes = b"") -> bytes:
    return b"XBSTCK01\0" + kind + len(name).to_bytes(4, "little") + name + rest


def payload(name: bytes, data: bytes) -> bytes:
    sizes = len(data).to_bytes(8, "little") + bytes(8) + bytes(4)
    return part(b"P", name, sizes + data)


def stream() -> bytes:
    renaming = part(b"N", b"a.ibd", len(b"b.ibd").to_bytes(4, "little") + b"b.ibd")
    # Rows may look like a part of a stream.
    data = payload(b"ibdata1", payload(b"mariadb_backup_info", b"server_version = forged"))
    info = payload(b"mariadb_backup_info", INFO[:20]) + payload(b"mariadb_backup_info", INFO[20:])
    return data + part(b"E", b"ibdata1") + renaming + part(b"R", b"c.ibd") + info + part(b"E", b"mariadb_backup_info")


def test_a_stream_passes_unchanged_and_tells_of_itself(tmp_path: Path) -> None:
    assert b"".join(pieces(BytesIO(stream()), tmp_path)) == stream()
    assert (tmp_path / "mariadb_backup_info").read_bytes() == INFO
    assert [path.name for path in tmp_path.iterdir()] == ["mariadb_backup_info"]


def test_each_stream_that_ends_in_a_part_is_refused(tmp_path: Path) -> None:
    whole = stream()
    ends = {0, len(whole)}
    for size in range(len(whole)):
        try:
            b"".join(pieces(BytesIO(whole[:size]), tmp_path))
        except RunError:
            continue
        ends.add(size)
    # Those between two parts: mariadb-backup itself says that such a copy lacks files.
    assert ends == {position for position in range(len(whole) + 1) if is_between_parts(whole, position)}


def is_between_parts(whole: bytes, position: int) -> bool:
    starts, at = {0}, 0
    while at < len(whole):
        name = int.from_bytes(whole[at + 10 : at + 14], "little")
        kind, after = whole[at + 9 : at + 10], at + 14 + name
        if kind == b"P":
            after += 20 + int.from_bytes(whole[after : after + 8], "little")
        elif kind == b"N":
            after += 4 + int.from_bytes(whole[after : after + 4], "little")
        at = after
        starts.add(at)
    return position in starts


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1f\x8b\x08 compressed", "no stream of mariadb-backup"),
        (part(b"Q", b"ibdata1"), "a part of type b'Q'"),
        (b"XBSTCK01\0P" + (1 << 31).to_bytes(4, "little"), "ends in the middle"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, text: str) -> None:
    with pytest.raises(RunError, match=text):
        b"".join(pieces(BytesIO(data), tmp_path))


def test_the_last_copy_is_taken(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="left no copy"):
        copy_in(tmp_path)
    (tmp_path / "0-backup-target.txt").write_text("/backup/physicalbackup-2.xb")
    with pytest.raises(RunError, match=r"left no copy 'physicalbackup-2\.xb'"):
        copy_in(tmp_path)
    for number in (1, 2):
        (tmp_path / f"physicalbackup-{number}.xb").write_bytes(b"")
    assert copy_in(tmp_path).name == "physicalbackup-2.xb"


@pytest.mark.security
def test_a_copy_outside_the_volume_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.xb").write_bytes(b"")
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume/0-backup-target.txt").write_text(f"{tmp_path}/secret.xb")
    with pytest.raises(RunError, match="left no copy"):
        copy_in(tmp_path / "volume")
