"""A stand-in of what central raises."""


class ZoneNotFound(Exception):
    pass


class PoolNotFound(Exception):
    pass
