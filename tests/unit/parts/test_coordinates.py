"""Servers of others: logged in to as a Secret says, with nothing made there, and what is wrong with it is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from configparser import RawConfigParser
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg

from openstack_operator import kube, oslo, parts
from openstack_operator.api import Dependency, references
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.parts.connect import sources
from openstack_operator.parts.connect.caches import memcached
from openstack_operator.parts.connect.remote import API
from openstack_operator.plan import READY, Context, Incomplete, MissingReference, SpecError, State
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.keystone.model import KEYSTONE as KEYSTONE_KIND
from openstack_operator.testing import context
from tests.unit.parts.test_parts import CONTRACTS, RELEASE, WIDGET, data, widget

LOGIN = {"username": "us/er", "password": "p@ss"}
DATABASE: dict[str, Any] = {"database": {"secretRef": {"name": "db-login"}}}


def elsewhere(spec: dict[str, Any], secrets: Mapping[str, Mapping[str, str]], **changes: Any) -> Context[Any]:
    return widget(spec, secrets=secrets, **changes)


def url(told: Mapping[str, str], **source: Any) -> str:
    ctx = elsewhere({"database": {**DATABASE["database"], **source}}, {"db-login": {**LOGIN, **told}})
    return str(parts.foundation(ctx).sections["database"]["connection"])


def test_a_database_of_others_is_used_and_nothing_is_made_in_it() -> None:
    ctx = elsewhere(DATABASE, {"db-login": LOGIN})
    base = parts.foundation(ctx)
    assert "database" not in base.credentials.values
    assert base.database is not None
    assert [obj["kind"] for obj in base.database.objects] == ["Secret"], "a note of where the schema is"
    assert not [ref for _, ref in references(ctx.spec) if ref.kind == "MariaDB"], "nothing waits for one of ours"
    assert (
        base.sections["database"]["connection"]
        == "mysql+pymysql://us%2Fer:p%40ss@mariadb.openstack.svc.cluster.local:3306/widget?charset=utf8"
    )


def test_the_spec_says_where_it_is_before_the_secret_does() -> None:
    told = {"host": "told", "port": "3307", "database": "named"}
    assert "@told:3307/named?" in url(told)
    assert "@mine:3308/own?" in url(told, host="mine", port=3308, database="own")
    assert "@mine:3307/named?" in url(told, host="mine")


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        ({"password": "x"}, "spec.database.secretRef: key 'username' of Secret 'db-login' is missing"),
        ({"username": "x", "password": ""}, "spec.database.secretRef: key 'password' of Secret 'db-login' is empty"),
        ({**LOGIN, "password": "a\nb"}, "key 'password' of Secret 'db-login' must be a single line"),
        ({**LOGIN, "host": "a b"}, "key 'host' of Secret 'db-login' is not a DNS name"),
        ({**LOGIN, "port": "x"}, "key 'port' of Secret 'db-login' is not a port number"),
        ({**LOGIN, "database": "a?b=c"}, "key 'database' of Secret 'db-login' is not a schema's name"),
    ],
)
def test_problems_of_a_login_secret_are_named(secret: dict[str, str], message: str) -> None:
    with pytest.raises(Incomplete, match=message) as raised:
        parts.foundation(elsewhere(DATABASE, {"db-login": secret}))
    assert not [value for value in secret.values() if value and len(value) > 2 and value in str(raised.value)]


def test_a_secret_that_is_not_there_is_named() -> None:
    with pytest.raises(MissingReference, match=r"spec\.database\.secretRef\.name: there is no Secret 'db-login'"):
        parts.foundation(elsewhere(DATABASE, {}))


@given(st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=40))
def test_urls_survive_what_a_secret_says(text: str) -> None:
    parsed = urlsplit(url({"username": text, "password": text}))
    assert (parsed.hostname, parsed.port) == ("mariadb.openstack.svc.cluster.local", 3306)
    assert (unquote(parsed.username or ""), unquote(parsed.password or "")) == (text, text)


def test_a_schema_is_searched_elsewhere_only_after_a_declared_move() -> None:
    secret = {**LOGIN, "host": "old"}
    first = parts.foundation(elsewhere(DATABASE, {"db-login": secret})).database
    assert first is not None
    known = {("Secret", "widget-db"): first.objects[0]}
    again = parts.foundation(elsewhere(DATABASE, {"db-login": secret}, children=known)).database
    assert again is not None
    assert again.objects == first.objects
    moved = {"db-login": {**LOGIN, "host": "new"}}
    with pytest.raises(SpecError, match=r"the tables are on old:3306/widget, not new:3306/widget; .*'widget-db'"):
        parts.foundation(elsewhere(DATABASE, moved, children=known))
    assert "password" not in data(first)
    assert parts.foundation(elsewhere(DATABASE, moved)).database


@pytest.mark.security
def test_an_authority_is_mounted_without_what_else_is_in_the_secret() -> None:
    secrets = {"db.login": {**LOGIN, "ca.crt": "PEM"}}
    ctx = elsewhere({"database": {"secretRef": {"name": "db.login"}}}, secrets)
    base = parts.foundation(ctx)
    assert base.sections["database"]["connection"].endswith("&ssl_ca=/etc/openstack-trust/db.login/ca.crt")
    (mount,) = parts.config(ctx, "widget.conf", base.sections).extra_mounts
    assert (mount.name, mount.path) == ("trust-db-login", "/etc/openstack-trust/db.login")
    assert mount.volume["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]


def test_a_changed_authority_changes_the_digest_of_its_readers() -> None:
    def digest(authority: str) -> str:
        secrets = {"db-login": {**LOGIN, "ca.crt": authority}}
        return parts.written(elsewhere(DATABASE, secrets), {"a": "b"}, directory="/etc").digest

    assert digest("one") != digest("two")


def test_without_coordinates_everything_is_made() -> None:
    base = parts.foundation(context(WIDGET, release=RELEASE, published=CONTRACTS))
    made = [obj["kind"] for step in base.steps for obj in step.objects]
    assert made == ["Secret", "MariaDBDatabase", "RabbitMQVhost", "KeystoneUser"]
    assert kube.secret_data(base.steps[0].objects[0]).keys() == {"database", "messaging", "identity", "token-cache"}


BROKER: dict[str, Any] = {"secretRef": {"name": "bus"}, "hosts": ["rabbitmq-0.rabbitmq:5672", "rabbitmq-1.rabbitmq"]}


def bus(source: dict[str, Any], **told: str) -> sources.Messaging:
    found = parts.foundation(elsewhere({"messaging": source}, {"bus": {**LOGIN, **told}})).messaging
    assert found is not None
    return found


def test_a_broker_of_others_is_used_at_all_its_members() -> None:
    ctx = elsewhere({"messaging": BROKER}, {"bus": LOGIN})
    base = parts.foundation(ctx)
    assert "messaging" not in base.credentials.values
    assert not [ref for _, ref in references(ctx.spec) if ref.kind == "RabbitMQ"]
    assert base.messaging is not None
    assert base.messaging.objects == ()
    account = "us%2Fer:p%40ss"
    listed = f"{account}@rabbitmq-0.rabbitmq:5672,{account}@rabbitmq-1.rabbitmq:5672"
    assert base.sections["DEFAULT"]["transport_url"] == f"rabbit://{listed}/%2F"
    assert base.sections["oslo_messaging_rabbit"]["heartbeat_timeout_threshold"] == 5, "one that is silent is left"


def test_a_broker_is_where_the_spec_or_the_secret_or_nobody_says() -> None:
    alone: dict[str, Any] = {"secretRef": {"name": "bus"}}
    assert bus(alone).url.endswith("@rabbitmq.openstack.svc.cluster.local:5672/%2F")
    assert bus(alone, host="told", port="5000", vhost="a/b").url.endswith("@told:5000/a%2Fb")
    assert bus({**alone, "hosts": ["mine:5001"]}, host="told").url.endswith("@mine:5001/%2F")
    assert "heartbeat_timeout_threshold" not in bus(alone).options()["oslo_messaging_rabbit"]


@pytest.mark.security
def test_a_broker_is_checked_by_its_authority() -> None:
    assert bus({"secretRef": {"name": "bus"}}, **{"ca.crt": "PEM"}).url.endswith(
        ":5671/%2F?ssl=true&ssl_ca_file=/etc/openstack-trust/bus/ca.crt&ssl_enforce_hostname_verification=true"
    )


def test_a_worker_is_ready_when_it_is_connected_wherever_the_broker_listens() -> None:
    def grep(*hosts: str) -> Sequence[str]:
        return bus({**BROKER, "hosts": list(hosts)}).connected.command[1:3]

    assert grep("a:5672", "b") == parts.foundation(widget()).connected.command[1:3] == ["-qs", ":162[78] 01 "]
    assert grep("a:8080") == ["-Eqs", ":(1F90) 01 "]
    assert grep("a:8080", "b:5671") == ["-Eqs", ":(1F90|162[78]) 01 "]


def test_servers_of_a_cache_are_used_as_they_are() -> None:
    ctx = widget({"cache": {"servers": ["memcached-0.memcached:11211", "memcached-1.memcached"]}})
    assert not [ref for _, ref in references(ctx.spec) if ref.kind == "Memcached"]
    told = parts.foundation(ctx).sections["keystone_authtoken"]
    assert told["memcached_servers"] == "memcached-0.memcached:11211,memcached-1.memcached:11211"


KEYSTONE: dict[str, Any] = {"authUrl": "https://keystone:5000/v3", "appCredentialRef": {"secretName": "login"}}
APP = {"application_credential_id": "abc", "application_credential_secret": "s3cret"}
CLOUDS = (
    "clouds: {openstack: {auth: {auth_url: x, application_credential_id: abc, application_credential_secret: s3cret}}}"
)


def user(secret: dict[str, str], reference: str = "secretName") -> Mapping[str, str]:
    spec = {"keystone": {**KEYSTONE, "appCredentialRef": {reference: "login"}}}
    return parts.foundation(elsewhere(spec, {"login": secret})).auth


@pytest.mark.parametrize("secret", [APP, {"clouds.yaml": CLOUDS}, {"clouds.yaml": CLOUDS.replace("openstack:", "a:")}])
@pytest.mark.parametrize("reference", ["secretName", "name"])
def test_services_log_in_by_an_application_credential(secret: dict[str, str], reference: str) -> None:
    assert user(secret, reference) == {
        "auth_type": "v3applicationcredential",
        "auth_url": "https://keystone:5000/v3",
        "application_credential_id": "abc",
        "application_credential_secret": "s3cret",
        "region_name": "RegionOne",
    }


BY_NAME = {"application_credential_name": "own", "application_credential_secret": "s3cret", "username": "admin"}


@pytest.mark.parametrize("domain", ["", "theirs"])
@pytest.mark.parametrize("in_file", [False, True])
def test_a_credential_may_be_told_by_its_name(domain: str, in_file: bool) -> None:
    """As the operator itself writes the administrator's clouds.yaml."""
    secret = {**BY_NAME, **({"user_domain_name": domain} if domain else {})}
    told = user({"clouds.yaml": yaml.safe_dump({"clouds": {"openstack": {"auth": secret}}})} if in_file else secret)
    assert told == {
        **BY_NAME,
        "user_domain_name": domain or "Default",
        "auth_type": "v3applicationcredential",
        "auth_url": "https://keystone:5000/v3",
        "region_name": "RegionOne",
    }


