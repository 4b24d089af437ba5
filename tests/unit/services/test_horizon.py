"""Horizon: what must hold besides its goldens, above all what a spec may not bring into the dashboard."""

from __future__ import annotations

import base64
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Incomplete, MissingReference, Object, Plan, Release, SpecError
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.horizon.additions import ALLOWED, ALLOWED_IN_CONFIG, OWNED
from openstack_operator.services.horizon.model import HORIZON
from openstack_operator.services.horizon.service import plan
from openstack_operator.testing import NOW, context
from tests.planning import draws, objects, rolled_out

KEYSTONE = {"internalURL": "http://keystone-api:5000/v3", "publicURL": "https://keystone.example.org/v3"}
PUBLISHED = {
    "Memcached": {"servers": "a:11211,b:11211"},
    "Keystone": KEYSTONE,
    "Glance": {"publicURL": "https://glance.example.org:8443"},
}
INGRESS: dict[str, Any] = {"expose": {"type": "Ingress", "host": "horizon.example.org"}}
Objects = dict[tuple[str, str], Object]


def planned(
    release: Release,
    spec: dict[str, Any] | None = None,
    children: Objects | None = None,
    now: timedelta = timedelta(),
    secrets: dict[str, dict[str, str]] | None = None,
    **published: dict[str, str],
) -> Plan:
    return plan(
        context(
            HORIZON,
            spec or {},
            release=release,
            published=PUBLISHED | published,
            children=children or {},
            secrets=secrets or {},
            draw=draws(),
            now=NOW + now,
        )
    )


def document(made: Plan) -> dict[str, Any]:
    return json.loads(kube.secret_data(objects(made)["Secret", "horizon-config"])["settings.json"])


def settings(made: Plan) -> dict[str, Any]:
    return document(made)["settings"]


def policy(made: Plan) -> dict[str, str]:
    parts = document(made)["headers"]["Content-Security-Policy"].split("; ")
    return {name: value for name, _, value in (part.partition(" ") for part in parts)}


def pod(made: Plan) -> dict[str, Any]:
    return objects(made)["Deployment", "horizon-api"]["spec"]["template"]["spec"]


def local(**values: Any) -> dict[str, Any]:
    return {"config": {"local_settings": values}}


def verdict(made: Plan, name: str) -> tuple[str, str]:
    found = next(step.verdict for step in made if step.name == name)
    assert found is not None
    return found.cause, found.message


# What may be added.


def test_a_setting_that_is_data_is_added(release: Release) -> None:
    made = planned(
        release,
        local(
            OPENSTACK_CINDER_FEATURES={"enable_backup": True}, HORIZON_CONFIG={"help_url": "https://help.example.org"}
        ),
    )
    assert settings(made)["OPENSTACK_CINDER_FEATURES"] == {"enable_backup": True}
    # It is merged into Horizon's own.
    assert document(made)["horizonConfig"] == {"help_url": "https://help.example.org"}
    assert "HORIZON_CONFIG" not in settings(made)


@pytest.mark.security
@pytest.mark.parametrize(
    ("path", "setting"),
    [
        ("SITE_BRANDING_LINK", {"SITE_BRANDING_LINK": "javascript:alert(1)"}),
        ("USER_MENU_LINKS[0].url", {"USER_MENU_LINKS": [{"name": "help", "url": " javascript:alert(1)"}]}),
        ("HORIZON_CONFIG.help_url", {"HORIZON_CONFIG": {"help_url": "data:text/html,<script>"}}),
        ("HORIZON_CONFIG.bug_url", {"HORIZON_CONFIG": {"bug_url": ["https://example.org"]}}),
    ],
)
def test_a_link_that_runs_a_script_is_refused(release: Release, path: str, setting: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=rf"^spec\.config\.local_settings\.{re.escape(path)}: not a link; write a URL"):
        planned(release, local(**setting))
    planned(release, local(SITE_BRANDING_LINK="/project/", USER_MENU_LINKS=[{"url": "https://help.example.org"}]))


@pytest.mark.security
@pytest.mark.parametrize("name", sorted(OWNED))
def test_a_setting_of_the_operators_is_refused_with_what_to_do(release: Release, name: str) -> None:
    with pytest.raises(SpecError, match=rf"^spec\.config\.local_settings\.{name}: the operator sets it: .*; remove it"):
        planned(release, local(**{name: "mine"}))


