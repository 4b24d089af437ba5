"""Shared building blocks: passwords kept, layers merged, URLs that survive any password."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator import kube, oslo, parts
from openstack_operator.api import (
    ComponentSettings,
    DatabaseSource,
    MessagingSource,
    NeutronRef,
    Resource,
    Scalable,
    ServiceSpec,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesMessaging,
)
from openstack_operator.parts.component_names import title
from openstack_operator.parts.connect import sources
from openstack_operator.parts.connect.caches import memcached
from openstack_operator.parts.connect.remote import CLEANUP
from openstack_operator.parts.run.config import DIGEST_KEY, is_one_line, layered
from openstack_operator.plan import (
    Context,
    Incomplete,
    Release,
    ReleaseEntry,
    ResolvedRef,
    SpecError,
    State,
    Step,
    progressing,
)
from openstack_operator.testing import context


class WidgetSpec(ServiceSpec, UsesDatabase, UsesMessaging, UsesCache, UsesIdentity):
    """A service that leans on everything."""

    api: Scalable = Scalable()
    """Its API."""


class PlainSpec(ServiceSpec):
    """A service that leans on nothing."""


WIDGET = Resource(kind="Widget", plural="widgets", spec=WidgetSpec)
PLAIN = Resource(kind="Plain", plural="plains", spec=PlainSpec)
CONTRACTS = {
    "MariaDB": {"host": "db", "port": "3306"},
    "RabbitMQ": {"host": "bus", "port": "5672"},
    "Memcached": {"servers": "cache:11211"},
    "Keystone": {"internalURL": "http://keystone:5000/v3"},
}
ENTRY = ReleaseEntry(
    image="widget:1",
    uid=1,
    gid=1,
    commands={"run": ("widget", "--listen", "{listen}", "--threads", "{threads}")},
    env={"IMAGE": "yes"},
)
RELEASE = Release("2025.1", "debian", {"widget-api": ENTRY, "widget-worker": ENTRY})


def widget(spec: dict[str, Any] | None = None, **changes: Any) -> Context[Any]:
    return context(WIDGET, spec, release=RELEASE, published=CONTRACTS, **changes)


def data(step: Step) -> dict[str, str]:
    return kube.secret_data(step.objects[0])


def test_a_foundation_is_what_the_mixins_say() -> None:
    base = parts.foundation(widget())
    assert [step.name for step in base.steps] == ["Credentials", "Database", "Messaging", "Identity"]
    assert set(base.credentials.values) == {"database", "messaging", "identity", "token-cache"}
    assert set(base.sections) >= {"database", "DEFAULT", "oslo_messaging_rabbit", "keystone_authtoken"}
    bare = parts.foundation(context(PLAIN, release=RELEASE), "extra")
    assert [step.name for step in bare.steps] == ["Credentials"]
    assert set(bare.credentials.values) == {"extra"}
    assert (bare.sections, bare.auth, bare.database, bare.messaging) == ({}, {}, None, None)


def test_notifications_go_to_a_virtual_host_of_their_own() -> None:
    spec = {"messaging": {"notificationsRef": {"name": "news"}}}
    base = parts.foundation(widget(spec))
    assert set(base.credentials.values) == {"database", "messaging", "notifications", "identity", "token-cache"}
    made = {step.objects[0]["metadata"]["name"]: step.objects[0]["spec"] for step in base.steps[1:]}
    assert made["widget-notifications"] == {
        "rabbitmqRef": {"name": "news"},
        "vhost": "widget-notifications",
        "user": "widget-notifications",
        "passwordSecretRef": {"name": "widget-credentials", "key": "notifications"},
        "queueLimit": "256Mi",
    }
    sent = base.sections["oslo_messaging_notifications"]
    assert sent["driver"] == "messagingv2"
    assert sent["transport_url"].endswith("@bus:5672/widget-notifications")
    assert "retry" not in sent
    assert parts.foundation(widget()).sections["oslo_messaging_notifications"] == {"driver": "noop"}


def test_an_api_without_rpc_does_not_wait_for_its_notification_broker() -> None:
    text = oslo.options.notifications("rabbit://bus/news", clustered=True)
    assert text["oslo_messaging_notifications"] == {
        "driver": "messagingv2",
        "transport_url": "rabbit://bus/news",
        "retry": 2,
    }
    assert "DEFAULT" not in text
    assert text["oslo_messaging_rabbit"].items() >= oslo.options.CLUSTERED.items()


def test_clients_of_several_members_notice_within_seconds_that_one_is_silent() -> None:
    def rabbit(**more: str) -> dict[str, Any]:
        contracts = {**CONTRACTS, "RabbitMQ": {**CONTRACTS["RabbitMQ"], **more}}
        return parts.foundation(context(WIDGET, release=RELEASE, published=contracts)).sections["oslo_messaging_rabbit"]

    alone, several = rabbit(), rabbit(clustered="true")
    assert alone["rabbit_quorum_queue"], "or a cloud could not get further members of its broker"
    assert {name: value for name, value in several.items() if name not in alone} == {
        "heartbeat_timeout_threshold": 5,
        "kombu_reconnect_delay": 0.1,
        "rabbit_transient_quorum_queue": True,
    }


def test_a_schema_needs_the_database_alone() -> None:
    base = parts.foundation(widget())
    assert [step.name for step in base.schema] == ["Credentials", "Database"]


def test_a_new_password_leaves_the_others() -> None:
    held = kube.secret(widget(), "widget-credentials", {"database": "old", "unused": "kept"})
    ctx = widget(children={("Secret", "widget-credentials"): held}, draw=lambda: "new")
    creds = parts.credentials(ctx, "database", "cell2")
    assert data(creds) == {"database": "old", "unused": "kept", "cell2": "new"}
    assert creds.guarded
    assert creds.ref("cell2") == {"name": "widget-credentials", "key": "cell2"}


def test_an_empty_password_is_drawn_again() -> None:
    held = kube.secret(widget(), "widget-credentials", {"database": ""})
    ctx = widget(children={("Secret", "widget-credentials"): held}, draw=lambda: "new")
    assert parts.credentials(ctx, "database")["database"] == "new"


def test_known_values_stand_beside_drawn_ones() -> None:
    creds = parts.credentials(widget(draw=lambda: "new"), "root", extra_values={"user": "root"}, retain=True)
    assert data(creds) == {"root": "new", "user": "root"}
    marks = {kube.RETAIN: "true", kube.REMEMBERED: "true"}
    assert creds.objects[0]["metadata"]["annotations"].items() >= marks.items()


def test_passwords_that_somebody_deletes_come_back() -> None:
    lost = {"widget-credentials": kube.secret(widget(), "widget-credentials", {"database": "old"})}
    ctx = replace(widget(draw=lambda: "new"), deleted_secrets=lost)
    assert data(parts.credentials(ctx, "database")) == {"database": "old"}
    emptied = {("Secret", "widget-credentials"): kube.secret(widget(), "widget-credentials", {})}
    taken_out = replace(ctx, children=emptied)
    assert data(parts.credentials(taken_out, "database")) == {"database": "new"}


@pytest.mark.security
@pytest.mark.parametrize("key", ["database", "database.a", "database.b"])
@pytest.mark.parametrize("value", ["old\r[DEFAULT]", "old\nevil = 1", "old\n"])
def test_a_password_of_several_lines_is_refused(key: str, value: str) -> None:
    stored = kube.secret(widget(), "widget-credentials", {"database": "old", "notes": "several\nlines", key: value})
    ctx = widget(children={("Secret", "widget-credentials"): stored})
    with pytest.raises(Incomplete, match=f"key '{key}' of Secret 'widget-credentials' must be a single line; remove"):
        parts.credentials(ctx, "database", rotates=True)
    with pytest.raises(Incomplete, match="; restore the previous value"):
        parts.credentials(ctx, "database", of_data=True)
    parts.credentials(ctx, "data")


@given(st.text(min_size=1, max_size=40))
def test_urls_survive_any_password(password: str) -> None:
    ctx = widget(draw=lambda: password)
    creds = parts.credentials(ctx, "database", "messaging")
    database = sources.database(ctx, creds, "database", "widget", source=DatabaseSource())
    bus = sources.messaging(ctx, creds, "messaging", source=MessagingSource())
    for url, host, port in ((database.url, "db", 3306), (bus.url, "bus", 5672)):
        parsed = urlsplit(url)
        assert (parsed.hostname, parsed.port) == (host, port)
        assert unquote(parsed.password or "") == password


def test_external_objects_have_a_cleanup_finalizer() -> None:
    checks = 0
    base = parts.foundation(widget())
    for step in base.steps[1:]:
        checks += 1
        assert step.objects[0]["metadata"]["finalizers"] == [CLEANUP]
        assert base.credentials in step.after
    assert checks


def test_configuration_has_three_layers() -> None:
    ctx = widget({"config": {"a": {"defaulted": "user", "own": 1}}})
    conf = parts.config(ctx, "widget.conf", {"a": {"fixed": "f"}}, defaults={"a": {"defaulted": "d", "other": "o"}})
    text = data(conf)["widget.conf"]
    assert oslo.render({"a": {"defaulted": "user", "other": "o", "own": 1, "fixed": "f"}}) in text
    assert (conf.secret, conf.directory) == ("widget-config", "/etc/widget")


def test_every_fixed_option_that_is_set_is_named() -> None:
    ctx = widget({"config": {"a": {"x": 1, "y": 2}, "b": {"z": 3}}})
    with pytest.raises(SpecError, match=r"^spec.config.a.x: the operator sets a.x, b.z itself"):
        parts.config(ctx, "widget.conf", {"a": {"x": 0}, "b": {"z": 0}})


@pytest.mark.parametrize(("section", "option"), [("Database", "connection"), ("DATABASE", "connection")])
def test_another_spelling_of_a_wired_option_is_refused_too(section: str, option: str) -> None:
    with pytest.raises(SpecError, match=f"spec.config.{section}.{option}: the operator sets"):
        parts.options(widget({"config": {section: {option: "mine"}}}), {"database": {"connection": "ours"}})
    with pytest.raises(SpecError, match=r"spec\.config\.a\.b-c: the operator sets"):
        parts.options(widget({"config": {"a": {"b-c": 1}}}), {"a": {"b_c": 2}})


def test_a_release_has_other_defaults_and_lacks_options() -> None:
    of_release = {
        "widget": {"a": {"x": "of release", "y": "of release", "z": None}, "b": {"z": None}},
        "gadget": {"a": {"w": 1}},
    }
    ctx = context(
        WIDGET,
        {"config": {"a": {"x": "user's"}}},
        release=Release("2025.1", "debian", RELEASE.components, defaults=of_release),
        published=CONTRACTS,
    )
    sections = parts.options(ctx, {"b": {"z": "fixed", "v": "fixed"}}, defaults={"a": {"y": "usual", "z": "usual"}})
    assert sections["a"] == {"x": "user's", "y": "of release"}
    assert sections["b"] == {"v": "fixed"}


@pytest.mark.security
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"a]\n[database": {"connection": "mine"}}, "not a section name"),
        ({"": {"x": 1}}, "not a section name"),
        ({" database": {"connection": "mine"}}, "not a section name"),
        ({"a": {"x\n[database]\nconnection": "mine"}}, "not an option name"),
        ({"a": {"x=y": "mine"}}, "not an option name"),
        ({"a": {"x": {"y": 1}}}, r"spec\.config\.a\.x: not a value"),
        ({"a": {"x": [["y"]]}}, r"spec\.config\.a\.x: not a value"),
        ({"a": {"x": None}}, r"spec\.config\.a\.x: not a value"),
        ({"a": {"x": "1\r[database]\rconnection = mine"}}, r"spec\.config\.a\.x: holds a control character"),
        ({"a": {"x": ["1", "2\x85connection = mine"]}}, r"spec\.config\.a\.x: holds a control character"),
        ({"a": {"x\x0b": 1}}, "not an option name"),
        ({"a\x1c[database": {"x": 1}}, "not a section name"),
    ],
)
def test_unwritable_options_are_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parts.options(widget({"config": config}), {"database": {"connection": "ours"}})


@pytest.mark.security
@given(st.text(alphabet=st.characters(max_codepoint=0x2030), max_size=40))
def test_no_value_begins_an_option_of_its_own(value: str) -> None:
    try:
        sections = layered({}, {"a": {"x": value}}, {})
    except SpecError:
        return
    # Python's lines end wherever those of any reader of configuration do.
    head, first, *rest = oslo.render(sections).splitlines()
    assert (head, first[:4]) == ("[a]", "x = ")
    assert all(line.startswith("  ") for line in rest if line)
    if is_one_line(value):
        assert rest in ([], [""])


def test_a_section_may_bear_what_services_call_theirs() -> None:
    config = {"filter:authtoken": {"paste.filter_factory": "x"}, "workarounds": {"a": ["b", "c"]}, "a b": {"c": 1.5}}
    assert parts.options(widget({"config": config}), {})["filter:authtoken"] == {"paste.filter_factory": "x"}


def conf(ctx: Context[Any], **options: Any) -> parts.Config:
    return parts.config(ctx, "widget.conf", {"a": options})


@pytest.mark.security
def test_configuration_digest_does_not_reveal_a_password() -> None:
    """Who may read pods, but no Secrets, knows all of a file but the password that a user chose."""
    ctx = widget()
    one = conf(replace(ctx, draw=lambda: "one"), password="secret")
    other = conf(replace(ctx, draw=lambda: "other"), password="secret")
    assert one.digest != other.digest
    assert len(one.digest) * 4 == 64, "bits"
    (secret,) = one.objects
    assert kube.secret_data(secret)[DIGEST_KEY] == "one"
    assert DIGEST_KEY not in one.files


def test_the_key_of_a_digest_stays() -> None:
    """Another one would replace all pods."""
    first = conf(replace(widget(), draw=lambda: "first"), x=1)
    (secret,) = first.objects
    name = secret["metadata"]["name"]
    later = replace(widget(), draw=lambda: "later")
    assert conf(replace(later, children={("Secret", name): secret}), x=1).digest == first.digest
    assert conf(replace(later, deleted_secrets={name: secret}), x=1).digest == first.digest
    assert conf(replace(later, children={("Secret", name): secret}), x=2).digest != first.digest


def test_a_job_follows_its_work_and_not_its_configuration() -> None:
    ctx = widget()
    one = parts.job(ctx, "db-sync", ["sync"], conf(ctx, x=1))
    other = parts.job(ctx, "db-sync", ["sync"], conf(ctx, x=2))
    again = parts.job(ctx, "db-sync", ["sync", "--again"], conf(ctx, x=1))
    assert one.objects == other.objects
    assert one.objects != again.objects
    assert one.barrier
    assert one.name == "DBSync"


def test_an_api_is_pods_an_address_and_protection() -> None:
    ctx = widget({"replicas": 2})
    api = parts.api(
        ctx,
        "api",
        8000,
        conf(ctx),
        settings=ComponentSettings(replicas=3),
        program=parts.ProgramSettings(workers=parts.Workers(threads=1)),
    )
    kinds = [obj["kind"] for obj in api.objects]
    assert kinds == ["Deployment", "Service", "PodDisruptionBudget"]
    deployment = api.objects[0]
    assert deployment["spec"]["replicas"] == 3
    main = deployment["spec"]["template"]["spec"]["containers"][0]
    assert main["command"] == ["widget", "--listen", "0.0.0.0:8000", "--threads", "1"]
    assert main["readinessProbe"]["httpGet"]["path"] == "/healthcheck"
    # Being busy is no reason to be killed.
    assert "httpGet" not in main["livenessProbe"]
    assert api.internal == "http://widget-api.openstack.svc.cluster.local:8000"
    assert api.published == {"internalURL": api.internal, "publicURL": api.internal}


def placement(step: Step) -> dict[str, Any]:
    return step.objects[0]["spec"]["template"]["spec"]


@pytest.mark.parametrize("stable", [True, False])
def test_a_single_worker_is_placed_anywhere_and_two_are_spread(stable: bool) -> None:
    ctx = widget()
    one, two = (
        parts.worker(
            ctx,
            "worker",
            conf(ctx),
            settings=ComponentSettings(replicas=replicas),
            program=parts.ProgramSettings(stable=stable),
        )
        for replicas in (1, 2)
    )
    assert [obj["kind"] for obj in two.objects[1:]] == ["PodDisruptionBudget"]
    assert len(one.objects) == 1
    assert not {"affinity", "tolerations"} & set(placement(one))
    assert "podAntiAffinity" in placement(two)["affinity"]
    # A pod of a StatefulSet is made anew only when it is known to be gone: giving up on its node gains nothing.
    assert ("tolerations" in placement(two)) is not stable


SCALED = {"api": {"resources": {"requests": {"cpu": "500m"}}, "autoscaling": {"maxReplicas": 5}}}


def scaled(**children: Any) -> tuple[Any, dict[str, Any]]:
    """The replicas written of an autoscaled API, and its autoscaler."""
    found = {(kind, "widget-api"): live for kind, live in children.items()}
    ctx = widget(SCALED, children=found)
    api = parts.api(ctx, "api", 8000, conf(ctx), settings=ctx.spec.api)
    assert "podAntiAffinity" in placement(api)["affinity"]
    return api.objects[0]["spec"].get("replicas"), api.objects[-1]


def test_an_autoscaler_starts_from_what_runs_and_is_then_left_alone() -> None:
    replicas, autoscaler = scaled()
    assert replicas == 2
    assert autoscaler["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "widget-api"}
    assert (autoscaler["spec"]["minReplicas"], autoscaler["spec"]["maxReplicas"]) == (2, 5)
    live = {"spec": {"replicas": 3}}
    assert scaled(Deployment=live)[0] == 3
    assert scaled(Deployment={"spec": {"replicas": 9}})[0] == 5
    # Not before it has written a number: a field nobody has written would fall back to one pod.
    assert scaled(Deployment=live, HorizontalPodAutoscaler={"status": {"currentReplicas": 3}})[0] == 3
    wrote = {"status": {"lastScaleTime": "2026-01-01T00:00:00Z"}}
    assert scaled(Deployment=live, HorizontalPodAutoscaler=wrote)[0] is None
    assert scaled(HorizontalPodAutoscaler=wrote)[0] == 2


def test_an_api_that_is_not_exposed_stays_inside() -> None:
    ctx = widget({"expose": {"type": "LoadBalancer", "host": "h"}})
    api = parts.api(ctx, "api", 8000, conf(ctx), settings=None, program=parts.ProgramSettings(exposed=False))
    assert api.objects[1]["spec"]["type"] == "ClusterIP"
    assert api.public == api.internal


def test_a_worker_may_bear_another_name_than_its_program() -> None:
    ctx = widget()
    worker = parts.worker(ctx, "worker", conf(ctx), settings=None, name="cell1-worker")
    assert worker.objects[0]["metadata"]["name"] == "widget-cell1-worker"
    assert worker.name == "Cell1Worker"


def test_an_unknown_program_is_the_profiles_fault() -> None:
    with pytest.raises(SpecError, match=r"spec.imageProfile: release 2025.1 has no 'widget-agent'"):
        parts.release_entry(widget(), "agent")


def test_required_readiness_of_another_resource_is_a_step() -> None:
    ref = NeutronRef(name="neutron")
    ctx: Context[Any] = Context(
        kind="Widget",
        owner="widget",
        namespace="openstack",
        spec=WidgetSpec(),
        release=RELEASE,
        refs={cast("Any", ref): ResolvedRef({}, progressing("not yet"))},
    )
    step = sources.requires(ctx, "Neutron", ref)
    assert step.objects == ()
    assert step.verdict is not None
    assert step.verdict.state is State.PROGRESSING


def test_only_a_service_with_a_cache_is_told_of_it() -> None:
    assert memcached(widget()).servers == "cache:11211"
    assert memcached(context(PLAIN, release=RELEASE)).servers == ""


@pytest.mark.parametrize(
    ("component", "condition"),
    [("api", "API"), ("db-sync", "DBSync"), ("ovn-maintenance-worker", "OVNMaintenanceWorker"), ("nb", "NB")],
)
def test_titles(component: str, condition: str) -> None:
    assert title(component) == condition


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,90}[a-z0-9])?", fullmatch=True))
def test_a_name_becomes_an_sql_identifier(name: str) -> None:
    found = sources.sql_name(name)
    assert len(found) <= 64
    assert found.replace("_", "a").isalnum()
