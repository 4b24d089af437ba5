"""etcd: a cluster that is begun once, and takes members back."""

from __future__ import annotations

from typing import Any

from openstack_operator import kube, pki
from openstack_operator.parts.secrets.tls import TRUSTS
from openstack_operator.plan import Plan, Release
from openstack_operator.services.etcd.model import ETCD
from openstack_operator.services.etcd.service import plan
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as authority
from openstack_operator.testing import NOW, context, granted
from tests.planning import objects, planner

RECORD = ("Secret", "etcd-record")
SERVER = ("StatefulSet", "etcd-server")


planned = planner(plan, ETCD)


def record(made: Plan) -> dict[str, str]:
    return kube.secret_data(objects(made)[RECORD])


def test_a_cluster_is_begun_by_its_founders_until_somebody_is_ready(release: Release) -> None:
    first = planned(release, {"replicas": 3})
    assert record(first)["state"] == "new"
    assert record(first)["founders"].count("=http://etcd-server-") == 3

    started = {**objects(first), SERVER: {**objects(first)[SERVER], "status": {"readyReplicas": 0}}}
    assert record(planned(release, {"replicas": 3}, children=started))["state"] == "new"
    ready = {**objects(first), SERVER: granted(objects(first)[SERVER])}
    assert record(planned(release, {"replicas": 3}, children=ready))["state"] == "existing"


def test_an_existing_cluster_is_never_bootstrapped_again(release: Release) -> None:
    first = planned(release, {"replicas": 3})
    formed = kube.secret(
        context(ETCD, release=release), "etcd-record", {"state": "existing", "founders": record(first)["founders"]}
    )
    assert record(planned(release, {"replicas": 3}, children={RECORD: formed})) == kube.secret_data(formed)


def test_a_member_added_later_is_no_founder(release: Release) -> None:
    first = planned(release)
    more = planned(release, {"replicas": 3}, children=objects(first))
    assert record(more)["founders"] == record(first)["founders"]
    assert record(more)["founders"].startswith("etcd-server-0=http://etcd-server-0.etcd-members.")


def test_the_record_lives_as_long_as_the_volumes(release: Release) -> None:
    for retention, kept in (("Retain", True), ("Delete", False)):
        annotations = objects(planned(release, {"retention": retention}))[RECORD]["metadata"].get("annotations", {})
        assert (kube.RETAIN in annotations) == kept


def test_every_member_is_published_and_locks_have_one_address(release: Release) -> None:
    published = planned(release, {"replicas": 3}).outcome.published
    assert published["endpoints"].split(",") == [
        f"http://etcd-server-{ordinal}.etcd-members.openstack.svc.cluster.local:2379" for ordinal in range(3)
    ]
    assert published["coordinationURL"].startswith("etcd3+http://etcd.openstack.svc.cluster.local:2379?")


def test_a_formed_cluster_restarts_no_member(release: Release) -> None:
    first = planned(release, {"replicas": 3})
    ready = {**objects(first), SERVER: granted(objects(first)[SERVER])}
    assert objects(planned(release, {"replicas": 3}, children=ready))[SERVER] == objects(first)[SERVER]


HOST = "etcd-server-0.etcd-members.openstack.svc.cluster.local"


def encrypted(release: Release, *, live: Plan | None = None, rolling: bool = False, **tls: Any) -> Plan:
    """Three members with a certificate; `live` is what is there, and whether its pods are still replaced."""
    made = authority(context(PKI, release=release))
    children = {k: granted(obj) for k, obj in objects(live).items()} if live else {}
    if rolling:
        children[SERVER]["status"]["currentRevision"] = "before"
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in made.objects}
    spec = {"replicas": 3, "tls": {"pkiRef": {"name": "pki"}, **tls}}
    return planned(release, spec, published={"PKI": made.outcome.published}, secrets=secrets, children=children)


def env(made: Plan) -> dict[str, str]:
    (main,) = objects(made)[SERVER]["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", "") for each in main["env"]}


