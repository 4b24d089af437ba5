"""Advisories of packages that this repository locks: `python -m tools.checks.advisories`.

It compares the lock files with tools/checks/advisories.json. `refresh SOURCE --date DATE` renews that list from
advisories in the format of OSV (https://ossf.github.io/osv-schema/): SOURCE is a folder, a .zip, or the URL of one.
DATE is the day of the data.
"""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("tools.checks.advisories")

import argparse
import datetime
import io
import json
import re
import sys
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tools" / "checks" / "advisories.json"
LOCKS = (
    *("requirements.lock", "requirements-dev.lock", "images/tempest/requirements.lock", "images/pypi/*.lock"),
    "tests/e2e/on_clients/locks/*.lock",
)
ECOSYSTEM = "PyPI"
MOST = 512 << 20
"""Bytes of an archive of advisories. That of the whole package index has some ten million."""

_OF_IMAGES = "images/pypi/*.lock"
_TOBIKO, _TESTED_CLOUD = (
    "tests/e2e/on_clients/locks/tobiko.lock",
    "Tobiko needs urllib3 1, and asks the tested cloud alone",
)
_OLD = "it is of 2012, when versions were other numbers, and its range has no end"
_CONSTRAINED = "OpenStack's upper-constraints of the release name this version, and"
ACCEPTED: Mapping[tuple[str, str], str] = {
    (_OF_IMAGES, "PYSEC-2012-18"): _OLD,
    (_OF_IMAGES, "PYSEC-2012-19"): _OLD,
    (_OF_IMAGES, "PYSEC-2012-20"): _OLD,
    (_OF_IMAGES, "PYSEC-2012-21"): _OLD,
    (_OF_IMAGES, "PYSEC-2023-121"): "it is of the command of zstd 1.4.10; its range has no end, and this is 1.5.7",
    (_OF_IMAGES, "GHSA-79v4-65xg-pq4g"): f"{_CONSTRAINED} no program asks for raw public keys in TLS",
    (_OF_IMAGES, "GHSA-hw6f-rjfj-j7j7"): f"{_CONSTRAINED} APIs run in uWSGI, not in eventlet's server",
    (_OF_IMAGES, "GHSA-pq67-6m6q-mj2v"): f"{_CONSTRAINED} no program turns redirects off by a pool's retries",
    (_OF_IMAGES, "GHSA-gm62-xv2j-4w53"): f"{_CONSTRAINED} the servers that are asked are those of the cloud",
    **dict.fromkeys(
        ((_TOBIKO, each) for each in ("GHSA-2xpw-w6gg-jr37", "GHSA-gm62-xv2j-4w53", "GHSA-pq67-6m6q-mj2v")),
        _TESTED_CLOUD,
    ),
    (_OF_IMAGES, "GHSA-2xpw-w6gg-jr37"): f"{_CONSTRAINED} the servers that are asked are those of the cloud",
}
"""By pattern of lock files and advisory: why the version stays."""

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)


class AdvisoriesError(Exception):
    """A list or a source that cannot be read."""


class Finding(NamedTuple):
    """A locked version that an advisory affects."""

    lock: str
    package: str
    version: str
    advisory: str
    fixed: str

    def __str__(self) -> str:
        advice = f"lock {self.fixed} or later" if self.fixed else "there is no version without it"
        return f"{self.lock}: {self.package} {self.version} is affected by {self.advisory}; {advice}"


def canonical(name: str) -> str:
    """Return the name of a package as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and version of each package of a lock file."""
    for match in _PIN.finditer(text):
        yield canonical(match["name"]), match["version"]


