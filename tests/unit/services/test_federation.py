"""Federation: what a Keystone has of it, what it refuses, and what is gone with it."""

from __future__ import annotations

from configparser import ConfigParser
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from pydantic import ValidationError

from openstack_operator import kube, pki
from openstack_operator.plan import Incomplete, MissingReference, Object, Plan, Release, SpecError, UnsupportedError
from openstack_operator.services.keystone.federation.model import OpenID
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as authority
from openstack_operator.testing import context

CONTRACTS = {"MariaDB": {"host": "mariadb", "port": "3306"}, "Memcached": {"servers": "m:11211"}}
RULE = {"remote": [{"type": "OIDC-email"}], "local": [{"user": {"name": "{0}"}}]}
OPENID: dict[str, Any] = {
    "name": "sso",
    "protocol": "openid",
    "openid": {
        "issuer": "https://sso.example.org/realms/cloud",
        "clientID": "keystone",
        "clientSecretRef": {"name": "sso", "key": "secret"},
    },
    "mapping": [RULE],
}
SAML: dict[str, Any] = {
    "name": "campus",
    "protocol": "saml2",
    "saml2": {"entityID": "https://idp.example.org/shibboleth", "metadataSecretRef": {"name": "campus"}},
    "mapping": [{"remote": [{"type": "eppn"}], "local": [{"user": {"name": "{0}"}}]}],
}
SECRETS = {"sso": {"secret": "s3cr3t-of-the-client"}, "campus": {"metadata.xml": "<EntityDescriptor/>"}}


def planned(release: Release, *providers: dict[str, Any], secrets: Any = SECRETS, **spec: Any) -> Plan:
    own = spec.pop("federation", {})
    wanted = {"federation": {"enabled": True, "identityProviders": list(providers), **own}, **spec}
    return plan(context(KEYSTONE, wanted, release=release, published=CONTRACTS, secrets=secrets))


def found(made: Plan, kind: str, name: str) -> Object:
    return next(obj for obj in made.objects if (obj["kind"], obj["metadata"]["name"]) == (kind, name))


def pod(made: Plan) -> dict[str, Any]:
    spec = found(made, "Deployment", "keystone-api")["spec"]["template"]["spec"]
    return {each["name"]: each for each in spec["containers"]} | {"volumes": spec["volumes"]}


def files(made: Plan) -> dict[str, str]:
    return kube.secret_data(found(made, "Secret", "keystone-federation"))


def options(made: Plan) -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(kube.secret_data(found(made, "Secret", "keystone-config"))["keystone.conf"])
    return parser


def changed(provider: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {**provider, **values}


def test_apache_stands_before_keystone_which_nobody_else_reaches(release: Release) -> None:
    run = pod(planned(release, OPENID))
    main, first = run["main"], run["federation"]
    assert main["command"][main["command"].index("--uwsgi-socket") + 1] == "127.0.0.1:5001"
    assert "--http-socket" not in main["command"]
    assert "livenessProbe" not in main
    assert first["livenessProbe"]["tcpSocket"] == {"port": 5000}
    assert {"name": "LISTEN", "value": "0.0.0.0:5000"} in first["env"]
    assert first["securityContext"]["runAsUser"] != main["securityContext"]["runAsUser"]
    assert first["securityContext"]["runAsGroup"] == main["securityContext"]["runAsGroup"]
    assert first["securityContext"]["readOnlyRootFilesystem"]
    ends = [each["lifecycle"]["preStop"]["exec"]["command"][3:] for each in (main, first)]
    assert ends == [["await_proxy.sh", "5000"], ["await_clients.sh", "5000"]], "it would answer in the program's place"
    assert "shibd" not in run


def test_behind_a_front_it_listens_to_that_alone(release: Release) -> None:
    made = authority(context(PKI, release=release))
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in made.objects if obj["kind"] == "Secret"}
    spec = {"federation": {"enabled": True, "identityProviders": [OPENID]}, "tls": {"pkiRef": {"name": "pki"}}}
    published = {**CONTRACTS, "PKI": made.outcome.published}
    shown = plan(context(KEYSTONE, spec, release=release, published=published, secrets={**secrets, **SECRETS}))
    run = pod(shown)
    assert {"name": "LISTEN", "value": "127.0.0.1:5000"} in run["federation"]["env"]
    assert "livenessProbe" not in run["federation"]
    names = ("front", "federation", "main")
    ends = {name: run[name]["lifecycle"]["preStop"]["exec"]["command"][3:] for name in names}
    assert ends["front"] != ends["federation"] == ends["main"], "who would answer for another ends first"
    conf = files(shown)["apache2.conf"]
    assert "set X-Forwarded-Proto" not in conf, "the front says how a client came"
    assert "ServerName https://keystone-api.openstack.svc.cluster.local:5000" in conf
    assert "RequestHeader set X-Forwarded-Proto http early" in files(planned(release, OPENID))["apache2.conf"]


@pytest.mark.security
def test_identity_headers_of_clients_are_removed_first(release: Release) -> None:
    conf = files(planned(release, OPENID, SAML))["apache2.conf"]
    before = conf[: conf.index("<VirtualHost")]
    for name in ("oidc-iss", "oidc-email", "shib-identity-provider", "eppn", "remote-user"):
        assert f"RequestHeader unset {name} early\n" in before


