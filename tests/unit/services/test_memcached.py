"""Memcached: what must hold besides its goldens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from openstack_operator import kube, pki
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import secret_data
from openstack_operator.plan import Object, Plan, Release, UnsupportedError, key
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan as keystone
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.memcached.service import plan
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as authority
from openstack_operator.services.placement.model import PLACEMENT
from openstack_operator.services.placement.service import plan as placement
from openstack_operator.testing import NOW, context


def test_every_server_is_published_by_its_own_name(release: Release) -> None:
    outcome = plan(context(MEMCACHED, {"replicas": 2}, release=release)).outcome
    assert outcome.published["servers"] == (
        "memcached-server-0.memcached.openstack.svc.cluster.local:11211,"
        "memcached-server-1.memcached.openstack.svc.cluster.local:11211"
    )


def test_no_server_means_no_cache_rather_than_no_answer(release: Release) -> None:
    outcome = plan(context(MEMCACHED, {"replicas": 0}, release=release)).outcome
    assert outcome.published == {"servers": ""}
    assert outcome.endpoint is None


def test_memory_reaches_the_program_and_the_scheduler(release: Release) -> None:
    objects = {key(o): o for o in plan(context(MEMCACHED, {"memory": "512Mi"}, release=release)).objects}
    main = objects["StatefulSet", "memcached-server"]["spec"]["template"]["spec"]["containers"][0]
    assert " ".join(main["command"]) == "memcached -l 0.0.0.0 -p 11211 -U 0 -X -W -m 512 -c 1024"
    assert main["resources"]["requests"]["memory"] == "528Mi"


def test_memcached_has_no_volume(release: Release) -> None:
    objects = {key(o): o for o in plan(context(MEMCACHED, release=release)).objects}
    assert "volumeClaimTemplates" not in objects["StatefulSet", "memcached-server"]["spec"]


def certified(release: Release, **tls: Any) -> tuple[dict[str, str], dict[str, Any], dict[tuple[str, str], Object]]:
    """What a Memcached with a certificate publishes, its container, and its objects."""
    made = authority(context(PKI, release=release))
    secrets = {obj["metadata"]["name"]: secret_data(obj) for obj in made.objects}
    spec = {"tls": {"pkiRef": {"name": "pki"}, **tls}}
    found = plan(context(MEMCACHED, spec, release=release, published={"PKI": made.outcome.published}, secrets=secrets))
    objects = {key(o): o for o in found.objects}
    (main,) = objects["StatefulSet", "memcached-server"]["spec"]["template"]["spec"]["containers"]
    return dict(found.outcome.published), main, objects


def test_encrypted_it_listens_to_both_until_tls_is_required(release: Release) -> None:
    published, main, objects = certified(release)
    assert published == {
        "servers": "memcached-server-0.memcached.openstack.svc.cluster.local:11212",
        "trustSecret": "pki-bundle",
        "clientSecret": "memcached-client-tls",
    }
    assert "memcached -l notls:0.0.0.0:11211,0.0.0.0:11212 -p 11211" in " ".join(main["command"])
    assert {port["port"] for port in objects["Service", "memcached"]["spec"]["ports"]} == {11211, 11212}
    _, main, objects = certified(release, required=True)
    assert "memcached -l notls:127.0.0.1:11211,0.0.0.0:11212 -p 11211" in " ".join(main["command"])
    assert {port["port"] for port in objects["Service", "memcached"]["spec"]["ports"]} == {11212}


def test_no_probe_begins_a_handshake(release: Release) -> None:
    """One that is not finished makes it log errors; a connection that is not begun by TLS is finished by its end."""
    _, main, _ = certified(release)
    assert main["readinessProbe"]["tcpSocket"] == main["livenessProbe"]["tcpSocket"] == {"port": 11211}
    _, main, _ = certified(release, required=True)
    ready, alive = main["readinessProbe"], main["livenessProbe"]
    assert ready["exec"]["command"] == alive["exec"]["command"]
    assert (ready["periodSeconds"], alive["periodSeconds"], alive["failureThreshold"]) == (30, 60, 3)


def test_certificate_of_memcached_has_the_name_of_each_server(release: Release) -> None:
    _, _, objects = certified(release)
    held = secret_data(objects["Secret", "memcached-tls"])
    pair = pki.Pair(held["tls.key"], held["tls.crt"])
    wanted = pki.Request(common="", names=frozenset({"*.memcached.openstack.svc.cluster.local"}))
    assert pki.fault(pair, wanted, NOW, authorities=[held["ca.crt"]]) == ""


CALLED = {
    "MariaDB": {"host": "db", "port": "3306"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
    "Memcached": {"servers": "m:11212", "trustSecret": "pki-bundle"},
}


def test_cache_clients_verify_the_servers(release: Release) -> None:
    secrets, path = {"pki-bundle": {"ca.crt": "an authority"}}, "/etc/openstack-trust/pki-bundle/ca.crt"

    def lines(name: str, found: Plan) -> list[str]:
        objects = {key(o): o for o in found.objects}
        return secret_data(objects["Secret", f"{name}-config"])[f"{name}.conf"].splitlines()

    results = lines("keystone", keystone(context(KEYSTONE, release=release, published=CALLED, secrets=secrets)))
    assert {"tls_enabled = true", f"tls_cafile = {path}"} <= set(results)
    tokens = lines("placement", placement(context(PLACEMENT, release=release, published=CALLED, secrets=secrets)))
    assert {"memcache_tls_enabled = true", f"memcache_tls_cafile = {path}"} <= set(tokens)


@pytest.mark.security
@pytest.mark.parametrize(("profile", "strategy"), [("debian", "ENCRYPT"), ("kolla", "MAC")])
def test_a_writer_to_memcached_can_read_and_forge_no_token(root: Path, profile: str, strategy: str) -> None:
    """Kolla's images may lack the library that encrypts."""
    manifests = yaml.load_all((root / "deploy/samples/controlplane_minimal.yaml").read_text(), yaml.CSafeLoader)
    (cloud,) = (each for each in manifests if each["kind"] == "OpenStackControlPlane")
    cloud["spec"] |= {"imageProfile": profile, "tls": {"enabled": False}, "cinder": {"enabled": True}}
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(root / "releases"), password="drawn")
    caching = set[str]()
    for planned in paper.render([cloud], "openstack"):
        for obj in planned.objects:
            for text in secret_data(obj).values() if obj["kind"] == "Secret" else ():
                if "\nmemcached_servers = " in text:
                    caching.add(planned.id.kind)
                    options = {f"memcache_security_strategy = {strategy}", "memcache_secret_key = drawn"}
                    assert options <= set(text.splitlines()), planned.id
    assert caching == {"Glance", "Placement", "Neutron", "Nova", "Cinder"}


def test_each_service_has_its_own_key_for_cached_tokens(release: Release) -> None:
    """One that is broken into forges no tokens for the others."""
    published = {**CALLED, "Memcached": {"servers": "m:11211"}}
    held = kube.secret(context(PLACEMENT, release=release), "placement-credentials", {"token-cache": "its own"})
    children = {key(held): held}
    ctx = context(PLACEMENT, release=release, published=published, children=children, draw=lambda: "new")
    objects = {key(o): o for o in placement(ctx).objects}
    assert secret_data(objects["Secret", "placement-credentials"])["token-cache"] == "its own"
    conf = secret_data(objects["Secret", "placement-config"])["placement.conf"]
    assert "memcache_secret_key = its own\n" in conf


def test_libraries_that_would_speak_plain_text_all_the_same_are_not_told(release: Release) -> None:
    """Those of kolla's images ignore the option."""
    secrets = {"pki-bundle": {"ca.crt": "an authority"}}
    ctx = context(PLACEMENT, {"imageProfile": "kolla"}, release=release, published=CALLED, secrets=secrets)
    with pytest.raises(UnsupportedError, match=r"^spec.cache.memcachedRef: Memcached/memcached has tls"):
        placement(ctx)
