"""A PKI whose certificates cert-manager makes, and what becomes of them in services."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from openstack_operator import pki
from openstack_operator.kube import secret_data
from openstack_operator.plan import Incomplete, Object, Plan, Release, SpecError, State, Verdict, key
from openstack_operator.runtime.cache.entries import entry
from openstack_operator.runtime.kubernetes.kinds import SECRET
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan as mariadb
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan as ovn
from openstack_operator.services.pki.issuer import to_read
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import is_replacing_authority, plan
from openstack_operator.services.placement.model import PLACEMENT
from openstack_operator.services.placement.service import plan as placement
from openstack_operator.testing import NOW, context, granted
from tests.planning import objects

THEIRS = pki.authority("theirs", "theirs", NOW)
SPEC: dict[str, Any] = {"issuerRef": {"name": "internal", "kind": "ClusterIssuer"}, "certificateLifetime": "15h"}
TLS = {"tls": {"pkiRef": {"name": "pki"}}}
PUBLISHED = {
    "issuerName": "internal",
    "issuerKind": "ClusterIssuer",
    "issuerGroup": "cert-manager.io",
    "certificateMinutes": "900",
    "bundleSecret": "pki-bundle",
}
Children = dict[tuple[str, str], Object]


def verdict(of: Plan, name: str) -> Verdict:
    found = [step.verdict for step in of if step.name == name and step.verdict]
    return max(found, key=lambda each: each.state)


def issued(order: Object, changed: Mapping[str, str] | None = None, *, by: pki.Pair = THEIRS) -> Children:
    """What cert-manager makes of an order."""
    spec = order["spec"]
    names = frozenset({*spec["dnsNames"], *spec.get("ipAddresses", ())})
    wanted = pki.Request(common="x", names=names, life=timedelta(minutes=900))
    pair = pki.issue(by, wanted, order["metadata"]["name"], NOW)
    files = {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": by.cert} | dict(changed or {})
    return {
        ("Secret", spec["secretName"]): secret(spec["secretName"], files),
        ("Certificate.cert-manager.io", order["metadata"]["name"]): said(order, Ready="True"),
    }


def secret(name: str, files: Mapping[str, str]) -> Object:
    data = {key: base64.b64encode(text.encode()).decode() for key, text in files.items() if text}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": "openstack"},
        "data": data,
    }


def said(order: Object, **conditions: str) -> Object:
    found = [
        {"type": type_, "status": status, "observedGeneration": 1, "reason": "Failed", "message": "because"}
        for type_, status in conditions.items()
    ]
    return {**order, "metadata": {**order["metadata"], "generation": 1}, "status": {"conditions": found}}


def ordered(release: Release, **changes: Any) -> Plan:
    return plan(context(PKI, {**SPEC, **changes.pop("spec", {})}, release=release, **changes))


def first(release: Release, **spec: str) -> Object:
    return objects(ordered(release, spec=spec))["Certificate.cert-manager.io", "pki-probe"]


def test_a_certificate_is_ordered_as_it_is_wanted(release: Release) -> None:
    known = {"PKI": PUBLISHED}
    secrets = {"pki-bundle": {"ca.crt": THEIRS.cert}}
    made = objects(ovn(context(OVN_NETWORK, TLS, release=release, published=known, secrets=secrets)))
    spec = made["Certificate.cert-manager.io", "ovnnetwork-tls"]["spec"]
    assert "client auth" in spec["usages"], "both sides show theirs"
    made = objects(mariadb(context(MARIADB, TLS, release=release, published=known, secrets=secrets)))
    spec = made["Certificate.cert-manager.io", "mariadb-tls"]["spec"]
    assert spec["usages"] == ["digital signature", "key encipherment", "server auth"]
    assert spec["ipAddresses"] == ["127.0.0.1"]
    assert "mariadb.openstack.svc.cluster.local" in spec["dnsNames"]
    assert (spec["duration"], spec["renewBefore"]) == ("900m", "300m"), "at two thirds of its life"
    assert spec["privateKey"] == {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always", "encoding": "PKCS8"}
    assert spec["issuerRef"] == {"name": "internal", "kind": "ClusterIssuer", "group": "cert-manager.io"}


def test_a_lifetime_that_cert_manager_refuses_is_refused_by_its_field(release: Release) -> None:
    for lifetime in ("59m", "0h30m"):
        with pytest.raises(SpecError, match=r"spec\.certificateLifetime: .* an hour or more; choose 1h or more"):
            ordered(release, spec={"certificateLifetime": lifetime})
        assert plan(context(PKI, {"certificateLifetime": lifetime}, release=release)), "an authority of our own"
    least = first(release, certificateLifetime="1h")["spec"]
    assert (least["duration"], least["renewBefore"]) == ("60m", "40m")


def test_nothing_is_published_before_the_issuer_was_seen_to_work(release: Release) -> None:
    order = first(release)
    silent = {("Certificate.cert-manager.io", "pki-probe"): {**order, "status": {}}}
    waits = {("Certificate.cert-manager.io", "pki-probe"): said(order, Ready="False")}
    refused = {("Certificate.cert-manager.io", "pki-probe"): said(order, Ready="False", Issuing="False")}
    changed, undated = said(order, Ready="True"), said(order, Ready="True")
    changed["metadata"]["generation"] = 2
    del undated["status"]["conditions"][0]["observedGeneration"]
    cases: list[tuple[Children, State, str]] = [
        ({}, State.PROGRESSING, "not ordered from ClusterIssuer/internal yet"),
        (silent, State.PROGRESSING, "check that it runs"),
        ({("Certificate.cert-manager.io", "pki-probe"): changed}, State.PROGRESSING, "ClusterIssuer/internal: because"),
        ({("Certificate.cert-manager.io", "pki-probe"): undated}, State.PROGRESSING, "ClusterIssuer/internal: because"),
        (
            waits,
            State.PROGRESSING,
            (
                "ClusterIssuer/internal: because; if this lasts, check the issuer and its"
                " requests: kubectl get certificaterequests.cert-manager.io -n openstack"
            ),
        ),
        (refused, State.FAILED, "spec.issuerRef: ClusterIssuer/internal refused it: because"),
    ]
    for children, state, text in cases:
        made = ordered(release, children=children)
        found = verdict(made, "Issuer")
        assert (found.state, text in found.message) == (state, True), found.message
        assert not made.outcome.published
    made = ordered(release, children=issued(order))
    assert verdict(made, "Issuer").ready
    assert made.outcome.published == PUBLISHED
    assert secret_data(objects(made)["Secret", "pki-bundle"]) == {"ca.crt": THEIRS.cert}
    assert ("Secret", "pki-authority") not in objects(made)
    assert not is_replacing_authority(context(PKI, SPEC, release=release, children=issued(order)))


def test_an_issuer_that_cannot_be_trusted_is_told_apart(release: Release) -> None:
    order = first(release)
    itself = secret_data(issued(order)["Secret", "pki-probe-issued"])["tls.crt"]
    cases = {
        "issues self-signed certificates": issued(order, {"ca.crt": itself}),
        "provides no ca.crt; store its authority in a Secret": issued(order, {"ca.crt": ""}),
        "does not match its key": issued(order, {"tls.key": THEIRS.key}),
    }
    for text, children in cases.items():
        made = ordered(release, children=children)
        assert text in verdict(made, "Issuer").message
        assert not made.outcome.published
    given = {"spec": {"caBundleSecretRef": {"name": "mine"}}}
    children = issued(order, {"ca.crt": ""})
    made = ordered(release, children=children, secrets={"mine": {"ca.crt": THEIRS.cert}}, **given)
    assert made.outcome.published
    with pytest.raises(Incomplete, match=r"^spec.caBundleSecretRef: Secret 'mine' has no certificate"):
        ordered(release, children=children, secrets={"mine": {"ca.crt": "none"}}, **given)


def test_published_trust_stays_while_the_issuer_fails_or_changes_authority(release: Release) -> None:
    order = first(release)
    children = issued(order)
    known = {**children, **objects(ordered(release, children=children))}
    refused = {**known, ("Certificate.cert-manager.io", "pki-probe"): said(order, Ready="False", Issuing="False")}
    del refused["Secret", "pki-probe-issued"]
    made = ordered(release, children=refused)
    assert made.outcome.published == PUBLISHED
    assert secret_data(objects(made)["Secret", "pki-bundle"]) == {"ca.crt": THEIRS.cert}
    another = pki.authority("another", "another", NOW)
    made = ordered(release, children={**known, **issued(order, by=another)})
    found = pki.split(secret_data(objects(made)["Secret", "pki-bundle"])["ca.crt"])
    assert found == {THEIRS.cert, another.cert}, "certificates by the one before are in use"


def test_an_authority_of_our_own_stays_until_the_issuer_works(release: Release) -> None:
    own = {k: granted(obj) for k, obj in objects(plan(context(PKI, release=release))).items()}
    made = ordered(release, children=own)
    assert made.outcome.published["authoritySecret"] == "pki-authority"
    assert objects(made)["Secret", "pki-authority"]["data"] == own["Secret", "pki-authority"]["data"]
    assert not verdict(made, "Issuer").ready
    made = ordered(release, children={**own, **issued(objects(made)["Certificate.cert-manager.io", "pki-probe"])})
    assert made.outcome.published == PUBLISHED
    bundle = pki.split(secret_data(objects(made)["Secret", "pki-bundle"])["ca.crt"])
    assert bundle == {THEIRS.cert, secret_data(own["Secret", "pki-authority"])["tls.crt"]}
    back = plan(context(PKI, release=release, children={k: granted(obj) for k, obj in objects(made).items()}))
    assert bundle < pki.split(secret_data(objects(back)["Secret", "pki-bundle"])["ca.crt"]), "and on the way back"


def server(release: Release, **changes: Any) -> Plan:
    secrets = {"pki-bundle": {"ca.crt": THEIRS.cert}}
    return mariadb(context(MARIADB, TLS, release=release, published={"PKI": PUBLISHED}, secrets=secrets, **changes))


def test_a_service_goes_on_as_it_is_until_its_certificate_is_there(release: Release) -> None:
    plain = objects(mariadb(context(MARIADB, release=release)))
    made = server(release, children={k: granted(obj) for k, obj in plain.items()})
    assert objects(made)["StatefulSet", "mariadb-server"] == plain["StatefulSet", "mariadb-server"]
    assert ("Secret", "mariadb-tls") not in objects(made)
    assert "trustSecret" not in made.outcome.published
    later = server(release, children={**plain, **issued(objects(made)["Certificate.cert-manager.io", "mariadb-tls"])})
    files = secret_data(objects(later)["Secret", "mariadb-tls"])
    assert pki.is_trusted(files["tls.crt"], [files["ca.crt"]])
    assert objects(later)["Secret", "mariadb-tls-issued"]["type"] == "kubernetes.io/tls", "it goes with its user"


def test_a_new_service_waits_for_its_certificate(release: Release) -> None:
    contracts = {
        "PKI": PUBLISHED,
        "MariaDB": {"host": "db", "port": "3306"},
        "Memcached": {"servers": "m:11211"},
        "Keystone": {"internalURL": "http://k/v3", "publicURL": "http://k/v3", "region": "RegionOne"},
    }
    secrets = {"pki-bundle": {"ca.crt": THEIRS.cert}}
    made = placement(context(PLACEMENT, TLS, release=release, published=contracts, secrets=secrets))
    api = next(step for step in made if ("Deployment", "placement-api") in {key(obj) for obj in step.objects})
    assert [step.name for step in api.after if step.verdict and not step.verdict.ready] == ["Certificate"]
    made = ovn(context(OVN_NETWORK, TLS, release=release, published=contracts, secrets=secrets))
    members = next(step for step in made if ("StatefulSet", "ovnnetwork-nb") in {key(obj) for obj in step.objects})
    assert [step.name for step in members.after] == ["Certificate"]


def test_the_last_good_certificate_stays_in_use(release: Release) -> None:
    order = objects(server(release))["Certificate.cert-manager.io", "mariadb-tls"]
    children = issued(order)
    known = {**children, **{k: granted(obj) for k, obj in objects(server(release, children=children)).items()}}
    good = secret_data(known["Secret", "mariadb-tls"])
    another = pki.authority("another", "another", NOW)
    cases = {
        "is not signed by any of the authorities": issued(order, by=another),
        "does not match its key": issued(order, {"tls.key": another.key}),
        "cannot be read": issued(order, {"tls.crt": "none"}),
    }
    for text, found in cases.items():
        made = server(release, children={**known, **found})
        assert secret_data(objects(made)["Secret", "mariadb-tls"]) == good
        assert text in verdict(made, "Certificate").message
        assert verdict(made, "Certificate").message.endswith("; the previous one stays in use")
    gone = {k: obj for k, obj in known.items() if k != ("Secret", "mariadb-tls-issued")}
    assert secret_data(objects(server(release, children=gone))["Secret", "mariadb-tls"]) == good


def test_a_secret_that_belongs_to_its_order_is_ours_to_read(release: Release) -> None:
    """cert-manager with --enable-certificate-owner-ref."""
    order = objects(server(release))["Certificate.cert-manager.io", "mariadb-tls"]
    children = issued(order)
    live = children["Secret", "mariadb-tls-issued"]
    owner = {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "name": "x", "uid": "1", "controller": True}
    live["metadata"]["ownerReferences"] = [owner]
    assert entry(live, SECRET).meta.controller is None
    assert ("Secret", "mariadb-tls-issued") not in objects(server(release, children=children)), "it may have one owner"


ACME = {"issuer": {"kind": "ClusterIssuer", "spec": {"acme": {"server": "https://acme.example.org"}}}}


def test_a_public_authority_certifies_no_name_inside_the_cluster(release: Release) -> None:
    made = ordered(release, facts=ACME)
    assert ("Secret", "pki-authority") in objects(made)
    assert not [kind for kind, _ in objects(made) if kind.startswith("Certificate")]
    assert made.outcome.published == {
        "authoritySecret": "pki-authority",
        "bundleSecret": "pki-bundle",
        "certificateMinutes": "900",
        "publicIssuerName": "internal",
        "publicIssuerKind": "ClusterIssuer",
    }
    said = verdict(made, "Issuer")
    assert said.ready
    assert "ClusterIssuer/internal (ACME) certifies only public names" in said.message


def test_an_authority_of_a_cluster_certifies_all_names(release: Release) -> None:
    made = ordered(release, facts={"issuer": {"kind": "ClusterIssuer", "spec": {"ca": {"secretName": "x"}}}})
    assert ("Certificate.cert-manager.io", "pki-probe") in objects(made)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Issuer", "/apis/cert-manager.io/v1/namespaces/openstack/issuers/internal"),
        ("ClusterIssuer", "/apis/cert-manager.io/v1/clusterissuers/internal"),
    ],
)
def test_only_issuers_of_cert_manager_are_read(release: Release, kind: str, path: str) -> None:
    ref = {**SPEC["issuerRef"], "kind": kind}
    found = to_read(context(PKI, {"issuerRef": ref}, release=release))
    assert found
    assert found[0].path(*found[1:]) == path
    assert to_read(context(PKI, {}, release=release)) is None
    assert to_read(context(PKI, {"issuerRef": {**ref, "group": "example.org"}}, release=release)) is None
