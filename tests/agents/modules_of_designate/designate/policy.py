"""A stand-in of Designate's rules."""


def init() -> None:
    pass
