"""Programs of backups, with programs in the place of restic and MariaDB's: what they refuse, and what they reveal."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import agents, pki
from openstack_operator.agents.backup import database, manifest, restore
from openstack_operator.agents.backup.repository import open_repository
from openstack_operator.agents.backup.run import MAX_MESSAGE, RunError, message, plain
from openstack_operator.services.backup.pods import modules
from tests.unit.agents.backup_programs import Programs

CERTIFICATE = pki.authority("s3", "pki", datetime.now(UTC)).cert
SUMMARY = {
    "message_type": "summary",
    "snapshot_id": "s1",
    "total_bytes_processed": 1000,
    "data_added": 300,
    "data_added_packed": 100,
}
LOGIN = {
    "host": "mariadb.openstack.svc",
    "port": 3306,
    "user": "mariadb-backup",
    "datadir": "/var/lib/mysql",
    "tls": True,
}
BACKUP = {"backup": "nightly", "cloud": "openstack", "database": "mariadb", **LOGIN}
INFO = """server_version = 11.8.9-MariaDB-0+deb13u1 from Debian-log
binlog_pos = filename 'binlog.000001', position '808', GTID of the last change '0-1-3'
"""
_COPY = """
for word; do
  case $word in
    --defaults-file=*) cp -p "${word#*=}" {home}/login ;;
    --extra-lsndir=*) mkdir "${word#*=}"; cp {home}/info "${word#*=}/mariadb_backup_info" ;;
  esac
