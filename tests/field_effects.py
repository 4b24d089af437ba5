"""What a field changes: a resource planned with it and without, told apart leaf by leaf."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from configparser import RawConfigParser
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from _pytest.mark import ParameterSet

from openstack_operator import kube
from openstack_operator.api import CEPH_BESIDE, CLOUD_PKI, references
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import READY, SHARED_FIELDS, Object, Verdict, condition_type, conditions, progressing
from openstack_operator.plan.service import Releases
from openstack_operator.plan.steps import WORKLOADS
from openstack_operator.planned import Planned
from openstack_operator.registry import ACTUATORS, EXTERNAL_KINDS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from tests.fields import KINDS, written

EXTERNAL_HANDLES = tuple(each.handle for each in EXTERNAL_KINDS)
RELEASES = ReleaseFiles(Path(__file__).parent.parent / "releases")

_RUNNING = {*WORKLOADS, "CronJob"}

Leaves = dict[str, Any]
"""Values by where they are: `Deployment/glance-api pod.containers[main].image`, `Secret/glance-config glance-api.conf
[DEFAULT] debug`, `endpoint`, `GlanceReady`."""


def with_field(spec: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The spec with a field as users write its path (`spec.backends[].rbd.pool`) set; of a list, in each entry there
    is, or else in a first one.
    """
    return cast("dict[str, Any]", _set(dict(spec), re.findall(r"[^.\[\]]+|\[\]", path.removeprefix("spec.")), value))


def _set(node: Any, parts: list[str], value: Any) -> Any:
    if not parts:
        return value
    head, *rest = parts
    if head == "[]":
        return [_set(each, rest, value) for each in node or [{}]]
    inner = dict(cast("Mapping[str, Any]", node or {}))
    return {**inner, head: _set(inner.get(head), rest, value)}


def resulting_leaves(
    kind: str,
    spec: Mapping[str, Any],
    *beside: Object,
    served: Iterable[str] = EXTERNAL_HANDLES,
    releases: Releases = RELEASES,
) -> Leaves:
    """All that a resource of c5c3's group of that kind becomes, among `beside`: objects, status and what is said."""
    found = _planned(kind, spec, *beside, served=served, releases=releases)
    assert found.plan is not None, "it waits for something beside it"
    made = found.plan
    leaves = {f"{_named(obj)} {where}": value for obj in made.objects for where, value in _parts(obj)}
    told = conditions(made, {step: step.verdict or READY for step in made})
    leaves |= {type_: told[type_].message for type_ in map(condition_type, made.condition.values())}
    for step in made:
        # What is made at once lies behind most steps; who waits for a condition of others is what is asked about.
        waits = sorted({each.name for each in step.after if each.name == "Dependencies"})
        leaves |= {f"{_named(obj)} waits for": waits for obj in step.objects if waits and obj["kind"] in _RUNNING}
    # Nothing waits for the PKI or the Ceph of a cloud, so they count if there are any.
    absent = [ref for ref in (CLOUD_PKI, CEPH_BESIDE) if ref not in found.context.refs]
    used = [ref for _, ref in references(found.context.spec) if ref not in absent]
    leaves |= {f"uses {ref.kind}/{ref.name}": True for ref in used}
    leaves |= {f"published.{field}": value for field, value in made.outcome.published.items()}
    leaves |= {f"status.{where}": value for where, value in _flat("", dict(made.outcome.details))}
    return leaves | {"endpoint": made.outcome.endpoint}


def conditions_without(kind: str, spec: Mapping[str, Any], *beside: Object, missing: str = "") -> Mapping[str, Verdict]:
    """Conditions of a resource all of whose objects are as wanted but `missing`, one of them (`Deployment/nova-api`)
    or one it refers to (`uses OVNNetwork/ovn`).
    """
    found = _planned(kind, spec, *beside)
    refs = {
        ref: replace(each, verdict=progressing("not yet") if missing == f"uses {ref.kind}/{ref.name}" else READY)
        for ref, each in found.context.refs.items()
    }
    service = next(each for each in SERVICES if each.resource is KINDS[kind])
    made = service.plan(replace(found.context, refs=refs))
    verdicts = {
        step: progressing("not yet") if missing in map(_named, step.objects) else step.verdict or READY for step in made
    }
    return conditions(made, verdicts)


def _planned(
    kind: str,
    spec: Mapping[str, Any],
    *beside: Object,
    served: Iterable[str] = EXTERNAL_HANDLES,
    releases: Releases = RELEASES,
) -> Planned:
    resource = KINDS[kind]
    called = {"name": "ovn" if kind == "OVNCluster" else kind.lower()}
    manifest = {"apiVersion": resource.api_version, "kind": kind, "metadata": called, "spec": spec}
    paper = OfflineCluster(SERVICES, ACTUATORS, releases, password="drawn", served=served)
    return next(
        planned
        for planned in paper.render([manifest, *beside], "openstack")
        if (planned.id.kind, planned.id.name) == (resource.handle, called["name"])
    )


def changes(before: Leaves, after: Leaves) -> Leaves:
    """What is another one afterwards; None is what is gone. What follows from the rest is left out: digests,
    and which fields of a template come from elsewhere.
    """
    derived = (kube.CONFIG_DIGEST, kube.TEMPLATE_DIGEST, SHARED_FIELDS)
    fields = (field for field in {**before, **after} if not any(name in field for name in derived))
    return {field: after.get(field) for field in fields if before.get(field, _NONE) != after.get(field, _NONE)}


_NONE = object()


