"""Fields of any spec that do not go together: schedules, options of `config`, memory and volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ... import kube
from ...api import Model, PodSettings, models_in
from ...api.model import named_fields
from ...api.units import seconds
from ...plan import Context, IgnoredFields, Plan
from ..schedules import duration_text, next_times
from .config_check import written_options


def inconsistent_schedules(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return the schedules that no date has."""
    faults: dict[str, str] = {}
    for path, schedule in _schedules(ctx.spec):
        try:
            next_times(schedule, ctx.now, 1)
        except ValueError as error:
            faults[path] = f"{schedule!r} is not a schedule: {error}; write cron fields such as '0 0 * * 0'"
    return faults


def _schedules(spec: Model) -> Iterator[tuple[str, str]]:
    """Yield each field of a spec that is a schedule."""
    for path, model in models_in(spec):
        for name, field, _ in named_fields(type(model)):
            schedule = getattr(model, name)
            if name.endswith("schedule") and isinstance(schedule, str) and schedule:
                yield f"{path}.{field}", schedule


class _Pair(NamedTuple):
    """Two options of which one has to be larger than the other by a factor."""

    lower: tuple[str, str]
    lower_default: float
    upper: tuple[str, str]
    upper_default: float
    factor: float
    effect: str


_DOWN = "a running program counts as down between two reports"
_PAIRS: Mapping[str, tuple[_Pair, ...]] = {
    "Nova": (
        _Pair(("DEFAULT", "report_interval"), 10, ("DEFAULT", "service_down_time"), 60, 2, _DOWN),
        _Pair(
            ("DEFAULT", "rpc_response_timeout"),
            60,
            ("DEFAULT", "long_rpc_timeout"),
            1800,
            1,
            "long calls time out before the heartbeat",
        ),
    ),
    "Cinder": (_Pair(("DEFAULT", "report_interval"), 10, ("DEFAULT", "service_down_time"), 60, 2, _DOWN),),
    "Neutron": (_Pair(("agent", "report_interval"), 30, ("DEFAULT", "agent_down_time"), 75, 2, _DOWN),),
    "Octavia": (
        _Pair(
            ("health_manager", "heartbeat_interval"),
            10,
            ("health_manager", "heartbeat_timeout"),
            60,
            2,
            "healthy amphorae are failed over between two heartbeats",
        ),
    ),
}
"""Options of programs, with their defaults, by kind."""


_Written = dict[tuple[str, str], tuple[Any, str]]
"""Value and path of each option of a `config`, by section and name as oslo.config reads them."""


