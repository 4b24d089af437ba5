"""PowerDNS of the image, with the images' MariaDB and TLS proxy, as Designate's own driver commands it."""

from __future__ import annotations

import copy
import json
import os
import shlex
import subprocess
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import agents, kube, pki
from openstack_operator.plan import Object, Plan, Release, key
from openstack_operator.services.designate.model import DESIGNATE
from openstack_operator.services.designate.service import plan
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as plan_pki
from openstack_operator.testing import context, granted
from tests.unit.image_root import image_root, inside
from tests.unit.polling import TIMEOUT

# Certificates are valid for a month.
NOW = datetime.now(UTC)
ROOT, MYSQL, NAMED, USER = 0, 999, 42453, 42411
HOSTS = """127.0.0.1 localhost mariadb.openstack.svc.cluster.local other.openstack.svc.cluster.local
127.0.0.2 designate-pdns.openstack.svc.cluster.local
"""
"""The TLS proxy has an address of its own, as in a pod, where the program listens at another one."""
ZONE, CLASSLESS = "example.org.", "0/25.2.0.192.in-addr.arpa."

# Stands for mini DNS: it answers only who signs with the key.
PRIMARY = """
include "/tmp/transfer.key";
options {{
    directory "/tmp"; pid-file "/tmp/named.pid"; session-keyfile "/tmp/session.key"; managed-keys-directory "/tmp";
    listen-on port 5354 {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; notify no;
    allow-query {{ key transfer; }}; allow-transfer {{ key transfer; }}; allow-update {{ key transfer; }};
}};
controls {{ }};
zone "{0}" {{ type primary; file "zone"; }};
zone "{1}" {{ type primary; file "classless"; }};
"""
RECORDS = "$TTL 60\n@ SOA ns1.example.org. hostmaster.example.org. 1 3600 600 86400 60\n@ NS ns1.example.org.\n"

# Run in Designate's image. It reads calls of the functions below, and prints what came of each, as JSON.
CLIENT = r"""
import json, os, sys, time
import dns.message, dns.query, dns.rcode, dns.tsigkeyring, dns.update
import requests
from designate import conf, dnsutils, objects, policy
from designate.backend import get_backend
from designate.objects.adapters import DesignateAdapter

conf.CONF([], project="designate", default_config_files=[])
policy.init()
(fields,) = json.loads(open("/etc/designate/pools.json").read())
(key,) = json.loads(open("/etc/designate/tsig.json").read())
del fields["retired"]
pool = DesignateAdapter.parse("YAML", fields, objects.Pool())
(target,) = pool.targets
options = fields["targets"][0]["options"]
driver = get_backend(target)
many = [{"host": f"127.0.0.{number}", "port": 5354} for number in range(1, 33)]
keyring = dns.tsigkeyring.from_text({key["name"]: key["secret"]})


def ask(name, type_="A", port=5353, until=None):
    "The code of the answer and its number of records, as soon as they are those."
    began = time.monotonic()
    while True:
        try:
            answer = dns.query.udp(dns.message.make_query(name, type_), "127.0.0.1", port=port, timeout=2)
            found = [dns.rcode.to_text(answer.rcode()), sum(len(each) for each in answer.answer)]
        except dns.exception.Timeout:
            found = ["silent", 0]
        if until in (None, found) or time.monotonic() - began > 60:
            return [*found, round(time.monotonic() - began, 1)]
        time.sleep(0.1)


def create(name):
    driver.create_zone(None, objects.Zone(name=name))
    return dns.rcode.to_text(dnsutils.notify(name, options["host"], port=options["port"]).rcode())


def delete(name):
    driver.delete_zone(None, objects.Zone(name=name))


def add(zone, name):
    update = dns.update.Update(zone, keyring=keyring)
    update.add(name, 60, "A", "192.0.2.8")
    return dns.rcode.to_text(dns.query.tcp(update, "127.0.0.1", port=5354, timeout=10).rcode())


def notify(zone):
    return dns.rcode.to_text(dnsutils.notify(zone, options["host"], port=options["port"]).rcode())


def api(path="", token=options["api_token"], verify=os.environ["REQUESTS_CA_BUNDLE"]):
    url = options["api_endpoint"] + "/api/v1/servers/localhost/zones" + path
    return requests.get(url, headers={"X-API-Key": token}, verify=verify)


def put(*zones, masters):
    program = {"__name__": "pools"}
    exec(os.environ["POOLS"], program)
    other = {**fields["targets"][0], "masters": masters}
    for zone in zones:
        program["put_on_server"](other, zone)
    return [api("/" + program["zone_id"](zone)).json()["masters"] for zone in zones]


def transfer(zone):
    try:
        return len(list(dns.query.xfr("127.0.0.1", zone, port=5353)))
    except Exception as error:
        return type(error).__name__


for line in sys.stdin:
    try:
        answer = eval(line)
    except Exception as error:
        answer = repr(error)
    print(json.dumps(answer), flush=True)
"""

