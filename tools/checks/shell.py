"""shellcheck over the shell programs that run in pods: `python -m tools.checks.shell`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from images.shell import CommandError, run, say
from tools.localcluster import paths

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "src" / "openstack_operator" / "agents"
LENGTH = 120
_NEEDS = re.compile(r"Needs ((?:[\w/]+\.sh(?:, | and )?)+)\.")


def main() -> int:
    """Print each problem, and return 1 where there is one. Without shellcheck nothing is checked, which is no error:
    tests run without network, too.
    """
    try:
        shellcheck = find_shellcheck()
    except CommandError as error:
        say(f"shell programs were not checked: {error}")
        return 0
    lines = [*problems(PROGRAMS, shellcheck)]
    print("\n".join(lines) or "shell programs: no problem")
    return 1 if lines else 0


def find_shellcheck() -> str:
    """Return the path of shellcheck: the one on PATH, or that of the system's Debian package, which is unpacked in the
    cache the first time and not installed. Raises CommandError where it cannot be had.
    """
    if path := shutil.which("shellcheck"):
        return path
    program = paths.cache() / "checks" / "shellcheck"
    if not program.exists():
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            raise CommandError("there is no shellcheck on PATH, and no apt-get to download it; install shellcheck")
        say("downloading the package shellcheck: shell programs are checked with it")
        _unpack(program)
    return str(program)


def _unpack(program: Path) -> None:
    """Put the program of the package where it stays."""
    options = ["--quiet=2", "-oAPT::Sandbox::User=root", "-oAcquire::Retries=0", "-oAcquire::http::Timeout=10"]
    program.parent.mkdir(parents=True, exist_ok=True)
    # Beside the program, so that it gets its name only when it is complete.
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        script = 'cd "$1"; shift; "$@"; dpkg-deb -x shellcheck_*.deb .'
        try:
            run(["sh", "-euc", script, "sh", folder, "apt-get", *options, "download", "shellcheck"])
        except CommandError as error:
            reason = str(error).strip().splitlines()[-1]
            raise CommandError(
                f"apt-get cannot download shellcheck; install it, or run apt-get update ({reason})"
            ) from None
        (Path(folder) / "usr" / "bin" / "shellcheck").rename(program)


def problems(folder: Path, shellcheck: str) -> Iterator[str]:
    """Yield each problem of the programs below a folder as `file:line: what it is`. A program that needs functions of
    others is checked as it runs: after them, as one script.
    """
    programs = sorted(folder.rglob("*.sh"))
    unique: dict[str, None] = {}
    for path in programs:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > LENGTH:
                unique[f"{_name(path, folder)}:{number}: {len(line)} characters; at most {LENGTH}"] = None
        for problem in _check([*needed(path, programs), path], folder, shellcheck):
            # Functions that several programs need have one problem, not several.
            unique[problem] = None
    yield from unique


def needed(path: Path, programs: Sequence[Path]) -> list[Path]:
    """Return the programs that the first comment says a program needs: of its folder, or the only one of that name.
    Raises ValueError for another name.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = lines[1 : next((n for n, line in enumerate(lines) if n and not line.startswith("#")), len(lines))]
    match = _NEEDS.search(" ".join(line.removeprefix("#").strip() for line in comment))
    result: list[Path] = []
    for name in re.findall(r"[\w/]+\.sh", match[1]) if match else ():
        namesakes = [program for program in programs if program.name == name]
        siblings = [program for program in namesakes if program.parent == path.parent]
        if len(siblings or namesakes) != 1:
            raise ValueError(f"{path}: it needs {name}; there are {len(namesakes)} programs of that name")
        result += siblings or namesakes
    return result


def _check(paths_in_order: Sequence[Path], folder: Path, shellcheck: str) -> Iterator[str]:
    """Yield the problems of programs that run as one script; the last one's first line names the shell."""
    texts = [path.read_text(encoding="utf-8") for path in paths_in_order]
    origin = [(path, n) for path, text in zip(paths_in_order, texts, strict=True) for n in _numbers(text)]
    dialect = texts[-1].partition("\n")[0].rpartition("/")[2]
    command = [shellcheck, "--norc", "--format=json", f"--shell={dialect}", "-"]
    result = subprocess.run(command, input="".join(texts), capture_output=True, text=True, check=False, env=ENV)
    if result.returncode not in (0, 1):
        raise CommandError(f"{shellcheck}: {result.stderr.strip()}")
    for finding in json.loads(result.stdout):
        path, number = origin[finding["line"] - 1]
        yield f"{_name(path, folder)}:{number}: SC{finding['code']} {finding['message']}"


ENV = {**os.environ, "SHELLCHECK_OPTS": ""}
"""Environment of shellcheck: options of the user's would make it say something else."""


def _numbers(text: str) -> range:
    return range(1, text.count("\n") + 1)


def _name(path: Path, folder: Path) -> str:
    return str(path.relative_to(ROOT if folder.is_relative_to(ROOT) else folder))


if __name__ == "__main__":
    sys.exit(main())
