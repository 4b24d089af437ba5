"""SecretAggregate: one Secret of keys that stand in several."""

from __future__ import annotations

from collections.abc import Iterator

from ... import kube
from ...plan import Context, MissingReference, Plan, SpecError, Step, failed
from .model import SecretAggregateSpec, Source


def plan(ctx: Context[SecretAggregateSpec]) -> Plan:
    """The target; published: nothing, and of its values nothing stands anywhere else."""
    name = ctx.spec.target_secret_name or ctx.owner
    if not ctx.spec.sources:
        return Plan(Step(name="Secret", verdict=failed("spec.sources: there is nothing to collect", "InvalidSpec")))
    missing = [fault for index, source in enumerate(ctx.spec.sources) for fault in _missing(ctx, index, source)]
    if missing:
        (path, first), rest = missing[0], missing[1:]
        raise MissingReference(path, "; ".join([first, *(f"{path}: {text}" for path, text in rest)]))
    target = kube.secret(ctx, name, collected(ctx, name))
    # Created, not applied: one of that name that is not ours is left alone, also where it comes in the same moment.
    return Plan(Step(name="Secret", objects=(target,), guarded=True))


def _missing(ctx: Context[SecretAggregateSpec], index: int, source: Source) -> Iterator[tuple[str, str]]:
    """(path, what is not there) of each Secret and each key."""
    path, secret = f"spec.sources[{index}]", source.secret_ref.name
    if secret not in ctx.secrets:
        yield f"{path}.secretRef.name", f"there is no Secret {secret!r} in this namespace"
        return
    for position, each in enumerate(source.keys or ()):
        if each.key not in ctx.secrets[secret]:
            yield f"{path}.keys[{position}].key", f"Secret {secret!r} has no key {each.key!r}"


def collected(ctx: Context[SecretAggregateSpec], name: str) -> dict[str, str]:
    """Content of the target. Raises SpecError where two keys would be one, or it would be collected from itself."""
    found: dict[str, str] = {}
    whose: dict[str, str] = {}
    for index, source in enumerate(ctx.spec.sources):
        secret, path = source.secret_ref.name, f"spec.sources[{index}]"
        if secret == name:
            raise SpecError(f"{path}.secretRef.name", "the target would be collected from itself; set targetSecretName")
        wanted = {each.key: each.as_ for each in source.keys} if source.keys else dict.fromkeys(ctx.secrets[secret])
        for key, renamed in wanted.items():
            target = renamed or source.prefix + key
            if target in found:
                text = f"key {target!r} comes from Secret {whose[target]!r} already"
                raise SpecError(path, f"{text}; name it otherwise with `as`, or use prefix")
            found[target], whose[target] = ctx.secrets[secret][key], secret
    return found