SCRIPT = r"""
ip link set lo up
for root in $ROOTS; do mount --rbind /dev "$root/dev"; mount -t proc proc "$root/proc"; done
as() { root=$1 uid=$2; shift 2; exec chroot --userspec="$uid:$uid" "$root" "$@"; }
mkfifo "$LOGS/calls" "$LOGS/answers"
exec 3<> "$LOGS/calls" 4<> "$LOGS/answers"
(as "$DESIGNATE" 42411 python3 -c "$CLIENT") <&3 >&4 2> "$LOGS/client" &
call() { echo "$1" >&3; read -r answer <&4; echo "$answer"; }
say() { echo "$1 $(call "$2")" | tee -a "$LOGS/said"; }
database() { (as "$MARIADB" 999 mariadb-start $TLS_OPTIONS) >> "$LOGS/mariadb" 2>&1 & database=$!; }
primary() { (as "$BIND9" 42453 named -g -c /tmp/named.conf) >> "$LOGS/named" 2>&1 & primary=$!; }
database
until (as "$MARIADB" 999 mariadb-admin --skip-ssl ping) > /dev/null 2>&1; do sleep 0.2; done
(as "$MARIADB" 999 sh -c 'mariadb --skip-ssl --user=root --password="$(cat /tmp/password)" < /tmp/account.sql')
primary
# An attempt that was cut off, one that ends, and one more.
schema=/usr/share/pdns-backend-mysql/schema/schema.mysql.sql
sed -n '/^CREATE TABLE comments/,/;/p' "$PDNS$schema" | (as "$PDNS" 42458 mariadb --defaults-file=/etc/pdns/my.cnf)
load() { (as "$PDNS" 42458 sh -c "$LOAD") 2>> "$LOGS/schema"; }
echo "schema $(load > /dev/null && load > /dev/null; echo $?)"
serve() { (as "$PDNS" 42458 env $PDNS_ENV $PDNS_RUN "$@") >> "$LOGS/pdns" 2>&1 & }
other="--gmysql-host=other.openstack.svc.cluster.local --guardian=no --local-port=5357 --webserver=no --api=no"
(as "$PDNS" 42458 env $PDNS_ENV timeout 60 $PDNS_RUN $other --socket-dir=/tmp) > "$LOGS/other" 2>&1
echo "other-name $(grep -c 'TLS/SSL error' "$LOGS/other")"
serve
serve --local-port=5355 --webserver-port=8082 --socket-dir=/tmp
proxy="POD_IP=127.0.0.2 TLS_FOLDER=/etc/openstack-front RUN_FOLDER=/run/front"
(as "$HAPROXY" 42454 env $proxy "CONFIG=$PROXY_CONFIG" sh -c "$PROXY_RUN") >> "$LOGS/haproxy" 2>&1 &
until [ "$(call 'api().status_code')" = 200 ]; do sleep 0.5; done
until call 'ask("example.org.", port=5355)' | grep -q REFUSED; do sleep 0.5; done
say create 'create("example.org.")'
say answered 'ask("www.example.org.", until=["NOERROR", 1])'
say other-server 'ask("www.example.org.", port=5355, until=["NOERROR", 1])'
say foreign 'ask("www.example.net.")'
say add 'add("example.org.", "after")'
say notify 'notify("example.org.")'
say changed 'ask("after.example.org.", until=["NOERROR", 1])'
say changed-on-other 'ask("after.example.org.", port=5355, until=["NOERROR", 1])'
say transfer 'transfer("example.org.")'
say wrong-key 'api(token="wrong").status_code'
say encrypted 'options["api_endpoint"]'
kill $primary; wait $primary
call 'notify("example.org.")' > /dev/null
say still-answered 'ask("after.example.org.")'
primary
until [ "$(call 'add("example.org.", "later")')" = '"NOERROR"' ]; do sleep 0.5; done
say notify-again 'notify("example.org.")'
say later 'ask("later.example.org.", until=["NOERROR", 1])'
say put 'put("example.org.", "0/25.2.0.192.in-addr.arpa.", masters=many)'
say put-again 'put("example.org.", "0/25.2.0.192.in-addr.arpa.", masters=many[:1])'
say put-answered 'ask("0/25.2.0.192.in-addr.arpa.", "NS", until=["NOERROR", 1])'
kill $database; wait $database
# An answer is remembered for a second.
sleep 3
say without-database 'ask("example.org.", "SOA")'
database
say database-again 'ask("example.org.", "SOA", until=["NOERROR", 1])'
say delete 'delete("example.org.")'
say deleted 'ask("www.example.org.", until=["REFUSED", 0])'
say deleted-on-other 'ask("www.example.org.", port=5355, until=["REFUSED", 0])'
say left '[zone["name"] for zone in api().json()]'
echo done
"""


