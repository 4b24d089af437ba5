"""Which mirror the images are built from: the host's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.debian import mirrors

DEB822 = """\
Types: deb
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main

Types: deb-src
URIs: http://sources.test/debian
Suites: bookworm

Types: deb
URIs: http://mirror.test/security
Suites: bookworm-security
"""

ONE_LINE = """\
# deb http://old.test/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] https://other.test/tool stable main
deb http://mirror.test/debian bookworm main contrib
deb http://mirror.test/security bookworm-security main
"""


def host(folder: Path, file: str, text: str, system: str = "debian") -> tuple[Path, Path]:
    (folder / "sources.list.d").mkdir()
    (folder / file).write_text(text, encoding="utf-8")
    (folder / "os-release").write_text(f'ID={system}\nVERSION_CODENAME="bookworm"\n', encoding="utf-8")
    return folder, folder / "os-release"


@pytest.mark.parametrize(("file", "text"), [("sources.list.d/debian.sources", DEB822), ("sources.list", ONE_LINE)])
def test_both_kinds_of_sources_are_read(tmp_path: Path, file: str, text: str) -> None:
    assert mirrors(*host(tmp_path, file, text)) == ("http://mirror.test/debian", "http://mirror.test/security")


def test_security_stands_beside_the_archive_where_it_is_not_named(tmp_path: Path) -> None:
    apt = host(tmp_path, "sources.list", "deb http://mirror.test/debian/ bookworm main\n")
    assert mirrors(*apt) == ("http://mirror.test/debian/", "http://mirror.test/debian-security")


def test_another_system_has_no_mirror_of_debian(tmp_path: Path) -> None:
    assert mirrors(*host(tmp_path, "sources.list", ONE_LINE, system="ubuntu")) is None
