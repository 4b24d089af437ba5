"""A user's rules for APIs: what reaches a pod, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from oslo_policy import _parser  # pyright: ignore[reportPrivateUsage]

from openstack_operator import kube
from openstack_operator.api import Resource
from openstack_operator.oslo import policies
from openstack_operator.plan import OptionsError, Plan, key
from openstack_operator.registry import SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.neutron.config import POLICIES as NEUTRON_RULES
from openstack_operator.services.nova.config import POLICIES as NOVA_RULES
from openstack_operator.services.placement.model import PlacementSpec
from openstack_operator.testing import context

PUBLISHED = {
    "MariaDB": {"host": "db", "port": "3306"},
    "RabbitMQ": {"host": "mq", "port": "5672"},
    "Memcached": {"servers": "m:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3", "region": "RegionOne"},
    "Glance": {"internalURL": "http://glance-api:9292"},
    "Neutron": {"metadataSecret": "neutron-credentials"},
    "OVNNetwork": {"northbound": "tcp:nb:6641", "southbound": "tcp:sb:6642"},
    "Heat": {"internalURL": "http://heat-api:8004"},
}
SECRETS = {"neutron-credentials": {"metadata": "shared"}}
RULES = {
    "Keystone": "identity:create_user",
    "Glance": "add_image",
    "Placement": "placement:resource_providers:list",
    "Nova": "os_compute_api:servers:create",
    "Neutron": "create_network",
    "Cinder": "volume:create",
    "Heat": "stacks:create",
    "Barbican": "secrets:post",
    "Designate": "create_zone",
    "Octavia": "os_load-balancer_api:loadbalancer:post",
}
SPECS: dict[str, dict[str, Any]] = {
    "Cinder": {"backends": [{"name": "nfs", "driver": "nfs", "nfs": {"shares": ["h:/a"]}}]}
}
RELEASE = ReleaseFiles()(PlacementSpec())
CASE = {"os_compute_api:servers:create": "role:member"}


def planned(kind: str, rules: dict[str, str], **spec: Any) -> Plan:
    [service] = [each for each in SERVICES if each.resource.kind == kind and "c5c3" not in each.resource.group]
    resource: Resource[Any] = service.resource
    given_spec = {**SPECS.get(kind, {}), "policies": rules, **spec}
    return service.plan(context(resource, given_spec, release=RELEASE, published=PUBLISHED, secrets=SECRETS))


def policy(plan: Plan, secret: str) -> dict[str, str]:
    objects = {key(obj): obj for obj in plan.objects}
    return yaml.safe_load(kube.secret_data(objects["Secret", secret]).get("policy.yaml", "{}"))


@pytest.mark.parametrize("kind", RULES)
def test_rules_of_a_user_are_a_file_that_the_api_reads(kind: str) -> None:
    plan = planned(kind, {RULES[kind]: "role:member and project_id:%(project_id)s"})
    assert policy(plan, f"{kind.lower()}-config")[RULES[kind]] == "role:member and project_id:%(project_id)s"
    deployments = {obj["metadata"]["name"]: obj for obj in plan.objects if obj["kind"] == "Deployment"}
    [main, *_] = deployments[f"{kind.lower()}-api"]["spec"]["template"]["spec"]["containers"]
    assert f"/etc/{kind.lower()}/policy.yaml" in {mount["mountPath"] for mount in main["volumeMounts"]}


@pytest.mark.parametrize("kind", RULES)
def test_another_rule_replaces_the_pods_of_the_api(kind: str) -> None:
    def digest(rule: str) -> str:
        [pods] = [
            obj["spec"]["template"]["metadata"]["annotations"]
            for obj in planned(kind, {RULES[kind]: rule}).objects
            if key(obj) == ("Deployment", f"{kind.lower()}-api")
        ]
        return pods[kube.CONFIG_DIGEST]

    assert digest("role:member") != digest("role:reader")


def test_the_operators_own_rules_stay(subtests: pytest.Subtests) -> None:
    for kind, rules in (("Nova", NOVA_RULES), ("Neutron", NEUTRON_RULES)):
        with subtests.test(kind):
            assert (
                policy(planned(kind, {RULES[kind]: "role:member"}), f"{kind.lower()}-config").items() >= rules.items()
            )


def refused(kind: str, rules: dict[str, str], **spec: Any) -> dict[str, str]:
    with pytest.raises(OptionsError) as error:
        planned(kind, rules, **spec)
    return dict(error.value.problems)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("role:member and", "ends where a check is expected"),
        ("role:member role:reader", "has 'role:reader' where `and` or `or` is expected"),
        ("(role:member", "has an unclosed parenthesis"),
        ("role:member)", "has ')' where `and` or `or` is expected"),
        ("member", "'member' is not a check; write kind:value, such as role:member or rule:member"),
        ("'role:member'", "'role:member' is not a check"),
        ("   ", "ends where a check is expected"),
        ("project_id:%(project_id)", "without a substitution"),
        ("project_id:%s", "without a substitution"),
        ("or role:member", "has 'or' where a check is expected"),
        ("(" * 2000, "ends where a check is expected"),
    ],
)
def test_a_rule_that_oslo_policy_does_not_understand_is_refused(rule: str, says: str) -> None:
    """It would refuse everybody, without a word but in the log."""
    [(path, text)] = refused("Nova", {"os_compute_api:servers:create": rule}).items()
    assert path == "spec.policies.os_compute_api:servers:create"
    assert says in text


def test_an_unknown_policy_name_is_refused_with_a_suggestion() -> None:
    [(path, text)] = refused("Nova", {"os_compute_api:server:create": "role:member"}).items()
    assert path == "spec.policies.os_compute_api:server:create"
    assert text == "Nova 2025.1 has no such rule; did you mean os_compute_api:servers:create?"
    [(path, text)] = refused("Nova", {"os_compute_api:servers:create": "rule:project_member_or_admi"}).items()
    assert text.endswith("did you mean project_member_or_admin?")


def test_all_that_is_wrong_is_said_at_once() -> None:
    rules = {"os_compute_api:server:create": "role:member and", "os_compute_api:servers:index": "rule:none-such"}
    with pytest.raises(OptionsError) as error:
        planned("Nova", rules)
    texts = [text for _, text in error.value.problems]
    assert [" ".join(text.split()[:3]) for text in texts] == [
        "oslo.policy cannot parse",
        "Nova 2025.1 has",
        "refers to rule:none-such,",
    ]


def test_a_rule_of_ones_own_is_one_that_another_refers_to() -> None:
    rules = {"os_compute_api:servers:create": "rule:tenants or role:admin", "tenants": "role:member"}
    assert policy(planned("Nova", rules), "nova-config").items() >= rules.items()
    assert "spec.policies.tenants" in refused("Nova", {"tenants": "role:member"})


def test_rules_that_need_each_other_are_refused() -> None:
    rules = {"os_compute_api:servers:create": "rule:a", "a": "role:member or rule:b", "b": "not rule:a"}
    [text] = refused("Nova", rules).values()
    assert re.fullmatch(r"the rule refers to itself: (a → b → a|b → a → b)", text)


@pytest.mark.parametrize("name", NOVA_RULES)
def test_a_rule_that_nodes_need_is_refused(name: str) -> None:
    [text] = refused("Nova", {name: "role:admin"}).values()
    assert text == "the operator sets this rule itself, for programs of this cloud; remove it"


def test_another_file_of_rules_is_refused() -> None:
    config = {"oslo_policy": {"policy_file": "/etc/nova/mine.yaml"}}
    assert "spec.config.oslo_policy.policy_file" in refused("Nova", CASE, config=config)


def test_an_empty_rule_lets_everybody_in() -> None:
    assert policy(planned("Nova", {"os_compute_api:servers:create": ""}), "nova-config")[next(iter(CASE))] == ""


TEXT = """and or not ( ) AND role:a rule:b (role:a role:a) ((role:a) @ ! 'x' "y" is_admin:True 'x':%(a)s x ()
project_id:%(project_id)s (not None:%(a.b)s role:a:b"""
WORDS = st.sampled_from(TEXT.split())


def understood(rule: str) -> bool:
    """Whether oslo.policy's own parser understands a rule; `x` alone is none, which it says in its log only."""
    if not rule:
        return True
    state = _parser.ParseState()
    for token in _parser._parse_tokenize(rule):  # pyright: ignore[reportPrivateUsage]
        state.shift(token)
    try:
        assert state.result
    except ValueError:
        return False
    return True


@given(st.lists(WORDS, max_size=9))
def test_rules_are_read_as_oslo_policy_reads_them(words: list[str]) -> None:
    rule = " ".join(words)
    try:
        policies.checks(rule)
    except policies.RuleError as error:
        assert not understood(rule) or "is not a check" in str(error)
    else:
        assert understood(rule)
        assert "x" not in words
