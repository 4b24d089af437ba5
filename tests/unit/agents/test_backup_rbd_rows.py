"""Rows about RBD images, compared with those of a backup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.agents.backup.rbd_connections import renew_connections
from openstack_operator.agents.backup.rbd_rows import Row, compare, rbd_reports, rbd_rows
from openstack_operator.agents.backup.rbd_stream import INDEX
from openstack_operator.agents.backup.repository import open_repository
from openstack_operator.agents.backup.restore import Proof, read_rows
from openstack_operator.agents.backup.run import RunError
from tests.unit.agents.backup_programs import Programs

ANSWERS = {
    "'image_locations'": "glance\n",
    "'volume_attachment'": "",
    "'instance_extra'": "nova_cell0\nnova_cell1\n",
    "glance.images": "aa\t\t1\nbb\t\t0\n",
    "nova_cell0.instances": "",
    "nova_cell1.instances": "cc_disk\tcompute-1\t1\n",
}


def ask(statement: str) -> str:
    [answer] = [answer for words, answer in ANSWERS.items() if words in statement]
    return answer


def test_rows_are_those_of_all_schemas_of_a_service() -> None:
    assert rbd_rows(ask) == {
        "images": [Row("aa", "", has_data=True), Row("bb", "", has_data=False)],
        "vms": [Row("cc_disk", "compute-1", has_data=True)],
    }


def test_a_row_with_data_that_the_backup_lacks_is_named() -> None:
    rows = [Row("a", "ceph", has_data=True), Row("b", "ceph", has_data=True), Row("c", "ceph", has_data=False)]
    report = compare(rows, {"a"})
    assert report["withoutData"] == {"count": 1, "images": ["b"]}


def test_rows_of_other_backends_are_left_out() -> None:
    rows = [Row("a", "ceph", has_data=True), Row("b", "lvm", has_data=True)]
    assert compare(rows, {"a"})["withoutData"]["count"] == 0


def test_images_of_another_ceph_or_pool_are_left_out() -> None:
    statements: list[str] = []

    def ask(statement: str) -> str:
        statements.append(statement)
        return "glance\n" if "'image_locations'" in statement else ""

    rbd_rows(ask)
    [statement] = [each for each in statements if "glance.images" in each]
    assert "SUBSTRING_INDEX(l.value, '/', 4)" in statement


def test_an_rbd_image_without_a_row_is_named() -> None:
    rows = [Row("1_disk", "node", has_data=True), Row("deleting", "node", has_data=False)]
    report = compare(rows, {"1_disk", "1_disk.config", "deleting", "2_disk", "2_disk.swap"})
    assert report["withoutRow"] == {"count": 2, "images": ["2_disk", "2_disk.swap"]}


def test_no_report_stops_a_restore() -> None:
    """The tables of another release are not those of this one."""

    def older(statement: str) -> str:
        if "nova_cell1" in statement:
            raise RunError("Unknown column 'image_ref' in 'SELECT'")
        return "" if "REGEXP '^[A-Za-z0-9_]+$'" in statement and "image_locations" in statement else ask(statement)

    assert read_rows(["nova_cell1"], older) == Proof(["nova_cell1"], None, {}, None, None)


def test_pools_of_services_without_rows_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(tmp_path)
    monkeypatch.setenv("PATH", programs.path)
    programs.answer(INDEX, json.dumps([{"name": "bb"}]))
    pools = [{"name": f"ceph-{use}", "use": use, "index": "5e00"} for use in ("images", "volumes")]
    with open_repository(programs.config) as repository:
        reports = rbd_reports(rbd_rows(ask), repository, pools)
    assert reports.keys() == {"ceph-images"}


def test_snapshots_that_a_volume_was_read_without_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(tmp_path)
    monkeypatch.setenv("PATH", programs.path)
    programs.answer(INDEX, json.dumps([{"name": "volume-a", "lacksSnapshots": True}, {"name": "volume-b"}]))
    answers = {
        "'volume_attachment'": "cinder\n",
        "cinder.snapshots": "snapshot-1\tvolume-a\t1\nsnapshot-2\tvolume-a\t0\nsnapshot-3\tvolume-b\t1\n",
        "cinder.volumes WHERE": "volume-a\tceph\t1\nvolume-b\tceph\t1\n",
    }
    rows = rbd_rows(lambda statement: next((each for words, each in answers.items() if words in statement), ""))
    pools = [{"name": "ceph-volumes", "use": "volumes", "index": "5e00"}]
    with open_repository(programs.config) as repository:
        report = rbd_reports(rows, repository, pools)["ceph-volumes"]
    assert report["snapshotsWithoutData"] == {"count": 1, "images": ["snapshot-1"]}
    assert report["withoutData"]["count"] == 0


def connection(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "hosts": ["10.96.0.7"], "ports": ["3300"], "driver_volume_type": "rbd", **fields}


def test_connections_have_the_monitors_of_the_new_ceph() -> None:
    rows = {
        "nova_cell1.block_device_mapping": {"7": {"driver_volume_type": "rbd", "data": connection("volumes/volume-a")}},
        "cinder.volume_attachment": {
            "aaaa-bbbb": connection("volumes/volume-a"),
            "cccc": connection("elsewhere/volume-c"),
            "x'; DROP": connection("volumes/volume-d"),
        },
    }
    updates: list[str] = []

    def ask(statement: str) -> str:
        if statement.startswith("UPDATE"):
            updates.append(statement)
            return ""
        if "information_schema" in statement:
            return "nova_cell1\n" if "'instance_extra'" in statement else "cinder\n"
        [table] = [name for name in rows if name in statement]
        return "".join(f"{row}\t{json.dumps(entry).encode().hex()}\n" for row, entry in rows[table].items())

    hosts = ["ceph-mon-a.openstack.svc", "ceph-mon-b.openstack.svc"]
    pools = [{"pool": "volumes", "monitors": hosts}, {"pool": "elsewhere", "monitors": []}]
    assert renew_connections(ask, pools) == 2
    texts = [json.loads(bytes.fromhex(update.partition("X'")[2].partition("'")[0])) for update in updates]
    new = connection("volumes/volume-a", hosts=hosts, ports=["3300", "3300"])
    assert texts == [{"driver_volume_type": "rbd", "data": new}, new]
    assert [update.rpartition(" = ")[2] for update in updates] == ["'7'", "'aaaa-bbbb'"]


def test_a_connection_that_cannot_be_renewed_stays(capsys: pytest.CaptureFixture[str]) -> None:
    """A user chooses a part of it, which can fill the column, or be no JSON."""
    texts = {"1": b"[" * 5000, "2": b"{", "3": json.dumps(connection("volumes/volume-a")).encode()}

    def ask(statement: str) -> str:
        if statement.startswith("UPDATE"):
            if "'3'" in statement:
                raise RunError("Data too long for column 'connection_info'")
            raise AssertionError(statement)
        if "information_schema" in statement:
            return "cinder\n" if "'volume_attachment'" in statement else ""
        return "".join(f"{row}\t{text.hex()}\n" for row, text in texts.items())

    assert renew_connections(ask, [{"pool": "volumes", "monitors": ["ceph-mon-a"]}]) == 0
    errors = capsys.readouterr().err
    assert all(f"cinder.volume_attachment '{row}' has the monitors of before" in errors for row in texts)


def test_connections_to_a_ceph_of_others_stay() -> None:
    def ask(statement: str) -> str:
        raise AssertionError(statement)

    assert renew_connections(ask, [{"pool": "volumes", "monitors": []}]) == 0
