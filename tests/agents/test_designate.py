"""The jobs that tell central of the pool and bring servers their zones, as the plan runs them."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from openstack_operator import agents
from openstack_operator.services.designate.config import server_pools
from openstack_operator.services.designate.model import DesignateSpec

MODULES = Path(__file__).parent / "modules_of_designate"
KEY = {"name": "transfer", "algorithm": "hmac-sha256", "secret": "bmV3", "scope": "POOL", "resource_id": "a pool"}
OTHER = KEY | {"name": "of a user", "secret": "b3RoZXI=", "resource_id": "another pool"}
OLD, NEW = {"host": "10.0.0.1", "port": 5354}, {"host": "10.0.0.2", "port": 5354}
ID = "794ccc2c-d751-44fe-b57f-8894c9f5c842"
FURTHER = server_pools(DesignateSpec.model_validate({"pools": [{"name": "further"}]}))[1].id
POOL = {"id": ID, "name": "default", "targets": [{"type": "bind9", "masters": [NEW]}] * 2, "retired": False}
SECOND = {**POOL, "id": FURTHER, "name": "further"}


def zone(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"id of {name}",
        "name": name,
        "pool_id": ID,
        "type": "PRIMARY",
        "action": "NONE",
        "masters": [OLD],
        **fields,
    }


def run(
    path: Path,
    order: str,
    keys: Sequence[dict[str, str]] = (),
    *zones: dict[str, Any],
    pools: Sequence[dict[str, Any]] = (POOL,),
    known: Sequence[dict[str, Any]] = (),
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the program beside a central that knows these keys and zones; return what that knows then."""
    central = path / "central"
    stored = [{"id": ID, "name": "default", "description": "first"}, *known]
    central.write_text(json.dumps({"keys": [*keys], "zones": zones, "pools": stored}))
    (path / "tsig.json").write_text(json.dumps([KEY]))
    (path / "pools.json").write_text(json.dumps(pools))
    env = {**os.environ, "PYTHONPATH": str(MODULES), "CENTRAL": str(central), "POOLS_FOLDER": str(path)}
    text = agents.text("designate/pools.py")
    done = subprocess.run([sys.executable, "-c", text, order], env=env, capture_output=True, text=True, check=False)
    return done, json.loads(central.read_text())


def stored(pool: dict[str, Any]) -> dict[str, Any]:
    """What central stores of an entry of the file."""
    return {name: value for name, value in pool.items() if name != "retired"}


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ([], "created"),
        ([KEY], "unchanged"),
        ([KEY | {"secret": "b2xk", "algorithm": "hmac-sha1"}], "changed (algorithm, secret)"),
    ],
)
def test_central_knows_the_pool_and_the_key(tmp_path: Path, before: list[dict[str, str]], said: str) -> None:
    done, known = run(tmp_path, "pools", [OTHER, *before])
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert KEY["secret"] not in done.stdout + done.stderr
    assert known["keys"] == [OTHER, KEY]
    assert known["pools"] == [{"description": "first", **stored(POOL)}]


def test_a_key_that_has_another_name_now_is_removed(tmp_path: Path) -> None:
    of_a_zone = KEY | {"name": "of a zone", "scope": "ZONE"}
    done, known = run(tmp_path, "pools", [KEY | {"name": "before"}, OTHER, of_a_zone])
    assert done.returncode == 0, done.stderr
    assert "key of transfers before: removed" in done.stdout
    assert known["keys"] == [OTHER, of_a_zone, KEY]


@pytest.mark.parametrize("fields", [{"resource_id": "another"}, {"scope": "ZONE"}], ids=["pool", "zone"])
def test_a_key_of_another_pool_is_not_taken(tmp_path: Path, fields: dict[str, str]) -> None:
    before = KEY | fields | {"secret": "b2xk"}
    done, known = run(tmp_path, "pools", [before])
    assert done.returncode == 1
    assert "a key named transfer already belongs to another pool or zone" in done.stderr
    assert known["keys"] == [before]
    assert KEY["secret"] not in done.stdout + done.stderr


def test_a_further_pool_is_created_once(tmp_path: Path) -> None:
    done, known = run(tmp_path, "pools", pools=[POOL, SECOND])
    assert "pool further: created" in done.stdout, done.stderr
    assert known["pools"][1] == stored(SECOND)
    done, known = run(tmp_path, "pools", pools=[POOL, SECOND], known=[{"id": FURTHER, "name": "further"}])
    assert "created" not in done.stdout.replace("transfer: created", "")
    assert known["pools"][1] == stored(SECOND)


RETIRED = {**SECOND, "retired": True}
OF_FURTHER = KEY | {"name": "transfer-further", "resource_id": FURTHER}


@pytest.mark.parametrize("pools", [[POOL, RETIRED], [POOL]])
def test_a_pool_with_zones_is_not_forgotten(tmp_path: Path, pools: list[dict[str, Any]]) -> None:
    zones = [zone(name, pool_id=FURTHER) for name in ("d.", "c.", "b.", "a.")]
    zones[0]["action"] = "DELETE"
    done, known = run(tmp_path, "retired", [OF_FURTHER], *zones, pools=pools, known=[stored(SECOND)])
    assert done.returncode == 1
    assert "has zones (4): a., b., c. and others" in done.stdout
    assert len(known["pools"]) == 2
    assert known["keys"] == [OF_FURTHER]
    assert known["zones"] == zones


