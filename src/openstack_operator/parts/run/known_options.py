"""Options in a spec that no program of its service knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from ... import oslo
from ...plan import Context, IgnoredFields, Plan

_FIELD = "config"


def ignored_options(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return the options in each `config` of a spec that the release's programs do not know. A plug-in may know one, so
    that it is no error. Sections that the spec itself names, those of backends and stores, have options of drivers.
    """
    options_by_section = ctx.release.options.get(ctx.kind.lower())
    if not options_by_section:
        return {}
    spec = ctx.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    names = set(_names(spec))
    advice: dict[str, str] = {}
    for path, sections in _configs(spec, ""):
        written = {section: options for section, options in sections.items() if section not in names}
        for section, option, text in oslo.unknown_options(options_by_section, written):
            place = ".".join(filter(None, (path, section, option)))
            advice[place] = f"{ctx.kind} {ctx.release.name} ignores it: {text}"
    return advice


def _configs(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Mapping[str, Any]]]]:
    """Yield path and sections of each `config` at any depth."""
    entries: dict[str, Any] = {}
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
    elif isinstance(value, list):
        entries = {str(index): entry for index, entry in enumerate(cast("list[Any]", value))}
    for name, entry in entries.items():
        place = f"{path}.{name}" if path else name
        if name != _FIELD:
            yield from _configs(entry, place)
        elif isinstance(entry, dict) and all(isinstance(each, dict) for each in cast("dict[str, Any]", entry).values()):
            yield place, cast("dict[str, dict[str, Any]]", entry)


def _names(value: Any) -> Iterator[str]:
    """Yield the names of entries of lists, at any depth."""
    if isinstance(value, list):
        for entry in cast("list[Any]", value):
            if isinstance(entry, dict) and "name" in entry:
                yield str(cast("dict[str, Any]", entry)["name"])
            yield from _names(entry)
    elif isinstance(value, dict):
        for entry in cast("dict[str, Any]", value).values():
            yield from _names(entry)
