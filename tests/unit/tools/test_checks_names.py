"""Names in strings that nothing has."""

from __future__ import annotations

import ast

import pytest

from tools.checks.names_in_strings import of_code, of_page, read


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("getattr(one, 'made')", ["made"]),
        ("x = [getattr(one.writes, name) for name in ('made', 'created')]", ["made"]),
        ("for name in ('made',):\n    print(getattr(one, name))", ["made"]),
        ("getattr(one, 'created')", []),
        ("monkeypatch.setattr(one, 'made', 1)", ["made"]),
        ("monkeypatch.setattr(one, 'created', 1)", []),
        ("getattr(one, 'made', None)", []),
        ("for name in ('made',):\n    print(name)\nfor name in others:\n    getattr(one, name)", []),
    ],
)
def test_an_attribute_that_is_read_by_its_name_exists(code: str, missing: list[str]) -> None:
    lines = list(of_code("a.py", read(ast.parse(code)), {"created"}))
    assert [line.split("'")[1] for line in lines] == missing


def test_a_page_names_files_that_exist() -> None:
    files = ["src/openstack_operator/runtime/serve/health.py"]
    assert list(of_page("a.md", "see `runtime/serve/health.py` and `health.py`", files)) == []
    (line,) = of_page("a.md", "\nsee `runtime/healthy.py`", files)
    assert line == "a.md:2: there is no file runtime/healthy.py"
