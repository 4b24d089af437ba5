"""The charts for Helm: what of them is made of the models and of the objects in deploy/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ... import __version__
from ...admission.policy_names import OPERATOR
from ...kube import Object
from ...yaml_text import dump
from ..permissions import Rules
from .document import schema_json, table, values_yaml
from .operator import TEMPLATE_HEADER, templates
from .values import CloudValues, OperatorValues, Values

__all__ = ["CHARTS", "TEMPLATE_HEADER", "chart_files"]

CHARTS = Path("deploy/charts")
_CLOUD = "openstack-cloud"
_CRDS = "crds"
_MINIMUM = ">=1.31.0-0"
"""Versions of Kubernetes, with pre-releases, which many vendors' versions look like."""
_HEADER = "# Made by `openstack-operator generate`; change the models instead.\n"
_GUIDE = "[The guide](../../../docs/how-to/install-with-helm.md) has the commands."
_OPERATOR_PAGE = f"""\
# {OPERATOR}

This chart installs the operator: its definitions, permissions, policies of admission and Deployment. {_GUIDE}

A cluster has one release of it, in a namespace of its own. Objects have the names that the operator and its
documentation use, whatever the name of the release.
"""
_CLOUD_PAGE = f"""\
# {_CLOUD}

This chart makes one cloud of its values: an OpenStackControlPlane. The chart {OPERATOR} has to be installed first.
{_GUIDE}
"""


def chart_files(granted: Mapping[str, Rules]) -> dict[Path, str]:
    """Return the generated files of the charts by path; `granted` are the operator's rules by role."""
    operator, cloud = CHARTS / OPERATOR, CHARTS / _CLOUD
    about_operator = _about(OPERATOR, "Installs, runs and heals OpenStack clouds on Kubernetes")
    about_operator["dependencies"] = [{"name": _CRDS, "version": __version__, "condition": f"{_CRDS}.enabled"}]
    files = _described(operator, about_operator, OperatorValues, _OPERATOR_PAGE)
    files |= _described(cloud, _about(_CLOUD, "A cloud of openstack-operator"), CloudValues, _CLOUD_PAGE)
    about_crds = _about(_CRDS, f"Custom resource definitions of {OPERATOR}")
    files[operator / "charts" / _CRDS / "Chart.yaml"] = _HEADER + dump(about_crds)
    return files | {operator / "templates" / name: text for name, text in templates(granted).items()}


def _about(name: str, description: str) -> Object:
    return {
        "apiVersion": "v2",
        "name": name,
        "description": description,
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": _MINIMUM,
    }


def _described(folder: Path, about: Object, model: type[Values], page: str) -> dict[Path, str]:
    return {
        folder / "Chart.yaml": _HEADER + dump(about),
        folder / "values.yaml": values_yaml(model),
        folder / "values.schema.json": schema_json(model),
        folder / "README.md": f"{page}\n## Values\n\n{table(model)}",
    }