def test_a_retired_pool_without_zones_is_forgotten_with_its_key(tmp_path: Path) -> None:
    others = {"id": "5a2b1c7e-9c55-4b5b-9d42-000000000000", "name": "by hand"}
    zones = (zone("a."), zone("b.", pool_id=others["id"]))
    done, known = run(
        tmp_path, "retired", [KEY, OF_FURTHER], *zones, pools=[POOL, RETIRED], known=[stored(SECOND), others]
    )
    assert done.returncode == 0, done.stderr
    assert [each["name"] for each in known["pools"]] == ["default", "by hand"]
    assert known["keys"] == [KEY]
    done, known = run(tmp_path, "pools", pools=[POOL, RETIRED])
    assert "pool further: retired" in done.stdout
    assert [each["name"] for each in known["pools"]] == ["default"]


def test_a_pool_in_use_stays(tmp_path: Path) -> None:
    done, known = run(tmp_path, "retired", pools=[POOL, SECOND], known=[stored(SECOND)])
    assert done.returncode == 0
    assert [each["name"] for each in known["pools"]] == ["default", "further"]


def test_zones_of_the_pool_are_transferred_from_the_present_mini_dns(tmp_path: Path) -> None:
    done, known = run(tmp_path, "zones", [], zone("a."), zone("b.", pool_id="another"))
    assert "1 changed" in done.stdout
    assert known["zones"] == [
        zone("a.", masters=[NEW], action="UPDATE"),
        zone("b.", pool_id="another"),
    ]


def test_secondary_zones_keep_their_servers_and_deleted_ones_stay_so(tmp_path: Path) -> None:
    zones = (zone("of-a-user.", type="SECONDARY"), zone("going.", action="DELETE"))
    done, known = run(tmp_path, "zones", [], *zones)
    assert "0 changed" in done.stdout
    assert known["zones"] == [*zones]


def test_a_zone_that_is_deleted_meanwhile_does_not_come_back(tmp_path: Path) -> None:
    with power_dns() as server:
        done, _ = run(tmp_path, "zones", [], zone("gone."), zone("a."), pools=[server.pool])
    assert "1 changed" in done.stdout, done.stderr
    assert [each["name"] for each in server.zones.values()] == ["a."]


def test_a_pool_that_is_refused_fails_the_job_and_leaves_the_key(tmp_path: Path) -> None:
    done, known = run(tmp_path, "pools", pools=[{**POOL, "name": "refused"}])
    assert done.returncode == 1
    assert known["keys"] == [KEY]


def test_the_first_order_changes_no_zone(tmp_path: Path) -> None:
    """Workers still have the pool before, and would bring a new server nothing."""
    _, known = run(tmp_path, "pools", [], zone("a."))
    assert known["zones"] == [zone("a.")]


class Server(ThreadingHTTPServer):
    """The API of a PowerDNS."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Api)
        self.zones: dict[str, Any] = {}
        self.key = "of the API"
        self.refused = ""

    @property
    def pool(self) -> dict[str, Any]:
        options = {"api_endpoint": f"http://127.0.0.1:{self.server_port}", "api_token": "of the API"}
        target = {"type": "pdns4", "masters": [NEW], "options": {**options, "tsigkey_name": "transfer"}}
        return {**POOL, "targets": [target]}


class Api(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def put(self, name: str, found: int, missing: int) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, Server)
        if self.headers["X-API-Key"] != self.server.key:
            return self.answer(401)
        if body["name"] == self.server.refused:
            return self.answer(422)
        if name in self.server.zones or self.command == "POST":
            self.server.zones[name] = body
            return self.answer(found)
        return self.answer(missing)

    def do_PUT(self) -> None:
        self.put(self.path.removeprefix("/api/v1/servers/localhost/zones/"), 204, 404)

    def do_POST(self) -> None:
        assert self.path == "/api/v1/servers/localhost/zones"
        self.put("new", 201, 201)


@contextmanager
def power_dns() -> Generator[Server]:
    with Server() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_power_dns_knows_each_zone_with_the_present_mini_dns(tmp_path: Path) -> None:
    with power_dns() as server:
        server.zones["0=2F25.2.0.192.in-addr.arpa."] = {}
        zones = (zone("0/25.2.0.192.in-addr.arpa."), zone("lost."), zone("of-a-user.", type="SECONDARY"))
        done, known = run(tmp_path, "zones", [], *zones, pools=[server.pool])
        assert done.returncode == 0, done.stderr
        body = {"kind": "Slave", "masters": ["10.0.0.2:5354"], "slave_tsig_key_ids": ["transfer"]}
        assert server.zones == {
            "0=2F25.2.0.192.in-addr.arpa.": {"name": "0/25.2.0.192.in-addr.arpa.", **body},
            "new": {"name": "lost.", **body},
        }
        assert [each["action"] for each in known["zones"]] == ["UPDATE", "UPDATE", "NONE"]


def test_addresses_of_ipv6_are_in_brackets(tmp_path: Path) -> None:
    with power_dns() as server:
        pool = copy.deepcopy(server.pool)
        pool["targets"][0]["masters"] = [{"host": "2001:db8::1", "port": 5354}, NEW]
        done, _ = run(tmp_path, "zones", [], zone("a."), pools=[pool])
        assert done.returncode == 0, done.stderr
        assert server.zones["new"]["masters"] == ["[2001:db8::1]:5354", "10.0.0.2:5354"]


def test_a_server_that_refuses_fails_the_job_and_hides_its_key(tmp_path: Path) -> None:
    with power_dns() as server:
        server.refused = "a."
        done, _ = run(tmp_path, "zones", [], zone("a."), pools=[server.pool])
        assert done.returncode == 1
        assert "422" in done.stderr
        server.key = "another"
        done, _ = run(tmp_path, "zones", [], zone("a."), pools=[server.pool])
        assert done.returncode == 1
        assert "401" in done.stderr
        assert "of the API" not in done.stdout + done.stderr
