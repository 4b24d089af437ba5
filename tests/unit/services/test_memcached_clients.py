"""Who may use a Memcached with TLS: clients that show a certificate, demanded once all of them have it."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from openstack_operator import pki
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import secret_data
from openstack_operator.parts.secrets.rotation import read_by
from openstack_operator.plan import Context, Object, Plan, Release
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan as keystone
from openstack_operator.services.memcached.clients import awaits_clients
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.memcached.service import plan
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as authority
from openstack_operator.services.placement.model import PLACEMENT
from openstack_operator.services.placement.service import plan as placement
from openstack_operator.testing import NOW, context, granted
from tests.planning import objects

SERVERS = "memcached-server-0.memcached.openstack.svc.cluster.local:11212"
CLIENT = "memcached-client-tls"
DEMANDED = "ssl_ca_cert=/etc/memcached/tls/ca.crt,ssl_verify_mode=2"


def asked(release: Release, tls: dict[str, Any] | None = None, **changes: Any) -> Context[Any]:
    """A Memcached with a certificate by a PKI."""
    made = authority(context(PKI, release=release))
    secrets = {obj["metadata"]["name"]: secret_data(obj) for obj in made.objects}
    spec = {"tls": {"pkiRef": {"name": "pki"}, **(tls or {})}}
    return context(
        MEMCACHED, spec, release=release, published={"PKI": made.outcome.published}, secrets=secrets, **changes
    )


def command(plan: Plan) -> str:
    (main,) = objects(plan)["StatefulSet", "memcached-server"]["spec"]["template"]["spec"]["containers"]
    return " ".join(main["command"])


def running(plan: Plan) -> dict[tuple[str, str], Object]:
    return {k: granted(obj) for k, obj in objects(plan).items()}


def config(name: str, text: str) -> Object:
    data = {"service.conf": base64.b64encode(text.encode()).decode()}
    return {"metadata": {"name": name}, "data": data}


def pod(name: str, *secrets: str, phase: str = "Running") -> Object:
    volumes = [{"name": each, "secret": {"secretName": each}} for each in secrets]
    return {"metadata": {"name": name}, "spec": {"volumes": volumes, "containers": []}, "status": {"phase": phase}}


def facts(*pods: Object) -> dict[str, Any]:
    told = config("placement-config", f"[keystone_authtoken]\nmemcached_servers = {SERVERS}\n")
    other = config(
        "other-config", "[cache]\nmemcache_servers = memcached-server-0.other.openstack.svc.cluster.local:1\n"
    )
    return {"secrets": [told, other], "pods": list(pods)}


@pytest.mark.security
def test_a_new_memcached_takes_nobody_without_a_certificate(release: Release) -> None:
    made = plan(asked(release, {"required": True}))
    assert DEMANDED in command(made)
    assert made.outcome.published["clientSecret"] == CLIENT


def test_optional_tls_needs_no_client_certificate(release: Release) -> None:
    """Clients have one all the same, so that they need not roll once TLS is required."""
    made = plan(asked(release))
    assert "ssl_verify_mode" not in command(made)
    assert made.outcome.published["clientSecret"] == CLIENT
    assert not awaits_clients(asked(release))


@pytest.mark.security
def test_no_client_can_pose_as_a_server(release: Release) -> None:
    """All clients share the key, and check the names of servers."""
    data = secret_data(objects(plan(asked(release)))["Secret", CLIENT])
    pair = pki.Pair(data["tls.key"], data["tls.crt"])
    assert pki.calls(pair.cert)
    for name in ("memcached", "memcached.openstack.svc.cluster.local", "*.memcached.openstack.svc.cluster.local"):
        wanted = pki.Request(common="", names=frozenset({name}))
        assert pki.fault(pair, wanted, NOW, authorities=[data["ca.crt"]]) == f"lacks {name}"


def test_servers_that_run_demand_a_certificate_once_all_clients_have_one(release: Release) -> None:
    tls = {"required": True}
    children = running(plan(asked(release)))
    before = asked(release, tls, children=children)
    assert awaits_clients(before)

    first = plan(before)
    assert "ssl_verify_mode" not in command(first), "nobody has said who the clients are"
    assert first.outcome.published["clientSecret"] == CLIENT, "clients are told first"

    late = pod("placement-api-1", "placement-config", "pki-bundle")
    rolled = pod("placement-api-2", "placement-config", "pki-bundle", CLIENT)
    waiting = plan(asked(release, tls, children=children, facts=facts(late, rolled)))
    assert "ssl_verify_mode" not in command(waiting)
    verdict = next(step.verdict for step in waiting if step.name == "Clients")
    assert verdict
    assert verdict.ready
    assert verdict.message.endswith("clients without one: Pod/placement-api-1")
    assert waiting.outcome.wake == NOW + timedelta(seconds=15)

    over = plan(asked(release, tls, children=children, facts=facts(rolled)))
    assert DEMANDED in command(over)

    later = asked(release, tls, children=running(over), facts=facts(late, rolled))
    assert not awaits_clients(later)
    assert DEMANDED in command(plan(later)), "it stays, whoever comes without"


def test_only_clients_that_run_are_waited_for(release: Release) -> None:
    children = running(plan(asked(release)))
    others = [
        pod("other-api", "other-config"),
        pod("mariadb-server-0", "mariadb-config", "pki-bundle"),
        pod("placement-db-sync", "placement-config", phase="Succeeded"),
    ]
    made = plan(asked(release, {"required": True}, children=children, facts=facts(*others)))
    assert DEMANDED in command(made)


def test_a_certificate_of_the_users_own_is_for_servers_alone(release: Release) -> None:
    """Nobody but its owner can make one for clients by the same authority."""
    by = pki.authority("theirs", "theirs", NOW - timedelta(days=1))
    names = frozenset({"memcached.openstack.svc.cluster.local", "*.memcached.openstack.svc.cluster.local"})
    pair = pki.issue(by, pki.Request(common="memcached", names=names), "drawn", NOW - timedelta(days=1))
    files = {"ca.crt": by.cert, "tls.crt": pair.cert, "tls.key": pair.key}
    spec = {"tls": {"secretRef": {"name": "mine"}, "required": True}}
    ctx = context(MEMCACHED, spec, release=release, secrets={"mine": files})
    assert not awaits_clients(ctx)
    made = plan(ctx)
    assert made.outcome.published.keys() == {"servers", "trustSecret"}
    assert "ssl_verify_mode" not in command(made)


CALLED = {
    "MariaDB": {"host": "db", "port": "3306"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
    "Memcached": {"servers": "m:11212", "trustSecret": "pki-bundle", "clientSecret": CLIENT},
}


def test_cache_clients_show_their_certificate(release: Release) -> None:
    secrets = {"pki-bundle": {"ca.crt": "an authority"}, CLIENT: {"tls.crt": "one", "tls.key": "its key"}}

    def client(name: str, found: Plan) -> tuple[set[str], Object]:
        made = objects(found)
        lines = secret_data(made["Secret", f"{name}-config"])[f"{name}.conf"].splitlines()
        return set(lines), made["Deployment", f"{name}-api"]["spec"]["template"]

    files = {"certfile": "/etc/openstack-cache-tls/tls.crt", "keyfile": "/etc/openstack-cache-tls/tls.key"}
    lines, _ = client("keystone", keystone(context(KEYSTONE, release=release, published=CALLED, secrets=secrets)))
    assert {f"tls_{option} = {file}" for option, file in files.items()} <= lines
    first = context(PLACEMENT, release=release, published=CALLED, secrets=secrets)
    lines, template = client("placement", placement(first))
    assert {f"memcache_tls_{option} = {file}" for option, file in files.items()} <= lines
    (mount,) = (each for each in template["spec"]["containers"][0]["volumeMounts"] if each["name"] == "cache-tls")
    assert (mount["mountPath"], mount["readOnly"]) == ("/etc/openstack-cache-tls", True)

    renewed = {**secrets, CLIENT: {"tls.crt": "another", "tls.key": "its key"}}
    second = context(PLACEMENT, release=release, published=CALLED, secrets=renewed)
    assert client("placement", placement(second))[1] == template, "it is read with each connection: no pod restarts"


def test_all_clients_of_a_cloud_have_the_certificate_and_nobody_else(root: Path) -> None:
    manifests = yaml.load_all((root / "deploy/samples/controlplane_minimal.yaml").read_text(), yaml.CSafeLoader)
    (cloud,) = (each for each in manifests if each["kind"] == "OpenStackControlPlane")
    cloud["spec"] |= {"cinder": {"enabled": True}}
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(root / "releases"), password="drawn")
    made = [obj for planned in paper.render([cloud], "openstack") for obj in planned.objects]
    clients = {
        obj["metadata"]["name"]
        for obj in made
        if obj["kind"] == "Secret" and any(SERVERS in text for text in secret_data(obj).values())
    }
    assert {"keystone-config", "nova-config", "cinder-config", "neutron-config"} <= clients
    workloads = [obj for obj in made if obj["kind"] in {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"}]
    showing = set[str]()
    for obj in workloads:
        spec = obj["spec"].get("jobTemplate", obj)["spec"]["template"]["spec"]
        reads = set(read_by({"spec": spec}))
        assert (CLIENT in reads) == bool(clients & reads), obj["metadata"]["name"]
        showing |= {obj["metadata"]["name"]} if CLIENT in reads else set()
    assert {"keystone-api", "glance-api", "placement-api", "neutron-api", "nova-api", "nova-metadata"} <= showing
    assert not any("compute" in name for name in showing), "who breaks out of a server reads no cache"
