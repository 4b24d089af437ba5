"""Custom resource definitions of others, from their own modules."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from .catalog import KINDS, Kinds
from .modules import folders

Object = dict[str, Any]
# libyaml is ten times as fast as PyYAML's own code, and these are megabytes; not every build of PyYAML has it.
_LOADER: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
# A lone `=`, which an enumeration of Prometheus' operator has, is a type of its own in YAML 1.1.
_LOADER.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_scalar)


def definitions(*names: str, only: Collection[str] = ()) -> list[Object]:
    """Return the definitions that the modules of these names in `KINDS` bring, sorted by name; with `only`, as
    `mariadbs.k8s.mariadb.com`, those alone.

    Raises ValueError for a name that there is not, BuildError for a module that cannot be had.
    """
    if unknown := sorted(set(names) - set(KINDS)):
        raise ValueError(f"there are no kinds of {', '.join(unknown)}; choose from {', '.join(KINDS)}")
    kinds = [KINDS[name] for name in names]
    sources = folders(each.module for each in kinds)
    read = [crd for each in kinds for path in paths(sources[each.module], each) for crd in load(path)]
    by_name = {crd["metadata"]["name"]: crd for crd in read}
    if lacking := sorted(set(only) - set(by_name)):
        raise ValueError(f"{', '.join(names)}: no definition of {', '.join(lacking)}")
    return [crd for name, crd in sorted(by_name.items()) if not only or name in only]


def paths(module: Path, kinds: Kinds) -> list[Path]:
    """Return the files of a module that hold definitions."""
    return sorted(path for pattern in kinds.files for path in module.glob(pattern))


def load(path: Path) -> list[Object]:
    """Return the definitions in a file."""
    objects = documents(path.read_text(encoding="utf-8"))
    return [each for each in objects if each["kind"] == "CustomResourceDefinition"]


def documents(text: str) -> list[Object]:
    """Return the objects of a text of YAML documents."""
    return [each for each in yaml.load_all(text, Loader=_LOADER) if each]