def locks(root: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the packages of each lock file."""
    paths = sorted(path for pattern in LOCKS for path in root.glob(pattern))
    return {str(path.relative_to(root)): list(pins(path.read_text(encoding="utf-8"))) for path in paths}


def fixed_version(version: str, ranges: Iterable[Sequence[str]]) -> str | None:
    """Return None for a version outside of all ranges; otherwise the first one that is fixed, empty if none is. A range
    is where it begins, where it is fixed, and the last one affected; texts that say nothing are empty.
    """
    number = Version(version)
    for introduced, fixed, last in ranges:
        begins = introduced in ("", "0") or number >= Version(introduced)
        ends = (fixed and number >= Version(fixed)) or (last and number > Version(last))
        if begins and not ends:
            return fixed
    return None


def findings(
    locked: Mapping[str, Sequence[tuple[str, str]]], advisories: Iterable[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Yield what the advisories say of locked versions."""
    by_package: dict[str, list[Mapping[str, Any]]] = {}
    for each in advisories:
        by_package.setdefault(each["package"], []).append(each)
    for lock, packages in locked.items():
        for name, version in packages:
            for each in by_package.get(name, ()):
                if (fixed := fixed_version(version, each["ranges"])) is not None:
                    yield Finding(lock, name, version, each["id"], fixed)


def read_list(path: Path = LIST) -> dict[str, Any]:
    """Return the list. Raises AdvisoriesError if there is none."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        datetime.date.fromisoformat(content["date"])
    except (OSError, ValueError, KeyError) as error:
        raise AdvisoriesError(
            f"{path}: {error}; run python -m tools.checks.advisories refresh SOURCE --date DATE"
        ) from error
    return content


def records(source: str) -> Iterator[dict[str, Any]]:
    """Yield the advisories of a folder or an archive. Raises AdvisoriesError for another source."""
    if source.startswith("https://"):
        with urllib.request.urlopen(source, timeout=60) as answer:
            yield from _of_archive(answer.read(MOST))
    elif source.endswith(".zip"):
        yield from _of_archive(Path(source).read_bytes())
    elif Path(source).is_dir():
        for path in sorted(Path(source).rglob("*")):
            if path.suffix in (".json", ".yaml") and path.is_file():
                yield from _parsed(path.name, path.read_text(encoding="utf-8"))
    else:
        raise AdvisoriesError(f"{source} is no folder, no .zip and no https:// of one")


def _of_archive(content: bytes) -> Iterator[dict[str, Any]]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except zipfile.BadZipFile as error:
        raise AdvisoriesError(f"not an archive: {error}") from error
    with archive:
        for name in sorted(archive.namelist()):
            if name.endswith((".json", ".yaml")):
                yield from _parsed(name, archive.read(name).decode())


def _parsed(name: str, text: str) -> Iterator[dict[str, Any]]:
    try:
        record: Any = json.loads(text) if name.endswith(".json") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise AdvisoriesError(f"{name}: {error}") from error
    if isinstance(record, dict) and "id" in record and "affected" in record:
        yield record


def entries(record: Mapping[str, Any], packages: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield what an advisory says of packages that are locked: its facts, without its text."""
    for affected in record["affected"]:
        package = affected.get("package") or {}
        name = canonical(package.get("name", ""))
        if package.get("ecosystem") != ECOSYSTEM or name not in packages:
            continue
        ranges = [
            one for each in affected.get("ranges") or () if each.get("type") == "ECOSYSTEM" for one in _ranges(each)
        ]
        ranges = ranges or [[version, "", version] for version in affected.get("versions") or ()]
        valid = [each for each in ranges if all(_is_version(text) for text in each)]
        if valid:
            aliases = sorted(record.get("aliases") or ())
            yield {"id": record["id"], "aliases": aliases, "package": name, "ranges": valid}


def _ranges(each: Mapping[str, Any]) -> Iterator[list[str]]:
    introduced = ""
    for event in each.get("events") or ():
        if "introduced" in event:
            if introduced:
                yield [introduced, "", ""]
            introduced = str(event["introduced"])
        elif introduced:
            yield [introduced, str(event.get("fixed", "")), str(event.get("last_affected", ""))]
            introduced = ""
    if introduced:
        yield [introduced, "", ""]


def _is_version(text: str) -> bool:
    try:
        return not text or bool(Version(text))
    except InvalidVersion:
        return False


def refreshed(
    old: Mapping[str, Any], source: Iterable[Mapping[str, Any]], packages: Iterable[str], date: str
) -> dict[str, Any]:
    """Return the list with the advisories of a source. Those that it does not have stay, unless another one of the
    source is about the same. Those that were withdrawn go.
    """
    names, new, source_names = set(packages), list[dict[str, Any]](), set[str]()
    for record in source:
        source_names |= {record["id"], *(record.get("aliases") or ())}
        if not record.get("withdrawn"):
            new += entries(record, names)
    older = [each for each in old.get("advisories", ()) if source_names.isdisjoint({each["id"], *each["aliases"]})]
    whole = sorted([*older, *new], key=lambda each: (each["package"], each["id"]))
    return {"date": date, "advisories": whole}


def check(root: Path, listed: Mapping[str, Any], accepted: Mapping[tuple[str, str], str] = ACCEPTED) -> list[str]:
    """Return the faults: locked versions that are affected, and acceptances that nothing needs."""
    faults, used = list[str](), set[tuple[str, str]]()
    for each in findings(locks(root), listed["advisories"]):
        reasons = {key for key in accepted if key[1] == each.advisory and fnmatch(each.lock, key[0])}
        used |= reasons
        faults += [] if reasons else [str(each)]
    unused = sorted(accepted.keys() - used)
    return [
        *faults,
        *(f"{lock}: nothing is affected by {advisory}; remove it from ACCEPTED" for lock, advisory in unused),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if no locked version is affected."""
    parser = argparse.ArgumentParser(prog="python -m tools.checks.advisories", description=__doc__)
    parser.add_argument("--max-age", type=int, metavar="DAYS", help="fail if the list is older")
    commands = parser.add_subparsers(dest="command")
    refresh = commands.add_parser("refresh", help="renew the list")
    refresh.add_argument("source", help="folder, .zip, or https:// of one")
    refresh.add_argument("--date", required=True, type=datetime.date.fromisoformat, help="day of the data")
    options = parser.parse_args(arguments)
    try:
        if options.command == "refresh":
            return _refresh(options.source, options.date.isoformat())
        return _check(options.max_age)
    except (AdvisoriesError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _refresh(source: str, date: str) -> int:
    packages = {name for each in locks(ROOT).values() for name, _ in each}
    old = read_list() if LIST.exists() else {}
    new = refreshed(old, records(source), packages, date)
    lines = ",\n".join(f"  {json.dumps(each)}" for each in new["advisories"])
    text = f'{{\n "date": "{new["date"]}",\n "advisories": [\n{lines}\n ]\n}}\n'
    LIST.write_text(text, encoding="utf-8")
    print(f"{LIST.relative_to(ROOT)}: {len(new['advisories'])} advisories")
    return 0


def _check(max_age: int | None) -> int:
    listed = read_list()
    faults = check(ROOT, listed)
    days = (datetime.datetime.now(datetime.UTC).date() - datetime.date.fromisoformat(listed["date"])).days
    if max_age is not None and days > max_age:
        faults.append(f"{LIST.relative_to(ROOT)} is {days} days old; refresh it from a newer source")
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