@pytest.mark.security
@pytest.mark.parametrize(
    "name",
    [
        *("INSTALLED_APPS", "MIDDLEWARE", "AUTHENTICATION_BACKENDS", "AUTHENTICATION_PLUGINS", "SESSION_SERIALIZER"),
        *("COMPRESS_PRECOMPILERS", "TEMPLATES", "ROOT_URLCONF", "POLICY_CHECK_FUNCTION", "EMAIL_BACKEND", "DEBUG"),
        *("POLICY_FILES_PATH", "OPENRC_CUSTOM_TEMPLATE", "MESSAGES_PATH", "REST_API_ADDITIONAL_SETTINGS", "LOCAL_PATH"),
        *("import os", "__builtins__", "session_timeout", "", "A=1\nB"),
    ],
)
def test_a_setting_that_names_code_or_files_is_refused(release: Release, name: str) -> None:
    with pytest.raises(SpecError, match=r"^spec\.config\.local_settings\..*not a setting that config may have"):
        planned(release, local(**{name: "os.system"}))


def test_a_misspelled_setting_is_refused_with_the_nearest_one(release: Release) -> None:
    with pytest.raises(SpecError, match=r"; did you mean SESSION_TIMEOUT\?$"):
        planned(release, local(SESSION_TIMEOT=60))
    with pytest.raises(SpecError, match=r"; did you mean WEBSSO_ENABLED\?$"):
        planned(release, local(WEBSO_ENABLED=True))


@pytest.mark.security
def test_horizons_own_configuration_takes_no_code(release: Release) -> None:
    with pytest.raises(SpecError, match=r"^spec\.config\.local_settings\.HORIZON_CONFIG\.'customization_module': "):
        planned(release, local(HORIZON_CONFIG={"customization_module": "os"}))
    with pytest.raises(SpecError, match="HORIZON_CONFIG: not a mapping"):
        planned(release, local(HORIZON_CONFIG=["help_url"]))


@pytest.mark.security
def test_text_of_a_spec_is_never_part_of_a_program(release: Release) -> None:
    text = '"); import os; os.system("x"); ("'
    made = planned(release, {**local(OPENSTACK_SERVER_DEFAULT_USER_DATA=text), "branding": {"title": "a'b\"c\\"}})
    assert settings(made)["OPENSTACK_SERVER_DEFAULT_USER_DATA"] == text
    assert settings(made)["SITE_BRANDING"] == "a'b\"c\\"
    files, plain = (kube.secret_data(objects(each)["Secret", "horizon-config"]) for each in (made, planned(release)))
    programs = {name for name in files if name.endswith(".py")}
    assert programs
    assert all(files[name] == plain[name] for name in programs)


def test_no_setting_is_both_allowed_and_owned() -> None:
    assert not ALLOWED & OWNED.keys()
    assert all(name == name.upper() and name.isidentifier() for name in ALLOWED | OWNED.keys())
    assert all(name == name.lower() and name.isidentifier() for name in ALLOWED_IN_CONFIG)


def test_other_sections_and_deep_values_are_refused(release: Release) -> None:
    with pytest.raises(SpecError, match=r"^spec\.config\.'DEFAULT': .*config\.local_settings"):
        planned(release, {"config": {"DEFAULT": {"debug": True}}})
    deep: Any = "x"
    for _ in range(9):
        deep = [deep]
    with pytest.raises(SpecError, match="write it flatter"):
        planned(release, local(LANGUAGES=deep))


@pytest.mark.parametrize("value", [59, True, "3600", 1.5, 10**9])
def test_a_session_ends_after_a_number_of_seconds(release: Release, value: Any) -> None:
    with pytest.raises(SpecError, match=r"SESSION_TIMEOUT: not a number of seconds"):
        planned(release, local(SESSION_TIMEOUT=value))


# Browsers.


