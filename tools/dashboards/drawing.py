"""Dashboards as pages of HTML, for a look without Grafana."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any

from .files import PanelQuery

Series = dict[str, Any]
Answer = tuple[PanelQuery, list[Series]]
_WIDTH, _HEIGHT, _MARGIN = 560, 170, 46
_COLORS = ("#56a64b", "#3274d9", "#e0752d", "#a352cc", "#e02f44", "#1f78c1", "#f2cc0c", "#8f8f8f")
_STYLE = """\
body{background:#111217;color:#ccccdc;font:13px sans-serif;margin:16px} h1{font-size:20px} h2{font-size:15px;clear:both}
.grid{display:flex;flex-wrap:wrap;gap:8px} .panel{background:#181b1f;border:1px solid #2c3235;padding:8px;width:580px}
.number{width:180px} .number b{font-size:28px;color:#73bf69;display:block;text-align:center;padding:12px}
.legend{font-size:11px} .legend i{display:inline-block;width:10px;height:3px;margin:0 4px 3px 8px}
table{border-collapse:collapse} td{border-top:1px solid #2c3235;padding:3px 10px} text{fill:#8e8e9b;font-size:10px}
"""
_SCALES = {"bytes": (1024, ("B", "KiB", "MiB", "GiB", "TiB")), "short": (1000, ("", "K", "M", "G", "T"))}


def page(title: str, answers: Iterable[Answer]) -> str:
    """Return the page of a dashboard with the data of its panels."""
    head = f"<meta charset=utf-8><title>{escape(title)}</title><style>{_STYLE}</style>"
    return f"<!doctype html>{head}<h1>{escape(title)}</h1>{''.join(_sections(answers))}"


def _sections(answers: Iterable[Answer]) -> Iterator[str]:
    for section, of_section in groupby(answers, lambda answer: answer[0].section):
        yield f"<h2>{escape(section)}</h2><div class=grid>"
        for _, of_panel in groupby(of_section, lambda answer: answer[0].panel):
            yield _panel(list(of_panel))
        yield "</div>"


def _panel(answers: Sequence[Answer]) -> str:
    query = answers[0][0]
    match query.kind:
        case "timeseries":
            content, kind = _graph(answers, query.unit), ""
        case "stat":
            values = [_text(float(each["value"][1]), query.unit) for each in answers[0][1]]
            content, kind = f"<b>{escape(', '.join(values) or 'none')}</b>", "number"
        case _:
            content, kind = _table(answers[0][1]), ""
    return f'<div class="panel {kind}">{escape(query.panel)}{content}</div>'


def _table(series_list: Sequence[Series]) -> str:
    names = [
        name for name in ("kind", "name", "workload", "type", "status") if any(name in s["metric"] for s in series_list)
    ]
    cells = ("".join(f"<td>{escape(each['metric'].get(name, ''))}" for name in names) for each in series_list)
    return f"<table>{''.join(f'<tr>{row}' for row in cells)}</table>" if series_list else "<p>no rows</p>"


def _graph(answers: Sequence[Answer], unit: str) -> str:
    lines = [
        (_legend(query.legend, each["metric"]), _points(each)) for query, series_list in answers for each in series_list
    ]
    points = [point for _, line in lines for point in line]
    if not points:
        return "<p>no data</p>"
    begin, end = min(at for at, _ in points), max(at for at, _ in points)
    top = max(value for _, value in points) * 1.1 or 1.0

    def place(at: float, value: float) -> str:
        x = _MARGIN + (at - begin) / ((end - begin) or 1) * (_WIDTH - _MARGIN)
        return f"{x:.1f},{_HEIGHT - value / top * _HEIGHT + 8:.1f}"

    elements = [f'<svg width="{_WIDTH}" height="{_HEIGHT + 16}">']
    for share in (0, 0.5, 1):
        y = _HEIGHT - share * _HEIGHT + 8
        elements.append(f'<line x1="{_MARGIN}" x2="{_WIDTH}" y1="{y}" y2="{y}" stroke="#2c3235"/>')
        elements.append(f'<text x="0" y="{y + 4}">{escape(_text(top * share, unit))}</text>')
    for index, (_, line) in enumerate(lines):
        path = " ".join(place(at, value) for at, value in line)
        elements.append(f'<polyline fill="none" stroke="{_color(index)}" stroke-width="1.5" points="{path}"/>')
    legend = "".join(f'<i style="background:{_color(i)}"></i>{escape(name)}' for i, (name, _) in enumerate(lines))
    return f"{''.join(elements)}</svg><div class=legend>{legend}</div>"


def _points(series: Series) -> list[tuple[float, float]]:
    points = ((float(at), float(value)) for at, value in series["values"])
    return [point for point in points if math.isfinite(point[1])]


def _color(index: int) -> str:
    return _COLORS[index % len(_COLORS)]


def _legend(text: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


def _text(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return str(value)
    if unit == "percentunit":
        return f"{value:.1%}"
    if unit == "s":
        return (
            f"{value / 86400:.0f} d"
            if value > 2 * 86400
            else f"{value:.0f} s"
            if value > 10
            else f"{value * 1000:.0f} ms"
        )
    step, names = _SCALES["bytes" if unit == "bytes" else "short"]
    index = 0
    while abs(value) >= step and index < len(names) - 1:
        value, index = value / step, index + 1
    return f"{value:.3g} {names[index]}".strip()
