"""Panels and variables that all dashboards share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from grafana_foundation_sdk.builders import common, stat, table, timeseries
from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    QueryVariable,
    Row,
    ThresholdsConfig,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    LegendDisplayMode,
    LegendPlacement,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

Panel: TypeAlias = "timeseries.Panel | stat.Panel | table.Panel"
TAG = "openstack"
"""Tag of all dashboards, by which they link to each other."""
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH, _HEIGHT = 24, 8
"""Columns of a dashboard, and lines of a panel."""


@dataclass(frozen=True)
class Query:
    """A query of PromQL, and what a panel calls its series: `{{pod}}` is a label."""

    expression: str
    legend: str = ""


def graph(title: str, *queries: Query, unit: str = "short", text: str = "", columns: int = 2) -> Panel:
    """Return a panel of lines over time, of which so many are in a row."""
    panel = (
        timeseries.Panel()
        .unit(unit)
        .fill_opacity(8)
        .min(0)
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    )
    for query in queries:
        panel.with_target(Dataquery().expr(query.expression).legend_format(query.legend).datasource(_SOURCE))
    panel.title(title).description(text).datasource(_SOURCE).span(_WIDTH // columns).height(_HEIGHT)
    return panel


def number(title: str, expression: str, *, unit: str = "short", bad: str = "", text: str = "") -> Panel:
    """Return a panel of one number now, of which six are in a row. It is red if it is above or below a bound: `>0`."""
    steps = [Threshold(value=None, color="green")]
    if bad:
        bound, is_above = float(bad[1:]), bad[0] == ">"
        # A step begins with its value, so a whole number is above the bound from the next one on.
        first = bound + (1 if bound.is_integer() else 0) if is_above else bound
        steps = [Threshold(value=None, color="green" if is_above else "red")]
        steps.append(Threshold(value=first, color="red" if is_above else "green"))
    query = Dataquery().expr(expression).instant().datasource(_SOURCE)
    return (
        stat.Panel()
        .title(title)
        .description(text)
        .unit(unit)
        .datasource(_SOURCE)
        .color_mode(BigValueColorMode.VALUE)
        .thresholds(ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        .no_value("none")
        .with_target(query)
        .span(_WIDTH // 6)
        .height(_HEIGHT // 2)
    )


def rows(title: str, expression: str, labels: Sequence[str], *, text: str = "", columns: int = 2) -> Panel:
    """Return a table with a row for each series of the query now, and a column for each of these labels."""
    query = Dataquery().expr(expression).instant().format(PromQueryFormat.TABLE).datasource(_SOURCE)
    organize: dict[str, Any] = {
        "excludeByName": {"Time": True, "Value": True},
        "includeByName": dict.fromkeys(labels, True),
        "indexByName": {label: index for index, label in enumerate(labels)},
    }
    return (
        table.Panel()
        .title(title)
        .description(text)
        .datasource(_SOURCE)
        .with_target(query)
        .with_transformation(DataTransformerConfig(id_val="organize", options=organize))
        .span(_WIDTH // columns)
        .height(_HEIGHT)
    )


def variable(name: str, label: str, query: str) -> QueryVariable:
    """Return a variable whose values a query of Grafana gives: `label_values(METRIC{…}, LABEL)`."""
    return (
        QueryVariable(name)
        .label(label)
        .query({"query": query, "refId": name})
        .datasource(_SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    )


NAMESPACE = variable("namespace", "Namespace", "label_values(openstack_operator_resource_ready, namespace)")
"""The namespace of a cloud."""


def dashboard(name: str, title: str, *variables: QueryVariable, **sections: Sequence[Panel]) -> Dashboard:
    """Return a dashboard with these variables, and its sections by title: `_` stands for a space."""
    board = (
        Dashboard(f"OpenStack / {title}")
        .uid(f"openstack-{name}")
        .tags([TAG])
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .time("now-3h", "now")
        .refresh("1m")
        .link(
            DashboardLink("OpenStack")
            .type(DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for each in variables:
        board.with_variable(each)
    for section, panels in sections.items():
        board.with_row(Row(section.replace("_", " ")))
        for panel in panels:
            board.with_panel(panel)
    return board
