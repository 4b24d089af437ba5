"""Content that no schema foresaw, for every field of a definition that takes it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import httpx2 as httpx
import msgspec

from openstack_operator import api
from openstack_operator.runtime.kubernetes.kinds import Kind

from .harness import TIMEOUT, Cluster

Path = tuple[str, ...]
"""Names of fields from the spec on; `[]` is an entry of a list, `*` a value of a map."""

LEVELS = 1_200
"""Python decodes fewer than 1,000."""
MOST_LEVELS = 10_000
"""What the API server reads of one request, in all."""
ITEMS = 100_000
_OWNED = 30_000
"""Entries of a map of which each may have another owner. The API server takes 0.3 s for so many, and a minute for
100,000, as it does for labels of its own objects."""
TEXT = "x" * 1_000_000

_TOGETHER = 12
"""Fields that one resource has hostile content in. The API server takes most of its time for each object."""
_PIECE = 8_000
_PIECES = [
    # JSON may say half of a surrogate pair alone, which is no text.
    msgspec.Raw(json.dumps("".join(map(chr, range(start, min(start + _PIECE, 0x110000))))).encode())
    for start in range(0, 0x110000, _PIECE)
]
"""All of Unicode, with all controls and lone surrogates, a piece each."""
_SHORT = "\x00\x01\x1b[2J\r\n\t\x7f\x85\u2028\u202e\ufeff\U0001f4a9\U000e0001\U0010ffff"

VALUE, STRUCTURE, TEXTS, MAP, LIST, WORD = "value", "structure", "texts", "map", "list", "word"
"""Sorts of fields: without a type, an object without a schema, a map of texts, another map, a list, a text."""


@dataclass(frozen=True)
class Place:
    """A field that takes more than its schema says."""

    path: Path
    schema: Mapping[str, Any] = field(hash=False, compare=False)

    @property
    def sort(self) -> str:
        if self.schema.get("x-kubernetes-preserve-unknown-fields"):
            return STRUCTURE if self.schema.get("type") == "object" else VALUE
        if "additionalProperties" in self.schema:
            return TEXTS if self.schema["additionalProperties"].get("type") == "string" else MAP
        return LIST if self.schema["type"] == "array" else WORD

    @property
    def is_of_names(self) -> bool:
        """Whether its texts are names, of few characters or of few letters."""
        values = self.schema.get("additionalProperties") if self.sort == TEXTS else self.schema
        return isinstance(values, dict) and ("pattern" in values or values.get("maxLength", len(_SHORT)) < len(_SHORT))

    def bound(self, keyword: str) -> bool:
        """Whether the schema bounds what is hostile in the field: itself, or the values of a map."""
        inner = self.schema["additionalProperties"] if self.sort == TEXTS and keyword == "maxLength" else self.schema
        return keyword in inner and self.sort != STRUCTURE


@dataclass(frozen=True)
class Attack:
    """A resource to write, and what is to become of it."""

    name: str
    fields: tuple[Path, ...]
    spec: Any
    refusal: str = ""
    """What the API server says to it; empty where it takes it."""
    report: str = ""
    """What the operator says of it in its Ready condition."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


def definition(resource: api.Resource[Any]) -> dict[str, Any]:
    """The schema of a kind's spec, as the API server has it."""
    return api.crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def places(schema: Mapping[str, Any], path: Path = ()) -> Iterator[Place]:
    """Every field without a schema, every map, and what else has no bound."""
    text = schema.get("type") == "string" and not {"maxLength", "enum", "format", "pattern"} & schema.keys()
    items = schema.get("type") == "array" and "maxItems" not in schema
    inner = schema.get("additionalProperties")
    if text or items or inner or schema.get("x-kubernetes-preserve-unknown-fields"):
        yield Place(path, schema)
    for name, each in schema.get("properties", {}).items():
        yield from places(each, (*path, name))
    for mark, each in (("*", inner), ("[]", schema.get("items"))):
        if isinstance(each, dict):
            yield from places(each, (*path, mark))