def planned(release: Release) -> tuple[Plan, dict[str, dict[str, str]]]:
    """The plan once all addresses are known, and the data of all Secrets."""
    made = plan_pki(context(PKI, release=release, now=NOW))
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in made.objects if obj["kind"] == "Secret"}
    authority = pki.authority("authority", "authority", NOW)
    secrets["mariadb-trust"] = {"ca.crt": authority.cert, "ca.key": authority.key}
    published = {
        "MariaDB": {"host": "mariadb.openstack.svc.cluster.local", "port": "3306", "trustSecret": "mariadb-trust"},
        "RabbitMQ": {"host": "rabbitmq", "port": "5672"},
        "Memcached": {"servers": "memcached:11211"},
        "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
        "PKI": made.outcome.published,
    }
    spec = {"backend": "pdns4", "tls": {"pkiRef": {"name": "pki"}}}

    def with_objects(children: dict[tuple[str, str], Object]) -> Plan:
        draws = iter(f"drawn-{number}" for number in range(99))
        ctx = context(
            DESIGNATE,
            spec,
            release=release,
            published=published,
            secrets=secrets,
            children=children,
            now=NOW,
            draw=lambda: next(draws),
        )
        return plan(ctx)

    live = {key(obj): granted(copy.deepcopy(obj)) for obj in with_objects({}).objects}
    for obj in live.values():
        if obj["kind"] == "Service":
            obj["spec"].setdefault("clusterIP", "127.0.0.1")
    result = with_objects(live)
    secrets |= {obj["metadata"]["name"]: kube.secret_data(obj) for obj in result.objects if obj["kind"] == "Secret"}
    return result, secrets


def pods(result: Plan, kind: str, name: str) -> Object:
    """The pods of the workload of that kind whose name begins like that."""
    (template,) = [
        obj["spec"]["template"]["spec"]
        for obj in result.objects
        if obj["kind"] == kind and f"{obj['metadata']['name']}-".startswith(f"{name}-")
    ]
    return template


