"""A stand-in of Barbican's tables."""


class KEKDatum:
    """The table of keys of projects."""
