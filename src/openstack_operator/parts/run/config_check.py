"""Options in a spec, compared with those that the programs of its release know, before they reach a pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, cast

from ... import kube, oslo
from ...api import Model
from ...kube.masking import is_secret_option
from ...plan import CONFIG_VALID, MOST_NAMED, Context, OptionsError, State, Verdict

_LONGEST, _LONGEST_PATH = 64, 200
"""Characters of a value, and of a path, that a message shows."""
_BACKEND = "backend_defaults"
"""Section with the options that sections of Cinder's backends may have."""

Place = tuple[str, str, Mapping[str, Any]]
"""Path of options in a spec, their section, and the options."""


class Remark(NamedTuple):
    """A remark on an option in a spec."""

    kind: Literal["unknown", "deprecated", "wrong"]
    path: str
    text: str


def check_options(ctx: Context[Any]) -> dict[str, Verdict]:
    """Return the condition on the options in each `config` of a spec, for a kind whose options the release lists.
    Raise OptionsError if a program would not take a value, or has an option no more.
    """
    if not ctx.release.options.get(_programs(ctx).lower()):
        return {}
    all_remarks = list(remarks(ctx))
    if wrong := [(each.path, each.text) for each in all_remarks if each.kind == "wrong"]:
        raise OptionsError(*wrong[0], *wrong[1:])
    all_remarks.sort(key=lambda each: each.kind != "unknown")
    reason = _REASONS[all_remarks[0].kind] if all_remarks else "OptionsValid"
    texts = [f"{kube.quote(each.path, _LONGEST_PATH)}: {each.text}" for each in all_remarks[:MOST_NAMED]]
    if unnamed := len(all_remarks) - len(texts):
        texts.append(f"and {unnamed} more, which `openstack-operator validate` names")
    return {CONFIG_VALID: Verdict(State.READY, "; ".join(texts), reason)}


_REASONS = {"unknown": "UnknownOptions", "deprecated": "DeprecatedOptions"}


def remarks(ctx: Context[Any]) -> Iterator[Remark]:
    """Yield what is to be said of the options in a spec. A name that no program knows is no error: a plug-in in an
    image of the user's may know it. Sections that the spec itself names, those of backends and stores, are left out,
    since they have options of drivers.
    """
    kind = _programs(ctx)
    service, release, nearest = kind.lower(), ctx.release.name, oslo.NearestNames()
    catalog, earlier = ctx.release.options.get(service), ctx.release.earlier_options.get(service)
    if not catalog:
        return
    for path, section, options in written_options(ctx.spec, has_backends=_BACKEND in catalog):
        for finding in oslo.examine(catalog, {section: options}, earlier, nearest):
            place = f"{path}.{finding.option}" if finding.option else path
            match finding.kind:
                case "invalid":
                    yield Remark("wrong", place, _problem(options[finding.option], finding))
                case "removed":
                    yield Remark("wrong", place, f"{kind} {release} no longer has this option; remove it")
                case "unknown":
                    yield Remark("unknown", place, f"{kind} {release} ignores it: {finding.text}")
                case "unresolved":
                    yield Remark("unknown", place, finding.text)
                case "deprecated":
                    yield Remark("deprecated", place, finding.text)


def known_options(ctx: Context[Any]) -> oslo.KnownOptions:
    """Return the options that the programs of a resource know; empty where the release lists none."""
    return ctx.release.options.get(_programs(ctx).lower()) or {}


def written_options(spec: Model, *, has_backends: bool = False) -> Iterator[Place]:
    """Yield the options in each `config` of a spec, but for sections that the spec itself names."""
    values = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return _options(values, "spec", set(_section_names(values)), has_backends=has_backends)


def _programs(ctx: Context[Any]) -> str:
    """Return the kind whose programs read the options."""
    return ctx.spec.programs_of or ctx.kind


def _problem(value: Any, finding: oslo.Finding) -> str:
    """Return what is wrong with a value, which is shown unless it is a secret or may have one in it."""
    if isinstance(value, list):
        return f"has {len(cast('list[Any]', value))} values; the option takes {finding.text}"
    if finding.is_secret or is_secret_option(finding.option):
        return f"is not a value of this option, which takes {finding.text}"
    text = kube.quote(" ".join(oslo.value_text(value).split()), _LONGEST)
    return f"is {repr(text) if isinstance(value, str) else text}; the option takes {finding.text}"


def _options(value: Any, path: str, names: set[str], *, has_backends: bool) -> Iterator[Place]:
    """Yield the options in each `config`, at any depth, but for sections with these names; and those of backends."""
    if isinstance(value, list):
        for index, entry in enumerate(cast("list[Any]", value)):
            yield from _options(entry, f"{path}[{index}]", names, has_backends=has_backends)
            if has_backends and path == "spec.backends" and (options := _mapping(entry).get("options")):
                yield f"{path}[{index}].options", _BACKEND, options
    for name, entry in _mapping(value).items():
        place = f"{path}.{name}"
        if name != "config":
            yield from _options(entry, place, names, has_backends=has_backends)
            continue
        for section, options in _mapping(entry).items():
            # The config of some kinds has no sections.
            if isinstance(options, dict) and section not in names:
                yield f"{place}.{section}", section, cast("dict[str, Any]", options)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


_SECTION_LISTS = frozenset({"backends"})
"""Lists of which each entry has a section of its name: backends of Cinder, and stores of Glance."""


def _section_names(value: Any) -> Iterator[str]:
    """Yield the names of the sections of such lists, at any depth."""
    if isinstance(value, list):
        for entry in cast("list[Any]", value):
            yield from _section_names(entry)
    for field, entry in _mapping(value).items():
        if field in _SECTION_LISTS and isinstance(entry, list):
            yield from (str(_mapping(each).get("name", "")) for each in cast("list[Any]", entry))
        yield from _section_names(entry)
