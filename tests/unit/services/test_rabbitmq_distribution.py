"""What members of RabbitMQ send each other: who checks whom, and how a cluster that runs comes to encrypt it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509

from openstack_operator import pki
from openstack_operator.kube import secret_data
from openstack_operator.plan import Object, Plan, Release, SpecError, key
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as authority
from openstack_operator.services.rabbitmq.model import RABBITMQ
from openstack_operator.services.rabbitmq.service import plan
from openstack_operator.testing import context
from tests.planning import rolled_out

Children = dict[tuple[str, str], Object]
SERVER = ("StatefulSet", "rabbitmq-server")
ASKED = {"pkiRef": {"name": "pki"}}
REQUIRED = {**ASKED, "required": True}


def planned(release: Release, replicas: int, tls: dict[str, Any] | None, children: Children | None = None) -> Plan:
    made = authority(context(PKI, release=release))
    secrets = {obj["metadata"]["name"]: secret_data(obj) for obj in made.objects}
    if tls and "secretRef" in tls:
        secrets["mine"] = brought(tls["names"], calls=tls["calls"])
        tls = {"secretRef": tls["secretRef"], "required": True}
    published = {"PKI": made.outcome.published}
    spec = {"replicas": replicas, **({"tls": tls} if tls else {})}
    ctx = context(RABBITMQ, spec, release=release, published=published, secrets=secrets, children=children or {})
    return plan(ctx)


def brought(names: set[str], *, calls: bool) -> dict[str, str]:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ours = pki.authority("mine", "mine", now)
    pair = pki.issue(ours, pki.Request(common="x", names=frozenset(names), calls=calls), "x", now)
    return {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": ours.cert}


def runs(result: Plan) -> tuple[int, bool]:
    """How many members, and whether they encrypt."""
    spec = next(obj["spec"] for obj in result.objects if key(obj) == SERVER)
    env = {each["name"]: each.get("value", "") for each in spec["template"]["spec"]["containers"][0]["env"]}
    files = secret_data(next(obj for obj in result.objects if key(obj) == ("Secret", "rabbitmq-config")))
    found = {
        "-proto_dist inet_tls" in env.get("RABBITMQ_SERVER_START_ARGS", ""),
        "-proto_dist inet_tls" in env.get("RABBITMQ_CTL_ERL_ARGS", ""),
        "inter_node_tls.config" in files,
    }
    assert len(found) == 1, "a broker and its tools speak alike"
    return spec["replicas"], found.pop()


def with_status(children: Children, **status: int) -> Children:
    live = children[SERVER]
    return {**children, SERVER: {**live, "status": {**live["status"], **status}}}


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_new_broker_with_a_certificate_encrypts_from_the_start(release: Release, replicas: int) -> None:
    assert runs(planned(release, replicas, ASKED)) == (replicas, True)
    assert runs(planned(release, replicas, None)) == (replicas, False)


@pytest.mark.security
def test_both_sides_of_a_connection_are_checked(release: Release) -> None:
    secrets = {name: secret_data(obj) for (_, name), obj in rolled_out(planned(release, 3, ASKED)).items()}
    server, client = secrets["rabbitmq-config"]["inter_node_tls.config"].split("{client,")
    assert all("{verify, verify_peer}" in each for each in (server, client))
    assert "{fail_if_no_peer_cert, true}" in server
    # Erlang itself takes no wildcard, and that is how members are named.
    assert "pkix_verify_hostname_match_fun(https)" in client
    cert = x509.load_pem_x509_certificate(secrets["rabbitmq-tls"]["tls.crt"].encode())
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "*.rabbitmq-members.openstack.svc.cluster.local" in names.get_values_for_type(x509.DNSName)
    uses = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {use._name for use in uses} == {"serverAuth", "clientAuth"}  # pyright: ignore[reportPrivateUsage]


def test_a_broker_alone_encrypts_with_the_restart_that_brings_the_certificate(release: Release) -> None:
    plain = rolled_out(planned(release, 1, None))
    assert runs(planned(release, 1, ASKED, plain)) == (1, True)


def test_members_that_run_in_plain_text_go_on_until_it_is_forbidden(release: Release) -> None:
    """With `tls` each is restarted for itself, which would leave one that encrypts alone."""
    plain = rolled_out(planned(release, 3, None))
    rolled = rolled_out(planned(release, 3, ASKED, plain))
    assert runs(planned(release, 3, ASKED, rolled)) == (3, False)
    # One that becomes three at the same time has the same to get over.
    assert runs(planned(release, 3, ASKED, rolled_out(planned(release, 1, None)))) == (3, False)


def test_all_members_stop_before_one_starts_that_encrypts(release: Release) -> None:
    rolled = rolled_out(planned(release, 3, ASKED, rolled_out(planned(release, 3, None))))
    first = planned(release, 3, REQUIRED, rolled)
    assert runs(first) == (0, True)
    verdict = next(step.verdict for step in first if step.name == "Server")
    assert verdict
    assert verdict.message.startswith("all members stop, then start again encrypted between each other")
    stopping = rolled_out(first)
    assert runs(planned(release, 3, REQUIRED, with_status(stopping, replicas=1))) == (0, True)
    started = planned(release, 3, REQUIRED, with_status(stopping, replicas=0))
    assert runs(started) == (3, True)
    assert runs(planned(release, 3, REQUIRED, rolled_out(started))) == (3, True)


def test_nothing_stops_while_a_member_is_away(release: Release) -> None:
    rolled = rolled_out(planned(release, 3, ASKED, rolled_out(planned(release, 3, None))))
    assert runs(planned(release, 3, REQUIRED, with_status(rolled, readyReplicas=2))) == (3, False)


def test_members_that_encrypt_do_so_until_there_is_no_certificate(release: Release) -> None:
    encrypted = rolled_out(planned(release, 3, REQUIRED))
    assert runs(planned(release, 3, ASKED, with_status(encrypted, readyReplicas=1))) == (3, True)
    assert runs(planned(release, 3, None, encrypted)) == (0, False)
    # More of them join as they are.
    assert runs(planned(release, 3, ASKED, rolled_out(planned(release, 1, ASKED)))) == (3, True)


def test_a_certificate_that_is_brought_is_for_members_too(release: Release) -> None:
    service, members = "rabbitmq.openstack.svc.cluster.local", "*.rabbitmq-members.openstack.svc.cluster.local"

    def mine(names: set[str], *, calls: bool) -> dict[str, Any]:
        return {"secretRef": {"name": "mine"}, "names": names, "calls": calls}

    assert runs(planned(release, 3, mine({service, members}, calls=True))) == (3, True)
    for tls, text in (
        (mine({service}, calls=True), rf"the certificate lacks \{members}"),
        (mine({service, members}, calls=False), "the certificate is for servers only"),
    ):
        with pytest.raises(SpecError, match=f"^spec.tls.secretRef: Secret 'mine': {text}"):
            planned(release, 3, tls)
