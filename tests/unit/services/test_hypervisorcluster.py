"""Hypervisors of another Kubernetes cluster: what Nova's Secret for them has, and what they make of it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Key, MissingReference, Object, Plan, Release, SpecError, State, UnsupportedError
from openstack_operator.services.hypervisorcluster.model import HYPERVISOR_CLUSTER
from openstack_operator.services.hypervisorcluster.service import plan as plan_hypervisors
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan as plan_nova
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as plan_pki
from openstack_operator.testing import context
from tests.planning import draws, objects, rolled_out

pytestmark = pytest.mark.security

OUTSIDE = "cloud.example.org"
CELLS = [{"name": "cell1", "computeRef": {"name": "hypervisors-1", "elsewhere": True}}]


class ControlPlane:
    """Nova of a cloud that is exposed at OUTSIDE."""

    def __init__(self, release: Release) -> None:
        self.release = release
        by = plan_pki(context(PKI, release=release))
        self.secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in by.objects if obj["kind"] == "Secret"}
        self.secrets["neutron-credentials"] = {"metadata": "shared"}
        trust = {"trustSecret": by.outcome.published["bundleSecret"]}
        internal = "https://keystone-api.openstack.svc.cluster.local:5000/v3"
        self.published: dict[str, dict[str, str]] = {
            "PKI": dict(by.outcome.published),
            "MariaDB": {"host": "mariadb", "port": "3306", **trust},
            "RabbitMQ": {"host": "rabbitmq", "port": "5671", "remoteServer": f"{OUTSIDE}:30671", **trust},
            "Memcached": {"servers": "memcached-0:11211"},
            "Keystone": {"internalURL": internal, "publicURL": f"https://{OUTSIDE}:30500/v3", **trust},
            "Neutron": {"metadataSecret": "neutron-credentials"},
        }
        self.children: dict[Key, Object] = {}
        self.draw = draws()

    def plan(self, **spec: Any) -> Plan:
        common = {
            "tls": {"pkiRef": {"name": "pki"}},
            "cells": CELLS,
            "metadata": {"remoteAccess": {"host": OUTSIDE}},
        }
        given: dict[str, Any] = {"secrets": self.secrets, "children": self.children, "release": self.release}
        at = context(NOVA, {**common, **spec}, published=self.published, **given)
        made = plan_nova(replace(at, draw=self.draw))
        self.children = rolled_out(made)
        self.children["Service", "nova-metadata"]["spec"]["ports"][0]["nodePort"] = 30775
        return made

    @property
    def files(self) -> dict[str, str]:
        return kube.secret_data(self.children["Secret", "nova-cell1-hypervisors"])


@pytest.fixture(name="control_plane")
def _control_plane(release: Release) -> ControlPlane:
    control_plane = ControlPlane(release)
    for _ in range(3):
        control_plane.plan()
    return control_plane


def hypervisors(release: Release, files: Mapping[str, str], spec: Mapping[str, Any] | None = None) -> Plan:
    """Return the plan of the other cluster, which knows the Secret and an OVN of its own."""
    southbound = f"ssl:{OUTSIDE}:30642"
    ovn = {"southbound": southbound, "southboundForNodes": southbound, "nodeCertificates": "true"}
    at = context(
        HYPERVISOR_CLUSTER,
        {"controlPlaneSecretRef": {"name": "carried"}, **(spec or {})},
        owner="hypervisors",
        release=release,
        published={"OVNNetwork": ovn},
        secrets={"carried": files},
    )
    return plan_hypervisors(at)


def messages(made: Plan, name: str) -> list[tuple[State, str]]:
    return [(step.verdict.state, step.verdict.message) for step in made if step.name == name and step.verdict]


def test_the_secret_has_addresses_outside_alone(control_plane: ControlPlane) -> None:
    files = control_plane.files
    assert files["auth_url"] == f"https://{OUTSIDE}:30500/v3"
    assert files["metadata_url"] == f"https://{OUTSIDE}:30775"
    url = files["transport_url"]
    assert url.startswith("rabbit://nova-cell1_ELSEWHERE:")
    assert url.endswith(f"@{OUTSIDE}:30671/nova-cell1")
    text = "".join(value for name, value in files.items() if name != "console_url")
    assert "svc.cluster.local" not in text


def test_the_secret_has_no_password_of_the_control_plane(control_plane: ControlPlane) -> None:
    files = control_plane.files
    assert (files["username"], files["metadata_secret"]) == ("nova-compute", "shared")
    drawn = kube.secret_data(control_plane.children["Secret", "nova-credentials"])
    text = "".join(files.values())
    carried = {name for name, value in drawn.items() if value in text}
    assert carried == {"compute-identity", "cell1--elsewhere-messaging"}
    assert "mysql" not in text


def test_the_account_of_the_broker_reaches_the_cell_alone(control_plane: ControlPlane) -> None:
    vhost = control_plane.children["RabbitMQVhost", "nova-cell1--elsewhere"]["spec"]
    assert (vhost["vhost"], vhost["user"], vhost["deletionPolicy"]) == ("nova-cell1", "nova-cell1_ELSEWHERE", "Retain")


def test_the_condition_names_all_that_is_not_exposed(control_plane: ControlPlane) -> None:
    del control_plane.published["RabbitMQ"]["remoteServer"]
    control_plane.published["Keystone"]["publicURL"] = control_plane.published["Keystone"]["internalURL"]
    made = control_plane.plan(metadata={})
    [(state, text)] = messages(made, "Hypervisors")
    assert state is State.PROGRESSING
    for part in (
        "RabbitMQ rabbitmq: set its spec.remoteAccess",
        "Keystone: set its spec.expose",
        "metadata.remoteAccess",
    ):
        assert part in text
    assert ("Secret", "nova-cell1-hypervisors") not in objects(made)


def test_nodes_elsewhere_need_tls(release: Release) -> None:
    with pytest.raises(SpecError, match=r"^spec\.tls: nodes of another cluster need TLS"):
        ControlPlane(release).plan(tls=None)


def test_a_cloud_without_own_compute_nodes_has_the_login_of_nodes(control_plane: ControlPlane) -> None:
    control_plane.plan(compute={"enabled": False})
    assert ("KeystoneUser", "nova-compute-user") in control_plane.children
    assert ("DaemonSet", "nova-libvirt") not in control_plane.children
    assert "server-key.pem" in control_plane.files


def test_hypervisors_follow_the_secret(control_plane: ControlPlane, release: Release) -> None:
    made = objects(hypervisors(release, control_plane.files))
    daemons = {name for kind, name in made if kind == "DaemonSet"}
    assert daemons == {"hypervisors-libvirt", "hypervisors-cell1-compute", "hypervisors-metadata-agent"}
    conf = kube.secret_data(made["Secret", "hypervisors-cell1-compute-config"])["nova.conf"]
    trust = "/etc/openstack-trust/carried/ca.crt"
    assert f"{control_plane.files['transport_url']}?ssl=true&ssl_ca_file={trust}&ssl_enforce_hostname_verif" in conf
    assert conf.count("valid_interfaces = public") == 4
    assert "internal" not in conf
    assert f"novncproxy_base_url = {control_plane.files['console_url']}/vnc_lite.html" in conf
    agent = kube.secret_data(made["Secret", "hypervisors-metadata-agent-config"])["neutron.conf"]
    for line in (
        f"nova_metadata_host = {OUTSIDE}",
        "nova_metadata_port = 30775",
        f"auth_ca_cert = {trust}",
        "metadata_proxy_shared_secret = shared",
        f"ovn_sb_connection = ssl:{OUTSIDE}:30642",
        "ovn_sb_private_key = /etc/ovn-tls/tls.key",
    ):
        assert line in agent


def test_the_same_programs_run_as_in_the_cluster_of_the_control_plane(
    control_plane: ControlPlane, release: Release
) -> None:
    """Their pods differ in names and files, not in what they are."""
    here = objects(hypervisors(release, control_plane.files))
    for name in ("libvirt", "cell1-compute"):
        pods = [
            made["spec"]["template"]["spec"]
            for made in (here["DaemonSet", f"hypervisors-{name}"], control_plane.children["DaemonSet", f"nova-{name}"])
        ]
        for field in ("image", "command", "securityContext", "lifecycle"):
            ours, theirs = ([each.get(field) for each in pod["containers"]] for pod in pods)
            assert ours == theirs, field


def test_a_password_that_was_replaced_replaces_the_configuration(control_plane: ControlPlane, release: Release) -> None:
    before, after = (
        objects(hypervisors(release, {**control_plane.files, "password": password}))["Secret", name]
        for name, password in (("hypervisors-cell1-compute-config", "old"), ("hypervisors-cell1-compute-config", "new"))
    )
    assert kube.secret_data(before) != kube.secret_data(after)


KEYS = "auth_url ca.crt cell console_url metadata_secret metadata_url password region server-key.pem transport_url"


@pytest.mark.parametrize("key", KEYS.split())
def test_the_condition_names_a_key_that_is_missing(control_plane: ControlPlane, release: Release, key: str) -> None:
    files = {name: value for name, value in control_plane.files.items() if name != key}
    with pytest.raises(MissingReference, match=rf"key '{key}' of Secret 'carried' is missing"):
        hypervisors(release, files)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("auth_url", "http://cloud.example.org:5000/v3"),
        ("metadata_url", "http://cloud.example.org:8775"),
        ("metadata_url", "https://cloud.example.org:99999"),
        ("metadata_url", "https://[cloud"),
        ("cell", "cell1\nfoo"),
        ("transport_url", "amqp://broker"),
        ("transport_url", "rabbit://user:word@broker:70000/cell"),
        ("transport_url", "rabbit://user:word@broker:5671/cell?ssl=false"),
        ("region", "RegionOne\n[DEFAULT]\ncompute_driver = other"),
    ],
)
def test_a_value_that_is_no_such_value_is_refused(
    control_plane: ControlPlane, release: Release, key: str, value: str
) -> None:
    with pytest.raises(SpecError, match=rf"key '{key}' of Secret 'carried' (is|must be) "):
        hypervisors(release, {**control_plane.files, key: value})


@pytest.mark.parametrize(("key", "value"), [("cell", "../cell"), ("cell", "c" * 30), ("region", "r" * 300)])
def test_a_value_that_nova_would_refuse_is_refused(
    control_plane: ControlPlane, release: Release, key: str, value: str
) -> None:
    with pytest.raises(SpecError, match=r"^spec\.controlPlaneSecretRef: Secret 'carried' has invalid values for Nova"):
        hypervisors(release, {**control_plane.files, key: value})


def test_a_broker_of_several_addresses_is_a_list(control_plane: ControlPlane, release: Release) -> None:
    url = "rabbit://user:word@one.example.org:5671,user:word@two.example.org:5672/nova-cell1"
    made = objects(hypervisors(release, {**control_plane.files, "transport_url": url}))
    [main] = made["DaemonSet", "hypervisors-cell1-compute"]["spec"]["template"]["spec"]["containers"]
    assert ":162[78] 01 " in main["readinessProbe"]["exec"]["command"]


def test_a_secret_that_does_not_exist_is_named(release: Release) -> None:
    at = context(HYPERVISOR_CLUSTER, {"controlPlaneSecretRef": {"name": "carried"}}, release=release)
    with pytest.raises(MissingReference, match="there is no Secret 'carried' in this namespace; copy it"):
        plan_hypervisors(at)


def test_servers_disks_in_ceph_are_refused_as_unsupported(control_plane: ControlPlane, release: Release) -> None:
    with pytest.raises(
        UnsupportedError, match=r"^spec\.compute\.storageType: servers' disks in Ceph are not supported"
    ):
        hypervisors(release, control_plane.files, {"compute": {"storageType": "ceph"}})


def test_nodes_are_not_ahead_of_their_control_plane(control_plane: ControlPlane, release: Release) -> None:
    assert control_plane.files["release"] == release.name
    with pytest.raises(SpecError, match=r"spec.release: Secret 'carried' is of a control plane with 2024.2"):
        hypervisors(release, {**control_plane.files, "release": "2024.2"})
    # One behind it is the order of an upgrade, and a Secret of your own may say nothing.
    for running in ("2025.2", ""):
        assert hypervisors(release, {**control_plane.files, "release": running}).objects


def test_defaults_of_a_release_hold_for_nodes_elsewhere(control_plane: ControlPlane, release: Release) -> None:
    later = replace(release, defaults={"nova": {"DEFAULT": {"manager_shutdown_timeout": 5}}})
    made = objects(hypervisors(later, control_plane.files))
    (text,) = [
        kube.secret_data(obj)["nova.conf"]
        for (kind, name), obj in made.items()
        if kind == "Secret" and name.endswith("-compute-config")
    ]
    assert "manager_shutdown_timeout = 5" in text


def test_a_cell_with_nodes_elsewhere_does_not_move_to_another_broker(control_plane: ControlPlane) -> None:
    message = r"spec.cells\[0\].messaging: its nova-compute in another cluster .* keep rabbitmq"
    with pytest.raises(SpecError, match=message):
        control_plane.plan(messaging={"rabbitmqRef": {"name": "green"}})
