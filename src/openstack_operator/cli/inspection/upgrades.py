"""The upgrade of a cloud to another release, in a few lines: what was checked, and how far its services are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...kube import conditions
from ...plan import PREFLIGHT, UPGRADE, UPGRADE_HELD, Object, condition_type, is_earlier


def release_of(plane: Object) -> str:
    """Return the release that a cloud is to run; empty for one that names none."""
    spec = plane.get("spec") or {}
    return str(spec.get("release") or (spec.get("global") or {}).get("release") or "")


def running_release(live: Object) -> str:
    """Return the release that runs completely in a resource; empty for a new one."""
    return str((live.get("status") or {}).get("release") or "")


def upgrade_lines(plane: Object, services: Sequence[Object]) -> Iterator[str]:
    """Yield what the check of a release says, and which services of a cloud have the release of an upgrade; nothing for
    a cloud without both.
    """
    target, old_release = release_of(plane), running_release(plane)
    check = conditions(plane).get(condition_type(PREFLIGHT))
    if check is not None:
        spec = plane.get("spec") or {}
        upgrade = spec.get("upgrade") or (spec.get("global") or {}).get("upgrade") or {}
        checked = target if is_earlier(old_release, target) else upgrade.get("checkRelease", "")
        result = "succeeded" if check["status"] == "True" else check.get("reason", "")
        text = check.get("message", "").removeprefix(f"check of release {checked}: ")
        yield ": ".join(part for part in (f"check of release {checked}", result, text) if part)
    elif is_earlier(old_release, target):
        yield from _progress(target, old_release, services)


def _progress(target: str, old_release: str, services: Sequence[Object]) -> Iterator[str]:
    """Yield how far an upgrade is."""
    upgraded = [
        each for each in services if (each.get("spec") or {}).get("release") == target and running_release(each)
    ]
    complete = [each for each in upgraded if running_release(each) == target]
    waiting = [each for each in upgraded if each not in complete and _is_held(each)]
    rolling = [each for each in upgraded if each not in complete and each not in waiting]
    yield f"upgrade from {old_release} to {target}:"
    for text, group in (
        ("programs are being replaced", rolling),
        ("all programs are new, the last step waits", waiting),
        ("done", complete),
    ):
        if group:
            yield f"  {text}: {', '.join(sorted(each['metadata']['name'] for each in group))}"


def _is_held(live: Object) -> bool:
    """Return True if nothing but the last step is left, which waits."""
    by_type = conditions(live)
    last = condition_type(UPGRADE)
    pending = {name for name, each in by_type.items() if name == condition_type(name) and each["status"] != "True"}
    return by_type.get(last, {}).get("reason") == UPGRADE_HELD and pending <= {last, "Ready"}
