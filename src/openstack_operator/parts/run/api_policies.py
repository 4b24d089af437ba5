"""Rules by which an API judges requests: a user's, compared with those of its release, and the operator's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ... import kube, oslo
from ...oslo import policies
from ...plan import Context, OptionsError

_LONGEST = 200
"""Characters of a rule, or of its name, that a message shows."""


def policy_files(ctx: Context[Any], own_rules: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the file policy.yaml by its name; none without a rule. Raises OptionsError for a rule of the user that the
    service does not know or oslo.policy does not understand, or that is one of `own_rules`.
    """
    own_rules = own_rules or {}
    if problems := list(_problems(ctx, own_rules)):
        raise OptionsError(*problems[0], *problems[1:])
    rules = {**own_rules, **ctx.spec.policies}
    return oslo.policy(rules) if rules else {}


def _problems(ctx: Context[Any], own_rules: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the rules of the user, with the path of each."""
    rules: Mapping[str, str] = ctx.spec.policies
    if rules and "policy_file" in ctx.spec.config.get("oslo_policy", {}):
        yield "spec.config.oslo_policy.policy_file", "spec.policies replaces this file; remove one of the two"
    checks = dict[str, list[str]]()
    for name, rule in rules.items():
        path = f"spec.policies.{kube.quote(name, _LONGEST)}"
        if name in own_rules:
            yield path, "the operator sets this rule itself, for programs of this cloud; remove it"
        try:
            checks[name] = policies.checks(rule)
        except policies.RuleError as error:
            yield path, f"oslo.policy cannot parse the rule: {kube.quote(str(error), _LONGEST)}"
    yield from _names(ctx, checks)
    if names := policies.cycle(checks):
        yield f"spec.policies.{kube.quote(names[0], _LONGEST)}", f"the rule refers to itself: {' → '.join(names[:10])}"


def _names(ctx: Context[Any], checks: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Yield names that the service does not know: of rules that nothing refers to, and of references."""
    programs: str = ctx.spec.programs_of or ctx.kind
    service_rules = ctx.release.options.get(programs.lower(), {}).get(policies.RULES)
    if not service_rules:
        return
    nearest, used = oslo.NearestNames(), {name for each in checks.values() for name in policies.referenced(each)}
    for name in ctx.spec.policies:
        path = f"spec.policies.{kube.quote(name, _LONGEST)}"
        if name not in service_rules and name not in used:
            yield path, f"{programs} {ctx.release.name} has no such rule{_hint(nearest.of(name, service_rules))}"
        for reference in policies.referenced(checks.get(name, [])):
            if reference not in service_rules and reference not in ctx.spec.policies:
                hint = _hint(nearest.of(reference, [*service_rules, *ctx.spec.policies]))
                yield path, f"refers to rule:{kube.quote(reference, _LONGEST)}, which does not exist{hint}"


def _hint(name: str) -> str:
    return f"; did you mean {name}?" if name else ""
