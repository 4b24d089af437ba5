"""What a run of Tempest uses of testtools: tests come as lines of JSON (`subunit` beside this file)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Text:
    """Detail of a test."""

    class content_type:  # noqa: N801
        """Its type."""

        type = "text"

    def __init__(self, text: str) -> None:
        self._text = text

    def as_text(self) -> str:
        return self._text


class StreamToDict:
    """Receiver of tests, which calls a function for each: at its end, or at the end of the stream."""

    def __init__(self, on_test: Callable[[dict[str, Any]], None]) -> None:
        self._on_test = on_test
        self._tests: dict[str, dict[str, Any]] | None = None

    def startTestRun(self) -> None:
        self._tests = {}

    def add(self, test: dict[str, Any]) -> None:
        assert self._tests is not None
        test["details"] = {name: Text(text) for name, text in test.get("details", {}).items()}
        self._tests[test["id"]] = test
        if test["status"] != "inprogress":
            self._on_test(self._tests.pop(test["id"]))

    def stopTestRun(self) -> None:
        for test in (self._tests or {}).values():
            self._on_test(test)
