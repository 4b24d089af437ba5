"""python -m tools.publish.released: what a running cloud meets when its operator becomes the one of this checkout.

tests/released keeps of each version the objects of sample clouds as its API server stored them; of the last one also
the digests of the pods that it made of them, and its definitions.
"""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("tools.publish.released")

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from openstack_operator import __version__
from openstack_operator.api import ALLOWED_HOSTS, crd
from openstack_operator.cli.offline.manifest import Checker
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import annotated
from openstack_operator.plan import Object, digest
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import load

from .definitions import Definitions, narrowed

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "released"
REASONS = ROOT / "tools" / "publish" / "replaced.yaml"
_NAMESPACE = "openstack"
_FIXED: Mapping[str, Sequence[str]] = {
    "Deployment": ("selector",),
    "DaemonSet": ("selector",),
    "StatefulSet": ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates"),
}
"""Fields of workloads that Kubernetes does not let change."""

Objects = Mapping[str, Sequence[Object]]
"""Objects of each sample."""
Digests = Mapping[str, Mapping[str, str]]
"""Digests of the pods by `Deployment/nova-api`, of each sample."""


@dataclass(frozen=True)
class Change:
    """Something that an upgrade from the last version does to a running cloud."""

    subject: str
    """A workload, or a field of a definition."""
    text: str
    reason: str = ""
    """Why, as written in replaced.yaml; empty if there is none."""


def stored() -> dict[str, list[Object]]:
    """Return the objects of the samples and of the cases of all services, as the API server stores them."""
    checker = Checker(RESOURCES)
    services = ROOT / "src" / "openstack_operator" / "services"
    files = {f"samples/{path.stem}": path for path in (ROOT / "deploy" / "samples").glob("*.yaml")} | {
        f"{path.parent.parent.name}/{path.stem}": path
        for path in services.glob("*/cases/*.yaml")
        if not path.stem.endswith(".golden")
    }
    return {
        name: [obj for manifest in load(path) if (obj := checker.check(manifest).stored)]
        for name, path in sorted(files.items())
    }


def pods(objects: Objects) -> dict[str, dict[str, str]]:
    """Return the digest of each pod template that this version makes of stored objects, and of what cannot change
    about its workload.
    """
    releases = ReleaseFiles(ROOT / "releases")
    return {name: dict(sorted(_pods(each, releases))) for name, each in objects.items()}


def _pods(objects: Iterable[Object], releases: ReleaseFiles) -> Iterator[tuple[str, str]]:
    cluster = OfflineCluster(SERVICES, ACTUATORS, releases, password="drawn")
    for planned in cluster.render([_permitted(each) for each in objects], _NAMESPACE):
        for obj in planned.objects:
            if fixed := _FIXED.get(obj["kind"]):
                name, spec = f"{obj['kind']}/{obj['metadata']['name']}", obj["spec"]
                yield name, digest(spec["template"])
                yield f"{name} itself", digest([spec.get(field) for field in fixed])


def _permitted(obj: Object) -> Object:
    """Return an object that an earlier version stored; a Secret lets each server have it, since what is compared is
    pods and no permissions.
    """
    return annotated(obj, {ALLOWED_HOSTS: "*"}) if obj["kind"] == "Secret" else obj


def present() -> Definitions:
    """Return the definitions of this version."""
    return Definitions.of(crd(resource) for resource in RESOURCES)


def versions() -> list[str]:
    """Return the versions that are kept, the oldest first."""
    return sorted((path.name for path in DATA.iterdir() if path.is_dir()), key=_order)


def _order(version: str) -> tuple[tuple[int, ...], bool, str]:
    """Return a key by which a version before a release, such as 0.1.0-dev, comes before it."""
    numbers, _, suffix = version.partition("-")
    return tuple(map(int, numbers.split("."))), not suffix, suffix


def published(before: str = __version__) -> list[str]:
    """Return the versions that went out before this one, the oldest first: those without a suffix."""
    return [each for each in versions() if _order(each) < _order(before) and "-" not in each]


def last(before: str = __version__) -> str:
    """Return the last version before this one. Raises LookupError if none is kept."""
    if earlier := [version for version in versions() if _order(version) < _order(before)]:
        return earlier[-1]
    raise LookupError(f"{DATA} has no version before {before}")


def objects_of(version: str) -> dict[str, list[Object]]:
    """Return the objects that a version's API server stored."""
    return json.loads((DATA / version / "objects.json").read_text(encoding="utf-8"))


