"""The binaries of a cluster, built once from pinned Go modules and kept in the cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import paths

SOURCES = Path(__file__).parent / "go"
KUBERNETES = "1.34.4"
# kubectl and the API server compare these to judge the skew between them; the module itself does not know its version.
_STAMPS = {"gitVersion": f"v{KUBERNETES}", "gitMajor": "1", "gitMinor": "34", "gitTreeState": "clean"}
_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class BuildError(Exception):
    """A build that cannot succeed, with what to do about it."""


@dataclass(frozen=True)
class Patch:
    """Text of a module's file, there once, that is compiled as another one."""

    module: str
    file: str
    before: str
    after: str


@dataclass(frozen=True)
class Part:
    """One Go module under go/, with the binaries made of it: name → package."""

    name: str
    binaries: dict[str, str]
    links: tuple[str, ...] = ()
    """Further names of the first binary, which behaves as the name it is called by."""
    ldflags: str = "-s -w"
    minutes: float = 1
    """Minutes that a cold build takes on two cores, so that the user knows what to wait for."""
    flags: tuple[str, ...] = field(default=("-trimpath",))
    patches: tuple[Patch, ...] = ()


PARTS = {
    part.name: part
    for part in (
        Part(
            "kubernetes",
            {"kubernetes": ".", "pause": "./pause", "certificates": "./certificates"},
            links=("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"),
            ldflags=" ".join(["-s -w", *(f"-X {p}.{k}={v}" for p in _STAMPED for k, v in _STAMPS.items())]),
            minutes=5,
        ),
        Part("etcd", {"etcd": "."}, minutes=0.5),
        Part("coredns", {"coredns": "."}),
        Part(
            "storage",
            {"local-path-provisioner": "github.com/rancher/local-path-provisioner", "volume": "./volume"},
            minutes=1.5,
        ),
    )
}
CHECKS = Part(
    "checks",
    {
        "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform",
        "kube-score": "github.com/zegl/kube-score/cmd/kube-score",
    },
    minutes=3,
)
"""Tools that look at manifests."""
PROMTOOL = Part(
    "promtool",
    {"promtool": "github.com/prometheus/prometheus/cmd/promtool"},
    minutes=5,
    # Without the ways in which Prometheus finds its targets.
    flags=("-trimpath", "-tags=remove_all_sd"),
)
"""Prometheus' own tests of alerts."""
VAULT = Part(
    "vault",
    {"vault": "."},
    minutes=15,
    # Vault's own tag: without clouds' logins and stores.
    flags=("-trimpath", "-tags=minimal"),
    # The release was built with states of the module sdk that were never published. Of those that were, 0.21.0 differs
    # least: a callback has one argument more, and the engine `transit` asks for a name, which it knows, as a result.
    patches=(
        Patch(
            "github.com/hashicorp/vault",
            "builtin/logical/transit/path_restore.go",
            "restoredKeyName, err := b.lm.RestorePolicy(",
            "restoredKeyName, err := keyName, b.lm.RestorePolicy(",
        ),
        Patch(
            "github.com/hashicorp/vault",
            "vault/identity_store.go",
            "ActivationFunc: iStore.activateDeduplication,",
            "ActivationFunc: func(ctx context.Context, req *logical.Request, _ string) error {\n"
            "\t\t\treturn iStore.activateDeduplication(ctx, req)\n\t\t},",
        ),
        Patch(
            "github.com/hashicorp/vault",
            "vault/logical_system_activation_flags.go",
            "b.idStoreBackend.ActivationFunc(ctx, nil)",
            'b.idStoreBackend.ActivationFunc(ctx, nil, "")',
        ),
    ),
)
"""HashiCorp's Vault, in which tests of Barbican store secrets."""
REGISTRY = Part("registry", {"registry": ".", "login": "./login"}, minutes=1)
"""The image registry beside a cluster, and what makes the login to it."""
S3 = Part("s3", {"versitygw": "github.com/versity/versitygw/cmd/versitygw"}, minutes=3)
"""Versity's S3 gateway over a folder of this machine, which checks signatures: where tests store backups."""
BUNDLE = Part("bundle", {"validate": "."}, minutes=2)
"""The validators of the Operator Lifecycle Manager's bundles."""
JUDGES = Part("judges", {"judges": "."}, minutes=12)
"""A program that tells the state which kstatus and Argo CD see in a resource."""
OPTIONAL = {part.name: part for part in (CHECKS, PROMTOOL, VAULT, REGISTRY, S3, BUNDLE, JUDGES)}
"""Parts that no cluster needs: built if a command names them."""
SETS = {"apiserver": ("kubernetes", "etcd")}
"""Sets of parts that a caller may build by one name; a part is also a set of its own."""


def build(only: str | None = None) -> None:
    """Build every part of a cluster into the cache, or only those of the set or part named `only`.

    Raises BuildError where Go is missing or a build fails.
    """
    parts = {**PARTS, **OPTIONAL}
    if only is not None and only not in SETS and only not in parts:
        raise BuildError(f"--only {only}: choose from {', '.join([*SETS, *parts])}")
    for name in PARTS if only is None else SETS.get(only, (only,)):
        ensure(parts[name])


