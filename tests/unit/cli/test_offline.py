"""Manifests without a cluster: what is read, what would be refused, and where the user wrote it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openstack_operator.api import crd
from openstack_operator.cli.offline.documents import Document, parse, read, steps_to
from openstack_operator.cli.offline.findings import Finding
from openstack_operator.cli.offline.manifest import Checker
from openstack_operator.cli.offline.rules import CORE, FUNCTIONS, OLD, amount, evaluator, functions_of
from openstack_operator.cli.offline.schema import validate, with_defaults
from openstack_operator.cli.offline.survey import Survey, survey
from openstack_operator.kube import secret_data
from openstack_operator.parts.connect.korc import MANAGED_KINDS
from openstack_operator.registry import RESOURCES
from openstack_operator.release_files import ReleaseFiles
from tests.cluster.test_refusals import CHANGED, GROWN, REFUSED, manifest
from tests.operator_refusals import REFUSALS, Refusal, certificate
from tests.searches import examples

RULES = evaluator()
CHECKER = Checker(RESOURCES, RULES)


def documents(text: str, file: str = "f.yaml") -> list[Any]:
    loaded, findings = parse(text.encode(), file)
    assert not findings, findings
    return [document.value for document in loaded]


def problems(text: str | bytes) -> list[str]:
    _, findings = parse(text.encode() if isinstance(text, str) else text, "f.yaml")
    return [str(finding) for finding in findings]


def surveyed(text: str, **options: Any) -> Survey:
    loaded, findings = parse(text.encode(), "f.yaml")
    assert not findings, findings
    return survey(loaded, ReleaseFiles(), namespace="openstack", rules=RULES, **options)


# What is read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("12:30", "12:30"),
        ("2026-01-31", "2026-01-31"),
        ("010", 8),
        ("0x1f", 31),
        ("1_000", 1000),
        ("1e3", 1000),
        ("3.0", 3),
        (".5", 0.5),
        ("-x", "-x"),
        ("1.2.3", "1.2.3"),
        ("12.", 12),
        # A pattern that takes quadratic time takes hours for this.
        pytest.param(f"{'0' * 500_000}x", f"{'0' * 500_000}x", id="long"),
        ("9" * 30, 1e30),
        ("!!str 5", "5"),
        ("!!binary aGk=", "hi"),
        ("'5'", "5"),
    ],
)
def test_values_are_what_kubectl_takes_them_for(text: str, value: Any) -> None:
    read_as = documents(f"kind: A\nv: {text}\n")[0]["v"]
    assert (type(read_as), read_as) == (type(value), value)


def test_aliases_merge_keys_and_keys_that_are_no_text() -> None:
    text = "base: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\n1: one\ntrue: two\n"
    assert documents(text)[0] == {
        "base": {"x": 1, "y": 2},
        "own": {"x": 1, "y": 3},
        "1": "one",
        "true": "two",
    }


def test_items_of_a_list_are_documents_with_the_lines_they_have() -> None:
    text = "kind: List\nitems:\n- kind: A\n- kind: B\n  spec:\n    x: 1\n---\n---\nkind: C\n"
    loaded, findings = parse(text.encode(), "f.yaml")
    assert not findings
    assert [(each.value["kind"], each.number, each.line("spec.x")) for each in loaded] == [
        ("A", 1, 3),
        ("B", 1, 6),
        ("C", 3, 9),
    ]


def test_a_list_of_one_kind_says_what_its_items_are() -> None:
    assert documents("apiVersion: a/v1\nkind: NovaList\nitems: [{metadata: {name: n}}]\n") == [
        {"apiVersion": "a/v1", "kind": "Nova", "metadata": {"name": "n"}}
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1\n", "f.yaml:2: document 1: is not YAML"),
        ("a: 1\na: 2\n", "f.yaml:2: document 1: 'a' occurs twice in one map"),
        ("- 1\n", "a manifest is a map with apiVersion, kind and metadata, not array"),
        ("just text\n", "not string"),
        ("a: !tag 1\n", "the tag !tag is not supported"),
        ("a: &a [*a]\n", "*a contains itself"),
        ("a: *b\n", "there is no anchor &b"),
        ("a: .inf\n", "is not a number in JSON"),
        ("? [1]\n: 2\n", "a key of a map must be text"),
        ("a: {<<: 1}\n", "<< must have a map"),
        ("[" * 200, "is nested deeper than 100 levels"),
        ("kind: List\nitems: 3\n", "items: must be a list, not integer"),
        ("a: \x00\n", "is not YAML"),
        ("---\na: 1\n---\nb: }\n", "f.yaml:4: document 2"),
        (b"\xff\xfe\x00", "is not text in UTF-8"),
        (b"\x7fELF\x01\x02", "is not YAML"),
    ],
)
def test_an_unreadable_file_is_reported_with_its_line(text: str | bytes, says: str) -> None:
    assert any(says in problem for problem in problems(text)), problems(text)


@pytest.mark.security
def test_aliases_of_aliases_are_counted_as_what_they_stand_for() -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12))
    assert any("has more than 250,000 values" in each for each in problems(f"l0: &l0 [x, x]\n{levels}\n"))


def test_files_folders_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "b.yml").write_text("kind: B")
    (tmp_path / "a.json").write_text('{"kind": "A"}')
    (tmp_path / "c.txt").write_text("kind: Not")
    (tmp_path / "inner" / "d.yaml").write_text("kind: D")
    stdin = io.BytesIO(b"kind: S")

    def kinds(*names: str, recursive: bool = False) -> list[str]:
        loaded, findings = read(names, recursive=recursive, stdin=stdin)
        return [each.value["kind"] for each in loaded] + [each.message for each in findings]

    assert kinds(str(tmp_path), "-") == ["A", "B", "S"]
    assert kinds(str(tmp_path), recursive=True) == ["A", "B", "D"]
    assert kinds(str(tmp_path / "none"), "no\0thing") == [
        "there is no such file or folder",
        "cannot be read: embedded null byte",
    ]
    assert kinds("/dev/null") == []
    assert "larger than 8 MiB" in kinds("/dev/zero")[0]
    (tmp_path / "empty").mkdir()
    assert "no file in this folder" in kinds(str(tmp_path / "empty"))[0]


def test_a_file_of_a_folder_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("/proc/self/mem")
    (tmp_path / "b.yaml").write_text("kind: B")
    loaded, findings = read([str(tmp_path)])
    assert [each.value["kind"] for each in loaded] == ["B"]
    assert [(each.file, each.message) for each in findings] == [
        (str(tmp_path / "a.yaml"), "cannot be read: Input/output error")
    ]


def test_the_path_of_a_field_finds_keys_with_dots_in_them() -> None:
    value = {"spec": {"config": {"a.b": {"c": [1, {"d": 2}]}}}}
    assert steps_to(value, "spec.config.a.b.c[1].d") == ("spec", "config", "a.b", "c", 1, "d")
    assert steps_to(value, "spec.config.nothing") == ("spec", "config")
    assert steps_to(value, "spec.config.a.b.c[7]") == ("spec", "config", "a.b", "c")


def test_a_finding_is_one_line() -> None:
    one = Finding(message="a\nb", file="f.yaml", line=3, document=2, resource="Nova/n", path="spec.x", warning=True)
    assert str(one) == "f.yaml:3: warning: document 2: Nova/n: spec.x: a b"
    assert Finding(message="no line", file="f.yaml").as_json()["line"] is None


# What would be refused


@pytest.mark.parametrize(("kind", "spec", "field", "fix"), REFUSED, ids=[f"{kind}-{f}" for kind, _, f, _ in REFUSED])
def test_specs_refused_by_the_api_server_are_refused_offline(
    kind: str, spec: dict[str, Any], field: str, fix: str
) -> None:
    """The same table as in tests/cluster, where the API server itself is asked."""
    found = CHECKER.check(manifest(kind, spec)).problems
    assert any(field in f"{path}: {message}" and fix in f"{path}: {message}" for path, message in found), found


@pytest.mark.parametrize(("kind", "spec"), [(row[0], row[1]) for row in (*CHANGED, *GROWN)])
def test_specs_accepted_by_the_api_server_are_accepted_offline(kind: str, spec: dict[str, Any]) -> None:
    assert CHECKER.check(manifest(kind, spec)).problems == ()


def rules(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {rule for entry in schema for rule in rules(entry)}
    if not isinstance(schema, dict):
        return set()
    own = {entry["rule"] for entry in schema.get("x-kubernetes-validations") or ()}
    return own | {rule for entry in schema.values() for rule in rules(entry)}


EVERY_RULE = sorted(rules([crd(resource) for resource in RESOURCES]))


def test_every_rule_can_be_evaluated_here() -> None:
    assert {rule: lacking for rule in EVERY_RULE if (lacking := functions_of(rule) - CORE - FUNCTIONS.keys())} == {}


def test_rules_about_changes_hold_for_what_is_new() -> None:
    assert any(OLD.search(rule) for rule in EVERY_RULE)
    assert {RULES(rule, "anything") for rule in EVERY_RULE if OLD.search(rule)} == {""}


@pytest.mark.parametrize(
    ("rule", "value", "verdict"),
    [
        ("self.a == 1 || true", {}, ""),
        ("self % 2 == 1", 2, "false"),
        ("isCIDR(self)", "10.0.0.0/8", ""),
        ("isCIDR(self)", "10.0.0.0/33", "false"),
        ("isCIDR(self)", "10.0.0.0/08", "false"),
        ("isCIDR(self)", "10.0.0.0", "false"),
        ("isIP(self)", "fe80::1%eth0", "false"),
        ("isIP(self)", "010.0.0.1", "false"),
        ("isQuantity(self)", "1.5Gi", ""),
        ("isQuantity(self)", "1 Gi", "false"),
        ("quantity(self).compareTo(quantity('1000Mi')) > 0", "1Gi", ""),
        ("string(cidr(self).masked()) == '10.0.0.0/8' && cidr(self).prefixLength() == 8", "10.1.2.3/8", ""),
        ("self.matches('^a+$')", "a\n", "false"),
    ],
)
def test_rules_are_evaluated_as_kubernetes_does(rule: str, value: Any, verdict: str) -> None:
    assert RULES(rule, value) == verdict


def test_a_rule_nobody_can_judge_does_not_hold() -> None:
    assert RULES("self.missing == 1", {}) not in {"", "true"}


@pytest.mark.parametrize(
    ("quantity", "number"), [("1Gi", 2**30), ("500m", 0.5), ("2e3", 2000), ("1.", 1), (".5k", 500), ("-1", -1)]
)
def test_quantities(quantity: str, number: float) -> None:
    assert amount(quantity) == number


SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["must"],
    "properties": {
        "must": {"type": "string"},
        "size": {"type": "integer", "format": "int64", "minimum": 1, "default": 3},
        "share": {"type": "number"},
        "amount": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
        "inner": {"type": "object", "default": {}, "properties": {"on": {"type": "boolean", "default": True}}},
        "names": {"type": "array", "items": {"type": "string", "maxLength": 3}, "x-kubernetes-list-type": "set"},
    },
}


def test_everything_is_said_at_once() -> None:
    value = with_defaults(
        SCHEMA,
        {
            "size": 0,
            "share": "x",
            "amount": True,
            "free": {"what": {"ever": None}},
            "map": {"a": 1, "b": "", "c": ""},
            "names": ["a", "long", "a"],
            "siez": 1,
            "inner": None,
        },
    )
    assert value["inner"] == {"on": True}
    assert dict(validate(SCHEMA, value)) == {
        "must": "Required value",
        "size": "Invalid value: 0: should be greater than or equal to 1",
        "share": "Invalid value: must be of type number, not string",
        "amount": "Invalid value: must be of type integer or string, not boolean",
        "map.a": "Invalid value: must be of type string, not integer",
        "map": "Invalid value: should have at most 2 properties",
        "names[1]": "Invalid value: should be at most 3 chars long",
        "names[2]": 'Duplicate value: "a"',
        "siez": "unknown field; did you mean size?",
    }


def test_numbers_beyond_64_bits_are_none() -> None:
    assert "64 bits" in validate(SCHEMA, {"must": "", "size": 2**63})[0].message
    assert "not number" in validate(SCHEMA, {"must": "", "size": 2.5})[0].message
    assert type(with_defaults(SCHEMA, {"share": 2})["share"]) is float


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Nova\nmetadata: {name: n}", "apiVersion: Required value"),
        ("apiVersion: openstack.k8s.io/v1alpha1\nkind: Nova", "metadata: Required value"),
        ("apiVersion: openstack.k8s.io/v1alpha1\nkind: Nova\nmetadata: {}", "metadata.name: Required value"),
        ("apiVersion: openstack.k8s.io/v1\nkind: Nova\nmetadata: {name: n}", "or openstack.k8s.io/v1alpha1"),
        ("apiVersion: openstack.k8s.io/v1alpha1\nkind: Nvoa\nmetadata: {name: n}", "did you mean Nova"),
        ("apiVersion: 1\nkind: [a]\nmetadata: {name: n}", "kind: must be text, not array"),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: plain text}", "data.a: is not base64"),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: 1}", "must be text, not integer"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 5}", "must be text, not integer; put it into quotes"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, label: {}}", "metadata.label: unknown field"),
        (
            "apiVersion: openstack.k8s.io/v1alpha1\nkind: Nova\nmetadata: {name: Nova}",
            "metadata.name: use lower case letters",
        ),
    ],
)
def test_required_fields_of_objects_are_checked_offline(text: str, says: str) -> None:
    result = surveyed(text)
    assert any(says in str(error) for error in result.errors), result.findings


@pytest.mark.security
def test_a_secret_in_plain_text_is_not_repeated() -> None:
    result = surveyed("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: hunter2!}")
    assert "hunter2" not in str(result.errors)


def test_a_secret_may_be_empty() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: null}\ndata: {a: null}\nstringData: {b: }\n"
    assert surveyed(text).findings == ()


# Where the user wrote it


CLOUD = "apiVersion: openstack.k8s.io/v1alpha1\nkind: OpenStackControlPlane\nmetadata:\n  name: c\nspec:\n"
PLACEMENT = (
    "apiVersion: openstack.k8s.io/v1alpha1\nkind: Placement\nmetadata:\n  name: p\n"
    "spec: {config: {placement_database: {connection: x}}}\n"
)
C5C3 = "apiVersion: c5c3.io/v1alpha1\nkind: ControlPlane\nmetadata:\n  name: c\nspec:\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            CLOUD + "  nova:\n    config:\n      database:\n        connection: x\n",
            "f.yaml:9: OpenStackControlPlane/c: spec.nova.config.database.connection: ",
        ),
        (
            C5C3 + "  services:\n    nova:\n      config:\n        database:\n          connection: x\n",
            "f.yaml:10: ControlPlane/c: spec.services.nova.config.database.connection: ",
        ),
        (CLOUD + "  release: '1999.1'\n", "f.yaml:6: OpenStackControlPlane/c: spec.release: there is no release"),
        (
            CLOUD + "  glance:\n    release: '1999.1'\n",
            "f.yaml:7: OpenStackControlPlane/c: spec.glance.release: there is no release",
        ),
        (CLOUD + "  mariadb:\n    replicas: 2\n", "f.yaml:7: OpenStackControlPlane/c: spec.mariadb.replicas: "),
        (
            CLOUD + "  cinder:\n    enabled: true\n    backends:\n"
            "    - {name: a, type: lvm}\n    - {name: a, type: lvm}\n",
            "f.yaml:10: OpenStackControlPlane/c: spec.cinder.backends[1]: Duplicate value",
        ),
        (
            CLOUD + "  keystoen:\n    replicas: 1\n",
            "f.yaml:6: OpenStackControlPlane/c: spec.keystoen: unknown field; did you mean keystone",
        ),
    ],
)
def test_errors_are_where_the_user_wrote_what_is_wrong(text: str, says: str) -> None:
    errors = [str(error) for error in surveyed(text).errors]
    assert any(error.startswith(says) for error in errors), errors


def test_refusals_of_plans_are_shown_with_those_of_the_schema() -> None:
    text = CLOUD + (
        "  mariadb: {replicas: 2}\n  keystone: {fernet: {rotationSchedul: '@daily'}}\n"
        "  nova: {config: {database: {connection: x}}}\n"
    )
    assert [error.path for error in surveyed(text).errors] == [
        "spec.mariadb.replicas",
        "spec.keystone.fernet.rotationSchedul",
        "spec.nova.config.database.connection",
    ]


def test_refusals_of_plans_are_shown_beside_fields_of_a_wrong_type() -> None:
    text = CLOUD + (
        "  mariadb: {storageSize: 7}\n"
        "  nova: {replicas: many, config: {database: {connection: x}}}\n"
        "  glance: {release: '1999.1'}\n"
        "  cinder: {enabled: true, backends: [{name: a, type: lvm}, {type: 3}]}\n"
    )
    errors = surveyed(text + "---\n" + PLACEMENT).errors
    assert [error.path for error in errors] == [
        "spec.mariadb.storageSize",
        "spec.nova.replicas",
        "spec.nova.config.database.connection",
        "spec.glance.release",
        "spec.cinder.backends[1].name",
        "spec.cinder.backends[1].type",
        "spec.config.placement_database.connection",
    ]
    without = "(judged without spec.mariadb.storageSize and 3 more)"
    assert [without in error.message for error in errors] == [False, False, True, True, False, False, False]


def test_a_plan_without_an_invalid_field_says_nothing_about_its_surroundings() -> None:
    text = "apiVersion: openstack.k8s.io/v1alpha1\nkind: Cinder\nmetadata: {name: c}\nspec:\n  backends:\n"
    assert [error.path for error in surveyed(text + "  - {name: a, type: 3}\n").errors] == ["spec.backends[0].type"]


def test_a_reference_to_a_resource_with_an_invalid_field_is_found() -> None:
    wrong = "apiVersion: openstack.k8s.io/v1alpha1\nkind: MariaDB\nmetadata: {name: mariadb}\nspec: {replicas: two}\n"
    alone, both = surveyed(PLACEMENT), surveyed(PLACEMENT + "---\n" + wrong)
    assert "MariaDB/mariadb is missing in the files" in str(alone.warnings)
    assert "MariaDB/mariadb is missing in the files" not in str(both.warnings)


RULED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"on": {"type": "boolean"}}}},
        "first": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
    },
    "x-kubernetes-validations": [
        {"rule": "self.low < self.high", "message": "low is low"},
        {"rule": "self.list.all(each, each.on)", "message": "all are on"},
        {"rule": "self.first.a == 'x'", "message": "a is x"},
        {"rule": "size(self) > 9", "message": "it is large"},
    ],
}


@pytest.mark.parametrize(
    ("malformed", "unasked"),
    [
        ({}, set[str]()),
        ({"low": "x"}, {"low is low", "it is large"}),
        ({"list": [{"on": False}, {"on": "x"}]}, {"all are on", "it is large"}),
        ({"first": {"a": "z", "b": 3}}, {"it is large"}),
        ({"first": "x"}, {"a is x", "it is large"}),
        ({"more": 1}, set[str]()),
    ],
)
def test_rules_are_asked_unless_they_look_at_what_is_malformed(malformed: dict[str, Any], unasked: set[str]) -> None:
    value = {"low": 2, "high": 1, "list": [{"on": False}], "first": {"a": "z"}, **malformed}
    said = {problem.message.removeprefix("Invalid value: ") for problem in validate(RULED, value, RULES)}
    rules = {rule["message"] for rule in RULED["x-kubernetes-validations"]}
    assert said & rules == rules - unasked


def test_all_that_is_wrong_with_a_cloud_is_said_once() -> None:
    text = CLOUD + (
        "  nova: {config: {database: {connection: x}, keystone_authtoken: {password: y}}}\n"
        "  placement: {config: {placement_database: {connection: x}}}\n"
    )
    errors = surveyed(text).errors
    assert {error.path for error in errors} >= {
        "spec.nova.config.database.connection",
        "spec.placement.config.placement_database.connection",
    }
    assert len(errors) == len(set(errors))


# What cannot be known


def test_an_issuers_certificates_are_assumed_and_marked() -> None:
    assumed = surveyed(CLOUD + "  tls:\n    issuerRef: {name: i}\n")
    own = surveyed(CLOUD + "  tls: {enabled: true}\n")
    assert not assumed.errors
    assert assumed.unplanned == 0
    assert {id_ for id_, _ in own.objects} <= {id_ for id_, _ in assumed.objects}
    warnings = [str(each) for each in assumed.warnings]
    assert any(each.startswith("f.yaml:7: warning: ") and "spec.tls.issuerRef: Issuer/i" in each for each in warnings)
    assert any("must serve Certificate (cert-manager.io/v1)" in each for each in warnings)
    secrets = [obj for _, made in assumed.objects for obj in made if obj["kind"] == "Secret"]
    shown = [text for each in secrets for text in secret_data(each).values()]
    assert any(text.startswith("<the certificate keystone-api-tls by Issuer/i>") for text in shown)
    assert not any("stand-in" in json.dumps(secret_data(each)) for each in secrets)
    assert not any(
        "cert-manager" in str(each)
        for each in surveyed(
            CLOUD + "  tls:\n    issuerRef: {name: i}\n", served=["Certificate.cert-manager.io"]
        ).warnings
    )


def test_options_are_judged_at_their_place_in_the_files() -> None:
    text = CLOUD + "  nova:\n    config:\n      DEFAULT:\n        cpu_allocation_ratio: -1\n"
    text += "  glance:\n    config:\n      DEFAULT:\n        debgu: true\n        show_multiple_locations: true\n"
    made = surveyed(text)
    place = "OpenStackControlPlane/c: spec.glance.config.DEFAULT"
    text = "spec.nova.config.DEFAULT.cpu_allocation_ratio: is -1; the option takes a number from 0.0"
    assert [str(each) for each in made.errors] == [f"f.yaml:9: OpenStackControlPlane/c: {text}"]
    unknown, deprecated = map(str, made.warnings)
    text = "Glance 2025.1 ignores it: there is no option 'debgu' in section [DEFAULT]; did you mean debug?"
    assert unknown == f"f.yaml:13: warning: {place}.debgu: {text}"
    assert deprecated.startswith(
        f"f.yaml:14: warning: {place}.show_multiple_locations: will be removed in a later release (deprecated "
        f"since Newton)"
    )


def test_an_error_hides_no_warning_about_the_same_resource() -> None:
    text = CLOUD + "  nova:\n    config:\n      DEFAULT:\n        cpu_allocation_ratio: -1\n        debgu: true\n"
    made = surveyed(text)
    assert len(made.errors) == 1
    assert ["there is no option 'debgu' in section [DEFAULT]" in str(each) for each in made.warnings] == [True]


def test_references_outside_the_files_are_warned_about() -> None:
    text = (
        "apiVersion: openstack.k8s.io/v1alpha1\nkind: Placement\nmetadata: {name: p}\nspec:\n"
        "  database:\n    secretRef: {name: their-db}\n    host: db\n  keystone: {keystoneRef: {name: id}}\n"
    )
    warnings = [str(each) for each in surveyed(text).warnings]
    assert "f.yaml:6: warning: Placement/p: spec.database.secretRef.name: Secret/their-db is missing in the files" in (
        " ".join(warnings)
    )
    assert any("Keystone/id is missing in the files; planned as one with defaults" in each for each in warnings)
    assert all(each.startswith("f.yaml:") for each in warnings)
    with_them = text + (
        "---\napiVersion: v1\nkind: Secret\nmetadata: {name: their-db}\nstringData: {username: a, password: b}\n"
        "---\napiVersion: openstack.k8s.io/v1alpha1\nkind: Keystone\nmetadata: {name: id}\nspec: {}\n"
    )
    said = " ".join(map(str, surveyed(with_them).warnings))
    assert "their-db" not in said
    assert "Keystone/id is in none" not in said


def test_a_resource_that_is_there_twice_is_warned_about() -> None:
    one = "apiVersion: openstack.k8s.io/v1alpha1\nkind: Memcached\nmetadata: {name: m}\nspec: {}\n"
    assert "first at f.yaml:1; the last one is used" in str(surveyed(f"{one}---\n{one}").warnings[0])


def test_kinds_a_plan_asks_for_are_named_unless_said() -> None:
    cloud = CLOUD + "  monitoring: {enabled: true}\n"
    assert any("serves no" in str(each) and "PodMonitor" in str(each) for each in surveyed(cloud).warnings)
    assert not any("serves no" in str(each) for each in surveyed(cloud, served=["none"]).warnings)


def test_all_kinds_a_plan_asks_for_at_once_are_named() -> None:
    keystone = "apiVersion: openstack.k8s.io/v1alpha1\nkind: Keystone\nmetadata: {name: k}\nspec:\n"
    warnings = [str(each) for each in surveyed(f"{keystone}  catalog: {{provider: auto}}\n").warnings]
    (asked,) = (each for each in warnings if "serves no" in each)
    assert all(kind in asked for kind in MANAGED_KINDS), asked
    served = sorted(MANAGED_KINDS)[1:]
    warnings = [str(each) for each in surveyed(f"{keystone}  catalog: {{provider: auto}}\n", served=served).warnings]
    assert any(f"serves no {min(MANAGED_KINDS)};" in each for each in warnings)


# Whatever comes


KEYS = st.sampled_from(["apiVersion", "kind", "metadata", "name", "spec", "items", "data", "stringData", "namespace"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=9)
    | st.sampled_from(
        ["openstack.k8s.io/v1alpha1", "v1", "Nova", "List", "Secret", "OpenStackControlPlane", "NovaList"]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=5),
    max_leaves=12,
)
QUIET = settings(
    deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def judged(loaded: Sequence[Document]) -> Survey:
    return survey(loaded, ReleaseFiles(), namespace="openstack", rules=RULES)


@pytest.mark.security
@given(VALUES)
@QUIET
def test_any_value_is_judged(value: Any) -> None:
    loaded, findings = parse(json.dumps(value).encode(), "f.yaml")
    result = judged(loaded)
    assert value is None or findings or result.findings or result.foreign or result.resources or _is_empty_list(value)
    assert not any("defect of the operator" in str(each) for each in result.findings)


def _is_empty_list(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("kind")).endswith("List")


@pytest.mark.security
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode()))
@QUIET
def test_any_bytes_are_judged(content: bytes) -> None:
    loaded, _ = parse(content, "f.yaml")
    judged(loaded)


SPECS = {
    name: CHECKER.schema(resource)["properties"]["spec"]
    for name in ("Nova", "Cinder", "MariaDB")
    for resource in RESOURCES
    if resource.handle == name
}


@pytest.mark.security
@given(st.data(), st.sampled_from(sorted(SPECS)))
@settings(QUIET, max_examples=examples(40))
def test_any_spec_is_judged(data: st.DataObject, kind: str) -> None:
    fields = st.sampled_from(sorted(SPECS[kind]["properties"]))
    spec = data.draw(st.dictionaries(fields, VALUES, max_size=4))
    loaded, _ = parse(json.dumps(manifest(kind, spec)).encode(), "f.yaml")
    result = judged(loaded)
    assert not any("defect of the operator" in str(each) for each in result.findings), result.findings


# Judgement of the operator


def _written(refusal: Refusal) -> str:
    return yaml.safe_dump_all(refusal.manifests(datetime.now(UTC)))


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_refusals_of_the_operator_are_shown_offline(refusal: Refusal) -> None:
    found = surveyed(_written(refusal))
    findings = found.warnings if refusal.is_warning else found.errors
    assert [(each.path, refusal.words in each.message) for each in findings if each.path == refusal.field] == [
        (refusal.field, True)
    ]
    assert refusal.is_warning or len(found.errors) == 1


def test_a_certificate_is_judged_at_the_present_time_and_printed_at_any() -> None:
    valid = Refusal("own", "MariaDB", {"tls": {"secretRef": {"name": "own"}}}, "", "")
    secret = certificate("own", -timedelta(days=9), timedelta(days=90))(datetime.now(UTC))
    secret["metadata"] = {"name": "own", "namespace": "openstack"}
    text = yaml.safe_dump_all([secret, *valid.manifests(datetime.now(UTC))])
    assert surveyed(text).errors == []
    later = datetime.now(UTC) + timedelta(days=1)
    assert surveyed(text).objects == surveyed(text, now=later).objects
    expired = surveyed(text, now=datetime.now(UTC) + timedelta(days=91))
    assert [each.path for each in expired.errors] == ["spec.tls.secretRef"]


def test_fields_without_effect_are_named() -> None:
    warnings = surveyed(CLOUD + "  glance: {expose: {host: images.example.org}}\n").warnings
    assert [(each.path, each.line) for each in warnings if "expose.type" in each.message] == [
        ("spec.glance.expose.host", 6)
    ]


COMPANY = {"name": "company"}
WITH_AUTHORITIES: dict[str, dict[str, Any]] = {
    "Keystone": {
        "domains": [
            {"name": "a", "ldap": {"url": "ldaps://a.example.org", "userTreeDN": "ou=a,dc=b", "caSecretRef": COMPANY}}
        ]
    },
    "Barbican": {
        "vault": {
            "url": "https://a.example.org",
            "caSecretRef": COMPANY,
            "roleIdRef": {"name": "vault", "key": "role"},
            "secretIdRef": {"name": "vault", "key": "secret"},
        }
    },
    "PKI": {"issuerRef": {"name": "acme"}, "caBundleSecretRef": COMPANY},
    "Horizon": {"otherKeystones": [{"name": "other", "authUrl": "https://a.example.org/v3", "caSecretRef": COMPANY}]},
    "Nova": {
        "scheduler": {
            "externalScheduler": {"enabled": True, "endpoint": "https://a.example.org", "caSecretRef": COMPANY}
        }
    },
    "Designate": {
        "pools": [
            {
                "name": "outside",
                "backend": "external",
                "nsRecords": ["ns.example.org."],
                "external": {
                    "servers": [
                        {
                            "address": "192.0.2.1",
                            "pdns4": {
                                "url": "https://a.example.org",
                                "tokenRef": {"name": "api", "key": "token"},
                                "caSecretRef": COMPANY,
                            },
                        }
                    ]
                },
            }
        ]
    },
}


@pytest.mark.parametrize("kind", WITH_AUTHORITIES)
def test_authorities_in_a_secret_of_no_file_are_no_error(kind: str) -> None:
    manifest = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": kind, "metadata": {"name": "a"}}
    text = yaml.safe_dump({**manifest, "spec": WITH_AUTHORITIES[kind]})
    made = surveyed(text)
    assert made.errors == []
    assert "Secret/company is missing in the files; its values are shown as" in " ".join(map(str, made.warnings))
    secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: company}\nstringData: {other: a}\n"
    assert "Secret 'company' has no key 'ca.crt'" in " ".join(map(str, surveyed(f"{text}{secret}").errors))


@pytest.mark.parametrize("kind", ["PKI", "Horizon", "Keystone"])
def test_authorities_of_no_file_are_printed_as_their_name(kind: str) -> None:
    manifest = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": kind, "metadata": {"name": "a"}}
    printed = surveyed(yaml.safe_dump({**manifest, "spec": WITH_AUTHORITIES[kind]})).render()
    texts = [text for _, objects in printed for each in objects for text in secret_data(each).values()]
    assert any("<company.ca.crt>" in text for text in texts)
    assert not any("stand-in" in text for text in texts)


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("Keystone", {"tls": {"secretRef": COMPANY}}, "spec.tls.secretRef.name"),
        ("HypervisorCluster", {"controlPlaneSecretRef": COMPANY}, "spec.controlPlaneSecretRef.name"),
        ("OVNNetwork", {"external": {"secretRef": COMPANY}}, "spec.external.secretRef.name"),
    ],
)
def test_a_secret_that_nothing_can_stand_for_leaves_its_resource_unplanned(kind: str, spec: Any, field: str) -> None:
    manifest = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    made = surveyed(yaml.safe_dump(manifest))
    assert (made.errors, made.unplanned) == ([], 1)
    text = f"{kind}/a: {field}: Secret/company is missing in the files; {kind}/a cannot be planned without it"
    assert any(text in str(each) for each in made.warnings)
    other = surveyed(yaml.safe_dump({**manifest, "spec": {**spec, "imageProfile": "odd"}}))
    assert "imageProfile" in " ".join(map(str, other.errors)), "other mistakes are found"


def test_a_library_that_cannot_be_loaded_is_absent_at_each_call() -> None:
    code = (
        "from importlib.machinery import ExtensionFileLoader\n"
        "from openstack_operator.cli.offline.rules import RulesUnavailable, evaluator\n"
        "def refuse(self, module):\n    raise ImportError('it is for another processor')\n"
        "ExtensionFileLoader.exec_module = refuse\n"
        "for _ in range(2):\n    try:\n        evaluator()\n    except RulesUnavailable:\n"
        "        print('unavailable')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["unavailable", "unavailable"]
