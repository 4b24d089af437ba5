"""Programs of a release: image, user and commands of each, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import SpecError

OptionLists = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Options of oslo.config that programs know, by service, section and name; what is known of each of them as JSON, empty
for no more than the name.
"""


@dataclass(frozen=True)
class ReleaseEntry:
    """One program of a release."""

    image: str
    uid: int
    gid: int
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """By purpose: `run`, `behind` (of an API to which another server of its pod hands requests on), `cluster` (of one
    of several members), `manage` (the command that makes schemas), `repair`, `ready`, `stop`; or named after its
    program.
    """
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    version: str = ""
    """Of what the image brings: OpenStack's release, or the version of a program that is no part of it."""
    upgrades_from: Sequence[str] = ()
    """Earlier major versions whose data this one takes over while the others of a cluster still run them."""
    versions: Mapping[str, ReleaseEntry] = field(default_factory=dict[str, "ReleaseEntry"])
    """The program in other major versions, by version."""

    @property
    def command(self) -> Sequence[str]:
        """Command that runs it; `{listen}`, `{port}`, `{processes}` and `{threads}` are left for its caller."""
        return self.commands.get("run", ())


@dataclass(frozen=True)
class Release:
    """Components of one OpenStack release in one image profile, by name (`nova-api`)."""

    name: str
    profile: str
    components: Mapping[str, ReleaseEntry]
    options: OptionLists = field(default_factory=dict[str, Mapping[str, Mapping[str, str]]], compare=False)
    """Options that programs know; empty where they are not listed."""
    earlier_options: OptionLists = field(default_factory=dict[str, Mapping[str, Mapping[str, str]]], compare=False)
    """Those that programs of a release before it knew."""
    defaults: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(
        default_factory=dict[str, Mapping[str, Mapping[str, Any]]]
    )
    """Options of services that have another default in this release than in others, by service and section; None for
    one that the release lost.
    """
    rewrites: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Tables that an upgrade writes again as a whole, by service, each with the release whose schema does so."""

    def __getitem__(self, component: str) -> ReleaseEntry:
        """Return the entry of a component. Raises SpecError for one that this profile does not have."""
        try:
            return self.components[component]
        except KeyError:
            message = f"release {self.name} has no {component!r} in profile {self.profile!r}"
            raise SpecError("spec.imageProfile", message) from None

    def in_version(self, component: str, version: str) -> ReleaseEntry:
        """Return a component in a version; empty is that of the release. Raises SpecError for one without an image."""
        entry = self[component]
        if version in {"", entry.version}:
            return entry
        if version not in entry.versions:
            choices = ", ".join(sorted({entry.version, *entry.versions}, key=major))
            remedy = f"choose from {choices}" if entry.versions else f"remove it; only {entry.version} is available"
            raise SpecError("spec.version", f"release {self.name} has no {component} {version}; {remedy}")
        return entry.versions[version]

    def __contains__(self, component: str) -> bool:
        """Return True if this component is a process of its own in this profile."""
        return component in self.components


NO_RELEASE = Release("", "", {})
"""Release of resources that run nothing."""


_NAME = re.compile(r"(\d{4})\.([12])")


def place(release: str) -> int | None:
    """Return the place of a release in the order of all, two a year; None for a name that OpenStack does not give."""
    match = _NAME.fullmatch(release)
    return 2 * int(match[1]) + int(match[2]) if match else None


def is_earlier(release: str, other_release: str) -> bool:
    """Return True if a release came before the other one. A name that OpenStack does not give, as of a file of your
    own, has no place among them: between it and others is no upgrade.
    """
    own_place, other_place = place(release), place(other_release)
    return own_place is not None and other_place is not None and own_place < other_place


def major(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, such as 11.8 of 11.8.6, in an order of versions; empty for a text that
    is none, or is the name of a release of OpenStack.
    """
    match = re.match(r"v?(\d+)\.(\d+)(?!\d)", version)
    return (int(match[1]), int(match[2])) if match and place(version) is None else ()


def check_version(entry: ReleaseEntry, running_version: str, version: str, path: str, way_back: str) -> bool:
    """Return True if the major version of a program changes with `version`. Of a text that is no version nothing is
    known. Raises SpecError for an earlier version than the running one, with the `way_back`, and for an upgrade to the
    version of the entry from one that it does not name.
    """
    old, new = major(running_version), major(version)
    if not old or not new or old == new:
        return False
    if new < old:
        raise SpecError(path, f"{version} cannot read the data of the running {running_version}; {way_back}")
    if new == major(entry.version) and old not in {major(each) for each in entry.upgrades_from}:
        choices = (
            f"upgrade to {' or '.join(entry.upgrades_from)} first" if entry.upgrades_from else f"keep {running_version}"
        )
        raise SpecError(path, f"{running_version} runs and cannot be upgraded to {version}; {choices}")
    return True


def parse(
    data: Mapping[str, Any],
    profile: str,
    options: OptionLists | None = None,
    earlier_options: OptionLists | None = None,
) -> Release:
    """Return a Release from the content of releases/*.yaml. Raises SpecError for an unknown profile."""
    try:
        components = data["profiles"][profile]["components"]
    except KeyError:
        choices = ", ".join(data.get("profiles", {}))
        raise SpecError("spec.imageProfile", f"there is no profile {profile!r}; choose from {choices}") from None
    release = str(data["release"])
    by_name = {name: _entry(entry, release) for name, entry in components.items()}
    defaults, rewrites = (data.get(name, {}) for name in ("defaults", "rewrites"))
    return Release(release, profile, by_name, options or {}, earlier_options or {}, defaults, rewrites)


def _entry(entry: Mapping[str, Any], release: str) -> ReleaseEntry:
    uid = entry.get("uid", 0)
    commands = {purpose: tuple(words) for purpose, words in entry.get("commands", {}).items()}
    version = str(entry.get("version", release))
    common = {name: value for name, value in entry.items() if name not in {"versions", "upgradesFrom"}}
    versions = {
        str(each): _entry({**common, **changes, "version": each}, release)
        for each, changes in entry.get("versions", {}).items()
    }
    return ReleaseEntry(
        entry["image"],
        uid,
        entry.get("gid", uid),
        commands,
        dict(entry.get("env", {})),
        version,
        tuple(str(each) for each in entry.get("upgradesFrom", ())),
        versions,
    )