def put_files(root: Path, spec: Object, container: Object, secrets: Mapping[str, Mapping[str, str]]) -> None:
    """Write what the container mounts into a root, for its user alone."""
    volumes = {each["name"]: each for each in spec["volumes"]}
    user = container["securityContext"]["runAsUser"]
    for mount in container["volumeMounts"]:
        path, secret = root / mount["mountPath"].strip("/"), volumes[mount["name"]].get("secret")
        if secret is None:
            path.mkdir(parents=True, exist_ok=True)
            os.chown(path, user, user)
            continue
        data = secrets[secret["secretName"]]
        items = {each["path"]: each["key"] for each in secret.get("items", ())} or {name: name for name in data}
        for file, name in (
            {path: mount["subPath"]}.items()
            if "subPath" in mount
            else ((path / file, name) for file, name in items.items())
        ):
            put(file, data[name], user)


def put(file: Path, text: str, user: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o400)
    os.chown(file, user, user)


@pytest.fixture(name="results", scope="module")
def _results(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Any]]:
    """What each command of the script came to, by its name."""
    result, secrets = planned(release)
    logs = tmp_path_factory.mktemp("logs")
    with ExitStack() as stack:
        names = ("mariadb", "pdns", "haproxy", "bind9", "designate")
        roots = {name: stack.enter_context(image_root(name)) for name in names}
        for root in roots.values():
            (root / "etc/hosts").write_text(HOSTS)
        server = pods(result, "Deployment", "designate-pdns")
        main, front = server["containers"]
        put_files(roots["pdns"], server, main, secrets)
        put_files(roots["haproxy"], server, front, secrets)
        load = pods(result, "Job", "designate-pdns-schema")
        put_files(roots["pdns"], load, load["containers"][0], secrets)
        worker = pods(result, "Deployment", "designate-worker")
        put_files(roots["designate"], worker, worker["containers"][0], secrets)
        for name in ("pools.json", "tsig.json"):
            put(roots["designate"] / "etc/designate" / name, secrets["designate-pools"][name], USER)
        put_database(roots["mariadb"], secrets)
        put_primary(roots["bind9"], json.loads(secrets["designate-pools"]["tsig.json"])[0])
        env = {each["name"]: each.get("value", "") for each in front["env"]}
        variables = {
            "ROOTS": " ".join(map(str, roots.values())),
            **{name.upper(): str(root) for name, root in roots.items()},
            "LOGS": str(logs),
            "CLIENT": CLIENT,
            "POOLS": agents.text("designate/pools.py"),
            "TLS_OPTIONS": "--ssl-cert=/tmp/tls.crt --ssl-key=/tmp/tls.key --require-secure-transport=ON",
            "MARIADB_ROOT_PASSWORD_FILE": "/tmp/password",
            "LOAD": shlex.join(load["containers"][0]["command"]),
            "PDNS_ENV": " ".join(f"{each['name']}={each['value']}" for each in main["env"]),
            "PDNS_RUN": shlex.join(main["command"]),
            "PROXY_CONFIG": env["CONFIG"],
            "PROXY_RUN": shlex.join(front["command"]),
            **{each["name"]: each["value"] for each in worker["containers"][0]["env"] if "BUNDLE" in each["name"]},
        }
        command = ("unshare", "--net", "timeout", f"{TIMEOUT:.0f}", "sh", "-c", SCRIPT)
        with inside(Path("/"), ROOT, *command, env=variables, output=subprocess.PIPE) as process:
            assert process.stdout
            results: dict[str, Any] = {}
            for line in process.stdout:
                if line == "done\n":
                    break
                name, _, text = line.rstrip("\n").partition(" ")
                results[name] = json.loads(text)
            process.stdout.close()
        # For a test that fails.
        print({path.name: path.read_text(errors="replace")[-4000:] for path in logs.iterdir() if path.is_file()})
        yield results


