"""Commands on pages are ones that programs take, about kinds, fields, workloads and files that exist."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.metadata
import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from openstack_operator.api import crd
from openstack_operator.cli.command_line import command_line
from openstack_operator.cli.main import main
from openstack_operator.generate.chart.values import CloudValues
from openstack_operator.registry import EXTERNAL_KINDS, RESOURCES
from tests.shell_words import commands

ROOT = Path(__file__).parent.parent.parent
HISTORY = {"decisions", "evidence"}
"""Folders whose pages say what was so at a time."""
PAGES = [
    *(page for page in sorted(ROOT.glob("docs/**/*.md")) if not HISTORY & set(page.parts)),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(ROOT.glob("deploy/charts/*/README.md")),
]
Command = tuple[str, ...]

OTHERS = {
    "[ base64 cat chmod curl cut dig echo export find grep head mkdir openssl printf rm sed sleep tail umask": (
        "programs and builtins of a shell, which tests/e2e runs with the pages that it walks"
    ),
    "docker pip skopeo vault": "programs of others, which not every machine has",
}
"""Programs whose arguments are not checked, with the reason."""
KNOWN = {name for names in OTHERS for name in names.split()}
PLUGINS = {
    ("loadbalancer", "zone", "recordset", "stack", "secret", "orchestration"): (
        "Octavia, Designate, Heat and Barbican bring them; images/ installs them in the pod keystoneclient"
    )
}
"""First words of commands of `openstack` that its plug-ins have, with the reason why they are not checked."""


def code(page: Path) -> Iterator[str]:
    """Blocks of a page that may be of a shell, and its code in lines that begins with a program of ours."""
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^( *)```(\w*)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        lines = [line.removeprefix(block[1]) for line in block[3].splitlines()]
        if block[2] in ("", "sh"):
            yield "\n".join(lines)
        elif block[2] == "console":
            yield "\n".join(line.removeprefix("$ ") for line in lines if line.startswith("$ "))
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`([^`]+)`", prose):
        if re.match(r"(\.venv/bin/)?(openstack-operator|kubectl|helm|make|python -m) \w", span):
            yield " ".join(span.split()).replace("\\|", "|")


@cache
def documented() -> tuple[tuple[str, Command], ...]:
    """Each command with its page; not those with an ellipsis, which stands for something."""
    found: dict[tuple[str, Command], None] = {}
    for page in PAGES:
        for text in code(page):
            with contextlib.suppress(ValueError, IndexError):  # output of a program, or a listing
                for program, *words in commands(text):
                    if program == "kubectl" and words[:1] == ["--context"]:
                        words = words[2:]  # noqa: PLW2901
                    if not any("…" in word or word == "..." for word in words):
                        name = str(page.relative_to(ROOT))
                        found[name, (program.removeprefix(".venv/bin/"), *words)] = None
    return tuple(found)


def each(*programs: str) -> list[tuple[str, Command]]:
    """Commands of these programs with their pages; not those that are only named."""
    return [(page, words) for page, words in documented() if words[0] in programs and words[1:]]


def wrong(parser: argparse.ArgumentParser, arguments: list[str]) -> str:
    """What a parser says against arguments."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(errors):
            parser.parse_args(arguments)
    except SystemExit as end:
        return errors.getvalue().strip().splitlines()[-1] if end.code else ""
    return ""


def test_every_program_is_known() -> None:
    """In blocks that say that they are of a shell."""
    checks = 0
    checked = {"openstack-operator", "kubectl", "kubectl-openstack", "helm", "make", "python", "openstack"}
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            checks += 1
            assert {words[0].removeprefix(".venv/bin/") for words in commands(block)} - checked - KNOWN == set(), page
    assert checks


def test_the_operators_commands_are_taken() -> None:
    parser = command_line({})
    found = each("openstack-operator", "kubectl-openstack")
    found += [(page, words[1:]) for page, words in each("kubectl") if words[1] == "openstack" and words[2:]]
    assert len(found) > 40
    # A command that is only named has no arguments.
    faults = [(page, words, wrong(parser, [*words[1:]])) for page, words in found if len(words) > 2]
    assert [fault for fault in faults if fault[2]] == []
    assert {words[1] for _, words in found} <= set(command_names(parser))


def command_names(parser: argparse.ArgumentParser) -> Mapping[str, Any]:
    [choices] = [action.choices for action in parser._actions if action.dest == "command"]  # pyright: ignore[reportPrivateUsage]
    return dict.fromkeys(choices or ())


