"""Certificates of services: from a PKI, to a server, and to those who call it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import pki
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import CONFIG_DIGEST, secret_data
from openstack_operator.plan import Incomplete, Object, Plan, Release, SpecError
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan as keystone
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan as mariadb
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as authority
from openstack_operator.services.rabbitmq.model import RABBITMQ
from openstack_operator.services.rabbitmq.service import plan as rabbitmq
from openstack_operator.testing import NOW, context, granted
from tests.planning import objects

ROOT = Path(__file__).parent.parent.parent.parent
TLS = {"tls": {"pkiRef": {"name": "pki"}}}
DAY = timedelta(days=1)
BROUGHT = {"mariadb.openstack.svc.cluster.local"}


def made(release: Release) -> tuple[Mapping[str, str], dict[str, dict[str, str]]]:
    """What a PKI publishes, and its Secrets."""
    plan = authority(context(PKI, release=release))
    secrets = {name: secret_data(obj) for (_, name), obj in objects(plan).items()}
    return plan.outcome.published, secrets


def server(release: Release, **changes: Any) -> Plan:
    """A MariaDB with a certificate."""
    published, secrets = made(release)
    return mariadb(context(MARIADB, TLS, release=release, published={"PKI": published}, secrets=secrets, **changes))


def test_the_authority_is_made_once_and_comes_back(release: Release) -> None:
    first = objects(authority(context(PKI, release=release, draw=lambda: "one")))
    there = first["Secret", "pki-authority"]
    again = context(PKI, release=release, draw=lambda: "two", children=first)
    deleted = context(PKI, release=release, draw=lambda: "two", deleted_secrets={"pki-authority": there})
    for ctx in (again, deleted):
        assert objects(authority(ctx))["Secret", "pki-authority"] == there


def test_trust_bundle_for_clients_has_no_key(release: Release) -> None:
    published, secrets = made(release)
    assert set(secrets[published["bundleSecret"]]) == {"ca.crt"}


def test_a_server_is_certified_under_every_name_it_is_called_by(release: Release) -> None:
    plan = server(release)
    held = secret_data(objects(plan)["Secret", "mariadb-tls"])
    pair = pki.Pair(held["tls.key"], held["tls.crt"])
    names = {
        "mariadb",
        "mariadb.openstack",
        "mariadb.openstack.svc",
        "mariadb.openstack.svc.cluster.local",
        "localhost",
    }
    wanted = pki.Request(common="", names=frozenset({*names, "*.mariadb-members.openstack.svc.cluster.local"}))
    assert pki.fault(pair, wanted, NOW, authorities=[held["ca.crt"]]) == ""


def test_a_certificate_is_kept_until_two_thirds_of_its_life_are_over(release: Release) -> None:
    first = server(release)
    children = {k: granted(obj) for k, obj in objects(first).items()}
    assert first.outcome.wake is not None
    early = server(release, children=children, now=first.outcome.wake - DAY, draw=lambda: "two")
    late = server(release, children=children, now=first.outcome.wake + DAY, draw=lambda: "two")
    name = ("Secret", "mariadb-tls")
    assert objects(early)[name]["data"] == children[name]["data"]
    assert objects(late)[name]["data"] != children[name]["data"]
    # The server follows by itself: its pods stay.
    pods = ("StatefulSet", "mariadb-server")
    assert objects(late)[pods] == objects(early)[pods]


def brought(release: Release, *, names: set[str] = BROUGHT, now: datetime = NOW, **changes: Any) -> Plan:
    """A MariaDB with a certificate of the user's."""
    by = pki.authority("theirs", "theirs", NOW - DAY)
    pair = pki.issue(by, pki.Request(common="db", names=frozenset(names), life=30 * DAY), "drawn", NOW - DAY)
    files = {"ca.crt": by.cert, "tls.crt": pair.cert, "tls.key": pair.key} | changes.pop("files", {})
    spec = {"tls": {"secretRef": {"name": "mine"}}}
    return mariadb(context(MARIADB, spec, release=release, secrets={"mine": files}, now=now, **changes))


