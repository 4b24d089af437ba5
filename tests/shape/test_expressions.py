"""Regular expressions of the operator: none takes more than linear time, whatever it is asked of."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, permutations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from openstack_operator.api import crd
from openstack_operator.registry import RESOURCES

pytestmark = pytest.mark.security

ROOT = Path(__file__).parent.parent.parent
SRC = ROOT / "src"
SEARCHES = {"search", "sub", "subn", "split", "findall", "finditer"}
METHODS = {"compile", "match", "fullmatch", *SEARCHES}
LENGTH, GROWTH = 3_000, 4
LINEAR, QUADRATIC = GROWTH, GROWTH**2
SHORT = 24
"""Characters on which an expression of exponential time takes seconds."""
MUCH = 0.25
"""Seconds of CPU that nothing else takes for so few characters."""
LITTLE = 0.002
"""Seconds of CPU of which nothing can be said."""
BLOCKS = 3


@dataclass(frozen=True)
class Expression:
    """A regular expression, and how it is asked."""

    where: str
    pattern: re.Pattern[Any]
    method: str

    def ask(self, text: str) -> None:
        subject: Any = text.encode() if isinstance(self.pattern.pattern, bytes) else text
        for _ in self.pattern.finditer(subject) if self.method == "search" else (self._ask(subject),):
            pass

    def _ask(self, subject: Any) -> object:
        return getattr(self.pattern, self.method)(subject)


def expressions() -> Iterator[Expression]:
    """Every expression in the source, and those of the definitions, which `validate` asks."""
    for path in sorted(SRC.rglob("*.py")):
        yield from _of_module(path)
    for pattern in sorted(set(chain.from_iterable(_patterns(crd(resource)) for resource in RESOURCES))):
        yield Expression("definitions", re.compile(pattern), "search")


def _of_module(path: Path) -> Iterator[Expression]:
    text = path.read_text()
    if "import re\n" not in text:
        return
    tree = ast.parse(text)
    module: ModuleType | None = None
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.func.attr in METHODS):
            continue
        module = module or importlib.import_module(".".join(path.relative_to(SRC).with_suffix("").parts))
        where = f"{path.relative_to(ROOT)}:{node.lineno}"
        flags = _value(node.args[1], module) if node.func.attr == "compile" and len(node.args) > 1 else 0
        for argument in _values(node.args[0], module):
            for method in sorted(_methods(node, tree)):
                yield Expression(where, re.compile(argument, flags), method)


class Word(str):
    """What a function is given, as far as an expression has it in it."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Word:
        return self

    def __call__(self, *arguments: object) -> Word:
        return self


def _values(node: ast.expr, module: ModuleType) -> list[Any]:
    """What an argument may be: of a table, all that is in it; nothing of one that a user fills in a pod of theirs."""
    if not isinstance(node, ast.Subscript):
        return [_value(node, module)]
    return list(getattr(module, ast.unparse(node.value), {}).values())


def _value(node: ast.expr, module: ModuleType) -> Any:
    """What an argument is. Parameters of functions stand for a word."""
    code = compile(ast.Expression(node), "<argument>", "eval")
    names = {each.id: Word("word*word*word") for each in ast.walk(node) if isinstance(each, ast.Name)}
    known = {**vars(builtins), **vars(module), "re": re}
    return eval(code, {**names, **known})


def _methods(call: ast.Call, tree: ast.Module) -> set[str]:
    """How an expression is asked: from its start, as a whole, or anywhere, which is the default."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "compile":
        return {"search" if call.func.attr in SEARCHES else call.func.attr}
    name = next(
        (
            ast.unparse(node.targets[0])
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and any(each is call for each in ast.walk(node.value))
        ),
        "",
    )
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == name and node.attr in METHODS
    }
    return {"search" if method in SEARCHES else method for method in used} or {"search"}


def _patterns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(pattern := node.get("pattern"), str):
            yield pattern
        for value in node.values():
            yield from _patterns(value)
    elif isinstance(node, list):
        for value in node:
            yield from _patterns(value)


def hostile(expression: re.Pattern[Any], length: int) -> Iterator[str]:
    """Texts of that length on which an expression may go back and forth: long runs of what it takes, and almost a match
    for each of its parts, which ends in what it does not take.
    """
    text = expression.pattern.decode("latin-1") if isinstance(expression.pattern, bytes) else expression.pattern
    words = list(dict.fromkeys(re.findall(r"[A-Za-z]+|[^A-Za-z\\]", text)))[:24]
    alphabet = dict.fromkeys([*words, *"aA0_-. /:@,=\"'\\\n\t[{<"])
    blocks = [*alphabet, *("".join(pair) for pair in permutations([*alphabet][:14], 2))]
    for block in blocks:
        run = (block * length)[:length]
        yield f"{run}\x00"
        yield f"{words[0]}{run}\x00" if words else run
    for first in _starts(text):
        for block in alphabet:
            yield f"{first}{(block * length)[:length]}\x00"


def _starts(text: str) -> list[str]:
    """Texts with which a match may begin."""
    plain = re.sub(r"\(\?[a-z:!=<]+|[()^$?*+|]|\\[bBAZsSdDwW]|\{\d*,?\d*\}", " ", text)
    return [part for part in dict.fromkeys(re.split(r"[\s\[\]]+", plain)) if 0 < len(part) < 30][:8]


def seconds(expression: Expression, text: str) -> float:
    """CPU that an answer takes, at best."""
    return min(_once(expression, text) for _ in range(3))


def _once(expression: Expression, text: str) -> float:
    before = time.thread_time()
    expression.ask(text)
    return time.thread_time() - before


def slow(expression: Expression) -> str:
    """A text of which an answer takes more than linear time; empty where there is none."""
    for text in hostile(expression.pattern, SHORT):
        if _once(expression, text) > MUCH:
            return text
    for short, long in zip(
        hostile(expression.pattern, LENGTH), hostile(expression.pattern, LENGTH * GROWTH), strict=True
    ):
        if _once(expression, long) < LITTLE or (more := seconds(expression, long)) < LITTLE:
            continue
        if more > (LINEAR + QUADRATIC) / 2 * seconds(expression, short):
            return short[:60]
    return ""


EXPRESSIONS = list(expressions())


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda each: f"{each.where}-{each.method}")
def test_no_expression_takes_more_than_linear_time(expression: Expression) -> None:
    assert not slow(expression), expression.pattern.pattern


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*$", r"\s+$", r"a.*b.*c"])
def test_a_slow_expression_is_found(pattern: str) -> None:
    assert slow(Expression("here", re.compile(pattern), "search"))


def test_expressions_are_found() -> None:
    places = {expression.where.partition(":")[0] for expression in EXPRESSIONS}
    assert {"definitions", "src/openstack_operator/kube/quotes.py"} <= places
    assert len(EXPRESSIONS) > 60
