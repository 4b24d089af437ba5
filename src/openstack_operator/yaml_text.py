"""Kubernetes objects as YAML people read: block style, scripts as literals, Secrets in plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from .kube import Object, secret_data

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C is 8 times as fast, where PyYAML was built with it. What users write is read by `offline`."""


class _Dumper(yaml.SafeDumper):
    """Writes every value where it stands: an alias saves bytes and costs the reader."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    lines = value.split("\n")
    # What a terminal hides is shown by its number, which only double quotes have.
    style = '"' if not all(line.replace("\t", "").isprintable() for line in lines) else "|" if len(lines) > 1 else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump(value: Any) -> str:
    """Return one YAML document; keys stay in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=120, allow_unicode=True)


def dump_all(objects: Iterable[Object]) -> str:
    """Return YAML documents, Secrets readable."""
    return "---\n".join(dump(readable(obj)) for obj in objects)


def readable(obj: Object) -> Object:
    """Return a Secret with its data in plain text, which `kubectl apply` accepts, too; other objects as they are."""
    if obj["kind"] != "Secret" or "data" not in obj:
        return obj
    return {**{name: value for name, value in obj.items() if name != "data"}, "stringData": secret_data(obj)}


def load(path: Path) -> list[Object]:
    """Return the objects of a file, or of every *.yaml in a folder."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [obj for file in files for obj in load_text(file.read_text(encoding="utf-8"))]


def load_text(text: str) -> list[Object]:
    """Return the objects of a text of YAML documents; `List` objects are taken apart."""
    return list(_objects(yaml.load_all(text, _LOADER)))


def _objects(documents: Iterable[Any]) -> Iterator[Object]:
    for document in documents:
        if document and document.get("kind") == "List":
            yield from _objects(document.get("items", ()))
        elif document:
            yield document
