"""Images of the operators: built once, one program each, and kept in the cache as archives."""

from __future__ import annotations

import hashlib
import platform
import shutil
from pathlib import Path

from localcluster import archives, build, paths

from .catalog import Operator
from .modules import folders

_PREFIX = "localhost/operators"
_FLAGS = ("-p=2", "-trimpath", "-buildvcs=false", "-ldflags=-s -w")
# Their pods may not run as root, and most do not say as whom.
_USER = "65532:65532"


def reference(operator: Operator) -> str:
    """The full name of an operator's image; its tag changes with what goes in."""
    return f"{_PREFIX}/{operator.name}:{_digest(operator)}"


def archive(operator: Operator) -> Path:
    """The archive with the operator's image, built if it is not there.

    Raises BuildError where Go is missing, its module cannot be had, or the build fails.
    """
    target = paths.cache() / "operators" / f"{operator.name}-{_digest(operator)}"
    return build.once(target, operator.name, operator.minutes, lambda fresh: _pack(operator, fresh)) / "image.tar"


def _pack(operator: Operator, fresh: Path) -> None:
    module = folders([operator.module])[operator.module]
    program = fresh / operator.name
    flags = [*_FLAGS, *_exchanged(operator, module, fresh), f"-o={program}"]
    build.go(module, "build", *flags, operator.package)
    archives.write(fresh / "image.tar", reference(operator), [program], user=_USER)
    # The archive has all of it.
    for path in fresh.iterdir():
        if path.name != "image.tar":
            path.unlink()


def _exchanged(operator: Operator, module: Path, fresh: Path) -> list[str]:
    """Options for a go.mod beside the module's own, where it has to ask for something else."""
    if not operator.instead:
        return []
    folders(operator.instead)
    for name in ("go.mod", "go.sum"):
        # Modules are read-only.
        shutil.copyfile(module / name, fresh / name)
    with (fresh / "go.sum").open("a", encoding="utf-8") as sums:
        sums.writelines(f"{each.path} {each.version} {each.sum}\n" for each in operator.instead)
    for each in operator.instead:
        build.go(module, "mod", "edit", f"-replace={each.path}={each}", str(fresh / "go.mod"))
        # Notes down the sum of its go.mod, too, without which nothing is built.
        build.go(module, "mod", "download", f"-modfile={fresh / 'go.mod'}", each.path)
    return [f"-modfile={fresh / 'go.mod'}"]


def _digest(operator: Operator) -> str:
    parts = (operator.module, operator.package, operator.instead, _FLAGS, _USER, platform.machine())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
