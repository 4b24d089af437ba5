"""The commands on pages that make certificates run as they stand, and the operator takes what they make."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from openstack_operator import pki

HOW_TO = Path(__file__).parent.parent.parent / "docs" / "how-to"
KUBECTL = """#!/bin/sh
# Prints the bundle when it is asked for a Secret, and keeps the words of all else.
case "$*" in "get secret internal-bundle "*) cat bundle.base64 ;; *) echo "$*" >> kubectl.log ;; esac
"""


def script(page: str) -> str:
    """Return the block of a page that makes a certificate."""
    text = (HOW_TO / page).read_text(encoding="utf-8")
    [block] = re.findall(r"^<!-- certificate -->\n```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return block


def run(folder: Path, page: str) -> None:
    path = f"{folder}:{os.environ['PATH']}"
    subprocess.run(["sh", "-ec", script(page)], cwd=folder, env={"PATH": path}, check=True, stderr=subprocess.DEVNULL)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    (tmp_path / "kubectl").write_text(KUBECTL, encoding="utf-8")
    (tmp_path / "kubectl").chmod(0o755)
    run(tmp_path, "expose-apis.md")
    return tmp_path


def pair(folder: Path, name: str) -> pki.Pair:
    return pki.Pair((folder / f"{name}.key").read_text(), (folder / f"{name}.crt").read_text())


@pytest.mark.seconds
def test_an_ingress_gets_a_certificate_for_each_name(folder: Path) -> None:
    request = pki.Request(common="", names=frozenset({"*.cloud.example.org"}))
    authority = (folder / "authority.crt").read_text()
    assert pki.fault(pair(folder, "cloud"), request, datetime.now(UTC), authorities=[authority]) == ""
    assert "create secret tls cloud-names" in (folder / "kubectl.log").read_text()
    assert (folder / "authority.key").stat().st_mode & 0o077 == 0


@pytest.mark.seconds
def test_keystone_gets_one_that_the_operator_takes(folder: Path) -> None:
    internal, own = pki.authority("internal", "internal", datetime.now(UTC)), (folder / "authority.crt").read_text()
    both = pki.bundle([internal.cert, own], datetime.now(UTC))
    (folder / "bundle.base64").write_bytes(base64.b64encode(both.encode()))
    run(folder, "encrypt-a-cloud.md")
    names = frozenset({"keystone-api.openstack.svc.cluster.local", "cloud.example.org"})
    trusted, now = (folder / "ca.crt").read_text(), datetime.now(UTC)
    assert pki.fault(pair(folder, "keystone"), pki.Request(common="", names=names), now, authorities=[trusted]) == ""
    assert trusted == both, "clients of Keystone check the other APIs with it, too"
