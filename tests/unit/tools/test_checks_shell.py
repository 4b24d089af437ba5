"""The check of shell programs: where it gets shellcheck, and what it says of programs that run as one script."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.checks import shell

# It finds fault with each line that says `bad`, and writes down how it is called.
SHELLCHECK = """\
#!/bin/sh
echo "$*" >> "$CALLS"
awk '
    /^bad/ { findings = findings sep "{\\"line\\": " NR ", \\"code\\": 1, \\"message\\": \\"is bad\\"}"; sep = "," }
    END { print "[" findings "]" }'
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs, which are all that there are."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "awk", "cat", "mkdir", "chmod", "touch"):
        path = next(Path(each) / name for each in ("/usr/bin", "/bin") if (Path(each) / name).exists())
        (folder / name).symlink_to(path)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("OPENSTACK_OPERATOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setitem(shell.ENV, "CALLS", str(tmp_path / "calls"))
    monkeypatch.setitem(shell.ENV, "PATH", str(folder))
    return folder


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def debian(tools: Path, tmp_path: Path) -> Path:
    """The folder of programs, with those of Debian; the file `shellcheck` is what the package has."""
    package = program(tmp_path / "shellcheck", SHELLCHECK)
    program(tools / "apt-get", '#!/bin/sh\necho apt-get "$*" >> "$CALLS"; touch shellcheck_1_amd64.deb\n')
    unpacked = f"mkdir -p $3/usr/bin && cat {package} > $3/usr/bin/shellcheck && chmod +x $3/usr/bin/shellcheck"
    program(tools / "dpkg-deb", f"#!/bin/sh\n[ -e $2 ] && {unpacked}\n")
    return tools


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text(encoding="utf-8").splitlines()


def test_the_one_on_path_is_taken(debian: Path) -> None:
    path = program(debian / "shellcheck", SHELLCHECK)
    assert shell.find_shellcheck() == str(path)


def test_the_package_is_downloaded_once(debian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(shell.find_shellcheck())
    assert os.access(path, os.X_OK)
    assert shell.find_shellcheck() == str(path)
    assert [path.name for path in path.parent.iterdir()] == ["shellcheck"]
    (call,) = calls(tmp_path)
    assert call.endswith(" download shellcheck")
    assert capsys.readouterr().err.count("\n") == 1


def test_without_network_nothing_is_checked(debian: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(debian / "apt-get", "#!/bin/sh\necho E: Unable to locate package shellcheck >&2; exit 100\n")
    assert shell.main() == 0
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("shell programs were not checked: apt-get cannot download shellcheck;")
    assert last.endswith("(E: Unable to locate package shellcheck)")


def test_shell_is_not_checked_without_debian(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.main() == 0
    assert capsys.readouterr().err.startswith("shell programs were not checked: there is no shellcheck on PATH")


def test_problems_fail_the_check(
    debian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shell, "PROGRAMS", tmp_path / "programs")
    path = program(tmp_path / "programs/a/x.sh", "#!/bin/sh\n# Nothing.\nbad\n")
    assert shell.main() == 1
    assert capsys.readouterr().out == "a/x.sh:3: SC1 is bad\n"
    program(path, "#!/bin/sh\n# Nothing.\ngood\n")
    assert shell.main() == 0


def check(folder: Path, tools: Path) -> list[str]:
    return [*shell.problems(folder, str(program(tools / "shellcheck", SHELLCHECK)))]


def test_programs_are_checked_as_they_run(tools: Path, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    program(folder / "all/follow.sh", "#!/bin/sh\n# Functions.\nbad\n")
    program(folder / "a/ask.sh", "#!/bin/sh\n# Functions.\nok\n")
    program(folder / "b/ask.sh", "#!/bin/sh\n# Functions of another one.\n")
    program(
        folder / "a/start.sh",
        "#!/bin/bash\n# Starts it. Needs follow.sh\n# and ask.sh. Needs nothing.sh later.\nok\nbad\n",
    )
    assert sorted(check(folder, tools)) == ["a/start.sh:5: SC1 is bad", "all/follow.sh:3: SC1 is bad"]
    assert "--norc --format=json --shell=bash -" in calls(tmp_path)


def test_a_program_that_needs_none_of_the_others_is_refused(tools: Path, tmp_path: Path) -> None:
    program(tmp_path / "programs/a/start.sh", "#!/bin/sh\n# Starts it. Needs ask.sh.\n")
    with pytest.raises(ValueError, match=r"start\.sh: it needs ask\.sh; there are 0 programs of that name"):
        check(tmp_path / "programs", tools)


def test_lines_are_as_long_as_those_of_python(tools: Path, tmp_path: Path) -> None:
    program(tmp_path / "programs/a/x.sh", f"#!/bin/sh\n#{'x' * 119}\n#{'x' * 120}\n")
    assert check(tmp_path / "programs", tools) == ["a/x.sh:3: 121 characters; at most 120"]


def test_a_shellcheck_that_fails_is_an_error(tools: Path, tmp_path: Path) -> None:
    program(tmp_path / "programs/a/x.sh", "#!/bin/sh\n")
    failing = program(tools / "shellcheck", "#!/bin/sh\necho no memory >&2; exit 2\n")
    with pytest.raises(shell.CommandError, match="no memory"):
        next(shell.problems(tmp_path / "programs", str(failing)))


def test_programs_name_what_they_need(tools: Path) -> None:
    """Where shellcheck cannot be had, too."""
    programs = sorted(shell.PROGRAMS.rglob("*.sh"))
    names = {path.name: [each.name for each in shell.needed(path, programs)] for path in programs}
    assert names["start_sentinel.sh"] == ["reload_on_change.sh", "ask.sh"]
    assert names["reload_on_change.sh"] == []