@pytest.mark.security
@pytest.mark.parametrize(("spec", "is_encrypted"), [({}, False), (INGRESS, True)])
def test_cookies_are_secure_where_pages_are_encrypted(
    release: Release, spec: dict[str, Any], is_encrypted: bool
) -> None:
    found = settings(planned(release, spec))
    assert {found[name] for name in ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE")} == {is_encrypted}
    assert found["SESSION_COOKIE_HTTPONLY"] is True
    assert found["DEBUG"] is False
    assert ("SECURE_PROXY_SSL_HEADER" in found) == is_encrypted


@pytest.mark.security
def test_pages_run_no_foreign_script_and_are_in_no_foreign_frame(release: Release) -> None:
    made = planned(release, INGRESS)
    rules = policy(made)
    assert rules["default-src"] == "'self'"
    assert rules["script-src"].split() == ["'self'", "'unsafe-inline'", "'unsafe-eval'"]
    assert rules["connect-src"] == rules["form-action"] == "'self'"
    assert rules["frame-ancestors"] == rules["object-src"] == "'none'"
    assert document(made)["headers"]["X-Frame-Options"] == "DENY"
    assert settings(made)["DISALLOW_IFRAME_EMBED"] is True


def test_a_browser_uploads_to_glance_and_nowhere_else(release: Release) -> None:
    assert settings(planned(release))["HORIZON_IMAGES_UPLOAD_MODE"] == "legacy"
    direct = planned(release, {"imageUpload": "Direct"})
    assert settings(direct)["HORIZON_IMAGES_UPLOAD_MODE"] == "direct"
    assert policy(direct)["connect-src"] == "'self' https://glance.example.org:8443"
    assert settings(planned(release, {"imageUpload": "Off"}))["HORIZON_IMAGES_UPLOAD_MODE"] == "off"


@pytest.mark.security
@pytest.mark.parametrize(
    ("expose", "others"),
    [
        ({}, []),
        ({"type": "Ingress", "host": "horizon.example.org"}, ["horizon.example.org"]),
        ({"type": "NodePort", "host": "192.0.2.1"}, ["192.0.2.1"]),
        ({"type": "NodePort"}, None),
    ],
)
def test_horizon_answers_only_for_its_own_names(
    release: Release, expose: dict[str, Any], others: list[str] | None
) -> None:
    hosts = settings(planned(release, {"expose": expose}))["ALLOWED_HOSTS"]
    own = ["horizon-api", "horizon-api.openstack", "horizon-api.openstack.svc"]
    full = "horizon-api.openstack.svc.cluster.local"
    assert hosts == (["*"] if others is None else [*own, full, "localhost", "127.0.0.1", *others])


# Keystones.


def federated(*dashboards: str) -> dict[str, str]:
    providers = [{"name": "sso", "protocol": "openid", "label": "Staff"}]
    return {**KEYSTONE, "federation": json.dumps({"providers": providers, "dashboards": dashboards})}


def test_users_of_identity_providers_log_in_if_keystone_trusts_the_dashboard(release: Release) -> None:
    made = planned(release, INGRESS, Keystone=federated("https://horizon.example.org/auth/websso/"))
    found = settings(made)
    assert found["WEBSSO_ENABLED"] is True
    assert found["WEBSSO_CHOICES"] == [["credentials", "Keystone credentials"], ["sso_openid", "Staff"]]
    assert found["WEBSSO_IDP_MAPPING"] == {"sso_openid": ["sso", "openid"]}
    assert found["WEBSSO_KEYSTONE_URL"] == "https://keystone.example.org/v3"
    # A page of another site cannot choose the Keystone that says who somebody is.
    assert found["WEBSSO_USE_HTTP_REFERER"] is False
    assert policy(made)["form-action"] == "'self' https:"
    assert verdict(made, "SingleSignOn") == ("Ready", "")


def test_a_keystone_that_does_not_trust_the_dashboard_is_named(release: Release) -> None:
    made = planned(release, INGRESS, Keystone=federated("https://other.example.org/auth/websso/"))
    assert settings(made)["WEBSSO_ENABLED"] is False
    reason, text = verdict(made, "SingleSignOn")
    assert reason == "NotTrusted"
    assert "add https://horizon.example.org/auth/websso/ to spec.federation.trustedDashboards of Keystone/keys" in text


OTHER = {"name": "South", "authUrl": "https://keystone.south.example.org/v3"}
PEM = "-----BEGIN CERTIFICATE-----\nc291dGg=\n-----END CERTIFICATE-----"


def test_users_choose_among_several_keystones(release: Release) -> None:
    alone = planned(release)
    assert "AVAILABLE_REGIONS" not in settings(alone)
    assert settings(alone)["OPENSTACK_ENDPOINT_TYPE"] == "internalURL"
    spec = {"region": "North", "otherKeystones": [{**OTHER, "caSecretRef": {"name": "south"}}]}
    made = planned(release, spec, secrets={"south": {"ca.crt": f"South\n{PEM}\n"}})
    assert settings(made)["AVAILABLE_REGIONS"] == [[KEYSTONE["internalURL"], "North"], [OTHER["authUrl"], "South"]]
    # The other cloud's internal addresses mean nothing here.
    assert settings(made)["OPENSTACK_ENDPOINT_TYPE"] == "publicURL"
    assert document(made)["authorities"] == {"files": ["/etc/horizon/authorities.pem"], "system": True}
    assert kube.secret_data(objects(made)["Secret", "horizon-config"])["authorities.pem"] == f"{PEM}\n"
    assert settings(made)["OPENSTACK_SSL_NO_VERIFY"] is False


@pytest.mark.security
@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({}, MissingReference, "has no key 'ca.crt'"),
        ({"ca.crt": "secret"}, Incomplete, "no certificate in PEM"),
    ],
)
def test_nothing_but_certificates_of_a_secret_gets_into_pods(
    release: Release, data: dict[str, str], error: type[SpecError], message: str
) -> None:
    spec = {"otherKeystones": [{**OTHER, "caSecretRef": {"name": "south"}}]}
    with pytest.raises(error, match=rf"^spec\.otherKeystones\[0\]\.caSecretRef\.key: .*{message}"):
        planned(release, spec, secrets={"south": data})
    key_file = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
    made = planned(release, spec, secrets={"south": {"ca.crt": f"{key_file}{PEM}"}})
    assert "PRIVATE" not in kube.secret_data(objects(made)["Secret", "horizon-config"])["authorities.pem"]


