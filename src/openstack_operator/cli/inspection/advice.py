"""The first thing to do about each reason, as docs/reference/conditions.md has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...kube import POD_REASONS
from ...plan import PAUSED, ROLLOUT_PAUSED, ROLLOUT_STOPPED, UPGRADE_HELD
from .causes import CERTIFICATE_EXPIRED, CYCLE, JOB_OVERDUE, VOLUME_FULL
from .state import DELETING, NOT_LOOKED_AT

ADVICE: Mapping[str, str] = {
    "InvalidSpec": "change the field that the message names; programs keep running meanwhile",
    "Unsupported": "change the field that the message names; programs keep running meanwhile",
    "MissingReference": "create the Secret, the key or the resource that the message names",
    "ContainerConfigError": "create the Secret, the ConfigMap or the key that the message names",
    "ImagePullFailed": "correct `image`, let the nodes reach the registry, or give the pods a login to it",
    "ContainerStartFailed": "correct `image`, or let the nodes reach the registry",
    "CrashLoop": "read the log of the container, then undo the last change of an option or an image",
    "ProbeFailed": "read the log of the container, then undo the last change of an option or an image",
    "JobFailed": "read the log of the job; the operator tries the job again every few minutes",
    "Unschedulable": "check labels and `nodeSelector`, the requests of the pods, and whether nodes are cordoned",
    "NodesTaken": "check the labels of the nodes, and `nodeSelector`",
    "VolumeNotBound": "look at the claim that the message names, and at its StorageClass",
    "VolumeNotMounted": "look at the claim that the message names, and at its StorageClass",
    "VolumeLost": "look at the claim that the message names, and at its StorageClass",
    "OutOfMemory": "give the container more memory: docs/how-to/set-resources.md",
    "Evicted": "free the node's disk or memory, or give it more",
    "NodeLost": "repair the node, or follow docs/how-to/when-a-node-is-lost.md",
    "PodsRefused": "read what Kubernetes says: a quota, Pod Security or a webhook",
    "SandboxFailed": "look at the node's network plugin and container runtime",
    "NoBackends": "add a back end to Cinder, or turn Cinder off",
    "Unreachable": "check the server that the message names, and the network to it",
    "KeyRefused": (
        "copy the client's key from Ceph into the Secret of `cephSecretRef`;"
        " for a builtin Ceph wait: a job corrects its keys"
    ),
    "MissingPool": "create the pool that the message names, or name another one in `pools`",
    "Unhealthy": "follow Ceph's message: docs/how-to/use-ceph.md",
    "IssuerFailed": "look at the issuer that the message names",
    "KORCFailed": "look at the resource of K-ORC that the message names, and at its log",
    "RookFailed": "look at the resource of Rook that the message names, and at its log",
    "InternalError": "report this bug with the ID in the message and the operator's log",
    CYCLE: "remove one of these references",
    JOB_OVERDUE: (
        "read the log of its pod and repair the cause; the operator recreates the job after `kubectl delete job`"
    ),
    VOLUME_FULL: "enlarge the volume, or remove data: docs/how-to/when-something-fails.md",
    CERTIFICATE_EXPIRED: (
        "put a new certificate into the Secret, or on the server, that the message names:"
        " docs/how-to/renew-certificates.md"
    ),
    NOT_LOOKED_AT: (
        "wait some seconds; if it lasts, check that the operator runs:"
        " kubectl get pods -A -l app.kubernetes.io/name=openstack-operator"
    ),
    ROLLOUT_PAUSED: "to continue, change the field that the message names",
    ROLLOUT_STOPPED: "read the log of the pod in the message; correct or undo the last change",
    UPGRADE_HELD: "to finish the upgrade, set `upgrade.complete: true`. Before that you can go back",
    PAUSED: "to continue, run: openstack-operator resume KIND/NAME",
    DELETING: "wait; if it lasts, read docs/how-to/remove-a-cloud.md",
}

assert ADVICE.keys() >= POD_REASONS


OF_LINES: Mapping[str, str] = {
    # nova.compute.manager: the host has guests of another cloud, or of this one before its database was made again.
    "I appear to be a new service in this database": (
        "remove the old guests from the node: docs/how-to/remove-a-cloud.md; if the database is"
        " wrong, restore the right one"
    ),
    # agents/nova/node_identity.py, and nova.compute.manager where Nova's API does not answer that program.
    "and Nova has servers there": "mount the disk of the node, or say it is new: docs/how-to/when-a-node-is-lost.md",
    "No local node identity found": "mount the disk of the node; if it is new, read docs/how-to/when-a-node-is-lost.md",
    "No space left on device": "enlarge the volume, or free the node's disk: docs/how-to/when-something-fails.md",
}
"""The first thing to do about a program that ended with such a line in its log: it says more than the reason does."""
_ENDED = frozenset({"", "CrashLoop", "JobFailed"})
"""Reasons of a program that ended; at first it has none."""


def advice(reason: str, lines: Sequence[str] = ()) -> str:
    """Return the first thing to do, by the reason and the last lines of a log; empty if it ends by itself."""
    signs = OF_LINES if reason in _ENDED else {}
    return next((text for sign, text in signs.items() if any(sign in line for line in lines)), ADVICE.get(reason, ""))
