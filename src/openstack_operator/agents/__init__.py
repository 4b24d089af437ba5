"""Programs that run in pods: a file each, which tests execute and linters read. Plans only carry their text.

A program takes its parameters from its environment and its arguments, and imports nothing of this operator but other
files that are delivered beside it. No other package imports a program: it may use modules that a
plan may not (`.importlinter`). Plans may import a module of rules without I/O, `mariadb.galera`: they judge a cluster
by the rules by which its members act.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Sequence
from functools import cache
from importlib import resources


@cache
def text(*names: str) -> str:
    """Return programs of this package, such as `etcd/start.sh`, one after the other: functions first."""
    return "".join(resources.files(__name__).joinpath(name).read_text(encoding="utf-8") for name in names)


def shell(*names: str, words: Sequence[str] = (), options: str = "-euc") -> list[str]:
    """Return the command that runs shell programs as one script, with `words` as its arguments: by the shell that the
    first line of the last one names. Processes show the last one's name as `$0`.
    """
    first_line = text(names[-1]).partition("\n")[0]
    return [first_line.rpartition("/")[2], options, text(*names), names[-1].rpartition("/")[2], *words]


@cache
def _without_prose(name: str) -> str:
    """Return a module without its docstrings, and without lines of comments: Linux takes 128 KiB in one argument
    (execve(2)), and the largest programs have more.
    """
    source = text(name)
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Module(body=[_, _, *_] as body) | ast.ClassDef(body=[_, _, *_] as body):
                pass
            case ast.FunctionDef(body=[_, _, *_] as body) | ast.AsyncFunctionDef(body=[_, _, *_] as body):
                pass
            case _:
                continue
        for statement in body:
            match statement:
                case ast.Expr(value=ast.Constant(value=str()), lineno=begin, end_lineno=int(end)):
                    left_out.update(range(begin, end + 1))
                case _:
                    pass
    lines = source.splitlines(keepends=True)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip()
    }
    return "".join(line for number, line in enumerate(lines, 1) if number not in left_out | comments)


_IMPORT = re.compile(r"^from (?:__future__|\.\w+) import (?:\([^)]*\)|.*)\n", re.MULTILINE)
_MAIN = "\nif __name__ == "


def python(*names: str, words: Sequence[str] = ()) -> list[str]:
    """Return the command that runs modules of one folder as one program, with `words` as its arguments: each after
    those that it imports. Their names must differ. The last one is the program: what others do as one is left out.
    """
    *modules, main = (_IMPORT.sub("", _without_prose(name)) for name in names)
    program = "".join([*(module.partition(_MAIN)[0] for module in modules), main])
    return ["python3", "-c", f"from __future__ import annotations\n{program}", *words]