def test_targets_and_variables_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.MULTILINE))
    found = each("make")
    assert len(found) > 20
    for page, words in found:
        for word in words[1:]:
            name, is_set, _ = word.partition("=")
            assert re.search(rf"\b{name}\b", makefile) if is_set else name in targets, (page, words)


@cache
def constants(module: str) -> frozenset[Any]:
    """Values that the code of a module, or of the modules of a package, writes down; none where there is no such."""
    path = module.replace(".", "/")
    sources = [each for each in (ROOT / f"{path}.py", *ROOT.glob(f"{path}/*.py")) if each.exists()]
    text = "".join(each.read_text(encoding="utf-8") for each in sources)
    return frozenset(node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))


def test_modules_and_their_commands_exist() -> None:
    found = [(page, words) for page, words in each("python") if words[1:2] == ("-m",)]
    assert len(found) > 10
    for page, (_, _, module, *arguments) in found:
        known = constants(module)
        assert known, (page, module)
        used = {word.partition("=")[0] for word in arguments if word.startswith("--")}
        used |= {word for word in arguments[:1] if word.islower() and "." not in word and "/" not in word}
        assert used <= known, (page, module, arguments)


VERBS = {
    *("annotate", "apply", "cp", "create", "delete", "describe", "drain", "edit", "exec", "explain", "get", "label"),
    *(
        "krew",  # a plug-in that installs plug-ins
        "logs",
        "patch",
        "port-forward",
        "rollout",
        "run",
        "scale",
        "uncordon",
        "cordon",
        "version",
        "wait",
        "config",
        "debug",
    ),
    *(
        "top",
        "taint",
        "auth",
        "openstack",
        "api-resources",
        "cluster-info",
        "kustomize",
        "replace",
        "proxy",
        "attach",
        "events",
    ),
}
BUILT_IN = """
clusterrole clusterrolebinding configmap cm crd daemonset ds deployment deploy endpoints endpointslice event ingress job
lease namespace ns networkpolicy netpol node pod po poddisruptionbudget pdb pvc persistentvolumeclaim pv
persistentvolume role rolebinding secret service svc serviceaccount sa statefulset sts storageclass sc
"""
FOREIGN = ("certificaterequests", ".openstack.k-orc.cloud", ".operators.coreos.com", ".toolkit.fluxcd.io")
"""Kinds of other operators that no plan has, but that pages tell a reader to look at."""


@cache
def kinds() -> Mapping[str, Any]:
    """Names by which kubectl knows kinds, each with the kind where it is ours."""
    names: dict[str, Any] = {}
    for name in BUILT_IN.split():
        names |= dict.fromkeys((name, f"{name}s", f"{name}es", f"{name[:-1]}ies"))
    for kind in EXTERNAL_KINDS:
        names |= dict.fromkeys((kind.kind.lower(), kind.plural, f"{kind.plural}.{kind.group}"))
    for resource in reversed(RESOURCES):
        own = (resource.plural, resource.kind.lower(), resource.kind, resource.crd_name, *resource.unique_names)
        names |= dict.fromkeys(own, resource)
    return {**names, "openstack": None}


def is_placeholder(word: str) -> bool:
    return word.isupper() or word.startswith("$")


def is_kind(word: str) -> bool:
    return not word or word in kinds() or word.endswith(FOREIGN) or is_placeholder(word)


def looked_at(words: Command) -> tuple[str, list[str]]:
    """Kind and names of a command of kubectl; an empty kind if it has none."""
    positional, verb = list[str](), words[1]
    takes_value = {"-n", "-o", "-l", "-L", "-c", "-p", "-f", "-k", "--type", "--context", "--namespace", "--sort-by"}
    rest = iter(words[3 if verb in ("rollout", "create", "auth", "config") else 2 :])
    for word in rest:
        if word == "--":
            break
        if word in takes_value:
            next(rest, None)
        elif not word.startswith("-"):
            positional.append(word)
    kind, slash, name = (positional[0] if positional else "").partition("/")
    names = [name, *(each.partition("/")[2] or each for each in positional[1:])] if slash else positional[1:]
    return kind, [each for each in names if each]