def attacks(resource: api.Resource[Any]) -> Iterator[Attack]:
    """Everything that is tried on a kind.

    What is deep and what is strange is tried in every place. What is large takes the API server most, and is tried in
    one place of each sort, with a bound and without.
    """
    schema = definition(resource)
    found = list(places(schema))
    free = [place for place in found if place.sort in (VALUE, STRUCTURE)]
    texts = [place for place in found if place.sort in (TEXTS, WORD)]
    names = [place for place in texts if place.is_of_names]
    for number, group in enumerate(_packed(free)):
        yield _attack(f"deep-{number}", schema, dict.fromkeys(group, _deep()), report=_NESTED)
    for number, group in enumerate(_packed(texts)):
        contents = {place: {"a": _deep()} if place.sort == TEXTS else _deep() for place in group}
        yield _attack(f"no-text-{number}", schema, contents, refusal="must be of type string")
    for number, group in enumerate(_packed([place for place in (*free, *texts) if place not in names])):
        yield _attack(f"unicode-{number}", schema, {place: _strange(resource, place) for place in group})
    for number, group in enumerate(_packed(names)):
        contents = {place: _strange(resource, place) for place in group}
        yield _attack(f"no-name-{number}", schema, contents, refusal="should match|may not be more than")
    for place in free[:1]:
        for name, more in (("deepest", 0), ("too-deep", 1)):
            content = {"a": _lists(MOST_LEVELS + more - _above(place) - 1)}
            yield _attack(name, schema, {place: content}, refusal="exceeded max depth" if more else "", report=_NESTED)
    for place in {(each.sort, *map(each.bound, _BOUNDS)): each for each in reversed(found)}.values():
        yield from _large(schema, place)
    yield from _metadata(schema)


def _large(schema: Mapping[str, Any], place: Place) -> Iterator[Attack]:
    name = f"{place.sort}-{'-'.join(str(int(place.bound(each))) for each in _BOUNDS)}"
    if place.sort not in (LIST, WORD):
        is_owned = place.sort in (TEXTS, MAP) and place.schema.get("x-kubernetes-map-type") != "atomic"
        value = _example(place.schema.get("additionalProperties", {}))
        many = {f"a{number}": value for number in range(_OWNED if is_owned else ITEMS)}
        refusal = "must have at most" if place.bound("maxProperties") else ""
        content = {"a": many} if place.sort == STRUCTURE else many
        yield _attack(f"many-{name}", schema, {place: content}, refusal=refusal, report=_LARGE)
    if place.sort not in (LIST, MAP):
        refusal = "may not be more than" if place.bound("maxLength") else ""
        content = {"a": TEXT} if place.sort in (TEXTS, STRUCTURE) else TEXT
        yield _attack(f"text-{name}", schema, {place: content}, refusal=refusal, report=_LARGE)
    if place.sort in (LIST, VALUE):
        # Of four digits, where any value is taken: 500 KB, which is more than is looked at.
        content = [_example(place.schema["items"]) if "items" in place.schema else 1_000] * ITEMS
        refusal = "must have at most" if place.bound("maxItems") else ""
        yield _attack(f"items-{name}", schema, {place: content}, refusal=refusal, report=_LARGE)
    if place.sort == STRUCTURE:
        # 200 KB: of a size that is looked at.
        yield _attack(f"items-{name}", schema, {place: {"a": [0] * ITEMS}})


def _metadata(schema: Mapping[str, Any]) -> Iterator[Attack]:
    plain = _example(schema)
    for name, meta, refusal in (
        ("annotated", {"annotations": {"a": _PIECES[0], "example.org/b": _PIECES[-1]}}, ""),
        ("labels", {"labels": {"a": _SHORT}}, "a valid label must be"),
        ("text-annotations", {"annotations": {"a": TEXT}}, "may not be more than"),
        ("deep-annotations", {"annotations": {"a": _deep()}}, "cannot unmarshal object"),
    ):
        yield Attack(name, (), plain, refusal, metadata=meta)


_BOUNDS = ("maxLength", "maxItems", "maxProperties")
_NESTED = "is nested deeper than 100 levels; make it flatter"
_LARGE = "spec: is larger than 256 KiB; make it smaller"


def _attack(
    name: str, schema: Mapping[str, Any], contents: Mapping[Place, Any], *, refusal: str = "", report: str = ""
) -> Attack:
    by_path = {place.path: content for place, content in contents.items()}
    return Attack(name.replace("_", "-"), tuple(by_path), spec_with(schema, by_path), refusal, report)


def _packed(found: Iterable[Place]) -> Iterator[Sequence[Place]]:
    """Groups of places of which none lies in another."""
    left = list(found)
    while left:
        group: list[Place] = []
        for place in left:
            if len(group) < _TOGETHER and not any(_overlap(place.path, other.path) for other in group):
                group.append(place)
        yield group
        left = [place for place in left if place not in group]


def _overlap(one: Path, other: Path) -> bool:
    """Whether one field lies in the other, or both in the same entry of a list, which is of one sort or another."""
    shared = next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), None)
    return shared is None or "[]" in one[:shared]


def _deep() -> msgspec.Raw:
    return msgspec.Raw(b'{"a":' * LEVELS + b"1" + b"}" * LEVELS)


def _lists(levels: int) -> msgspec.Raw:
    return msgspec.Raw(b"[" * levels + b"]" * levels)


