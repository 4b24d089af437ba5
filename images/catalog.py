"""The images of this checkout: what goes into each, and the tag that follows from it."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from images import locks, patches
from openstack_operator import __version__

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
AGENTS = ROOT / "src" / "openstack_operator" / "agents"
PREFIX = "localhost/openstack-operator"

DEBIAN = "debian"
"""The image below `base`: Debian itself, made by a bootstrap and not by a Containerfile."""

SUITE = "trixie"

RELEASE = "2025.1"
"""The default release of OpenStack, which is Debian's."""

TOOLS = frozenset({"amphora", "guest"})
"""Images that only build something; no pod runs them."""

FOR_TESTS = frozenset({"ceph-rook"})
"""Images that pods of other operators run in tests, and no pod of a cloud."""

OTHER_VERSIONS = frozenset({"mariadb-10.11", "ovn-26.03", "rabbitmq-4.3"})
"""Images of a program in another version than the one that clouds get by default. Pods run them only if a resource asks
for it, so they are built only if they are named."""

_LABEL = "org.opencontainers.image"
_BUILD = re.compile(rf"{PREFIX}/(?P<name>[\w.-]+):build\b")
"""An image of ours in a release file."""
_OF_RELEASE = re.compile(r"(?P<recipe>.+)-(?P<release>\d{4}\.\d)")
"""An image that is made for one release, of packages of the index: keystone-2026.1."""
_PARENT = re.compile(rf"^ARG PARENT={PREFIX}/(?P<name>[\w-]+)$", re.MULTILINE)


RECIPES = locks.FOLDER
"""Recipes of such images. One makes the image for each release that has a lock file."""


class File(NamedTuple):
    """A file of a build context."""

    content: bytes
    executable: bool = False


def is_pristine() -> bool:
    """Return True if `PRISTINE=1` asks for images without the patches of images/patches."""
    return os.environ.get("PRISTINE", "0") not in ("", "0")


@functools.cache
def names() -> tuple[str, ...]:
    """Return all images with a Containerfile, each after its parent, those for one release after the others."""
    recipes = [path.parent.name for path in RECIPES.glob("*/Containerfile")]
    of_all = _sorted({path.parent.name: parent(path.parent.name) for path in FOLDER.glob("*/Containerfile")}, [DEBIAN])
    of_releases = {name: parent(name) for release in locks.releases() for name in (f"{r}-{release}" for r in recipes)}
    return tuple(_sorted(of_releases, of_all)[1:])


def _sorted(parents: dict[str, str], order: list[str]) -> list[str]:
    """Return the order with the images of `parents` after it."""
    order = list(order)
    while parents:
        ready = sorted(name for name, below in parents.items() if below in order)
        if not ready:
            raise ValueError(f"images {', '.join(sorted(parents))}: no such parent as {sorted(set(parents.values()))}")
        order += ready
        for name in ready:
            del parents[name]
    return order


def _of_release(name: str) -> tuple[str, str]:
    """Return the recipe and the release of an image that is made for one; elsewhere the name and an empty release."""
    match = _OF_RELEASE.fullmatch(name)
    return (match["recipe"], match["release"]) if match else (name, "")


def _folder(name: str) -> Path:
    """Return the folder with the image's Containerfile."""
    recipe, release = _of_release(name)
    return RECIPES / recipe if release else FOLDER / name


def name_in(image: str, release: str) -> str:
    """Return the name of the image of a release, which is its own unless all releases have one."""
    of_release = f"{image}-{release}"
    return of_release if of_release in names() else image


def deployed() -> tuple[str, ...]:
    """Return the images that pods of the default release run. Base images, tools, images for tests alone and those of
    other versions are left out.
    """
    not_deployed = {DEBIAN, "base", "oslo", "python"} | TOOLS | FOR_TESTS | OTHER_VERSIONS
    return tuple(name for name in names() if name not in not_deployed and not _of_release(name)[1])


def of_release(release: str, *, all_versions: bool = False) -> list[str]:
    """Return the images that pods of a release run; with `all_versions` also those that run only if a resource names
    them. Raises FileNotFoundError for one without a file in releases/.
    """
    text = (ROOT / "releases" / f"{release}.yaml").read_text(encoding="utf-8")
    images = set(named_images(text)) - (frozenset() if all_versions else OTHER_VERSIONS)
    return [name for name in names() if name in images]


@functools.cache
def parent(name: str) -> str:
    """Return the base image of this one; that of the same release, if there is one."""
    containerfile = _folder(name) / "Containerfile"
    match = _PARENT.search(containerfile.read_text(encoding="utf-8"))
    if match is None:
        raise ValueError(f"{containerfile}: no line 'ARG PARENT={PREFIX}/...'")
    below, (_, release) = match["name"], _of_release(name)
    return f"{below}-{release}" if release and (RECIPES / below).is_dir() else below


@functools.cache
def files(name: str, *, pristine: bool = False) -> dict[str, File]:
    """Return the build context of an image: path → file. All of it counts for the tag. A `pristine` one has no patches.

    Read once: what is built must be what the tag was made from, also when a file is edited meanwhile.
    """
    recipe, release = _of_release(name)
    if release:
        return _files_of_release(name, recipe, release, pristine=pristine)
    context = _tree(FOLDER / name) | _programs(name)
    if applied := [patch for patch in patches.patches() if name in patch.images]:
        context |= _patches("patches", applied, pristine=pristine)
    if name == "python":
        context["requirements.lock"] = _file(ROOT / "requirements.lock")
    if name == "operator":
        for path, file in _tree(ROOT / "src" / "openstack_operator").items():
            context[f"openstack_operator/{path}"] = file
        for path in sorted((ROOT / "releases").glob("*.yaml")):
            content = resolved(path.read_text(encoding="utf-8"), leave="operator", pristine=pristine).encode()
            context[f"openstack_operator/releases/{path.name}"] = File(content)
        for path, file in _tree(ROOT / "releases" / "options").items():
            context[f"openstack_operator/releases/options/{path}"] = file
    return context


