"""Valkey: what must hold besides its goldens."""

from __future__ import annotations

import re
import socket
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Plan, Release, SpecError
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as authority
from openstack_operator.services.valkey.model import VALKEY
from openstack_operator.services.valkey.service import plan
from openstack_operator.testing import context, granted
from tests.planning import objects, planner

CLUSTER = {"replicas": 3, "sentinel": {"enabled": True}}


planned = planner(plan, VALKEY)


def conf(made: Plan) -> dict[str, str]:
    text = kube.secret_data(objects(made)["Secret", "valkey-config"])["valkey.conf"]
    return dict(line.split(" ", 1) for line in text.splitlines())


def containers(made: Plan) -> dict[str, Object]:
    pod = objects(made)["StatefulSet", "valkey-server"]["spec"]["template"]["spec"]
    return {container["name"]: container for container in pod["containers"]}


def test_a_sentinel_runs_beside_each_server(release: Release) -> None:
    assert set(containers(planned(release))) == {"main"}
    made = planned(release, CLUSTER)
    assert set(containers(made)) == {"main", "sentinel"}
    env = {entry["name"]: entry.get("value", "") for entry in containers(made)["sentinel"]["env"]}
    assert env["VALKEY_QUORUM"] == "2"
    assert len(env["VALKEY_HOSTS"].split()) == 3
    assert made.outcome.published["sentinels"].split(",") == [
        f"valkey-server-{ordinal}.valkey-members.openstack.svc.cluster.local:26379" for ordinal in range(3)
    ]
    assert planned(release).outcome.published["sentinels"] == ""


def test_a_primary_without_copies_takes_no_writes(release: Release) -> None:
    assert conf(planned(release, CLUSTER))["min-replicas-to-write"] == "1"
    assert "min-replicas-to-write" not in conf(planned(release))


def test_no_password_stands_outside_secrets(release: Release) -> None:
    made = planned(release, CLUSTER, draw=lambda: "s3cr3t-" * 5)
    assert conf(made)["requirepass"] == conf(made)["primaryauth"] == "s3cr3t-" * 5
    assert not [name for name, obj in objects(made).items() if obj["kind"] != "Secret" and "s3cr3t" in str(obj)]
    assert "s3cr3t" not in str(made.outcome)


@pytest.mark.parametrize("name", ["port", "requirepass", "Replicaof", "min-replicas-to-write", "rename-command"])
def test_wired_options_are_refused(release: Release, name: str) -> None:
    with pytest.raises(SpecError, match=rf"spec.config.{name.lower()}: the operator sets"):
        planned(release, {"config": {name: "1"}})


@pytest.mark.parametrize(
    "config", [{"save": "900 1\nport 1"}, {"save": "900 1\rport 1"}, {"appendfsync": "no\nport 1"}, {"two words": "1"}]
)
def test_a_line_of_its_own_is_refused(release: Release, config: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=r"spec\.config"):
        planned(release, {"config": config})


def test_the_users_lines_win_over_defaults(release: Release) -> None:
    made = conf(
        planned(release, {"memory": "100Mi", "config": {"appendfsync": "always", "lazyfree-lazy-expire": True}})
    )
    assert (made["appendfsync"], made["maxmemory"], made["lazyfree-lazy-expire"]) == ("always", "100mb", "yes")


def encrypted(release: Release, *, live: Plan | None = None, rolling: bool = False, **tls: Any) -> Plan:
    """Three servers with a certificate; `live` is what is there, and whether its pods are still replaced."""
    made = authority(context(PKI, release=release))
    children = {k: granted(obj) for k, obj in objects(live).items()} if live else {}
    if rolling:
        children["StatefulSet", "valkey-server"]["status"]["currentRevision"] = "before"
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in made.objects}
    spec = {**CLUSTER, "tls": {"pkiRef": {"name": "pki"}, **tls}}
    return planned(release, spec, published={"PKI": made.outcome.published}, secrets=secrets, children=children)


