"""The walk through Placement says what the code says, and its blocks run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.catalogue import ACTUATORS, SERVICES
from openstack_operator.kube.objects import IRREPLACEABLE
from openstack_operator.manifests import dump_all, load
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.render import Paper
from openstack_operator.runtime.registry import Service

ROOT = Path(__file__).parent.parent.parent
WALK = (ROOT / "docs" / "adding-a-service.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^<!-- (\S+) -->\n```python\n(.*?)^```", WALK, re.MULTILINE | re.DOTALL)
CONSOLE = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", WALK, re.MULTILINE | re.DOTALL)
PLACEMENT = "src/openstack_operator/services/placement"


def test_every_block_of_code_is_checked() -> None:
    assert len(BLOCKS) == WALK.count("```python")
    assert len(CONSOLE) == WALK.count("```console")


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
    paper = Paper(services, ACTUATORS, ReleaseFiles(ROOT / "releases"), drawn="drawn")
    case = ROOT / PLACEMENT / "cases" / "minimal.yaml"
    planned = next(paper.render(load(case), "openstack"))
    assert dump_all(planned.objects) == case.with_suffix(".golden.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", [code for path, code in BLOCKS if path == "run"])
def test_a_block_runs(code: str) -> None:
    exec(compile(code, "docs/adding-a-service.md", "exec"), {"__name__": "walk"})


@pytest.mark.parametrize(("command", "output"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_a_command_prints_what_is_shown(command: str, output: str) -> None:
    program = f"{sys.executable} -m openstack_operator.cli"
    done = subprocess.run(
        ["sh", "-c", command.replace("openstack-operator", program, 1)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == output.strip()


PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/*.md"), *ROOT.glob("docs/*/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    dead = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link and not leads(page, link)]
    assert dead == []


def leads(page: Path, link: str) -> bool:
    """Whether a link of a page names a file that is there, and a heading of it."""
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target))


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


def test_the_secrets_to_back_up_are_those_that_are_marked() -> None:
    goldens = (ROOT / "src/openstack_operator/services").glob("*/cases/*.golden.yaml")
    marked = {
        obj["metadata"]["name"]
        for path in goldens
        for obj in load(path)
        if obj["kind"] == "Secret" and IRREPLACEABLE in obj["metadata"].get("annotations", {})
    }
    assert "mariadb-credentials" in marked
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    [table] = re.findall(r"^\| Secret \| without it \|\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    listed = set(re.findall(r"`([a-z-]+)`", "\n".join(row.split("|")[1] for row in table.splitlines())))
    # A cloud's own PKI is called `internal`; those of cases have other names.
    assert {name for name in marked if not name.endswith("-authority")} == {
        name for name in listed if not name.endswith("-authority")
    }


def test_a_dead_anchor_is_noticed() -> None:
    assert leads(ROOT / "docs" / "conditions.md", "operations.md#encryption")
    assert not leads(ROOT / "docs" / "conditions.md", "operations.md#encryption-as-far-as-it-goes")


OF_THE_CLUSTER = {"node", "nodes", "namespace", "namespaces", "crd", "crds", "storageclass"}
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
    blocks = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    code = [*lines, *(" ".join(span.split()) for span in spans)]
    return [found.strip() for line in code for found in re.findall(r"kubectl [^|;#]*", line)]


def lacks_namespace(command: str) -> bool:
    """Whether a command leaves it to chance in which namespace it looks for something that is in one."""
    verb, *words = command.partition(" -- ")[0].split()[1:]
    if verb not in VERBS or NAMESPACES & set(words) or "-f" in words:
        return False
    named = [word for word in words if not word.startswith("-")][verb == "rollout" :]
    if not named or named[0] == "…":
        return verb == "logs"
    return re.split(r"[/.]", named[0])[0] not in OF_THE_CLUSTER


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_commands_name_their_namespace(page: Path) -> None:
    assert [each for each in commands(page.read_text(encoding="utf-8")) if lacks_namespace(each)] == []


def test_a_command_without_its_namespace_is_noticed() -> None:
    page = "`kubectl get pvc` and `kubectl get\nnodes -o wide`\n\n```\nkubectl delete pvc \\\n  data -n x    # a\n```\n"
    assert commands(page) == ["kubectl delete pvc    data -n x", "kubectl get pvc", "kubectl get nodes -o wide"]
    assert [each for each in commands(page) if lacks_namespace(each)] == ["kubectl get pvc"]
    assert lacks_namespace("kubectl exec ceph-mon-0 -- ceph health -n client.admin")
