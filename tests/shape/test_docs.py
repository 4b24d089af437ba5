"""What pages show is so: code is that of the files, blocks run, commands print their output, links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.cli.main import main
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube.objects import IRREPLACEABLE
from openstack_operator.plan.service import Service
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import dump_all, load

ROOT = Path(__file__).parent.parent.parent
WALK = (ROOT / "docs" / "adding-a-service.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^<!-- (\S+) -->\n```python\n(.*?)^```", WALK, re.MULTILINE | re.DOTALL)
PLACEMENT = "src/openstack_operator/services/placement"


def test_every_block_of_code_is_checked() -> None:
    assert len(BLOCKS) == WALK.count("```python")


@pytest.mark.parametrize(("path", "code"), [block for block in BLOCKS if block[0] != "run"])
def test_a_block_is_what_the_file_says(path: str, code: str) -> None:
    assert code in (ROOT / path).read_text(encoding="utf-8")


def walked(module: str) -> dict[str, Any]:
    """What the blocks of a module of Placement define, run one after the other."""
    source = "\n".join(code for path, code in BLOCKS if path == f"{PLACEMENT}/{module}.py")
    package = "openstack_operator.services.placement"
    names: dict[str, Any] = {"__name__": f"{package}.{module}", "__package__": package}
    exec(compile(f"from __future__ import annotations\n{source}", f"{module}.py", "exec"), names)
    return names


def test_the_walk_makes_a_whole_service() -> None:
    walked_service = Service(resource=walked("model")["PLACEMENT"], plan=walked("service")["plan"])
    services = [walked_service, *(service for service in SERVICES if service.resource.kind != "Placement")]
    paper = OfflineCluster(services, ACTUATORS, ReleaseFiles(ROOT / "releases"), password="drawn")
    case = ROOT / PLACEMENT / "cases" / "minimal.yaml"
    planned = next(paper.render(load(case), "openstack"))
    assert dump_all(planned.objects) == case.with_suffix(".golden.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", [code for path, code in BLOCKS if path == "run"])
def test_a_block_runs(code: str) -> None:
    exec(compile(code, "docs/adding-a-service.md", "exec"), {"__name__": "walk"})


PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("[a-z]*/*.md"),
        *ROOT.glob("docs/*/**/*.md"),
        *ROOT.glob("deploy/charts/*/README.md"),
    ]
)


def shown(page: str) -> list[tuple[str, str]]:
    """Commands on a page, each with the output below it."""
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def inputs(page: str) -> dict[str, str]:
    """Manifests on a page that its commands read, by name."""
    return dict(re.findall(r"^<!-- (\S+) -->\n```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL))


def matches(output: str, printed: str) -> bool:
    """Whether a command printed what a page shows. A line of nothing but … stands for lines that are left out, at least
    one; within a line … stands for itself, since the operator prints it.
    """
    lines = (r"(?:.*\n)+?" if line == "…" else f"{re.escape(line)}\n" for line in output.splitlines())
    return re.fullmatch("".join(lines), printed) is not None


CONSOLE = [
    (page, command, output)
    for page in PAGES
    if page.is_relative_to(ROOT / "docs")
    for command, output in shown(page.read_text(encoding="utf-8"))
]
FAILING = {
    "openstack-operator validate -f cloud.yaml",
    "openstack-operator explain keystone.fernet.rotationSchedul",
}
"""Commands on pages that show how something is refused."""


@pytest.mark.seconds
@pytest.mark.parametrize(("page", "command", "output"), CONSOLE, ids=[command for _, command, _ in CONSOLE])
def test_a_command_prints_what_is_shown(
    page: Path, command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, manifest in inputs(page.read_text(encoding="utf-8")).items():
        (tmp_path / name).write_text(manifest, encoding="utf-8")
    (tmp_path / "src").symlink_to(ROOT / "src")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)
    assert words[0] == "openstack-operator"
    # A shell is only started where one is asked for: each start of the program takes a second and a half of CPU.
    status, printed = _in_a_shell(command) if {"|", ">"} & {*words} else _here(words[1:])
    assert matches(output, printed), printed
    assert status == (1 if command in FAILING else 0)


def _in_a_shell(command: str) -> tuple[int, str]:
    """Status, and what a terminal shows: both streams, in the order in which they are written."""
    program = f"{sys.executable} -m openstack_operator.cli"
    done = subprocess.run(
        ["sh", "-c", command.replace("openstack-operator", program, 1)],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def _here(arguments: list[str]) -> tuple[int, str]:
    """The same of a command that is run in this process."""
    terminal = io.StringIO()
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        status = main(arguments)
    return status, terminal.getvalue()


def test_every_command_with_output_is_run() -> None:
    """Only a block that says it is of a console is one, and each command that fails is on some page."""
    pages = {page for page, _, _ in CONSOLE}
    assert {ROOT / "docs/adding-a-service.md", ROOT / "docs/reference/cli.md"} <= pages
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        prompts = sum(line.startswith("$ ") for block in fenced(text) for line in block.splitlines())
        assert prompts == (len(shown(text)) if page.is_relative_to(ROOT / "docs") else 0), page
    assert {command for _, command, _ in CONSOLE} >= FAILING


def test_an_abridged_output_matches_the_rest_exactly() -> None:
    assert matches("a\n…\nd\n", "a\nb\nc\nd\n")
    assert matches("shown as <…>\n", "shown as <…>\n")
    assert not matches("a\n…\nd\n", "a\nd\n")
    assert not matches("a\n…\nd\n", "a\nb\nc\n")
    assert not matches("shown as <…>\n", "shown as <x>\n")
    assert not matches("169 objects\n", "154 objects\n")
    assert not matches("a.b\n", "axb\n")


def test_links_lead_somewhere() -> None:
    dead: list[str] = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
        dead += [f"{page.relative_to(ROOT)}: {link}" for link in links if not leads(page, link)]
    assert dead == []


def fenced(text: str) -> list[str]:
    """Blocks of code on a page."""
    return re.findall(r"^```.*?^```", text, flags=re.MULTILINE | re.DOTALL)


def leads(page: Path, link: str) -> bool:
    """Whether a link of a page names a file that is there, and a heading of it."""
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target))


@cache
def anchors(page: Path) -> set[str]:
    """Names of the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.*)$", text, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        count = sum(re.sub(r"-\d+$", "", each) == name for each in found)
        found.append(f"{name}-{count}" if count else name)
    return set(found)