def test_services_log_in_by_a_password() -> None:
    told = user({**LOGIN, "project_name": "mine"})
    assert (told["auth_type"], told["username"], told["password"]) == ("password", "us/er", "p@ss")
    assert (told["project_name"], told["user_domain_name"]) == ("mine", "Default")


def read(section: Mapping[str, Any], option: str, path: Path) -> str:
    """Return the option as a program reads it."""
    file = path / "service.conf"
    file.write_text(oslo.render({"service": section}), encoding="utf-8")
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.StrOpt(option), group="service")
    conf([], default_config_files=[str(file)], default_config_dirs=[])
    return conf["service"][option]


PASSWORD = '"pa$$wo\\$rd"'
"""A password of a user, with everything that has a meaning to oslo.config."""


def test_a_program_reads_the_password_that_a_user_chose(tmp_path: Path) -> None:
    theirs = user({**LOGIN, "password": PASSWORD})
    assert theirs["password"] == PASSWORD, "stores that are no option of oslo.config take it as it is"
    assert read(theirs, "password", tmp_path) == PASSWORD
    by_id = user({**APP, "application_credential_secret": PASSWORD})
    assert read(by_id, "application_credential_secret", tmp_path) == PASSWORD
    children = {
        ("Secret", f"{widget().owner}-credentials"): kube.secret(
            widget({}), f"{widget().owner}-credentials", {"identity": PASSWORD}
        )
    }
    sections = parts.foundation(widget({}, children=children)).sections
    assert read(sections["keystone_authtoken"], "password", tmp_path) == PASSWORD