# The secret key.


def test_the_key_is_made_once_and_is_in_no_config_map(release: Release) -> None:
    first = planned(release)
    again = planned(release, children=rolled_out(first))
    assert settings(again)["SECRET_KEY"] == settings(first)["SECRET_KEY"]
    assert not [kind for kind, _ in objects(first) if kind == "ConfigMap"]
    assert settings(first)["SECRET_KEY"] not in json.dumps(pod(first))


def test_a_key_is_replaced_in_steps_that_log_nobody_out(release: Release) -> None:
    first = planned(release)
    old = settings(first)["SECRET_KEY"]
    spec = {"secretKeyGeneration": 2}
    staged = planned(release, spec, rolled_out(first))
    assert settings(staged)["SECRET_KEY"] == old
    (new,) = settings(staged)["SECRET_KEY_FALLBACKS"]
    assert verdict(staged, "SecretKey")[0] == "Distributing"
    # Not before every pod can read what the first one writes with it.
    live = rolled_out(staged) | {("Deployment", "horizon-api"): rolled_out(first)["Deployment", "horizon-api"]}
    assert settings(planned(release, spec, live))["SECRET_KEY"] == old
    used = planned(release, spec, rolled_out(staged))
    assert settings(used)["SECRET_KEY"] == new
    assert settings(used)["SECRET_KEY_FALLBACKS"] == [old]
    assert verdict(used, "SecretKey")[0] == "Retiring"
    # While a pod writes with the old one, no time is set at which its sessions have ended.
    live = rolled_out(used) | {("Deployment", "horizon-api"): rolled_out(staged)["Deployment", "horizon-api"]}
    slow = planned(release, spec, live, timedelta(hours=2))
    assert (settings(slow)["SECRET_KEY_FALLBACKS"], slow.outcome.wake) == ([old], None)
    assert "until" not in verdict(used, "SecretKey")[1]
    # Sessions with the old one live for an hour.
    retiring = planned(release, spec, rolled_out(used))
    assert verdict(retiring, "SecretKey")[1].endswith("are valid until 2026-01-01 01:00 UTC")
    assert retiring.outcome.wake == NOW + timedelta(hours=1)
    soon = planned(release, spec, rolled_out(retiring), timedelta(minutes=59))
    assert settings(soon)["SECRET_KEY_FALLBACKS"] == [old]
    shorter = {**spec, "config": {"local_settings": {"SESSION_TIMEOUT": 60}}}
    assert settings(planned(release, shorter, rolled_out(retiring), timedelta(minutes=59)))["SECRET_KEY_FALLBACKS"] == [
        old
    ]
    over = planned(release, spec, rolled_out(retiring), timedelta(hours=1))
    assert settings(over)["SECRET_KEY"] == new
    assert settings(over)["SECRET_KEY_FALLBACKS"] == []
    assert verdict(over, "SecretKey") == ("Ready", "")


