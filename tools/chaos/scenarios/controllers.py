"""Faults of the operator and of the API server it works with."""

from __future__ import annotations

import contextlib
import random
import time

from tools.localcluster import faults
from tools.localcluster.cluster import ClusterError

from ..journal import now
from ..scenario import Stage, scenario
from ..site import OPERATOR, Object, Site, names, until

_KILLS = 10
_WORKING = 4.0
"""Seconds a leader has at most before it is killed."""
_FROZEN = 60.0
_DOWN = 10.0
_TAKEOVER = 15.0
OWNED = "deployments,statefulsets,daemonsets,jobs,services,secrets,poddisruptionbudgets,openstack"


def state(site: Site) -> dict[str, Object]:
    """Return the objects that the operator made, by kind and name."""
    objects = site.items(OWNED, "-l", "app.kubernetes.io/managed-by=openstack-operator")
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in objects}


def passwords(objects: dict[str, Object]) -> dict[str, Object]:
    """Return the data of the Secrets with generated passwords."""
    suffixes = ("-credentials", "-admin")
    return {name: o["data"] for name, o in objects.items() if o["kind"] == "Secret" and name.endswith(suffixes)}


@scenario(11, "The operator killed at random moments of a change")
def killed_in_a_change(stage: Stage) -> None:
    site, dice = stage.site, random.Random(20261120)  # moments, not secrets
    before = state(site)
    for number in range(_KILLS):
        until("a leader of the operator", site.leader, 60, 0.2)
        site.patch({"nova": {"config": {"DEFAULT": {"max_logfile_count": round(time.time()) % 1000 + number}}}})
        time.sleep(dice.uniform(0, _WORKING))
        _ended(site)
    stage.await_recovery(f"{_KILLS} kills of every operator pod", timeout=600)
    after = state(site)
    stage.check(passwords(before) and passwords(before) == passwords(after), "a password was drawn again")
    expected = {name for name in before if not name.startswith(("Job/", "Secret/"))}
    stage.check(expected <= set(after), f"gone: {sorted(expected - set(after))}")
    stage.check(
        all(before[name]["metadata"]["uid"] == after[name]["metadata"]["uid"] for name in expected & set(after)),
        "an object was made anew",
    )


@scenario(12, "The operator's leader frozen for 60 s and resumed")
def frozen(stage: Stage) -> None:
    site = stage.site
    before = state(site)
    leader = until("a leader", site.leader, 60)
    began = now()
    faults.freeze(site.machine, OPERATOR, leader)
    try:
        until("another leader", lambda: site.leader(other_than=leader), _FROZEN)
        took = round(now() - began, 1)
        # The other one has work to do while the first is away.
        victim = "nova-metadata"
        site.kubectl("delete", "service", victim, "-n", site.namespace, "--wait=false")
        time.sleep(max(0.0, _FROZEN - (now() - began)))
    finally:
        faults.thaw(site.machine, OPERATOR, leader)
    stage.note(takeover_seconds=took)
    stage.check(took <= _TAKEOVER, f"another leader took {took} s")
    stage.await_recovery("the thaw")
    after = state(site)
    changed = {name for name, old in before.items() if name in after and _spec(old) != _spec(after[name])}
    stage.check(not changed - {f"Service/{victim}"}, f"changed: {sorted(changed)}")
    stage.check(set(before) == set(after), f"not the same objects: {sorted(set(before) ^ set(after))}")
    stage.check(passwords(before) == passwords(after), "a password was drawn again")


def _ended(site: Site) -> None:
    """Kill every pod of the operator, so that its successor does not wait for the kubelet's back-off."""
    for pod in names(site.pods(f"app.kubernetes.io/name={OPERATOR}", OPERATOR)):
        with contextlib.suppress(ClusterError):  # it may not have begun to run
            faults.kill_pod(site.machine, OPERATOR, pod)
        site.kubectl("delete", "pod", pod, "-n", OPERATOR, "--force", "--grace-period=0", "--wait=false")


def _spec(item: Object) -> tuple[object, object]:
    return item["metadata"]["uid"], item.get("spec") or item.get("data")


@scenario(13, "kube-apiserver restarted and its watch cache expired")
def apiserver(stage: Stage) -> None:
    site = stage.site
    before = state(site)
    began = now()
    # Compacted first: watches from before cannot be answered from the memory of the new process, nor from etcd.
    faults.compact(site.machine)
    faults.restart_program(site.machine, "node1", "kube-apiserver", down_seconds=_DOWN)
    stage.await_recovery("the restart", began)
    after = state(site)
    stage.check(set(before) == set(after), f"not the same objects: {sorted(set(before) ^ set(after))}")
    # An operator that still had an old view would not see this.
    old = site.get("service", "placement-api")["metadata"]["uid"]
    site.kubectl("delete", "service", "placement-api", "-n", site.namespace, "--wait=false")
    until("the deleted Service to be back", lambda: site.get("service", "placement-api")["metadata"]["uid"] != old, 60)
    stage.await_recovery("a Service deleted after it")
