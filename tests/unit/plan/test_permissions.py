"""What a resource asks for beyond its namespace is refused, unless the operator's administrator allows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openstack_operator.cli.command_line import command_line
from openstack_operator.cli.main import main
from openstack_operator.cli.settings import run_settings
from openstack_operator.plan import Object, Permissions, Release, SpecError, is_own_service, key, wrong_entry
from openstack_operator.registry import SERVICES
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.placement.model import PLACEMENT
from openstack_operator.testing import context

pytestmark = pytest.mark.security

PLANS = {service.resource.handle: service.plan for service in SERVICES}
CONTRACTS = {
    "MariaDB": {"host": "db", "port": "3306"},
    "Memcached": {"servers": "m:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
}
ISSUER = {
    "issuerName": "company",
    "issuerKind": "ClusterIssuer",
    "issuerGroup": "cert-manager.io",
    "certificateMinutes": "900",
    "bundleSecret": "pki-bundle",
}
TLS = {"tls": {"pkiRef": {"name": "pki"}}}


def made(resource: Any, spec: dict[str, Any], release: Release, **changes: Any) -> dict[tuple[str, str], Object]:
    published = {**CONTRACTS, "PKI": {**ISSUER, **changes.pop("issuer", {})}}
    secrets = {"pki-bundle": {"ca.crt": ""}}
    found = context(resource, spec, release=release, published=published, secrets=secrets, **changes)
    return {key(obj): obj for obj in PLANS[resource.handle](found).objects}


def annotated(release: Release, annotations: dict[str, str], **changes: Any) -> dict[str, str]:
    spec = {"expose": {"type": "Ingress", "host": "p.example.org", "ingress": {"annotations": annotations}}}
    found = made(PLACEMENT, spec, release, **changes)["Ingress", "placement-api"]
    return dict(found["metadata"]["annotations"])


# Names that an issuer of the whole cluster certifies

AT = {"expose": {"type": "NodePort", "host": "bank.example.org"}, **TLS}


def test_an_issuer_of_the_cluster_certifies_no_name_of_others(release: Release) -> None:
    with pytest.raises(SpecError) as refused:
        made(PLACEMENT, AT, release)
    assert str(refused.value) == (
        "spec.tls.pkiRef: ClusterIssuer/company is cluster-wide, and this namespace may not get "
        "certificates for bank.example.org; the operator's administrator may allow it with --issuer-hosts "
        "'openstack=bank.example.org'"
    )


@pytest.mark.parametrize("entry", ["*.example.org", "openstack=bank.example.org", "open*=BANK.example.org", "*"])
def test_the_administrator_allows_names(release: Release, entry: str) -> None:
    found = made(PLACEMENT, AT, release, permissions=Permissions(issuer_hosts=(entry,)))
    names = found["Certificate.cert-manager.io", "placement-api-tls"]["spec"]["dnsNames"]
    assert "bank.example.org" in names


@pytest.mark.parametrize("entry", ["other=*", "openstack=*.bank.example.org", "bank", "ank.example.org", "*.org."])
def test_an_entry_allows_no_more_than_it_says(release: Release, entry: str) -> None:
    with pytest.raises(SpecError, match="--issuer-hosts"):
        made(PLACEMENT, AT, release, permissions=Permissions(issuer_hosts=(entry,)))


def test_addresses_are_allowed_by_their_networks(release: Release) -> None:
    at = {"expose": {"type": "NodePort", "host": "192.0.2.7"}, **TLS}
    with pytest.raises(SpecError, match=r"for 192\.0\.2\.7;"):
        made(PLACEMENT, at, release, permissions=Permissions(issuer_hosts=("198.51.100.0/24",)))
    found = made(PLACEMENT, at, release, permissions=Permissions(issuer_hosts=("192.0.2.0/24",)))
    assert "192.0.2.7" in found["Certificate.cert-manager.io", "placement-api-tls"]["spec"]["ipAddresses"]


def test_an_issuer_of_the_namespace_is_its_own_affair(release: Release) -> None:
    found = made(PLACEMENT, AT, release, issuer={"issuerKind": "Issuer"})
    assert "bank.example.org" in found["Certificate.cert-manager.io", "placement-api-tls"]["spec"]["dnsNames"]


def test_of_which_kinds_of_others_serve_the_cluster_nobody_knows(release: Release) -> None:
    with pytest.raises(SpecError, match="--issuer-hosts"):
        made(PLACEMENT, AT, release, issuer={"issuerKind": "Issuer", "issuerGroup": "example.org"})


@pytest.mark.parametrize("owner", ["bank.example.org", "intranet"])
def test_no_name_is_certified_that_others_may_have(release: Release, owner: str) -> None:
    """A resource's own name becomes one of its Service."""
    found = made(MEMCACHED, TLS, release, owner=owner)
    orders = [obj for obj in found.values() if obj["kind"] == "Certificate"]
    names = [name for order in orders for name in order["spec"]["dnsNames"] if name != "localhost"]
    assert names
    assert all(name.endswith((".openstack.svc", ".openstack.svc.cluster.local")) for name in names)


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("keystone-api.openstack.svc", True),
        ("keystone-api.openstack.svc.example.local", True),
        ("pod-0.members.openstack.svc", True),
        ("*.members.openstack.svc", True),
        # The namespace `stack` would have certificates for everything in `openstack`.
        ("keystone-api.my-openstack.svc", False),
        ("keystone-api.my-openstack.svc.example.local", False),
        ("*.my-openstack.svc", False),
        ("keystone-api.other.svc", False),
        ("openstack.svc", False),
        ("keystone-api.openstack.svc.other.local", False),
        ("keystone-api.openstack.svc.example.local.", False),
        ("keystone-api.openstack", False),
        ("keystone-apixopenstackxsvc", False),
    ],
)
def test_services_of_a_namespace_whose_name_ends_alike_are_not_its_own(host: str, is_own: bool) -> None:
    assert is_own_service(host, "openstack", "example.local") is is_own


