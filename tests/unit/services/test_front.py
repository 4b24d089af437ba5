"""TLS in front of APIs: what stands in their pods, what clients are told and when."""

from __future__ import annotations

import re
from typing import Any

import pytest

from openstack_operator import pki
from openstack_operator.kube import secret_data
from openstack_operator.parts.expose.front import SERVES
from openstack_operator.plan import Object, Plan, Release
from openstack_operator.services.glance.model import GLANCE
from openstack_operator.services.glance.service import plan as glance
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan as keystone
from openstack_operator.services.neutron.model import NEUTRON
from openstack_operator.services.neutron.service import plan as neutron
from openstack_operator.services.nova.cells import CONSOLE
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan as nova
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan as network
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as authority
from openstack_operator.testing import NOW, context, granted
from tests.planning import objects

Objects = dict[tuple[str, str], Object]
CONTRACTS = {
    "MariaDB": {"host": "db", "port": "3306"},
    "RabbitMQ": {"host": "mq", "port": "5672"},
    "Memcached": {"servers": "m:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
    "Glance": {"internalURL": "http://glance-api:9292"},
    "Neutron": {"internalURL": "http://neutron-api:9696", "metadataSecret": "neutron-credentials"},
    "OVNNetwork": {"northbound": "tcp:nb:6641", "southbound": "tcp:sb:6642"},
}
DOMAIN = "openstack.svc.cluster.local"
HOST = f"keystone-api.{DOMAIN}"


def planned(release: Release, resource: Any, plan: Any, tls: dict[str, Any] | None = None, **spec: Any) -> Plan:
    """A service with a certificate by a PKI; `children` is what is there."""
    made = authority(context(PKI, release=release))
    secrets = {name: secret_data(obj) for (_, name), obj in objects(made).items()}
    secrets["neutron-credentials"] = {"metadata": "shared"}
    changes = {name: spec.pop(name) for name in ("children", "now", "permissions") if name in spec}
    pki_contract = {**made.outcome.published, **spec.pop("pki_contract", {})}
    contracts = {**CONTRACTS, "PKI": pki_contract, **spec.pop("contracts", {})}
    asked = {"tls": {"pkiRef": {"name": "pki"}, **(tls or {})}, **spec}
    found: Plan = plan(context(resource, asked, release=release, published=contracts, secrets=secrets, **changes))
    return found


def pod(found: Objects, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = found["Deployment", name]["spec"]["template"]["spec"]
    return spec


def conf(found: Objects, name: str, file: str) -> str:
    return secret_data(found["Secret", name])[file]


def test_an_api_listens_to_its_front_alone(release: Release) -> None:
    found = objects(planned(release, KEYSTONE, keystone))
    main, front = pod(found, "keystone-api")["containers"]
    assert "127.0.0.1:5000" in main["command"]
    assert "livenessProbe" not in main
    assert main["startupProbe"]["httpGet"] == {"path": "/healthcheck", "port": 5000, "scheme": "HTTPS"}
    assert main["readinessProbe"]["httpGet"] == {"path": SERVES, "port": 5000, "scheme": "HTTPS"}
    assert front["livenessProbe"]["tcpSocket"] == {"port": 5000}
    own = {mount["mountPath"] for mount in main["volumeMounts"]}
    assert "/etc/openstack-front" not in own, "the key is the front's alone"
    users = {each["securityContext"]["runAsUser"] for each in (main, front)}
    groups = {each["securityContext"]["runAsGroup"] for each in (main, front)}
    assert (len(users), len(groups)) == (2, 1)
    plain = context(KEYSTONE, release=release, published=CONTRACTS)
    (alone,) = pod(objects(keystone(plain)), "keystone-api")["containers"]
    assert "0.0.0.0:5000" in alone["command"]


def config(found: Objects, name: str) -> str:
    text: str = next(each["value"] for each in pod(found, name)["containers"][1]["env"] if each["name"] == "CONFIG")
    return text


@pytest.mark.parametrize(
    ("resource", "plan", "spec", "concurrency"),
    [(KEYSTONE, keystone, {}, 2), (NEUTRON, neutron, {}, 2), (NEUTRON, neutron, {"api": {"processes": 5}}, 5)],
)
def test_requests_beyond_the_workers_of_an_api_queue_in_its_proxy(
    release: Release, resource: Any, plan: Any, spec: dict[str, Any], concurrency: int
) -> None:
    text = config(objects(planned(release, resource, plan, **spec)), f"{resource.kind.lower()}-api")
    assert text.count(f"monitor-uri {SERVES}\n") == 2
    (line,) = re.findall("server api .*", text)
    assert line.endswith(f" maxconn {concurrency}")
    assert " check " in line


def test_an_api_without_a_proxy_is_given_a_minute_to_answer(release: Release) -> None:
    plain = context(KEYSTONE, release=release, published=CONTRACTS)
    (alone,) = pod(objects(keystone(plain)), "keystone-api")["containers"]
    assert alone["readinessProbe"]["httpGet"] == {"path": "/healthcheck", "port": 5000}
    assert alone["readinessProbe"]["timeoutSeconds"] == 60


def test_certificate_of_an_api_has_every_name_and_address(release: Release) -> None:
    exposed = {"type": "NodePort", "host": "192.0.2.7"}
    found = objects(planned(release, KEYSTONE, keystone, expose=exposed))
    held = secret_data(found["Secret", "keystone-api-tls"])
    pair = pki.Pair(held["tls.key"], held["tls.crt"])
    wanted = pki.Request(common="", names=frozenset({"keystone-api", HOST, "192.0.2.7"}))
    assert pki.fault(pair, wanted, NOW, authorities=[held["ca.crt"]]) == ""


def test_certificate_condition_and_renewal_are_those_of_the_service(release: Release) -> None:
    plan = planned(release, NOVA, nova)
    names = {name for step, name in plan.condition.items() if step.name == "Certificate"}
    assert names == {"Certificate", "Cells"}, "that of a console is its cell's"
    assert ("Secret", "nova-api-tls") in objects(plan)
    assert ("Secret", "nova-metadata-tls") in objects(plan)
    assert plan.outcome.wake is not None


def test_consoles_have_a_front_too(release: Release) -> None:
    found = objects(planned(release, NOVA, nova))
    main, _ = pod(found, "nova-cell1-novncproxy")["containers"]
    assert {"name": "OS_VNC__NOVNCPROXY_HOST", "value": "127.0.0.1"} in main["env"]
    url = f"novncproxy_base_url = https://nova-cell1-novncproxy.openstack.svc.cluster.local:{CONSOLE}/"
    assert url in conf(found, "nova-cell1-compute-config", "nova.conf")
    assert "auth_schemes = vencrypt,none\n" in conf(found, "nova-cell1-config", "nova.conf")
    required = objects(planned(release, NOVA, nova, {"required": True}))
    assert "auth_schemes = vencrypt\n" in conf(required, "nova-cell1-config", "nova.conf")


def test_clients_are_told_once_every_pod_takes_tls_and_they_may_be(release: Release) -> None:
    new = planned(release, KEYSTONE, keystone)
    assert new.outcome.published["internalURL"] == f"https://{HOST}:5000/v3"
    assert new.outcome.published["trustSecret"] == "pki-bundle"
    plain = objects(keystone(context(KEYSTONE, release=release, published=CONTRACTS)))
    running = {k: granted(obj) for k, obj in plain.items()}
    rolling = planned(release, KEYSTONE, keystone, children=running)
    assert rolling.outcome.published["internalURL"] == f"http://{HOST}:5000/v3"
    rolled = {k: granted(obj) for k, obj in objects(rolling).items()}
    assert planned(release, KEYSTONE, keystone, children=rolled).outcome.published["trustSecret"] == "pki-bundle"
    quiet = planned(release, KEYSTONE, keystone, {"announced": False}, children=rolled)
    assert quiet.outcome.published["internalURL"] == f"http://{HOST}:5000/v3"
    assert "trustSecret" not in quiet.outcome.published


@pytest.mark.parametrize(("announced", "refused"), [(True, True), (False, False)])
def test_plain_http_is_refused_once_tls_is_required_and_clients_know(
    release: Release, announced: bool, refused: bool
) -> None:
    found = objects(planned(release, KEYSTONE, keystone, {"required": True, "announced": announced}))
    _, front = pod(found, "keystone-api")["containers"]
    text = next(each["value"] for each in front["env"] if each["name"] == "CONFIG")
    assert ("content accept if { req.payload(0,1) -m bin 16 }" in text) == refused


def test_the_administrator_gets_what_to_check_it_by(release: Release) -> None:
    found = objects(planned(release, KEYSTONE, keystone))
    assert "cacert: /etc/openstack/ca.crt" in conf(found, "keystone-clouds", "clouds.yaml")
    assert "BEGIN CERTIFICATE" in conf(found, "keystone-clouds", "ca.crt")


def test_a_service_trusts_its_peers_before_it_uses_tls(release: Release) -> None:
    text = conf(objects(planned(release, NOVA, nova, {"announced": False})), "nova-config", "nova.conf")
    path = "/etc/openstack-trust/pki-bundle/ca.crt"
    assert "auth_url = http://" in text
    # keystone_authtoken, service_user, placement, neutron, glance, keystone
    assert text.count(f"cafile = {path}") >= 6


def ovn(release: Release, tls: dict[str, Any] | None = None, **more: Any) -> Plan:
    return planned(release, OVN_NETWORK, network, tls, **more)


def test_clients_of_ovn_databases_use_tls_once_both_offer_it(release: Release) -> None:
    new = ovn(release, replicas=3, relay={"replicas": 1})
    assert new.outcome.published["northbound"].startswith(f"ssl:ovnnetwork-nb-0.ovnnetwork-nb.{DOMAIN}:16641,ssl:")
    assert new.outcome.published["southboundForNodes"] == f"ssl:ovnnetwork-relay.{DOMAIN}:16642"
    assert new.outcome.published["clientSecret"] == "ovnnetwork-client-tls"
    plain = context(OVN_NETWORK, {}, release=release)
    running = {k: granted(obj) for k, obj in objects(network(plain)).items()}
    rolling = ovn(release, children=running)
    assert rolling.outcome.published["northbound"].startswith("tcp:")
    assert "clientSecret" not in rolling.outcome.published
    found = objects(rolling)
    # A switch that restarts is a node without a network for a moment: once, and not now.
    assert found["DaemonSet", "ovnnetwork-gateway"] == objects(network(plain))["DaemonSet", "ovnnetwork-gateway"]
    rolled = {k: granted(obj) for k, obj in found.items()}
    half = {**rolled, ("StatefulSet", "ovnnetwork-sb"): running["StatefulSet", "ovnnetwork-sb"]}
    assert ovn(release, children=half).outcome.published["northbound"].startswith("tcp:")
    told = ovn(release, children=rolled)
    assert told.outcome.published["southbound"] == f"ssl:ovnnetwork-sb-0.ovnnetwork-sb.{DOMAIN}:16642"
    northd = pod(objects(told), "ovnnetwork-northd")["containers"][0]
    assert "--ca-cert=/etc/ovn-tls/ca.crt" in northd["command"]


def test_ovns_certificate_may_be_shown_by_who_calls(release: Release) -> None:
    found = objects(ovn(release))
    for name in ("tls", "client-tls"):
        held = secret_data(found["Secret", f"ovnnetwork-{name}"])
        names = frozenset({f"*.ovnnetwork-nb.{DOMAIN}"})
        wanted = pki.Request(common="", names=names, calls=True)
        assert pki.fault(pki.Pair(held["tls.key"], held["tls.crt"]), wanted, NOW, authorities=[held["ca.crt"]]) == ""


def test_ovns_databases_are_closed_to_who_has_none_where_tls_is_required(release: Release) -> None:
    found = objects(ovn(release, {"required": True}))
    main = found["StatefulSet", "ovnnetwork-nb"]["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "OVN_PLAIN", "value": "no"} in main["env"]
    assert {port["containerPort"] for port in main["ports"]} == {16641, 6643}
    assert "16641" not in str(main["livenessProbe"]), "each probe of that port would be a handshake that failed"


def test_neutron_shows_ovn_its_certificate(release: Release) -> None:
    encrypted = {**CONTRACTS["OVNNetwork"], "clientSecret": "ovn-client-tls"}
    found = objects(planned(release, NEUTRON, neutron, contracts={"OVNNetwork": encrypted}))
    text = conf(found, "neutron-config", "neutron.conf")
    assert "ovn_nb_private_key = /etc/ovn-tls/tls.key" in text
    assert "ovn_sb_ca_cert = /etc/ovn-tls/ca.crt" in text
    agent = conf(found, "neutron-metadata-agent-config", "neutron.conf")
    assert "ovn_sb_certificate = /etc/ovn-tls/tls.crt" in agent
    assert "ovn_nb_" not in agent
    for kind, name in (("Deployment", "neutron-api"), ("DaemonSet", "neutron-metadata-agent")):
        main = found[kind, name]["spec"]["template"]["spec"]["containers"][0]
        assert "/etc/ovn-tls" in {mount["mountPath"] for mount in main["volumeMounts"]}


@pytest.mark.parametrize("shown", [True, False])
def test_metadata_is_asked_for_as_nova_serves_it(release: Release, shown: bool) -> None:
    protocol = {"metadataProtocol": "https", "trustSecret": "pki-bundle"} if shown else {"metadataProtocol": "http"}
    found = objects(planned(release, NEUTRON, neutron, contracts={"Nova": protocol}))
    text = conf(found, "neutron-metadata-agent-config", "neutron.conf")
    assert ("nova_metadata_protocol = https" in text) == shown
    assert ("auth_ca_cert = /etc/openstack-trust/pki-bundle/ca.crt" in text) == shown


def test_glance_pods_call_each_other_by_tls_once_all_can(release: Release) -> None:
    def known_as(found: Objects) -> dict[str, str]:
        main, *_ = pod(found, "glance-api")["containers"]
        return {each["name"]: each["value"] for each in main["env"] if "value" in each}

    plain = objects(glance(context(GLANCE, {"storageType": "swift"}, release=release, published=CONTRACTS)))
    variable = "OS_DEFAULT__WORKER_SELF_REFERENCE_URL"
    assert known_as(plain)[variable] == "http://$(POD_IP):9292"
    rolling = planned(
        release, GLANCE, glance, storageType="swift", children={k: granted(obj) for k, obj in plain.items()}
    )
    assert known_as(objects(rolling))[variable] == "http://$(POD_IP):9292", "the old pods have no front yet"
    required = objects(planned(release, GLANCE, glance, {"required": True}, storageType="swift"))
    assert known_as(required)[variable] == "http://127.0.0.1:8999/$(POD_IP)"
    for found in (objects(rolling), required):
        front = pod(found, "glance-api")["containers"][1]
        text = next(each["value"] for each in front["env"] if each["name"] == "CONFIG")
        assert f"verify required ca-file /etc/openstack-front/ca.crt verifyhost glance-api.{DOMAIN}" in text
        assert {"name": "VERIFIES_PEERS", "value": "true"} in front["env"], "another authority restarts nothing"
    shared = objects(planned(release, GLANCE, glance))
    assert variable not in known_as(shared)
    assert "frontend peers" not in str(pod(shared, "glance-api"))