def row(
    kind: str,
    path: str,
    value: Any,
    expected: Leaves,
    *also: str,
    base: Mapping[str, Any] | None = None,
    says: str = "",
) -> ParameterSet:
    """A row of a table of fields, for a test that calls `check`: proves each field that `value` sets. What is expected
    is changed by it to just that (a compiled pattern is found in it, `...` is anything), and nothing else is but what
    begins as one of `also`. `base` is what the spec has besides.
    """
    own = dict(base or {})
    paths = dict.fromkeys(written({"kind": kind, "spec": with_field({}, path, value)}))
    proves = pytest.mark.proves(kind, *paths, **({"says": says} if says else {}))
    return pytest.param(kind, own, path, value, expected, also, marks=proves, id=f"{kind} {path}")


POD: Mapping[str, Any] = {
    "image": {"repository": "registry.example.org/own", "tag": "9.1", "digest": f"sha256:{'a' * 64}"},
    "resources": {"requests": {"cpu": "7m", "memory": "70Mi"}, "limits": {"cpu": "8", "memory": "8Gi"}},
    "nodeSelector": {"own": "yes"},
    "tolerations": [{"key": "own", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"own": "rule"}},
    "antiAffinity": "hard",
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "priorityClassName": "own",
}
"""Settings of pods, each with a value that nobody has by default."""
OWN_IMAGE = f"registry.example.org/own:9.1@sha256:{'a' * 64}"


def version(workload: str, tag: str = "9.1") -> Leaves:
    """The version that a workload and its pods are labelled with; that of an image of one's own is its tag."""
    template = f"spec.{'jobTemplate.spec.' if workload.startswith('CronJob/') else ''}template"
    return {f"{workload} {where}.{kube.VERSION}": tag for where in ("labels", f"{template}.metadata.labels")}


def pods(
    kind: str, prefix: str, workload: str, base: Mapping[str, Any], *also: str, container: str = "main"
) -> list[ParameterSet]:
    """Rows for the settings of the pods of a workload that `base` gives several of."""
    pod, own = f"{workload} pod", f"{workload} pod.containers[{container}]"
    expected: Mapping[str, Leaves] = {
        "image": {f"{own}.image": OWN_IMAGE, **version(workload)},
        "resources": {f"{own}.resources.{path}": value for path, value in _flat("", POD["resources"])},
        "nodeSelector": {f"{pod}.nodeSelector.own": "yes", f"{pod}.nodeSelector.openstack-control-plane": None},
        "tolerations": {f"{pod}.tolerations[0].key": "own"},
        "affinity": {f"{pod}.affinity.nodeAffinity.own": "rule"},
        "antiAffinity": {
            f"{pod}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey": (
                "kubernetes.io/hostname"
            )
        },
        "topologySpreadConstraints": {f"{pod}.topologySpreadConstraints[0].topologyKey": "zone"},
        "priorityClassName": {f"{pod}.priorityClassName": "own"},
    }
    more = (f"{pod}.affinity.podAntiAffinity", f"{pod}.topologySpreadConstraints[0]", f"{pod}.tolerations", *also)
    return [row(kind, f"{prefix}.{field}", POD[field], expected[field], *more, base=base) for field in POD]


def check(
    kind: str,
    base: Mapping[str, Any],
    path: str,
    value: Any,
    expected: Leaves,
    also: tuple[str, ...],
    *beside: Object,
    releases: Releases = RELEASES,
) -> None:
    """Asserts that a field changes what a row says."""
    before, after = (
        resulting_leaves(kind, spec, *beside, releases=releases) for spec in (base, with_field(base, path, value))
    )
    found = changes(before, after)
    for field, wanted in expected.items():
        assert field in found, f"{path} does not change {field}, but {sorted(found)}"
        if isinstance(wanted, re.Pattern):
            assert cast("re.Pattern[str]", wanted).search(str(found[field])), found[field]
        elif wanted is not ...:
            assert found[field] == wanted, field
    more = [field for field in found if field not in expected and not field.startswith(also)]
    assert not more, f"{path} changes more than it says: {more[:20]}"


def _named(obj: Object) -> str:
    # What a job is called after its content follows from that.
    name = re.sub(r"-[0-9a-f]{8,}$", "", obj["metadata"]["name"]) if obj["kind"] == "Job" else obj["metadata"]["name"]
    return f"{obj['kind']}/{name}"


def _parts(obj: Object) -> Iterator[tuple[str, Any]]:
    plain = {name: value for name, value in obj.items() if name not in {"apiVersion", "kind", "metadata"}}
    yield from _flat("annotations", obj["metadata"].get("annotations", {}))
    yield from _flat("labels", obj["metadata"].get("labels", {}))
    yield "", True
    if obj["kind"] == "Secret":
        for name, text in kube.secret_data(obj).items():
            yield from _file(name, text)
        return
    if obj["kind"] == "ConfigMap":
        for name, text in obj["data"].items():
            yield from _file(name, text)
        return
    for where, value in _flat("", plain):
        short = re.sub(r"^spec\.(jobTemplate\.spec\.)?template\.spec\.", "pod.", where)
        yield short, value


def _file(name: str, text: str) -> Iterator[tuple[str, Any]]:
    if name.endswith(".json") and text.startswith("{"):
        yield from _flat(name, json.loads(text))
        return
    if not name.endswith(".conf") or not text.startswith("["):
        yield name, text
        return
    parser = RawConfigParser(strict=False, default_section="")
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    parser.read_string(text)
    for section in parser.sections():
        for option, value in parser[section].items():
            yield f"{name} [{section}] {option}", value


def _flat(where: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in cast("Mapping[str, Any]", value).items():
            yield from _flat(f"{where}.{name}" if where else name, inner)
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in cast("list[Any]", value)):
        for number, each in enumerate(cast("list[Any]", value)):
            called = each.get("mountPath") or each.get("name") or number if isinstance(each, Mapping) else number
            yield from _flat(f"{where}[{called}]", each)
    else:
        yield where, value
