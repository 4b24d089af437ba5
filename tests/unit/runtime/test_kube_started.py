"""Pods whose program never started, as a plan learns of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from openstack_operator.runtime.cache.trimmed_pods import trimmed, without_image
from openstack_operator.runtime.kubernetes.kinds import POD

PULLING = {"waiting": {"reason": "ErrImagePull"}}


def seen(*, watched: bool = False, init: dict[str, Any] | None = None, **container: Any) -> list[tuple[str, str, str]]:
    """Return what a plan sees of one pod of a StatefulSet, trimmed as in the store."""
    labels = {"app.kubernetes.io/version": "11.88", **({"openstack.k8s.io/watched": "true"} if watched else {})}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
    meta = {"name": "db-0", "namespace": "x", "uid": "p", "labels": labels, "ownerReferences": [owner]}
    status = {
        "phase": "Pending",
        "initContainerStatuses": [
            {"name": "init", "restartCount": 0, "state": init or {"terminated": {"exitCode": 0}}}
        ],
        "containerStatuses": [{"name": "main", "restartCount": 0, **container}],
    }
    live = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}, "status": status}
    return without_image([trimmed(msgspec.json.encode(live), POD)])


@pytest.mark.parametrize("watched", [True, False])
def test_a_pod_without_its_image_has_never_started(*, watched: bool) -> None:
    never = [("StatefulSet", "db", "11.88")]
    assert seen(watched=watched, state=PULLING) == never
    initializing = {"waiting": {"reason": "PodInitializing"}}
    assert seen(watched=watched, init=PULLING, state=initializing) == never
    assert seen(watched=watched, state=initializing) == []
    assert seen(watched=watched, state={"running": {}}) == []
    assert seen(watched=watched, state=PULLING, restartCount=1) == []
    assert seen(watched=watched, state=PULLING, lastState={"terminated": {"exitCode": 1}}) == []
