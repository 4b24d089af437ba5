"""Images are made from their contexts, parents first, two at a time."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from images import cache, catalog, wheels
from images.engine import Engine
from images.shell import say

PARALLEL = 2
"""dpkg unpacks on one core and waits for the disk in between; more builds only compete."""

_FROM = re.compile(r"^FROM .*\n", re.MULTILINE)

PRISTINE = {"oslo": {"CACHE_TIMEOUT": "1"}}
"""Build arguments in place of values that only patched code takes, by image."""


def missing(names: Iterable[str], present: set[str], *, pristine: bool = False) -> list[str]:
    """Return the images to build for `names`, each after its parent: no present one, nor a parent of only those."""
    needed: set[str] = set()
    for start in names:
        name = start
        while catalog.reference(name, pristine=pristine) not in present:
            needed.add(name)
            if name == catalog.DEBIAN:
                break
            name = catalog.parent(name)
    return [name for name in (catalog.DEBIAN, *catalog.names()) if name in needed]


def build(engine: Engine, requested: Iterable[str], *, pristine: bool = False) -> None:
    """Build what is missing of the images. A `pristine` image has other projects' code unchanged."""
    names = missing(requested, engine.references(), pristine=pristine)
    if not names:
        return
    say(f"building {', '.join(names)}")
    with ThreadPoolExecutor(PARALLEL) as pool:
        builds: dict[str, Future[None]] = {}
        for name in names:
            below = None if name == catalog.DEBIAN else builds.get(catalog.parent(name))
            builds[name] = pool.submit(_build_after, engine, name, below, pristine=pristine)
        for future in builds.values():
            future.result()


def _build_after(engine: Engine, name: str, below: Future[None] | None, *, pristine: bool) -> None:
    # A parent was submitted before its children, so it runs or is done: waiting for it cannot deadlock the pool.
    if below is not None:
        below.result()
    started = time.monotonic()
    context = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=cache.directory("contexts")))
    try:
        reference = catalog.reference(name, pristine=pristine)
        if name == catalog.DEBIAN:
            engine.base(reference, context)
        else:
            stage(name, context, pristine=pristine)
            arguments = {
                "PARENT": catalog.reference(catalog.parent(name), pristine=pristine),
                "SOURCE_DATE_EPOCH": str(catalog.timestamp()),
            }
            arguments |= PRISTINE.get(name, {}) if pristine else {}
            log = cache.directory("logs") / f"{name}{'-pristine' if pristine else ''}.log"
            engine.build(reference, context, arguments, log, catalog.labels(name, pristine=pristine))
    finally:
        shutil.rmtree(context)
    say(f"{name}: built in {time.monotonic() - started:.1f} s")


def stage(name: str, context: Path, *, pristine: bool = False) -> None:
    """Fill the directory with all that the image's Containerfile copies."""
    for path, file in catalog.files(name, pristine=pristine).items():
        target = context / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(0o755 if file.executable else 0o644)
    containerfile = context / "Containerfile"
    containerfile.write_text(with_time(containerfile.read_text(encoding="utf-8")), encoding="utf-8")
    if (lock := context / wheels.LOCK).exists():
        wheels.unpack(lock, context / "wheels")


def with_time(containerfile: str) -> str:
    """Return the Containerfile with SOURCE_DATE_EPOCH for its commands, and not for what runs in the image. All files
    of an image have that time, so Python must not compare the time in a .pyc with that of its source: with this
    variable it writes the hash of the source there. useradd takes the day of an account from it.
    """
    return _FROM.sub(r"\g<0>ARG SOURCE_DATE_EPOCH\n", containerfile)
