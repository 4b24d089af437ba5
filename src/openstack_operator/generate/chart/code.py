"""Code of Helm's templates amid objects of Kubernetes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from ...kube import Object
from ...yaml_text import dump

_TOKEN = re.compile(r"CODE(\d+)CODE")
# The entry of a map or of a list that stands for lines of code.
_LINE = re.compile(r"^( *)(?:- )?CODE(\d+)CODE(?:: null)?$", re.MULTILINE)
_INDENT = re.compile(r"nindent \+(\d+)")


class Code:
    """Code that stands in for parts of objects until they are text.

    Text of one value needs none of this: `{{ .Values.name }}` may stand in a string of an object.
    """

    def __init__(self) -> None:
        self._codes: list[str] = []

    def value(self, code: str) -> str:
        """Return what stands for a value that is no text, such as a number."""
        return self._add(f"{{{{ {code} }}}}")

    def lines(self, code: str) -> str:
        """Return what stands for lines of code, as an entry of a list, or as a key of a map with the value None.

        They get the indentation of that entry; `nindent +2` is two columns more.
        """
        return self._add(code)

    def block(self, name: str, value: str) -> dict[str, None]:
        """Return a field that is there unless the value is empty."""
        lines = [f"{{{{- with {value} }}}}", f"{name}:", "  {{- toYaml . | nindent +2 }}", "{{- end }}"]
        return {self.lines("\n".join(lines)): None}

    def whole(self, value: str) -> dict[str, None]:
        """Return the content of a map that is a value."""
        return {self.lines(f"{{{{- toYaml {value} | nindent +0 }}}}"): None}

    def text(self, objects: Iterable[Object]) -> str:
        """Return the template of objects."""
        texts = [dump(obj) for obj in objects]
        return "---\n".join(_TOKEN.sub(self._inline, _LINE.sub(self._lines, text)) for text in texts)

    def _add(self, code: str) -> str:
        self._codes.append(code)
        return f"CODE{len(self._codes) - 1}CODE"

    def _inline(self, match: re.Match[str]) -> str:
        return self._codes[int(match[1])]

    def _lines(self, match: re.Match[str]) -> str:
        indent = len(match[1])
        code = _INDENT.sub(lambda columns: f"nindent {indent + int(columns[1])}", self._codes[int(match[2])])
        return textwrap.indent(code, match[1])
