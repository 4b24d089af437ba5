"""Check the objects of the samples and of the charts with kubeconform and kube-score, the charts with helm, the
bundle with OLM's validators, and the alerts of a monitored cloud and the queries of dashboards with promtool:
`python -m tools.checks`.
"""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.checks")

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tools.dashboards.files import RANGE, built, queries
from tools.localcluster.build import CHECKS, PROMTOOL, BuildError, ensure

from . import alerts, charts, olm_bundle, schemas
from .findings import Finding, explained, unused

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ("minimal", "ha", "ceph")
_CRITICAL = 1
"""kube-score's grade of what it calls CRITICAL."""


def main() -> int:
    """Return 0 if every object is valid, every critical finding is explained and every alert fires when it should."""
    argparse.ArgumentParser(prog="python -m tools.checks", description=__doc__).parse_args()
    try:
        tools = ensure(CHECKS)
        with tempfile.TemporaryDirectory() as folder:
            definitions = sorted((ROOT / "deploy" / "crds").glob("*.yaml"))
            schemas.write(Path(folder), [*definitions, charts.foreign_definitions(Path(folder))])
            charts.lint()
            exit_status = _check_manifests(tools, Path(folder))
            findings, faults = olm_bundle.check()
            print(
                f"bundle: {findings} findings of OLM's validators, {len(faults)} of them not explained",
                *faults,
                sep="\n",
            )
            promtool = ensure(PROMTOOL) / "promtool"
            count = alerts.check(promtool, alerts.parse_objects(_render_monitored_cloud()), Path(folder))
            print(f"promtool: {count} alerts fire when they should, and only then")
            panels = list(queries(built()))
            alerts.check_queries(promtool, [each.expression.replace(RANGE, "1m") for each in panels], Path(folder))
            print(f"promtool: {len(panels)} queries of dashboards are PromQL")
            return exit_status or int(bool(faults))
    except (BuildError, alerts.AlertsError, olm_bundle.BundleError, charts.ChartError) as error:
        print(error, file=sys.stderr)
        return 1


def _check_manifests(tools: Path, folder: Path) -> int:
    faults, everything = list[str](), list[Finding]()
    for name, text, known_faults in _sets():
        conform = _run([str(tools / "kubeconform"), "-strict", "-summary", "-schema-location", _pattern(folder)], text)
        print(f"{name}: kubeconform -strict: {conform.stdout.strip().splitlines()[-1]}")
        if conform.returncode:
            faults += [conform.stdout, conform.stderr]
        # CPU that no other container wants is free (docs/how-to/set-resources.md): a limit of it makes answers late.
        options = ("--output-format", "json", "--ignore-container-cpu-limit")
        score = _run([str(tools / "kube-score"), "score", *options, "-"], text)
        # It prints `null` if it has no rule for any of the objects.
        findings = list(_findings(json.loads(score.stdout) or ()))
        everything += findings
        unexplained = [str(finding) for finding in findings if not explained(finding)]
        print(f"{name}: kube-score: {len(findings)} critical findings, {len(unexplained)} of them not explained")
        faults += [f"{name}: {fault}" for fault in (*unexplained, *known_faults)]
    faults += [f"tools/checks/findings.py explains what nobody finds any more: {words}" for words in unused(everything)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def _sets() -> Iterator[tuple[str, str, list[str]]]:
    """Yield sets of objects: its name, the objects, and what is wrong with them already."""
    for sample in SAMPLES:
        yield sample, _rendered(sample), []
    for release in charts.releases():
        text = charts.render(release)
        yield f"chart {release.name}", text, charts.check(release, text)


def _pattern(folder: Path) -> str:
    return f"{folder}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"


def _rendered(sample: str) -> str:
    """Return the objects of a sample, without those of the user that the operator reads."""
    manifest = ROOT / "deploy" / "samples" / f"controlplane_{sample}.yaml"
    return _render(manifest)


def _render(manifest: Path, *options: str) -> str:
    command = [sys.executable, "-m", "openstack_operator.cli", "render", "-f", str(manifest), *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BuildError(f"render of {manifest.name} failed:\n{result.stderr}")
    return result.stdout


def _render_monitored_cloud() -> str:
    """Return the objects of a small cloud in a cluster that has the kinds of Prometheus' operator."""
    spec = {"release": "2025.1", "monitoring": {"enabled": True}}
    metadata = {"name": "cloud", "namespace": alerts.NAMESPACE}
    cloud = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "OpenStackControlPlane", "metadata": metadata}
    kinds = (f"{kind}.monitoring.coreos.com" for kind in ("PodMonitor", "PrometheusRule"))
    serves = [word for kind in kinds for word in ("--serves", kind)]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump({**cloud, "spec": spec}, file)
        file.flush()
        return _render(Path(file.name), *serves)


def _run(command: list[str], text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def _findings(objects: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    for each in objects:
        for check in each.get("checks") or ():
            if check["grade"] == _CRITICAL and not check["skipped"]:
                for comment in check["comments"] or [{}]:
                    yield Finding(
                        check=check["check"]["id"],
                        kind=each["type_meta"]["kind"],
                        name=each["object_meta"]["name"],
                        container=comment.get("path") or "",
                        summary=comment.get("summary") or "",
                    )


if __name__ == "__main__":
    sys.exit(main())