def test_a_certificate_that_is_brought_is_used_while_it_is_good(release: Release) -> None:
    first = brought(release)
    assert first.outcome.published["trustSecret"] == "mariadb-tls-trust"
    assert set(secret_data(objects(first)["Secret", "mariadb-tls-trust"])) == {"ca.crt"}
    children = {k: granted(obj) for k, obj in objects(first).items()}
    other = pki.authority("another", "another", NOW).cert
    cases: list[tuple[dict[str, Any], str]] = [
        ({"names": {"db.example.org"}}, "the certificate lacks mariadb.openstack.svc.cluster.local"),
        ({"now": NOW + 60 * DAY}, "the certificate ended at 2026-01-30"),
        ({"files": {"ca.crt": other}}, "the certificate is not signed by any of the authorities"),
        ({"files": {"ca.crt": "none"}}, "ca.crt cannot be read"),
        ({"files": {"tls.key": "none"}}, "the certificate cannot be read"),
    ]
    for changes, text in cases:
        with pytest.raises(Incomplete, match=f"^spec.tls.secretRef: Secret 'mine': {text}"):
            brought(release, **changes)
        later = brought(release, children=children, **changes)
        assert objects(later)["Secret", "mariadb-tls"]["data"] == children["Secret", "mariadb-tls"]["data"]
        verdict = next(step.verdict for step in later if step.name == "Certificate")
        assert verdict
        assert verdict.message.startswith(f"spec.tls.secretRef: Secret 'mine': {text}")
        assert verdict.message.endswith("; the previous one stays in use")


def clustered(release: Release, **changes: Any) -> tuple[str, dict[str, str], dict[tuple[str, str], Object]]:
    """Options of three members that are given a certificate, their record, and all objects."""
    published, secrets = made(release)
    spec = {"replicas": 3, **TLS}
    plan = mariadb(context(MARIADB, spec, release=release, published={"PKI": published}, secrets=secrets, **changes))
    found = objects(plan)
    text = secret_data(found["Secret", "mariadb-config"])["99-openstack.cnf"]
    return text, secret_data(found["Secret", "mariadb-galera"]), found


def test_members_of_a_new_cluster_take_nobody_without_a_certificate(release: Release) -> None:
    text, record, found = clustered(release)
    assert "socket.ssl_cert=/etc/mysql/tls/tls.crt" in text
    assert "socket.dynamic" not in text
    assert text.endswith("\n!includedir /etc/mysql/record\n"), "read anew for each copy"
    assert record["sst.cnf"] == "[sst]\nencrypt = 4\nssl_mode = VERIFY_CA\n"
    assert pki.calls(secret_data(found["Secret", "mariadb-tls"])["tls.crt"]), "each calls the others"


def test_a_running_cluster_encrypts_once_all_members_can(release: Release) -> None:
    plain = objects(mariadb(context(MARIADB, {"replicas": 3}, release=release)))
    children = {k: granted(obj) for k, obj in plain.items()}
    names = [f"mariadb-server-{ordinal}" for ordinal in range(3)]

    def said(**last: Any) -> dict[str, Any]:
        one = {"stage": "serving", "status": "Primary", "uuid": "u", "ready": True, "encrypted": True}
        return {name: {**one, "name": name} for name in names[:2]} | {names[2]: {**one, "name": names[2], **last}}

    for facts in ({}, said(encrypted=False), said(ready=False, status="")):
        text, record, found = clustered(release, children=children, facts=facts)
        assert ";socket.dynamic=yes" in text
        assert "sst.cnf" not in record, "whoever has no certificate can neither give nor take a copy"
    text, record, found = clustered(release, children=children, facts=said())
    assert "socket.dynamic" not in text
    assert "sst.cnf" in record
    text, record, _ = clustered(release, children={k: granted(obj) for k, obj in found.items()})
    assert "socket.dynamic" not in text, "nobody answers: it stays"
    assert "sst.cnf" in record


def test_a_certificate_for_servers_only_is_none_for_members(release: Release) -> None:
    """Of a cluster that shows it to its clients already, the members go on as they are."""
    by = pki.authority("theirs", "theirs", NOW - DAY)
    pair = pki.issue(by, pki.Request(common="db", names=frozenset(BROUGHT), life=30 * DAY), "drawn", NOW - DAY)
    secrets = {"mine": {"ca.crt": by.cert, "tls.crt": pair.cert, "tls.key": pair.key}}
    spec = {"tls": {"secretRef": {"name": "mine"}}}
    one = mariadb(context(MARIADB, spec, release=release, secrets=secrets))
    assert one.outcome.published["trustSecret"]
    with pytest.raises(SpecError, match=r"^spec.tls.secretRef: .* is for servers only; .* clientAuth"):
        mariadb(context(MARIADB, {"replicas": 3, **spec}, release=release, secrets=secrets))
    children = {k: granted(obj) for k, obj in objects(one).items()}
    several = mariadb(context(MARIADB, {"replicas": 3, **spec}, release=release, secrets=secrets, children=children))
    found = objects(several)
    assert "socket.ssl" not in secret_data(found["Secret", "mariadb-config"])["99-openstack.cnf"]
    assert "sst.cnf" not in secret_data(found["Secret", "mariadb-galera"])


