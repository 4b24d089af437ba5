"""The releases this operator knows, from the YAML files packaged with it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import structlog
import yaml

from .api import Model
from .plan import Release, SpecError
from .plan.release import OptionLists, parse

HERE = Path(__file__).parent
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C is 8 times as fast, where PyYAML was built with it."""
_log: structlog.stdlib.BoundLogger = structlog.get_logger()

Version = tuple[int, int, int]
"""Inode, time and size of a file, which change with each version of it: a mounted ConfigMap changes by another folder
behind a symlink, an editor writes a new file or into the old one."""


def packaged() -> Path:
    """Return the folder of releases: inside the installed package, or at the root of a checkout."""
    inside = HERE / "releases"
    return inside if inside.is_dir() else HERE.parent.parent / "releases"


@dataclass
class _File:
    """Last readable version of a file, and its releases by profile."""

    version: Version
    content: dict[str, Any]
    parsed: dict[str, Release] = field(default_factory=dict[str, Release])
    broken: Version | None = None
    """The version that cannot be read and is not used, said already."""


class ReleaseFiles:
    """Answers which release a spec asks for; a file is read again when it changes."""

    def __init__(self, *folders: Path) -> None:
        """`folders` are looked through in order."""
        self._folders = folders or (packaged(),)
        self._read: dict[Path, _File] = {}

    def __call__(self, spec: Model) -> Release:
        """Return the release of a spec; the newest if it names none. Raises SpecError for an unknown one."""
        files = self._files()
        name = str(getattr(spec, "release", "") or spec.runs_release or self._newest())
        profile = str(getattr(spec, "image_profile", "debian"))
        if name not in files:
            # A ControlPlane of c5c3.io has it there.
            path = "spec.release" if hasattr(spec, "release") else "spec.global.release"
            raise SpecError(path, f"there is no release {name!r}; choose from {', '.join(sorted(files))}")
        file = self._current(files[name])
        if profile not in file.parsed:
            # An upgrade may leave one release out.
            earlier = _merge(self._options(each) for each in files if each < name)
            file.parsed[profile] = parse(file.content, profile, self._options(name), earlier)
        return file.parsed[profile]

    def _newest(self) -> str:
        """Return the newest release of the first folder that has any; others may name images that no registry has."""
        names_by_folder = (sorted(path.stem for path in folder.glob("*.yaml")) for folder in self._folders)
        return next((names[-1] for names in names_by_folder if names), "")

    def _options(self, release: str) -> OptionLists:
        """Return the options of a release's programs, from the first folder that lists them."""
        paths = (folder / "options" / f"{release}.txt" for folder in self._folders)
        return next((_options(path.read_text("utf-8")) for path in paths if path.is_file()), {})

    def all_options(self) -> OptionLists:
        """Return the options of all releases together."""
        return _merge(self._options(each) for each in self._files())

    def versions(self) -> dict[Path, Version | None]:
        """Return the version of each file, None if it leads nowhere. It differs once a file was added, deleted or
        changed.
        """
        return {path: _version(path) for path in self._files().values()}

    def _files(self) -> dict[str, Path]:
        """Return paths by name of the release; the first folder that has one wins."""
        return {path.stem: path for folder in reversed(self._folders) for path in sorted(folder.glob("*.yaml"))}

    def _current(self, path: Path) -> _File:
        """Return the present file; its last readable version where it cannot be read any more, which is logged once.
        Raises SpecError where it never could be read.
        """
        cached_file, version = self._read.get(path), _version(path) or (0, 0, 0)
        if cached_file and version in {cached_file.version, cached_file.broken}:
            return cached_file
        try:
            self._read[path] = _File(version, _content(path, version))
        except (OSError, ValueError, yaml.YAMLError) as error:
            # PyYAML quotes the file over several lines.
            why = " ".join(str(error).split())[:300]
            if cached_file is None:
                raise SpecError("spec.release", f"{path.name} cannot be read: {why}") from None
            if cached_file.broken != version:
                _log.error("release file is broken; its previous version stays in use", path=str(path), error=why)
            cached_file.broken = version
            return cached_file
        if cached_file:
            _log.info("release file has changed", path=str(path))
        return self._read[path]


def _options(text: str) -> dict[str, dict[str, dict[str, str]]]:
    """Return the lines of options by service, section and name: a line for a service in brackets, one for each of its
    sections, and then one for each option there.
    """
    services: dict[str, dict[str, dict[str, str]]] = {}
    sections: dict[str, dict[str, str]] = {}
    options: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("  "):
            name, _, details = line[2:].partition(" ")
            # Most services and releases have the same ones.
            options[sys.intern(name)] = sys.intern(details)
        elif line.startswith("["):
            sections = services.setdefault(line.strip("[]"), {})
        elif line:
            options = sections.setdefault(line, {})
    return services


def _merge(all_lists: Iterable[OptionLists]) -> OptionLists:
    """Return the options that one of the lists has."""
    merged: dict[str, dict[str, dict[str, str]]] = {}
    for lists in all_lists:
        for service, sections in lists.items():
            for section, options in sections.items():
                merged.setdefault(service, {}).setdefault(section, {}).update(options)
    return merged


def _version(path: Path) -> Version | None:
    """Return the version of a file as it is now; None if it is gone, or a symlink that leads nowhere."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=8)
def _content(path: Path, _: Version) -> dict[str, Any]:
    """Return the content of a version of a file, every profile of which is a release, cached since each command and
    each test has its own ReleaseFiles; callers must not change it. Raises ValueError, YAMLError or OSError.
    """
    content = yaml.load(path.read_bytes(), _LOADER)  # noqa: S506  (a SafeLoader)
    try:
        for profile in content["profiles"]:
            parse(content, profile)
    except (LookupError, TypeError, AttributeError, SpecError) as error:
        raise ValueError(
            f"not a release file: {type(error).__name__} {error}; compare it with a packaged one"
        ) from None
    return content