def inconsistent_options(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return the options of `config` that do not go together."""
    pairs = _PAIRS.get(ctx.spec.programs_of or ctx.kind, ())
    faults: dict[str, str] = {}
    for written in _configurations(ctx.spec) if pairs else ():
        for pair in pairs:
            lower, lower_path = _number(written, pair.lower, pair.lower_default)
            upper, upper_path = _number(written, pair.upper, pair.upper_default)
            path = upper_path or lower_path
            if path and lower is not None and upper is not None and upper < pair.factor * lower:
                names = f"{'.'.join(pair.upper)} is {upper:g} s, and {'.'.join(pair.lower)} {lower:g} s"
                text = (
                    f"{names}: {pair.effect}; raise the first to at least {pair.factor * lower:g} s, or lower the "
                    f"second"
                )
                faults.setdefault(path, text)
    return faults


def _configurations(spec: Model) -> Iterator[_Written]:
    """Yield the options of each `config` of a spec, merged over those of the parts of the spec that it is in."""
    by_base: dict[str, _Written] = {}
    for path, section, options in written_options(spec):
        name = section if section == "DEFAULT" else section.lower()
        by_base.setdefault(path.removesuffix(f".{section}"), {}).update(
            {(name, option.replace("-", "_")): (value, f"{path}.{option}") for option, value in options.items()}
        )
    for base in by_base:
        merged: _Written = {}
        # The shortest is that of the service.
        for outer in sorted(by_base, key=len):
            if base.startswith(outer.removesuffix("config")):
                merged |= by_base[outer]
        yield merged


def _number(written: _Written, option: tuple[str, str], default: float) -> tuple[float | None, str]:
    """Return the value of an option, None if it is no number, and its path if it is written."""
    value, path = written.get(option, (default, ""))
    try:
        return float(value), path
    except (TypeError, ValueError):
        return None, path


def inconsistent_resources(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return the requests of containers that are above their limits: Kubernetes refuses such pods."""
    faults: dict[str, str] = {}
    for path, settings in models_in(ctx.spec):
        resources = settings.resources if isinstance(settings, PodSettings) else None
        values = resources.model_dump(exclude_defaults=True) if resources else {}
        for name, request in values.get("requests", {}).items():
            limit = values.get("limits", {}).get(name)
            if limit is not None and kube.amount(str(request)) > kube.amount(str(limit)):
                text = f"{request} is more than limits.{name}, {limit}, and Kubernetes refuses the pods; lower it"
                faults[f"{path}.resources.requests.{name}"] = text
    return faults


class _Space(NamedTuple):
    """Space that a program takes by its spec."""

    path: str
    size: str
    """A quantity, or as the program writes it."""
    factor: float
    """Share of the whole that it takes in the end."""
    whole: str
    """Name of the field that has the whole: `memory` of the limits, or `storageSize`."""
    effect: str


_ENDED = "the kernel kills the server when it reaches that size"


def inconsistent_sizes(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return the caches that are larger than the memory of their server, and data that are larger than its volume."""
    resources = getattr(ctx.spec, "resources", None)
    limit = (resources.model_dump(exclude_defaults=True) if resources else {}).get("limits", {}).get("memory", "")
    wholes = {
        "spec.resources.limits.memory": str(limit),
        "spec.storageSize": str(getattr(ctx.spec, "storage_size", "")),
    }
    faults: dict[str, str] = {}
    spaces = _SPACES.get(ctx.kind)
    for space in spaces(ctx.spec) if spaces else ():
        needs, has = _bytes(space.size) * space.factor, _bytes(wholes[space.whole])
        if has and needs > has:
            text = (
                f"{space.size} is too much for {space.whole} {wholes[space.whole]}, which needs"
                f" {_mebibytes(needs)} or more: {space.effect}"
            )
            faults.setdefault(space.path, text)
    return faults


_MEMORY, _STORAGE = "spec.resources.limits.memory", "spec.storageSize"


def _of_mariadb(spec: Any) -> Iterator[_Space]:
    for path, _, options in written_options(spec):
        for name, value in options.items():
            match name.replace("-", "_"):
                case "innodb_buffer_pool_size":
                    yield _Space(f"{path}.{name}", _binary(value), 1.2, _MEMORY, _ENDED)
                case "innodb_log_file_size":
                    yield _Space(f"{path}.{name}", _binary(value), 1.5, _STORAGE, "these files alone fill the volume")
                case _:
                    pass


def _of_memcached(spec: Any) -> Iterator[_Space]:
    yield _Space("spec.memory", spec.memory, 1.1, _MEMORY, _ENDED)


def _of_valkey(spec: Any) -> Iterator[_Space]:
    yield _Space("spec.memory", spec.memory, 1.2, _MEMORY, _ENDED)
    yield _Space("spec.memory", spec.memory, 1, _STORAGE, "the write-ahead log does not fit")


def _of_etcd(spec: Any) -> Iterator[_Space]:
    yield _Space("spec.quota", spec.quota, 1.1, _STORAGE, "the volume is full before the quota is")
    yield _Space("spec.quota", spec.quota, 1, _MEMORY, _ENDED)


def _of_rabbitmq(spec: Any) -> Iterator[_Space]:
    effects = {
        "vm_memory_high_watermark.absolute": (_MEMORY, "the server is killed before it throttles clients"),
        "disk_free_limit.absolute": (_STORAGE, "the server blocks all publishers"),
    }
    for name, (whole, effect) in effects.items():
        if name in spec.config:
            yield _Space(f"spec.config.{name}", _binary(spec.config[name]), 1.2, whole, effect)


_SPACES: Mapping[str, Callable[[Any], Iterator[_Space]]] = {
    "Etcd": _of_etcd,
    "MariaDB": _of_mariadb,
    "Memcached": _of_memcached,
    "RabbitMQ": _of_rabbitmq,
    "Valkey": _of_valkey,
}


def _binary(size: Any) -> str:
    """Return a size as Kubernetes writes it, of a program that counts 128M as 128 MiB."""
    text = str(size).upper().removesuffix("B").removesuffix("I")
    return f"{text}i" if text[-1:] in {"K", "M", "G", "T"} else text


def _bytes(size: str) -> float:
    """Return a quantity in bytes; 0 for another text."""
    try:
        return float(kube.amount(size))
    except ValueError:
        return 0.0


def _mebibytes(size: float) -> str:
    return f"{-(-int(size) // 2**20)}Mi"


def inconsistent_periods(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return the times that end before, or after, those that they belong to."""
    spec, faults = ctx.spec, dict[str, str]()
    match ctx.kind:
        case "CredentialRotation":
            is_ours = "replace_every" in type(spec).model_fields
            old, every = ("keepOldFor", "replaceEvery") if is_ours else ("gracePeriodDays", "intervalDays")
            if spec.interval and 0 < spec.interval.days <= spec.grace_days:
                faults[f"spec.{old}"] = (
                    f"the old account stays for {spec.grace_days} days, at least as long as {every} "
                    f"({spec.interval.days}), and delays the next replacement; choose fewer days than {every}"
                )
        case "PKI":
            authority, certificate = seconds(spec.authority_lifetime), seconds(spec.certificate_lifetime)
            # An authority is replaced at two thirds of its life, and the overlap is at most half of the rest.
            if certificate > authority / 3:
                faults["spec.certificateLifetime"] = (
                    f"an authority of {spec.authority_lifetime} (authorityLifetime) is replaced when"
                    f" {duration_text(authority / 3)} of it are left, and certificates of {spec.certificate_lifetime}"
                    " end with it, earlier than set; choose a third of authorityLifetime or less"
                )
            if seconds(spec.overlap) > authority / 6:
                faults["spec.overlap"] = (
                    f"{spec.overlap} is more than a sixth of authorityLifetime, {spec.authority_lifetime}: programs"
                    f" trust a new authority for at most {duration_text(authority / 6)} before it signs; choose "
                    f"that or less"
                )
        case _:
            pass
    return faults


REVIEWS = (
    inconsistent_schedules,
    inconsistent_options,
    inconsistent_resources,
    inconsistent_sizes,
    inconsistent_periods,
)
"""Functions that compare fields of each kind."""
