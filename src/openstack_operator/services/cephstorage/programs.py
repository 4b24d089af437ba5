"""Programs in the pods of a CephStorage."""

from __future__ import annotations

from collections.abc import Mapping

from .model import CephStorageSpec

_OF_CLIENTS = ("ceph-pools", "ceph-status")


def programs(spec: CephStorageSpec) -> Mapping[str, str]:
    """Return components of a release, each with the field that replaces its image. In modes rook and external, the
    daemons are those of others.
    """
    daemons = ("ceph-mon", "ceph-mgr", "ceph-osd") if spec.mode == "local" else ()
    return dict.fromkeys((*daemons, *_OF_CLIENTS), "image")
