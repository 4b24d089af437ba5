"""Results of `go test` as lines of the form that logs of Tempest have."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

ROOT = "github.com/gophercloud/gophercloud/v2/internal/acceptance/openstack"
_OUTCOMES = {"pass": "passed", "fail": "failed", "skip": "skipped"}
_TEST = re.compile(r"Test\w+")
_COLOR = re.compile(r"\x1b\[[\d;]*m")
_SAID = re.compile(r"\s+\S+\.go:\d+: (.*)")
"""What a test says: the last of it is why it is skipped."""


def lines(output: Iterable[str]) -> Iterator[str]:
    """Yield a line for each test as it ends, and for each package that ends before its tests do, after what they said.
    Parts of a test count as the test.
    """
    said: dict[tuple[str, str], list[str]] = defaultdict(list)
    running: set[tuple[str, str]] = set()
    for event in _events(output):
        package, test = _package(event.get("Package") or event.get("ImportPath", "")), event.get("Test", "")
        key = package, test.partition("/")[0]
        match event["Action"]:
            case "output" | "build-output":
                said[key].append(_COLOR.sub("", event["Output"].rstrip("\n")))
            case "run" if "/" not in test:
                running.add(key)
            case "pass" | "fail" | "skip" as action if test and "/" not in test:
                running.discard(key)
                yield from _ended(_OUTCOMES[action], key, said.pop(key, []))
            case "fail" if not test:
                # What did not compile, or was stopped.
                for each in sorted(each for each in running if each[0] == package):
                    yield from _ended("failed", each, said.pop(each, []))
                running = {each for each in running if each[0] != package}
                yield from said.pop(key, [])
            case _:
                pass


def names(output: Iterable[str]) -> list[str]:
    """Return the tests that `go test -list -json` lists."""
    events = _events(output)
    found = [(_package(event.get("Package", "")), event.get("Output", "").strip()) for event in events]
    return [_name(package, test) for package, test in found if _TEST.fullmatch(test)]


def _ended(outcome: str, key: tuple[str, str], said: list[str]) -> Iterator[str]:
    reasons = [match[1] for line in said if (match := _SAID.match(line))]
    reason = f": {reasons[-1]}" if outcome == "skipped" and reasons else ""
    yield f"{outcome:9}{_name(*key)}{reason}"
    if outcome == "failed":
        yield from (f"    {line}" for line in said)


def _events(output: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in output:
        if line.startswith("{"):
            yield json.loads(line)


def _package(path: str) -> str:
    return path.partition(" ")[0].removeprefix(ROOT).strip("/").replace("/", ".")


def _name(package: str, test: str) -> str:
    return f"{package}.{test}" if package else test
