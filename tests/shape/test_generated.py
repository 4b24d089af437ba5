"""What is generated is committed as the models say it now."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from openstack_operator import kube
from openstack_operator.api import IS_NOW, Resource, crd, handle, model_schema
from openstack_operator.generate import generated, rendered, stale, write
from openstack_operator.generate.permissions import ENGINE
from openstack_operator.parts.connect.external import external_kinds
from openstack_operator.plan.steps import WORKLOADS
from openstack_operator.planned import Planned
from openstack_operator.registry import EXTERNAL_KINDS, RESOURCES, SERVICES
from openstack_operator.runtime.kubernetes.kinds import CHILDREN, Catalog, optional_role
from openstack_operator.yaml_text import load


@pytest.fixture(scope="module")
def files() -> dict[Path, str]:
    return generated(Path(__file__).parent.parent.parent)


@pytest.fixture(scope="module")
def plans(root: Path) -> list[Planned]:
    return rendered(root)


def test_generated_files_are_current(root: Path, files: dict[Path, str]) -> None:
    """Another process wrote them, which ordered sets in another way: so generation is deterministic, too."""
    assert stale(root, files) == [], "run `make generate` and commit what it writes"


OTHER_COMMANDS = ("docs/api/c5c3.md", "docs/reference/patches.md", "deploy/dashboards/")
"""Beginnings of names in these folders that other commands write."""


def test_gitattributes_mark_what_is_generated(root: Path, files: dict[Path, str]) -> None:
    # With new files that are not added yet.
    files_of_git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(files_of_git, cwd=root, capture_output=True, text=True, check=True).stdout
    query = ["git", "check-attr", "--stdin", "-z", "linguist-generated"]
    output = subprocess.run(query, cwd=root, input=listed, capture_output=True, text=True, check=True).stdout
    fields = output.strip("\0").split("\0")
    marked = {Path(name) for name, value in zip(fields[::3], fields[2::3], strict=True) if value == "set"}
    assert sorted({*files} - marked) == []
    places = {path.parent for path in files}
    by_hand = {
        path
        for path in marked - {*files}
        if (path.parent in places or path.is_relative_to("deploy/charts"))
        and not (root / path).is_symlink()
        and not path.as_posix().startswith(OTHER_COMMANDS)
    }
    assert sorted(by_hand) == [], "written by hand: mark it with -linguist-generated"


def test_writing_mends_what_is_stale_and_removes_what_no_model_makes(tmp_path: Path, files: dict[Path, str]) -> None:
    write(tmp_path, files)
    changed, gone = tmp_path / "deploy/rbac.yaml", tmp_path / "deploy/crds/gone.yaml"
    changed.write_text("changed")
    gone.write_text("made of a model that is gone")
    assert write(tmp_path, files) == [Path("deploy/crds/gone.yaml"), Path("deploy/rbac.yaml")]
    assert not gone.exists()
    assert stale(tmp_path, files) == []


def test_pages_written_by_hand_stay_beside_those_of_the_kinds(tmp_path: Path, files: dict[Path, str]) -> None:
    write(tmp_path, files)
    folder = tmp_path / "docs/reference"
    (folder / "glossary.md").write_text("# Glossary\n")
    (folder / "gone.md").write_text((folder / "nova.md").read_text().replace("Nova", "Gone"))
    assert write(tmp_path, files) == [Path("docs/reference/gone.md")]
    assert (folder / "glossary.md").exists()


def test_templates_written_by_hand_stay_beside_those_that_are_made(tmp_path: Path, files: dict[Path, str]) -> None:
    write(tmp_path, files)
    folder = tmp_path / "deploy/charts/openstack-operator/templates"
    (folder / "rbac.yaml").write_text("# by hand\n")
    (folder / "gone.yaml").write_text((folder / "deployment.yaml").read_text())
    assert write(tmp_path, files) == [Path("deploy/charts/openstack-operator/templates/gone.yaml")]
    assert (folder / "rbac.yaml").exists()


def role(root: Path, kind: str, manifest: str = "rbac.yaml") -> list[dict[str, Any]]:
    return next(obj["rules"] for obj in load(root / "deploy" / manifest) if obj["kind"] == kind)


def optional(root: Path) -> list[str]:
    """Manifests of optional roles, below deploy."""
    return [path.relative_to(root / "deploy").as_posix() for path in (root / "deploy/optional-roles").glob("*.yaml")]


def whole(root: Path) -> list[dict[str, Any]]:
    """All rules of an operator with every role that there is."""
    return [rule for manifest in ("rbac.yaml", *optional(root)) for rule in role(root, "ClusterRole", manifest)]


def test_the_operators_own_role_has_no_right_to_the_kinds_of_others(root: Path) -> None:
    groups = {group for rule in role(root, "ClusterRole") for group in rule["apiGroups"]}
    assert not groups & {kind.group for kind in Catalog(RESOURCES, EXTERNAL_KINDS).all if kind.optional}
    for manifest in optional(root):
        (granted, bound) = load(root / "deploy" / manifest)
        assert granted["metadata"]["name"] == bound["roleRef"]["name"] == f"openstack-operator-{Path(manifest).stem}"
        (inside, _) = load(root / "deploy/namespaced" / manifest)
        assert (inside["kind"], inside["rules"]) == ("Role", granted["rules"])


def test_kustomization_installs_every_optional_role(root: Path) -> None:
    (kustomization,) = load(root / "deploy/kustomization.yaml")
    assert set(optional(root)) <= set(kustomization["resources"])
    named = {optional_role(kind) for kind in Catalog(RESOURCES, EXTERNAL_KINDS).all if kind.optional}
    assert named == {f"openstack-operator-{Path(manifest).stem}" for manifest in optional(root)}


def test_a_service_declares_the_kinds_of_others_that_it_needs(plans: list[Planned]) -> None:
    """Itself, or by a resource that it refers to, or by a part that each service may use."""
    known = {kind.handle for kind in EXTERNAL_KINDS}
    needed: dict[str, set[str]] = {}
    for planned in plans:
        roles = {planned.context.kind, *(ref.kind for ref in planned.context.refs)}
        declared = {kind.handle for kind in external_kinds(each for each in SERVICES if each.resource.role in roles)}
        made = known & {handle(obj["apiVersion"], obj["kind"]) for obj in planned.objects}
        assert made <= declared, f"{planned.id}: add {made - declared} to the kinds of its record"
        needed.setdefault(planned.context.kind, set()).update(made)
    assert len(needed) > len(SERVICES) / 2
    by_rule = {kind.handle for kind in EXTERNAL_KINDS if (kind.group, kind.plural) in ENGINE}
    unneeded = known - {name for made in needed.values() for name in made} - by_rule
    assert unneeded == set(), "no plan makes these"


def test_permissions_name_everything(root: Path) -> None:
    checks = 0
    for rule in whole(root) + role(root, "Role"):
        checks += 1
        assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])
    assert checks


@pytest.mark.security
def test_permissions_are_no_way_to_more_of_them(root: Path) -> None:
    checks = 0
    risky = {"pods/exec", "pods/attach", "pods/portforward", "serviceaccounts/token", "clusterroles"}
    for rule in whole(root):
        # Whoever may write them decides where pods run.
        checks += 1
        assert "nodes" not in rule["resources"] or set(rule["verbs"]) == {"get", "list", "watch"}
        assert not risky & set(rule["resources"])
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
        assert rule["apiGroups"] != ["rbac.authorization.k8s.io"]
    assert checks


@pytest.mark.security
def test_an_operator_of_some_namespaces_has_the_same_rights_only_there(root: Path) -> None:
    def flat(rules: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
        return {
            (rule["apiGroups"][0], resource, verb)
            for rule in rules
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    once = load(root / "deploy/namespaced/rbac.yaml")
    (inside, _) = load(root / "deploy/namespaced/rbac-of-namespace.yaml")
    nodes, reviews = (flat(obj["rules"]) for obj in once if obj["kind"] == "ClusterRole")
    policies = {
        ("admissionregistration.k8s.io", f"validatingadmission{plural}", "get")
        for plural in ("policies", "policybindings")
    }
    assert nodes == {("", "nodes", verb) for verb in ("get", "list", "watch")} | policies
    named = [rule for obj in once for rule in obj.get("rules", ()) if "resourceNames" in rule]
    assert [rule["resources"][0] for rule in named] == ["leases", "validatingadmissionpolicies"]
    assert reviews == {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    assert flat(inside["rules"]) | nodes | reviews == flat(role(root, "ClusterRole"))
    assert not flat(inside["rules"]) & (nodes | reviews)
    assert inside["kind"] == "Role"
    assert "namespace" not in inside["metadata"]


def test_nothing_is_watched_that_no_service_makes(plans: list[Planned]) -> None:
    made = {obj["kind"] for planned in plans for obj in planned.objects}
    assert {kind.kind for kind in CHILDREN} <= made


def test_pods_bear_their_version_and_no_selector_does(plans: list[Planned]) -> None:
    """Selectors cannot change: one with a version would keep a new release out."""
    objects = [obj for planned in plans for obj in planned.objects]
    templates = [obj["spec"]["template"] for obj in objects if obj["kind"] in WORKLOADS]
    assert all(template["metadata"]["labels"].get(kube.NAME) for template in templates)
    assert all(template["metadata"]["labels"].get(kube.VERSION) for template in templates)
    assert not [labels for obj in objects for labels in selectors(obj.get("spec")) if kube.VERSION in labels]


def selectors(node: Any) -> Iterator[dict[str, Any]]:
    """Every choice by labels at any depth of an object's spec."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name in {"matchLabels", "selector", "nodeSelector"} and isinstance(value, dict):
                yield value
            yield from selectors(value)
    elif isinstance(node, list):
        for value in node:
            yield from selectors(value)