# Annotations that a controller of the cluster obeys

SNIPPET = "nginx.ingress.kubernetes.io/configuration-snippet"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (SNIPPET, "return 200 stolen;"),
        ("nginx.ingress.kubernetes.io/server-snippet", ""),
        ("nginx.ingress.kubernetes.io/auth-url", "https://evil.org"),
        ("nginx.ingress.kubernetes.io/proxy-ssl-secret", "other/certificate"),
        ("nginx.ingress.kubernetes.io/proxy-body-size", "1m; } location /x {"),
        ("nginx.ingress.kubernetes.io/proxy-body-size", "1m\n"),
        ("haproxy.org/backend-config-snippet", "http-request lua.x"),
        ("haproxy.org/server-ca", "other/authority"),
        ("haproxy-ingress.github.io/config-backend", "x"),
        ("haproxy-ingress.github.io/timeout-server", "10m\n  stats enable"),
        ("cert-manager.io/common-name", "bank.example.org"),
        ("cert-manager.io/alt-names", "bank.example.org"),
        ("cert-manager.io/secret-template", '{"labels": {}}'),
        ("external-dns.alpha.kubernetes.io/hostname", "bank.example.org"),
    ],
)
def test_an_annotation_that_acts_on_others_is_refused(release: Release, name: str, value: str) -> None:
    with pytest.raises(SpecError) as refused:
        annotated(release, {name: value})
    ((path, text),) = refused.value.problems
    assert path == f"spec.expose.ingress.annotations.{name}"
    assert text.endswith(f"may allow it with --ingress-annotations 'openstack={name}'")
    for entry in (name, f"openstack={name}", f"{name.partition('/')[0]}/*"):
        allowed = annotated(release, {name: value}, permissions=Permissions(ingress_annotations=(entry,)))
        assert allowed[name] == value
    with pytest.raises(SpecError):
        annotated(release, {name: value}, permissions=Permissions(ingress_annotations=(f"other={name}",)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nginx.ingress.kubernetes.io/proxy-body-size", "1g"),
        ("nginx.ingress.kubernetes.io/proxy-read-timeout", "7200"),
        ("nginx.ingress.kubernetes.io/ssl-redirect", "false"),
        ("haproxy-ingress.github.io/timeout-server", "10m"),
        ("haproxy.org/timeout-tunnel", "24h"),
        ("haproxy.org/server-ca", "openstack/authority"),
        ("cert-manager.io/issuer", "company"),
        ("cert-manager.io/duration", "2160h0m0s"),
    ],
)
def test_an_annotation_that_acts_on_its_own_ingress_is_free(release: Release, name: str, value: str) -> None:
    assert annotated(release, {name: value})[name] == value


@pytest.mark.parametrize(
    "annotations",
    [
        {"cert-manager.io/cluster-issuer": "company"},
        {"cert-manager.io/issuer": "company", "cert-manager.io/issuer-kind": "ClusterIssuer"},
        {"cert-manager.io/issuer": "company", "cert-manager.io/issuer-group": "example.org"},
        {"kubernetes.io/tls-acme": "true"},
    ],
)
def test_an_ingress_has_no_certificate_for_a_name_of_others(release: Release, annotations: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=r"^spec\.expose\.ingress\.annotations\..*--issuer-hosts 'openstack=p.example"):
        annotated(release, annotations)
    allowed = Permissions(issuer_hosts=("openstack=*.example.org",))
    assert annotations.items() <= annotated(release, annotations, permissions=allowed).items()


# Keys of a store of the whole cluster


