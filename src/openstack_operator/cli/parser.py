"""A parser of the command line that names what the user may have meant, and sorts commands by who uses them."""

# argparse has no public way to the entries of a list of commands, and types `parse_args` by the namespace.
# pyright: reportPrivateUsage=false, reportIncompatibleMethodOverride=false
from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

_CHOICE = re.compile(r"invalid choice: (?P<quoted>'(?P<word>.*)') \(choose from (?P<choices>.*)\)", re.DOTALL)
_UNKNOWN = "unrecognized arguments: "


class Parser(argparse.ArgumentParser):
    """Names the nearest choice or option in an error."""

    internal: frozenset[str] = frozenset()
    """Commands that programs run, and developers; `--help` lists them apart."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the options. Exits with an error that says which command or option is near a wrong one."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            parser = self._of(options)
            names = [each for action in parser._actions for each in action.option_strings]
            parser.error(_UNKNOWN + " ".join(unknown) + _near(unknown[0].partition("=")[0], names))
        return options

    def error(self, message: str) -> NoReturn:
        """Exit with an error."""
        if match := _CHOICE.search(message):
            choices = re.findall("'([^']*)'", match["choices"])
            message = f"{message[: match.start()]}invalid choice: {match['quoted']}{_near(match['word'], choices)}"
            message += f"; choose from {', '.join(each for each in choices if each not in self.internal)}"
        super().error(message)

    def format_help(self) -> str:
        """Return the help, with the commands that no user needs at the end."""
        commands = next((each for each in self._actions if isinstance(each, argparse._SubParsersAction)), None)
        if commands is None or not self.internal:
            return super().format_help()
        everything = commands._choices_actions
        commands._choices_actions = [each for each in everything if each.dest not in self.internal]
        try:
            text = super().format_help()
        finally:
            commands._choices_actions = everything
        formatter = self._get_formatter()
        formatter.start_section("programs of the operator itself")
        formatter.add_arguments([each for each in everything if each.dest in self.internal])
        formatter.end_section()
        return f"{text}\n{formatter.format_help()}"

    def _of(self, options: argparse.Namespace) -> argparse.ArgumentParser:
        """Return the parser of the command that was chosen, or of the command in it."""
        parser: argparse.ArgumentParser = self
        while commands := next(
            (each for each in parser._actions if isinstance(each, argparse._SubParsersAction)), None
        ):
            if (command := getattr(options, commands.dest, None)) not in commands.choices:
                break
            parser = commands.choices[command]
        return parser


def _near(word: str, choices: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415  (only for errors)

    names: Sequence[str] = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.5)
    return f"; did you mean {names[0]}?" if names else ""