def env(made: Plan) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in containers(made)["sentinel"]["env"]}


def test_a_new_set_speaks_tls_from_the_start(release: Release) -> None:
    made = encrypted(release)
    assert {"port", "tls-port", "tls-replication"} <= conf(made).keys()
    assert (conf(made)["port"], conf(made)["tls-port"], conf(made)["tls-auth-clients"]) == ("6379", "6380", "no")
    assert env(made)["FLAGS"] == "--tls --cacert /etc/valkey/tls/ca.crt"
    assert (env(made)["SERVER_PORT"], env(made)["SENTINEL_PORT"]) == ("6380", "26380")
    assert {"port 26379", "tls-port 26380", "tls-replication yes"} <= set(env(made)["SENTINEL_CONF"].splitlines())
    published = made.outcome.published
    assert (published["port"], published["trustSecret"]) == ("6380", "pki-bundle")
    assert all(each.endswith(":26380") for each in published["sentinels"].split(","))


def test_running_servers_change_to_tls_in_compatible_steps(release: Release) -> None:
    """Required from the first moment, which must not shut out those that were not replaced yet."""
    plain = planned(release, CLUSTER)
    both = encrypted(release, live=plain, required=True)
    assert (conf(both)["port"], conf(both)["tls-port"]) == ("6379", "6380")
    assert "tls-replication" not in conf(both)
    assert "FLAGS" not in env(both)
    assert both.outcome.published["port"] == "6379"
    moved = encrypted(release, live=both, required=True)
    assert (conf(moved)["port"], conf(moved)["tls-replication"]) == ("6379", "yes")
    assert conf(encrypted(release, live=moved, rolling=True, required=True)) == conf(moved)
    closed = encrypted(release, live=moved, required=True)
    assert (conf(closed)["port"], conf(closed)["tls-replication"]) == ("0", "yes")
    assert "port 0\n" in env(closed)["SENTINEL_CONF"]
    assert {port["port"] for port in objects(closed)["Service", "valkey"]["spec"]["ports"]} == {6380, 26380}
    assert conf(encrypted(release, live=closed, rolling=True, required=True)) == conf(closed)


def test_no_probe_begins_a_handshake(release: Release, tmp_path: Path) -> None:
    """One that is not finished is a line in its log."""
    moved = encrypted(release, live=encrypted(release, live=planned(release, CLUSTER), required=True), required=True)
    assert containers(moved)["main"]["livenessProbe"]["tcpSocket"] == {"port": 6379}
    assert containers(moved)["sentinel"]["readinessProbe"]["tcpSocket"] == {"port": 26379}
    closed = encrypted(release, live=moved, required=True)
    server, sentinel = containers(closed)["main"], containers(closed)["sentinel"]
    assert sentinel["readinessProbe"]["exec"] == sentinel["livenessProbe"]["exec"]
    [path] = re.findall(r"^unixsocket (.*)$", env(closed)["SENTINEL_CONF"], re.MULTILINE)
    for container, at in ((server, conf(closed)["unixsocket"]), (sentinel, path)):
        command = container["livenessProbe"]["exec"]["command"]
        assert any(at.startswith(f"{mount['mountPath']}/") for mount in container["volumeMounts"])
        here = [word.replace(f"'{at}'", f"'{tmp_path}/socket'") for word in command]
        assert here != command
        with closing(socket.socket(socket.AF_UNIX)) as listening:
            listening.bind(f"{tmp_path}/socket")
            listening.listen()
            # The kernel answers for who does not.
            assert subprocess.run(here, check=False).returncode == 0
        assert subprocess.run(here, check=False).returncode == 1
        (tmp_path / "socket").unlink()


def test_certificate_paths_cannot_be_set(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec\.config\.tls-replication"):
        planned(release, {"config": {"tls-replication": "no"}})
