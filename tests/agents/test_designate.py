"""The job that tells central of the pool and the key of transfers, as the plan runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openstack_operator import agents

MODULES = Path(__file__).parent / "modules_of_designate"
KEY = {"name": "transfer", "algorithm": "hmac-sha256", "secret": "bmV3", "scope": "POOL", "resource_id": "pool"}
OTHER = KEY | {"name": "of a user", "secret": "b3RoZXI="}


def run(path: Path, keys: list[dict[str, str]], status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the program beside a `designate-manage` that ends with this status; central knows these keys."""
    (path / "keys").write_text(json.dumps(keys))
    (path / "tsig.json").write_text(json.dumps(KEY))
    program = path / "designate-manage"
    program.write_text(f'#!/bin/sh\necho "$*" > {path}/calls\nexit {status}\n')
    program.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{path}:{os.environ['PATH']}",
        "PYTHONPATH": str(MODULES),
        "KEYS": str(path / "keys"),
        "POOLS_FOLDER": str(path),
    }
    text = agents.text("designate/pools.py")
    return subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ([], "created"),
        ([KEY], "unchanged"),
        ([KEY | {"secret": "b2xk", "resource_id": "gone"}], "changed (resource_id, secret)"),
    ],
)
def test_central_knows_the_pool_and_the_key(tmp_path: Path, before: list[dict[str, str]], said: str) -> None:
    done = run(tmp_path, [OTHER, *before])
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert KEY["secret"] not in done.stdout + done.stderr
    assert json.loads((tmp_path / "keys").read_text()) == [OTHER, KEY]
    assert (tmp_path / "calls").read_text() == f"pool update --file {tmp_path}/pools.json\n"


def test_a_pool_that_is_refused_fails_the_job(tmp_path: Path) -> None:
    done = run(tmp_path, [], 1)
    assert done.returncode == 1
    assert json.loads((tmp_path / "keys").read_text()) == []
