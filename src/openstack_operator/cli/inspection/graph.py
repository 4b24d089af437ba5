"""The needs of services: as text, as a diagram of Mermaid, and as a picture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from ...plan import Object
from .relations import Relations, is_plane, relations
from .state import is_ready, printed, reason_of

_WIDTH, _HEIGHT, _GAP, _ROW, _MARGIN = 190, 40, 70, 58, 20
"""Pixels: of a box, between columns, between the tops of two rows, and around all."""
_READY, _NOT_READY = "#2e7d32", "#c62828"


def as_text(resources: Sequence[Object]) -> str:
    """Return the resources in an order in which each comes after what it needs."""
    services = _services(resources)
    rank = _ranks(services.needs)
    lines: list[str] = []
    for name in sorted(services.resources, key=lambda each: (rank[each], each)):
        reason = reason_of(services.resources[name])
        lines.append(printed(f"{name}{f' (not Ready: {reason})' if reason else ''}"))
        lines += [printed(f"  needs {need}") for need in sorted(services.needs[name])]
    return "\n".join(lines)


def as_mermaid(resources: Sequence[Object]) -> str:
    """Return a flow chart in the language of Mermaid, arrows from a resource to what it needs."""
    services = _services(resources)
    ids = {name: f"n{number}" for number, name in enumerate(sorted(services.resources))}
    lines = ["flowchart LR"]
    for name, id_ in ids.items():
        style = "ready" if is_ready(services.resources[name]) else "notReady"
        lines.append(f'  {id_}["{_plain(name)}"]:::{style}')
    lines += [f"  {ids[name]} --> {ids[need]}" for name in ids for need in sorted(services.needs[name])]
    lines += [f"  classDef ready stroke:{_READY}", f"  classDef notReady stroke:{_NOT_READY}"]
    return "\n".join(lines)


def as_svg(resources: Sequence[Object]) -> str:
    """Return a picture: what a resource needs is to the left of it."""
    services = _services(resources)
    rank = _ranks(services.needs)
    columns: dict[int, list[str]] = {}
    for name in sorted(services.resources, key=lambda each: (rank[each], each)):
        columns.setdefault(rank[name], []).append(name)
    places = {
        name: (_MARGIN + column * (_WIDTH + _GAP), _MARGIN + row * _ROW)
        for column, names in columns.items()
        for row, name in enumerate(names)
    }
    width = 2 * _MARGIN + len(columns) * (_WIDTH + _GAP) - _GAP
    height = 2 * _MARGIN + max(map(len, columns.values()), default=1) * _ROW
    lines = [*_arrows(services.needs, places), *_boxes(services, places)]
    return svg(width, height, lines)


def svg(width: int, height: int, lines: Sequence[str]) -> str:
    """Return a whole picture of that size with these elements."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">'
    background = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([head, background, *lines, "</svg>"])


def _arrows(needs: Mapping[str, Sequence[str]], places: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for name, targets in needs.items():
        x, y = places[name]
        for target in targets:
            target_x, target_y = places[target]
            ends = f'x1="{x}" y1="{y + _HEIGHT // 2}" x2="{target_x + _WIDTH}" y2="{target_y + _HEIGHT // 2}"'
            yield f'<line {ends} stroke="#90a4ae"/>'


def _boxes(services: Relations, places: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for name, (x, y) in places.items():
        color = _READY if is_ready(services.resources[name]) else _NOT_READY
        size = f'x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"'
        yield f'<rect {size} fill="white" stroke="{color}" stroke-width="2"/>'
        place = f'x="{x + _WIDTH // 2}" y="{y + 25}" text-anchor="middle" font-size="13"'
        yield f"<text {place}>{escape(_plain(name))}</text>"


def _services(resources: Sequence[Object]) -> Relations:
    """Return the services without the cloud itself, to which all of them belong."""
    return relations([each for each in resources if not is_plane(each)])


def _ranks(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the length of the longest way from each resource to one that needs nothing; a circle counts once."""
    ranks: dict[str, int] = {}

    def rank(name: str, above: frozenset[str]) -> int:
        if name not in ranks:
            lower = [rank(each, above | {name}) for each in needs[name] if each not in above]
            ranks[name] = max(lower, default=-1) + 1
        return ranks[name]

    try:
        for name in needs:
            rank(name, frozenset({name}))
    except RecursionError:
        raise LookupError("resources wait for each other in a chain that is too long to draw") from None
    return ranks


def _plain(name: str) -> str:
    """Return a name without what has a meaning in a diagram."""
    return re.sub(r"[^\w/.-]", "", name)
