"""The condition on options in `config`: values that programs take, names that they know, and names that go."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from images import options
from openstack_operator.kube import FIELD
from openstack_operator.plan import CONFIG_VALID, FIELDS_IGNORED, Context, OptionsError, Release, State, Verdict
from openstack_operator.registry import SERVICES
from openstack_operator.testing import context

BY_HANDLE = {each.resource.handle: each for each in SERVICES}
OPTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "placement": {
        "DEFAULT": {
            "debug": {"type": "Boolean", "mutable": True},
            "ratio": {"type": "Float", "min": 0.0},
            "level": {"type": "String", "choices": ["INFO", "DEBUG"]},
            "levels": {"type": "List", "item_type": {"type": "String"}},
            "names": {"type": "MultiString", "multi": True},
            "key": {"type": "Integer", "secret": True},
            "old_ratio": {"now": ["DEFAULT", "ratio"]},
            "max_candidates": {"now": ["placement", "max_candidates"]},
            "lazy": {"type": "Boolean", "removal": "It does nothing.", "since": "2024.1"},
            "slow": {"type": "Boolean", "removal": ""},
            "odd": {},
        },
        "placement": {"max_candidates": {"type": "Integer", "min": -1}},
        "api": {"auth_type": {}},
        "(auth plugin)": {"password": {}},
    },
    "keystone": {"ldap": {"page_size": {"type": "Integer"}}},
    "glance": {"ceph": {"timeout": {"type": "Integer"}}},
    "cinder": {
        "DEFAULT": {"debug": {"type": "Boolean"}},
        "backend_defaults": {"reserved_percentage": {"type": "Integer", "min": 0, "max": 100}},
    },
}
DIRECTORY = {"url": "ldaps://ldap.example.org", "userTreeDN": "ou=people,dc=example,dc=org"}


def listed(release: Release) -> Release:
    """The release with those options."""
    lists = {
        service: {
            section: {name: json.dumps(details) if details else "" for name, details in names.items()}
            for section, names in sections.items()
        }
        for service, sections in OPTIONS.items()
    }
    return replace(release, options=lists)


def check(release: Release, spec: Mapping[str, Any], kind: str = "Placement") -> Verdict | None:
    """The condition, before anything is planned. Raises OptionsError."""
    service = BY_HANDLE[kind]
    ctx: Context[Any] = context(service.resource, spec, release=listed(release))
    return {name: verdict for function in service.checks for name, verdict in function(ctx).items()}.get(CONFIG_VALID)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"DEFAULT": {"debug": True, "ratio": 1.5, "level": "INFO", "levels": "a,b", "names": ["a", "b"], "odd": "x"}},
        {"DEFAULT": {"debug": "Yes", "ratio": "16", "levels": ["a"], "key": "5"}},
        # An empty value is none, and one with another option's is known to the program alone.
        {"DEFAULT": {"ratio": "", "level": "$names"}},
        {"API": {"auth-type": "password", "password": "x"}},
    ],
)
def test_options_that_programs_take_are_valid(config: dict[str, Any], release: Release) -> None:
    assert check(release, {"config": config}) == Verdict(State.READY, "", "OptionsValid")


@pytest.mark.parametrize(
    ("section", "option", "value", "text"),
    [
        ("DEFAULT", "ratio", -1, "is -1; the option takes a number from 0.0"),
        ("DEFAULT", "debug", "maybe", "is 'maybe'; the option takes true or false"),
        ("DEFAULT", "level", True, "is true; the option takes one of INFO, DEBUG"),
        ("DEFAULT", "level", ["INFO", "DEBUG"], "has 2 values; the option takes one of INFO, DEBUG, in one line"),
        (
            "DEFAULT",
            "levels",
            ["a", "b"],
            "has 2 values; the option takes items with commas between them, in one line",
        ),
        ("DEFAULT", "key", "s3cret", "is not a value of this option, which takes a whole number"),
        ("placement", "max-candidates", 1.5, "is 1.5; the option takes a whole number from -1"),
        # By its old name, too.
        ("DEFAULT", "old_ratio", "x", "is 'x'; the option takes a number from 0.0"),
    ],
)
def test_a_value_that_no_program_takes_is_refused(
    section: str, option: str, value: Any, text: str, release: Release
) -> None:
    with pytest.raises(OptionsError) as error:
        check(release, {"config": {section: {option: value}}})
    assert str(error.value) == f"spec.config.{section}.{option}: {text}"
    assert {name: (each.state, each.reason) for name, each in error.value.verdicts.items()} == {
        "Ready": (State.FAILED, "InvalidSpec"),
        CONFIG_VALID: (State.FAILED, "InvalidOptions"),
    }


def test_all_wrong_values_are_named_at_once(release: Release) -> None:
    with pytest.raises(OptionsError) as error:
        check(release, {"config": {"DEFAULT": {"ratio": -1, "debug": 5}}})
    assert [path for path, _ in error.value.problems] == ["spec.config.DEFAULT.ratio", "spec.config.DEFAULT.debug"]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("old_ratio", "is deprecated and will be removed; use ratio"),
        (
            "max_candidates",
            "is deprecated and will be removed; use max_candidates in section [placement]",
        ),
        ("lazy", "will be removed in a later release (deprecated since 2024.1): It does nothing."),
        ("slow", "will be removed in a later release"),
    ],
)
def test_an_option_that_goes_is_named_with_what_to_use(option: str, text: str, release: Release) -> None:
    value = True if option in {"lazy", "slow"} else 5
    expected = Verdict(State.READY, f"spec.config.DEFAULT.{option}: {text}", "DeprecatedOptions")
    assert check(release, {"config": {"DEFAULT": {option: value}}}) == expected


@pytest.mark.parametrize(
    ("config", "place", "text"),
    [
        ({"DEFAULT": {"debgu": True}}, "DEFAULT.debgu", "no option 'debgu' in section [DEFAULT]; did you mean debug?"),
        ({"placment": {"a": 1}}, "placment", "no section [placment]; did you mean [placement]?"),
        (
            {"api": {"max_candidates": 5}},
            "api.max_candidates",
            "no option 'max_candidates' in section [api]; did you mean max_candidates in section [placement]?",
        ),
    ],
)
def test_an_option_that_no_program_knows_is_named_with_the_nearest_one(
    config: dict[str, Any], place: str, text: str, release: Release
) -> None:
    message = f"spec.config.{place}: Placement {release.name} ignores it: there is {text}"
    assert check(release, {"config": config}) == Verdict(State.READY, message, "UnknownOptions")


def test_hundreds_of_unknown_options_are_counted_and_few_are_compared(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []

    def search(name: str, *_: object, n: int) -> list[str]:
        searched.append(name)
        return ["debug"][:n]

    monkeypatch.setattr(difflib, "get_close_matches", search)
    config = {"DEFAULT": {f"debug{index}": 1 for index in range(200)}} | {f"s{index}": {"a": 1} for index in range(200)}
    verdict = check(release, {"config": config})
    assert verdict
    assert len(searched) == 20
    assert verdict.message.count("did you mean debug?") == 20
    assert verdict.message.endswith("; and 380 more, which `openstack-operator validate` names")


@pytest.mark.security
def test_a_long_wrong_name_leaves_room_for_the_others(release: Release) -> None:
    config = {f"{index}{'s' * 5000}": {"a": 1} for index in range(3)} | {
        "DEFAULT": {"o" * 5000: 1, "debug": "$" + "n" * 900}
    }
    verdict = check(release, {"config": config})
    assert verdict
    assert all(f"there is no section [{index}s" in verdict.message for index in range(3))
    assert "there is no option 'ooo" in verdict.message
    assert len(verdict.message) < 2048


@pytest.mark.security
def test_a_value_with_thousands_of_names_is_reported_for_a_few(release: Release) -> None:
    value = " ".join(f"$n{index}" for index in range(5000))
    verdict = check(release, {"config": {"DEFAULT": {"odd": value}}})
    assert verdict
    assert verdict.message.count("missing option") == 5


@pytest.mark.security
def test_a_condition_names_some_wrong_values_and_counts_the_others() -> None:
    error = OptionsError(
        *(problems := [(f"spec.config.a.o{index}", "is wrong") for index in range(25)])[0], *problems[1:]
    )
    for verdict in error.verdicts.values():
        assert verdict.message.count("is wrong") == 20
        assert verdict.message.endswith("; and 5 more, which `openstack-operator validate` names")
    assert str(error).count("is wrong") == 25


@pytest.mark.security
@pytest.mark.parametrize(
    "value",
    [
        "mysql://user:hidden@host/db",
        "mysql://user:hid den@host/db",
        "user:hidden@host",
        "https://hidden@host",
        "[('a', 'rabbit://b:hidden@c')]",
        "mysql://user:pa$hidden@host",
    ],
)
@pytest.mark.parametrize("option", ["ratio", "level", "debug", "odd"])
def test_no_message_has_a_login_in_it(option: str, value: str, release: Release) -> None:
    try:
        verdict = check(release, {"config": {"DEFAULT": {option: value}}})
        text = verdict.message if verdict else ""
    except OptionsError as error:
        text = str(error)
    assert "hid" not in text and "den@" not in text


def test_a_value_of_a_secret_option_is_not_shown(release: Release) -> None:
    lists = {"placement": {"DEFAULT": {"a_password": json.dumps({"type": "Integer"})}}}
    service = BY_HANDLE["Placement"]
    ctx: Context[Any] = context(
        service.resource, {"config": {"DEFAULT": {"a_password": "hidden"}}}, release=replace(release, options=lists)
    )
    with pytest.raises(OptionsError, match="is not a value of this option"):
        service.make_plan(ctx)


def test_options_of_hypervisors_elsewhere_are_those_of_nova(release: Release) -> None:
    options_of_nova = {"nova": {"compute": {"resource_provider_association_refresh": json.dumps({"type": "Integer"})}}}
    service = BY_HANDLE["HypervisorCluster"]
    spec = {
        "controlPlaneSecretRef": {"name": "a"},
        "config": {"compute": {"resource_provider_association_refresh": "soon"}},
    }
    ctx: Context[Any] = context(service.resource, spec, release=replace(release, options=options_of_nova))
    (check_of_options,) = [each for each in service.checks if each.__name__ == "check_options"]
    with pytest.raises(OptionsError, match="takes a whole number"):
        check_of_options(ctx)
    unknown: Context[Any] = context(
        service.resource,
        {**spec, "config": {"compute": {"unheard_of": 1}}},
        release=replace(release, options=options_of_nova),
    )
    verdict = check_of_options(unknown)[CONFIG_VALID]
    assert f"Nova {release.name} ignores it" in verdict.message


def test_an_option_that_only_the_release_before_had_is_refused(release: Release) -> None:
    earlier = {"placement": {"DEFAULT": {"use_stderr": "", "debug": ""}, "wsgi": {"keep_alive": ""}}}
    renewed = replace(listed(release), name="2025.2", earlier_options=earlier)
    service = BY_HANDLE["Placement"]
    config = {"DEFAULT": {"use-stderr": True, "debug": True}, "wsgi": {"keep_alive": True}}
    ctx: Context[Any] = context(service.resource, {"config": config}, release=renewed)
    text = "Placement 2025.2 no longer has this option; remove it"
    with pytest.raises(OptionsError) as error:
        service.make_plan(ctx)
    assert error.value.problems == (
        ("spec.config.DEFAULT.use-stderr", text),
        ("spec.config.wsgi.keep_alive", text),
    )


@pytest.mark.parametrize(
    ("option", "value", "name"),
    [
        ("level", "pa$word", "$word"),
        ("levels", ["a", "${placement.nothing}"], "$placement.nothing"),
        ("key", "pa$word", "a name behind a dollar sign"),
        ("odd", "$debug $DEFAULT.debug ${placement.max_candidates} $$word \\$word $", ""),
    ],
)
def test_a_dollar_sign_that_refers_to_no_option_is_named(option: str, value: Any, name: str, release: Release) -> None:
    verdict = check(release, {"config": {"DEFAULT": {option: value[-1:] if isinstance(value, list) else value}}})
    text = f"spec.config.DEFAULT.{option}: refers to the missing option {name}"
    assert verdict
    assert verdict.message.startswith(text) if name else (verdict.message, verdict.reason) == ("", "OptionsValid")


def test_options_of_a_backend_are_those_of_drivers(release: Release) -> None:
    backend = {"name": "debug", "driver": "a.Driver", "options": {"reserved_percentage": 101}}
    with pytest.raises(OptionsError) as error:
        check(release, {"backends": [backend]}, "Cinder")
    assert str(error.value) == (
        "spec.backends[0].options.reserved_percentage: is 101; the option takes a whole number from 0 to 100"
    )
    # Its section in config is left alone.
    verdict = check(release, {"backends": [backend | {"options": {}}], "config": {"debug": {"x": 1}}}, "Cinder")
    assert verdict == Verdict(State.READY, "", "OptionsValid")


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Keystone", {"domains": [{"name": "ldap", "ldap": DIRECTORY, "config": {"ldap": {"page_size": "many"}}}]}),
        ("Keystone", {"domains": [{"name": "ldap", "ldap": DIRECTORY}], "config": {"ldap": {"page_size": "many"}}}),
    ],
)
def test_the_section_of_another_name_in_the_spec_is_checked(kind: str, spec: dict[str, Any], release: Release) -> None:
    with pytest.raises(OptionsError):
        check(release, spec, kind)


def test_the_section_of_a_store_is_left_alone(release: Release) -> None:
    storage = {"backends": [{"name": "ceph", "type": "pvc"}]}
    verdict = check(release, {"storage": storage, "config": {"ceph": {"timeout": "long"}}}, "Glance")
    assert verdict == Verdict(State.READY, "", "OptionsValid")


def test_nothing_is_planned_of_what_is_refused(release: Release) -> None:
    service = BY_HANDLE["Placement"]
    ctx: Context[Any] = context(service.resource, {"config": {"DEFAULT": {"ratio": -1}}}, release=listed(release))
    with pytest.raises(OptionsError):
        service.make_plan(ctx)


def test_a_kind_without_a_list_has_no_such_condition(release: Release) -> None:
    assert check(release, {"config": {"mysqld": {"max_connections": "many"}}}, "MariaDB") is None


@pytest.mark.parametrize(
    ("status", "reason", "state"),
    [("True", "DeprecatedOptions", State.READY), ("False", "InvalidOptions", State.FAILED)],
)
def test_a_cloud_tells_what_is_wrong_with_its_own_fields(
    status: str, reason: str, state: State, release: Release
) -> None:
    conditions = [
        {"type": CONFIG_VALID, "status": status, "reason": reason, "message": "spec.config.DEFAULT.lazy: goes"},
        {"type": FIELDS_IGNORED, "status": "True", "reason": "NoEffect", "message": ""},
    ]
    children = {
        ("Placement", name): {
            "apiVersion": "openstack.k8s.io/v1alpha1",
            "kind": "Placement",
            "metadata": {"name": name, "annotations": {FIELD: f"spec.{name}"}},
            "spec": {},
            "status": {"conditions": conditions if name == "placement" else [{**conditions[0], "message": ""}]},
        }
        for name in ("other", "placement")
    }
    service = BY_HANDLE["OpenStackControlPlane"]
    ctx: Context[Any] = context(service.resource, {}, release=release, children=children)
    extra_conditions = service.make_plan(ctx).outcome.extra_conditions
    expected = Verdict(state, "spec.placement.config.DEFAULT.lazy: goes", reason)
    assert (extra_conditions.get(CONFIG_VALID), extra_conditions.get(FIELDS_IGNORED)) == (expected, None)


def test_the_options_of_the_release_are_listed(release: Release) -> None:
    assert set(options.SERVICES) == set(release.options)
    description = json.loads(release.options["nova"]["DEFAULT"]["cpu_allocation_ratio"])
    assert description == {"type": "Float", "min": 0.0}


def test_the_list_has_a_line_for_each_option() -> None:
    text = options.text({"nova": {"DEFAULT": {"b": {"type": "Float", "min": 0.0}, "a": {}}, "api": {}}})
    assert text == '[nova]\nDEFAULT\n  a\n  b {"min":0.0,"type":"Float"}\napi\n'
