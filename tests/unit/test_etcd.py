"""etcd: a cluster that is begun once, and takes members back."""

from __future__ import annotations

from typing import Any

from openstack_operator import kube
from openstack_operator.plan import Object, Plan, Release, key
from openstack_operator.services.etcd.model import ETCD
from openstack_operator.services.etcd.service import plan
from openstack_operator.testing import context, granted

RECORD = ("Secret", "etcd-record")
SERVER = ("StatefulSet", "etcd-server")


def planned(release: Release, spec: dict[str, Any] | None = None, **changes: Any) -> Plan:
    return plan(context(ETCD, spec, release=release, **changes))


def objects(made: Plan) -> dict[tuple[str, str], Object]:
    return {key(obj): obj for obj in made.objects}


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


def test_what_was_formed_once_is_never_begun_again(release: Release) -> None:
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
