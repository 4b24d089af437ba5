"""Data of etcds that take long to make: each is made once, and begins a server of a test as a copy."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.localcluster import apiserver, build, paths

_PROGRAMS = (("kubernetes", "kube-apiserver"), ("etcd", "etcd"))
_NUMBER = 10
"""Folders that stay: those that were made last."""


def etcd_data(tmp_path_factory: pytest.TempPathFactory, content: Any, prepare: Callable[[Path], None]) -> Path:
    """Return the data of an etcd after `prepare`, which is called with the kubeconfig of an empty API server. It is not
    called again for the same `content`, which is all that `prepare` depends on, and the same versions of Kubernetes.
    """
    binaries = [str(build.binary(part, name)) for part, name in _PROGRAMS]
    digest = hashlib.sha256(json.dumps([binaries, content]).encode()).hexdigest()[:16]
    data = paths.cache() / "established-definitions" / digest
    data.parent.mkdir(parents=True, exist_ok=True)
    # The other processes of a run wait for the first one.
    with data.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not data.exists():
            _tidy(data.parent)
            first = tmp_path_factory.mktemp("definitions")
            with apiserver.api_server(first, prepare=prepare):
                pass
            partial = Path(tempfile.mkdtemp(dir=data.parent))
            shutil.copytree(first / "etcd", partial, dirs_exist_ok=True)
            partial.replace(data)
    return data


def _tidy(folder: Path) -> None:
    """Remove all but the last few folders."""
    folders = sorted((each for each in folder.iterdir() if each.is_dir()), key=lambda each: each.stat().st_mtime)
    for old in folders[:-_NUMBER]:
        shutil.rmtree(old, ignore_errors=True)