def test_secrets_are_files_that_apache_alone_mounts(release: Release) -> None:
    made = planned(release, OPENID, SAML)
    assert files(made)["client-secret-sso"] == "s3cr3t-of-the-client"
    for obj in made.objects:
        if obj["kind"] != "Secret":
            assert "s3cr3t" not in str(obj), obj["metadata"]["name"]
    assert "s3cr3t" not in files(made)["apache2.conf"]
    run = pod(made)
    mounted = {name: {m["mountPath"] for m in run[name]["volumeMounts"]} for name in ("main", "federation")}
    assert "/etc/keystone-federation/client-secret-sso" in mounted["federation"]
    assert not [path for path in mounted["main"] if "federation" in path]
    assert "/etc/keystone/keystone.conf" not in mounted["federation"]
    volume = next(each for each in run["volumes"] if each["name"] == "federation")
    assert volume["secret"] == {"secretName": "keystone-federation", "defaultMode": 0o440}


def test_federation_pods_follow_a_changed_secret_and_share_generated_keys(release: Release) -> None:
    before, after = (
        planned(release, OPENID, secrets={**SECRETS, "sso": {"secret": text}}) for text in ("one", "another")
    )
    assert pod(before)["federation"]["env"] != pod(after)["federation"]["env"]
    assert files(before)["passphrase"] == files(after)["passphrase"] != ""
    drawn = kube.secret_data(found(before, "Secret", "keystone-federation-keys"))
    assert drawn.keys() == {"passphrase", "sealer"}


def test_keystone_is_told_how_they_come(release: Release) -> None:
    dashboards = ["https://horizon.example.org/auth/websso/", "https://other.example.org/auth/websso/"]
    conf = options(planned(release, OPENID, SAML, federation={"trustedDashboards": dashboards}))
    methods = conf["auth"]["methods"].split(",")
    assert {"openid", "saml2", "mapped", "password", "token", "application_credential"} <= set(methods)
    assert "external" not in methods
    assert conf["openid"]["remote_id_attribute"] == "OIDC-iss"
    assert conf["saml2"]["remote_id_attribute"] == "Shib-Identity-Provider"
    text = kube.secret_data(
        found(planned(release, OPENID, federation={"trustedDashboards": dashboards}), "Secret", "keystone-config")
    )
    assert [line for line in text["keystone.conf"].splitlines() if "trusted_dashboard" in line] == [
        f"trusted_dashboard = {each}" for each in dashboards
    ]


def test_each_provider_is_a_resource_once_keystone_answers(release: Release) -> None:
    made = planned(release, changed(OPENID, domain="federated", retention="Delete"), SAML)
    sso, campus = (found(made, "KeystoneIdentityProvider", f"keystone-idp-{name}") for name in ("sso", "campus"))
    assert sso["spec"]["remoteIDs"] == ["https://sso.example.org/realms/cloud"]
    assert sso["spec"]["mapping"] == [RULE]
    assert (sso["spec"]["domain"], sso["spec"]["deletionPolicy"]) == ("federated", "Delete")
    assert "domain" not in campus["spec"]
    assert campus["spec"]["deletionPolicy"] == "Retain"
    assert campus["spec"]["remoteIDs"] == ["https://idp.example.org/shibboleth"]
    assert campus["metadata"]["annotations"][kube.FIELD] == "spec.federation.identityProviders[1]"
    step = next(step for step, name in made.condition.items() if name == "IdentityProviders")
    assert [each.name for each in step.after] == ["API"]


@pytest.mark.proves("Keystone", "spec.federation.enabled")
def test_disabled_federation_changes_no_object(release: Release) -> None:
    off = planned(release, OPENID, SAML, federation={"enabled": False}, secrets={})
    assert list(off.objects) == list(plan(context(KEYSTONE, release=release, published=CONTRACTS)).objects)


@pytest.mark.parametrize(
    ("providers", "path", "message"),
    [
        ([], "identityProviders", "federation needs an identity provider"),
        ([OPENID, changed(SAML, name="sso")], r"identityProviders\[1\].name", "'sso' is also the name of entry 0"),
        ([changed(OPENID, protocol="saml2")], r"identityProviders\[0\].openid", "set both, or neither"),
        (
            [{k: v for k, v in OPENID.items() if k != "openid"}],
            r"identityProviders\[0\].openid",
            "goes with protocol",
        ),
        (
            [changed(OPENID, mapping=[RULE, {"remote": [{"type": "HTTP_OIDC_EMAIL"}], "local": []}])],
            r"identityProviders\[0\].mapping\[1\].remote",
            "clients can forge",
        ),
    ],
)
def test_an_invalid_provider_is_refused_with_its_field(
    release: Release, providers: list[dict[str, Any]], path: str, message: str
) -> None:
    with pytest.raises(SpecError, match=rf"spec\.federation\.{path}: .*{message}"):
        planned(release, *providers)