def test_clients_are_told_once_every_pod_shows_the_certificate(release: Release) -> None:
    """From the start, or after the last one was replaced."""
    assert server(release).outcome.published["trustSecret"] == "pki-bundle"
    plain = objects(mariadb(context(MARIADB, release=release)))
    before = {k: granted(obj) for k, obj in plain.items()}
    assert "trustSecret" not in server(release, children=before).outcome.published
    after = {k: granted(obj) for k, obj in objects(server(release)).items()}
    assert server(release, children=after).outcome.published["trustSecret"] == "pki-bundle"


def test_clients_are_not_untold_while_pods_are_replaced_for_another_reason(release: Release) -> None:
    plain = {k: granted(obj) for k, obj in objects(mariadb(context(MARIADB, release=release))).items()}
    pods = ("StatefulSet", "mariadb-server")

    def rolling(children: dict[tuple[str, str], Object]) -> dict[tuple[str, str], Object]:
        live = children[pods]
        return {**children, pods: {**live, "status": {**live["status"], "currentRevision": "old"}}}

    told = {k: granted(obj) for k, obj in objects(server(release, children=plain)).items()}
    assert "trustSecret" not in server(release, children=rolling(told)).outcome.published, "the first time"
    shown = server(release, children=told)
    assert shown.outcome.published["trustSecret"] == "pki-bundle"
    later = rolling({k: granted(obj) for k, obj in objects(shown).items()})
    assert server(release, children=later).outcome.published["trustSecret"] == "pki-bundle"


def test_servers_refuse_who_comes_plain_once_tls_is_required(release: Release) -> None:
    published, secrets = made(release)
    asked = {"tls": {"pkiRef": {"name": "pki"}, "required": True}}

    def planned(resource: Any, plan: Any) -> dict[tuple[str, str], Object]:
        return objects(plan(context(resource, asked, release=release, published={"PKI": published}, secrets=secrets)))

    cnf = secret_data(planned(MARIADB, mariadb)["Secret", "mariadb-config"])["99-openstack.cnf"]
    assert "require_secure_transport = ON" in cnf
    broker = planned(RABBITMQ, rabbitmq)
    conf = secret_data(broker["Secret", "rabbitmq-config"])["rabbitmq.conf"]
    assert "listeners.tcp = none" in conf
    assert "management.tcp" not in conf
    ports = {port["port"] for port in broker["Service", "rabbitmq"]["spec"]["ports"]}
    assert ports == {5671, 15671}
    main = broker["StatefulSet", "rabbitmq-server"]["spec"]["template"]["spec"]["containers"][0]
    assert main["readinessProbe"]["tcpSocket"] == {"port": 5671}


def test_an_authority_that_ended_is_said_to_have(release: Release) -> None:
    published, secrets = made(release)
    late = NOW + 3651 * DAY
    ctx = context(MARIADB, TLS, release=release, published={"PKI": published}, secrets=secrets, now=late)
    with pytest.raises(SpecError, match=r"^spec.tls.pkiRef: the authority of PKI/pki ended at 2035-12-30"):
        mariadb(ctx)


def test_files_that_somebody_made_unreadable_are_made_anew(release: Release) -> None:
    children = {k: granted(obj) for k, obj in objects(server(release)).items()}
    name = ("Secret", "mariadb-tls")
    broken = {**children[name], "data": {**children[name]["data"], "tls.crt": "bm9uZQ=="}}
    again = objects(server(release, children={**children, name: broken}))
    assert again[name]["data"]["tls.crt"] != "bm9uZQ=="


def test_a_certificate_that_somebody_deletes_is_made_anew(release: Release) -> None:
    """docs/how-to/renew-certificates.md. Irreplaceable Secrets come back as they were; this one does not."""
    children = {k: granted(obj) for k, obj in objects(server(release)).items()}
    name = ("Secret", "mariadb-tls")
    before = children.pop(name)
    lost = {"mariadb-tls": before}
    again = objects(server(release, children=children, deleted_secrets=lost, now=NOW + DAY, draw=lambda: "another"))[
        name
    ]
    old, new = (secret_data(each) for each in (before, again))
    assert new["tls.crt"] != old["tls.crt"]
    assert new["tls.key"] != old["tls.key"]
    assert new["ca.crt"] == old["ca.crt"], "so that nobody has to trust anew"


