"""Fields of a resource set to another valid value, one at a time, and what its plan makes of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, cast

import yaml

from openstack_operator.api import CEPH_BESIDE, CLOUD_PKI, Ref, Resource, as_c5c3, crd, references
from openstack_operator.cli.offline.rules import evaluator
from openstack_operator.cli.offline.schema import RuleCheck, validate, with_defaults
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import FIELD
from openstack_operator.plan import (
    FIELDS_IGNORED,
    IMAGE_PROFILE,
    NO_PERMISSIONS,
    READY,
    Object,
    Plan,
    ResolvedRef,
    Service,
    SpecError,
    State,
    Verdict,
)
from openstack_operator.registry import ACTUATORS, EXTERNAL_KINDS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import load
from tests.fields import CLOUDS, ROOT, own_fields

Schema = Mapping[str, Any]
Steps = tuple[str, ...]
"""Names on the way to a field; `[]` is the first entry of a list, `{}` the first one of a map."""

KEY = "toggled"
"""Key of an entry that is added to a map."""
TEXTS = (
    *("toggled", "other", "toggled.example.org", "Toggled", "3", "40Gi", "160Gi", "640Mi", "95d", "36h", "15m", "90s"),
    *("0 3 * * *", f"sha256:{'a' * 64}", "registry.example.org/toggled:1", "198.51.100.0/24", "198.51.100.7/24"),
    *("198.51.100.7", "198.51.100.8", "198.51.100.8/24", "198.51.101.0/24", "https://toggled.example.org/path"),
    *("https://toggled.example.org", "https://other.example.org", "tcp:198.51.100.7:6641", "tcp:198.51.100.8:6641"),
    *("/srv/toggled", "/srv/other", "5:10", "6:10", "toggled.example.org.", "other.example.org.", "aes-xts-plain64"),
    *("ssh-ed25519 AAAA", "ssh-ed25519 AAAB", "files.example:/toggled", "files.example:/other", "15 3 * * *", "90m"),
    *("10.11", "11.8", "ldaps://toggled.example.org", "ldaps://other.example.org"),
)
"""Texts of which each pattern takes two at least."""


def remembering(holds: RuleCheck) -> RuleCheck:
    """Return a check of rules that evaluates each for equal values once: most fields stay as they are."""
    answers: dict[tuple[str, str], str] = {}

    def answer(rule: str, value: Any) -> str:
        asked = rule, json.dumps(value, sort_keys=True)
        if asked not in answers:
            answers[asked] = holds(rule, value)
        return answers[asked]

    return answer


class Result(NamedTuple):
    """What comes of another value."""

    answer: str
    """`effect`: the plan, its contract or a condition differs; `ignored`: the condition FieldsIgnored names the field;
    `refused`: the API server or the plan refuses the value and names the field; `unreached`: it refuses all values for
    what is around the field; `silent`: nothing differs.
    """
    message: str = ""


class Toggler:
    """The plan of one resource, to be compared with plans of it that differ in one field."""

    def __init__(self, service: Service, spec: Object, others: Sequence[Object] = ()) -> None:
        """Take the other resources that the spec names, if they are not those with defaults."""
        self._service = service
        self.schema: Schema = spec_schema(service.resource)
        self._cluster = _cluster()
        list(self._cluster.render([*_SECRETS, *others], "openstack"))
        self._outcomes: dict[str, Any] = {}
        self._refusals: dict[str, str] = {}
        self._spec = with_defaults(self.schema, spec)
        refusal = self._refusal(self._spec) or self._outcome(self._spec)
        if isinstance(refusal, str):
            raise ValueError(f"{service.resource.handle} is no base to compare with: {refusal}")

    def toggle(self, steps: Steps) -> Result:
        """Set a field to the first other value that is valid, and compare the plans with and without it."""
        path, refusals, silent = dotted(steps), list[str](), list[Result]()
        for value in self._candidates(steps):
            before, after = self._pair(steps, value)
            if before == after:
                continue
            if refusal := self._refusal(after):
                refusals.append(refusal)
                continue
            result = self._compare(path, before, after)
            # One of two choices may be what the unset field stands for.
            if result.answer != "silent" or not _is_choice(schema_at(self.schema, steps)):
                return result
            silent.append(result)
        if silent:
            return silent[0]
        message = "; ".join(dict.fromkeys(refusals))
        return Result("refused" if names_field(message, path) else "unreached", message)

    def _compare(self, path: str, before: Any, after: Any) -> Result:
        old, new = self._outcome(before), self._outcome(after)
        if isinstance(new, str):
            # A plan names the reference where what it points at is not good.
            return Result(
                "refused" if names_field(new, path) or names_field(new, _reference(path)) else "unreached", new
            )
        has_base = not isinstance(old, str) and not self._refusal(before)
        if not has_base:
            old = self._outcome(self._spec)
        if old[:2] != new[:2]:
            return Result("effect")
        if not has_base and not new[2]:
            return Result("unreached", "what is around the field is refused without it")
        return Result("ignored" if names_field(new[2], path) else "silent", new[2])

    def _refusal(self, spec: Any) -> str:
        """Return what the API server says against a spec; empty for a valid one."""
        name = json.dumps(spec, sort_keys=True)
        if name not in self._refusals:
            found = validate(self.schema, spec, RULES)
            self._refusals[name] = "; ".join(f"spec.{path}: {text}" for path, text in found)
        return self._refusals[name]

    def _outcome(self, spec: Any) -> Any:
        """Return what a plan does, and what it says; as text why there is no plan."""
        name = json.dumps(spec, sort_keys=True)
        if name not in self._outcomes:
            self._outcomes[name] = self._planned(spec)
        return self._outcomes[name]

    def _planned(self, spec: Any) -> Any:
        resource = self._service.resource
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        try:
            context = self._cluster.context({**manifest, "metadata": {"name": resource.role.lower()}}, "openstack")
            # Where a plan only waits for a resource, its name is in no object.
            optional = {ref: _published(ref) for _, ref in references(context.spec) if _is_optional(resource, ref)}
            refs = {ref: replace(it, verdict=Verdict(State.READY, str(ref))) for ref, it in context.refs.items()}
            return _parts(self._service.make_plan(replace(context, refs=optional | refs)))
        except SpecError as error:
            return str(error)

    def _pair(self, steps: Steps, value: Any) -> tuple[Any, Any]:
        """Return the spec with the objects around a field, and the same with a value of the field."""
        around = with_defaults(self.schema, with_value(self._spec, self.schema, (), steps, ABSENT))
        return around, with_defaults(self.schema, with_value(around, self.schema, (), steps, value))

    def _candidates(self, steps: Steps) -> Iterator[Any]:
        path, leaf = dotted(steps), schema_at(self.schema, steps)
        for end, first in LISTED["values"].items():
            if path.endswith(f".{end}"):
                yield from first if isinstance(first, list) else [first]
        yield from values(leaf)


def toggled(service: Service) -> dict[str, dict[str, str]]:
    """Return the answers to other values of each field of a kind, with a message for each, by path. Fields that the
    same kind of another group has in the same form are left out, and the templates of a cloud.
    """
    answers: dict[str, dict[str, str]] = {}
    fields = _fields_to_toggle(service)
    for entry in entries_for(service):
        try:
            toggler = _toggler(service, entry)
        except ValueError:
            if entry in LISTED["shared"]:
                continue
            raise
        every, rest = (tuple(f"spec.{path}" for path in entry.get(name, ())) for name in ("all", "only"))
        for steps in fields:
            path = dotted(steps)
            by_answer = answers.setdefault(path, {})
            if path.startswith(every) or not (every or rest) or (path.startswith(rest) and "effect" not in by_answer):
                result = toggler.toggle(steps)
                by_answer.setdefault(result.answer, result.message)
    return answers


def _fields_to_toggle(service: Service) -> list[Steps]:
    resource, fields = service.resource, list(leaves(spec_schema(service.resource)))
    if resource.kind in CLOUDS:
        own = set(own_fields(resource))
        return [steps for steps in fields if dotted(steps) in own]
    twin = next((each.resource for each in SERVICES if each.resource.kind == resource.kind), resource)
    twins = (
        {steps: schema_at(spec_schema(twin), steps) for steps in leaves(spec_schema(twin))} if twin != resource else {}
    )
    return [steps for steps in fields if twins.get(steps) != schema_at(spec_schema(resource), steps)]


def complete(schema: Schema) -> Any:
    """Return an object with a value for each field of a type."""
    if fields := schema.get("properties"):
        return {
            name: complete(inner)
            for name, inner in fields.items()
            if not inner.get("description", "").startswith("Renamed; ")
        }
    entries = entries_of(schema)
    if entries and (entries[1].get("properties") or entries_of(entries[1])):
        return [complete(entries[1])] if entries[0] == "[]" else {KEY: complete(entries[1])}
    return next(values(schema))


def child_of_template(cloud: Service, path: str, fields: Object) -> Object:
    """Return the resource that a cloud makes of a template with these fields."""
    *around, name = path.split(".")[1:]
    spec: Any = {name: {**fields, "enabled": True}}
    for step in reversed(around):
        spec = {step: spec}
    manifest = {"apiVersion": cloud.resource.api_version, "kind": cloud.resource.kind, "metadata": {"name": "cloud"}}
    plan = cloud.plan(_cluster().context({**manifest, "spec": spec}, "openstack"))
    return next(each for each in plan.objects if (each["metadata"].get("annotations") or {}).get(FIELD) == path)


def _cluster() -> OfflineCluster:
    """Return a cluster with every kind of other operators, in which resources may do all that can be permitted."""
    kinds = [kind.handle for kind in EXTERNAL_KINDS]
    permissive = replace(NO_PERMISSIONS, refuse=_permit)
    return OfflineCluster(SERVICES, ACTUATORS, _RELEASES, password="drawn", served=kinds, permissions=permissive)


def _permit(path: str, message: str) -> None:
    """Allow what needs a permission."""


def is_listed(list_name: str, role: str, path: str) -> bool:
    """Return True if a list of `toggling.yaml` has a field of a kind."""
    return any(is_end(end, role, path) for end in LISTED[list_name])


def is_end(end: str, role: str, path: str) -> bool:
    """Return True if an entry of a list means a field of a kind: by the end of its path, or by kind and path."""
    return f".{role}.{path}".endswith(f".{end}")


def entries_for(service: Service) -> list[Mapping[str, Any]]:
    """Return the resources of a kind, those with all fields first."""
    resource = service.resource
    names = (resource.handle, resource.kind, resource.role)
    own = next((LISTED["bases"][name] for name in names if name in LISTED["bases"]), [{}])
    return [*own, *(each for each in LISTED["shared"] if _has_all(service, each))]


def _toggler(service: Service, entry: Mapping[str, Any]) -> Toggler:
    """Return the toggler of a resource in `toggling.yaml`."""
    resource = service.resource
    fields = {name: value for name, value in entry.items() if name not in {"case", "only", "all"}}
    spec, others = case_of(service, entry["case"]) if "case" in entry else ({}, [])
    if resource.as_c5c3 and "case" not in entry:
        model = resource.spec.model_validate(fields)
        fields = as_c5c3(model, model.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True))
    return Toggler(service, {**spec, **fields}, others)


def _has_all(service: Service, entry: Mapping[str, Any]) -> bool:
    """Return True if a resource of this kind can have these fields."""
    fields = {name: value for name, value in entry.items() if name != "only"}
    schema = spec_schema(service.resource)
    return fields.keys() <= schema["properties"].keys() and not validate(schema, with_defaults(schema, fields), RULES)


def case_of(service: Service, name: str) -> tuple[Any, list[Object]]:
    """Return the spec in a case of this kind, and the other manifests of the case."""
    folder = service.plan.__module__.split(".")[2]
    manifests = load(ROOT / "src" / "openstack_operator" / "services" / folder / "cases" / f"{name}.yaml")
    own = next(each for each in manifests if each["kind"] == service.resource.kind)
    return own.get("spec", {}), [each for each in manifests if each is not own]


def dotted(steps: Steps) -> str:
    """Return the path of a field as tests name it: `spec.backends[].nfs.shares`."""
    return "spec" + "".join(step if step in {"[]", "{}"} else f".{step}" for step in steps)


def leaves(schema: Schema, steps: Steps = ()) -> Iterator[Steps]:
    """Yield the fields that have no fields of their own, those of the entries of lists and maps among them."""
    for name, inner in (schema.get("properties") or {}).items():
        yield from leaves(inner, (*steps, name))
    entries = entries_of(schema)
    if entries and (entries[1].get("properties") or entries_of(entries[1])):
        yield from leaves(entries[1], (*steps, entries[0]))
    elif not schema.get("properties"):
        yield steps


def schema_at(schema: Schema, steps: Steps) -> Schema:
    """Return the schema of a field."""
    for step in steps:
        schema = schema["properties"][step] if step not in {"[]", "{}"} else cast("Any", entries_of(schema))[1]
    return schema


def values(schema: Schema) -> Iterator[Any]:
    """Yield values of a type, of which at least one is another one than a given value; without its required fields an
    object would be none.
    """
    kind = "integer" if schema.get("x-kubernetes-int-or-string") else schema.get("type")
    if choices := schema.get("enum"):
        yield from choices
    elif schema.get("x-kubernetes-int-or-string"):
        yield from (text for text in ("3", "5Gi") if not validate(schema, text, RULES))
    elif kind == "boolean":
        yield from (True, False)
    elif kind in {"integer", "number"}:
        low = int(schema.get("minimum", 1))
        yield from (n for n in (low + 2, low + 4, low + 1, low) if n <= schema.get("maximum", n))
    elif kind == "string":
        yield from (text for text in TEXTS if not validate(schema, text, RULES))
    elif kind == "array":
        yield from ([entry] for entry in values(schema["items"]))
    else:
        if any(minimal(schema)):
            yield minimal(schema)
        if entries := entries_of(schema):
            yield from ({KEY: entry} for entry in values(entries[1]))
        elif schema.get("x-kubernetes-preserve-unknown-fields"):
            yield {KEY: "on"}


def minimal(schema: Schema) -> Any:
    """Return the smallest object of a type, which is switched on if it has a switch."""
    fields: Mapping[str, Schema] = schema.get("properties") or {}
    needed = [name for name in fields if name in (schema.get("required") or ()) or name == "enabled"]
    return {name: True if name == "enabled" else next(values(fields[name])) for name in needed}


def entries_of(schema: Schema) -> tuple[str, Schema] | None:
    """Return the step to the entries of a list or a map, and their schema."""
    if schema.get("type") == "array":
        return "[]", schema.get("items") or {}
    rest = schema.get("additionalProperties")
    return ("{}", cast("Schema", rest)) if isinstance(rest, Mapping) else None


def _created(schema: Schema, path: Steps, step: str) -> Any:
    """Return a new object of a type at a path, with what fields around the one after `step` need."""
    fields = minimal(schema)
    for end, by_step in LISTED["around"].items():
        if dotted(path).endswith(f".{end}"):
            fields |= by_step.get(step, by_step.get("*", {}))
    return fields


ABSENT = object()


def with_value(node: Any, schema: Schema, path: Steps, rest: Steps, value: Any) -> Any:
    """Return a copy of what is at a path, with a value at the end of the rest of it, and what is missing on the way;
    without a value (ABSENT) only with what is missing.
    """
    if not rest:
        return value
    step, further = rest[0], rest[1:]
    if step == "[]":
        items = list(node or ())
        if value is ABSENT and not further:
            return items
        first = items[0] if items else None
        return [with_value(first, schema["items"], (*path, step), further, value), *items[1:]]
    fields = dict(_created(schema, path, step) if node is None else node)
    inner = schema["properties"][step] if step != "{}" else schema["additionalProperties"]
    name = step if step != "{}" else next(iter(fields), KEY)
    if isinstance(fields.get("enabled"), bool) and step != "enabled":
        fields["enabled"] = True
    if value is ABSENT and not further:
        return fields
    return {**fields, name: with_value(fields.get(name), inner, (*path, step), further, value)}


def _parts(plan: Plan) -> tuple[Any, Any, str]:
    """Return the objects and results of a plan, its conditions, and the message of FieldsIgnored."""
    outcome = plan.outcome
    results = (outcome.published, outcome.endpoint, outcome.details, outcome.wake, outcome.members)
    verdicts: dict[str, Any] = {f"{name}/{step.name}": step.verdict for step, name in plan.condition.items()}
    extra_conditions = dict(outcome.extra_conditions)
    ignored = extra_conditions.pop(FIELDS_IGNORED, READY)
    # Of an image that runs nothing it would be an effect.
    extra_conditions.pop(IMAGE_PROFILE, None)
    return (list(plan.objects), results), (verdicts, extra_conditions), ignored.message


def _is_optional(user: Resource[Any], ref: Ref) -> bool:
    """Return True if a resource uses what the reference names once it exists; a CredentialRotation looks for one. Those
    of a cloud that has neither a PKI nor a Ceph do not exist: a plan with them needs their Secrets, too.
    """
    return ref.optional and user.kind != "CredentialRotation" and ref not in (CLOUD_PKI, CEPH_BESIDE)


def _published(ref: Ref) -> ResolvedRef:
    """Return the contract of a resource whose users do not wait for it."""
    return ResolvedRef(dict.fromkeys(("internalURL", "publicURL"), f"https://{ref.name}.example.org"))


def _is_choice(schema: Schema) -> bool:
    return "enum" in schema or schema.get("type") == "boolean"


def _reference(path: str) -> str:
    """Return the path of the reference that a field is part of; the path itself if it is part of none."""
    around, _, field = path.rpartition(".")
    return around if field in {"name", "key", "secretName"} and around.endswith("Ref") else path


def names_field(message: str, path: str) -> bool:
    """Return True if a message names a field, or a field within it."""
    pattern = re.escape(path).replace(re.escape("[]"), r"(\[[^\]]*\])?").replace(re.escape("{}"), r"\.['\w-]+")
    return re.search(rf"(^|[ ;]){pattern}(?![\w-])", message) is not None


@cache
def spec_schema(resource: Resource[Any]) -> Any:
    return crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


LISTED: Mapping[str, Any] = yaml.safe_load((ROOT / "tests" / "toggling.yaml").read_text("utf-8"))
_SECRETS = [
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "annotations": {"openstack.k8s.io/allowed-hosts": "*"}},
        "stringData": data,
    }
    for name, data in LISTED["secrets"].items()
]
RULES = remembering(evaluator())
_RELEASES = ReleaseFiles(ROOT / "releases")
