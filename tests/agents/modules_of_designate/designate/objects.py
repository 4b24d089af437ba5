"""A stand-in of Designate's objects."""

from types import SimpleNamespace


class TsigKey(SimpleNamespace):
    pass
