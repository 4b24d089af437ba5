"""Content of a backup besides data of servers, as one compressed text."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from ...plan import Object

FORMAT, DELEGATED_FORMAT = 1, 2
"""Formats of a backup: the second has a database of another operator, whose volume earlier versions fill wrongly."""
_LARGEST = 900_000
"""Bytes that fit into a Secret."""
_LARGEST_STORED, _LARGEST_UNPACKED, _MOST_CONTAINERS = 6 << 20, 8 << 20, 400_000
"""Bytes that are stored, and read together with a manifest; lists and objects in their JSON, which take much more
memory than text.
"""
_GZIP = 31
"""Window of zlib for what gzip packed."""


def dump(objects: Sequence[Object], number: int = FORMAT) -> bytes:
    """Return the contents, compressed; the same for the same objects. Raises ValueError if they are too large for a
    Secret.
    """
    ordered = sorted(objects, key=lambda each: (each["apiVersion"], each["kind"], each["metadata"]["name"]))
    text = json.dumps({"format": number, "objects": ordered}, sort_keys=True)
    if len(text) > _LARGEST_STORED:
        raise ValueError(f"resources and Secrets take {len(text)} bytes, more than {_LARGEST_STORED}")
    data = gzip.compress(text.encode(), mtime=0)
    if len(data) > _LARGEST:
        raise ValueError(f"resources and Secrets take {len(data)} bytes compressed, more than {_LARGEST}")
    return data


def load(contents: Mapping[str, Any]) -> list[Object]:
    """Return the objects. Raises ValueError for contents of another format."""
    if contents.get("format") not in (FORMAT, DELEGATED_FORMAT):
        text = f"this operator reads formats {FORMAT} and {DELEGATED_FORMAT}"
        raise ValueError(f"the backup has format {contents.get('format')!r}; {text}")
    return list(contents["objects"])


def count(data: bytes) -> int:
    """Return the number of objects in what `dump` returned. Raises ValueError for something else."""
    return len(unpack(data)["objects"])


def unpack(data: bytes) -> Any:
    """Return JSON that `dump` or a restore packed. Raises ValueError for what takes much more memory: who may write
    Secrets could end the operator by it.
    """
    try:
        text = zlib.decompressobj(wbits=_GZIP).decompress(data, _LARGEST_UNPACKED + 1)
    except zlib.error as error:
        raise ValueError(f"the contents are not packed by gzip: {error}") from None
    if len(text) > _LARGEST_UNPACKED or text.count(b"[") + text.count(b"{") > _MOST_CONTAINERS:
        raise ValueError(f"the contents unpack to more than {_LARGEST_UNPACKED} bytes, or to too many parts")
    return json.loads(text)


def text_of(data: bytes) -> str:
    """Return bytes as the text that stands for them in the data of a Secret."""
    return data.decode(errors="surrogateescape")


def bytes_of(text: str) -> bytes:
    """Return the bytes for which `text_of` returned this text."""
    return text.encode(errors="surrogateescape")
