"""Programs that build and store images: buildah without a daemon, or Docker if its daemon answers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from images import cache, debian
from images.catalog import SUITE, timestamp
from images.shell import CommandError, need, run


class Engine(Protocol):
    """Builds images from a context and keeps them."""

    def references(self) -> set[str]:
        """Return all images that exist."""
        ...

    def base(self, reference: str, context: Path) -> None:
        """Make the image `reference` of Debian's minimal root file system; `context` is an empty work directory."""
        ...

    def build(
        self, reference: str, context: Path, arguments: Mapping[str, str], log: Path, labels: Mapping[str, str]
    ) -> None:
        """Build `reference` from the context's Containerfile with these build arguments and labels."""
        ...

    def source(self, reference: str) -> list[str]:
        """Return the arguments by which skopeo finds the image."""
        ...

    def copy_out(self, reference: str, path: str, target: Path) -> None:
        """Copy a file of the image to `target`."""
        ...


def engine() -> Engine:
    """Return Docker if its daemon answers, else buildah; `$OPENSTACK_OPERATOR_ENGINE` (docker, buildah) overrules."""
    choice = os.environ.get("OPENSTACK_OPERATOR_ENGINE")
    if choice not in {None, "", "docker", "buildah"}:
        raise CommandError(f"OPENSTACK_OPERATOR_ENGINE: there is no {choice!r}; choose docker or buildah")
    return Docker() if choice == "docker" or (not choice and _docker_answers()) else Buildah()


def _docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    try:
        version = ["docker", "version", "--format", "{{.Server.Version}}"]
        return subprocess.run(version, capture_output=True, timeout=5, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


_SAME = ("--layers=false", "--identity-label=false")
"""Options by which buildah adds nothing of its own: neither layers between, nor a label with its version."""


class Buildah:
    """buildah with a store of its own in the cache; needs root, and neither a daemon nor a registry."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise CommandError("images are built by root where no Docker answers; run this as root")
        need(
            {name: name for name in ("buildah", "mmdebstrap", "skopeo")}
            | {str(debian.KEYRING): "debian-archive-keyring"}
        )
        # The host need not have one; what is built here is signed by nobody.
        self.policy = cache.directory("store") / "policy.json"
        self.policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}', encoding="utf-8")

    def _command(self, *arguments: str) -> list[str]:
        store = cache.directory("store")
        where = [f"--root={store / 'root'}", f"--runroot={store / 'run'}", "--storage-driver=overlay"]
        return ["buildah", *where, *arguments]

    def references(self) -> set[str]:
        return set(run(self._command("images", "--format", "{{.Name}}:{{.Tag}}")).split())

    def base(self, reference: str, context: Path) -> None:
        debian.bootstrap(context / "root.tar")
        containerfile = context / "Containerfile"
        containerfile.write_text("FROM scratch\nADD root.tar /\n", encoding="utf-8")
        run(self._command("bud", *self._same(), f"--tag={reference}", str(context)))

    def _same(self) -> list[str]:
        """Return the options of each build: the same content has the same digest, whenever it is built."""
        return [f"--signature-policy={self.policy}", *_SAME, f"--timestamp={timestamp()}"]

    def build(
        self, reference: str, context: Path, arguments: Mapping[str, str], log: Path, labels: Mapping[str, str]
    ) -> None:
        mounts = {
            debian.build_settings(): "/etc/apt:ro",
            cache.directory("debs"): "/var/cache/apt/archives",
            cache.directory("apt", "lists"): "/var/lib/apt/lists",
        }
        command = self._command(
            "bud",
            *self._same(),
            "--isolation=chroot",
            "--network=host",
            "--pull-never",
        )
        command += [f"--volume={source}:{target}" for source, target in mounts.items()]
        command += [f"--build-arg={name}={value}" for name, value in arguments.items()]
        command += [f"--label={name}={value}" for name, value in labels.items()]
        command += [f"--file={context / 'Containerfile'}", f"--tag={reference}"]
        run([*command, str(context)], log=log)

    def source(self, reference: str) -> list[str]:
        store = cache.directory("store")
        return [f"--policy={self.policy}", f"containers-storage:[overlay@{store / 'root'}+{store / 'run'}]{reference}"]

    def copy_out(self, reference: str, path: str, target: Path) -> None:
        with self.root(reference) as root:
            shutil.copy(f"{root}{path}", target)

    @contextmanager
    def root(self, reference: str) -> Generator[Path]:
        """Yield the root of a container of the image. What is written there is deleted with it."""
        container = run(self._command("from", f"--signature-policy={self.policy}", "--pull-never", reference)).strip()
        try:
            yield Path(run(self._command("mount", container)).strip())
        finally:
            run(self._command("rm", container))


class Docker:
    """A Docker daemon; the base comes from its registry, or is made here where none answers."""

    def references(self) -> set[str]:
        return set(run(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"]).split())

    def base(self, reference: str, context: Path) -> None:
        public = f"debian:{SUITE}-slim"
        try:
            run(["docker", "pull", public])
            run(["docker", "tag", public, reference])
        except CommandError:
            need({"mmdebstrap": "mmdebstrap", str(debian.KEYRING): "debian-archive-keyring"})
            debian.bootstrap(context / "root.tar")
            run(["docker", "import", str(context / "root.tar"), reference])

    def build(
        self, reference: str, context: Path, arguments: Mapping[str, str], log: Path, labels: Mapping[str, str]
    ) -> None:
        command = ["docker", "build", "--network=host"]
        command += [f"--build-arg={name}={value}" for name, value in arguments.items()]
        command += [f"--label={name}={value}" for name, value in labels.items()]
        command += [f"--file={context / 'Containerfile'}", f"--tag={reference}"]
        run([*command, str(context)], log=log)

    def source(self, reference: str) -> list[str]:
        need({"skopeo": "skopeo"})
        return ["--insecure-policy", f"docker-daemon:{reference}"]

    def copy_out(self, reference: str, path: str, target: Path) -> None:
        container = run(["docker", "create", reference, "true"]).strip()
        try:
            run(["docker", "cp", f"{container}:{path}", str(target)])
        finally:
            run(["docker", "rm", container])
