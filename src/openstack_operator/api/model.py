"""The base of everything users write: frozen values, documented by attribute docstrings."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self, cast, get_args

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

from .docstrings import field_docstring
from .kinds import OBEYED_SPECS

Rule = dict[str, Any]
"""An entry of x-kubernetes-validations."""


def rule(expression: str, message: str, field: str | None = None) -> Rule:
    """Return a CEL rule of a CRD: an `expression` over self (and oldSelf), and the `message` a user sees if it is
    false.
    """
    return {"rule": expression, "message": message} | ({"fieldPath": field} if field else {})


def by_group(*, ours: Rule | None = None, theirs: Rule | None = None) -> Rule:
    """Return a CEL rule that differs in kinds of c5c3's groups, or that only one of the two has."""
    return {OURS: ours, THEIRS: theirs}


def _extend_schema(schema: dict[str, Any], model: type[Any]) -> None:
    """Add the docstrings of fields, and what else of a model pydantic does not know."""
    for name, info in model.model_fields.items():
        if info.description is None and (text := field_docstring(model, name)):
            schema["properties"][info.alias or name]["description"] = text
    bases = [base.__dict__ for base in reversed(model.__mro__)]
    if rules := [entry for base in bases for entry in base.get("rules", ())]:
        schema["x-kubernetes-validations"] = rules
    if renamed := {old: new for base in bases for old, new in base.get("renamed", {}).items()}:
        schema[RENAMED] = renamed
    if deprecated := {old: new for base in bases for old, new in base.get("deprecated_names", {}).items()}:
        schema[DEPRECATED] = deprecated
    if names := {ours: theirs for base in bases for ours, theirs in base.get("c5c3_names", {}).items()}:
        schema[CALLED] = names
    _mark_nodes(schema, model)
    if issubclass(model, (Template, Templates)):
        schema[HANDED_ON] = TEMPLATE if issubclass(model, Template) else TEMPLATES


def _mark_nodes(schema: dict[str, Any], model: type[Any]) -> None:
    """Add what a model decides about nodes, for admission policies."""
    bases = [base.__dict__ for base in reversed(model.__mro__)]
    for attribute, mark in (("on_nodes", "field"), ("node_folders", "folder")):
        for name in {field for base in bases for field in base.get(attribute, ())}:
            schema["properties"][model.model_fields[name].alias or name][ON_NODES] = mark
    if agents := {field: switch for base in bases for field, switch in base.get("node_agents", {}).items()}:
        schema[NODE_AGENTS] = agents
    if model.node_values:
        schema[NODE_VALUES] = dict(model.node_values)
    if any(base.__name__ in OBEYED_SPECS for base in model.__mro__):
        schema[OBEYED] = True
    if issubclass(model, Template):
        schema[ENABLED_IF_UNSET] = model.enabled_by_others or model.model_fields["enabled"].default


OURS, THEIRS = "x-ours", "x-theirs"
"""Keys of a rule that differs by group; never leave this package."""
RENAMED = "x-renamed"
"""Marks a schema with names of fields that kinds of this group no longer have, and what to write instead; never leaves
this package."""
DEPRECATED = "x-deprecated"
"""Marks a schema with names that fields had in a released version, and their names now; never leaves this package."""
CALLED = "x-called"
"""Marks a schema with what its fields are called in kinds of c5c3's groups; never leaves this package."""
ON_NODES = "x-on-nodes"
"""Marks a field that decides what runs on nodes as root; never leaves this package."""
NODE_AGENTS = "x-node-agents"
"""Marks a schema with the fields that start programs which are root on nodes; never leaves this package."""
NODE_VALUES = "x-node-values"
"""Marks a schema with the values of fields by which nodes find a server they obey; never leaves this package."""
OBEYED = "x-obeyed"
"""Marks the spec of a program whose orders nodes take; never leaves this package."""
ENABLED_IF_UNSET = "x-enabled-if-unset"
"""Marks a template with whether it may run if `enabled` is unset; never leaves this package."""
NODE_MARKS = frozenset({ON_NODES, NODE_AGENTS, NODE_VALUES, OBEYED, ENABLED_IF_UNSET})
"""Marks that only admission policies and the reference read."""
KEY_TEXTS = "x-key-texts"
"""Marks a map that has only some keys with the description of each; never leaves this package."""
IS_NOW, WAS_RENAMED = "Renamed; write ", " was renamed; write "
HANDED_ON = "x-handed-on"
"""Marks a schema whose defaults another kind fills in; never leaves this package."""
TEMPLATE, TEMPLATES = "template", "templates"
"""Values of that mark: a template, and what only holds some."""


AS_OBJECT = "x-as-object"
"""Marks a schema with another one, for kinds whose images are objects; never leaves this package."""


class Destination(NamedTuple):
    """Servers that a Secret is sent to."""

    field: str
    """Of the reference to the Secret."""
    secret: str
    """Its name."""
    addresses: tuple[str, ...]
    """URLs, hosts with or without a port, or empty text for a server that a spec does not name plainly."""