def put_database(root: Path, secrets: Mapping[str, Mapping[str, str]]) -> None:
    """A certificate by the authority that clients trust, and what the resource MariaDBDatabase makes."""
    authority = pki.Pair(secrets["mariadb-trust"]["ca.key"], secrets["mariadb-trust"]["ca.crt"])
    names = frozenset({"mariadb.openstack.svc.cluster.local"})
    pair = pki.issue(authority, pki.Request(common="mariadb", names=names), "mariadb", NOW)
    password = secrets["designate-credentials"]["pdns-database"]
    account = f"CREATE DATABASE designate_pdns; CREATE USER designate_pdns@'%' IDENTIFIED BY '{password}';"
    account += "GRANT ALL PRIVILEGES ON designate_pdns.* TO designate_pdns@'%';"
    for name, text in (
        ("tls.crt", pair.cert),
        ("tls.key", pair.key),
        ("password", "of-root"),
        ("account.sql", account),
    ):
        put(root / "tmp" / name, text, MYSQL)


def put_primary(root: Path, tsig: Mapping[str, str]) -> None:
    put(root / "tmp/named.conf", PRIMARY.format(ZONE, CLASSLESS), NAMED)
    secret = f'key "{tsig["name"]}" {{ algorithm {tsig["algorithm"]}; secret "{tsig["secret"]}"; }};\n'
    put(root / "tmp/transfer.key", secret, NAMED)
    records = RECORDS
    for name, text in {"zone": f"{records}ns1 A 192.0.2.1\nwww A 192.0.2.7\n", "classless": records}.items():
        put(root / "tmp" / name, text, NAMED)
        (root / "tmp" / name).chmod(0o600)


def test_a_schema_is_completed_and_loaded_once(results: dict[str, Any]) -> None:
    assert results["schema"] == 0


def test_a_zone_that_the_driver_creates_is_answered_by_all_servers(results: dict[str, Any]) -> None:
    """The stand-in of mini DNS answers only requests that the key signs."""
    assert results["create"] == "NOERROR"
    assert results["answered"][:2] == results["other-server"][:2] == ["NOERROR", 1]
    assert results["foreign"][:2] == ["REFUSED", 0]


def test_a_change_arrives_by_a_notify_that_nobody_signed(results: dict[str, Any]) -> None:
    assert results["add"] == results["notify"] == "NOERROR"
    assert results["changed"][:2] == results["changed-on-other"][:2] == ["NOERROR", 1]


@pytest.mark.security
def test_zone_transfers_and_commands_without_a_key_are_refused(results: dict[str, Any]) -> None:
    assert results["transfer"] == "TransferError"
    assert results["wrong-key"] == 401
    assert results["encrypted"].startswith("https://designate-pdns.")


@pytest.mark.security
def test_a_server_sends_its_password_to_no_database_of_another_name(results: dict[str, Any]) -> None:
    assert results["other-name"] > 0


def test_answers_go_on_without_mini_dns_and_changes_arrive_later(results: dict[str, Any]) -> None:
    assert results["still-answered"][:2] == ["NOERROR", 1]
    assert results["later"][:2] == ["NOERROR", 1]


def test_the_job_makes_zones_known_with_the_present_mini_dns(results: dict[str, Any]) -> None:
    """One zone was there, and the other one was not; and there is room for as many pods as the spec may ask for."""
    many = [f"127.0.0.{number}:5354" for number in range(1, 33)]
    assert results["put"] == [many, many]
    assert results["put-again"] == [many[:1], many[:1]]
    assert results["put-answered"][:2] == ["NOERROR", 1]


def test_servers_answer_again_soon_after_the_database_is_back(results: dict[str, Any]) -> None:
    assert results["without-database"][0] != "NOERROR"
    assert results["database-again"][:2] == ["NOERROR", 1]


def test_a_zone_that_the_driver_deletes_is_gone_from_all_servers(results: dict[str, Any]) -> None:
    assert results["delete"] is None
    assert results["deleted"][:2] == results["deleted-on-other"][:2] == ["REFUSED", 0]
    assert results["left"] == ["0/25.2.0.192.in-addr.arpa."]
