"""The right to change what lies outside Kubernetes, which a process may lose in the middle of a change."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

_CHECK: ContextVar[Callable[[], None]] = ContextVar("check", default=lambda: None)


@contextmanager
def fenced(check: Callable[[], None]) -> Generator[None]:
    """Have this thread call `check` before all that it sends; it raises where this process may not act anymore."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def check_fence() -> None:
    """Raise what the fence of this thread raises; without one, nothing."""
    _CHECK.get()()
