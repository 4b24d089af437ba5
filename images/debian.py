"""Debian itself: a root file system from the host's own mirror, and apt's settings while images are built."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from images import cache
from images.catalog import FOLDER, SUITE, timestamp
from images.shell import run, say

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def mirrors(apt: Path = Path("/etc/apt"), os_release: Path = Path("/etc/os-release")) -> tuple[str, str] | None:
    """Return the (archive, security) mirrors this host uses, where it is Debian; None elsewhere."""
    system = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', os_release.read_text(encoding="utf-8"), re.MULTILINE))
    suite = system.get("VERSION_CODENAME", "")
    if system.get("ID") != "debian" or not suite:
        return None
    uris: dict[str, str] = {}
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        if path.is_file() and path.suffix in {".list", ".sources"}:
            for uri, suites in _sources(path):
                for name in suites:
                    uris.setdefault(name, uri)
    archive, security = uris.get(suite), uris.get(f"{suite}-security")
    return (archive, security or f"{archive.rstrip('/')}-security") if archive else None


def _sources(path: Path) -> list[tuple[str, list[str]]]:
    """Return URI and suites of each entry of a sources file, of the one-line kind or of deb822's."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".list":
        lines = re.findall(r"^deb\s+(?:\[[^]]*\]\s*)?(\S+)\s+(\S+)", text, re.MULTILINE)
        return [(uri, [suite]) for uri, suite in lines]
    entries: list[tuple[str, list[str]]] = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = {key.lower(): value for key, value in re.findall(r"^([\w-]+):\s*(.*)$", stanza, re.MULTILINE)}
        if "deb" in fields.get("types", "").split() and fields.get("uris"):
            entries.append((fields["uris"].split()[0], fields.get("suites", "").split()))
    return entries


def sources(keyring: str) -> str | None:
    """Return sources for the suite, with its updates and security updates; None if mmdebstrap knows better ones."""
    mirror_uris = mirrors()
    if mirror_uris is None:
        return None
    archive, security = mirror_uris
    entries = [(archive, SUITE), (archive, f"{SUITE}-updates"), (security, f"{SUITE}-security")]
    return "".join(f"deb [signed-by={keyring}] {uri} {suite} main\n" for uri, suite in entries)


def bootstrap(root_tar: Path) -> None:
    """Write a minimal root file system of the suite to `root_tar`, with every package's signature verified."""
    say(f"debian: bootstrapping {SUITE} with mmdebstrap")
    work = cache.directory("apt")
    listed = work / "bootstrap.list"
    text = sources(str(KEYRING))
    if text is not None:
        listed.write_text(text, encoding="utf-8")
    options = work / "bootstrap.conf"
    options.write_text(host_settings(None), encoding="utf-8")
    # How this host reaches its mirror is no part of the image.
    forget = 'rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/* "$1"/etc/apt/apt.conf.d/99mmdebstrap'
    keep = f'cp "$1"/etc/apt/sources.list {work / "default.list"} 2>/dev/null || true'
    command = ["mmdebstrap", "--variant=minbase", f"--dpkgopt={FOLDER / 'base' / 'dpkg.cfg'}", f"--aptopt={options}"]
    command += [f"--customize-hook={keep}", f"--customize-hook={forget}", SUITE, str(root_tar)]
    run(
        [*command, str(listed)] if text is not None else command,
        log=cache.directory("logs") / "debian.log",
        env={"SOURCE_DATE_EPOCH": str(timestamp())},
    )


def host_settings(copies: Path | None) -> str:
    """Return the settings by which this host's apt reaches its mirrors (proxy, certificates, timeouts), as apt.conf.

    Files the settings name are copied to `copies`, which the build sees as /etc/apt/host.
    """
    lines: list[str] = []
    for line in run(["apt-config", "dump", "--no-empty", "Acquire"]).splitlines():
        match = re.match(r'^(Acquire::[^ ]+) "(.*)";$', line)
        if match is None or match[1].startswith(("Acquire::cdrom", "Acquire::Changelogs")):
            continue
        key, value = match.groups()
        if copies is not None and value.startswith("/") and Path(value).is_file():
            shutil.copy(value, copies)
            value = f"/etc/apt/host/{Path(value).name}"
        lines.append(f'{key} "{value}";')
    authorities = Path(os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt")
    if copies is not None and authorities.is_file() and not any("CaInfo" in line for line in lines):
        # The image has no certificates of its own, and a mirror may be reached over TLS.
        shutil.copy(authorities, copies / "ca-certificates.crt")
        lines.append('Acquire::https::CaInfo "/etc/apt/host/ca-certificates.crt";')
    return "".join(f"{line}\n" for line in lines)


def build_settings() -> Path:
    """Return a directory to mount at /etc/apt while an image is built: the host's mirror and settings."""
    folder = cache.directory("apt", "etc")
    for name in ("apt.conf.d", "preferences.d", "trusted.gpg.d", "auth.conf.d", "keyrings", "sources.list.d", "host"):
        (folder / name).mkdir(exist_ok=True)
    shutil.copy(KEYRING, folder / "keyrings")
    for path in Path("/etc/apt/auth.conf.d").glob("*.conf"):
        shutil.copy(path, folder / "auth.conf.d")
    (folder / "apt.conf.d" / "50host").write_text(host_settings(folder / "host"), encoding="utf-8")
    text = sources(f"/etc/apt/keyrings/{KEYRING.name}")
    if text is None:
        text = (folder.parent / "default.list").read_text(encoding="utf-8")
    (folder / "sources.list").write_text(text, encoding="utf-8")
    return folder
