"""Manifests as users write them: YAML or JSON, read as kubectl reads it, with the line of every value."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from .findings import Finding
from .yaml_events import Composer, Lines, YamlProblem

LARGEST = 8 * 1024 * 1024
"""Bytes of a file; the API server takes objects of 3 MiB at most."""
_ENDINGS = (".json", ".yaml", ".yml")
"""Endings of the files that kubectl reads of a folder."""
STDIN = "<stdin>"


@dataclass(frozen=True, eq=False)
class Document:
    """A YAML document, or an item of a list in one."""

    file: str
    number: int
    """Counted from 1; 0 where it is the only one of its file."""
    value: Any
    lines: Lines = field(default_factory=Lines, repr=False)
    prefix: tuple[str | int, ...] = ()
    """Its place in its document: ("items", 3)."""

    def line(self, path: str = "") -> int:
        """Return the line of a field, or of the nearest existing thing around it."""
        return self.lines.nearest((*self.prefix, *steps_to(self.value, path)))

    def finding(self, message: str, path: str = "", *, warning: bool = False) -> Finding:
        """Return a finding about a field of the document."""
        return Finding(
            message=message,
            file=self.file,
            line=self.line(path),
            document=self.number,
            resource=self.resource,
            path=path,
            warning=warning,
        )

    @property
    def resource(self) -> str:
        """Kind/name, as far as it says so."""
        value: Mapping[str, Any] = self.value if isinstance(self.value, dict) else {}
        metadata = value.get("metadata")
        name = cast("dict[str, Any]", metadata).get("name") if isinstance(metadata, dict) else ""
        kind = value.get("kind")
        names = [part if isinstance(part, str) else "" for part in (kind, name)]
        return "/".join(names).strip("/")


def steps_to(value: Any, path: str) -> tuple[str | int, ...]:
    """Return the keys and indexes of a path of dots and brackets, as far as the value has them. Keys may hold dots."""
    steps: list[str | int] = []
    rest = path
    while rest:
        step: tuple[str | int, str] | None = None
        if rest.startswith("[") and isinstance(value, list):
            number, _, after = rest[1:].partition("]")
            if number.isdigit() and int(number) < len(cast("list[Any]", value)):
                step = int(number), after
        elif isinstance(value, dict):
            text = rest.removeprefix(".")
            keys = [key for key in cast("dict[str, Any]", value) if _begins(text, key)]
            if keys:
                key = max(keys, key=len)
                step = key, text[len(key) :]
        if step is None:
            break
        value, rest = cast("Any", value)[step[0]], step[1]
        steps.append(step[0])
    return tuple(steps)


def _begins(text: str, key: str) -> bool:
    return bool(key) and text.startswith(key) and text[len(key) : len(key) + 1] in {"", ".", "["}


def read(
    names: Iterable[str], *, recursive: bool = False, stdin: BinaryIO | None = None
) -> tuple[list[Document], list[Finding]]:
    """Return the documents of files, folders and `-`, standard input; and findings about what cannot be read. Each
    object of a list is a document; empty ones are left out.
    """
    documents: list[Document] = []
    findings: list[Finding] = []
    for name in dict.fromkeys(names):
        for file, text in _texts(name, stdin or sys.stdin.buffer, recursive=recursive):
            if isinstance(text, Finding):
                findings.append(text)
            else:
                loaded, problems = parse(text, file)
                documents += loaded
                findings += problems
    return documents, findings


def _texts(name: str, stdin: BinaryIO, *, recursive: bool) -> Iterator[tuple[str, bytes | Finding]]:
    if name == "-":
        yield STDIN, _whole(stdin, STDIN)
        return
    path, files = Path(name), [name]
    try:
        if path.is_dir():
            inside = sorted(path.rglob("*") if recursive else path.glob("*"))
            files = [str(each) for each in inside if each.suffix in _ENDINGS and each.is_file()]
            if not files:
                yield name, Finding(message=f"no file in this folder ends in {', '.join(_ENDINGS)}", file=name)
    except OSError as error:
        yield name, _unreadable(name, error)
        return
    for file in files:
        try:
            with Path(file).open("rb") as stream:
                text = _whole(stream, file)
        except (OSError, ValueError) as error:
            text = _unreadable(file, error)
        yield file, text


def _unreadable(file: str, error: OSError | ValueError) -> Finding:
    if isinstance(error, FileNotFoundError):
        return Finding(message="there is no such file or folder", file=file)
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return Finding(message=f"cannot be read: {why}", file=file)


def _whole(stream: BinaryIO, file: str) -> bytes | Finding:
    content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        return Finding(message=f"is larger than {LARGEST // 1024**2} MiB, the limit of a manifest", file=file)
    return content


def parse(content: bytes, file: str) -> tuple[list[Document], list[Finding]]:
    """Return the documents of one file, those before a mistake in the YAML included."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        return [], [Finding(message="is not text in UTF-8; save it as UTF-8", file=file, line=line)]
    composer = Composer(text)
    whole: list[tuple[int, Any, Lines]] = []
    findings: list[Finding] = []
    try:
        whole += [(number, value, lines) for number, (value, lines) in enumerate(composer, 1) if value is not None]
    except YamlProblem as problem:
        findings.append(Finding(message=problem.message, file=file, line=problem.line, document=problem.document))
        whole = composer.done
    findings += [
        Finding(message=each.message, file=file, line=each.line, document=each.document) for each in composer.problems
    ]
    several = len(whole) + len(findings) > 1 or any(number > 1 for number, *_ in whole)
    documents: list[Document] = []
    for number, value, lines in whole:
        document = Document(file, number if several else 0, value, lines)
        listed, wrong = _listed(document)
        documents += listed
        findings += wrong
    return documents, findings


def _listed(document: Document) -> tuple[list[Document], list[Finding]]:
    """Return the document, or the items of one that is a list, at any depth."""
    value = document.value
    if not isinstance(value, dict):
        text = f"a manifest is a map with apiVersion, kind and metadata, not {type_name(value)}"
        return [], [document.finding(text)]
    kind: Any = cast("dict[str, Any]", value).get("kind")
    if not isinstance(kind, str) or not kind.endswith("List") or "items" not in value:
        return [document], []
    items: Any = value["items"]
    if items is not None and not isinstance(items, list):
        return [], [document.finding(f"must be a list, not {type_name(items)}", "items")]
    documents: list[Document] = []
    findings: list[Finding] = []
    for index, item in enumerate(cast("list[Any]", items or [])):
        # A NovaList may leave it to its own kind what its items are.
        full = {**_type_of_items(value), **item} if isinstance(item, dict) else item
        prefix = (*document.prefix, "items", index)
        inner, wrong = _listed(Document(document.file, document.number, full, document.lines, prefix))
        documents += inner
        findings += wrong
    return documents, findings


def _type_of_items(listed: dict[str, Any]) -> dict[str, Any]:
    kind = str(listed["kind"]).removesuffix("List")
    return {"apiVersion": listed.get("apiVersion"), "kind": kind} if kind and listed.get("apiVersion") else {}


def type_name(value: Any) -> str:
    """Return the type of a value, in the words of JSON."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
    return names.get(type(value), "null" if value is None else type(value).__name__)
