"""The charts have the values that they document, and no others."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from openstack_operator import __version__
from openstack_operator.cli.main import command_line
from openstack_operator.generate.chart.code import Code
from openstack_operator.generate.chart.document import Value, all_values
from openstack_operator.generate.chart.operator import template
from openstack_operator.generate.chart.values import CloudValues, OperatorValues, Values
from tools.checks.charts import differences

ROOT = Path(__file__).parent.parent.parent
CHARTS = ROOT / "deploy" / "charts"
OPERATOR = CHARTS / "openstack-operator"
MODELS: dict[str, type[Values]] = {"openstack-operator": OperatorValues, "openstack-cloud": CloudValues}
LIMIT = 1_000_000
"""Bytes of a file in this repository."""


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def leaves(model: type[Values]) -> list[Value]:
    return [value for value in all_values(model) if not value.is_group]


@pytest.mark.parametrize("name", MODELS)
def test_a_chart_has_the_version_of_the_operator(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__
    for path in (CHARTS / name).rglob("Chart.yaml"):
        chart = read(path)
        assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
        assert all(each["version"] == __version__ for each in chart.get("dependencies", ()))


@pytest.mark.parametrize("name", MODELS)
def test_values_are_the_defaults_of_the_model(name: str) -> None:
    assert MODELS[name].model_validate(read(CHARTS / name / "values.yaml")) == MODELS[name]()


@pytest.mark.parametrize("name", MODELS)
def test_each_value_has_a_comment_and_a_schema(name: str) -> None:
    lines = (CHARTS / name / "values.yaml").read_text(encoding="utf-8").splitlines()
    schema = json.loads((CHARTS / name / "values.schema.json").read_text(encoding="utf-8"))
    for value in all_values(MODELS[name]):
        entry = f"{'  ' * (len(value.path) - 1)}{value.path[-1]}:"
        # An entry of a map may have the name of a value.
        assert any(f"{before.strip()} ".startswith("# ") for before, line in pairwise(lines) if line.startswith(entry))
        node = schema
        for part in value.path:
            assert node["additionalProperties"] is False
            node = node["properties"][part]
            assert node["description"]
            node = schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node


def test_a_chart_refuses_a_value_that_it_does_not_have() -> None:
    with pytest.raises(ValidationError, match="replicas"):
        OperatorValues.model_validate({"replicas": 3})
    with pytest.raises(ValidationError, match="digest"):
        OperatorValues.model_validate({"image": {"digest": "latest"}})


def used(folder: Path) -> set[str]:
    """Paths of the values that the templates of a chart read."""
    texts = [path.read_text(encoding="utf-8") for path in (folder / "templates").iterdir()]
    return {path for text in texts for path in re.findall(r"\.Values\.([\w.]+)", text)}


@pytest.mark.parametrize("name", MODELS)
def test_templates_read_every_value_and_no_other_one(name: str) -> None:
    read_paths = used(CHARTS / name)
    if name == OPERATOR.name:
        read_paths |= {f"crds.{path}" for path in used(OPERATOR / "charts" / "crds")}
    known = {".".join(value.path) for value in leaves(MODELS[name])}
    assert read_paths == known


def names_of_options() -> set[str]:
    (commands,) = (action for action in command_line()._actions if action.choices)
    run = dict(commands.choices or {})["run"]
    return {name for action in run._actions for name in action.option_strings}


def test_the_operator_has_every_option_that_the_chart_sets() -> None:
    text = (OPERATOR / "templates" / "deployment.yaml").read_text(encoding="utf-8")
    options = set(re.findall(r"^ *- (--[\w-]+)", text, re.MULTILINE))
    assert "--metrics-certificate" in options
    assert options <= names_of_options()


def test_each_role_that_is_bound_has_rules() -> None:
    defined, included = set[str](), set[str]()
    for path in (OPERATOR / "templates").iterdir():
        text = path.read_text(encoding="utf-8")
        defined |= set(re.findall(r'define "([\w.-]+)"', text))
        included |= set(re.findall(r'include "([\w.-]+)"', text))
    optional = {f"openstack-operator.rules.{name}" for name in OperatorValues().optional_roles}
    assert included | optional == defined


def test_definitions_are_those_of_the_repository() -> None:
    folder = OPERATOR / "charts" / "crds" / "files"
    assert {path.name: path.resolve() for path in folder.iterdir()} == {
        "openstack": ROOT / "deploy" / "crds",
        "c5c3": ROOT / "deploy" / "crds-c5c3",
    }
    # The template adds an annotation after the name.
    for path in (file for link in folder.iterdir() for file in link.glob("*.yaml")):
        assert re.search(r"^metadata:\n  name: .*\n(  annotations:\n|spec:\n)", path.read_text("utf-8"), re.MULTILINE)


def test_no_file_of_a_chart_is_large() -> None:
    assert [path for path in CHARTS.rglob("*") if path.is_file() and path.stat().st_size > LIMIT] == []


def documented() -> Iterator[tuple[str, str]]:
    """Yield the names of values in commands of pages, with the name of the chart."""
    for page in [*(ROOT / "docs").glob("*/*.md"), *CHARTS.glob("*/README.md")]:
        for command in re.findall(r"helm (?:\\\n|[^\n`])*", page.read_text(encoding="utf-8")):
            chart = "openstack-cloud" if "openstack-cloud" in command else "openstack-operator"
            for name in re.findall(r"--set(?:-\w+)? '?((?:[\w-]|\.|\\\.)+)", command):
                yield chart, name.replace("\\.", "·")


def test_commands_of_pages_set_values_that_there_are() -> None:
    names = list(documented())
    assert ("openstack-operator", "watchNamespaces") in names
    for chart, name in names:
        known = {".".join(value.path): value for value in leaves(MODELS[chart])}
        parent = name.rpartition(".")[0]
        assert name in known or isinstance(known[parent].default, dict), f"{chart} has no value {name}"


def test_values_on_pages_are_those_of_a_chart() -> None:
    page = (ROOT / "docs" / "how-to" / "install-with-helm.md").read_text(encoding="utf-8")
    texts = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(texts) >= 3
    for text in texts:
        values = yaml.safe_load(text.replace("sha256:…", f"sha256:{'0' * 64}"))
        model = CloudValues if "spec" in values else OperatorValues
        assert model.model_validate(values, by_alias=True, by_name=False) != model()


def test_code_has_the_indentation_of_its_place() -> None:
    code = Code()
    pod = {"containers": [{"args": ["run", code.lines("{{- range .x }}\n- {{ . }}\n{{- end }}")]}]}
    spec = {"replicas": code.value(".Values.n"), "pod": {**pod, **code.block("affinity", ".Values.affinity")}}
    assert code.text([spec, {"all": code.whole(".Values.all")}]) == (
        "replicas: {{ .Values.n }}\n"
        "pod:\n"
        "  containers:\n"
        "  - args:\n"
        "    - run\n"
        "    {{- range .x }}\n"
        "    - {{ . }}\n"
        "    {{- end }}\n"
        "  {{- with .Values.affinity }}\n"
        "  affinity:\n"
        "    {{- toYaml . | nindent 4 }}\n"
        "  {{- end }}\n"
        "---\n"
        "all:\n"
        "  {{- toYaml .Values.all | nindent 2 }}\n"
    )


def test_braces_of_an_object_are_not_taken_for_code() -> None:
    obj = {"kind": "ConfigMap", "metadata": {"name": "rules"}, "data": {"x": "{{ $labels.pod }}"}}
    with pytest.raises(ValueError, match="ConfigMap rules"):
        template([obj])


RULE = {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "get"]}
ROLE = {"kind": "Role", "metadata": {"name": "x", "labels": {"a": "1"}}, "rules": [RULE]}


def test_differences_between_chart_and_manifests_are_found() -> None:
    nodes, pods = ({**RULE, "resources": [name], "verbs": ["get", "list"]} for name in ("nodes", "pods"))
    labels = {"a": "1", "helm.sh/chart": "c-1"}
    same = {**ROLE, "rules": [nodes, pods], "metadata": {"name": "x", "labels": labels}}
    assert differences([same], [ROLE]) == []
    assert differences([], [ROLE]) == ["Role /x is missing"]
    assert differences([ROLE], []) == ["Role /x is not in deploy/"]
    assert len(differences([{**ROLE, "rules": [nodes]}], [ROLE])) == 1
    assert differences([{**ROLE, "metadata": {"name": "x"}}], [ROLE]) == ["Role /x: lacks the labels {'a': '1'}"]
