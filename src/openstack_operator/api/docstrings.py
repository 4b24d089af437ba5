"""Docstrings below the fields of models, read from their source when a schema is made."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

_SCOPES = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def field_docstring(model: type[Any], field: str) -> str:
    """Return the docstring below a field in the class that declares it last; empty without one, or without source.

    pydantic's own `use_attribute_docstrings` reads the source of each class while it is made. That takes a third of the
    CPU of the import, and most processes never make a schema.
    """
    for base in model.__mro__:
        if field in inspect.get_annotations(base):
            return _by_class(base.__module__).get(base.__qualname__, {}).get(field, "")
    return ""


@cache
def _by_class(module: str) -> dict[str, dict[str, str]]:
    """Return docstrings by qualified name of the class and name of the field."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return {}
    return dict(_classes(ast.parse(source).body, ""))


def _classes(body: Sequence[ast.stmt], scope: str) -> Iterator[tuple[str, dict[str, str]]]:
    for node in body:
        if isinstance(node, _SCOPES):
            name = f"{scope}{node.name}"
            if isinstance(node, ast.ClassDef):
                yield name, dict(_fields(node))
            yield from _classes(node.body, f"{name}." if isinstance(node, ast.ClassDef) else f"{name}.<locals>.")


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(node.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match text:
                case ast.Expr(ast.Constant(value=str(docstring))):
                    yield field.target.id, inspect.cleandoc(docstring)
                case _:
                    pass