def test_everything_that_is_watched_may_be_watched(root: Path) -> None:
    granted = {
        (group, resource)
        for rule in whole(root)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if {"get", "list", "watch"} <= set(rule["verbs"])
    }
    assert {(kind.group, kind.plural) for kind in (*CHILDREN, *EXTERNAL_KINDS)} <= granted
    assert {(resource.group, resource.plural) for resource in RESOURCES} <= granted


def test_metrics_reader_may_only_read_metrics(root: Path) -> None:
    """And what Kubernetes has users do by default is not enough."""
    (reader,) = (obj for obj in load(root / "deploy/roles.yaml") if obj["metadata"]["name"].endswith("metrics-reader"))
    assert reader["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert "labels" not in reader["metadata"]


def test_the_operator_stands_by(root: Path) -> None:
    found = {obj["kind"]: obj for obj in load(root / "deploy" / "operator.yaml")}
    spec = found["Deployment"]["spec"]
    assert spec["replicas"] == 2
    assert "--leader-elect" in spec["template"]["spec"]["containers"][0]["args"]
    assert found["PodDisruptionBudget"]["spec"]["selector"] == spec["selector"]


METADATA = (
    *("169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),
    *("127.0.0.1", "::1", "fe80::1", "224.0.0.1", "ff02::1"),
)


PROGRAMS = [
    ("operator.yaml", "openstack-operator"),
    ("labels-injector.yaml", "labels-injector"),
    ("labels-injector.yaml", "labels-injector-certifier"),
]
"""Manifests, and the Deployments in them."""


def deployed(root: Path, manifest: str, kind: str, name: str) -> dict[str, Any]:
    (found,) = (
        obj
        for obj in load(root / "deploy" / manifest)
        if (obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"])
        == (kind, "labels-injector" if "injector" in manifest else "openstack-operator", name)
    )
    return found


@pytest.mark.security
@pytest.mark.parametrize(("manifest", "name"), PROGRAMS)
def test_our_own_pods_are_reached_at_the_ports_they_serve_alone(root: Path, manifest: str, name: str) -> None:
    deployment = deployed(root, manifest, "Deployment", name)["spec"]
    spec = deployed(root, manifest, "NetworkPolicy", f"{name}-ingress")["spec"]
    assert spec["podSelector"] == deployment["selector"]
    assert spec["policyTypes"] == ["Ingress"]
    assert all(rule.keys() == {"ports"} for rule in spec.get("ingress", []))
    opened = [port for rule in spec.get("ingress", []) for port in rule["ports"]]
    served = [port for each in deployment["template"]["spec"]["containers"] for port in each.get("ports", ())]
    assert sorted(port["port"] for port in opened) == sorted(port["containerPort"] for port in served)
    assert {port["protocol"] for port in opened} <= {"TCP"}


def test_network_policy_of_the_security_page_limits_the_rule_for_metrics(root: Path) -> None:
    page = (root / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
    command = page.partition("kubectl patch networkpolicy openstack-operator-ingress")[2].partition("```")[0]
    (index,) = re.findall(r'"path": "/spec/ingress/(\d+)/from"', command)
    spec = deployed(root, "operator.yaml", "NetworkPolicy", "openstack-operator-ingress")["spec"]
    assert [port["port"] for port in spec["ingress"][int(index)]["ports"]] == [8443]


@pytest.mark.security
@pytest.mark.parametrize(("manifest", "name"), PROGRAMS)
def test_our_own_pods_reach_no_metadata_service(root: Path, manifest: str, name: str) -> None:
    spec = deployed(root, manifest, "NetworkPolicy", f"{name}-egress")["spec"]
    assert spec["podSelector"] == deployed(root, manifest, "Deployment", name)["spec"]["selector"]
    assert spec["policyTypes"] == ["Egress"]
    everywhere, somewhere = spec["egress"]
    assert 80 not in {each["port"] for each in everywhere["ports"]}
    blocks = [each["ipBlock"] for each in somewhere["to"] if "ipBlock" in each]
    assert {each["cidr"] for each in blocks} == {"0.0.0.0/0", "::/0"}
    closed = [ip_network(network) for block in blocks for network in block["except"]]
    for address in map(ip_address, METADATA):
        assert any(address in network for network in closed), address
    for address in map(ip_address, ("10.96.0.1", "192.168.1.1", "203.0.113.7", "fd00:10:96::1", "2001:db8::1")):
        assert not any(address in network for network in closed), address


@pytest.mark.security
def test_the_operator_is_confined(root: Path) -> None:
    deployment = next(obj for obj in load(root / "deploy" / "operator.yaml") if obj["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": "160Mi", "ephemeral-storage": "64Mi"}
    assert container["resources"]["limits"] == {"memory": "512Mi", "ephemeral-storage": "1Gi"}


def test_the_reference_shows_what_is_in_a_status(files: dict[Path, str]) -> None:
    status = {kind: files[Path(f"docs/reference/{kind}.md")].partition("## status")[2] for kind in ("nova", "pki")}
    assert "| `cells[].name` | string | " in status["nova"]
    for page in status.values():
        assert "| `conditions[].lastTransitionTime` | string | Time of the last change of the status. |" in page


def status_fields(schema: Any, path: str = "") -> Iterator[str]:
    """Paths of the fields of a status at any depth; `[]` stands for each entry of a list or a map."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}{name}"
        entries = next((field[each] for each in ("items", "additionalProperties") if each in field), None)
        yield from status_fields(entries or field, f"{path}{name}{'[].' if entries else '.'}")


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.crd_name)
def test_the_page_of_a_kind_has_every_field_of_its_status(resource: Resource[Any], pages: dict[str, str]) -> None:
    schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    section = pages[page_of(resource, pages)].partition("\n## status\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\S+)` \| ", section, re.MULTILINE) == list(status_fields(schema))
    assert "conditions[].type" in status_fields(schema)


EMPTY = (None, "", [], {})
"""Defaults that are nothing: what is unset is the same."""
Section = dict[str, tuple[str, str]]
"""What a table says of fields: type and default."""


@cache
def tables(page: str) -> dict[str, Section]:
    """Sections of a page with a column of defaults, by their name in small letters, as links have it."""
    found: dict[str, Section] = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        if "| field | type | default | |" in text:
            rows = [re.split(r"(?<!\\)\|", line) for line in text.splitlines() if line.startswith("| `")]
            found[title.lower()] = {row[1].strip(" `"): (row[2].strip(), row[3].strip()) for row in rows}
    return found


def without_empty(value: Any) -> Any:
    """A default without entries that are nothing, at any depth."""
    if not isinstance(value, dict):
        return value
    entries = {name: without_empty(entry) for name, entry in cast("dict[str, Any]", value).items()}
    return {name: entry for name, entry in entries.items() if entry not in EMPTY}


def is_whole(pages: Mapping[str, str], page: str, section: str, field: str, value: Any) -> bool:
    """Whether the row of a field says that this is its default, or those of its own fields do."""
    text, known = pages[page], tables(pages[page])
    if field not in known[section]:
        # Of a template, fields of another kind are on the page of that.
        body = text.lower().partition(f"## {section}\n")[2].partition("\n## ")[0]
        elsewhere = re.search(r"every field of \[\w+\]\((.+?\.md)\)", body)
        return bool(elsewhere) and is_whole(pages, elsewhere[1] if elsewhere else "", "spec", field, value)
    type_, default = known[section][field]
    if default and (default[1:-1] == value or yaml.safe_load(default[1:-1]) == value):
        return True
    link = re.search(r"\(#(\w+)\)$", type_)
    if not link or not isinstance(value, dict):
        return False
    entries = cast("dict[str, Any]", value).items()
    return all(is_whole(pages, page, link[1], name, entry) for name, entry in entries)


@pytest.fixture(scope="module")
def pages(files: dict[Path, str]) -> dict[str, str]:
    """The pages of the reference by name."""
    return {path.name: text for path, text in files.items() if path.parent.name == "reference"}


def page_of(resource: Resource[Any], pages: Mapping[str, str]) -> str:
    """Name of the page of a kind."""
    handle = f"{resource.handle.lower()}.md"
    return handle if handle in pages else f"{resource.kind.lower()}.md"


def test_each_default_is_whole_on_the_page_of_its_kind(pages: dict[str, str]) -> None:
    count, lost = 0, list[str]()
    for resource in RESOURCES:
        page, whole = page_of(resource, pages), model_schema(resource.spec, as_c5c3=resource.as_c5c3)
        names = {name.lower(): schema for name, schema in whole.get("$defs", {}).items()} | {"spec": whole}
        for section in tables(pages[page]):
            for name, field in names[section].get("properties", {}).items():
                value = without_empty(field.get("default"))
                if not field.get("description", "").startswith(IS_NOW) and value not in EMPTY:
                    count += 1
                    if not is_whole(pages, page, section, name, value):
                        lost.append(f"{page} {section}.{name}: {value}")
    assert lost == []
    assert count > 500


def messages(schema: Any) -> Iterator[str]:
    """What the rules of a definition say, at any depth."""
    if isinstance(schema, dict):
        node = cast("dict[str, Any]", schema)
        if not str(node.get("description", "")).startswith(IS_NOW):
            yield from (rule["message"] for rule in node.get("x-kubernetes-validations", ()))
            for inner in node.values():
                yield from messages(inner)
    elif isinstance(schema, list):
        for inner in cast("list[Any]", schema):
            yield from messages(inner)


def test_each_rule_is_on_the_page_of_its_kind(pages: dict[str, str]) -> None:
    missing, count = list[str](), 0
    for resource in RESOURCES:
        page = page_of(resource, pages)
        text = pages[page]
        if first := re.search(r"^The fields are those of \[.+\]\((.+?\.md)\)", text, re.MULTILINE):
            text += pages[first[1]]
        rules = text.replace("\\|", "|")
        schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for message in messages(schema):
            count += 1
            if f"`: {' '.join(message.split())}\n" not in rules:
                missing.append(f"{page}: {message}")
    assert missing == []
    assert count > 500
