"""A node with a clock of its own: its containers get libfaketime, as the kernel has one clock for all of them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from . import paths
from .commands import CommandError, run
from .layout import Cluster

# The suite of the project's images: an older one's breaks programs that change their user, a newer one's needs a newer
# C library than theirs.
_SUITE = "trixie"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_LIBRARY = "libfaketime.so.1"
_OFFSET = "faketimerc"
# Inside a container; what is loaded first is read from the files in /etc, so that no program loses it with its
# environment.
_TARGETS = {
    _LIBRARY: f"/usr/lib/{_LIBRARY}",
    "ld.so.preload": "/etc/ld.so.preload",
    _OFFSET: "/etc/faketimerc",
}
# Intervals stay true, as with a real clock that is wrong. Shared counters are only for features not used here.
_ENVIRONMENT = ("FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DISABLE_SHM=1", "FAKETIME_CACHE_DURATION=1")


def set_clock(cluster: Cluster, node_name: str, seconds: int) -> None:
    """Set the clock of containers that start on the node from now on: `seconds` ahead, or behind if negative; 0 is the
    true time.

    Those started since an earlier call follow within seconds. Only programs linked to glibc dynamically are deceived:
    Python, MariaDB, RabbitMQ, Open vSwitch; not those written in Go, kubelet and etcd among them.
    Raises CommandError where the library, a Debian package, cannot be fetched the first time.
    """
    folder = cluster.node_called(node_name).home / "clock"
    library = _library()
    folder.mkdir(exist_ok=True)
    if not (folder / _LIBRARY).exists():
        shutil.copy(library, folder / _LIBRARY)
    # In place: containers hold on to these very files.
    (folder / "ld.so.preload").write_text(f"{_TARGETS[_LIBRARY]}\n")
    (folder / _OFFSET).write_text(f"{seconds:+d}\n")
    if seconds:
        (folder / "wrong").touch()
    else:
        (folder / "wrong").unlink(missing_ok=True)


def runtime(folder: Path) -> str:
    """Return a script that containerd calls as its runtime: it puts the library into containers while the clock is
    wrong.

    `folder` is where `set_clock` writes, as the node sees it. containerd hands over JSON in one line in which quotes in
    values are escaped, so that the patterns match nothing but keys. A program started in a container later may find the
    library there even when the clock is true again, and needs its settings then.
    """
    mounts = "".join(
        f'{{"destination":"{target}","type":"bind","source":"{folder / name}","options":["rbind","ro"]}},'
        for name, target in _TARGETS.items()
    )
    environment = "".join(f'"{setting}",' for setting in _ENVIRONMENT)
    return f"""#!/bin/sh
if [ -e {folder / _OFFSET} ]; then
  before=
  for argument; do
    case $before in
      --bundle) [ ! -e {folder}/wrong ] || sed -i -e '{_ahead("env", environment)}' -e '{_ahead("mounts", mounts)}' \\
        "$argument/config.json" ;;
      --process) sed -i -e '{_ahead("env", environment)}' "$argument" ;;
    esac
    before=$argument
  done
fi
exec crun "$@"
"""


def _ahead(key: str, items: str) -> str:
    """Return the sed command that puts items at the beginning of a list."""
    return f's|"{key}":\\[|&{items}|'


def _library() -> Path:
    """Return the library from the Debian archive, checked by apt like any package, and kept in the cache."""
    library = paths.cache() / "localcluster" / f"{_SUITE}-{_LIBRARY}"
    if library.exists():
        return library
    if not shutil.which("apt-get"):
        raise CommandError("set_clock: libfaketime is taken from Debian's archive with apt-get, which is not there")
    mirrors = run(
        "apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Created-By: Packages"
    ).split()
    if not mirrors:
        raise CommandError(
            "set_clock: apt has no source of Debian's archive to take libfaketime from; name one, run apt-get update"
        )
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        (work / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {mirrors[0]} {_SUITE} main\n")
        (work / "lists/partial").mkdir(parents=True)
        options = [
            f"Dir::Etc::sourcelist={work}/sources.list",
            "Dir::Etc::sourceparts=-",
            f"Dir::State::lists={work}/lists",
            f"Dir::Cache={work}",
            "APT::Sandbox::User=root",
        ]
        apt = ["apt-get", "--quiet=2", *(word for option in options for word in ("-o", option))]
        run(*apt, "update")
        run(
            "sh",
            "-euc",
            'cd "$1"; shift; "$@"; dpkg -x libfaketime_*.deb .',
            "sh",
            str(work),
            *apt,
            "download",
            "libfaketime",
        )
        fresh = library.with_suffix(".new")
        shutil.copy(next(work.glob(f"usr/lib/*/faketime/{_LIBRARY}")), fresh)
        fresh.rename(library)
    return library
