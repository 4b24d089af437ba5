"""The job that tells central of the pool and the key of transfers, as the plan runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import agents

MODULES = Path(__file__).parent / "modules_of_designate"
KEY = {"name": "transfer", "algorithm": "hmac-sha256", "secret": "bmV3", "scope": "POOL", "resource_id": "pool"}
OTHER = KEY | {"name": "of a user", "secret": "b3RoZXI="}
OLD, NEW = {"host": "10.0.0.1", "port": 5354}, {"host": "10.0.0.2", "port": 5354}
POOL = {"id": "pool", "name": "default", "targets": [{"type": "bind9", "masters": [NEW]}] * 2}


def zone(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "pool_id": "pool", "type": "PRIMARY", "action": "NONE", "masters": [OLD], **fields}


def run(
    path: Path, keys: list[dict[str, str]], *zones: dict[str, Any], pool: dict[str, Any] = POOL
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the program beside a central that knows these keys and zones; return what that knows then."""
    central = path / "central"
    central.write_text(json.dumps({"keys": keys, "zones": zones, "pool": {"id": "pool", "description": "first"}}))
    (path / "tsig.json").write_text(json.dumps(KEY))
    (path / "pools.json").write_text(json.dumps([pool]))
    env = {**os.environ, "PYTHONPATH": str(MODULES), "CENTRAL": str(central), "POOLS_FOLDER": str(path)}
    text = agents.text("designate/pools.py")
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, check=False)
    return done, json.loads(central.read_text())


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ([], "created"),
        ([KEY], "unchanged"),
        ([KEY | {"secret": "b2xk", "resource_id": "gone"}], "changed (resource_id, secret)"),
    ],
)
def test_central_knows_the_pool_and_the_key(tmp_path: Path, before: list[dict[str, str]], said: str) -> None:
    done, known = run(tmp_path, [OTHER, *before])
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert KEY["secret"] not in done.stdout + done.stderr
    assert known["keys"] == [OTHER, KEY]
    assert known["pool"] == {"description": "first", **POOL}


def test_zones_of_the_pool_are_transferred_from_the_present_mini_dns(tmp_path: Path) -> None:
    done, known = run(tmp_path, [], zone("a."), zone("b.", pool_id="another"))
    assert "1 changed" in done.stdout
    assert known["zones"] == [
        zone("a.", masters=[NEW], action="UPDATE"),
        zone("b.", pool_id="another"),
    ]


def test_secondary_zones_keep_their_servers_and_deleted_ones_stay_so(tmp_path: Path) -> None:
    zones = (zone("of-a-user.", type="SECONDARY"), zone("going.", action="DELETE"))
    done, known = run(tmp_path, [], *zones)
    assert "0 changed" in done.stdout
    assert known["zones"] == [*zones]


def test_a_pool_that_is_refused_fails_the_job_and_leaves_the_key(tmp_path: Path) -> None:
    done, known = run(tmp_path, [], pool={**POOL, "name": "refused"})
    assert done.returncode == 1
    assert known["keys"] == [KEY]