def binary(part: str, name: str) -> Path:
    """Return the path of a binary; raises BuildError when its part is not built yet."""
    path = folder({**PARTS, **OPTIONAL}[part]) / name
    if not path.exists():
        only = f" --only {part}" if part in OPTIONAL else ""
        raise BuildError(f"{name} is not built: run `python -m tools.localcluster build{only}`")
    return path


def folder(part: Part) -> Path:
    """Return the folder of a part's binaries, keyed by all that goes into them, so that checkouts can share a cache."""
    return paths.cache() / "localcluster" / f"{part.name}-{_digest(part)}"


def ensure(part: Part) -> Path:
    """Return the part's folder, built if it is missing."""
    return once(folder(part), part.name, part.minutes, lambda fresh: _compile(part, fresh))


def once(target: Path, name: str, minutes: float, make: Callable[[Path], None]) -> Path:
    """Return `target`, a folder of the cache; if it is missing, `make` fills an empty one, which is renamed to it.

    Raises BuildError where Go is missing, and what `make` raises.
    """
    if target.exists():
        return target
    problem = go_problem()
    if problem:
        raise BuildError(f"go: {problem}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{name}.lock").open("w") as lock:
        # Two checkouts may build at once; the second one finds the work done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _make(target, name, minutes, make)
    return target


def _make(target: Path, name: str, minutes: float, make: Callable[[Path], None]) -> None:
    started = time.monotonic()
    print(f"building {name} (about {minutes:g} min without caches) ...", file=sys.stderr, flush=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=target.parent))
    try:
        make(fresh)
        fresh.chmod(0o755)
        fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    print(f"built {name} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def _compile(part: Part, fresh: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        patched = _patched(part, Path(folder))
        for name, package in part.binaries.items():
            flags = [*part.flags, *patched, "-ldflags", part.ldflags, "-o", str(fresh / name)]
            go(SOURCES / part.name, "build", *flags, package)
    for link in part.links:
        (fresh / link).symlink_to(next(iter(part.binaries)))


def _patched(part: Part, folder: Path) -> list[str]:
    """Return the options by which patched copies of modules, in the folder, are compiled in place of those that Go
    downloads.
    """
    if not part.patches:
        return []
    module = SOURCES / part.name
    replaced: dict[str, Path] = {}
    for patch in part.patches:
        if patch.module not in replaced:
            replaced[patch.module] = folder / patch.module.replace("/", "-")
            shutil.copytree(downloaded(module, patch.module), replaced[patch.module], copy_function=shutil.copyfile)
        path = replaced[patch.module] / patch.file
        text = path.read_text(encoding="utf-8")
        if text.count(patch.before) != 1:
            raise BuildError(f"{patch.module}: {patch.before!r} is not there exactly once in {patch.file}")
        path.write_text(text.replace(patch.before, patch.after), encoding="utf-8")
    file = folder / "go.mod"
    shutil.copyfile(module / "go.mod", file)
    for name, copy in replaced.items():
        go(module, "mod", "edit", f"-replace={name}={copy}", str(file))
    if (sums := module / "go.sum").exists():
        shutil.copyfile(sums, folder / "go.sum")
    return [f"-modfile={file}"]


def downloaded(module: Path, name: str) -> Path:
    """Return the folder of a module that this one needs."""
    # What is not downloaded yet has no folder.
    go(module, "mod", "download", name)
    command = ["go", "list", "-m", "-f", "{{.Dir}}", name]
    environment = os.environ | {"GOWORK": "off"}
    result = subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True, check=True)
    return Path(result.stdout.strip())


def go(module: Path, *arguments: str) -> None:
    """Run `go` in the folder of a module, for static binaries; raises BuildError where it fails."""
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOTOOLCHAIN": os.environ.get("GOTOOLCHAIN", "auto"),
    }
    command = ["nice", "-n", "5", "go", *arguments]
    if subprocess.run(command, cwd=module, env=environment, check=False).returncode:
        raise BuildError(f"`{' '.join(command[3:])}` failed in {module}; see above")


def go_problem() -> str:
    """Return the fault of the Go installation, with the cure; empty if there is none."""
    cure = "install Go 1.24 or newer from https://go.dev/dl and add it to PATH"
    if not shutil.which("go"):
        return f"not found; {cure}"
    result = subprocess.run(["go", "env", "GOVERSION"], cwd="/", capture_output=True, text=True, check=False)
    version = re.match(r"go1\.(\d+)", result.stdout)
    # From 1.21 on, Go fetches the newer version that a module asks for by itself.
    if not version or int(version[1]) < 21:
        return f"{result.stdout.strip() or result.stderr.strip()} is too old; {cure}"
    return ""


def _digest(part: Part) -> str:
    digest = hashlib.sha256(repr((part, platform.machine())).encode())
    for path in _sources(part):
        digest.update(f"{path.relative_to(SOURCES)}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _sources(part: Part) -> Iterable[Path]:
    return sorted(path for path in (SOURCES / part.name).rglob("*") if path.suffix in {".go", ".mod", ".sum"})
