"""CEL rules of the CRDs, evaluated as the API server does when an object is created.

The library is an extra, `openstack-operator[cli]`: the operator itself never needs it. It is the language alone;
Kubernetes' own functions that rules of ours use are here. Its `size` of a text counts bytes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from importlib.util import find_spec, module_from_spec
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from ...api.units import amount
from .schema import BROKEN_RULE

OLD = re.compile(r"\boldSelf\b")
"""Rules about changes; there is none when an object is created."""


_EXTENSION = "cel.cel"
"""Module of the library that evaluates CEL."""


class RulesUnavailable(Exception):
    """The library that evaluates CEL is not installed."""


@cache
def _library() -> Any:
    """Return the library for CEL without its own command line, whose imports take longer than those of the library.
    Raises ImportError.
    """
    if _EXTENSION in sys.modules:
        return sys.modules[_EXTENSION]
    package = find_spec("cel")
    if package is None or not package.submodule_search_locations:
        raise ImportError("there is no package `cel`")
    finder = FileFinder(package.submodule_search_locations[0], (ExtensionFileLoader, EXTENSION_SUFFIXES))
    extension = finder.find_spec(_EXTENSION)
    if extension is None or extension.loader is None:
        return import_module("cel")
    # An extension in Rust can be loaded only once, so that `import cel` has to find this one.
    sys.modules[_EXTENSION] = module = module_from_spec(extension)
    is_loaded = False
    try:
        extension.loader.exec_module(module)
        is_loaded = True
    finally:
        if not is_loaded:
            # As `import` does: a module that could not be loaded is not to be taken for one that was.
            sys.modules.pop(_EXTENSION, None)
    return module


def evaluator() -> Callable[[str, Any], str]:
    """Return a function that checks a rule for a value: empty where it holds, `false` where not, or why it cannot be
    evaluated. Raises RulesUnavailable.
    """
    try:
        cel = _library()
    except ImportError:
        raise RulesUnavailable(
            "the rules of the CRDs are not checked without the extra `cli`: docs/reference/cli.md"
        ) from None
    context = cel.Context({}, dict(FUNCTIONS))
    compiled = cache(cel.compile)

    def holds(rule: str, value: Any) -> str:
        if OLD.search(rule):
            return ""
        context.add_variable("self", value)
        try:
            return "" if compiled(rule).execute(context) is True else BROKEN_RULE
        except (RuntimeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
            # As the API server: a rule that cannot be evaluated is one that does not hold.
            return str(error).splitlines()[0] if str(error) else type(error).__name__

    return holds


def functions_of(rule: str) -> set[str]:
    """Return the functions and operators that a rule uses. Raises ValueError for text that is not CEL."""
    return set(_library().compile(rule).functions())


def _is(parse: Callable[[str], object]) -> Callable[[Any], bool]:
    def good(text: Any) -> bool:
        try:
            parse(text)
        except (ValueError, TypeError):
            return False
        return True

    return good


def _parsed(parse: Callable[[str], object]) -> Callable[[str], str]:
    """Return a function that gives valid text back unchanged: what Kubernetes has types for is text here."""

    def checked(text: str) -> str:
        parse(text)
        return text

    return checked


def _ip(text: str) -> object:
    address = ip_address(text)
    if isinstance(address, IPv6Address) and (address.scope_id or address.ipv4_mapped):
        raise ValueError("an address with a zone, or an IPv4 address as IPv6")
    return address


def _cidr(text: str) -> IPv4Network | IPv6Network:
    address, _, length = text.partition("/")
    _ip(address)
    if not re.fullmatch(r"0|[1-9][0-9]{0,2}", length):
        raise ValueError("no prefix length")
    return ip_network(text, strict=False)


def _contains(network: str, address: str) -> bool:
    return ip_address(address) in _cidr(network)


def _compare(a: str, b: str) -> int:
    difference = amount(a) - amount(b)
    return (difference > 0) - (difference < 0)


def _greater(a: str, b: str) -> bool:
    return _compare(a, b) > 0


def _less(a: str, b: str) -> bool:
    return _compare(a, b) < 0


def _masked(text: str) -> str:
    return str(_cidr(text))


def _prefix_length(text: str) -> int:
    return _cidr(text).prefixlen


def _lower(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _upper(text: str) -> str:
    return "".join(letter.upper() if letter.isascii() else letter for letter in text)


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "isQuantity": _is(amount),
    "quantity": _parsed(amount),
    "compareTo": _compare,
    "isGreaterThan": _greater,
    "isLessThan": _less,
    "isIP": _is(_ip),
    "ip": _parsed(_ip),
    "isCIDR": _is(_cidr),
    "cidr": _parsed(_cidr),
    "masked": _masked,
    "prefixLength": _prefix_length,
    "containsIP": _contains,
    "lowerAscii": _lower,
    "upperAscii": _upper,
    "replace": _replace,
}
"""Kubernetes' extensions of CEL that rules use: methods are functions of their object."""
CORE = frozenset(
    {"@in", "@not_strictly_false", "!_", "-_", "_?_:_", "_[_]", "_&&_", "_||_", "_==_", "_!=_", "_<_", "_<=_", "_>_"}
    | {"_>=_", "_+_", "_-_", "_*_", "_/_", "_%_", "contains", "endsWith", "startsWith", "matches", "size", "string"}
    | {"int", "double", "bool", "type", "duration", "timestamp"}
)
"""Functions and operators that the library evaluates by itself."""