def test_a_client_checks_whom_it_calls(release: Release) -> None:
    secrets = {"pki-bundle": {"ca.crt": "an authority"}}
    at = {"host": "db", "port": "3306"}
    contracts = {"MariaDB": at, "Memcached": {"servers": "m:11211"}}
    plain = objects(keystone(context(KEYSTONE, release=release, published=contracts)))
    contracts["MariaDB"] = {**at, "trustSecret": "pki-bundle"}
    found = objects(keystone(context(KEYSTONE, release=release, published=contracts, secrets=secrets)))
    path = "/etc/openstack-trust/pki-bundle"
    assert f"&ssl_ca={path}/ca.crt" in secret_data(found["Secret", "keystone-config"])["keystone.conf"]
    assert "ssl_ca" not in secret_data(plain["Secret", "keystone-config"])["keystone.conf"]
    pod = found["Deployment", "keystone-api"]["spec"]["template"]
    mounts = {mount["mountPath"]: mount for mount in pod["spec"]["containers"][0]["volumeMounts"]}
    assert mounts[path]["readOnly"]
    # Another authority is a reason to start anew.
    secrets = {"pki-bundle": {"ca.crt": "another authority"}}
    moved = objects(keystone(context(KEYSTONE, release=release, published=contracts, secrets=secrets)))
    assert moved["Deployment", "keystone-api"]["spec"]["template"]["metadata"] != pod["metadata"]


def encrypted_cloud() -> list[Object]:
    """Every object of a cloud with certificates."""
    spec = {"cinder": {"enabled": True}, "etcd": {"enabled": True}, "storageBackend": "ceph"}
    metadata = {"name": "cloud", "namespace": "openstack"}
    docs = [{"apiVersion": PKI.api_version, "kind": "OpenStackControlPlane", "metadata": metadata, "spec": spec}]
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"), password="drawn")
    return [obj for planned in paper.render(docs, "openstack") for obj in planned.objects]


def test_pods_that_read_authorities_at_start_roll_when_these_change() -> None:
    """Or an authority's replacement would wait for it for ever: its pod bears a digest of what it reads."""
    found = encrypted_cloud()
    texts = {obj["metadata"]["name"]: secret_data(obj) for obj in found if obj["kind"] == "Secret"}
    bundles = {name for name, files in texts.items() if "ca.crt" in files and "tls.crt" not in files}
    readers: set[str] = set()
    for obj in found:
        template = obj["spec"]["template"] if obj["kind"] in {"Deployment", "StatefulSet", "DaemonSet"} else {}
        volumes = template.get("spec", {}).get("volumes", ())
        if bundles & {(volume.get("secret") or {}).get("secretName") for volume in volumes}:
            readers.add(obj["metadata"]["name"])
            assert CONFIG_DIGEST in template["metadata"]["annotations"], obj["metadata"]["name"]
    assert {"keystone-api", "nova-cell1-compute", "neutron-metadata-agent", "cinder-volume-ceph"} <= readers
    assert not {"mariadb-server", "rabbitmq-server"} & readers


def test_every_program_of_a_cloud_has_the_authorities_its_options_name() -> None:
    """A path in a file of options is mounted wherever that file is."""
    found = encrypted_cloud()
    texts = {obj["metadata"]["name"]: secret_data(obj) for obj in found if obj["kind"] == "Secret"}
    checked: set[str] = set()
    for obj in found:
        pod = obj.get("spec", {}).get("template", {}).get("spec")
        for container in (pod or {}).get("containers", ()):
            volumes = {v["name"]: (v.get("secret") or {}).get("secretName") for v in pod.get("volumes", ())}
            mounts = container.get("volumeMounts", ())
            files = [texts.get(volumes.get(m["name"]) or "", {}).get(m.get("subPath", "")) or "" for m in mounts]
            wanted = {path for text in files for path in re.findall(r"/etc/openstack-trust/[-\w]+", text)}
            assert wanted <= {mount["mountPath"] for mount in mounts}, (obj["metadata"]["name"], container["name"])
            checked |= {obj["metadata"]["name"]} if wanted else set()
    assert {
        "keystone-api",
        "nova-scheduler",
        "nova-cell1-conductor",
        "neutron-api",
        "glance-api",
        "cinder-volume-ceph",
    } <= checked


@pytest.mark.security
def test_a_pki_issues_certificates_for_its_kinds_alone(release: Release) -> None:
    plan = authority(context(PKI, {"allowedKinds": ["OVNNetwork", "MariaDB"]}, release=release))
    secrets = {name: secret_data(obj) for (_, name), obj in objects(plan).items()}
    published = {"PKI": plan.outcome.published}
    resource = context(MARIADB, TLS, release=release, published=published, secrets=secrets)
    assert ("Secret", "mariadb-tls") in objects(mariadb(resource))
    other = context(RABBITMQ, TLS, release=release, published=published, secrets=secrets)
    with pytest.raises(SpecError, match=r"PKI/pki issues no certificates for RabbitMQ: .*MariaDB, OVN"):
        rabbitmq(other)
