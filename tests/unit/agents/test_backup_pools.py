"""RBD images in a backup and a restore: both programs of a pod, with models in the place of rbd and restic."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.agents.backup.pool import back_up_pool
from openstack_operator.agents.backup.pool_restore import restore_pool
from openstack_operator.agents.backup.rbd import Pool, serve
from openstack_operator.agents.backup.rbd_door import ask_rbd
from openstack_operator.agents.backup.rbd_stream import INDEX, ImageHeader, read_image
from openstack_operator.agents.backup.repository import open_repository
from openstack_operator.agents.backup.run import RunError
from openstack_operator.agents.backup.verify import check_pool
from tests.unit.agents.backup_programs import Programs
from tests.unit.agents.rbd_model import Ceph, difference, script
from tests.unit.polling import TIMEOUT

UUIDS = [f"{digit * 8}-0000-4000-8000-{digit * 12}" for digit in "abc"]
FIRST, SECOND, THIRD = (f"volume-{each}" for each in UUIDS)
BACKUP_ID, RESTORE_ID = f"12345678{UUIDS[0][8:]}", f"87654321{UUIDS[0][8:]}"
OWN = f"backup.0b5bac00{BACKUP_ID[8:]}.snap."
# restic keeps each file under its name, and lists what it keeps.
STORE = """
for word; do case $word in --stdin-filename=*) name=${word#*=} ;; --tag=*) tags="$tags,\\"${word#*=}\\"" ;; esac; done
if [ -n "$name" ]; then cat > {home}/fresh; else name=rbd-images.json; cat $name > {home}/fresh; fi
mv {home}/fresh {home}/answers/$name
if [ $name != rbd-images.json ]; then
    time=$(wc -l < {home}/restic.calls)
    printf '{"id": "of-%s", "time": "%s", "tags": [%s]}' $name $time "${tags#,}" >> {home}/entries
    echo "[$(sed 's/}{/},{/g' {home}/entries)]" > {home}/answers/snapshots
fi
echo '{"message_type": "summary", "snapshot_id": "of-'$name'", "data_added": 3, "total_bytes_processed": 5}'
"""


def beside_rbd(work: Any, config: Path) -> dict[str, Any]:
    """Return the result of a program of a pod, beside the other one, which has ended, too, then."""
    other = threading.Thread(target=serve, args=[config])
    other.start()
    try:
        return dict(work(config))
    finally:
        other.join(TIMEOUT)
        assert not other.is_alive()


class Pod:
    """The two programs of a pod, each with its run, and the Ceph that they use."""

    def __init__(self, home: Path) -> None:
        self.programs, self.ceph = Programs(home), Ceph(home / "ceph")
        self.folder = home / "shared"
        self.folder.mkdir()
        self.ceph.root.mkdir()
        self.programs.program("rbd", script(self.ceph.root))
        self.programs.answer("snapshots", "[]")
        self.programs.answer("backup", script=STORE.replace("{home}", str(home)))

    def run(self, work: Any, *, use: str = "volumes", number: str = BACKUP_ID) -> dict[str, Any]:
        """Return the result of a program, beside the other one, which has ended, too, then."""
        fields = {"folder": str(self.folder), "id": number, "use": use, "pool": use, "user": f"client.{use}"}
        self.programs.settings(**fields, backup="nightly", cloud="openstack", index="of-index", incremental=False)
        return beside_rbd(work, self.programs.config)

    @property
    def stored(self) -> list[str]:
        """Names of the RBD images that the repository has."""
        return [entry["name"] for entry in json.loads((self.programs.home / "answers" / INDEX).read_bytes())]


@pytest.fixture(name="pod")
def _pod(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pod]:
    # The path of a socket has at most 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="rbd-"))
    made = Pod(home)
    monkeypatch.setenv("PATH", made.programs.path)
    yield made
    shutil.rmtree(home)


def three_images(pod: Pod) -> None:
    pod.ceph.put("volumes", FIRST, "now", snapshot_a="once", snapshot_b="twice")
    image = pod.ceph.read("volumes", FIRST)
    image["snapshots"][0]["protected"] = "true"
    pod.ceph.write("volumes", FIRST, image)
    pod.ceph.put("volumes", SECOND, "x" * 300_000)
    pod.ceph.put("volumes", "kubernetes-dynamic-pvc", "of others")


def lose_pool(pod: Pod) -> None:
    shutil.rmtree(pod.ceph.root / "volumes")
    (pod.ceph.root / "volumes").mkdir()


def test_images_and_their_snapshots_come_back(pod: Pod) -> None:
    three_images(pod)
    before = [pod.ceph.read("volumes", name) for name in (FIRST, SECOND)]
    result = pod.run(back_up_pool)
    assert (result["images"], result["snapshot"]) == (2, f"of-{INDEX}")
    after = [pod.ceph.read("volumes", name) for name in (FIRST, SECOND)]
    assert [{**each, "next": 0} for each in after] == [{**each, "next": 0} for each in before]
    lose_pool(pod)
    result = pod.run(restore_pool, number=RESTORE_ID)
    assert (result["images"], result["existed"]) == (2, 0)
    assert pod.ceph.names("volumes") == [FIRST, SECOND]
    for name, image in zip((FIRST, SECOND), before, strict=True):
        after = pod.ceph.read("volumes", name)
        fields = [[(s["name"], s["protected"], s["data"]) for s in each["snapshots"]] for each in (image, after)]
        assert (after["data"], fields[1]) == (image["data"], fields[0])


def test_an_image_that_exists_stays(pod: Pod) -> None:
    three_images(pod)
    pod.run(back_up_pool)
    pod.ceph.put("volumes", FIRST, "newer")
    (pod.ceph.root / "volumes" / SECOND).unlink()
    result = pod.run(restore_pool, number=RESTORE_ID)
    assert (result["images"], result["existed"]) == (1, 1)
    assert pod.ceph.read("volumes", FIRST)["data"] == "newer"


def test_a_restore_tells_again_what_it_restored(pod: Pod) -> None:
    three_images(pod)
    pod.run(back_up_pool)
    lose_pool(pod)
    first, again = (pod.run(restore_pool, number=RESTORE_ID) for _ in range(2))
    assert {**again, "seconds": 0} == {**first, "seconds": 0}


def test_half_an_image_of_a_killed_restore_is_begun_again(pod: Pod) -> None:
    three_images(pod)
    pod.run(back_up_pool)
    lose_pool(pod)
    half = f"restoring.{RESTORE_ID}.{FIRST}"
    pod.ceph.put("volumes", half, "half", snapshot_a="half")
    image = pod.ceph.read("volumes", half)
    image["snapshots"][0]["protected"] = "true"
    pod.ceph.write("volumes", half, image)
    pod.run(restore_pool, number=RESTORE_ID)
    assert pod.ceph.names("volumes") == [FIRST, SECOND]
    assert pod.ceph.read("volumes", FIRST)["data"] == "now"


def test_a_second_run_stores_new_images_and_snapshots_alone(pod: Pod) -> None:
    three_images(pod)
    pod.run(back_up_pool)
    pod.ceph.put("volumes", THIRD, "new")
    (pod.ceph.root / "volumes" / SECOND).unlink()
    calls = len(pod.programs.calls())
    pod.run(back_up_pool)
    again = [call for call in pod.programs.calls()[calls:] if "--stdin-filename" in call]
    assert [f"--stdin-filename={THIRD}.rbd" in call for call in again] == [True]
    # The databases may have a row of it: they were read in between.
    assert pod.stored == [FIRST, SECOND, THIRD]


def test_an_image_deleted_while_it_is_read_is_left_out(pod: Pod) -> None:
    pod.ceph.put("volumes", FIRST, "now")
    (pod.ceph.root / "fault").write_text("gone")
    assert pod.run(back_up_pool)["images"] == 0
    assert not (pod.programs.home / "answers" / f"{FIRST}.rbd").exists()


def test_a_volume_may_lose_the_snapshot_of_the_backup(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cinder removes it first when a user deletes the volume."""
    pod.ceph.put("volumes", FIRST, "now")
    freeze, losses = Pool.freeze, iter([True])

    def losing(pool: Pool, name: str) -> Any:
        if next(losses, False):
            raise RunError(f"{name} has lost its snapshot")
        return freeze(pool, name)

    monkeypatch.setattr(Pool, "freeze", losing)
    assert pod.run(back_up_pool)["images"] == 1
    assert pod.stored == [FIRST]


def test_half_an_image_is_no_snapshot(pod: Pod) -> None:
    pod.ceph.put("volumes", FIRST, "now")
    (pod.ceph.root / "fault").write_text("fails")
    with pytest.raises(RunError, match="error reading an object"):
        pod.run(back_up_pool)
    assert not (pod.programs.home / "answers" / f"{FIRST}.rbd").exists()
    assert not pod.ceph.snapshots("volumes", FIRST)


def test_snapshots_of_dead_backups_are_removed(pod: Pod) -> None:
    others = {f"backup.{UUIDS[1]}.snap.1764.5": "of Cinder", "backup.x.snap.1": "of Cinder"}
    recent = f"backup.0b5bac00{UUIDS[2][8:]}.snap.99999999999"
    old = f"backup.0b5bac00{UUIDS[2][8:]}.snap.1764000000"
    pod.ceph.put("volumes", FIRST, "now", **others, **{recent: "", old: "", f"{OWN}99999999999": ""})
    pod.run(back_up_pool)
    assert pod.ceph.snapshots("volumes", FIRST).keys() == {*others, recent}
    lose_pool(pod)
    pod.run(restore_pool, number=RESTORE_ID)
    assert not pod.ceph.snapshots("volumes", FIRST)


def test_images_are_stored_once_glance_has_them(pod: Pod) -> None:
    pod.ceph.put("images", UUIDS[0], "whole", snap="whole")
    pod.ceph.put("images", UUIDS[1], "uploading")
    # Users may choose identifiers.
    pod.ceph.put("images", UUIDS[2].upper(), "whole", snap="whole")
    assert pod.run(back_up_pool, use="images")["images"] == 2
    assert pod.stored == sorted([UUIDS[0], UUIDS[2].upper()])
    calls = (pod.ceph.root / "calls").read_text()
    assert "snap create" not in calls


def test_a_repository_that_fails_says_why(pod: Pod) -> None:
    three_images(pod)
    pod.programs.fail("backup", 1, "no space left")
    with pytest.raises(RunError, match="no space left"):
        pod.run(back_up_pool)
    assert pod.ceph.snapshots("volumes", FIRST).keys() == {"snapshot_a", "snapshot_b"}


def test_a_name_of_others_is_refused(pod: Pod) -> None:
    pod.ceph.put("volumes", "of-others", "data")

    def ask(_: Path) -> dict[str, Any]:
        with ask_rbd(pod.folder, do="stay"), ask_rbd(pod.folder, do="describe", name="of-others") as connection:
            return connection.hear()

    with pytest.raises(RunError, match="no name of an image"):
        pod.run(ask)


def checked(pod: Pod, limit: int = 1 << 20) -> int:
    with open_repository(pod.programs.config) as repository:
        return check_pool(repository, {"snapshot": f"of-{INDEX}", "pool": "volumes"}, "nightly", limit)


def test_a_verified_pool_has_each_image(pod: Pod) -> None:
    three_images(pod)
    pod.run(back_up_pool)
    assert checked(pod) == 2
    stored = pod.programs.home / "answers" / f"{FIRST}.rbd"
    whole = stored.read_bytes()
    stored.write_bytes(whole[:-1])
    with pytest.raises(RunError, match="not whole"):
        checked(pod)
    stored.write_bytes((pod.programs.home / "answers" / f"{SECOND}.rbd").read_bytes())
    with pytest.raises(RunError, match=f"{FIRST} are those of {SECOND}"):
        checked(pod)
    assert checked(pod, limit=0) == 2
    pod.programs.answer("snapshots", "[]")
    with pytest.raises(RunError, match="2 RBD images of pool volumes are not in the repository"):
        checked(pod)


HEADER = ImageHeader(name=FIRST, size=3, object_size=4194304, snapshots=(("a", True),), tail="t")
STREAM = HEADER.dump() + difference(b"one", "a") + difference(b"two", "t", "a")


def test_a_whole_stream_is_read_to_its_end() -> None:
    assert read_image(io.BytesIO(STREAM)) == (HEADER, len(STREAM))


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        STREAM[:-1],
        STREAM[: len(STREAM) // 2],
        STREAM + b"e",
        b"{}\n" + STREAM,
        STREAM.replace(b"rbd diff v1", b"rbd diff v9"),
    ],
)
def test_a_stream_that_is_not_whole_is_refused(stream: bytes) -> None:
    with pytest.raises(RunError, match="use another backup"):
        read_image(io.BytesIO(stream))
