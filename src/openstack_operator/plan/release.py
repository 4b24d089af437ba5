"""What a release runs: image, user and command of each component, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import SpecError


@dataclass(frozen=True)
class Component:
    """One program of a release."""

    image: str
    uid: int
    gid: int
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Release:
    """Components of one OpenStack release in one image profile, by name (`nova-api`)."""

    name: str
    profile: str
    components: Mapping[str, Component]

    def __getitem__(self, component: str) -> Component:
        try:
            return self.components[component]
        except KeyError:
            raise SpecError(
                "spec.imageProfile", f"release {self.name} has no {component!r} in profile {self.profile!r}"
            ) from None


def parse(data: Mapping[str, Any], profile: str) -> Release:
    """A Release from the content of releases/*.yaml. Raises SpecError for an unknown profile."""
    try:
        components = data["profiles"][profile]["components"]
    except KeyError:
        choices = ", ".join(data.get("profiles", {}))
        raise SpecError("spec.imageProfile", f"there is no profile {profile!r}; choose from {choices}") from None
    return Release(
        str(data["release"]),
        profile,
        {
            name: Component(
                image=entry["image"],
                uid=entry.get("uid", 0),
                gid=entry.get("gid", entry.get("uid", 0)),
                command=tuple(entry.get("command", ())),
                env=dict(entry.get("env", {})),
            )
            for name, entry in components.items()
        },
    )