def test_pages_that_programs_and_manifests_name_exist() -> None:
    folders = ("src", "deploy", "tools", "images")
    suffixes = {".py", ".sh", ".yaml", ".txt", ".json"}
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    named = {
        (path.relative_to(ROOT).as_posix(), link)
        for path in [*files, ROOT / "Makefile", ROOT / "pyproject.toml"]
        for link in re.findall(r"docs/[\w/.-]+\.md(?:#[\w-]+)?", path.read_text(encoding="utf-8", errors="replace"))
    }
    assert len(named) > 20
    assert [(path, link) for path, link in named if not leads(ROOT / "README.md", link)] == []


def test_the_secrets_to_back_up_are_those_that_are_marked() -> None:
    goldens = (ROOT / "src/openstack_operator/services").glob("*/cases/*.golden.yaml")
    marked = {
        obj["metadata"]["name"]
        for path in goldens
        for obj in load(path)
        if obj["kind"] == "Secret" and IRREPLACEABLE in obj["metadata"].get("annotations", {})
    }
    assert "mariadb-credentials" in marked
    page = (ROOT / "docs" / "how-to" / "back-up-and-restore.md").read_text(encoding="utf-8")
    [table] = re.findall(r"^\| Secret \| without it \|\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    listed = set(re.findall(r"`([a-z-]+)`", "\n".join(row.split("|")[1] for row in table.splitlines())))
    # A cloud's own PKI is called `internal`; those of cases have other names.
    assert {name for name in marked if not name.endswith("-authority")} == {
        name for name in listed if not name.endswith("-authority")
    }


def test_a_dead_anchor_is_noticed() -> None:
    page = ROOT / "docs" / "reference" / "conditions.md"
    assert leads(page, "../how-to/encrypt-a-cloud.md#renewal")
    assert not leads(page, "../how-to/encrypt-a-cloud.md#renewal-as-far-as-it-goes")


OF_THE_CLUSTER = {"clusterrolebinding", "crd", "crds", "namespace", "namespaces", "node", "nodes", "storageclass"}
"""Types in the commands of the documentation that are in no namespace."""
VERBS = {
    "annotate",
    "cp",
    "delete",
    "describe",
    "edit",
    "exec",
    "get",
    "label",
    "logs",
    "patch",
    "rollout",
    "scale",
    "wait",
}
NAMESPACES = {"-n", "-A", "--namespace", "--all-namespaces"}


def commands(text: str) -> list[str]:
    """Commands of kubectl in code on a page, each on one line."""
    spans = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    lines = [line for block in fenced(text) for line in block.replace("\\\n", " ").splitlines()]
    code = [*lines, *(" ".join(span.split()) for span in spans)]
    return [found.strip() for line in code for found in re.findall(r"kubectl [^|;#]*", line)]


def lacks_namespace(command: str) -> bool:
    """Whether a command leaves it to chance in which namespace it looks for something that is in one."""
    verb, *words = command.partition(" -- ")[0].split()[1:]
    if verb not in VERBS or NAMESPACES & set(words) or {"-f", "-k"} & set(words):
        return False
    named = [word for word in words if not word.startswith("-")][verb == "rollout" :]
    if not named or named[0] == "…":
        return verb == "logs"
    return re.split(r"[/.]", named[0])[0] not in OF_THE_CLUSTER


def test_commands_name_their_namespace() -> None:
    pages = [
        page
        for page in PAGES
        if page == ROOT / "README.md" or ("docs" in page.parts and not {"decisions", "evidence"} & set(page.parts))
    ]
    assert len(pages) > 100
    lacking = [
        f"{page.relative_to(ROOT)}: {command}"
        for page in pages
        for command in commands(page.read_text(encoding="utf-8"))
        if lacks_namespace(command)
    ]
    assert lacking == []


def test_a_command_without_its_namespace_is_noticed() -> None:
    page = "`kubectl get pvc` and `kubectl get\nnodes -o wide`\n\n```\nkubectl delete pvc \\\n  data -n x    # a\n```\n"
    assert commands(page) == ["kubectl delete pvc    data -n x", "kubectl get pvc", "kubectl get nodes -o wide"]
    assert [each for each in commands(page) if lacks_namespace(each)] == ["kubectl get pvc"]
    assert lacks_namespace("kubectl exec ceph-mon-0 -- ceph health -n client.admin")
