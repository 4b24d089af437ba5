"""OVN's northbound database through the programs of a backup and a restore, with the server of the image."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from openstack_operator import agents
from tests.unit.image_root import image_root, inside
from tests.unit.polling import TIMEOUT

ROOT = 0
# A database of one member, as a pod starts it; rows; its backup; a restore into another folder; and a member with
# another address that starts with what was restored. Lines of output begin with a name.
SCRIPT = r"""
ip link set lo up
export TERMINATION_LOG=/tmp/message OVN_ADDRESS=localhost OVN_SEED=localhost
socket=unix:/run/ovn/ovnnb_db.sock
served() { ovn-db-start nb > /tmp/log 2>&1 & server=$!; until ovn-db-ready nb > /tmp/ready 2>&1; do sleep 0.1; done; }
rows() { ovsdb-client dump --no-headings $socket OVN_Northbound "$@" | sort | sha256sum; }
tell() { echo "$1 $(cat /tmp/message)"; }
served
ovn-nbctl --db=$socket lr-add r -- ls-add s -- lsp-add s p -- lr-nat-add r dnat_and_snat 10.0.0.1 10.1.0.1
echo "before $(rows Logical_Switch) $(rows Logical_Switch_Port) $(rows NAT) $(rows NB_Global _uuid)"
python3 -c "$READ"; tell read
kill $server; wait $server
mkdir /var/lib/old; mv /var/lib/ovn/ovnnb_db.db /var/lib/old; rm -f /var/lib/ovn/.*lock*
python3 -c "$RESTORE"; tell restored
python3 -c "$RESTORE"; tell again
export OVN_ADDRESS=localhost.localdomain OVN_SEED=localhost.localdomain
served
echo "after $(rows Logical_Switch) $(rows Logical_Switch_Port) $(rows NAT) $(rows NB_Global _uuid)"
echo "address $(ovsdb-tool db-local-address /var/lib/ovn/ovnnb_db.db)"
kill $server; wait $server
echo other > /var/lib/ovn/restored
python3 -c "$RESTORE"; tell foreign
rm /var/lib/ovn/ovnnb_db.db /var/lib/ovn/.*lock*
sed -i 's/"version": *"[0-9.]*"/"version": "7.0.0"/' /usr/share/ovn/ovn-nb.ovsschema
python3 -c "$RESTORE"; tell older
ls /var/lib/ovn | grep -c db
echo done
"""


def test_rows_keep_their_identities() -> None:
    run = {
        "connection": "unix:/run/ovn/ovnnb_db.sock",
        "database": "OVN_Northbound",
        "folder": "/var/lib/shared",
        "file": "ovn.ovsdb",
        "tls": False,
        "snapshot": "4f2a",
        "datadir": "/var/lib/ovn",
    }
    with image_root("ovn") as root:
        schema = (root / "usr/share/ovn/ovn-nb.ovsschema").read_text(encoding="utf-8")
        [version] = re.findall(r'"version": *"([0-9.]+)"', schema)
        for name in ("etc/backup/run", "var/lib/shared"):
            (root / name).mkdir(parents=True)
        (root / "etc/backup/run/run.json").write_text(json.dumps(run | {"schema": version}), encoding="utf-8")
        said = _run(root)
    assert said[-1] == "done"
    [before], [after] = ([line.split()[1:] for line in said if line.startswith(name)] for name in ("before", "after"))
    assert after == before
    assert _message(said, "read") == {"schema": version}
    restored = _message(said, "restored")
    assert re.fullmatch(r"[0-9a-f-]{36}", restored["cluster"])
    # A run whose result was lost.
    assert _message(said, "again") == restored
    assert "address tcp:localhost.localdomain:6643" in said
    assert "foreign there is a database in /var/lib/ovn; restore into a new volume" in said
    [older] = [line for line in said if line.startswith("older")]
    assert f"the backup has schema {version} of OVN's northbound database, and this OVN has 7.0.0" in older
    assert said[-2] == "0"


def _message(said: list[str], name: str) -> dict[str, str]:
    [line] = [line for line in said if line.startswith(f"{name} ")]
    return json.loads(line.removeprefix(name))


def _run(root: Path) -> list[str]:
    programs = {
        "READ": agents.python("backup/run.py", "backup/northbound.py")[-1],
        "RESTORE": agents.python("backup/run.py", "backup/northbound_restore.py")[-1],
    }
    # A script that waits for what does not come ends, and lacks its last lines.
    command = ("unshare", "--net", "timeout", f"{TIMEOUT:.0f}", "sh", "-c", SCRIPT)
    with inside(root, ROOT, *command, env={"HOME": "/tmp", **programs}, output=subprocess.PIPE) as process:
        assert process.stdout
        lines = list[str]()
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1] == "done":
                break
        process.stdout.close()
    return lines
