"""A backup as a restore takes it: with the fields that one of ours has, and no others. Those who know the password of
the repository may have written it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...plan import Context, Object, SpecError
from ...plan.times import valid_time
from . import delegated, pools
from .model import SCHEDULE, OpenStackRestoreSpec
from .service import LEFT_OUT

_SECRETS = ("channel", "contents", "repository", "runs")
"""Secrets of a restore itself, by the end of their names."""
_TOKENS = ("kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token")
"""Types of Secrets by which Kubernetes gives rights."""


def rebuilt_object(ctx: Context[OpenStackRestoreSpec], obj: Object) -> Object:
    """Return an object. Raise SpecError for one that no backup of this operator holds, other errors for what is no
    object.
    """
    api, kind, name = str(obj["apiVersion"]), str(obj["kind"]), str(obj["metadata"]["name"])
    is_secret = (api, kind) == ("v1", "Secret")
    if (api, kind) not in ctx.kinds or not (is_secret or _is_ours(obj)) or kind in LEFT_OUT:
        text = f"the backup holds {kind}/{name} of {api}"
        raise SpecError("spec.backup", f"{text}, which this operator does not serve; use the operator that took it")
    if is_secret and (obj.get("type") in _TOKENS or name in {ctx.name(each) for each in _SECRETS}):
        raise SpecError("spec.backup", f"the backup holds Secret/{name}, which no restore creates; use another backup")
    fields = ("type", "data", "immutable") if is_secret else ("spec",)
    body = {each: obj[each] for each in fields if each in obj}
    if kind == SCHEDULE.kind:
        # The old cloud may still run, and its backups have the same names: its user decides who makes and removes them.
        body["spec"] = {**body["spec"], "suspend": True}
    return {"apiVersion": api, "kind": kind, **_metadata(obj), **body}


def _metadata(obj: Object) -> Object:
    """Return the metadata of an object that belong to its content. Raise an error for what is none."""
    metadata: Object = {"name": str(obj["metadata"]["name"])}
    for field in ("labels", "annotations"):
        texts = obj["metadata"].get(field) or {}
        metadata[field] = {str(key): str(value) for key, value in texts.items()}
    return {"metadata": metadata}


def rebuilt_manifest(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a manifest with the fields that are used. Raise LookupError, TypeError or ValueError if it lacks some."""
    return {
        "backup": _text(manifest["backup"]),
        "taken": _time(manifest["taken"]),
        "databases": [_rebuilt_database(entry) for entry in manifest["databases"]],
        # Backups of earlier operators have none.
        "networks": [_rebuilt_network(entry) for entry in manifest.get("networks", ())],
        "images": [_rebuilt_images(entry) for entry in manifest.get("images", ())],
        "pools": [_rebuilt_pool(entry) for entry in manifest.get("pools", ())],
    }


def _rebuilt_database(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**_rebuilt_entry(entry, "snapshot", "server", "gtid"), **delegated.location_of(entry)}


def _rebuilt_network(entry: Mapping[str, Any]) -> dict[str, Any]:
    labels = {str(name): _text(text) for name, text in entry["labels"].items()}
    return {**_rebuilt_entry(entry, "snapshot", "schema"), "labels": labels}


def _rebuilt_images(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**_rebuilt_entry(entry), "snapshots": [_snapshot(each) for each in _texts(entry["snapshots"])]}


def _rebuilt_pool(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"pool": pools.Pool.of(entry), "snapshot": _snapshot(entry["snapshot"])}


def _rebuilt_entry(entry: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    claim, image = entry["claim"], entry["image"]
    if (claim["apiVersion"], claim["kind"]) != ("v1", "PersistentVolumeClaim"):
        raise ValueError(f"claim of {entry['name']}")
    size = {"requests": {"storage": _text(claim["spec"]["resources"]["requests"]["storage"])}}
    spec: Object = {"accessModes": [_text(mode) for mode in claim["spec"]["accessModes"]], "resources": size}
    if "storageClassName" in claim["spec"]:
        spec["storageClassName"] = _text(claim["spec"]["storageClassName"])
    selector = {str(key): _text(value) for key, value in image.get("nodeSelector", {}).items()}
    if "snapshot" in fields:
        _snapshot(entry["snapshot"])
    return {
        **{name: _text(entry[name]) for name in ("name", *fields)},
        "claim": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **_metadata(claim), "spec": spec},
        "nodeSelector": selector,
        "tolerations": [{str(key): value for key, value in each.items()} for each in image.get("tolerations", ())],
    }


def _snapshot(value: object) -> str:
    """Return the identity of a snapshot, which is an argument of restic. Raise ValueError for an option."""
    if _text(value).startswith("-"):
        raise ValueError(f"snapshot {value!r}")
    return _text(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(value: object) -> list[str]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return [_text(each) for each in value]


def _time(value: object) -> str:
    if valid_time(value) is None:
        raise ValueError(f"{value!r} is no time")
    return _text(value)


def _is_ours(obj: Object) -> bool:
    group = str(obj["apiVersion"]).rpartition("/")[0]
    return group == "openstack.k8s.io" or group.endswith("c5c3.io")
