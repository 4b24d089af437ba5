"""Designate's own central, producer, worker and mini DNS with two pools: a BIND of the plan, and a BIND of the user."""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import subprocess
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import agents, kube
from openstack_operator.plan import Object, Plan, Release, key
from openstack_operator.services.designate.model import DESIGNATE
from openstack_operator.services.designate.service import plan
from openstack_operator.testing import context, granted
from tests.unit.image_root import image_root, inside
from tests.unit.polling import TIMEOUT

ROOT, NAMED, USER = 0, 42453, 42411
OWN, OUTSIDE, MINI_DNS = "10.1.0.2", "192.0.2.53", "10.1.0.1"
CONTROL = base64.b64encode(b"commands to the BIND of the user").decode()
PUBLISHED = {
    "MariaDB": {"host": "mariadb", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq", "port": "5672"},
    "Memcached": {"servers": "memcached:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
}
POOL: dict[str, Any] = {
    "name": "outside",
    "backend": "external",
    "attributes": {"tier": "gold"},
    "nsRecords": ["ns.outside.example."],
    "external": {
        "servers": [
            {
                "address": OUTSIDE,
                "port": 5300,
                "bind9": {"port": 8953, "key": {"name": "control", "keyRef": {"name": "dns", "key": "rndc"}}},
            }
        ]
    },
}

# As the documentation has it.
NAMED_CONF = """
key "control" {{ algorithm hmac-sha256; secret "{control}"; }};
key "transfer-outside" {{ algorithm hmac-sha256; secret "{transfer}"; }};
server {mini_dns} {{ keys {{ "transfer-outside"; }}; }};
options {{
    directory "/tmp/zones"; pid-file "/tmp/named.pid"; session-keyfile "/tmp/session.key";
    managed-keys-directory "/tmp"; listen-on port 5300 {{ {address}; }}; listen-on-v6 {{ none; }};
    allow-new-zones yes; allow-transfer {{ none; }}; recursion no; dnssec-validation no; notify no;
    allow-notify {{ any; }}; min-retry-time 5; max-retry-time 15;
}};
controls {{ inet {address} port 8953 allow {{ any; }} keys {{ "control"; }}; }};
"""

# Run in Designate's image. It prints what came of each step, as JSON.
CLIENT = r"""
import eventlet
eventlet.monkey_patch()
import contextlib, io, json, os, subprocess, sys, time
import dns.message, dns.name, dns.query, dns.rcode, dns.tsigkeyring
from designate import conf, context, objects, policy, rpc, utils
conf.CONF([], project="designate", default_config_files=utils.find_config("designate.conf"))
rpc.init(conf.CONF)
policy.init()
from designate.manage.database import DatabaseCommands
from designate.central import rpcapi, service as central_service
from designate.mdns import service as mdns_service
from designate.objects.adapters import DesignateAdapter
from designate.producer import service as producer_service
from designate.worker import service as worker_service

with contextlib.redirect_stdout(sys.stderr):
    DatabaseCommands().sync()
for module in (central_service, worker_service, mdns_service, producer_service):
    module.Service().start()
user = context.DesignateContext(project_id="project", user_id="user", roles=["admin"])
user.is_admin = True
every = context.DesignateContext.get_admin_context(all_tenants=True)
central = rpcapi.CentralAPI()
servers = {"own": ("10.1.0.2", 5353), "outside": ("192.0.2.53", 5300)}


def say(name, value):
    print(json.dumps([name, value]), flush=True)


def job(order):
    "The exit code of the job's program and what it prints."
    program, output = {"__name__": "pools"}, io.StringIO()
    exec(os.environ["POOLS"], program)
    sys.argv = ["pools.py", order]
    with contextlib.redirect_stdout(output):
        code = program["main"]()
    return [code, output.getvalue()]


def files(name):
    "Use the plan's files of that name."
    for file in ("pools.json", "tsig.json"):
        with open(f"/tmp/files/{file}", "w") as stream:
            stream.write(open(f"/tmp/{name}/{file}").read())


def create(name, **attributes):
    fields = {"name": name, "email": "hostmaster@example.org", "attributes": attributes}
    try:
        zone = central.create_zone(user, DesignateAdapter.parse("API_v2", fields, objects.Zone()))
    except Exception as error:
        return type(error).__name__
    return central.get_pool(every, zone.pool_id).name


def ask(server, name, type_="SOA"):
    address, port = servers[server]
    answer = dns.query.udp(dns.message.make_query(name, type_), address, port=port, timeout=5)
    return [dns.rcode.to_text(answer.rcode()), sorted(str(each) for rrset in answer.answer for each in rrset)]


def until(function, wanted):
    began = time.monotonic()
    while (value := function()) != wanted and time.monotonic() - began < 60:
        time.sleep(0.2)
    return value


def code(server, name):
    return until(lambda: ask(server, name)[0], "NOERROR")


def find(name):
    (zone,) = central.find_zones(every, {"name": name})
    return zone


def status(name):
    return find(name).status


files("first")
say("pools", job("pools"))
say("again", job("pools"))
say("filters", conf.CONF["service:central"].scheduler_filters)
say("scheduled", [
    create("plain.example."), create("gold.example.", tier="gold"), create("named.example.", pool="outside"),
    create("inner.example.", pool="default"), create("none.example.", tier="silver"),
])
zones = {"own": ["plain.example.", "inner.example."], "outside": ["gold.example.", "named.example."]}
say("answered", {server: [code(server, zone) for zone in names] for server, names in zones.items()})
say("refused", {
    server: [ask(server, zone)[0] for zone in zones["outside" if server == "own" else "own"]] for server in servers
})
say("active", [until(lambda: status(zone), "ACTIVE") for names in zones.values() for zone in names])
say("ns", ask("outside", "gold.example.", "NS")[1])


def transfer(zone, key):
    "The code of mini DNS for who signs with that key, and whether it gave records."
    secret = {each["name"]: each["secret"] for each in json.load(open("/tmp/files/tsig.json"))}[key]
    query = dns.message.make_query(zone, "AXFR")
    query.use_tsig(dns.tsigkeyring.from_text({key: secret}), key)
    answer = dns.query.tcp(query, "10.1.0.1", port=5354, timeout=5)
    return [dns.rcode.to_text(answer.rcode()), len(answer.answer) > 0]


say("transfers", [transfer("gold.example.", "transfer-outside"), transfer("plain.example.", "transfer-outside")])


def rndc(*words, key):
    command = ("rndc", "-s", "10.1.0.2", "-p", "9953", "-k", key, *words)
    return subprocess.run(command, capture_output=True, check=False).returncode


say("rndc", [rndc("status", key=f"/tmp/keys/designate-bind9-{number}") for number in range(2)])
# A server that lost everything gets its zones again.
for zone in zones["outside"]:
    subprocess.run(
        ("rndc", "-s", "192.0.2.53", "-p", "8953", "-k", "/etc/designate/outside-rndc/server-0.key",
         "delzone", "-clean", zone), check=True, capture_output=True,
    )
say("lost", [until(lambda: ask("outside", zone)[0], "REFUSED") for zone in zones["outside"]])
say("zones", job("zones"))
say("brought", [code("outside", zone) for zone in zones["outside"]])
files("retired")
say("retired-pools", job("pools"))
say("retired", job("retired"))
say("not-scheduled", [create("late.example.", tier="gold"), create("late.example.")])
say("still-answered", [ask("outside", zone)[0] for zone in zones["outside"]])
for zone in zones["outside"]:
    central.delete_zone(every, find(zone).id)


def left():
    return [zone.name for zone in central.find_zones(every) if zone.name in zones["outside"]]


say("deleted", [until(lambda: ask("outside", zone)[0], "REFUSED") for zone in zones["outside"]])
say("left", until(left, []))
say("forgotten", job("retired"))
say("pools-then", sorted(pool.name for pool in central.find_pools(every)))
say("keys-then", sorted(each.name for each in central.find_tsigkeys(every)))
say("retired-again", job("pools"))
say("own", [ask("own", zone)[0] for zone in zones["own"]])
"""

SCRIPT = r"""
ip link set lo up
for address in 10.1.0.1 10.1.0.2 192.0.2.53; do ip address add "$address/32" dev lo; done
for root in $ROOTS; do mount --rbind /dev "$root/dev"; mount -t proc proc "$root/proc"; done
as() { root=$1 uid=$2; shift 2; exec chroot --userspec="$uid:$uid" "$root" "$@"; }
(as "$OWN" 42453 $NAMED_RUN) > "$LOGS/own" 2>&1 &
(as "$OUTSIDE" 42453 named -g -c /tmp/named.conf) > "$LOGS/outside" 2>&1 &
(as "$DESIGNATE" 42411 env EVENTLET_NO_GREENDNS=yes POOLS_FOLDER=/tmp/files python3 -c "$CLIENT") 2> "$LOGS/designate"
echo done
"""


def planned(release: Release, **spec: Any) -> tuple[Plan, dict[str, dict[str, str]]]:
    """The plan once all addresses are known, and the data of all Secrets."""

    def made(children: dict[tuple[str, str], Object]) -> Plan:
        draws = iter(f"drawn-{number}" for number in range(99))
        secrets = {"dns": {"rndc": CONTROL}}
        return plan(
            context(
                DESIGNATE,
                copy.deepcopy(spec),
                release=release,
                published=PUBLISHED,
                secrets=secrets,
                children=children,
                draw=lambda: next(draws),
            )
        )

    live = {key(obj): granted(copy.deepcopy(obj)) for obj in made({}).objects}
    for (kind, name), obj in live.items():
        if kind == "Service":
            obj["spec"].setdefault("clusterIP", MINI_DNS if "mdns" in name else OWN)
    result = made(live)
    return result, {obj["metadata"]["name"]: kube.secret_data(obj) for obj in result.objects if obj["kind"] == "Secret"}


def put(file: Path, text: str, user: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    for each in (file, file.parent):
        os.chown(each, user, user)
    file.chmod(0o400)


def put_server(root: Path, pod: Object, secrets: Mapping[str, Mapping[str, str]]) -> None:
    """What the first pod of the plan's BIND mounts."""
    volumes = {each["name"]: each.get("secret", {}).get("secretName", "") for each in pod["volumes"]}
    (container,) = pod["containers"]
    for mount in container["volumeMounts"]:
        path, secret = root / mount["mountPath"].strip("/"), volumes.get(mount["name"], "")
        if secret:
            name = mount.get("subPath") or mount["subPathExpr"].replace("$(POD_NAME)", "designate-bind9-0")
            put(path, secrets[secret][name], NAMED)
        else:
            path.mkdir(parents=True, exist_ok=True)
            os.chown(path, NAMED, NAMED)


@pytest.fixture(name="results", scope="module")
def _results(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Any]]:
    """What each step of the client came to, by its name."""
    result, secrets = planned(release, pools=[POOL])
    _, retired = planned(release, pools=[{**POOL, "retired": True}])
    _, two = planned(release, pools=[POOL], bind9={"replicas": 2})
    logs = tmp_path_factory.mktemp("logs")
    with ExitStack() as stack:
        own, outside = (stack.enter_context(image_root("bind9")) for _ in range(2))
        designate = stack.enter_context(image_root("designate"))
        (pod,) = [
            obj["spec"]["template"]["spec"]
            for obj in result.objects
            if obj["kind"] == "StatefulSet" and obj["metadata"]["name"] == "designate-bind9"
        ]
        put_server(own, pod, secrets)
        signatures = {each["name"]: each["secret"] for each in json.loads(secrets["designate-pools"]["tsig.json"])}
        text = NAMED_CONF.format(
            control=CONTROL, transfer=signatures["transfer-outside"], mini_dns=MINI_DNS, address=OUTSIDE
        )
        put(outside / "tmp/named.conf", text, NAMED)
        (outside / "tmp/zones").mkdir()
        os.chown(outside / "tmp/zones", NAMED, NAMED)
        options = secrets["designate-config"]["designate.conf"]
        # One process in place of a broker and a database.
        options = re.sub(r"(?m)^transport_url = .*$", "transport_url = fake://", options)
        options = re.sub(r"(?m)^connection = .*$", "connection = sqlite:////tmp/state/designate.sqlite", options)
        put(designate / "etc/designate/designate.conf", options, USER)
        put(designate / "tmp/state/empty", "", USER)
        put(designate / "tmp/files/empty", "", USER)
        for name, files in (("first", secrets), ("retired", retired)):
            for file in ("pools.json", "tsig.json"):
                put(designate / "tmp" / name / file, files["designate-pools"][file], USER)
        for name in ("rndc", "outside-rndc"):
            for file, text in secrets[f"designate-{name}"].items():
                put(designate / "etc/designate" / name / file, text, USER)
        for file, text in two["designate-rndc"].items():
            put(designate / "tmp/keys" / file, text, USER)
        variables = {
            "ROOTS": f"{own} {outside} {designate}",
            "OWN": str(own),
            "OUTSIDE": str(outside),
            "DESIGNATE": str(designate),
            "LOGS": str(logs),
            "CLIENT": CLIENT,
            "POOLS": agents.text("designate/pools.py"),
            "NAMED_RUN": " ".join(pod["containers"][0]["command"]),
        }
        command = ("unshare", "--net", "timeout", f"{TIMEOUT:.0f}", "sh", "-c", SCRIPT)
        results: dict[str, Any] = {}
        with inside(Path("/"), ROOT, *command, env=variables, output=subprocess.PIPE) as process:
            assert process.stdout
            for line in process.stdout:
                if line == "done\n":
                    break
                name, value = json.loads(line)
                results[name] = value
            process.stdout.close()
        # For a test that fails.
        print({path.name: path.read_text(errors="replace")[-4000:] for path in logs.iterdir() if path.is_file()})
        print(results)
        yield results


def test_central_learns_all_pools_and_their_keys(results: dict[str, Any]) -> None:
    code, text = results["pools"]
    assert code == 0
    assert "pool outside: created, 1 targets" in text
    assert "key of transfers transfer-outside: created" in text
    code, text = results["again"]
    assert code == 0
    assert "created" not in text


def test_zones_are_where_their_attributes_say(results: dict[str, Any]) -> None:
    assert results["scheduled"] == ["default", "outside", "outside", "default", "NoValidPoolFound"]
    assert results["active"] == ["ACTIVE"] * 4


def test_the_servers_of_a_pool_alone_answer_for_its_zones(results: dict[str, Any]) -> None:
    assert results["answered"] == {"own": ["NOERROR"] * 2, "outside": ["NOERROR"] * 2}
    assert results["refused"] == {"own": ["REFUSED"] * 2, "outside": ["REFUSED"] * 2}
    assert results["ns"] == ["ns.outside.example."]


@pytest.mark.security
def test_servers_of_a_pool_read_no_zone_of_another_one(results: dict[str, Any]) -> None:
    assert results["transfers"] == [["NOERROR", True], ["REFUSED", False]]


@pytest.mark.security
def test_a_server_obeys_its_own_key_alone(results: dict[str, Any]) -> None:
    own, other = results["rndc"]
    assert own == 0
    assert other != 0


def test_a_server_that_lost_its_zones_gets_them_by_the_job(results: dict[str, Any]) -> None:
    assert results["lost"] == ["REFUSED"] * 2
    assert results["zones"][0] == 0
    assert results["brought"] == ["NOERROR"] * 2


def test_a_retired_pool_keeps_its_zones_and_gets_no_more(results: dict[str, Any]) -> None:
    code, text = results["retired"]
    assert code == 1
    assert "pool 'outside' is retired, and has zones (2): gold.example., named.example.;" in text
    assert results["not-scheduled"] == ["NoValidPoolFound", "default"]
    assert results["still-answered"] == ["NOERROR"] * 2


def test_a_retired_pool_without_zones_is_forgotten(results: dict[str, Any]) -> None:
    assert results["deleted"] == ["REFUSED"] * 2
    assert results["left"] == []
    assert results["forgotten"] == [0, "pool outside: forgotten\n\n"]
    assert results["pools-then"] == ["default"]
    assert results["keys-then"] == ["transfer"]
    assert "pool outside: retired" in results["retired-again"][1]
    assert results["own"] == ["NOERROR"] * 2
