"""A stand-in of Designate's configuration."""


def CONF(arguments: list[str], *, project: str, default_config_files: list[str]) -> None:
    assert (arguments, project) == ([], "designate")
    assert default_config_files == ["designate.conf"]