class Model(BaseModel):
    """A frozen value read from the API; unknown fields are left to the API server to prune."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        json_schema_extra=_extend_schema,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
    """CEL rules over the whole object, checked by the API server; a subclass adds to its bases'."""

    renamed: ClassVar[Mapping[str, str]] = {}
    """Earlier names of fields, with the names to write instead; the API server refuses them by a rule that says so. One
    that the model still has is left to kinds of c5c3's groups."""

    on_nodes: ClassVar[tuple[str, ...]] = ()
    """Fields that decide what programs do as root on nodes; a subclass adds to its bases'. An admission policy lets
    only users with the verb `run-on-nodes` set them."""

    node_folders: ClassVar[tuple[str, ...]] = ()
    """The same for fields that name a folder of nodes. Every user may choose one below the operator's own."""

    node_agents: ClassVar[Mapping[str, tuple[Sequence[Any], Any]]] = {}
    """Fields that start programs which are root on nodes: the values that do, and the one that an unset field has. An
    empty name is for programs that always run. Only users with the verb may start them."""

    node_values: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Fields with the values that make a resource one whose orders programs on nodes take."""

    on_change: ClassVar[str] = ""
    """Effect of a change of most fields, as a sentence for readers of the definition."""

    programs_of: ClassVar[str] = ""
    """Kind whose programs read the options in `config` of a spec, if that is another kind than its own."""

    image_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of this model that name images of a release's programs."""

    @classmethod
    def from_spec(cls, content: Any) -> Self:
        """Return the model of what a user wrote. Fields have their names in YAML alone: a policy that looks for
        `nodeSelector` would miss `node_selector`. Raises ValidationError.
        """
        return cls.model_validate(content, by_alias=True, by_name=False)

    def default_refs(self) -> Mapping[str, Any]:
        """Return values of unset fields, by field: default references, which may depend on other fields."""
        return {}

    def destinations(self) -> Sequence[Destination]:
        """Return the servers that this model itself names beside Secrets that are sent to them. The author of a spec
        may have no right to read the Secret, so the Secret has to allow the server.
        """
        return ()

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the fields with numbers of pods, as a cloud that is to go on without any one of its nodes sets them
        unless its user does; `existing` is the spec of the resource if it exists.
        """
        return {}

    @property
    def runs_release(self) -> str:
        """OpenStack release to run; empty for kinds that are no part of OpenStack. Kinds with a release report the one
        that runs in their status.
        """
        return ""

    def __hash__(self) -> int:
        """Return the hash of the content, so that values with maps in them can be keys, too."""
        return hash((type(self), self.model_dump_json()))


REPLACES_PODS = (
    "A change replaces the pods that it concerns, one workload at a time; `openstack-operator plan -f FILE` lists them."
)
"""`on_change` of what runs pods."""

ALWAYS: Mapping[str, tuple[Sequence[Any], Any]] = {"": ((), None)}
"""`node_agents` of a spec whose programs are root on nodes in any case."""


class NamedField(NamedTuple):
    """A field of a model."""

    name: str
    alias: str
    """Name as users write it."""
    may_hold_models: bool
    """False for a free-form value, which contains none, however large it is."""


@cache
def named_fields(model: type[Model]) -> tuple[NamedField, ...]:
    """Return the fields of a model, which each plan looks at many times."""
    return tuple(
        NamedField(name, info.alias or name, _names_model(info.annotation)) for name, info in model.model_fields.items()
    )


def _names_model(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return True
    return any(map(_names_model, get_args(annotation)))


class CalledOtherwise(Model):
    """Mixed into models with fields that have other names in c5c3's groups; either name is read."""

    c5c3_names: ClassVar[Mapping[str, str]] = {}
    """Names there, by names here."""

    @model_validator(mode="before")
    @classmethod
    def _called(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        names = {theirs: ours for ours, theirs in cls.c5c3_names.items()}
        return {names.get(name, name): value for name, value in cast("Mapping[str, Any]", values).items()}


class RenamedSinceRelease(Model):
    """Mixed into models with fields that had other names in a released version. Stored objects have these names, so the
    definition keeps them, and either name is read. The new name wins: the API server stored a default under the old
    one, which stays in the object when its user writes the new one.
    """

    deprecated_names: ClassVar[Mapping[str, str]] = {}
    """New names by the names of the released version, as users write them. A field has to be optional and without a
    default in the definition, or the old name would never be read."""

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        fields = cast("Mapping[str, Any]", values)
        names = {old: new for base in cls.__mro__ for old, new in base.__dict__.get("deprecated_names", {}).items()}
        earlier = {names[name]: value for name, value in fields.items() if name in names and value is not None}
        return {**earlier, **{name: value for name, value in fields.items() if name not in names}}


def lasting_count(count: int, existing: Mapping[str, Any] | None) -> int:
    """Return the number of members of a server that keeps state. One that exists keeps its own until its user writes
    another one.
    """
    return count if existing is None else existing.get("replicas", 1)


class Template(Model):
    """Mixed into a spec that becomes another resource's. Unset fields stay unset, so that the other resource's own
    defaults apply; that resource also resolves the references.
    """

    enabled_by_others: ClassVar[bool] = False
    """True if another field may enable the service while `enabled` is unset."""

    enabled: bool = True
    """Run this service. Setting false removes its objects. Volumes follow their own retention."""


class Templates(Model):
    """Several templates side by side, whose unset fields stay unset as well."""
