"""Commands of the tutorial are run by a suite each, and the client takes them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.e2e.documented import FIRST_CLOUD, FROM_GATEWAY, ROOT, blocks, script

RUN_BY = {
    "cloud": "tests/e2e/test_cloud.py",
    "ceph": "tests/e2e/on_ceph/test_day_one.py",
    "k-orc": "tests/e2e/on_providers/test_4_whole.py",
}
"""Suites by the mark of the blocks that they run."""
NOT_RUN = {
    "shell": "a suite has a kubectl and a client already",
    "own-cloud": "the proof of `make cloud` has made this network",
    "install-k-orc": "the suite installs it with the other operators",
}
"""Blocks that no suite runs, each with the reason."""
SHELL = "\n".join(text for _, language, text in blocks(FIRST_CLOUD) if language == "sh").replace("\\\n", " ")
_PARSE = """
import json, sys
from types import SimpleNamespace
from osc_lib.command.commandmanager import CommandManager
manager = CommandManager("openstack.cli")
for group in ("common", "identity.v3", "compute.v2", "image.v2", "network.v2", "volume.v3"):
    manager.add_command_group(f"openstack.{group}")
clients = SimpleNamespace(is_network_endpoint_enabled=lambda: True, is_volume_endpoint_enabled=lambda *_: True)
app = SimpleNamespace(client_manager=clients, options=SimpleNamespace())
for words in json.loads(sys.argv[1]):
    command, name, rest = manager.find_command(words)
    command(app, None).get_parser(name).parse_args(rest)
"""
COMMANDS = [each.strip() for each in re.findall(r"(?<![\w./-])openstack (?!-o |--from|ds/)([^;)|\n]+)", SHELL)]


def test_every_block_of_the_tutorial_has_a_suite_or_a_reason() -> None:
    marks = {mark for mark, language, _ in blocks(FIRST_CLOUD) if language == "sh"}
    assert marks == {*RUN_BY, *NOT_RUN}
    for mark, module in RUN_BY.items():
        assert f'"{mark}"' in (ROOT / module).read_text(encoding="utf-8")


@pytest.mark.parametrize("mark", [*RUN_BY, *NOT_RUN])
def test_a_shell_reads_the_commands(mark: str) -> None:
    subprocess.run(["sh", "-n", "-c", script(FIRST_CLOUD, {mark}, "folder")], check=True)


def test_the_client_takes_each_command() -> None:
    words = [shlex.split(each) for each in COMMANDS]
    words = [each[2:] if each[0] == "--os-cloud" else each for each in words]
    # A process of its own: importing the client warns, which is an error here.
    command = [sys.executable, "-W", "ignore", "-c", _PARSE, json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_client_is_asked_for_all_commands() -> None:
    assert len(COMMANDS) > 35
    assert SHELL.count(FROM_GATEWAY) == 4


def test_resources_of_the_tutorial_refer_to_each_other() -> None:
    [text] = [text for mark, language, text in blocks(FIRST_CLOUD) if language == "yaml" and mark == "server.yaml"]
    found = list(yaml.load_all(text, yaml.CSafeLoader))
    names = {(each["kind"], each["metadata"]["name"]) for each in found}
    assert len(names) == len(found)
    kinds = {kind.lower(): kind for kind, _ in names}
    for each in found:
        for field, name in references(each["spec"]):
            kind = {"floatingnetwork": "Network"}.get(field) or kinds[field]
            assert (kind, name) in names, f"{each['kind']}: {field} {name}"


def references(value: Any) -> list[tuple[str, str]]:
    """Names of other resources, each with the kind that its field says."""
    if isinstance(value, list):
        return [found for each in value for found in references(each)]
    if not isinstance(value, dict):
        return []
    names: list[tuple[str, str]] = []
    for field, inner in value.items():
        if isinstance(inner, str) and field.endswith("Ref"):
            names.append((field.removesuffix("Ref").lower(), inner))
        elif field.endswith("Refs"):
            names += [(field.removesuffix("Refs").lower(), each) for each in inner]
        else:
            names += references(inner)
    return names
