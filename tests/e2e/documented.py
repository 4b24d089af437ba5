"""Commands of pages, run as they stand there by a shell that has kubectl and openstack."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Container, Iterator
from pathlib import Path

from tools.localcluster.kubernetes import ROOT, Kubernetes

LOGIN = ROOT / "docs" / "how-to" / "log-in.md"
FIRST_CLOUD = ROOT / "docs" / "tutorials" / "first-cloud.md"
FROM_GATEWAY = "kubectl exec -n openstack ds/ovn-gateway -c ovs-vswitchd -- curl"
"""Beginning of the commands that reach a server from the outside in a cluster of one node."""
_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>\S+) -->\n)?```(?P<language>[a-z]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


def blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """Yield mark, language and text of each block of a page."""
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield block["mark"] or "", block["language"], block["text"]


def script(page: Path, marks: Container[str], folder: str = "") -> str:
    """Return the commands with these marks, in order. Before them, manifests are written into the folder."""
    commands: list[str] = []
    for mark, language, text in blocks(page):
        if language == "sh" and mark in marks:
            commands.append(text)
        elif language == "yaml" and mark and folder:
            commands.append(f"cat > {folder}/{mark} <<'MANIFEST'\n{text}MANIFEST\n")
    return "\n".join(commands)


def run(cluster: Kubernetes, text: str, home: Path, cwd: Path = ROOT, timeout: float = 600) -> str:
    """Return what the commands print. Raises AssertionError with their messages if one fails."""
    tools = home / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "kubectl").write_text(f'#!/bin/sh\nexec {shlex.join(cluster.command())} "$@"\n')
    (tools / "kubectl").chmod(0o755)
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    # Root's caches have the image of the guest.
    kept = {name: value for name, value in os.environ.items() if name.startswith(("OPENSTACK_OPERATOR_", "XDG_"))}
    done = subprocess.run(
        ["sh", "-ec", text],
        cwd=cwd,
        env={"PATH": path, "HOME": os.environ.get("HOME", str(home)), **kept},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout
