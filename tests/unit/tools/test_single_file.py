"""The command line as one file: it runs without a checkout and without packages, and krew can install it."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml

from openstack_operator import __version__
from tools.publish import single_file
from tools.publish.archive import contents
from tools.publish.single_file_main import GLIBC

CREATED = datetime(2026, 1, 1, 12, tzinfo=UTC)
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
LOCKS = ("requirements.lock", "requirements-dev.lock")


def installed_packages(names: list[str]) -> dict[str, bytes]:
    """Files of packages of this environment: what a release downloads, without a network."""
    files: dict[str, bytes] = {}
    for name in names:
        package = distribution(name)
        for each in package.files or ():
            path = Path(str(package.locate_file(each)))
            if ".." not in each.parts and path.is_file() and path.suffix != ".pyc":
                files[each.as_posix()] = path.read_bytes()
    return files


def program(root: Path) -> dict[str, bytes]:
    """Files of a wheel of this checkout."""
    package = contents(root / "src" / "openstack_operator")
    files = {f"openstack_operator/{path}": data for path, data in package.items() if "__pycache__" not in path}
    releases = contents(root / "releases")
    return files | {f"openstack_operator/releases/{path}": data for path, data in releases.items()}


def names_of(requirements: str) -> list[str]:
    return [line.partition("==")[0] for line in requirements.splitlines() if line[:1].isalnum()]


@pytest.fixture(scope="module")
def file(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    locks = [(root / name).read_text() for name in LOCKS]
    names = [each for each in names_of(single_file.requirements(*locks)) if each not in {"httpx2-jsfetch"}]
    content = single_file.single_file(program(root), {PYTHON: installed_packages(names)}, "1.2.3", CREATED)
    path = tmp_path_factory.mktemp("single") / "openstack-operator"
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def run(file: Path, folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the file with a Python that has no packages, in a folder without a checkout."""
    python: str = getattr(sys, "_base_executable", sys.executable)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), **env}
    command = [python, "-I", "-S", str(file), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.seconds
def test_single_file_validates_a_manifest_in_an_empty_folder(file: Path, tmp_path: Path, root: Path) -> None:
    done = run(file, tmp_path, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "validate" in done.stdout
    assert run(file, tmp_path, "version").stdout == f"{__version__}\n"
    (tmp_path / "a.yaml").write_bytes((root / "deploy/samples/controlplane_minimal.yaml").read_bytes())
    done = run(file, tmp_path, "validate", "-f", "a.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("OK: ")
    [unpacked] = (tmp_path / "home/.cache/openstack-operator").iterdir()
    assert unpacked.name.startswith("1.2.3-")
    # The rules of the definitions are evaluated, too: by a library that is compiled.
    (tmp_path / "a.yaml").write_text(
        "apiVersion: openstack.k8s.io/v1alpha1\nkind: MariaDB\nmetadata: {name: a}\nspec: {replicas: 2}\n"
    )
    done = run(file, tmp_path, "validate", "-f", "a.yaml")
    assert done.returncode == 1
    assert "an even number of members has no clear majority" in done.stderr


@pytest.mark.seconds
def test_a_home_that_cannot_be_written_is_left_alone(file: Path, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "file").touch()
    strange = tmp_path / "strange" / "openstack-operator"
    strange.mkdir(parents=True)
    strange.chmod(0o777)
    for cache in (tmp_path / "file", tmp_path / "strange"):
        done = run(file, tmp_path, "version", XDG_CACHE_HOME=str(cache), TMPDIR=str(tmp_path / "tmp"))
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list(strange.iterdir()) == []


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    """A file whose program prints where it is, with a file of a long path."""
    packages = {PYTHON: {f"{'a' * 200}/{'b' * 200}.py": b"", "large.txt": b"1" * 100_000}}
    main = b"def main():\n    print(__file__)\n"
    path = tmp_path / "file"
    path.write_bytes(single_file.single_file({"openstack_operator/cli/main.py": main}, packages, "1.2.3", CREATED))
    (tmp_path / "tmp").mkdir()
    return path


def test_a_cache_that_cannot_be_filled_is_not_used(small_file: Path, tmp_path: Path) -> None:
    """Such as that of a full disk; here one whose path leaves no room for those of the files."""
    cache = tmp_path / "cache"
    while len(str(cache)) < 3700:
        cache /= "d" * 200
    cache.mkdir(parents=True)
    done = run(small_file, tmp_path, XDG_CACHE_HOME=str(cache), TMPDIR=str(tmp_path / "tmp"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(str(tmp_path / "tmp"))
    assert list((cache / "openstack-operator").iterdir()) == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_machine_without_room_gets_a_sentence(small_file: Path, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
    python: str = getattr(sys, "_base_executable", sys.executable)
    # No file may have more than some kilobytes.
    command = ["bash", "-c", 'ulimit -f 8; exec "$0" -I -S "$1"', python, str(small_file)]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("openstack-operator: its packages can be written neither to the cache nor to")
    assert len(done.stderr.splitlines()) == 1
    assert list((tmp_path / "home/.cache/openstack-operator").iterdir()) == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("library", "runs"),
    [("'glibc 2.27'", False), ("'glibc 2.28'", True), ("'glibc 2.41.9000'", True), ("None", False), ("{}[0]", False)],
)
def test_a_linux_without_a_new_glibc_gets_a_sentence(
    small_file: Path, tmp_path: Path, library: str, runs: bool
) -> None:
    code = (
        "import os, runpy, sys\n"
        f"def confstr(name):\n    try:\n        return {library}\n"
        "    except KeyError:\n        raise ValueError('unrecognized configuration name')\n"
        f"os.confstr, sys.platform = confstr, 'linux'\nrunpy.run_path({str(small_file)!r}, run_name='__main__')\n"
    )
    python: str = getattr(sys, "_base_executable", sys.executable)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    command = [python, "-I", "-S", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == runs, done.stderr
    assert runs or done.stderr.startswith("openstack-operator: this file needs glibc 2.28 or later, which this Linux")


def test_the_file_needs_the_glibc_of_its_packages() -> None:
    tags = {each.uv.partition("-")[2] for each in single_file.PLATFORMS if each.os == "linux"}
    assert tags == {f"manylinux_{'_'.join(map(str, GLIBC))}"}


def test_a_python_without_packages_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(single_file.single_file({}, {"3.9": {}, "3.98": {}}, "1.2.3", CREATED))
    done = run(path, tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"openstack-operator: this file is for Python 3.9, 3.98, and this is Python {PYTHON}; run"
    )
    assert "python3.98 FILE" in done.stderr


def test_single_file_holds_equal_files_once_and_is_reproducible() -> None:
    packages = {"3.11": {"a.py": b"a", "b.so": b"1"}, "3.12": {"a.py": b"a", "b.so": b"2"}}
    content = single_file.single_file({"p.py": b""}, packages, "1.2.3", CREATED)
    backwards: dict[str, Mapping[str, bytes]] = {
        python: dict(reversed(packages[python].items())) for python in packages
    }
    assert single_file.single_file({"p.py": b""}, backwards, "1.2.3", CREATED) == content
    assert content.count(b"all/a.py") == content.count(b"only/3.12/b.so") == 2  # the entry, and the list of entries
    assert b"only/3.12/a.py" not in content


def test_the_file_has_the_packages_of_the_operator_and_of_the_extra(root: Path) -> None:
    locks = [(root / name).read_text() for name in LOCKS]
    requirements = single_file.requirements(*locks)
    names = names_of(requirements)
    assert set(names) == {*names_of(locks[0]), *single_file.EXTRAS}
    assert requirements.count("--hash=sha256:") >= len(names)
    extra = (root / "pyproject.toml").read_text().partition("\ncli = [")[2].partition("]")[0]
    assert all(f'"{each}>=' in extra for each in single_file.EXTRAS)


def test_krew_installs_what_the_manifest_names() -> None:
    linux, mac = single_file.PLATFORMS[0], single_file.PLATFORMS[-1]
    archives = {
        each: (f"{each}.tar.gz", single_file.plugin_archive(str(each).encode(), CREATED)) for each in (linux, mac)
    }
    manifest = yaml.safe_load(single_file.plugin_manifest("1.2.3", "https://r.example.org/1.2.3/", archives))
    assert (manifest["kind"], manifest["metadata"]["name"], manifest["spec"]["version"]) == (
        "Plugin",
        "openstack",
        "v1.2.3",
    )
    assert len(manifest["spec"]["shortDescription"]) <= 80
    for entry, (platform, (name, content)) in zip(manifest["spec"]["platforms"], archives.items(), strict=True):
        assert entry["selector"]["matchLabels"] == {"os": platform.os, "arch": platform.arch}
        assert entry["uri"] == f"https://r.example.org/1.2.3/{name}"
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            assert {each.name: each.mode for each in tar.getmembers()} == {entry["bin"]: 0o755, "LICENSE": 0o644}
            assert {each["from"] for each in entry["files"]} == set(tar.getnames())


def test_a_release_without_an_address_has_no_manifest_for_krew() -> None:
    archives = {single_file.PLATFORMS[0]: ("linux.tar.gz", b"content")}
    assert single_file.plugin_files("1.2.3", None, archives) == {"linux.tar.gz": b"content"}
    url = "https://r.example.org/1.2.3"
    files = single_file.plugin_files("1.2.3", url, archives)
    assert files.keys() == {"linux.tar.gz", "krew.yaml"}
    assert f"{url}/linux.tar.gz" in files["krew.yaml"].decode()
