"""Rules by which oslo.config reads the values of options."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

Rules = Mapping[str, Any]
"""The `type` of an option, named as in oslo.config.types, with its limits; without one, any value is right."""

# Of those, no value of these types has a comma, so that an item of a list never goes on behind one.
_WITHOUT_COMMA = frozenset(
    {"Boolean", "Float", "HostAddress", "HostDomain", "Hostname", "IPAddress", "Integer", "Port", "Range"}
)
_PLACEHOLDER = re.compile(r"\$(?:(\$)|([_a-z][._a-z0-9]*)|\{([_a-z][._a-z0-9]*)\})", re.IGNORECASE)
_DOLLAR = re.compile(r"(\\?)\$")
_TRUE, _FALSE = ("true", "1", "on", "yes"), ("false", "0", "off", "no")


def reads(rules: Rules, text: str) -> bool:
    """Return True if oslo.config takes this text, as its parser has read it from a file, for a value of an option."""
    check = _CHECKS.get(rules.get("type", ""))
    return check is None or check(rules, text)


def parse_text(text: str) -> str | None:
    """Return what oslo.config reads of a value that is written to a file: without the spaces and quotes around it, and
    with each escaped dollar sign as such. Return None if it contains the value of another option.
    """
    first_line, *further_lines = (line.strip() for line in text.split("\n"))
    if first_line and first_line[0] == first_line[-1] and first_line[0] in "\"'":
        first_line = first_line[1:-1]
    value = "\n".join([first_line, *further_lines]).rstrip("\n").replace("\\$", "$$")
    if any(match[1] is None for match in _PLACEHOLDER.finditer(value)):
        return None
    return _PLACEHOLDER.sub("$", value)


def escape_text(text: str) -> str:
    """Return a text as a file has to have it for oslo.config to read the same. Line breaks at its end are left out; of
    a text with several lines, oslo.config drops the spaces around each.
    """
    lines = text.rstrip("\r\n")
    # A backslash before a dollar sign would escape that, so there the dollar sign gets one of its own.
    escaped = _DOLLAR.sub(lambda match: match[1] + "\\$" if match[1] else "$$", lines)
    is_stripped = lines != lines.strip() or (lines != "" and lines[0] == lines[-1] and lines[0] in "\"'")
    return f'"{escaped}"' if is_stripped and "\n" not in lines else escaped


def option_names(text: str) -> list[str]:
    """Return the names of options, some with their section before a dot, of which a value contains the values."""
    matches = _PLACEHOLDER.finditer(text.replace("\\$", "$$"))
    return [name for match in matches if (name := match[2] or match[3])]


def has_gap(text: str) -> bool:
    """Return True if a line within a value is empty, which ends the value: oslo.config does not read the file then."""
    return "" in [line.strip() for line in text.rstrip().split("\n")[1:]]


def describe(rules: Rules) -> str:
    """Return what an option takes, as the end of the sentence `the option takes ...`."""
    kind = rules.get("type", "")
    if kind in {"List", "Dict"}:
        return _describe_collection(rules)
    if rules.get("choices"):
        return f"one of {', '.join(str(choice) or repr(choice) for choice in rules['choices'])}"
    if rules.get("regex"):
        return f"text that matches {rules['regex']}"
    if kind in {"Integer", "Float", "Port"}:
        return f"{_NOUNS[kind]}{_describe_range(rules)}"
    text = _NOUNS.get(kind, "any text")
    if schemes := rules.get("schemes"):
        text += f" with {' or '.join(f'{scheme}://' for scheme in schemes)}"
    if version := rules.get("version"):
        text += f" (IPv{version})"
    if longest := rules.get("max_length"):
        text += f" of at most {longest} characters"
    return text


_NOUNS = {
    "Boolean": "true or false",
    "Float": "a number",
    "HostAddress": "a host name or an IP address",
    "HostDomain": "a host name or an IP address",
    "Hostname": "a host name",
    "IPAddress": "an IP address",
    "Integer": "a whole number",
    "Port": "a port",
    "Range": "a whole number, or two with a hyphen between them",
    "String": "text",
    "URI": "a URL",
}


def _describe_range(rules: Rules) -> str:
    parts = (f"{word} {rules[limit]}" for word, limit in (("from", "min"), ("to", "max")) if limit in rules)
    return "".join(f" {part}" for part in parts)


def _describe_collection(rules: Rules) -> str:
    is_list = rules["type"] == "List"
    inner = describe(rules.get("item_type" if is_list else "value_type", {}))
    separator = rules.get("key_value_separator", ":")
    text = "items" if is_list else f"pairs NAME{separator}VALUE"
    if inner not in {"text", "any text"}:
        text += f", each {inner}," if is_list else f", each value {inner},"
    opening, closing = "[]" if is_list else "{}"
    bounds = f", within {opening} and {closing}" if rules.get("bounds") else ""
    minimum = f"at least {rules['min_length']} " if rules.get("min_length") else ""
    return f"{minimum}{text} with commas between them{bounds}"


def _is_string(rules: Rules, text: str) -> bool:
    if rules.get("quotes") and text[:1] in {'"', "'"}:
        if len(text) == 1 or text[-1] != text[0]:
            return False
        text = text[1:-1]
    longest = rules.get("max_length") or 0
    if 0 < longest < len(text):
        return False
    if regex := rules.get("regex"):
        return re.search(regex, text) is not None
    choices: Sequence[str] | None = rules.get("choices")
    if choices is None:
        return True
    if rules.get("ignore_case"):
        return text.lower() in [choice.lower() for choice in choices]
    return text in choices


def _is_boolean(_: Rules, text: str) -> bool:
    return text.lower() in _TRUE + _FALSE


def _is_number(convert: Callable[[str], float]) -> Callable[[Rules, str], bool]:
    def check(rules: Rules, text: str) -> bool:
        # oslo.config takes this for an option that is not set.
        if not text.strip():
            return True
        try:
            number = convert(text)
        except ValueError:
            return False
        if (choices := rules.get("choices")) is not None:
            return number in choices
        # "nan" is neither too small nor too big for oslo.config.
        return not (number < rules.get("min", number) or number > rules.get("max", number))

    return check


_RANGE = re.compile("^(0|-?[1-9][0-9]*)(?:-(0|-?[1-9][0-9]*))?$")


def _is_range(rules: Rules, text: str) -> bool:
    match = _RANGE.match(text)
    if not match:
        return False
    try:
        begin = int(match[1])
        end = begin if match[2] is None else int(match[2])
    except ValueError:
        return False
    low, high = min(begin, end), max(begin, end)
    return low >= rules.get("min", low) and high <= rules.get("max", high)


def _is_list(rules: Rules, text: str) -> bool:
    text = text.strip().rstrip(",")
    if rules.get("bounds"):
        if not (text.startswith("[") and text.endswith("]")):
            return False
        text = text[1:-1]
    items = _split(text, rules.get("item_type", {}), lambda item: item.strip())
    return items is not None and len(items) >= rules.get("min_length", 0)


def _is_dict(rules: Rules, text: str) -> bool:
    text = text.strip()
    if rules.get("bounds"):
        if not (text.startswith("{") and text.endswith("}")):
            return False
        text = text[1:-1]
    separator = rules.get("key_value_separator", ":")

    def value(pair: str) -> str | None:
        _, colon, value = pair.partition(separator)
        return value.strip() if colon else None

    pairs = _split(text, rules.get("value_type", {}), value)
    if pairs is None:
        return False
    names = [pair.partition(separator)[0].strip() for pair in pairs]
    return "" not in names and len(names) == len(set(names)) and len(names) >= rules.get("min_length", 0)


def _split(text: str, rules: Rules, value: Callable[[str], str | None]) -> list[str] | None:
    """Return the items between commas; None if one of them has no value by the rules. An item that has none goes on
    behind the comma, as its type may have commas itself.
    """
    items: list[str] = []
    # Of an empty text there is none.
    rest = text.split(",")[::-1] if text else []
    while rest:
        item = rest.pop()
        while (read := value(item)) is None or not reads(rules, read):
            if not rest or (read is not None and rules.get("type") in _WITHOUT_COMMA):
                return None
            item += "," + rest.pop()
        items.append(item)
    return items


def _is_ip_address(rules: Rules, text: str) -> bool:
    # A zone is no part of an address for inet_pton(), by which oslo.config checks.
    if "%" in text:
        return False
    with suppress(ValueError):
        return rules.get("version") in {None, ipaddress.ip_address(text).version}
    return False


def _is_hostname(characters: str) -> Callable[[Rules, str], bool]:
    label = re.compile(f"(?!-)[{characters}]{{1,63}}(?<!-)$", re.IGNORECASE)

    def check(_: Rules, text: str) -> bool:
        if not 0 < len(text) <= 253:
            return False
        labels = text.removesuffix(".").split(".")
        return re.search("[a-zA-Z-]", labels[-1]) is not None and all(map(label.match, labels))

    return check


_is_plain_hostname = _is_hostname("A-Z0-9-")
_is_domain = _is_hostname("A-Z0-9-_")


def _is_host_address(rules: Rules, text: str) -> bool:
    return _is_ip_address(rules, text) or _is_plain_hostname(rules, text)


def _is_host_domain(rules: Rules, text: str) -> bool:
    return _is_host_address(rules, text) or _is_domain(rules, text)


_FLAGS = re.IGNORECASE | re.ASCII
_CHARACTERS = r"[\w.~!$&'()*+,;=-]|%[\da-f]{2}"
# oslo.config escapes what it finds in a path, but for brackets, which are none of a path.
_URI = re.compile(r"([a-z][a-z\d+.-]*)://([^\\/?#]*)[^?#\[\]]*(?:[?#]|$)", _FLAGS)
_AUTHORITY = re.compile(rf"(?:(?:{_CHARACTERS}|:)+@)?(\[[^\]]*\]|(?:{_CHARACTERS})*):?\d{{0,5}}", _FLAGS)
_IPV4 = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}$", re.ASCII)
_IN_BRACKETS = re.compile(r"v[\da-fA-F]+\.[\w.~!$&'()*+,;=:-]+|([^%]*)(?:%25(?:[\w.~-]|%[\da-fA-F]{2})+)?", re.ASCII)


def _is_uri(rules: Rules, text: str) -> bool:
    """Return True for a URI with scheme and host, in the syntax of RFC 3986. The host may be empty beside a port."""
    parts = _URI.match(text)
    if not parts or not parts[2]:
        return False
    authority = _AUTHORITY.fullmatch(parts[2])
    if not authority or not _is_uri_host(authority[1]):
        return False
    schemes = [scheme.lower() for scheme in rules.get("schemes", ())]
    return (not schemes or parts[1] in schemes) and len(text) <= rules.get("max_length", len(text))


def _is_uri_host(host: str) -> bool:
    if host.startswith("["):
        match = _IN_BRACKETS.fullmatch(host[1:-1])
        # The syntax does not limit the numbers of an IPv4 address at its end.
        return match is not None and (
            match[1] is None or _is_ip_address({"version": 6}, _IPV4.sub("0.0.0.0", match[1]))  # noqa: S104
        )
    return not _IPV4.match(host) or all(int(byte) <= 255 for byte in host.split("."))


_CHECKS: Mapping[str, Callable[[Rules, str], bool]] = {
    "Boolean": _is_boolean,
    "Dict": _is_dict,
    "Float": _is_number(float),
    "HostAddress": _is_host_address,
    "HostDomain": _is_host_domain,
    "Hostname": _is_plain_hostname,
    "IPAddress": _is_ip_address,
    "Integer": _is_number(int),
    "List": _is_list,
    "MultiString": _is_string,
    "Port": _is_number(int),
    "Range": _is_range,
    "String": _is_string,
    "URI": _is_uri,
}
