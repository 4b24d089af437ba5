"""Dashboards of Grafana: files that are current, and queries of metrics that a real cloud had."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.dashboards.files import FOLDER, built, queries, stale, write
from tools.dashboards.live import CLUSTERS, METRICS, defaults, substituted
from tools.dashboards.panels import TAG

BOARDS = built()
VARIABLES = defaults("openstack", "node1", CLUSTERS)


def test_files_are_current() -> None:
    assert stale(FOLDER) == [], "run `make generate` and commit what it writes"


def test_writing_mends_what_is_stale_and_removes_what_nothing_makes(tmp_path: Path) -> None:
    assert len(write(tmp_path)) == len(BOARDS) + 1
    (tmp_path / "openstack-overview.json").write_text("{}", encoding="utf-8")
    (tmp_path / "openstack-gone.json").write_text("{}", encoding="utf-8")
    assert [path.name for path in write(tmp_path)] == ["openstack-gone.json", "openstack-overview.json"]
    assert stale(tmp_path) == []
    assert not (tmp_path / "openstack-gone.json").exists()


def test_the_kustomization_makes_a_config_map_of_each_that_grafana_finds() -> None:
    made: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
    assert made["generatorOptions"] == {"disableNameSuffixHash": True, "labels": {"grafana_dashboard": "1"}}
    assert [each["files"] for each in made["configMapGenerator"]] == [[f"{name}.json"] for name in BOARDS]


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_linked_to_the_others_and_its_panels_differ(name: str) -> None:
    board = BOARDS[name]
    assert board["tags"] == [TAG]
    (link,) = board["links"]
    assert (link["type"], link["tags"], link["includeVars"]) == ("dashboards", [TAG], True)
    sections = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert len(sections) == len(set(sections))
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in board["panels"] if panel["type"] != "row")


def test_queries_use_variables_of_their_dashboard_alone() -> None:
    checks = 0
    for query in queries(BOARDS):
        names = {each["name"] for each in BOARDS[query.dashboard]["templating"]["list"]}
        checks += 1
        assert set(re.findall(r"\$(\w+)", query.expression)) <= names | {"__rate_interval"}, query
        assert names - {"datasource"} == VARIABLES[query.dashboard].keys()
        assert "$" not in substituted(query.expression, {"__rate_interval": "1m", **VARIABLES[query.dashboard]})
    assert checks


def test_queries_are_about_metrics_that_a_real_cloud_had() -> None:
    checks = 0
    recorded = set(METRICS.read_text(encoding="utf-8").split())
    for query in queries(BOARDS):
        checks += 1
        assert set(re.findall(r"([a-zA-Z_]\w*)\{", query.expression)) <= recorded, query
    assert checks


def test_legends_are_labels_by_which_the_query_groups() -> None:
    checks = 0
    for query in queries(BOARDS):
        groups = {name for each in re.findall(r"by \(([^)]*)\)", query.expression) for name in each.split(", ")}
        checks += 1
        assert set(re.findall(r"{{(\w+)}}", query.legend)) <= groups, query
    assert checks
