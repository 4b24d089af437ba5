"""Scripts by which shells complete the command line."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from openstack_operator.cli.main import main


def test_a_shell_takes_the_script_and_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in ("support-bundle", "why", "--namespace"))
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("#compdef openstack-operator")


def test_without_the_library_it_says_what_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert "needs the extra `cli`" in capsys.readouterr().err
