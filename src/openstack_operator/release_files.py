"""The releases this operator knows, from the YAML files packaged with it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from .api import Model
from .plan import Release, SpecError
from .plan.release import parse

HERE = Path(__file__).parent


def packaged() -> Path:
    """The folder of releases: inside the installed package, or at the root of a checkout."""
    inside = HERE / "releases"
    return inside if inside.is_dir() else HERE.parent.parent / "releases"


class ReleaseFiles:
    """Answers which release a spec asks for; each file is read once."""

    def __init__(self, *folders: Path) -> None:
        """`folders` are looked through in order."""
        self._folders = folders or (packaged(),)
        self._parsed: dict[tuple[str, str], Release] = {}

    def __call__(self, spec: Model) -> Release:
        """The release of a spec; resources that run nothing get the newest one. Raises SpecError for an unknown one."""
        files = self._files()
        name = str(getattr(spec, "release", max(files)))
        profile = str(getattr(spec, "image_profile", "debian"))
        if (name, profile) not in self._parsed:
            if name not in files:
                raise SpecError("spec.release", f"there is no release {name!r}; choose from {', '.join(sorted(files))}")
            self._parsed[name, profile] = parse(_read(files[name]), profile)
        return self._parsed[name, profile]

    def _files(self) -> dict[str, Path]:
        """Path by name of the release; the first folder that has one wins."""
        return {path.stem: path for folder in reversed(self._folders) for path in sorted(folder.glob("*.yaml"))}


@cache
def _read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_bytes())
