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
    """The full name of an add-on's image; its tag changes with its source."""
    part = build.PARTS[{"pause": "kubernetes"}.get(image, image)]
    return f"{_PREFIX}/{image}:{build.folder(part).name.rpartition('-')[2]}"


def write(archive: Path, reference: str, binaries: list[Path], user: str = "", *, folder: str = "") -> None:
    """`archive` is an OCI layout with one image: the binaries in its root directory, or in a folder there (`bin/`), the
    first one started, as `user` (`UID:GID`) if one is given.
    """
    layer = _tar({f"{folder}{binary.name}": binary.read_bytes() for binary in binaries}, mode=0o755)
    config = _json(
        {
            "architecture": "amd64" if platform.machine() == "x86_64" else "arm64",
            "os": "linux",
            "config": {
                "Entrypoint": [f"/{folder}{binaries[0].name}"],
                "Env": [f"PATH=/{folder}"],
                **({"User": user} if user else {}),
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            "history": [{"created_by": "localcluster"}],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    )
    entry = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    entry["annotations"] = {"io.containerd.image.name": reference}
    blobs = {f"blobs/sha256/{_digest(blob)[7:]}": blob for blob in (layer, config, manifest)}
    index = _json({"schemaVersion": 2, "manifests": [entry]})
    archive.write_bytes(_tar({"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": index, **blobs}))


def held_by(archive: Path) -> dict[str, str]:
    """Image name → digest of its manifest for an OCI layout; empty where the archive does not tell (Docker's form)."""
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
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}
