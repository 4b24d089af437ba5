"""OVN's databases whose members switch to TLS between each other: what the operator tells them, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Key, Object, Plan, Release, SpecError, State, Verdict, key
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as authority
from openstack_operator.testing import context
from tests.planning import rolled_out

TLS = {"pkiRef": {"name": "pki"}}


def planned(
    release: Release,
    children: dict[Key, Object] | None = None,
    *,
    speak: str = "",
    replicas: int = 3,
    relays: int | None = None,
    **tls: Any,
) -> Plan:
    """With TLS where `tls` says anything; `speak` is what each member of a database does: t, s or - for no leader."""
    by = authority(context(PKI, release=release))
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in by.objects if obj["kind"] == "Secret"}
    spec: dict[str, Any] = {"replicas": replicas, **({"tls": {**TLS, **tls}} if tls else {})}
    schemes = {"t": "tcp", "s": "ssl", "-": ""}
    facts = {
        f"ovn-{name}-{n}": {"state": "member", "led": letter != "-", "cluster": "one", "scheme": schemes[letter]}
        for name in ("nb", "sb")
        for n, letter in enumerate(speak)
    }
    if relays is not None:
        spec["relay"] = {"replicas": relays}
    given: dict[str, Any] = {"facts": facts, "secrets": secrets, "children": children or {}}
    return plan(
        context(OVN_NETWORK, spec, release=release, owner="ovn", published={"PKI": by.outcome.published}, **given)
    )


def told(made: Plan) -> str:
    return kube.secret_data(rolled_out(made)["Secret", "ovn-nb-raft"]).get("schemes", "")


def northbound(made: Plan) -> Verdict | None:
    return next(step for step in made if step.name == "Northbound").verdict


@pytest.fixture
def plain(release: Release) -> dict[Key, Object]:
    """Three members without certificates."""
    return rolled_out(planned(release, rolled_out(planned(release)), speak="ttt"))


def test_without_tls_nobody_is_told(release: Release, plain: dict[Key, Object]) -> None:
    assert told(planned(release, plain, speak="ttt")) == ""


def test_a_new_database_speaks_tls_and_then_nothing_else(release: Release) -> None:
    first = planned(release, announced=True)
    assert told(first) == "ssl,tcp", "nobody knows what a volume that was there before holds"
    over = planned(release, rolled_out(first), speak="sss", announced=True)
    assert told(over) == "ssl"
    assert northbound(over) is None
    assert over.outcome.wake != first.outcome.wake, "nothing is left to be looked at again"
    # One that is away, or lost its disk, is no reason to speak plain again.
    assert told(planned(release, rolled_out(over), speak="s-t", announced=True)) == "ssl"
    assert told(planned(release, rolled_out(over), announced=False)) == "ssl"


def test_members_are_told_when_all_show_certificates(release: Release, plain: dict[Key, Object]) -> None:
    first = planned(release, plain, speak="ttt", announced=True)
    assert told(first) == "", "their pods have no certificates yet"
    rolled = rolled_out(first)
    assert told(planned(release, rolled, speak="ttt", announced=False)) == ""
    before = rolled["StatefulSet", "ovn-nb"]["spec"]["template"]
    going = planned(release, rolled, speak="ttt", announced=True)
    assert told(going) == "ssl,tcp"
    assert northbound(going) == Verdict(
        State.READY, "members switch to TLS between each other, one by one: next ovn-nb-2"
    ), "the database serves all the while"
    assert rolled_out(going)["StatefulSet", "ovn-nb"]["spec"]["template"] == before, "nobody starts anew for it"
    for speak, left in (("tts", "ovn-nb-1"), ("tss", "ovn-nb-0")):
        going = planned(release, rolled_out(going), speak=speak, announced=True)
        assert told(going) == "ssl,tcp"
        assert (northbound(going) or Verdict(State.READY)).message.endswith(f"next {left}")
    assert told(planned(release, rolled_out(going), speak="sss", announced=True)) == "ssl"


def test_members_do_not_go_over_while_they_roll(release: Release, plain: dict[Key, Object]) -> None:
    """Plain clients are refused from the moment on that all show certificates, which is another roll-out."""
    required = {"announced": True, "required": True}
    rolled = rolled_out(planned(release, plain, speak="ttt", **required))
    second = planned(release, rolled, speak="ttt", **required)
    assert told(second) == ""
    rolling = rolled_out(second)
    rolling["StatefulSet", "ovn-nb"]["status"]["currentRevision"] = "before"
    assert told(planned(release, rolling, speak="ttt", **required)) == ""
    unseen = rolled_out(second)
    unseen["StatefulSet", "ovn-nb"]["metadata"]["generation"] = 2
    assert told(planned(release, unseen, speak="ttt", **required)) == ""
    assert told(planned(release, rolled_out(second), speak="ttt", **required)) == "ssl,tcp"


def test_members_that_speak_tls_need_their_certificates(release: Release) -> None:
    there = rolled_out(planned(release, rolled_out(planned(release, announced=True)), speak="sss", announced=True))
    for replicas in (3, 1):
        with pytest.raises(SpecError, match=r"spec.tls: database members need TLS"):
            planned(release, there, speak="sss", replicas=replicas)
    single = there
    for _ in range(6):
        single = rolled_out(planned(release, single, speak="s", replicas=1, announced=True))
        for name in ("ovn-nb", "ovn-sb"):
            listed = kube.secret_data(single["Secret", f"{name}-raft"])["members"].count(",") + 1
            single["StatefulSet", name]["status"]["readyReplicas"] = listed
    assert told(planned(release, single, speak="s", replicas=1)) == ""


def probe(made: Plan, kind: str, name: str) -> Object:
    """How the kubelet asks whether a server is to be started anew."""
    (main,) = next(obj for obj in made.objects if key(obj) == (kind, name))["spec"]["template"]["spec"]["containers"]
    found = main["livenessProbe"]
    assert found["periodSeconds"] * found["failureThreshold"] == 180
    return found


def test_no_probe_begins_a_handshake(release: Release) -> None:
    """One that is not finished is an error and two warnings in its log."""
    both = planned(release, replicas=1, relays=1, announced=True)
    assert probe(both, "StatefulSet", "ovn-nb")["tcpSocket"] == {"port": 6641}
    assert probe(both, "StatefulSet", "ovn-sb")["tcpSocket"] == {"port": 6642}
    assert probe(both, "Deployment", "ovn-relay")["tcpSocket"] == {"port": 6642}
    closed = planned(release, replicas=1, relays=1, required=True)
    sockets = {"nb": "/run/ovn/ovnnb_db.sock", "sb": "/run/ovn/ovnsb_db.sock"}
    for name, path in sockets.items():
        # A connection, which the kernel takes for one that is busy; to wait for an answer would end that.
        assert probe(closed, "StatefulSet", f"ovn-{name}")["exec"] == {"command": ["nc", "-zU", path]}
    assert probe(closed, "Deployment", "ovn-relay")["exec"] == {"command": ["nc", "-zU", "/run/ovn/relay.sock"]}
    several = planned(release, required=True)
    assert probe(several, "StatefulSet", "ovn-nb")["tcpSocket"] == {"port": 6661}, "what it says of itself, as HTTP"


def test_probes_use_the_socket_on_which_the_server_listens(root: Path) -> None:
    scripts = root / "images" / "ovn"
    assert "punix:/run/ovn/ovn${1}_db.sock" in (scripts / "ovn-db-start").read_text()
    assert "punix:/run/ovn/relay.sock" in (scripts / "ovn-relay-start").read_text()
    assert "netcat-openbsd" in (scripts / "Containerfile").read_text()


def test_a_cloud_without_relays_says_that_nodes_need_one(release: Release) -> None:
    made = planned(release, replicas=1, relays=0, announced=True)
    assert rolled_out(made)["Deployment", "ovn-relay"]["spec"]["replicas"] == 1
    (note,) = [step for step in made if step.name == "Relay" and not step.objects]
    assert note.verdict is not None
    assert note.verdict.ready
    assert note.verdict.message.startswith("spec.relay.replicas: 0 is used as 1")
