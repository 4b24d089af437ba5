"""How far tests search: `make test` tries a few inputs, the same each time; `make test-long` tries many, others each
time.
"""

from __future__ import annotations

import os

import pytest

IS_LONG = os.environ.get("OPENSTACK_OPERATOR_LONG") == "1"
EXAMPLES = 100 if IS_LONG else 20
"""Of each search by hypothesis that does not say how many."""


def examples(number: int) -> int:
    """Return how many of `number` examples this run tries."""
    return number if IS_LONG else max(number // 5, 5)


def seeds(number: int) -> pytest.MarkDecorator:
    """Return a mark for tests that take a `seed`: the first of so many here, all of them in a long run."""
    return pytest.mark.parametrize("seed", range(number if IS_LONG else 1))