@pytest.mark.parametrize("login", [{}, {"appCredentialRef": {}}])
def test_an_external_keystone_without_a_login_is_refused(login: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"spec\.keystone\.appCredentialRef: authUrl needs a login"):
        parts.foundation(widget({"keystone": {"authUrl": "https://keystone:5000/v3", **login}}))


def test_nothing_is_made_in_a_keystone_of_others() -> None:
    ctx = elsewhere({"keystone": KEYSTONE}, {"login": APP})
    base = parts.foundation(ctx)
    assert "identity" not in base.credentials.values
    assert not [ref for _, ref in references(ctx.spec) if ref.kind in {"Keystone", "Memcached"}]
    assert base.identity is not None
    assert base.identity.objects == ()
    assert base.sections["keystone_authtoken"]["auth_type"] == "v3applicationcredential"
    assert "memcached_servers" not in base.sections["keystone_authtoken"]
    cached = elsewhere({"keystone": KEYSTONE, "cache": {"memcachedRef": {"name": "memcached"}}}, {"login": APP})
    assert memcached(cached).servers == "cache:11211"


def test_endpoints_to_register_by_hand_are_reported() -> None:
    ctx = elsewhere({"keystone": KEYSTONE}, {"login": APP})
    conf = parts.config(ctx, "widget.conf", {})
    api = parts.api(
        ctx, "api", 8000, conf, settings=None, program=parts.ProgramSettings(workers=parts.Workers(threads=1))
    )
    entry = parts.catalog(ctx, "widget", "Widgets", api, path="/v1", after=(api,))
    assert entry.objects == ()
    assert entry.verdict is not None
    assert entry.verdict.ready, "or a cloud whose catalog comes after its services would wait for ever"
    url = "http://widget-api.openstack.svc.cluster.local:8000/v1"
    assert f"'widget' of region RegionOne (internal {url}, public {url})" in entry.verdict.message


