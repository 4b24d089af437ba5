"""The commands in a piece of shell, each as its words: as much of the language as the documentation uses."""

from __future__ import annotations

import re

_KEYWORDS = {"until", "while", "do", "done", "if", "then", "else", "fi", "{", "}", "!"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def commands(text: str) -> list[list[str]]:
    """Return the simple commands of a text, also those within `$(…)`, without assignments, keywords and redirections. A
    substitution within a word is `$()` there.
    """
    reader = _Reader(re.sub(r"<<'?(\w+)'?(.*)\n(?:.*\n)*?\1$", r"\2", text, flags=re.MULTILINE))
    reader.read("")
    return [words for each in reader.commands if (words := _plain(each))]


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0
        self.commands: list[list[str]] = []

    def read(self, end: str) -> None:
        """Read commands up to the closing character, or to the end of the text."""
        words: list[str] = []
        while self._place < len(self._text):
            character = self._text[self._place]
            if character == end:
                self._place += 1
                break
            if character in "\n;|&()":
                self._place += 1
                self.commands.append(words)
                words = []
            elif character.isspace() or self._text.startswith("\\\n", self._place):
                self._place += 2 if character == "\\" else 1
            elif character == "#":
                self._place = (self._text + "\n").index("\n", self._place)
            else:
                words.append(self._word(end))
        self.commands.append(words)

    def _word(self, end: str) -> str:
        word = ""
        while self._place < len(self._text):
            character = self._text[self._place]
            is_stream = character == "&" and word.endswith(">")  # 2>&1
            if not is_stream and (character.isspace() or character in f";|&(){end}"):
                break
            if self._text.startswith("\\\n", self._place):
                break
            self._place += 1
            if character == "'":
                close = self._text.index("'", self._place)
                word += self._text[self._place : close]
                self._place = close + 1
            elif character == '"':
                word += self._quoted()
            elif character == "$" and self._text.startswith("(", self._place):
                word += self._substitution()
            elif character == "\\":
                word += self._text[self._place]
                self._place += 1
            else:
                word += character
        return word

    def _quoted(self) -> str:
        text = ""
        while (character := self._text[self._place]) != '"':
            self._place += 1
            if character == "$" and self._text.startswith("(", self._place):
                text += self._substitution()
            elif character == "\\" and self._text[self._place] in '"\\$`':
                text += self._text[self._place]
                self._place += 1
            else:
                text += character
        self._place += 1
        return text

    def _substitution(self) -> str:
        self._place += 1
        self.read(")")
        return "$()"


def _plain(words: list[str]) -> list[str]:
    while words and (words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    if words[:1] == ["for"]:
        return []
    kept: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif re.fullmatch(r"[0-9]*(>>?|<)", word):
            skips = True
        elif not re.match(r"[0-9]*(>>?|<)", word) or (word.startswith("<") and word.endswith(">")):
            kept.append(word)
    return kept
