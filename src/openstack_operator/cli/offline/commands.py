"""`render` and `validate`: what they print, and their exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...plan import NO_PERMISSIONS, Permissions
from ...registry import EXTERNAL_KINDS
from ...release_files import ReleaseFiles, packaged
from ...yaml_text import dump_all
from .documents import read
from .findings import Finding, in_order
from .rules import RulesUnavailable, evaluator
from .survey import Survey, survey


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    files: Sequence[str]
    recursive: bool = False
    namespace: str = "openstack"
    releases: Path | None = None
    serves: Sequence[str] = ()
    cluster_domain: str = "cluster.local"
    permissions: Permissions = NO_PERMISSIONS
    strict: bool = False
    as_json: bool = False


def render(options: Options) -> int:
    """Print every object, unless something would be refused; findings and counts go to stderr."""
    if misused := _misused(options):
        return misused
    result = _survey(options)
    failed = _failed(result, options)
    for finding in result.findings:
        print(finding, file=sys.stderr)
    if result.errors:
        print(_total(result), file=sys.stderr)
        return 1
    objects = result.objects
    texts = [f"# {id_} becomes:\n{dump_all(children)}" for id_, children in objects]
    sys.stdout.write("---\n".join(texts))
    print(_total(result), file=sys.stderr)
    return 1 if failed else 0


def validate(options: Options) -> int:
    """Print what would be refused and what cannot be decided offline, or OK."""
    if misused := _misused(options):
        return misused
    result = _survey(options)
    failed = _failed(result, options)
    if options.as_json:
        print(json.dumps(as_json(result, ok=not failed), indent=2))
        return 1 if failed else 0
    for finding in result.findings:
        print(finding, file=sys.stderr)
    print(f"{'failed' if failed else 'OK'}: {_total(result)}")
    return 1 if failed else 0


def as_json(result: Survey, *, ok: bool) -> dict[str, Any]:
    """Return the result for programs."""
    return {
        "ok": ok,
        "resources": result.resources,
        "others": result.foreign,
        "objects": _objects(result),
        "unplanned": result.unplanned,
        "errors": [finding.as_json() for finding in result.errors],
        "warnings": [finding.as_json() for finding in result.warnings],
    }


def _misused(options: Options) -> int:
    """Report options that name what is not there, and return the exit status: 2 if there are any, else 0."""
    choices = [*(kind.handle for kind in EXTERNAL_KINDS), "none"]
    wrong = [name for name in options.serves if name not in choices]
    for name in wrong:
        near = [each for each in choices if each.lower().startswith(name.lower())]
        print(f"--serves {name}: not a kind that plans use; choose from {', '.join(near or choices)}", file=sys.stderr)
    return 2 if wrong else 0


def _survey(options: Options) -> Survey:
    documents, unreadable = read(options.files, recursive=options.recursive)
    rules, also = None, list[Finding]()
    try:
        rules = evaluator()
    except RulesUnavailable as error:
        also.append(Finding(message=str(error), warning=True))
    folders = [folder for folder in (options.releases, packaged()) if folder]
    result = survey(
        documents,
        ReleaseFiles(*folders),
        namespace=options.namespace,
        served=options.serves,
        domain=options.cluster_domain,
        permissions=options.permissions,
        rules=rules,
    )
    if not result.resources and not unreadable and not result.errors:
        names = ", ".join(dict.fromkeys(options.files))
        also.append(Finding(message="it has no resource of this operator", file=names))
    return replace(result, findings=tuple(in_order([*unreadable, *result.findings, *also])))


def _failed(result: Survey, options: Options) -> bool:
    return bool(result.errors or (options.strict and result.warnings))


def _objects(result: Survey) -> int:
    return sum(len(each.objects) for each in result.planned)


def _total(result: Survey) -> str:
    """Return the counts of everything: `178 objects of 1 resource; 2 warnings`."""
    parts = [f"{_count(_objects(result), 'object')} of {_count(result.resources, 'resource')}"]
    if result.errors:
        parts = [f"{_count(result.resources, 'resource')}"]
    if result.foreign:
        parts.append(f"{_count(result.foreign, 'object')} of other kinds, which are not checked")
    if result.unplanned:
        parts.append(f"{_count(result.unplanned, 'resource')} could not be planned without a cluster")
    parts += [
        _count(len(each), noun) for each, noun in ((result.errors, "error"), (result.warnings, "warning")) if each
    ]
    return "; ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
