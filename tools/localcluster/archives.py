"""Container images: made of a binary alone, and what an archive of them holds."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

from . import build

_PREFIX = "localhost/localcluster"


def addons() -> dict[str, Path]:
    """Name of an image → its archive in the cache, for the images a cluster itself needs; made where missing."""
    sources = {
        "pause": ("kubernetes", ["pause"]),
        "coredns": ("coredns", ["coredns"]),
        "storage": ("storage", ["local-path-provisioner", "volume"]),
    }
    archives: dict[str, Path] = {}
    for image, (part, names) in sources.items():
        folder = build.ensure(build.PARTS[part])
        reference = reference_of(image)
        archive = folder / f"{image}.tar"
        if not archive.exists():
            fresh = archive.with_suffix(".new")
            write(fresh, reference, [folder / name for name in names])
            fresh.rename(archive)
        archives[reference] = archive
    return archives


def reference_of(image: str) -> str:
    """Return the full name of an add-on's image; its tag changes with its source."""
    part = build.PARTS[{"pause": "kubernetes"}.get(image, image)]
    return f"{_PREFIX}/{image}:{build.folder(part).name.rpartition('-')[2]}"


def write(archive: Path, reference: str, binaries: list[Path], user: str = "", *, folder: str = "") -> None:
    """Write an OCI layout with one image to `archive`: the binaries in its root directory, or in a folder there
    (`bin/`), the first one started, as `user` (`UID:GID`) if one is given.
    """
    config = {
        "architecture": "amd64" if platform.machine() == "x86_64" else "arm64",
        "os": "linux",
        "config": {"Env": [f"PATH=/{folder}"]},
        "rootfs": {"type": "layers", "diff_ids": []},
        "history": [],
    }
    with tarfile.open(archive, mode="w", format=tarfile.USTAR_FORMAT) as target:
        _add_image(target, reference, binaries, config, [], user=user, folder=folder)


def stack(base: Path, archive: Path, reference: str, binaries: list[Path], user: str = "", *, folder: str = "") -> None:
    """Write to `archive` what `write` makes of the binaries, on top of the one image in `base`, an OCI layout. A layer
    may have hundreds of megabytes: none is in memory as a whole.
    """
    with (
        tarfile.open(base) as source,
        tarfile.open(archive, mode="w", format=tarfile.USTAR_FORMAT) as target,
    ):
        (entry,) = _member(source, "index.json")["manifests"]
        manifest = _member(source, _path(entry["digest"]))
        for layer in manifest["layers"]:
            member = source.getmember(_path(layer["digest"]))
            target.addfile(member, source.extractfile(member))
        config = _member(source, _path(manifest["config"]["digest"]))
        _add_image(target, reference, binaries, config, manifest["layers"], user=user, folder=folder)


def _add_image(
    target: tarfile.TarFile,
    reference: str,
    binaries: list[Path],
    below: dict[str, Any],
    layers: list[dict[str, Any]],
    *,
    user: str,
    folder: str,
) -> None:
    """Make the archive an image: its layers are those that it has (`layers`; `below` is their configuration), and one
    with the binaries.
    """
    layer = _tar({f"{folder}{binary.name}": binary.read_bytes() for binary in binaries}, mode=0o755)
    started = {"Entrypoint": [f"/{folder}{binaries[0].name}"], **({"User": user} if user else {})}
    config = _json(
        {
            **below,
            "config": {**below["config"], **started},
            "rootfs": {"type": "layers", "diff_ids": [*below["rootfs"]["diff_ids"], _digest(layer)]},
            "history": [*below["history"], {"created_by": "localcluster"}],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [*layers, _descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    )
    entry = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    entry["annotations"] = {"io.containerd.image.name": reference}
    index = _json({"schemaVersion": 2, "manifests": [entry]})
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": index,
        **{_path(_digest(blob)): blob for blob in (layer, config, manifest)},
    }
    for name, content in files.items():
        _add(target, name, content)


def held_by(archive: Path) -> dict[str, str]:
    """Return the digest of each image's manifest, by name, for an OCI layout; empty if the archive has none (Docker's
    form).
    """
    with tarfile.open(archive) as tar:
        try:
            member = tar.extractfile("index.json")
        except KeyError:
            return {}
        index: dict[str, Any] = json.load(member) if member else {}
    return {
        entry["annotations"]["io.containerd.image.name"]: entry["digest"]
        for entry in index.get("manifests", [])
        if "io.containerd.image.name" in entry.get("annotations", {})
    }


def _tar(files: dict[str, bytes], mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files.items():
            _add(tar, name, content, mode)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))


def _member(tar: tarfile.TarFile, path: str) -> dict[str, Any]:
    """Return a JSON object of the archive."""
    file = tar.extractfile(path)
    if file is None:
        raise build.BuildError(f"{path} is no file in the archive of an image")
    return json.load(file)


def _path(digest: str) -> str:
    """Return the path of a blob in a layout."""
    return f"blobs/sha256/{digest.partition(':')[2]}"


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}
