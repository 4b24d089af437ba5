"""Searches sources for ways in which a test can pass without having checked anything."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_BROAD = ("Exception", "BaseException", "AssertionError")
_CHECKS = ("until", "eventually", "check", "verify", "judge", "expect", "refuse", "reaches", "approves", "must")
"""Beginnings of names of functions that fail if something is not so."""
_AS_FULL = ("enumerate", "zip", "sorted", "list", "set", "tuple", "reversed", "pairwise", "product", "permutations")
"""Functions whose result is empty only if their arguments are."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Excuse:
    """A place where a test can pass without a check."""

    function: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.function}, line {self.line}: {self.reason}"


def of_file(path: Path) -> Iterator[Excuse]:
    """Yield the excuses of a file."""
    yield from of_source(path.read_text(encoding="utf-8"))


def of_source(source: str) -> Iterator[Excuse]:
    """Yield the excuses of a source."""
    tree = ast.parse(source)
    # A function inside of another one is part of that.
    nested = {inner for each in _functions(tree) for inner in _functions(each) if inner is not each}
    for function in _functions(tree):
        if function not in nested:
            yield from _of_function(function)


def _functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _of_function(function: Function) -> Iterator[Excuse]:
    asserts = [node for node in ast.walk(function) if isinstance(node, ast.Assert)]
    found = [*_swallowed(function), *_ignored(function)]
    if function.name.startswith("test_"):
        found += [*_skips(function), *_early_returns(function, asserts)]
        if asserts and not _is_checked(function.body, _helpers(function)):
            found.append((function, "each assertion is in a loop that may be empty, or under a condition"))
    for node, reason in found:
        yield Excuse(function.name, getattr(node, "lineno", function.lineno), reason)


def _skips(function: Function) -> Iterator[tuple[ast.AST, str]]:
    """Skips inside of a test, which may come after a measurement; marks and fixtures decide before."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("pytest.skip", "pytest.xfail"):
            yield node, "it skips itself"
        if isinstance(node, ast.Attribute) and node.attr in ("xfail", "flaky") and "mark" in ast.unparse(node.value):
            yield node, "it may fail"


def _early_returns(function: Function, asserts: Sequence[ast.Assert]) -> Iterator[tuple[ast.AST, str]]:
    last = max((each.lineno for each in asserts), default=0)
    helpers = _helpers(function)
    for block in _blocks(function.body):
        for number, node in enumerate(block):
            before = [*block[:number], *(each for each in function.body if each.lineno < block[0].lineno)]
            if isinstance(node, ast.Return) and node.lineno < last and not _is_checked(before, helpers):
                yield node, "it returns before it has checked anything"


def _blocks(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    yield body
    for node in _own(body):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block
        for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield inner.body


def _own(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements and those below them, without those of functions and classes inside."""
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        yield statement
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.stmt):
                yield from _own([child])
            elif isinstance(child, ast.ExceptHandler | ast.match_case):
                yield from _own(child.body)


def _swallowed(function: Function) -> Iterator[tuple[ast.AST, str]]:
    """Assertions whose failure is caught."""
    for node in ast.walk(function):
        if isinstance(node, ast.Try):
            broad = [each for each in node.handlers if each.type is None or _is_broad(each.type)]
            is_caught = any(not any(isinstance(inner, ast.Raise) for inner in ast.walk(each)) for each in broad)
        elif isinstance(node, ast.With | ast.AsyncWith):
            calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
            is_caught = any(_name(call) == "suppress" and any(map(_is_broad, call.args)) for call in calls)
        else:
            continue
        if is_caught and any(isinstance(inner, ast.Assert) for each in node.body for inner in ast.walk(each)):
            yield node, "a failed assertion is caught"


def _is_broad(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id in _BROAD for inner in ast.walk(node))


def _ignored(function: Function) -> Iterator[tuple[ast.AST, str]]:
    """Results of commands at which nobody looks."""
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "subprocess.run"
        ):
            given = {word.arg: word.value for word in node.value.keywords}
            if not (isinstance(check := given.get("check"), ast.Constant) and check.value is True):
                yield node, "nobody looks at the result of a command"


def _helpers(function: Function) -> set[str]:
    """Functions inside of a test that check something whenever they are called."""
    return {inner.name for inner in _functions(function) if inner is not function and _is_checked(inner.body, set())}


def _is_checked(statements: Iterable[ast.stmt], helpers: set[str]) -> bool:
    """Return True if statements check something, whatever the values are."""
    return any(_checks(statement, helpers) for statement in statements)


def _checks(node: ast.stmt, helpers: set[str]) -> bool:
    match node:
        case ast.Assert():
            return True
        case ast.With() | ast.AsyncWith():
            managers = [_name(item.context_expr) for item in node.items if isinstance(item.context_expr, ast.Call)]
            return bool({"raises", "warns"} & {*managers}) or _is_checked(node.body, helpers)
        case ast.For() | ast.AsyncFor():
            return _is_full(node.iter) and _is_checked(node.body, helpers)
        case ast.Try():
            return _is_checked([*node.body, *node.finalbody], helpers)
        case ast.If():
            return bool(node.orelse) and _is_checked(node.body, helpers) and _is_checked(node.orelse, helpers)
        case ast.Match():
            return all(_is_checked(case.body, helpers) for case in node.cases)
        case ast.Expr() | ast.Assign() | ast.AnnAssign():
            names = {_name(call).lstrip("_") for call in ast.walk(node) if isinstance(call, ast.Call)}
            used = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            return any(name.startswith(_CHECKS) for name in names) or bool(used & helpers)
        case _:
            return False


def _is_full(node: ast.expr) -> bool:
    """Return True if what is looped over is never empty: what is written out, or a constant."""
    match node:
        case ast.Tuple() | ast.List() | ast.Set():
            return any(not isinstance(each, ast.Starred) or _is_full(each.value) for each in node.elts)
        case ast.Dict():
            return bool(node.keys)
        case ast.Constant():
            return bool(node.value)
        case ast.Name():
            return node.id.isupper()
        case ast.Attribute():
            return node.attr.isupper()
        case ast.Subscript():
            return _is_full(node.value)
        case ast.Call() if _name(node) in _AS_FULL:
            return bool(node.args) and all(_is_full(each) for each in node.args)
        case ast.Call() if _name(node) in ("items", "values", "keys") and isinstance(node.func, ast.Attribute):
            return _is_full(node.func.value)
        case ast.Call():
            return _name(node) == "range"
        case _:
            return False


def _name(node: ast.expr) -> str:
    """Return the name of a function that is called."""
    target = node.func if isinstance(node, ast.Call) else node
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
