"""Hands that delete and change what the operator owns."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tools.localcluster.kubernetes import KubeError, ours

from ..journal import now
from ..scenario import Stage, scenario
from ..site import Object, Site, until
from .controllers import OWNED

_BACK = 240.0
_LONGEST = 60.0
"""Seconds without an acknowledged request, by kind, that the loss of any owned object may cost."""


@scenario(16, "Every owned object deleted, one by one")
def deleted(stage: Stage) -> None:
    site = stage.site
    took: dict[str, float] = {}
    when: dict[str, float] = {}
    start = now()
    for service, objects in owned(site).items():
        for item in objects:
            name = f"{item['kind']}/{item['metadata']['name']}"
            began = now()
            try:
                delete(site, item)
            except KubeError as error:
                stage.check(False, str(error))
            took[name] = round(now() - began, 1)
            when[name] = began
        stage.await_recovery(f"{len(objects)} objects of {service}", timeout=600)
        if stage.result.problems:
            # What failed then would say nothing of what is deleted next.
            break
    stage.check(took, "there was no object to delete")
    slowest = dict(sorted(took.items(), key=lambda pair: -pair[1])[:10])
    end = now()
    stage.note(objects=len(took), slowest_back_seconds=slowest, outages=_causes(stage, when, start, end))
    outages = stage.journal.outages(start, end, stage.load.intervals)
    long = {kind: seconds for kind, seconds in outages.items() if seconds > _LONGEST}
    stage.check(not long, f"nothing was acknowledged for longer than {_LONGEST:.0f} s: {long}")


def _causes(stage: Stage, when: dict[str, float], start: float, end: float) -> dict[str, dict[str, Any]]:
    """Return, for each kind of request that failed, how long its longest outage was, what was deleted at most ten
    seconds before it or during it, with seconds after its begin, and what clients were told then.
    """
    causes: dict[str, dict[str, Any]] = {}
    for kind in stage.journal.failed(start, end):
        begin, back = stage.journal.longest_outage(kind, start, end)
        deleted = {name: round(at - begin, 1) for name, at in when.items() if begin - 10 <= at <= back}
        errors = stage.journal.errors(begin, back).get(kind, [])
        causes[kind] = {"seconds": round(back - begin, 1), "deleted": deleted, "errors": errors}
    return causes


def owned(site: Site) -> dict[str, list[Object]]:
    """Return what the operator made for each service, the leaves first and the service's own resource last.

    Volumes are left out: a claim in use is not deleted before its pod ends, and what it held is gone then.
    """
    objects: dict[str, list[Object]] = {}
    for item in site.items(OWNED, "-l", "app.kubernetes.io/managed-by=openstack-operator"):
        if item["kind"] != "OpenStackControlPlane":
            objects.setdefault(item["metadata"]["name"].split("-")[0], []).append(item)
    return {service: sorted(items, key=_last) for service, items in sorted(objects.items())}


def _last(item: Object) -> tuple[bool, str, str]:
    owners = {owner["kind"] for owner in item["metadata"].get("ownerReferences", [])}
    return "OpenStackControlPlane" in owners, item["kind"], item["metadata"]["name"]


def delete(site: Site, item: Object) -> None:
    """Delete an object, and wait until it is recreated. Raises KubeError if it is not.

    One that was deleted meanwhile is left out: the name of a job is that of its work, and work for objects recreated
    since has another one.
    """
    group, _, version = item["apiVersion"].rpartition("/")
    kind, meta = f"{item['kind']}.{version}.{group}", item["metadata"]
    if not site.kubectl("delete", kind, meta["name"], "-n", site.namespace, "--wait=false", "--ignore-not-found"):
        return
    until(f"{item['kind']}/{meta['name']} to come back", lambda: _is_replaced(site, kind, meta), _BACK, 0.5)


def _is_replaced(site: Site, kind: str, meta: Object) -> bool:
    live_object = site.get(kind, meta["name"])["metadata"]
    return live_object["uid"] != meta["uid"] and "deletionTimestamp" not in live_object


@dataclass(frozen=True)
class Edit:
    """A change by hand."""

    kind: str
    name: str
    patch: Callable[[Object], list[dict[str, Any]]]
    """JSON patch of the object as it is."""
    subject: str
    changed_part: Callable[[Object], object]
    """The part of the object that is put right again."""


def _container(item: Object) -> Object:
    return item["spec"]["template"]["spec"]["containers"][0]


def _template(path: str, value: Any) -> Callable[[Object], list[dict[str, Any]]]:
    return lambda item: [
        {"op": "replace", "path": f"/spec/template/spec/containers/0/{path}", "value": value},
    ]


EDITS = (
    Edit("deployment", "placement-api", _template("image", "localhost/nothing:1"), "image", _container),
    Edit("statefulset", "nova-scheduler", _template("image", "localhost/nothing:1"), "image", _container),
    Edit(
        "deployment",
        "keystone-api",
        lambda _: [{"op": "replace", "path": "/spec/replicas", "value": 1}],
        "replicas",
        lambda item: item["spec"]["replicas"],
    ),
    Edit("daemonset", "neutron-metadata-agent", _template("command", ["sleep", "1"]), "command", _container),
    Edit(
        "deployment",
        "glance-api",
        lambda item: [
            {"op": "replace", "path": "/spec/template/spec/containers/0/env", "value": [{"name": "X", "value": "y"}]}
        ],
        "environment",
        lambda item: [entry for entry in _container(item).get("env", []) if entry["name"] != "X"],
    ),
    Edit(
        "service",
        "placement-api",
        lambda _: [{"op": "replace", "path": "/spec/ports/0/port", "value": 9}],
        "port",
        lambda item: [port["port"] for port in item["spec"]["ports"]],
    ),
    Edit(
        "service",
        "neutron-api",
        lambda _: [{"op": "replace", "path": "/spec/selector", "value": {"app": "nothing"}}],
        "selector",
        lambda item: {k: v for k, v in item["spec"]["selector"].items() if k != "app"},
    ),
    Edit(
        "secret",
        "nova-config",
        # Not its first key: a drawn value that is set by hand is kept.
        lambda _: [{"op": "replace", "path": "/data/nova.conf", "value": "eA=="}],
        "configuration",
        lambda item: item["data"]["nova.conf"],
    ),
    Edit(
        "deployment",
        "neutron-api",
        lambda _: [{"op": "remove", "path": "/metadata/labels"}],
        "labels",
        lambda item: item["metadata"].get("labels"),
    ),
    Edit(
        "statefulset",
        "ovn-sb",
        lambda _: [{"op": "remove", "path": "/metadata/ownerReferences"}],
        "owner",
        lambda item: item["metadata"].get("ownerReferences"),
    ),
    Edit(
        ours("keystone"),
        "keystone",
        lambda _: [{"op": "replace", "path": "/spec/replicas", "value": 5}],
        "replicas of the service's resource",
        lambda item: item["spec"]["replicas"],
    ),
    Edit(
        "poddisruptionbudget",
        "nova-api",
        lambda _: [{"op": "replace", "path": "/spec/maxUnavailable", "value": 7}],
        "maxUnavailable",
        lambda item: item["spec"]["maxUnavailable"],
    ),
)


@scenario(17, "Edits by hand of owned objects")
def edited(stage: Stage) -> None:
    site = stage.site
    took: dict[str, float] = {}
    for edit in EDITS:
        before = site.get(edit.kind, edit.name)
        patch = json.dumps(edit.patch(before))
        began = now()
        site.kubectl("patch", edit.kind, edit.name, "-n", site.namespace, "--type=json", "-p", patch)
        label = f"{edit.subject} of {edit.kind}/{edit.name}"
        try:
            until(f"{label} to be put right", lambda e=edit, b=before: _right(site, e, b), 60, 0.5)
        except KubeError as error:
            stage.check(False, str(error))
        took[label] = round(now() - began, 1)
    stage.note(put_right_seconds=took)
    stage.await_recovery("the last edit", timeout=600)


def _right(site: Site, edit: Edit, before: Object) -> bool:
    return edit.changed_part(site.get(edit.kind, edit.name)) == edit.changed_part(before)
