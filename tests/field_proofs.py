"""Which tests prove which fields: reads the markers `proves` of all tests, without running any.

A test says `@pytest.mark.proves("Glance", "spec.replicas")`; `says="not supported"` or `says="does nothing"` is for one
that shows that a field is answered so. Run as a program, this prints them as JSON.
"""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("tests.field_proofs")

import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from tests.fields import PAGE, ROOT, Proof, page

_CHOICES = ("keyword", "markexpr", "deselect", "lf", "stepwise")
"""Options of pytest that leave out tests of the files that it read."""


def proofs(session: pytest.Session) -> list[Proof]:
    """All of them, of each test as often as it is parametrized. A run of all tests has read them already, which takes
    ten seconds of CPU.
    """
    if _has_all(session):
        collector = _Collector()
        collector.pytest_collection_modifyitems(session.items)
        return sorted(set(collector.found))
    done = subprocess.run(
        [sys.executable, "-m", "tests.field_proofs"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"tests cannot be collected: {done.stderr}{done.stdout}")
    return [Proof(*each) for each in json.loads(done.stdout)]


def _has_all(session: pytest.Session) -> bool:
    """Whether a run has every test that may have a marker."""
    is_chosen = any(getattr(session.config.option, name, None) for name in _CHOICES)
    is_named = any("::" in argument for argument in session.config.args)
    return not (is_chosen or is_named) and set(_marked()) <= {str(item.path) for item in session.items}


class _Collector:
    def __init__(self) -> None:
        self.found: list[Proof] = []

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            module = item.nodeid.partition("::")[0]
            test = item.name if "callspec" in item.__dict__ and _of_one(item) else item.name.partition("[")[0]
            for marker in item.iter_markers("proves"):
                kind, *paths = marker.args
                says = marker.kwargs.get("says", "")
                self.found += [Proof(kind, path, says, module, test) for path in paths]


def _of_one(item: pytest.Item) -> bool:
    """Whether it is marked for its own parameters, and not with all others."""
    return any(marker in getattr(item, "callspec").marks for marker in item.iter_markers("proves"))  # noqa: B009


def _marked() -> Iterator[str]:
    """Files that may have markers, since to import all would take a while."""
    for path in sorted((ROOT / "tests").glob("*/**/test_*.py")):
        if re.search(r"proves|tests\.field_effects", path.read_text(encoding="utf-8")):
            yield str(path)


def _collected() -> list[Proof]:
    collector = _Collector()
    options = ["--collect-only", "-q", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider"]
    # What the fields are read from is imported before pytest is.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = pytest.main([*options, f"--rootdir={ROOT}", *_marked()], plugins=[collector])
    if status:
        raise SystemExit(said.getvalue())
    return sorted(set(collector.found))


if __name__ == "__main__":
    found = _collected()
    if "--write" in sys.argv:
        (ROOT / PAGE).parent.mkdir(exist_ok=True)
        (ROOT / PAGE).write_text(page(found), encoding="utf-8")
    else:
        print(json.dumps(found))
