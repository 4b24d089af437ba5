"""Go modules on this machine, with the content that is pinned."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.localcluster.build import BuildError, go_problem

from .catalog import Module


def folders(modules: Iterable[Module]) -> dict[Module, Path]:
    """Return the folder of each unpacked module in Go's own cache; download it if it is absent.

    Raises BuildError where Go is missing, a version cannot be had, or its content is not what is pinned.
    """
    unique = list(dict.fromkeys(modules))
    if problem := go_problem():
        raise BuildError(f"go: {problem}")
    # Outside of any module, so that no go.mod has a say in what is meant.
    result = subprocess.run(
        ["go", "mod", "download", "-json", *map(str, unique)],
        cwd="/",
        env=os.environ | {"GOWORK": "off", "GONOSUMDB": unlisted(unique)},
        capture_output=True,
        text=True,
        check=False,
    )
    downloads = {f"{each['Path']}@{each['Version']}": each for each in answers(result.stdout)}
    return {module: checked(module, downloads.get(str(module), {"Error": result.stderr.strip()})) for module in unique}


def unlisted(modules: Iterable[Module]) -> str:
    """Return patterns of the modules for which Go's checksum database is not asked, including those of the user."""
    return ",".join(filter(None, (os.environ.get("GONOSUMDB", ""), *(each.path for each in modules if each.unlisted))))


def answers(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a text, which `go` writes one after the other."""
    decoder, values, at = json.JSONDecoder(), list[dict[str, Any]](), 0
    while at < len(text.rstrip()):
        value, end = decoder.raw_decode(text, at)
        values.append(value)
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return values


def checked(module: Module, answer: dict[str, Any]) -> Path:
    """Return the module's folder, from the output of `go mod download -json`."""
    if error := answer.get("Error"):
        raise BuildError(f"{module}: {error}")
    if answer["Sum"] != module.sum:
        raise BuildError(
            f"{module}: its content is {answer['Sum']}, and {module.sum} is pinned in tools/operators/catalog.py."
            " Where the version there is new, the sum has to be, too; otherwise somebody changed what was published"
        )
    return Path(answer["Dir"])
