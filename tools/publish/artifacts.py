"""Files as images and charts in a registry, with the same digest for the same files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from images import registry
from images.shell import CommandError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_EMPTY = "application/vnd.oci.empty.v1+json"
REFERRER_TYPE = "application/vnd.in-toto+json"
"""Media type of a statement about an image."""
_CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
_CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


class Artifact(NamedTuple):
    """A manifest of the Open Container Initiative with the two things it names."""

    config: bytes
    config_type: str
    layer: bytes
    layer_type: str
    subject: Mapping[str, Any] | None = None
    """Descriptor of the image that this is a statement about."""

    @property
    def manifest(self) -> bytes:
        """The manifest, whose digest is that of the artifact."""
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(self.config_type, self.config),
            "layers": [_descriptor(self.layer_type, self.layer)],
        }
        if self.subject:
            manifest |= {"artifactType": self.layer_type, "subject": dict(self.subject)}
        return _json(manifest)


def image(files: Mapping[str, bytes], labels: Mapping[str, str]) -> Artifact:
    """Return an image that has these files and nothing to run."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    config = {
        # Of files alone, which are the same for every processor; the kubelet asks for one.
        "architecture": "amd64",
        "os": "linux",
        "config": {"Labels": dict(labels)},
        "rootfs": {"type": "layers", "diff_ids": [_digest(content.getvalue())]},
    }
    return Artifact(_json(config), _CONFIG, gzip.compress(content.getvalue(), mtime=0), _LAYER)


def chart(about: str, package: bytes) -> Artifact:
    """Return a chart of Helm; `about` is its Chart.yaml, `package` its archive."""
    return Artifact(_json(yaml.safe_load(about)), _CHART_CONFIG, package, _CHART)


def statement(content: bytes, subject: bytes, media_type: str) -> Artifact:
    """Return a statement about the image with that manifest, to be found by the image's digest."""
    return Artifact(b"{}", _EMPTY, content, REFERRER_TYPE, _descriptor(media_type, subject))


def attach(artifact: Artifact, repository: str) -> str:
    """Push a statement beside the image it is about, and return its name. Registries with the referrers API list it for
    the digest of the image; in all it has a tag, without which some would delete it. Raises CommandError.
    """
    if artifact.subject is None:
        raise CommandError("an artifact without a subject cannot be attached to an image")
    return push(artifact, f"{repository}:{artifact.subject['digest'].replace(':', '-')}.provenance", same=True)


def push(artifact: Artifact, reference: str, *, same: bool = False) -> str:
    """Push an artifact, and return its full name with its digest; `same` pushes content that is not compressed, as it
    is. Raises CommandError.
    """
    with tempfile.TemporaryDirectory() as folder:
        layout = Path(folder) / "layout"
        write(artifact, layout)
        registry.copy(["--insecure-policy"], f"oci:{layout}", reference, same=same)
    return f"{reference}@{_digest(artifact.manifest)}"


def write(artifact: Artifact, layout: Path) -> None:
    """Write a folder `layout` with the artifact alone."""
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for blob in (artifact.config, artifact.layer, artifact.manifest):
        (blobs / hashlib.sha256(blob).hexdigest()).write_bytes(blob)
    (layout / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    index = {"schemaVersion": 2, "manifests": [_descriptor(MANIFEST, artifact.manifest)]}
    (layout / "index.json").write_bytes(_json(index))


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
