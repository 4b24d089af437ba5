"""SecretAggregate: one Secret with keys from several."""

from __future__ import annotations

from collections.abc import Iterator

from ... import kube
from ...api import ANY_PURPOSE, SecretUse
from ...plan import Context, MissingReference, Plan, SpecError, Step
from .model import SecretAggregateSpec, Source


def plan(ctx: Context[SecretAggregateSpec]) -> Plan:
    """Return the target; published: nothing, and its values appear nowhere else."""
    name = ctx.spec.target_secret_name or ctx.owner
    if not ctx.spec.sources:
        # Not a plan without the target, which would delete it: programs read that.
        raise SpecError("spec.sources", "empty; add a source")
    missing = [fault for index, source in enumerate(ctx.spec.sources) for fault in _missing(ctx, index, source)]
    if missing:
        (path, message), rest = missing[0], missing[1:]
        raise MissingReference(path, "; ".join([message, *(f"{path}: {text}" for path, text in rest)]))
    target = kube.secret(ctx, name, collect(ctx, name))
    # Created, not applied: a Secret of that name that is not ours stays, also one that is created at the same moment.
    return Plan(Step(name="Secret", objects=(target,), guarded=True))


def collected(spec: SecretAggregateSpec) -> list[SecretUse]:
    """Return the Secrets that are copied, and of each the keys."""
    return [
        SecretUse(
            f"spec.sources[{index}].secretRef.name",
            source.secret_ref.name,
            frozenset(each.key for each in source.keys) if source.keys else None,
            ANY_PURPOSE,
        )
        for index, source in enumerate(spec.sources)
    ]


def _missing(ctx: Context[SecretAggregateSpec], index: int, source: Source) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each Secret and each key that is missing."""
    path, secret = f"spec.sources[{index}]", source.secret_ref.name
    if secret not in ctx.secrets:
        yield f"{path}.secretRef.name", f"there is no Secret {secret!r} in this namespace"
        return
    for position, each in enumerate(source.keys or ()):
        if each.key not in ctx.secrets[secret]:
            yield f"{path}.keys[{position}].key", f"Secret {secret!r} has no key {each.key!r}"


def collect(ctx: Context[SecretAggregateSpec], name: str) -> dict[str, str]:
    """Return the content of the target. Raise SpecError if two keys become one, or the target is a source of itself."""
    content: dict[str, str] = {}
    origins: dict[str, str] = {}
    for index, source in enumerate(ctx.spec.sources):
        secret, path = source.secret_ref.name, f"spec.sources[{index}]"
        if secret == name:
            raise SpecError(f"{path}.secretRef.name", "the target is also a source; set targetSecretName")
        names = {each.key: each.as_ for each in source.keys} if source.keys else dict.fromkeys(ctx.secrets[secret])
        for key, renamed in names.items():
            target = renamed or source.prefix + key
            if target in content:
                text = f"key {target!r} comes from Secret {origins[target]!r} already"
                raise SpecError(path, f"{text}; rename it with `as`, or use prefix")
            content[target], origins[target] = ctx.secrets[secret][key], secret
    return content