@pytest.mark.security
@pytest.mark.parametrize("authority", ["ca.crt", "cacert"])
def test_a_keystone_is_checked_by_the_authority_beside_its_login(authority: str) -> None:
    ctx = elsewhere({"keystone": KEYSTONE}, {"login": {**APP, authority: "PEM"}})
    base = parts.foundation(ctx)
    assert base.auth["cafile"] == "/etc/openstack-trust/login/ca.crt"
    (mount,) = parts.written(ctx, {}, directory="/etc").extra_mounts
    assert mount.volume["secret"]["items"] == [{"key": authority, "path": "ca.crt"}]


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        ({}, "Secret 'login' holds no login; give it application_credential_id and"),
        ({"application_credential_id": "a"}, "key 'application_credential_secret' of Secret 'login' is missing"),
        ({**APP, "application_credential_id": ""}, "key 'application_credential_id' of Secret 'login' is empty"),
        ({"application_credential_name": "a"}, "key 'application_credential_secret' of Secret 'login' is missing"),
        ({**BY_NAME, "username": ""}, "key 'username' of Secret 'login' is empty"),
        ({"username": "a"}, "key 'password' of Secret 'login' is missing"),
        ({"clouds.yaml": "s3cret: ["}, "key 'clouds.yaml' of Secret 'login' is not valid"),
        ({"clouds.yaml": "clouds: {a: {}, b: {}}"}, "it needs one cloud, or a cloud `openstack`"),
        ({"clouds.yaml": "clouds: {a: {auth: {token: s3cret}}}"}, "holds no login"),
    ],
)
def test_problems_of_a_keystone_login_are_named(secret: dict[str, str], message: str) -> None:
    with pytest.raises(Incomplete, match=message) as raised:
        user(secret)
    assert raised.value.path == "spec.keystone.appCredentialRef.secretName"
    assert "s3cret" not in str(raised.value)


