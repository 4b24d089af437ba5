"""The check of names and prose finds what it is for, and passes what is right."""

from __future__ import annotations

import ast

import pytest

from tools.checks import language


@pytest.mark.parametrize(
    "code",
    [
        "found = 1",
        "_KEPT = 1",
        "def told(): ...",
        "class Seen: ...",
        "def f(wanted): ...",
        "for other in (): ...",
        '"""Whether it runs."""',
        '"""Say that nobody comes."""',
    ],
)
def test_code_that_is_hard_to_read_is_found(code: str) -> None:
    assert len([*language.of_code("x.py", ast.parse(code))]) == 1


@pytest.mark.parametrize("code", ["verdict = found", "founder = 1", "x.kept = 1", '"""Return True if it runs."""'])
def test_code_that_says_what_it_names_passes(code: str) -> None:
    assert [*language.of_code("x.py", ast.parse(code))] == []


@pytest.mark.parametrize(
    ("line", "problems"),
    [
        ("Whoever logs in is told of it.", 1),
        ("The operator logs each login.", 0),
        ("# Nobody", 0),
        ("`nobody` and [a link](nobody.md)", 0),
    ],
    ids=["phrase", "plain", "heading", "code and links"],
)
def test_prose(line: str, problems: int) -> None:
    assert len([*language.of_prose("x.md", line)]) == problems


@pytest.mark.parametrize(
    ("code", "problems"),
    [
        ("def test_rotation_keeps_the_old_login_until_pods_rolled(): ...", 0),
        ("async def test_what_is_kept(): ...", 1),
        ("class TestX:\n    def test_it(self): ...", 1),
        (f"def test_{'_'.join(['login'] * 12)}(): ...", 0),
        (f"def test_{'_'.join(['login'] * 13)}(): ...", 1),
        ("def what_is_kept(): ...", 0),
    ],
    ids=["plain", "pronoun", "method", "12 words", "13 words", "helper"],
)
def test_test_names_without_subject_or_too_long_are_found(code: str, problems: int) -> None:
    assert len([*language.of_tests("test_x.py", ast.parse(code))]) == problems