def test_a_key_whose_secret_was_deleted_is_no_key_any_more(release: Release) -> None:
    first = planned(release)
    live = {name: obj for name, obj in rolled_out(first).items() if name != ("Secret", "horizon-session-keys")}
    made = settings(planned(release, children=live))
    assert settings(first)["SECRET_KEY"] not in [made["SECRET_KEY"], *made["SECRET_KEY_FALLBACKS"]]


def test_old_session_keys_are_removed_after_the_life_of_a_session(release: Release) -> None:
    live = rolled_out(planned(release))
    secret = live["Secret", "horizon-session-keys"]
    keys = {"key.1": "a", "key.2": "b", "active": "2", "until": "yesterday"}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in keys.items()}
    live["Secret", "horizon-session-keys"] = {**secret, "data": data}
    read = planned(release, children=live)
    assert (settings(read)["SECRET_KEY"], settings(read)["SECRET_KEY_FALLBACKS"]) == ("b", ["a"])
    noted = planned(release, children=rolled_out(read))
    assert noted.outcome.wake == NOW + timedelta(hours=1)
    over = planned(release, {}, rolled_out(noted), timedelta(hours=1))
    assert (settings(over)["SECRET_KEY"], settings(over)["SECRET_KEY_FALLBACKS"]) == ("b", [])


# Pods.


def test_static_files_are_made_where_the_image_does_not_have_them(release: Release) -> None:
    plain = planned(release)
    assert "initContainers" not in pod(plain)
    branded = planned(release, {"branding": {"configMap": "look-1", "theme": "material"}})
    (made,) = pod(branded)["initContainers"]
    env = {each["name"]: each["value"] for each in made["env"]}
    assert (env["STATIC_FOLDER"], env["BASE_THEME"]) == ("/var/lib/horizon/static", "material")
    main = pod(branded)["containers"][0]
    assert {"name": "STATIC_FOLDER", "value": "/var/lib/horizon/static"} in main["env"]
    # The program serves what the container before it has made.
    shared = {mount["mountPath"]: (mount["name"], mount.get("subPath")) for mount in made["volumeMounts"]}
    mounted = {mount["mountPath"]: (mount["name"], mount.get("subPath")) for mount in main["volumeMounts"]}
    assert mounted["/var/lib/horizon"] == shared["/var/lib/horizon"]
    assert "/etc/horizon-branding" not in mounted


def test_kollas_image_gets_its_files_and_the_panels_it_does_not_show(root: Path) -> None:
    spec = {"imageProfile": "kolla"}
    made = planned(ReleaseFiles(root / "releases")(HORIZON.spec.model_validate(spec)), spec)
    assert pod(made)["initContainers"][0]["command"][-1] == "/etc/horizon/dashboard_static.py"
    assert document(made)["plugins"] == ["heat_dashboard.enabled"]


def test_every_cache_server_is_used_with_tls_if_available(release: Release) -> None:
    assert document(planned(release))["cache"] == {"servers": ["a:11211", "b:11211"], "tls": {}}
    memcached = {"servers": "a:11211", "trustSecret": "pki-bundle", "clientSecret": "memcached-client"}
    secrets = {"pki-bundle": {"ca.crt": "x"}, "memcached-client": {"tls.crt": "x", "tls.key": "x"}}
    made = planned(release, secrets=secrets, Memcached=memcached)
    folder = "/etc/openstack-cache-tls"
    assert document(made)["cache"]["tls"] == {
        "cafile": "/etc/openstack-trust/pki-bundle/ca.crt",
        "certfile": f"{folder}/tls.crt",
        "keyfile": f"{folder}/tls.key",
    }
    assert folder in {mount["mountPath"] for mount in pod(made)["containers"][0]["volumeMounts"]}