def pushed(release: Release, key_: str | None = None, kind: str = "ClusterSecretStore", **allowed: Any) -> str:
    store = {"name": "vault", "kind": kind, **({"key": key_} if key_ else {})}
    spec = {"catalog": {"provider": "k-orc", "secretStoreRef": store}}
    found = made(KEYSTONE, spec, release, permissions=Permissions(**allowed))
    (push,) = (obj for obj in found.values() if obj["kind"] == "PushSecret")
    (pull,) = (obj for obj in found.values() if obj["kind"] == "ExternalSecret")
    keys = {each["match"]["remoteRef"]["remoteKey"] for each in push["spec"]["data"]}
    assert keys == {each["remoteRef"]["key"] for each in pull["spec"]["data"]}
    return str(keys.pop())


@pytest.mark.parametrize(
    "name",
    [
        "other/k-orc",
        "openstack",
        "openstacks/x",
        "openstack/../other/x",
        "openstack/./x",
        "openstack//x",
        "/openstack/x",
    ],
)
def test_no_key_of_others_is_written_or_read(release: Release, name: str) -> None:
    with pytest.raises(SpecError) as refused:
        pushed(release, name)
    text = f"spec.catalog.secretStoreRef.key: ClusterSecretStore/vault is cluster-wide, and {name!r} is not"
    assert str(refused.value).startswith(text)
    assert str(refused.value).endswith(f"--secret-store-keys 'openstack={name}'")
    assert pushed(release, name, "SecretStore") == name, "a store of the namespace is its own affair"
    assert pushed(release, name, secret_store_keys=(f"openstack={name}",)) == name


def test_the_administrator_allows_keys(release: Release) -> None:
    assert pushed(release) == "openstack/k-orc/app-credential"
    assert pushed(release, "openstack/mine") == "openstack/mine"
    shared: dict[str, Any] = {"secret_store_keys": ("openstack=shared/openstack/*",)}
    assert pushed(release, "shared/openstack/k-orc", **shared) == "shared/openstack/k-orc"
    for key_ in ("shared/other/k-orc", "shared/openstack/../other/k-orc", "shared/openstack/%2e%2e/x"):
        with pytest.raises(SpecError):
            pushed(release, key_, **shared)


# Where it is written


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("", "neither"),
        ("openstack=", "neither"),
        ("=x", "neither"),
        ("a b", "neither"),
        ("192.0.2.1/24", "has host bits set"),
        ("openstack=192.0.2.1/24", "has host bits set"),
        ("192.0.2.0/24", ""),
        ("openstack=*.example.org", ""),
        ("nginx.ingress.kubernetes.io/*", ""),
    ],
)
def test_an_entry_that_is_none_is_refused(entry: str, says: str) -> None:
    assert says in wrong_entry(entry)
    assert bool(says) == bool(wrong_entry(entry))


FLAGS = {
    "issuer-hosts": "issuer_hosts",
    "secret-store-keys": "secret_store_keys",
    "ingress-annotations": "ingress_annotations",
    "allow-plain-text-to": "plain_text_to",
    "priority-classes": "priority_classes",
}


@pytest.mark.parametrize(("flag", "field"), FLAGS.items())
def test_the_command_line_and_the_environment_say_the_same(
    monkeypatch: pytest.MonkeyPatch, flag: str, field: str
) -> None:
    def given(*arguments: str) -> Any:
        return getattr(run_settings(command_line().parse_args(["run", *arguments])).permissions, field)

    variable = flag.upper().replace("-", "_")
    monkeypatch.delenv(variable, raising=False)
    assert given() == ()
    assert given(f"--{flag}", "a", f"--{flag}", "openstack=b") == ("a", "openstack=b")
    monkeypatch.setenv(variable, "a,openstack=b")
    assert given() == ("a", "openstack=b")
    with pytest.raises(SystemExit, match=rf"run: --{flag} \({variable}\): '=x' is neither"):
        given(f"--{flag}", "=x")


MANIFEST = f"""\
apiVersion: openstack.k8s.io/v1alpha1
kind: Placement
metadata: {{name: placement, namespace: openstack}}
spec:
  expose: {{type: Ingress, host: p.example.org, ingress: {{annotations: {{{SNIPPET}: x}}}}}}
"""


def test_validate_warns_of_what_it_cannot_know_to_be_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(MANIFEST, encoding="utf-8")
    assert main(["validate", "-f", str(file)]) == 0
    warned = capsys.readouterr().err
    assert "p.yaml:5: warning: Placement/placement: spec.expose.ingress.annotations" in warned
    assert f"--ingress-annotations 'openstack={SNIPPET}'" in warned
    assert main(["validate", "-f", str(file), "--ingress-annotations", f"openstack={SNIPPET}"]) == 0
    assert "--ingress-annotations" not in capsys.readouterr().err
    assert main(["render", "-f", str(file)]) == 0
    assert SNIPPET in capsys.readouterr().out


MANY = Permissions(issuer_hosts=("*".join("a" * 60) + "*b",))


def test_an_entry_with_many_stars_takes_no_power_of_a_names_length(release: Release) -> None:
    # To go back for another place of each star takes years of this.
    with pytest.raises(SpecError):
        made(PLACEMENT, {"expose": {"type": "NodePort", "host": "a" * 253}, **TLS}, release, permissions=MANY)