DEPENDS: dict[str, Any] = {"dependsOn": [{"kind": "Keystone", "name": "k"}, {"kind": "Nova", "name": "n"}]}


def test_dependencies_delay_the_pods_of_a_service_and_not_its_schema() -> None:
    keystone, nova = widget(DEPENDS).spec.depends_on
    base = parts.foundation(widget(DEPENDS, dependencies={keystone: kube.dependency_verdict(None, keystone)}))
    (step,) = base.waits
    assert step in base.steps
    assert step not in base.schema
    assert step.verdict is not None
    assert "Keystone/k to be Ready; there is none" in step.verdict.message
    assert "Nova/n" in step.verdict.message, "both at once"
    met = parts.foundation(widget(DEPENDS, dependencies={keystone: READY, nova: READY})).waits
    assert [step.verdict for step in met] == [READY]
    assert parts.foundation(widget()).waits == ()


def test_nothing_waits_for_itself() -> None:
    ctx = context(KEYSTONE_KIND, {"dependsOn": [{"kind": "Keystone", "name": "keystone"}]}, release=RELEASE)
    with pytest.raises(SpecError, match=r"spec\.dependsOn: Keystone/keystone cannot wait for itself"):
        sources.waits(ctx)


@pytest.mark.parametrize(
    ("status", "state", "message"),
    [
        ({}, State.WAITING, "waiting for Keystone/k to be APIReady; it has not reported yet"),
        ({"Ready": "False"}, State.WAITING, "waiting for Keystone/k to be APIReady; it has not reported yet"),
        ({"Ready": "True", "APIReady": "True"}, State.READY, ""),
        ({"Ready": "False", "APIReady": "False"}, State.WAITING, "waiting for Keystone/k to be APIReady; why"),
        ({"Ready": "True", "Other": "True"}, State.FAILED, "no condition 'APIReady'; choose from Ready, Other"),
    ],
)
def test_a_condition_is_looked_for_where_it_is_reported(status: dict[str, str], state: State, message: str) -> None:
    (wanted,) = widget({"dependsOn": [{"kind": "Keystone", "name": "k", "condition": "APIReady"}]}).spec.depends_on
    conditions = [
        {"type": name, "status": value, "message": "" if value == "True" else "why", "observedGeneration": 2}
        for name, value in status.items()
    ]
    live = {"kind": "Keystone", "metadata": {"name": "k", "generation": 2}, "status": {"conditions": conditions}}
    verdict = kube.dependency_verdict(live, wanted)
    assert (verdict.state, message in verdict.message) == (state, True)
    live["metadata"] = {"name": "k", "generation": 3}
    assert not kube.dependency_verdict(live, wanted).ready, "what is true of an earlier spec is old news"


def test_a_service_may_depend_on_any_kind_but_clouds() -> None:
    """Hypervisors of another cluster stand beside no service; a backup is of a cloud that runs."""
    kinds = {service.resource.role for service in SERVICES} - {
        "OpenStackControlPlane",
        "CredentialRotation",
        "HypervisorCluster",
        "OpenStackBackup",
        "OpenStackBackupSchedule",
        "OpenStackRestore",
    }
    assert set(get_args(Dependency.model_fields["kind"].annotation)) == kinds


