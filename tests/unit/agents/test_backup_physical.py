"""Streams of mariadb-backup are read part by part, and copies that are none are refused."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from openstack_operator.agents.backup.physical_backup import open_copy, pieces
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


def test_each_stream_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    whole, enough = stream(), len(stream()) - len(part(b"E", b"mariadb_backup_info"))
    for size in range(len(whole)):
        for path in tmp_path.iterdir():
            path.unlink()
        if size == enough:
            continue
        with pytest.raises(RunError):
            b"".join(pieces(BytesIO(whole[:size]), tmp_path))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1f\x8b\x08 compressed", "no stream of mariadb-backup"),
        (part(b"Q", b"ibdata1") + bytes(1 << 17), "a part that no program of this operator knows"),
        (b"XBSTCK01\0P" + (1 << 31).to_bytes(4, "little"), "ends in the middle"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, text: str) -> None:
    with pytest.raises(RunError, match=text):
        b"".join(pieces(BytesIO(data), tmp_path))


def test_the_last_copy_is_taken(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be read"):
        open_copy(tmp_path)
    (tmp_path / "0-backup-target.txt").write_text("/backup/physicalbackup-20261201000002.xb")
    with pytest.raises(RunError, match="cannot be read"):
        open_copy(tmp_path)
    for number in (1, 2):
        (tmp_path / f"physicalbackup-2026120100000{number}.xb").write_bytes(b"%d" % number)
    with open_copy(tmp_path) as file:
        assert file.read() == b"2"


@pytest.mark.security
def test_nothing_outside_the_volume_is_read_or_repeated(tmp_path: Path) -> None:
    secret, volume, name = tmp_path / "secret", tmp_path / "volume", "physicalbackup-20261201000001.xb"
    secret.write_text("only-for-tests")
    volume.mkdir()
    target = volume / "0-backup-target.txt"
    for text in (str(secret), f"/backup/{name}"):
        target.write_text(text)
        (volume / name).unlink(missing_ok=True)
        (volume / name).symlink_to(secret)
        with pytest.raises(RunError) as caught:
            open_copy(volume)
        assert "secret" not in str(caught.value)
    target.unlink()
    target.symlink_to(secret)
    with pytest.raises(RunError) as caught:
        open_copy(volume)
    assert "only-for-tests" not in str(caught.value)