def test_a_new_cluster_speaks_tls_from_the_start(release: Release) -> None:
    new = encrypted(release)
    assert record(new)["founders"].startswith(f"etcd-server-0=https://{HOST}:2382,")
    told = env(new)
    assert told["ETCD_LISTEN_PEER_URLS"] == "https://0.0.0.0:2382"
    assert told["ETCD_LISTEN_CLIENT_URLS"] == "http://0.0.0.0:2379,https://0.0.0.0:2379"
    assert told["ETCD_PEER_CLIENT_CERT_AUTH"] == "true"
    assert told["ETCD_PEER_CERT_ALLOWED_HOSTNAME"] == "etcd.openstack.svc.cluster.local"
    published = new.outcome.published
    assert published["endpoints"].startswith(f"https://{HOST}:2379,")
    assert published["coordinationURL"].startswith("etcd3+https://etcd.openstack.svc.cluster.local:2379?")
    assert published["trustSecret"] == "pki-bundle"
    assert objects(encrypted(release, live=new))[SERVER] == objects(new)[SERVER]


def test_members_start_anew_for_other_authorities_and_say_which_they_have_read(release: Release) -> None:
    """etcd reads whom it trusts as it starts alone; what replaces an authority waits for pods that say so."""
    new = encrypted(release)
    annotations = objects(new)[SERVER]["spec"]["template"]["metadata"]["annotations"]
    trusted = kube.secret_data(objects(new)["Secret", "etcd-tls"])["ca.crt"]
    assert annotations[TRUSTS] == kube.digest(trusted)


def test_running_members_change_to_tls_in_compatible_steps(release: Release) -> None:
    plain = planned(release, {"replicas": 3})
    both = encrypted(release, live=plain)
    assert env(both)["ETCD_LISTEN_PEER_URLS"] == "http://0.0.0.0:2380,https://0.0.0.0:2382"
    assert env(both)["ETCD_INITIAL_ADVERTISE_PEER_URLS"].endswith(".openstack.svc.cluster.local:2380")
    assert "trustSecret" not in both.outcome.published
    moved = encrypted(release, live=both)
    assert env(moved)["ETCD_LISTEN_PEER_URLS"] == "http://0.0.0.0:2380,https://0.0.0.0:2382"
    assert env(moved)["ETCD_INITIAL_ADVERTISE_PEER_URLS"].endswith(".openstack.svc.cluster.local:2382")
    still = encrypted(release, live=moved, rolling=True)
    assert env(still) == env(moved), "one that has not moved is called in plain text"
    closed = encrypted(release, live=moved)
    assert env(closed)["ETCD_LISTEN_PEER_URLS"] == "https://0.0.0.0:2382"
    assert env(encrypted(release, live=closed, rolling=True)) == env(closed)
    assert record(closed)["founders"] == record(plain)["founders"]


def test_members_with_returned_volumes_are_still_called_in_plain_text(release: Release) -> None:
    formed = {RECORD: granted(objects(planned(release, {"replicas": 3}))[RECORD])}
    formed[RECORD] = kube.secret(
        context(ETCD, release=release), "etcd-record", {**kube.secret_data(formed[RECORD]), "state": "existing"}
    )
    made = authority(context(PKI, release=release))
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in made.objects}
    spec = {"replicas": 3, "tls": {"pkiRef": {"name": "pki"}, "required": True}}
    found = planned(release, spec, published={"PKI": made.outcome.published}, secrets=secrets, children=formed)
    assert "http://0.0.0.0:2380" in env(found)["ETCD_LISTEN_PEER_URLS"]
    assert "http://0.0.0.0:2379" in env(found)["ETCD_LISTEN_CLIENT_URLS"]


def test_required_closes_plain_text_to_clients_and_the_kubelet_asks_by_tls(release: Release) -> None:
    new = encrypted(release, required=True)
    assert env(new)["ETCD_LISTEN_CLIENT_URLS"] == "https://0.0.0.0:2379"
    (main,) = objects(new)[SERVER]["spec"]["template"]["spec"]["containers"]
    assert main["readinessProbe"]["httpGet"] == {"path": "/health", "port": 2379, "scheme": "HTTPS"}
    assert main["livenessProbe"]["httpGet"] == {"path": "/version", "port": 2379, "scheme": "HTTPS"}


def test_a_member_shows_its_certificate_to_those_it_calls(release: Release) -> None:
    held = kube.secret_data(objects(encrypted(release))["Secret", "etcd-tls"])
    pair = pki.Pair(held["tls.key"], held["tls.crt"])
    names = {"etcd.openstack.svc.cluster.local", "*.etcd-members.openstack.svc.cluster.local", "127.0.0.1"}
    wanted = pki.Request(common="", names=frozenset(names), calls=True)
    assert pki.fault(pair, wanted, NOW, authorities=[held["ca.crt"]]) == ""