def test_an_unknown_protocol_is_refused(release: Release) -> None:
    with pytest.raises(ValidationError, match="openid' or 'saml2"):
        planned(release, changed(OPENID, protocol="kerberos"))


@pytest.mark.parametrize(
    ("provider", "path"),
    [
        (changed(SAML, caSecretRef={"name": "campus"}), "caSecretRef.key"),
        (
            changed(SAML, saml2={**SAML["saml2"], "metadataSecretRef": {"name": "campus", "key": "x"}}),
            "metadataSecretRef.key",
        ),
    ],
)
def test_a_file_that_is_not_there_names_its_field(release: Release, provider: dict[str, Any], path: str) -> None:
    with pytest.raises(MissingReference, match=rf"identityProviders\[0\].*{path}: Secret 'campus' has no key"):
        planned(release, provider)


@pytest.mark.security
def test_no_private_key_gets_into_a_file_of_certificates(release: Release) -> None:
    """A Secret may be the operator's own, such as that of an authority."""
    provider = changed(SAML, caSecretRef={"name": "internal-ovn-authority", "key": "tls.key"})
    secrets = {"internal-ovn-authority": {"tls.key": "-----BEGIN PRIVATE KEY-----\n"}}
    with pytest.raises(Incomplete, match=r"identityProviders\[0\].*caSecretRef.key: .* has a private key"):
        planned(release, provider, secrets=secrets)


@pytest.mark.security
def test_a_secret_that_apache_would_change_is_refused(release: Release) -> None:
    with pytest.raises(SpecError, match=r"identityProviders\[0\].openid.clientSecretRef: .*\$\{"):
        planned(release, OPENID, secrets={"sso": {"secret": "a${PATH}b"}})


def test_images_without_it_say_so(release: Release) -> None:
    kolla = Release("2025.1", "kolla", {n: c for n, c in release.components.items() if n != "keystone-federation"})
    with pytest.raises(UnsupportedError, match=r"spec\.federation\.enabled: the images of profile 'kolla' have none"):
        planned(kolla, OPENID)


def test_methods_of_the_user_have_to_have_its_own(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec\.config\.auth\.methods: federation needs openid"):
        planned(release, OPENID, config={"auth": {"methods": "password,token,totp"}})
    conf = options(planned(release, OPENID, config={"auth": {"methods": "password,token,totp,openid"}}))
    assert conf["auth"]["methods"] == "password,token,totp,openid"


def test_a_protocol_of_several_providers_has_no_place_of_its_own(release: Release) -> None:
    path = "/v3/auth/OS-FEDERATION/websso/openid"
    other = changed(OPENID, name="other")
    assert f'<Location "{path}">' in files(planned(release, OPENID, SAML))["apache2.conf"]
    both = files(planned(release, OPENID, other))["apache2.conf"]
    assert path not in both
    assert "Listen 127.0.0.1:5011\n" in both
    assert "Listen 127.0.0.1:5012\n" in both


@pytest.mark.security
def test_a_mapping_cannot_write_configuration(release: Release) -> None:
    rule = {"remote": [{"type": "x\nLoadModule y z"}, {"type": 'a" b'}], "local": []}
    assert "loadmodule y" not in files(planned(release, changed(OPENID, mapping=[rule])))["apache2.conf"].lower()


@pytest.mark.security
@pytest.mark.parametrize("word", ['a"b', "a b", "a\nb", "${PATH}", "a\\b"])
def test_nothing_leaves_its_place_in_the_configuration(word: str) -> None:
    with pytest.raises(ValidationError):
        OpenID.model_validate({**OPENID["openid"], "clientID": word})


def test_saml_is_spoken_with_what_the_provider_is_known_by(release: Release) -> None:
    provider = changed(SAML, saml2={**SAML["saml2"], "attributes": {"dept": 'urn:"<x>'}})
    pair = pki.authority("a" * 32, "x", context(KEYSTONE, release=release).now)
    made = planned(
        release,
        provider,
        federation={"serviceProvider": {"keyPairSecretRef": {"name": "pair"}}},
        expose={"type": "Ingress", "host": "keystone.example.org"},
        secrets={**SECRETS, "pair": {"tls.crt": pair.cert, "tls.key": pair.key}},
    )
    run, held = pod(made), files(made)
    assert run["shibd"]["command"][0] == "shibd"
    assert held["metadata-campus.xml"] == "<EntityDescriptor/>"
    assert held["sp.key"] == pair.key
    root = ET.fromstring(held["shibboleth2.xml"])
    space = "{urn:mace:shibboleth:3.0:native:sp:config}"
    defaults = root.find(f"{space}ApplicationDefaults")
    assert defaults is not None
    assert defaults.get("entityID") == "https://keystone.example.org/shibboleth"
    assert defaults.find(f"{space}CredentialResolver") is not None
    cache = root.find(f"{space}SessionCache")
    assert cache is not None
    assert "dept" in cache.get("persistedAttributes", "").split()
    attributes = ET.fromstring(held["attribute-map.xml"])
    assert {(each.get("name"), each.get("id")) for each in attributes} == {('urn:"<x>', "dept")}
    assert "auth_openidc" not in held["apache2.conf"]
