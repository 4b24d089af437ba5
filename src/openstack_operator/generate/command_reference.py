"""The reference of commands: a section each, from the parser of the command line."""

# argparse has no public way to walk over what a parser knows.
# pyright: reportPrivateUsage=false
from __future__ import annotations

import argparse
from collections.abc import Iterator

_HEAD = """# Commands and options

Every command of `openstack-operator`, from the program itself. As `kubectl-openstack` in the search path, the same
program is `kubectl openstack`. [The command line](cli.md) has examples, what they print, and exit statuses.
"""


def command_reference(parser: argparse.ArgumentParser) -> str:
    """Return the page: a list of commands, and for each command a table of its options."""
    return "\n".join([_HEAD, *_commands(parser, "##"), ""])


def _commands(parser: argparse.ArgumentParser, mark: str, prefix: str = "") -> Iterator[str]:
    """Yield a list of the commands of a parser, and a section for each, with a heading of this mark."""
    [commands] = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    helps = {f"{prefix}{each.dest}": _sentence(each.help or "") for each in commands._choices_actions}
    yield from ("| command | |", "| --- | --- |")
    yield from (f"| [{name}](#{name.replace(' ', '-')}) | {text} |" for name, text in helps.items())
    for own_name, command in commands.choices.items():
        name = f"{prefix}{own_name}"
        yield from ("", f"{mark} {name}", "", helps[name], "")
        has_commands = any(isinstance(each, argparse._SubParsersAction) for each in command._actions)
        yield from _commands(command, f"{mark}#", f"{name} ") if has_commands else _section(command)


def _section(command: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the table of a command's options."""
    actions = [each for each in command._actions if not isinstance(each, argparse._HelpAction)]
    if not actions:
        yield "It has no options."
        return
    yield from ("| argument or option | default | |", "| --- | --- | --- |")
    for each in actions:
        meaning = (each.help or "") % {**vars(each), "prog": command.prog}
        if each.choices:
            meaning = "; ".join(
                [" or ".join(f"`{choice}`" for choice in each.choices), *([meaning] if meaning else [])]
            )
        yield f"| {_names(each)} | {_default(each)} | {_cell(meaning)} |"


def _names(action: argparse.Action) -> str:
    """Return how an option or an argument is written."""
    value = str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return f"`{_cell(f'[{value}]' if action.nargs == '?' else value)}`"
    takes = "" if action.nargs == 0 else f" {_cell(value)}"
    required = ", required" if action.required else ""
    return ", ".join(f"`{name}{takes}`" for name in action.option_strings) + required


def _default(action: argparse.Action) -> str:
    return "" if action.default in (None, False, "", []) else f"`{action.default}`"


def _sentence(text: str) -> str:
    return f"{_cell(text[:1].upper() + text[1:])}."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