done
"""
PROGRAMS = ("database", "manifest", "contents", "restore")


@pytest.fixture(name="programs")
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    programs = Programs(tmp_path)
    monkeypatch.setenv("PATH", programs.path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    programs.settings(**BACKUP)
    programs.write("credentials/password", 'pass"word\\\n')
    (tmp_path / "info").write_text(INFO)
    programs.answer("backup", json.dumps(SUMMARY), _COPY.replace("{home}", str(tmp_path)))
    return programs


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_leaves_its_error_as_one_line(program: str, tmp_path: Path) -> None:
    command = agents.python(*modules(program))
    env = {"TERMINATION_LOG": str(tmp_path / "message")}
    result = subprocess.run([sys.executable, *command[1:]], env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    [line] = (tmp_path / "message").read_text().splitlines()
    assert line.startswith("/etc/backup/run/run.json cannot be read")


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        ("int('no number')", "cannot be used: invalid literal for int() with base 10: 'no number'"),
        ("'text'['key']", "cannot be used: string indices must be integers, not 'str'"),
        ("subprocess.run(['sleep', '3600'], timeout=0.001)", "sleep did not end in time; try again"),
    ],
)
def test_an_unforeseen_value_is_a_plain_reason(work: str, reason: str, tmp_path: Path) -> None:
    _, option, program = agents.python("backup/run.py")
    command = [sys.executable, option, f"{program}\nmain(lambda config: {work})"]
    env = {**os.environ, "TERMINATION_LOG": str(tmp_path / "message")}
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    [line] = (tmp_path / "message").read_text().splitlines()
    assert line.endswith(reason)


def test_a_result_with_many_schemas_fits_into_a_message() -> None:
    line = message({"schemas": ["x" * 100] * 50, "gtid": "0-1-3"})
    assert len(line) < MAX_MESSAGE
    assert json.loads(line)["gtid"] == "0-1-3"
    assert len(json.loads(line)["schemas"]) > 30


def test_lists_of_names_fit_into_a_message() -> None:
    names = [f"volume-{number:036}" for number in range(5)]
    lists = {kind: {"count": 9, "images": names} for kind in ("withoutData", "withoutRow", "snapshotsWithoutData")}
    line = message({"pools": {f"{number}-volumes": lists for number in range(10)}, "gtid": "0-1-3"})
    assert len(line) < MAX_MESSAGE
    pools = json.loads(line)["pools"]
    assert {each["count"] for pool in pools.values() for each in pool.values()} == {9}
    assert {len(each["images"]) for pool in pools.values() for each in pool.values()} <= {1, 2}


def test_errors_of_restic_are_read_as_plain_text() -> None:
    assert plain('{"message_type":"exit_error","code":12,"message":"Fatal: wrong password"}') == "wrong password"
    assert plain('{"message_type":"error","error":{"message":"no space"}}') == "no space"
    assert plain("Fatal: no space\n") == "no space"
    assert plain("{no JSON") == "{no JSON"


def test_a_backup_tells_where_it_is_and_its_last_change(programs: Programs) -> None:
    result = database.back_up(programs.config)
    assert {**result, "seconds": 0} == {
        "snapshot": "s1",
        "bytes": 1000,
        "stored": 100,
        "gtid": "0-1-3",
        "server": "11.8.9-MariaDB",
        "seconds": 0,
    }
    [call] = [call for call in programs.calls() if " backup " in call]
    assert "--tag=kind=database --tag=backup=nightly --tag=database=mariadb --host=openstack" in call
    assert "--stdin-from-command --stdin-filename=mariadb.mbstream -- mariadb-backup --defaults-file=" in call


def test_a_database_without_a_binary_log_has_no_last_change(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "info").write_text("server_version = 10.11.14-MariaDB-log\nbinlog_pos = \n")
    result = database.back_up(programs.config)
    assert (result["gtid"], result["server"]) == ("", "10.11.14-MariaDB")


@pytest.mark.security
def test_passwords_are_in_files_of_one_user_alone(programs: Programs, tmp_path: Path) -> None:
    programs.repository(url="s3:https://s3:9000/bucket/cloud", pathStyle=True, region="here", uploadKiB=8)
    programs.write("repository/accessKey", "account")
    programs.write("repository/secretKey", "secret key\n")
    programs.write("repository/ca.crt", CERTIFICATE)
    database.back_up(programs.config)
    login = tmp_path / "login"
    assert 'password="pass\\"word\\\\"' in login.read_text().splitlines()
    assert "ssl-verify-server-cert=1" in login.read_text().splitlines()
    credentials = tmp_path / "restic.credentials"
    assert "aws_secret_access_key=secret key" in credentials.read_text().splitlines()
    for file in (login, credentials):
        assert file.stat().st_mode & 0o077 == 0
    visible = (tmp_path / "restic.env").read_text() + "".join(programs.calls())
    for secret in ('pass"word', "secret key", "account"):
        assert secret not in visible
    assert not list(tmp_path.glob("backup-*")), "the private folder stays"


def test_a_bucket_is_reached_as_its_settings_say(programs: Programs) -> None:
    programs.repository(url="s3:https://s3:9000/bucket/cloud", pathStyle=True, region="here", uploadKiB=8)
    for name, text in {"accessKey": "account", "secretKey": "secret", "ca.crt": CERTIFICATE}.items():
        programs.write(f"repository/{name}", text)
    database.back_up(programs.config)
    options = f"--option=s3.bucket-lookup=path --option=s3.region=here --cacert={programs.config}/repository/ca.crt"
    words = f"--repo=s3:https://s3:9000/bucket/cloud --json --limit-upload=8 {options} "
    assert [call for call in programs.calls() if call.startswith(words)] == programs.calls() != []


def test_stale_locks_are_removed_before_a_backup(programs: Programs) -> None:
    database.back_up(programs.config)
    verbs = [next(word for word in call.split() if not word.startswith("-")) for call in programs.calls()]
    assert verbs == ["cat", "unlock", "backup"]


def test_an_account_that_cannot_delete_makes_backups(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    programs.fail("unlock", 1, "Fatal: unable to remove the lock: Access Denied")
    assert database.back_up(programs.config)["snapshot"] == "s1"
    assert "stale locks stay: the bucket of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (11, "another program has locked the repository"),
        (12, "the password does not open the repository"),
        (1, "restic failed with the repository"),
    ],
)
def test_a_repository_that_does_not_open_is_named(programs: Programs, status: int, error: str) -> None:
    programs.fail("cat", status, "Fatal: words")
    with pytest.raises(RunError, match=f"{error} {programs.home}/repository"):
        database.back_up(programs.config)


def test_the_reason_of_a_backup_that_fails_is_mariadb_s(programs: Programs) -> None:
    programs.fail(
        "backup",
        1,
        "subprocess mariadb-backup: [00] 2026-11-29 22:58:23 Failed to connect to MariaDB server: Access denied",
        '{"message_type":"exit_error","code":1,"message":"Fatal: unable to save: command failed: exit status 1"}',
    )
    with pytest.raises(RunError, match=r"^mariadb-backup failed: Failed to connect to MariaDB server: Access denied$"):
        database.back_up(programs.config)


def test_a_new_folder_gets_a_repository(programs: Programs) -> None:
    programs.answer("cat", script=f"[ -e {programs.home}/repository/config ] || exit 10")
    programs.answer("init", script=f"touch {programs.home}/repository/config")
    (programs.home / "repository/keys").mkdir(parents=True)
    lone_key = programs.home / "repository/keys/0123"
    lone_key.touch()
    database.back_up(programs.config)
    assert not lone_key.exists(), "restic refuses to create a repository that has a key"
    assert sum(" init" in call for call in programs.calls()) == 1
    database.back_up(programs.config)
    assert sum(" init" in call for call in programs.calls()) == 1


def test_a_repository_that_lost_its_configuration_is_left_alone(programs: Programs) -> None:
    programs.fail("cat", 10, "Fatal: no config")
    snapshots = programs.home / "repository/snapshots"
    snapshots.mkdir(parents=True)
    (snapshots / "0123").touch()
    with pytest.raises(RunError, match="has backups, but its file 'config' is missing"):
        database.back_up(programs.config)
    assert (snapshots / "0123").exists()


def make_whole(programs: Programs, databases: Any) -> dict[str, Any]:
    """Store a manifest of the snapshot s1; its files are those that restic finds."""
    entries = [
        {"id": "m1", "time": "2026-01-02T03:04:05.678901234+02:00"},
        {"id": "s1", "time": "2026-01-01T00:00:00Z"},
    ]
    programs.answer("snapshots", json.dumps(entries))
    programs.answer("backup", json.dumps({**SUMMARY, "snapshot_id": "m1"}), f"cp * {programs.home}/stored/")
    for folder in (programs.home / "stored", programs.config / "contents"):
        folder.mkdir(exist_ok=True)
    programs.write("contents/contents.json.gz", "packed")
    programs.settings(backup="nightly", cloud="openstack", schedule="", manifest={"databases": databases})
    return manifest.store(programs.config)


def test_a_manifest_has_the_digest_of_the_contents(programs: Programs) -> None:
    assert make_whole(programs, [{"snapshot": "s1"}]) == {"snapshot": "m1", "taken": "2026-01-02T01:04:05Z"}
    stored = json.loads((programs.home / "stored/manifest.json").read_text())
    assert stored == {"databases": [{"snapshot": "s1"}], "sha256": hashlib.sha256(b"packed").hexdigest()}
    assert (programs.home / "stored/contents.json.gz").read_text() == "packed"
    [call] = [call for call in programs.calls() if " backup " in call]
    assert "--tag=kind=manifest --tag=backup=nightly --tag=schedule=- --host=openstack" in call


def test_a_manifest_without_all_databases_is_not_stored(programs: Programs) -> None:
    with pytest.raises(RunError, match="the repository has no snapshot s2; back up its data again"):
        make_whole(programs, {"mariadb": {"snapshot": "s1"}, "nova": {"snapshot": "s2"}})
    assert not any(" backup " in call for call in programs.calls())


def test_a_manifest_without_its_network_is_not_stored(programs: Programs) -> None:
    programs.answer("snapshots", json.dumps([{"id": "s1", "time": "2026-01-01T00:00:00Z"}]))
    (programs.config / "contents").mkdir()
    programs.write("contents/contents.json.gz", "packed")
    lists = {"databases": [{"snapshot": "s1"}], "networks": [{"snapshot": "s3"}]}
    programs.settings(backup="nightly", cloud="openstack", schedule="", manifest=lists)
    with pytest.raises(RunError, match="the repository has no snapshot s3"):
        manifest.store(programs.config)


RESTORE = {"database": "mariadb", "snapshot": "s1", "server": "11.8.2-MariaDB", "gtid": "0-1-3", "restore": "uid-1"}


@pytest.fixture(name="data")
def _data(programs: Programs) -> Path:
    data = programs.home / "data"
    (data / "lost+found").mkdir(parents=True)
    programs.settings(**RESTORE, datadir=str(data))
    programs.program("mariadbd", "#!/bin/sh\necho 'mariadbd  Ver 11.8.9-MariaDB-0+deb13u1 from Debian'\n")
    programs.answer("ls", json.dumps({"path": "/mariadb.mbstream", "size": 1000}))
    return data


def test_a_data_directory_with_anything_in_it_is_refused(programs: Programs, data: Path) -> None:
    (data / "ibdata1").touch()
    with pytest.raises(RunError, match=r"is not empty \(ibdata1\); restore into a new volume"):
        restore.restore(programs.config)
    assert (data / "ibdata1").exists()
    assert programs.calls() == []


def test_a_run_whose_result_was_lost_is_told_it_again(data: Path) -> None:
    """Its pod may be gone before the operator has read its message, and a server may write by then."""
    works: list[str] = []

    def work() -> dict[str, Any]:
        works.append("work")
        restore.clear(data)
        (data / "ibdata1").write_text("as restored")
        return {"gtid": "0-1-3"}

    run = {**RESTORE, "datadir": str(data)}
    assert restore.once(run, work) == {"gtid": "0-1-3"}
    (data / "ibdata1").write_text("written by a server")
    assert restore.once(run, work) == {"gtid": "0-1-3"}
    assert works == ["work"]
    assert (data / "ibdata1").read_text() == "written by a server"
    # Another restore of the same backup is not this one.
    with pytest.raises(RunError, match="is not empty"):
        restore.once({**run, "restore": "uid-2"}, work)
    # What a power cut left between the result and the mark begins again.
    (data / ".restoring").touch()
    assert restore.once(run, work) == {"gtid": "0-1-3"}
    assert (data / "ibdata1").read_text() == "as restored"


def test_files_that_an_earlier_try_left_are_removed(data: Path) -> None:
    (data / ".restoring").touch()
    (data / "mysql").mkdir()
    (data / "mysql/global_priv.frm").touch()
    restore.clear(data)
    assert sorted(path.name for path in data.iterdir()) == [".restoring", "lost+found"]


_LOCK = """import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print(flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("name", ["ibdata1", "aria_log_control"])
def test_files_that_a_server_uses_are_not_removed(data: Path, name: str) -> None:
    (data / ".restoring").touch()
    (data / name).touch()
    command = [sys.executable, "-c", _LOCK, str(data / name)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout
        server.stdout.readline()
        with pytest.raises(RunError, match=r"a server uses this volume .*; delete the cloud's MariaDB first"):
            restore.clear(data)
        assert (data / name).exists()
        server.communicate()
    restore.clear(data)
    assert not (data / name).exists()


@pytest.mark.parametrize(
    ("backup", "program", "error"),
    [
        ("11.8.2-MariaDB", "mariadbd  Ver 10.11.14-MariaDB", "MariaDB 11.8, which 10.11 cannot read"),
        ("12.1.2-MariaDB", "mariadbd  Ver 11.8.9-MariaDB", "MariaDB 12.1, which 11.8 cannot read"),
        ("11.8.2-MariaDB", "mariadbd  Ver 11.8.1-MariaDB", ""),
        ("10.11.14-MariaDB", "mariadbd  Ver 11.8.9-MariaDB", ""),
    ],
)
def test_an_earlier_server_is_refused(backup: str, program: str, error: str) -> None:
    if error:
        with pytest.raises(RunError, match=error):
            restore.refuse_older_server(backup, program)
    else:
        restore.refuse_older_server(backup, program)


FAILURES: Mapping[str, tuple[str, str, str]] = {
    "damaged": ("exit 1", "cat > /dev/null", "the repository .* is damaged"),
    "full": ("", "echo 'mbstream: no space left on device' >&2; exit 1", "cannot be written .*no space left on device"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_both_ends_of_the_stream_are_judged(programs: Programs, data: Path, failure: str) -> None:
    dump, extract, error = FAILURES[failure]
    programs.answer("mariadb.mbstream", script=f"echo 'Fatal: ciphertext verification failed' >&2\n{dump}\n")
    programs.program("mbstream", f"#!/bin/sh\n{extract}\n")
    with pytest.raises(RunError, match=error):
        restore.restore(programs.config)
    assert (data / ".restoring").exists()


def test_a_snapshot_of_another_database_is_refused(programs: Programs, data: Path) -> None:
    programs.answer("ls", json.dumps({"path": "/other.mbstream", "size": 1000}))
    with pytest.raises(RunError, match=r"snapshot s1 has no mariadb\.mbstream"):
        restore.restore(programs.config)
    assert (data / ".restoring").exists()


def test_a_file_of_a_snapshot_has_a_limit(programs: Programs) -> None:
    programs.answer("manifest.json", b"x" * 100)
    with open_repository(programs.config) as repository:
        assert repository.read("m1", "manifest.json", 100) == b"x" * 100
        with pytest.raises(RunError, match=r"manifest\.json of snapshot m1 has more than"):
            repository.read("m1", "manifest.json", 99)