def _above(place: Place) -> int:
    """Levels of a request around a field."""
    return len(place.path) + 1


def _strange(resource: api.Resource[Any], place: Place) -> Any:
    piece = _PIECES[hash_of(resource.handle, *place.path) % len(_PIECES)]
    if place.sort == TEXTS:
        return {"a": _SHORT}
    return {"a": piece, _SHORT: [_SHORT]} if place.sort == STRUCTURE else piece


def hash_of(*words: str) -> int:
    """A number that is the same in every run."""
    return int.from_bytes("/".join(words).encode()[-7:], "big")


def spec_with(schema: Mapping[str, Any], contents: Mapping[Path, Any]) -> Any:
    """A value that a schema takes, with that content in the fields of these paths."""
    if () in contents:
        return contents[()]
    if set(contents) == set() and "default" in schema:
        return schema["default"]
    inner = {
        name: {path[1:]: contents[path] for path in paths}
        for name, paths in groupby(sorted(contents), key=lambda path: path[0])
    }
    if "[]" in inner:
        return [spec_with(schema["items"], inner["[]"])]
    if "*" in inner:
        return {"a": spec_with(schema["additionalProperties"], inner["*"])}
    fields = schema.get("properties", {})
    beside = next((more for name, more in _BESIDE.items() if name in inner and more.keys() <= fields.keys()), {})
    beside = beside or next((more for more in _ALONE if more.keys() <= fields.keys()), {})
    needed = {name: _example(fields[name]) for name in schema.get("required", ())}
    return {**needed, **beside, **{name: spec_with(fields[name], each) for name, each in inner.items()}}


_OPENID = {"issuer": "https://a", "clientID": "a", "clientSecretRef": {"name": "a"}}
_BESIDE: Mapping[str, Mapping[str, Any]] = {
    "passwordRef": {"user": "a"},
    "openid": {"protocol": "openid"},
    "saml2": {"protocol": "saml2"},
    "attributes": {"metadataURL": "https://a"},
    "metadataSecretRef": {"entityID": "a:a"},
    "options": {"driver": "a"},
}
"""What rules ask for beside a field."""
_ALONE: Sequence[Mapping[str, Any]] = (
    {"protocol": "openid", "openid": _OPENID},
    {"driver": "a", "options": {"a": 1}},
    {"target": "serviceAccountPassword", "serviceRef": {"kind": "Glance", "name": "a"}},
    {"type": "LoadBalancer", "host": "a"},
)
"""What rules ask for of an object, whatever else is in it."""


_WORDS = ("a", "1", "10Gi", "1d", "/a", "https://a", "ldaps://a", "Aa", "a:1", "1:2", "192.0.2.1", "192.0.2.0/24")
_MATCHES = re.compile(r"self\.matches\(r'(.*)'\)")
"""What a rule asks of a text."""


def _example(schema: Mapping[str, Any]) -> Any:
    """A value that a schema takes."""
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "integer":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "string":
            rules = "".join(each["rule"] for each in schema.get("x-kubernetes-validations", ()))
            words = _WORDS[-1:] if "isCIDR" in rules else _WORDS
            patterns = schema.get("pattern", ""), *_MATCHES.findall(rules)
            return next(word for word in words if all(re.search(each, word) for each in patterns))
        case "array":
            return [_example(schema["items"])] * schema.get("minItems", 0)
        case "object" if isinstance(values := schema.get("additionalProperties"), dict):
            return {f"a{number}": _example(values) for number in range(schema.get("minProperties", 0))}
        case "object":
            return spec_with(schema, {})
        case _:
            return 0


@dataclass(frozen=True)
class Answer:
    """What the API server says to a request."""

    status: int
    text: str


async def write(cluster: Cluster, resource: api.Resource[Any], attack: Attack) -> Answer:
    """The final answer to a resource that is written; one whose answer is late is asked for again."""
    kind = Kind.of(resource)
    meta = {**cluster.meta(attack.name), **attack.metadata}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": attack.spec}
    content = msgspec.json.encode(body)
    http: httpx.AsyncClient = cluster.client._http  # pyright: ignore[reportPrivateUsage]
    headers = {"Content-Type": "application/json"}
    async with asyncio.timeout(TIMEOUT):
        while True:
            try:
                answer = await http.post(kind.path(cluster.namespace), content=content, headers=headers)
            except httpx.TransportError:
                continue
            if answer.status_code == 409:
                # One of the requests before came through.
                return Answer(201, "")
            if answer.status_code not in (429, 503, 504) and "Unavailable" not in answer.text[:1_000]:
                return Answer(answer.status_code, "" if answer.is_success else answer.text)
            await asyncio.sleep(0.1)