FROM_THE_SECRET: dict[str, Any] = {"database": {"secretRef": {"name": "db"}}}
IN_A_CLOUD: dict[str, Any] = {**FROM_THE_SECRET, "keystone": KEYSTONE}
ON_A_BUS: dict[str, Any] = {**IN_A_CLOUD, "messaging": {"secretRef": {"name": "bus"}, "hosts": ["rabbitmq-0.rabbitmq"]}}
ALONE: dict[str, dict[str, Any]] = {
    "Keystone": {**FROM_THE_SECRET, "cache": {"servers": ["memcached-0.memcached:11211"]}},
    "Glance": IN_A_CLOUD,
    "Placement": IN_A_CLOUD,
    "Neutron": ON_A_BUS,
    "Nova": ON_A_BUS,
    "Cinder": {**ON_A_BUS, "backends": [{"name": "a", "type": "nfs", "nfs": {"shares": ["nas:/srv"]}}]},
}


def planned(kind: str, root: Path, **spec: Any) -> tuple[list[dict[str, Any]], dict[str, str], dict[str, str]]:
    """Objects, messages of conditions, and options of the first file of configuration, by section.option."""
    manifest = {"kind": kind, "metadata": {"name": kind.lower()}, "spec": {**ALONE[kind], **spec}}
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(root / "releases"), password="drawn")
    found = next(paper.render([manifest], "openstack"))
    assert found.plan is not None
    told = {step.name: step.verdict.message for step in found.plan if step.verdict}
    (conf,) = [obj for obj in found.objects if obj["metadata"]["name"] == f"{kind.lower()}-config"]
    text = next(iter(kube.secret_data(conf).values()))
    parser = RawConfigParser(strict=False, default_section="")
    parser.read_string(text)
    options = {f"{name}.{key}": value for name in parser.sections() for key, value in parser[name].items()}
    return found.objects, told, options


@pytest.mark.parametrize("kind", ALONE)
def test_a_service_among_servers_of_others_makes_nothing_there(kind: str, root: Path) -> None:
    objects, told, options = planned(kind, root)
    made = {obj["kind"] for obj in objects if obj["apiVersion"] == API}
    # Keystone is its own administrator.
    assert made == ({"KeystoneService"} if kind == "Keystone" else set())
    if kind != "Keystone":
        assert "has no administrator: create the catalog's entry" in told["Endpoint"]
        logins = {name: value for name, value in options.items() if name.endswith(".auth_type")}
        assert "keystone_authtoken.auth_type" in logins
        assert set(logins.values()) == {"v3applicationcredential"}
        assert not [name for name in options if name.endswith((".username", ".user_domain_name"))]


def test_the_tables_and_virtual_hosts_of_nova_are_where_everybody_has_them(root: Path) -> None:
    objects, _, options = planned("Nova", root, cells=[{"name": "cell1"}, {"name": "far"}])
    assert options["api_database.connection"].endswith("/nova_api?charset=utf8")
    assert options["database.connection"].endswith("/nova_cell0?charset=utf8")
    assert options["DEFAULT.transport_url"].endswith("@rabbitmq-0.rabbitmq:5672/%2F")
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in objects if obj["kind"] == "Secret"}
    cells = {name: data["cell.conf"] for name, data in secrets.items() if "cell.conf" in data}
    assert "/nova?charset=utf8" in cells["nova-cell1-setup"]
    assert "/nova_far?charset=utf8" in cells["nova-far-setup"]
    assert "rabbitmq:5672/nova-cell1" in cells["nova-cell1-setup"], "conductors of two levels must not share a queue"
    named = {"database": {**FROM_THE_SECRET["database"], "apiDatabase": "a", "cellDatabase": "b"}}
    _, _, options = planned("Nova", root, **named)
    assert ("/a?" in options["api_database.connection"], "/b?" in options["database.connection"]) == (True, True)


def test_volume_types_of_an_external_cinder_are_left_to_its_administrator(root: Path) -> None:
    _, told, _ = planned("Cinder", root)
    assert "the volume types a with volume_backend_name=a" in told["VolumeTypes"]
    with pytest.raises(SpecError, match=r"spec\.quotas: setting it needs an administrator"):
        planned("Cinder", root, quotas={"volumes": 1})


def test_a_swift_is_not_opened_by_an_application_credential(root: Path) -> None:
    with pytest.raises(
        SpecError,
        match=r"spec\.storage\.swift: Glance cannot use an application credential .* set user and passwordRef",
    ):
        planned("Glance", root, storageType="swift")
