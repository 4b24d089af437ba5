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
        """Raises SpecError for a component this profile does not have."""
        try:
            return self.components[component]
        except KeyError:
            message = f"release {self.name} has no {component!r} in profile {self.profile!r}"
            raise SpecError("spec.imageProfile", message) from None

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


def parse(
    data: Mapping[str, Any],
    profile: str,
    options: OptionLists | None = None,
    earlier_options: OptionLists | None = None,
) -> Release:
    """A Release from the content of releases/*.yaml. Raises SpecError for an unknown profile."""
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
    return ReleaseEntry(entry["image"], uid, entry.get("gid", uid), commands, dict(entry.get("env", {})), version)