def test_kubectl_is_asked_for_kinds_that_exist() -> None:
    found, faults = each("kubectl"), list[tuple[str, Command, str]]()
    assert len(found) > 200
    for page, words in found:
        faults += [] if words[1] in VERBS else [(page, words, words[1])]
        kind, _ = looked_at(words)
        if words[1] in ("exec", "logs", "port-forward", "cp") and not any("/" in word for word in words[2:5]):
            continue  # a pod by its name
        if words[1] in ("get", "describe", "delete", "edit", "patch", "label", "annotate", "scale", "wait", "explain"):
            for each_kind in kind.split(".spec")[0].split(".status")[0].split(","):
                faults += [] if is_kind(each_kind) else [(page, words, each_kind)]
    assert faults == []


def test_patches_and_paths_name_fields_that_exist() -> None:
    count = 0
    for page, words in each("kubectl"):
        resource = kinds().get(looked_at(words)[0])
        if resource is None:
            continue
        schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for option, value in itertools.pairwise(words):
            if option == "-p" and value.startswith("{"):
                assert unknown(json.loads(value), schema) == [], (page, words)
                count += 1
        for path in re.findall(r"\{\.((?:spec|status)\.[\w.]+)", " ".join(words)):
            assert has(schema, path.split(".")), (page, words, path)
            count += 1
    assert count > 10


REFUSED = {".spec.keystone.fernet.rotationSchedul"}
"""Fields in manifests by which a page shows what `validate` says."""


def manifests(page: Path) -> Iterator[tuple[str, str, Any]]:
    """Resources on a page, as apiVersion, kind and content; also parts that say that they are of a control plane."""
    for block in re.finditer(r"^( *)```yaml\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        text = "\n".join(line.removeprefix(block[1]) for line in block[2].splitlines())
        with contextlib.suppress(yaml.YAMLError):  # an ellipsis stands for something
            for document in yaml.load_all(text, yaml.CSafeLoader):
                if isinstance(document, dict) and "kind" in document:
                    yield document.get("apiVersion", ""), document["kind"], document
                elif text.startswith("# in the spec of the OpenStackControlPlane"):
                    yield "openstack.k8s.io/v1alpha1", "OpenStackControlPlane", {"spec": document}


def test_manifests_have_fields_that_exist() -> None:
    by_type = {(resource.api_version, resource.kind): resource for resource in RESOURCES}
    count = 0
    for page in PAGES:
        for api_version, kind, manifest in manifests(page):
            if resource := by_type.get((api_version, kind)):
                schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
                assert set(unknown(manifest, schema)) <= REFUSED, page
                count += 1
    assert count > 10


def unknown(value: Any, schema: Mapping[str, Any], path: str = "") -> list[str]:
    """Paths in a value that a definition does not have."""
    if isinstance(value, list):
        return [fault for inner in value for fault in unknown(inner, schema.get("items", {}), path)]
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return []
    faults: list[str] = []
    for name, inner in value.items():
        known = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
        if not path and name == "metadata":
            continue
        faults += [f"{path}.{name}"] if not known else [] if known is True else unknown(inner, known, f"{path}.{name}")
    return faults


def has(schema: Mapping[str, Any], path: list[str]) -> bool:
    for name in path:
        schema = schema.get("properties", {}).get(name) or schema.get("additionalProperties") or {}
        if not schema:
            return False
    return True


WORKLOADS = {
    **dict.fromkeys(("deploy", "deployment", "deployments"), "Deployment"),
    **dict.fromkeys(("sts", "statefulset", "statefulsets"), "StatefulSet"),
    **dict.fromkeys(("ds", "daemonset", "daemonsets"), "DaemonSet"),
}


@cache
def workloads() -> set[tuple[str, str]]:
    """Kind and name of every workload of the cases and of the operator's own manifests."""
    paths = [*ROOT.glob("src/openstack_operator/services/*/cases/*.golden.yaml"), *ROOT.glob("deploy/*.yaml")]
    pairs: set[tuple[str, str]] = set()
    for path in paths:
        kind = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"(kind|  name): ([\w.-]+)$", line):
                if match[1] == "kind":
                    kind = match[2]
                elif kind in WORKLOADS.values():
                    pairs.add((kind, match[2]))
                    kind = ""
    return pairs


def test_workloads_on_pages_are_those_of_plans() -> None:
    count = 0
    for page, words in each("kubectl"):
        kind, names = looked_at(words)
        is_ours = {"openstack", "openstack-operator"} & {*words}
        for name in names if kind in WORKLOADS and is_ours else ():
            if not is_placeholder(name) and not name.isdecimal() and words[1] != "wait":
                assert (WORKLOADS[kind], name) in workloads(), (page, words)
                count += 1
    assert count > 20


