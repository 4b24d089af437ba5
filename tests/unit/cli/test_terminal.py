"""Output: nothing from outside controls a terminal, and a reader may go."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.cli import terminal
from openstack_operator.cli.command_line import command_line
from openstack_operator.cli.main import main
from openstack_operator.yaml_text import dump

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc\u2066\u200b\x7f\r\U000e0041\udc80"
"""Sequences of a terminal in 7 and in 8 bits, text that runs backwards, and text that nobody sees."""


def harmless(text: str) -> bool:
    return all(letter.isprintable() or letter in "\n\t" for letter in text)


@given(st.text() | st.text(alphabet='\x1b\x9b\u202e\x07ab\n\t\\"'))
def test_control_characters_are_shown_as_text(text: str) -> None:
    assert harmless(terminal.visible_text(text))
    if harmless(text):
        assert terminal.visible_text(text) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])) | st.text(alphabet="\x1b\x9b\u202e\x7fab\n\t\\\"'"))
def test_visible_text_keeps_its_meaning_in_yaml_and_json(text: str) -> None:
    assert yaml.safe_load(terminal.visible_text(dump({"a": text, text: ["b", text]}))) == {"a": text, text: ["b", text]}
    assert json.loads(terminal.visible_text(json.dumps([text]))) == [text]


def test_a_terminal_without_letters_gets_their_numbers() -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii")
    output = terminal.Output(stream)
    output.write("→ é\n")
    output.flush()
    assert buffer.getvalue() == b"\\u2192 \\xe9\n"


def test_a_terminal_is_controlled_by_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, sent in ((Terminal(), "\x1b[H\\u001b[2J"), (io.StringIO(), "\\u001b[2J")):
        monkeypatch.setattr("sys.stdout", terminal.Output(stream))
        terminal.control("\x1b[H")
        sys.stdout.write("\x1b[2J")
        assert stream.getvalue() == sent


MANIFEST = {
    "apiVersion": "openstack.k8s.io/v1alpha1",
    "kind": "Placement",
    "metadata": {"name": "p", "namespace": "openstack"},
    "spec": {"config": {"api": {f"o{HOSTILE[:-1]}": HOSTILE[:-1]}}},
}


@pytest.mark.security
@pytest.mark.parametrize("field", ["name", "namespace", "kind", "value", "option", "field", "label"])
@pytest.mark.parametrize("command", ["validate", "validate -o json", "render", "plan"])
def test_no_command_prints_what_a_file_has(
    command: str, field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    text = HOSTILE[:-1]
    changes: dict[str, dict[str, object]] = {
        "name": {"metadata": {"name": text}},
        "namespace": {"metadata": {"name": "p", "namespace": text}},
        "kind": {"kind": text},
        "value": {"spec": {"release": text}},
        "option": {},
        "field": {"spec": {text: text}},
        "label": {"metadata": {"name": "p", "labels": {text: text}, text: 1}},
    }
    path = tmp_path / "a.yaml"
    path.write_text(json.dumps({**MANIFEST, **changes[field]}))
    status = main([*command.split(), "-f", str(path)])
    printed = capsys.readouterr()
    assert status in {0, 1}
    assert harmless(printed.out + printed.err)
    assert printed.out + printed.err


@pytest.mark.security
@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "-f", HOSTILE],
        ["explain", HOSTILE],
        [HOSTILE],
        ["status", f"--{HOSTILE}"],
        ["status", "-n", HOSTILE],
        ["wait", "--timeout", HOSTILE],
        ["status", "--context", HOSTILE],
        ["validate", "--serves", HOSTILE, "-f", "/dev/null"],
    ],
    ids=lambda arguments: arguments[0] if len(arguments) > 1 else "command",
)
def test_no_command_prints_what_an_argument_has(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    try:
        status: object = main(arguments)
    except SystemExit as stopped:
        status = stopped.code
    printed = capsys.readouterr()
    assert status in {1, 2}
    assert harmless(printed.out + printed.err)
    assert "Traceback" not in printed.err


@pytest.mark.security
@pytest.mark.parametrize("name", ["../x", "..", "a/b", "a%2fb", "A", "a b", "a\x00", "", "x" * 64, "é"])
@pytest.mark.parametrize("option", ["-n", "--operator-namespace"])
def test_a_namespace_leads_nowhere_else(option: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "plan") if option == "-n" else ("plan", "support-bundle"):
        with pytest.raises(SystemExit) as stopped:
            main([command, option, name])
        assert stopped.value.code == (1 if command == "plan" else 2)
        assert "is not a name of a namespace" in capsys.readouterr().err


@pytest.mark.security
@pytest.mark.parametrize("name", ["../../pods/x", "..", "a/b", "a%2fb", "a?b", "a#b", "a\nb"])
def test_a_name_leads_nowhere_else(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["status"], ["why"], ["wait"], ["pause"], ["logs"], ["config"]):
        with pytest.raises(SystemExit) as stopped:
            main([*arguments, f"keystone/{name}"])
        assert stopped.value.code == 2
        assert "is not a name of a resource" in capsys.readouterr().err


@pytest.mark.seconds
@pytest.mark.parametrize("arguments", [["--help"], ["render", "-f", "deploy/samples/controlplane_minimal.yaml"]])
def test_a_reader_may_go(arguments: list[str], root: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "openstack_operator.cli", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, cwd=root, check=False)
    os.close(writer)
    # argparse itself ignores that nobody reads its help.
    assert done.returncode in {0, terminal.CLOSED_PIPE}
    assert b"Traceback" not in done.stderr
    assert b"Broken" not in done.stderr


def test_an_interrupt_is_no_traceback() -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    assert terminal.run(interrupted) == terminal.INTERRUPTED


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_have_colors_where_the_terminal_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    line = ("Keystone \x1b[2J" + "x" * 40, terminal.Color.RED)

    def printed(stream: io.StringIO, *, forbidden: bool = False) -> str:
        monkeypatch.setattr("sys.stdout", terminal.Output(stream))
        if forbidden:
            terminal.forbid_colors()
        terminal.print_line(*line)
        return stream.getvalue()

    assert printed(Terminal()) == "\x1b[31mKeystone \\u001b[2Jx…\x1b[0m\n"
    plain = "Keystone \\u001b[2Jx…\n"
    assert printed(Terminal(), forbidden=True) == plain
    assert printed(io.StringIO()) == f"Keystone \\u001b[2J{'x' * 40}\n"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            assert printed(Terminal()) == plain


def test_lines_have_marks_where_the_terminal_has_their_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wide(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("NO_COLOR", "1")
    lines = [("Keystone of a cloud", terminal.Color.RED), ("b", terminal.Color.GREEN), ("c", None)]
    for encoding, text in (("utf-8", "✗ Keyston…\n✓ b\n  c\n"), ("latin-1", "Keystone \\u2026\nb\nc\n")):
        buffer = io.BytesIO()
        stream = Wide(buffer, encoding=encoding)
        monkeypatch.setattr("sys.stdout", terminal.Output(stream))
        for line in lines:
            terminal.print_line(*line)
        stream.flush()
        assert buffer.getvalue().decode(encoding) == text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["statsu"], "invalid choice: 'statsu'; did you mean status?; choose from render,"),
        (["xyzzy"], "invalid choice: 'xyzzy'; choose from render,"),
        (["status", "--namspace", "x"], "unrecognized arguments: --namspace; did you mean --namespace?"),
        (["status", "--contex=x", "a", "b"], "unrecognized arguments: b"),
        (["status", "-o", "yml"], "argument -o/--output: invalid choice: 'yml'"),
        (["validate", "--serve", "x", "--stric", "-f", "y", "z"], "unrecognized arguments: z"),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def test_help_has_commands_of_users_first(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--help"])
    users, _, programs = capsys.readouterr().out.partition("programs of the operator itself:")
    words = [[line.split()[0] for line in part.splitlines() if line.split()] for part in (users, programs)]
    assert {"status", "plan", "validate"} <= set(words[0])
    assert {"run", "generate", "inject-labels", "certify-injector"} & set(words[0]) == set()
    assert {"run", "generate", "inject-labels", "certify-injector"} <= set(words[1])
    assert all(len(line) <= 80 for line in (users + programs).splitlines())


@pytest.mark.parametrize("arguments", [["--no-color", "status"], ["status", "--no-color"]])
def test_colors_are_forbidden_before_and_after_the_command(arguments: list[str]) -> None:
    assert command_line().parse_args(arguments).no_color
    assert not command_line().parse_args(["status"]).no_color
