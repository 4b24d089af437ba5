"""Pictures of the diagrams on pages, which are written in the language of Mermaid."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

_WIDTH, _LINE, _PADDING, _MARGIN = 186, 17, 9, 12
"""Pixels: of a box, of a line of text, and around text and picture."""
_BETWEEN, _AFTER, _AFTER_WIDE = 20, 52, 110
"""Pixels between boxes of a row, and between rows; more where rows are columns with labels between them."""
_BACK = 60
"""Pixels at the right of all boxes for an arrow to a row before."""
_LETTERS = 25
"""Letters on a line of a box."""
_NODE = r"(\w+)(?:(\(\[|\[\(|\{\{|\[|\{|\()\"?(.*?)\"?(\]\)|\)\]|\}\}|\]|\}|\)))?"
_EDGE = re.compile(rf"^\s*{_NODE}\s*(-->>?|-\.->)(?:\|(.*?)\|)?\s*{_NODE}\s*$")
_MESSAGE = re.compile(r"^\s*(\w+)(--?>>)(\w+): (.*)$")
_ARROW = (
    '<marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker>'
)
Point = tuple[float, float]


@dataclass
class _Chart:
    """Boxes and arrows of a flow chart."""

    texts: dict[str, str] = field(default_factory=dict)
    rounded: set[str] = field(default_factory=set)
    edges: list[tuple[str, str, str, bool]] = field(default_factory=list)
    """From, to, label, and whether it is dashed."""


def picture(diagram: str) -> str:
    """Return a diagram as SVG without an empty line. Raises ValueError for one of another kind, or a line of it that is
    not understood.
    """
    kind, *lines = diagram.strip().splitlines()
    if kind == "sequenceDiagram":
        return _sequence(lines)
    if kind in ("flowchart TD", "flowchart LR"):
        return _flow(_parsed(lines), is_wide=kind.endswith("LR"))
    raise ValueError(f"{kind}: no such diagram is drawn")


def _parsed(lines: Sequence[str]) -> _Chart:
    chart = _Chart()
    for line in lines:
        match = _EDGE.match(line)
        if not match:
            raise ValueError(f"{line.strip()}: write an arrow between two boxes")
        source, target = match.group(1, 2, 3), match.group(7, 8, 9)
        for name, shape, text in (source, target):
            chart.texts[name] = text or chart.texts.get(name, name)
            if shape in ("([", "{", "{{", "[("):
                chart.rounded.add(name)
        chart.edges.append((source[0], target[0], match[6] or "", match[5] == "-.->"))
    return chart


def _flow(chart: _Chart, *, is_wide: bool) -> str:
    texts = {name: textwrap.wrap(text, _LETTERS) for name, text in chart.texts.items()}
    height = max(map(len, texts.values())) * _LINE + 2 * _PADDING
    along, across = (_WIDTH + _AFTER_WIDE, height + _BETWEEN) if is_wide else (height + _AFTER, _WIDTH + _BETWEEN)
    rows, chains = _rows(chart)
    widest = max(map(len, rows))
    middles: dict[str, Point] = {}
    for number, row in enumerate(rows):
        for place, name in enumerate(row):
            main, cross = number * along, (place + (widest - len(row)) / 2) * across
            x, y = (main, cross) if is_wide else (cross, main)
            middles[name] = (_MARGIN + _WIDTH / 2 + x, _MARGIN + height / 2 + y)
    right = max(x for x, _ in middles.values()) + _WIDTH / 2
    bottom = max(y for _, y in middles.values()) + height / 2
    lines: list[str] = []
    for (_, _, label, is_dashed), chain in zip(chart.edges, chains, strict=True):
        points = [middles[name] for name in chain]
        if points[-1][not is_wide] <= points[0][not is_wide]:
            lines += _arrow_back(points[0], points[-1], label, right)
        else:
            lines += _arrow(points, label, height, is_wide=is_wide, is_dashed=is_dashed)
    for name, words in texts.items():
        lines += _box(middles[name], words, height, is_rounded=name in chart.rounded)
    is_looped = any(middles[chain[-1]][not is_wide] <= middles[chain[0]][not is_wide] for chain in chains)
    return _svg(right + _MARGIN + (2 * _BACK if is_looped else 0), bottom + _MARGIN, lines)


def _rows(chart: _Chart) -> tuple[list[list[str]], list[list[str]]]:
    """Return the boxes row by row, and for each arrow the places that it passes: an arrow over a row has one in it."""
    forward = [(source, target) for source, target, *_ in chart.edges if not _leads_back(chart, source, target)]
    rank = dict.fromkeys(chart.texts, 0)
    for _ in chart.texts:
        for source, target in forward:
            rank[target] = max(rank[target], rank[source] + 1)
    rows: list[list[str]] = [[] for _ in range(max(rank.values()) + 1)]
    for name in chart.texts:
        rows[rank[name]].append(name)
    chains: list[list[str]] = []
    for number, (source, target, *_) in enumerate(chart.edges):
        passed = [f"{number} {row}" for row in range(rank[source] + 1, rank[target])]
        for name, row in zip(passed, range(rank[source] + 1, rank[target]), strict=True):
            rows[row].append(name)
        chains.append([source, *passed, target])
    _order(rows, chains)
    returning = {chain[0] for chain in chains if rank[chain[-1]] <= rank[chain[0]]}
    for row in rows:
        row.sort(key=lambda name: name in returning)  # the arrow back begins at the right
    return rows, chains


def _leads_back(chart: _Chart, source: str, target: str) -> bool:
    """Return True for an arrow to a box that was written before, and from which its own start is reached."""
    names = list(chart.texts)
    reached, waiting = {target}, [target]
    while waiting:
        name = waiting.pop()
        following = {end for begin, end, *_ in chart.edges if begin == name} - reached
        reached |= following
        waiting += following
    return source in reached and names.index(target) < names.index(source)


def _order(rows: Sequence[list[str]], chains: Sequence[Sequence[str]]) -> None:
    """Order each row so that boxes are near those they have arrows from, and then to."""
    pairs = [(a, b) for chain in chains for a, b in itertools.pairwise(chain)]
    for _ in range(4):
        for before, row in [*itertools.pairwise(rows), *zip(rows[::-1], rows[::-1][1:], strict=False)]:
            places = {name: place - len(before) / 2 for place, name in enumerate(before)}
            current = {name: place - len(row) / 2 for place, name in enumerate(row)}
            row.sort(key=lambda name, current=current, places=places: _mean(name, pairs, places, current[name]))


def _mean(name: str, pairs: Sequence[tuple[str, str]], places: Mapping[str, float], current: float) -> float:
    near = [places[b if a == name else a] for a, b in pairs if name in (a, b) and (b if a == name else a) in places]
    return sum(near) / len(near) if near else current


def _arrow(points: Sequence[Point], label: str, height: float, *, is_wide: bool, is_dashed: bool) -> Iterator[str]:
    x, y = (_WIDTH / 2, 0) if is_wide else (0, height / 2)
    (first_x, first_y), *passed, (last_x, last_y) = points
    ends = [(first_x + x, first_y + y), *passed, (last_x - x, last_y - y)]
    curves = "".join(_curve(a, b, is_wide=is_wide) for a, b in itertools.pairwise(ends))
    yield _line(f"M{ends[0][0]} {ends[0][1]}{curves}", is_dashed=is_dashed)
    yield from _label(((ends[0][0] + ends[1][0]) / 2, (ends[0][1] + ends[1][1]) / 2), label)


def _arrow_back(start: Point, end: Point, label: str, right: float) -> Iterator[str]:
    """Yield an arrow to a row before, at the right of all boxes."""
    x, y = end
    path = f"M{start[0] + _WIDTH / 2} {start[1]} C{right + _BACK} {start[1]} {right + _BACK} {y} {x + _WIDTH / 2} {y}"
    yield _line(path, is_dashed=False)
    yield from _label((right + _BACK / 2, (start[1] + y) / 2), label)


def _line(path: str, *, is_dashed: bool) -> str:
    dashes = ' stroke-dasharray="4 4"' if is_dashed else ""
    return f'<path d="{path}" fill="none" stroke="currentColor"{dashes} marker-end="url(#end)"/>'


def _label(middle: Point, label: str) -> Iterator[str]:
    x, y = middle
    for number, line in enumerate(textwrap.wrap(label, 16)):
        yield _text(x, y + 4 + 14 * number, line, size=12, is_label=True)


def _curve(a: Point, b: Point, *, is_wide: bool) -> str:
    x, y = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
    return f" C{x} {a[1]} {x} {b[1]} {b[0]} {b[1]}" if is_wide else f" C{a[0]} {y} {b[0]} {y} {b[0]} {b[1]}"


def _box(middle: Point, words: Sequence[str], height: float, *, is_rounded: bool) -> Iterator[str]:
    x, y = middle
    place = (
        f'x="{x - _WIDTH / 2}" y="{y - height / 2}" width="{_WIDTH}" height="{height}" rx="{18 if is_rounded else 4}"'
    )
    yield f'<rect {place} fill="var(--md-code-bg-color, #f5f5f5)" stroke="currentColor"/>'
    top = y - (len(words) - 1) * _LINE / 2 + 5
    yield from (_text(x, top + number * _LINE, line) for number, line in enumerate(words))


def _text(x: float, y: float, text: str, *, size: int = 13, is_label: bool = False) -> str:
    halo = ' paint-order="stroke" stroke="var(--md-default-bg-color, #fff)" stroke-width="5"' if is_label else ""
    return (
        f'<text x="{x}" y="{y}" text-anchor="middle" font-size="{size}" fill="currentColor"{halo}>{escape(text)}</text>'
    )


def _sequence(lines: Sequence[str]) -> str:
    """Return a picture with a column for each participant, and an arrow for each message, from top to bottom."""
    names: dict[str, str] = {}
    messages: list[tuple[str, str, str, bool]] = []
    for line in lines:
        if participant := re.match(r"^\s*participant (\w+) as (.*)$", line):
            names[participant[1]] = participant[2]
        elif message := _MESSAGE.match(line):
            messages.append((message[1], message[3], message[4], message[2] == "-->>"))
        else:
            raise ValueError(f"{line.strip()}: write a participant or a message")
    columns = {name: _MARGIN + _WIDTH / 2 + number * (_WIDTH + 90) for number, name in enumerate(names)}
    top, step = _MARGIN + 36, 42
    bottom = top + step * (len(messages) + 1)
    elements: list[str] = []
    for name, x in columns.items():
        elements.append(f'<path d="M{x} {top} V{bottom}" stroke="currentColor" opacity="0.3"/>')
        elements += _box((x, _MARGIN + 18), [names[name]], 36, is_rounded=False)
    for number, (source, target, text, is_dashed) in enumerate(messages, 1):
        start, end, y = columns[source], columns[target], top + step * number
        path = f"M{start} {y} h40 v14 H{start + 2}" if source == target else f"M{start} {y} H{end}"
        elements.append(_line(path, is_dashed=is_dashed))
        elements.append(_text(start if source == target else (start + end) / 2, y - 6, text, size=12, is_label=True))
    return _svg(max(columns.values()) + _WIDTH / 2 + _MARGIN, bottom + _MARGIN, elements)


def _svg(width: float, height: float, lines: Sequence[str]) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}" style="max-width: 100%; height: auto"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} font-family="sans-serif"><defs>{_ARROW}</defs>'
    return "\n".join([head, *lines, "</svg>"])