def write(version: str) -> Path:
    """Keep the data of this checkout as those of a version; of the versions before only the objects stay, and nothing
    of those that led to it (0.2.0-dev). Returns its folder.
    """
    for older in versions():
        if older.partition("-")[0] == version.partition("-")[0]:
            shutil.rmtree(DATA / older)
        else:
            for name in ("pods.json", "definitions.json"):
                (DATA / older / name).unlink(missing_ok=True)
    folder = DATA / version
    folder.mkdir(parents=True)
    objects = stored()
    for name, value in (("objects.json", objects), ("pods.json", pods(objects))):
        (folder / name).write_text(json.dumps(value, indent=0) + "\n", encoding="utf-8")
    (folder / "definitions.json").write_text(present().write(), encoding="utf-8")
    return folder


def changes(version: str) -> list[Change]:
    """Return what an upgrade from the last version replaces, and what its definitions may refuse, with reasons."""
    folder = DATA / version
    digests: Digests = json.loads((folder / "pods.json").read_text(encoding="utf-8"))
    texts = replaced(digests, pods(objects_of(version)))
    texts |= narrowed(Definitions.read((folder / "definitions.json").read_text(encoding="utf-8")), present())
    reasons = read_reasons()
    return [
        Change(subject, text, next((why for pattern, why in reasons.items() if fnmatchcase(subject, pattern)), ""))
        for subject, text in texts.items()
    ]


def replaced(old: Digests, new: Digests) -> dict[str, str]:
    """Return what happens to workloads of the old version, by `Deployment/nova-api`."""
    differences: dict[str, str] = {}
    for sample, workloads in old.items():
        for name, before in workloads.items():
            now = new.get(sample, {}).get(name)
            if now != before and name not in differences:
                if name.endswith(" itself"):
                    text = "cannot be changed by an apply: Kubernetes refuses it" if now else ""
                else:
                    text = "pods are replaced" if now else "is removed"
                if text:
                    differences[name] = f"{text} (as in {sample})"
    return dict(sorted(differences.items()))


def read_reasons() -> dict[str, str]:
    """Return the reasons of replaced.yaml by pattern."""
    entries: Sequence[Mapping[str, Any]] = yaml.safe_load(REASONS.read_text(encoding="utf-8")) or ()
    return {_pattern(subject): entry["reason"] for entry in entries for subject in entry["what"]}


def _pattern(text: str) -> str:
    """Return a pattern in which only the star is special: paths of fields have brackets."""
    return re.sub(r"([\[?])", r"[\1]", text)


def missing(differences: Iterable[Change]) -> list[str]:
    """Return a line for each change without a reason."""
    return [f"{each.subject}: {each.text}" for each in differences if not each.reason]


def stale(differences: Sequence[Change]) -> list[str]:
    """Return the entries of replaced.yaml that name nothing."""
    return [
        pattern for pattern in read_reasons() if not any(fnmatchcase(each.subject, pattern) for each in differences)
    ]


def notes(version: str, differences: Sequence[Change]) -> str:
    """Return the section of release notes about an upgrade from the last version. Raises LookupError for a change
    without a reason.
    """
    if lines := missing(differences):
        raise LookupError(f"{REASONS.name} gives no reason for what an upgrade does: {'; '.join(lines)}")
    title = f"## An upgrade from {version}\n\n"
    if not differences:
        return f"{title}It replaces no pods of a running cloud, and its definitions accept all that is stored."
    by_reason: dict[str, list[str]] = {}
    for each in differences:
        by_reason.setdefault(each.reason, []).append(f"`{each.subject}`")
    rows = [f"| {', '.join(subjects)} | {reason} |" for reason, subjects in by_reason.items()]
    return "\n".join([f"{title}| it replaces the pods of, or changes | why |", "| --- | --- |", *rows])


def main(arguments: list[str] | None = None) -> int:
    """Print what an upgrade to this checkout does, or keep it as a version; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.publish.released", description="Print what an upgrade from the last version does."
    )
    parser.add_argument("--write", metavar="VERSION", help="keep this checkout as the data of a version that goes out")
    options = parser.parse_args(arguments)
    if options.write:
        print(write(options.write))
        return 0
    version = last()
    differences = changes(version)
    for each in differences:
        print(f"{each.subject}: {each.text}; {each.reason or f'NO REASON in {REASONS.relative_to(ROOT)}'}")
    print(f"{len(differences)} changes since {version}, {len(missing(differences))} without a reason")
    return 1 if missing(differences) else 0


if __name__ == "__main__":
    sys.exit(main())
