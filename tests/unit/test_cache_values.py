"""What programs read from Memcached: the images change the libraries, and builds try it with all of them."""

from __future__ import annotations

import datetime
import io
import pickle
import runpy
import shutil
import subprocess
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from dogpile.cache.api import CachedValue

from tests.unit import debian_patches

MODULES = ("memcache.py", "pymemcache", "dogpile")
PATCHES = ("python-memcached/02-no-pickles", "pymemcache/01-no-pickles", "dogpile.cache/01-foreign-values")
CLIENTS = ("memcache", "pymemcache", "dogpile.cache.memcached", "dogpile.cache.pymemcache")
PICKLE, COMPRESSED = 1, 8


@pytest.fixture
def values(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "images/oslo/cache_values"), run_name="cache_values")


@pytest.fixture
def packages(root: Path, tmp_path: Path) -> Path:
    """The libraries as they come, but for those that no test has."""
    for name in MODULES:
        spec = find_spec(name.removesuffix(".py"))
        assert spec
        if name.endswith(".py"):
            shutil.copy(str(spec.origin), tmp_path / name)
        else:
            shutil.copytree(next(iter(spec.submodule_search_locations or ())), tmp_path / name)
    shutil.copy(root / "images/oslo/cache_values", tmp_path / "cache_values.py")
    return tmp_path


def attack(root: Path, packages: Path, client: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", str(root / "images/patches/python-memcached/02-no-pickles.check"), client]
    return subprocess.run(command, env={"PYTHONPATH": str(packages)}, capture_output=True, text=True, check=False)


@pytest.mark.security
@pytest.mark.parametrize("client", CLIENTS)
def test_a_value_that_somebody_put_into_memcached_runs_no_code(root: Path, packages: Path, client: str) -> None:
    attacked = attack(root, packages, client)
    assert attacked.returncode == 1
    assert "AssertionError" in attacked.stderr or "AttributeError" in attacked.stderr
    for name in PATCHES:
        debian_patches.apply(name, packages)
    attacked = attack(root, packages, client)
    assert (attacked.returncode, attacked.stderr) == (0, "")


def test_results_are_read_as_they_were_written(values: dict[str, Any]) -> None:
    payload = {"a": [1, 2.5, None, b"b"], "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 6), "set": {"x"}}
    for value in (CachedValue(payload, {"ct": 1.5, "v": 2}), payload, "text", True):
        file = io.BytesIO()
        values["Pickler"](file, protocol=0).dump(value)
        file.seek(0)
        found = values["Unpickler"](file).load()
        assert (type(found), found) == (type(value), value)


def test_programs_before_this_one_miss_what_it_writes(values: dict[str, Any]) -> None:
    """They catch whatever their unpickler raises."""
    file = io.BytesIO()
    values["Pickler"](file).dump(CachedValue("a", {"ct": 1.5, "v": 2}))
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(file.getvalue())


@pytest.mark.security
def test_a_small_compressed_value_with_large_content_is_refused(
    values: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert values["value_of"](zlib.compress(bytes(1024 * 1024)), COMPRESSED) == bytes(1024 * 1024)
    for size in (1024 * 1024 + 1, 50_000_000):
        assert values["value_of"](zlib.compress(bytes(size)), COMPRESSED) is None
    assert [record.getMessage() for record in caplog.records] == [
        "A value of Memcached is refused: ValueError: it is cut off, or larger than any that is stored"
    ] * 2