def test_files_of_the_repository_exist() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"build", ".venv"}
    count = 0
    for page, words in each("kubectl", "openstack-operator", "helm", "python", "make"):
        for before, word in itertools.pairwise(words):
            path = word.partition("=")[2] or word
            if words[0] == "kubectl" and before not in ("-f", "-k"):
                continue  # deploy/nova-api is a workload
            if path.partition("/")[0] in folders and "/" in path and "://" not in path:
                assert (ROOT / path).exists(), (page, words)
                count += 1
    assert count > 20


@cache
def openstack_commands() -> set[str]:
    """Commands of the client, as its entry points name them."""
    groups = ("openstack.", "openstack_")
    points = (point for each in importlib.metadata.distributions() for point in each.entry_points)
    return {point.name.replace("_", " ") for point in points if point.group.startswith(groups)}


def test_the_client_has_the_commands() -> None:
    plugins = {name for names in PLUGINS for name in names}
    count = 0
    for page, words in each("openstack"):
        if words[1] in plugins or words[1].startswith("-"):
            continue
        names = [" ".join(words[1 : length + 1]) for length in range(1, len(words))]
        assert {*names} & openstack_commands(), (page, words)
        count += 1
    assert count > 20


def test_helm_has_the_commands() -> None:
    known = {"install", "upgrade", "uninstall", "package", "registry", "push", "template", "show", "list"}
    found = each("helm")
    assert len(found) > 10
    for page, words in found:
        assert words[1] in known, (page, words)


def test_three_commands_lead_to_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """README's charts are those of `make release`, and its cloud is one that the operator takes."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    [script] = re.findall(r"^<!-- three-commands -->\n```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(script.splitlines()) == 3
    [registry] = re.findall(r"^ *make release REGISTRY=(\S+)$", page, re.MULTILINE)
    (_, _, *operator), (_, _, *cloud), wait, proof = commands(script)
    for arguments, chart in ((operator, "openstack-operator"), (cloud, "openstack-cloud")):
        assert (ROOT / "deploy/charts" / chart / "Chart.yaml").exists()
        # `make release` pushes charts there, for the registry that the page names.
        assert arguments[1] == f"oci://{registry}/charts/{chart}"
        assert arguments[2] == "-n"
    # The operator's own namespace is not that of the cloud, and the last two commands look at that of the cloud.
    assert (operator[3], cloud[3], wait[3]) == ("openstack-operator", "openstack", "openstack")
    assert cloud[-2:] == ["-f", "cloud.yaml"]
    assert proof == ["make", "proof"]
    [values] = re.findall(r"^<!-- cloud.yaml -->\n```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    spec = CloudValues.model_validate(yaml.load(values, yaml.CSafeLoader)).spec
    manifest = tmp_path / "cloud.yaml"
    kind = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "OpenStackControlPlane", "metadata": {"name": cloud[0]}}
    manifest.write_text(yaml.safe_dump({**kind, "spec": spec}), encoding="utf-8")
    assert main(["validate", "--strict", "-f", str(manifest)]) == 0, capsys.readouterr()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "A=$(kubectl get x -o jsonpath='{.a}') make cloud # c",
            [["kubectl", "get", "x", "-o", "jsonpath={.a}"], ["make", "cloud"]],
        ),
        ('until a "$(b c)" > d 2>&1; do sleep 2; done', [["b", "c"], ["a", "$()"], ["sleep", "2"]]),
        ("cat > f <<END\nx\nEND\nb \\\n  c | d", [["cat"], ["b", "c"], ["d"]]),
    ],
)
def test_shell_commands_are_split_into_words(text: str, found: list[list[str]]) -> None:
    assert commands(text) == found


def test_a_field_that_is_not_there_is_noticed() -> None:
    schema = crd(kinds()["oscp"] or RESOURCES[0])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert unknown({"spec": {"mariadb": {"storageSizze": "2Gi"}}}, schema) == [".spec.mariadb.storageSizze"]
    assert has(schema, ["status", "operatorVersion"])
    assert not has(schema, ["status", "operatorVersions"])
    assert "unrecognized arguments" in wrong(command_line({}), ["logs", "nova", "--after", "1h"])
    assert "invalid choice" in wrong(command_line({}), ["lags", "nova"])
