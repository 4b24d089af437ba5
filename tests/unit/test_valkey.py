"""Valkey: what must hold besides its goldens."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Plan, Release, SpecError, key
from openstack_operator.services.valkey.model import VALKEY
from openstack_operator.services.valkey.service import plan
from openstack_operator.testing import context

CLUSTER = {"replicas": 3, "sentinel": {"enabled": True}}


def planned(release: Release, spec: dict[str, Any] | None = None, **changes: Any) -> Plan:
    return plan(context(VALKEY, spec, release=release, **changes))


def objects(made: Plan) -> dict[tuple[str, str], Object]:
    return {key(obj): obj for obj in made.objects}


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
def test_what_the_operator_wires_is_refused(release: Release, name: str) -> None:
    with pytest.raises(SpecError, match=rf"spec.config.{name.lower()}: the operator sets"):
        planned(release, {"config": {name: "1"}})


@pytest.mark.parametrize("config", [{"save": "900 1\nport 1"}, {"appendfsync": "no\nport 1"}, {"two words": "1"}])
def test_a_line_of_its_own_is_refused(release: Release, config: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=r"spec\.config"):
        planned(release, {"config": config})


def test_the_users_lines_win_over_defaults(release: Release) -> None:
    made = conf(planned(release, {"memoryMB": 100, "config": {"appendfsync": "always", "lazyfree-lazy-expire": True}}))
    assert (made["appendfsync"], made["maxmemory"], made["lazyfree-lazy-expire"]) == ("always", "100mb", "yes")
