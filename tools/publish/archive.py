"""Archives whose bytes follow from what is in them alone."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their paths in it, also below links: a chart has the definitions of deploy/ by
    such.
    """
    files: dict[str, bytes] = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            files |= {f"{path.name}/{inner}": data for inner, data in contents(path).items()}
        else:
            files[path.name] = path.read_bytes()
    return files


def chart(name: str, files: Mapping[str, bytes], created: datetime) -> bytes:
    """Return a packaged chart of Helm: a compressed tar whose files are in a folder of the chart's name."""
    return tar_archive({f"{name}/{path}": data for path, data in files.items()}, created)


def tar_archive(files: Mapping[str, bytes], created: datetime, programs: Collection[str] = ()) -> bytes:
    """Return a compressed tar; users may run the files that are `programs`."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o755 if path in programs else 0o644
            entry.mtime = int(created.timestamp())
            tar.addfile(entry, io.BytesIO(data))
    compressed = io.BytesIO()
    with gzip.GzipFile(fileobj=compressed, mode="wb", mtime=int(created.timestamp())) as stream:
        stream.write(content.getvalue())
    return compressed.getvalue()


def checksums(paths: Iterable[Path], root: Path) -> str:
    """Return lines for `sha256sum --check`, run in the root."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(root).as_posix()}" for path in paths]
    return "\n".join(sorted(lines, key=lambda line: line.partition("  ")[2])) + "\n"