def _files_of_release(name: str, recipe: str, release: str, *, pristine: bool) -> dict[str, File]:
    """Return the files that the image of the default release has, too, the recipe's, and the packages that its parent
    lacks.
    """
    context = (_tree(FOLDER / recipe) if (FOLDER / recipe).is_dir() else {}) | _tree(RECIPES / recipe)
    context |= _programs(recipe)
    applied = [patch for patch in patches.of_release(release) if recipe in patch.images]
    # Python itself is Debian's.
    for folder, of_debian in {"patches": False, "patches-of-debian": True}.items():
        if some := [patch for patch in applied if patch.name.startswith("cpython/") == of_debian]:
            context |= _patches(folder, some, pristine=pristine)
    roots = context.pop("packages").content.decode().split()
    text = locks.requirements(release, roots, _roots(parent(name)))
    return context | ({"requirements.lock": File(text.encode())} if text else {})


def _programs(name: str) -> dict[str, File]:
    """Return the programs that pods with other images get from the operator."""
    return {"wsgi_errors": _file(AGENTS / "api" / "wsgi_errors.py")} if name == "oslo" else {}


def _roots(name: str) -> list[str]:
    """Return the packages that an image of a release and all below it are made of."""
    recipe, release = _of_release(name)
    if not release:
        return []
    return (RECIPES / recipe / "packages").read_text(encoding="utf-8").split() + _roots(parent(name))


def _patches(folder: str, applied: Iterable[patches.Patch], *, pristine: bool) -> dict[str, File]:
    """Return a folder of the context with these patches, and the program that applies them."""
    series = [] if pristine else list(applied)
    context = {f"{folder}/{path}": _file(file) for patch in series for path, file in patch.files()}
    context[f"{folder}/apply"] = _file(patches.FOLDER / "apply")
    context[f"{folder}/series"] = File("".join(f"{each.name}\n" for each in series).encode())
    return context


@functools.cache
def tag(name: str, *, pristine: bool = False) -> str:
    """Return the tag of an image, a digest of all that goes in: files, parent, and the day whose packages are wanted
    (images/epoch). The tag of an image without its patches ends in `-pristine`.
    """
    digest = _digest(name, pristine=pristine)
    return f"{digest}-pristine" if pristine and digest != _digest(name, pristine=False) else digest


def timestamp() -> int:
    """Return the time of all files in images, in seconds: midnight of the day in images/epoch. It follows from what the
    tag is made of, so that another build of the same content has the same digest.
    """
    day = (FOLDER / "epoch").read_text(encoding="utf-8").strip()
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())


def labels(name: str, *, pristine: bool = False) -> dict[str, str]:
    """Return the labels of an image. All follow from its content, so that the same content has the same digest: there
    is no commit among them, and no time.
    """
    version = __version__ if name == "operator" else tag(name, pristine=pristine)
    return {**_constant_labels(name), f"{_LABEL}.version": version}


def _constant_labels(name: str) -> dict[str, str]:
    return {f"{_LABEL}.title": name, f"{_LABEL}.vendor": "openstack-operator"}


def _digest(name: str, *, pristine: bool) -> str:
    state = hashlib.sha256()
    if name == DEBIAN:
        parts = {"dpkg.cfg": File((FOLDER / "base" / "dpkg.cfg").read_bytes())}
        state.update(f"{SUITE} {(FOLDER / 'epoch').read_text(encoding='utf-8')}".encode())
    else:
        parts = files(name, pristine=pristine)
        state.update(_digest(parent(name), pristine=pristine).encode())
        state.update(repr(sorted(_constant_labels(name).items())).encode())
    for path, file in sorted(parts.items()):
        state.update(f"\0{path}\0{file.executable}\0{len(file.content)}\0".encode() + file.content)
    return state.hexdigest()[:16]


def reference(name: str, prefix: str = PREFIX, *, pristine: bool = False) -> str:
    """Return the full name of an image, as in a pod's `image`; `prefix` is the registry it is pulled from."""
    return f"{prefix}/{name}:{tag(name, pristine=pristine)}"


def named_images(release: str) -> list[str]:
    """Return our images that the text of a release file names, each once."""
    return list(dict.fromkeys(match["name"] for match in _BUILD.finditer(release)))


def resolved(
    release: str, references: Mapping[str, str] | None = None, *, leave: str = "", pristine: bool = False
) -> str:
    """Return the text of a release file with every `:build` of our images replaced by the tag of this checkout, or by
    what `references` has for that image.

    `leave` names an image whose tag cannot be known yet.
    """

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        return match[0] if name == leave else (references or {}).get(name) or reference(name, pristine=pristine)

    return _BUILD.sub(fill, release)


def _tree(folder: Path) -> dict[str, File]:
    return {
        str(path.relative_to(folder)): _file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _file(path: Path) -> File:
    return File(path.read_bytes(), executable=bool(path.stat().st_mode & 0o100))
