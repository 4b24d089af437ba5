"""Images of the operators: built once, one program each, and kept in the cache as archives."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
from pathlib import Path

from images import archive as image_archives
from images import build as images
from images import catalog
from images.engine import engine
from tools.localcluster import archives, build, paths

from .catalog import HELM, Operator
from .modules import folders

SOURCES = Path(__file__).parent / "go"
"""Go files of this repository, by the name of the operator they are compiled with."""
_PREFIX = "localhost/operators"
_FLAGS = ("-trimpath", "-buildvcs=false", "-ldflags=-s -w")
# Their pods may not run as root, and most do not say as whom.
_USER = "65532:65532"


def reference(operator: Operator) -> str:
    """Return the full name of an operator's image; its tag changes with what goes in."""
    return f"{_PREFIX}/{operator.name}:{_digest(operator)}"


def archive(operator: Operator) -> Path:
    """Return the archive with the operator's image, built if it is missing.

    Raises BuildError where Go is missing, its module cannot be had, or the build fails.
    """
    target = paths.cache() / "operators" / f"{operator.name}-{_digest(operator)}"
    return build.once(target, operator.name, operator.minutes, lambda fresh: _pack(operator, fresh)) / "image.tar"


def helm_binary() -> Path:
    """Return the path of the program `helm`, which may not be built yet."""
    return paths.cache() / "operators" / f"helm-{_digest_of(HELM, _FLAGS)}" / "helm"


def helm() -> Path:
    """Return the program `helm`, built if it is missing. Raises BuildError if it cannot be built."""

    def make(fresh: Path) -> None:
        build.go(folders([HELM])[HELM], "build", *_parallel(), *_FLAGS, f"-o={fresh / 'helm'}", "./cmd/helm")

    return build.once(helm_binary().parent, "helm", 2, make) / "helm"


def _pack(operator: Operator, fresh: Path) -> None:
    with tempfile.TemporaryDirectory(dir=fresh) as folder:
        module = _merged(operator, Path(folder))
        # Some modules have a folder `vendor` without what is in it.
        flags = [*_parallel(), "-mod=readonly", *_FLAGS, *_exchanged(operator, module, fresh)]
        if operator.tags:
            flags.append(f"-tags={operator.tags}")
        packages = {operator.name: operator.package, **operator.programs}
        for name, package in packages.items():
            build.go(module, "build", *flags, f"-o={fresh / name}", package)
    target, name, binaries = fresh / "image.tar", reference(operator), [fresh / name for name in packages]
    if operator.base:
        archives.stack(_below(operator, fresh), target, name, binaries, _USER, folder=operator.folder)
    else:
        archives.write(target, name, binaries, _USER, folder=operator.folder)
    # The archive has all of it.
    for path in fresh.iterdir():
        if path.name != "image.tar":
            path.unlink()


def _below(operator: Operator, fresh: Path) -> Path:
    """Return an archive with the base image of the operator's, built if it is missing."""
    target, builder = fresh / "base.tar", engine()
    images.build(builder, [operator.base])
    image_archives.write(builder, [catalog.reference(operator.base)], target)
    return target


def _parallel() -> list[str]:
    """Return the option for the number of packages compiled at a time, unless the user sets it."""
    return [] if "-p=" in os.environ.get("GOFLAGS", "") else ["-p=2"]


def _merged(operator: Operator, folder: Path) -> Path:
    """Return the module's folder; if folders of ours replace some of its own, a copy with these."""
    module = folders([operator.module])[operator.module]
    files = _sources(operator)
    if not files:
        return module
    copy = folder / "module"
    # Modules are read-only.
    shutil.copytree(module, copy, copy_function=shutil.copyfile)
    for path in (copy, *copy.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    ours = SOURCES / operator.name
    for parent in {path.parent for path in files}:
        shutil.rmtree(copy / parent.relative_to(ours), ignore_errors=True)
    for path in files:
        target = copy / path.relative_to(ours)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return copy


def _sources(operator: Operator) -> list[Path]:
    return sorted((SOURCES / operator.name).rglob("*.go"))


def _exchanged(operator: Operator, module: Path, fresh: Path) -> list[str]:
    """Return the options for a go.mod beside the module's own, if it has to require other modules."""
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
    folder = [operator.folder] if operator.folder else []
    programs = (operator.package, sorted(operator.programs.items()), operator.tags, *folder)
    files = [(str(path.relative_to(SOURCES)), path.read_bytes()) for path in _sources(operator)]
    base = [catalog.reference(operator.base)] if operator.base else []
    return _digest_of(operator.module, programs, operator.instead, files, _FLAGS, _USER, *base)


def _digest_of(*parts: object) -> str:
    return hashlib.sha256(repr((*parts, platform.machine())).encode()).hexdigest()[:16]
