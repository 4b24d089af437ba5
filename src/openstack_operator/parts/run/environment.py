"""Options in a spec that programs would not see, because their environment or their command has the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ... import oslo
from ...api import Sections
from ...plan import Context, IgnoredFields, Object, OptionsError, Plan
from .config_check import known_options, written_options

_PREFIX, _BEFORE_OPTION = "OS_", "__"
"""Marks in the name of a variable that oslo.config reads before any file: OS_<section>__<option>."""

_FILE = "--config-file"

IMAGE_ENVIRONMENT: Sections = {"keystone_authtoken": {"memcache_pool_socket_timeout": None}}
"""Options that images of OpenStack's programs set in their own environment."""


def check_environment(ctx: Context[Any], plan: Plan, *, internal_overrides: Sections) -> IgnoredFields:
    """Return nothing. Raise OptionsError if a `config` of the spec sets an option that a container has in its
    environment or its command: programs would ignore it without a word. `internal_overrides` are options that only an
    internal program replaces, while the others take them from the spec.
    """
    fixed_options = environment(plan)
    if not fixed_options:
        return {}
    fixed_options = oslo.merge(fixed_options, IMAGE_ENVIRONMENT)
    problems: list[tuple[str, str]] = []
    for path, section, options in written_options(ctx.spec):
        written = {section: options}
        allowed = set(oslo.overlap(written, internal_overrides))
        names = (name for name in oslo.overlap(written, fixed_options, known_options(ctx)) if name not in allowed)
        problems += [(f"{path}.{name.removeprefix(f'{section}.')}", _TEXT.format(name)) for name in names]
    if problems:
        raise OptionsError(*problems[0], *problems[1:])
    return {}


_TEXT = "the operator sets {} in the environment; remove it from config"


def environment(plan: Plan) -> Sections:
    """Return the options that containers of a plan have in their environment or their command, without values: each
    goes before all files.
    """
    sections: Sections = {}
    for container in (each for obj in plan.objects for each in _containers(obj)):
        for variable in container.get("env") or ():
            section, _, option = variable["name"].removeprefix(_PREFIX).partition(_BEFORE_OPTION)
            if option and variable["name"].startswith(_PREFIX):
                sections.setdefault(section if section == "DEFAULT" else section.lower(), {})[option.lower()] = None
        words: list[str] = [*(container.get("command") or ()), *(container.get("args") or ())]
        # A program that reads options by oslo.config.
        for word in words[words.index(_FILE) :] if _FILE in words else ():
            if word.startswith("--") and word != _FILE:
                sections.setdefault("DEFAULT", {})[word.removeprefix("--").partition("=")[0].replace("-", "_")] = None
    return sections


def _containers(obj: Object) -> Iterator[dict[str, Any]]:
    """Yield each container of a workload or a job."""
    spec: dict[str, Any] = obj.get("spec") or {}
    template: Any = spec.get("jobTemplate", {}).get("spec", spec).get("template") or {}
    pod: dict[str, Any] = template.get("spec") or {} if isinstance(template, dict) else {}
    yield from (*pod.get("containers", ()), *pod.get("initContainers", ()))
