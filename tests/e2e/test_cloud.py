"""A real cloud on a real Kubernetes, through deployment, use, repair, change and removal."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from openstack.connection import Connection
from openstack.identity.v3._proxy import Proxy as IdentityProxy

from images.catalog import is_pristine
from tools.cloud import deploy, proof, view
from tools.cloud.session import SAMPLES, Cloud, Session
from tools.cloud.timeline import timeline
from tools.localcluster.kubernetes import KubeError, Kubernetes, ours

from . import documented, noise, ports
from .conftest import Report
from .facts import inventory, passwords, pods, ready_again, sql
from .guests import USER, guests
from .waiting import until

NAMESPACE = "openstack"
SECOND = "second"
KILLS = 20
IDLE = 10
"""Seconds after which a transaction that does nothing was forgotten."""


@pytest.fixture(scope="module")
def stood(session: Session, report: Report) -> tuple[Session, Cloud]:
    """The minimal sample, Ready."""
    made = session.converge(SAMPLES / "controlplane_minimal.yaml")
    rows = timeline(session.cluster, made.namespace, made.began)
    report.add(apply_to_ready_seconds=made.seconds, steps=session.watch.steps, timeline=rows)
    return session, made


def test_a_server_answers_on_its_floating_ip(session: Session, cloud: Cloud, report: Report) -> None:
    facts = session.prove(cloud)
    report.add(proof=facts, steps=session.watch.steps)
    assert facts["reply"], "the server's own web page came back through the floating IP"


def test_logs_of_a_fresh_cloud_tell_of_errors_alone(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    """What no human has to look at hides what one has to. Before anything here breaks anything."""
    spaces = (cloud.namespace, deploy.OPERATOR_NAMESPACE)
    counts = {name: noise.counted(lines) for space in spaces for name, lines in noise.logs(cluster, space)}
    report.add(logs={name: str(count) for name, count in counts.items()})
    found = noise.table(counts)
    print(found)
    limits = noise.FEW | (noise.PATCHED if is_pristine() else {})
    assert not [name for name, count in counts.items() if count.is_noisy(limits)], found
    assert sum(len(count.errors) for count in counts.values()) <= noise.MOST, found


def test_open_ports_are_those_of_the_list(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    """Each port of each pod, tried from a pod that has no rights, no password and no certificate."""
    found = ports.open_ports(cluster, (cloud.namespace, deploy.OPERATOR_NAMESPACE))
    image = cluster.get("deployment", "keystone-api", "-n", cloud.namespace)["spec"]["template"]["spec"]
    answers = ports.answers(cluster, sorted(found), image["containers"][0]["image"])
    listed = ports.listed()
    wrong = {port: answers[where] for where, port in found.items() if answers[where] != listed.get(port)}
    report.add(open_ports=len(found))
    assert not wrong, f"docs/explanation/security.md lists something else: {wrong}"
    assert {port.pods for port in found.values()} >= {"mariadb", "rabbitmq", "nodes", "openstack-operator"}


_SCRAPE = r"""
import http.client, ssl, sys
host, *token = sys.argv[1:]
connection = http.client.HTTPSConnection(host, 8443, timeout=30, context=ssl._create_unverified_context())
connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token[0]}"} if token else {})
answer = connection.getresponse()
print(answer.status, b"openstack_operator_resource_ready{" in answer.read())
"""


def test_metrics_of_the_operator_want_a_token_that_may_read_them(cluster: Kubernetes, cloud: Cloud) -> None:
    """Asked from a pod of the cloud."""
    named = ("-l", "app.kubernetes.io/name=openstack-operator", "--field-selector", "status.phase=Running")
    pod, *_ = cluster.items("pods", "-n", deploy.OPERATOR_NAMESPACE, *named)
    template = cluster.get("deployment", "keystone-api", "-n", cloud.namespace)["spec"]["template"]["spec"]
    main = template["containers"][0]["name"]

    def scrape(*token: str) -> str:
        command = ("python3", "-c", _SCRAPE, pod["status"]["podIP"], *token)
        return cluster.kubectl("exec", "-n", cloud.namespace, "deploy/keystone-api", "-c", main, "--", *command).strip()

    reader, role = "metrics-reader", "openstack-operator-metrics-reader"
    cluster.kubectl("create", "serviceaccount", reader, "-n", "default")
    try:
        token = cluster.kubectl("create", "token", reader, "-n", "default").strip()
        assert [scrape(), scrape("garbage"), scrape(token)] == ["401 False", "401 False", "403 False"]
        bound = f"--clusterrole={role}", f"--serviceaccount=default:{reader}"
        cluster.kubectl("create", "clusterrolebinding", reader, *bound)
        until("metrics for a token that may read them", lambda: scrape(token) == "200 True")
    finally:
        cluster.kubectl("delete", "clusterrolebinding", reader, "--ignore-not-found")
        cluster.kubectl("delete", "serviceaccount", reader, "-n", "default")


def test_a_guest_is_confined_on_its_node(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    """As docs/explanation/security.md says."""
    (pod,) = cluster.items("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=libvirt")
    name = pod["metadata"]["name"]
    found = guests(cluster, name)
    report.add(guests=[vars(guest) for guest in found])
    assert found
    for guest in found:
        assert (guest.user, guest.group) == (USER, USER)
        assert guest.capabilities == 0
        assert guest.no_new_privileges
        assert guest.seccomp == 2
        assert re.search(r"/openstack-guests/machine/qemu-\d+-instance-[^/]*\.libvirt-qemu(/|$)", guest.cgroup)
        assert guest.own_mounts
        assert not {"mem", "kmsg", "sda", "vda", "fuse", "loop0", "net"} & set(guest.devices), guest.devices
    unread = "! setpriv --reuid libvirt-qemu --regid libvirt-qemu --clear-groups cat"
    keys = ("/etc/openstack-libvirt-migration/clientkey.pem", "/etc/openstack-libvirt-migration/libvirt-key.pem")
    for key in keys:
        cluster.kubectl("exec", "-n", NAMESPACE, name, "--", "sh", "-c", f"test -s {key} && {unread} {key}")
    modes = cluster.kubectl("exec", "-n", NAMESPACE, name, "--", "stat", "-c", "%a %G", "/run/libvirt/libvirt-sock")
    assert modes.strip() == "660 nova"


def test_a_guest_that_ends_is_shutoff(cluster: Kubernetes, conn: Connection, report: Report) -> None:
    """Nova hears of it from libvirt, also while its nova-compute is the first one that this node has. Before anything
    here restarts that.
    """
    server = next(iter(conn.compute.servers(name=proof.NAME)))
    server = conn.compute.get_server(server.id)
    (pod,) = cluster.items("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=libvirt")
    virsh = ("exec", "-n", NAMESPACE, pod["metadata"]["name"], "--", "virsh", "-q", "-c", "qemu:///system")
    cluster.kubectl(*virsh, "destroy", server.id)
    started = time.monotonic()
    # Without images/patches/nova/05-libvirt-events.patch this nova-compute hears nothing, and looks every ten minutes.
    patience = 700 if is_pristine() else 10
    until("the server to be SHUTOFF", lambda: conn.compute.get_server(server.id).status == "SHUTOFF", patience, 0.2)
    report.add(guest_ended_to_shutoff_seconds=round(time.monotonic() - started, 1))
    conn.compute.start_server(server)
    until("the server to be ACTIVE", lambda: conn.compute.get_server(server.id).status == "ACTIVE", 60)
    time.sleep(10)
    assert conn.compute.get_server(server.id).status == "ACTIVE", "no event of before stops it again"


@pytest.mark.parametrize("resource", ["roles", "groups", "projects", "users"])
def test_keystone_answers_what_it_cannot_store(conn: Connection, resource: str) -> None:
    """Four bytes in UTF-8, for which its columns have three: it ended the connection."""
    kind = resource.removesuffix("s")
    answer = conn.identity.post(f"/{resource}", json={kind: {"name": "e2e-\N{ROCKET}"}}, raise_exc=False)
    assert answer.status_code == 400
    assert answer.json()["error"]["title"] == "Bad Request"
    assert answer.headers["x-openstack-request-id"] in answer.json()["error"]["message"]


@pytest.mark.skipif(is_pristine(), reason="needs the patch keystone/03-filters")
@pytest.mark.parametrize(
    "query",
    [
        "roles?name__icontains=ADM",
        "groups?name__icontains=a",
        "role_assignments?user.id__icontains=a",
        "endpoints?interface__icontains=pub",
        "regions?parent_region_id__icontains=a",
    ],
)
def test_keystone_takes_the_filters_that_it_documents(conn: Connection, query: str) -> None:
    answer = conn.identity.get(f"/{query}", raise_exc=False)
    assert answer.status_code == 200, answer.text
    assert "ADM" not in query or [role["name"] for role in answer.json()["roles"]] == ["admin"]


@pytest.mark.skipif(is_pristine(), reason="needs the patch keystone/04-no-open-transaction")
def test_no_service_leaves_a_transaction_open(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    """It would hold a connection, and stop changes of tables by an upgrade or a restore."""
    # Each change makes Keystone read what its tokens say.
    for number in range(5):
        identity = cast("IdentityProxy", proof.connect(cluster, NAMESPACE).identity)
        project = identity.create_project(name=f"transactions-{number}")
        proof.connect(cluster, NAMESPACE).authorize()
        identity.delete_project(project)
    condition = f"process.command = 'Sleep' AND process.time >= {IDLE}"
    table = "information_schema.innodb_trx JOIN information_schema.processlist process ON id = trx_mysql_thread_id"
    time.sleep(IDLE)
    idle = sql(cluster, NAMESPACE, f"SELECT user, COUNT(*), MAX(time) FROM {table} WHERE {condition} GROUP BY user")
    connections = sql(cluster, NAMESPACE, "SELECT user, COUNT(*) FROM information_schema.processlist GROUP BY user")
    report.add(database_connections=dict(line.split("\t") for line in connections.splitlines()))
    assert idle == ""


def test_the_documented_login_works(cluster: Kubernetes, cloud: Cloud, tmp_path: Path) -> None:
    """The commands of docs/how-to/log-in.md, as they stand there."""
    login = next(text for _, _, text in documented.blocks(documented.LOGIN) if "keystone-clouds" in text)
    assert "project_id" in documented.run(cluster, login, tmp_path, cwd=tmp_path)


def test_the_tutorial_of_a_first_cloud_works(cluster: Kubernetes, cloud: Cloud, tmp_path: Path, report: Report) -> None:
    """Every command of docs/tutorials/first-cloud.md that needs neither Cinder nor K-ORC."""
    started = time.monotonic()
    output = documented.run(cluster, documented.script(documented.FIRST_CLOUD, {"cloud"}), tmp_path)
    report.add(tutorial_seconds=round(time.monotonic() - started, 1))
    assert re.search("^first", output, re.MULTILINE), "the server answers with its name"


def test_every_owned_object_comes_back(cluster: Kubernetes, cloud: Cloud, conn: Connection, report: Report) -> None:
    """Each of Placement's objects is deleted in turn; servers and data are untouched."""
    servers = {s.id: s.status for s in conn.compute.servers()}
    providers = sum(1 for _ in conn.placement.resource_providers())
    took: dict[str, float] = {}
    for kind, name in (
        ("deployment", "placement-api"),
        ("service", "placement-api"),
        ("secret", "placement-config"),
        ("poddisruptionbudget", "placement-api"),
        ("mariadbdatabase", "placement-db"),
        ("keystoneuser", "placement-user"),
        ("keystoneservice", "placement-catalog"),
    ):
        old = cluster.get(kind, name, "-n", NAMESPACE)["metadata"]["uid"]
        started = time.monotonic()
        cluster.kubectl("delete", kind, name, "-n", NAMESPACE, "--wait=false")
        until(f"{kind}/{name} to come back", lambda k=kind, n=name, o=old: _other(cluster, k, n, o), 60)
        took[f"{kind}/{name}"] = round(time.monotonic() - started, 1)
        ready_again(cluster, cloud)
    report.add(deleted_to_back_seconds=took)
    # A new Service has another NodePort, which a new session finds in the catalog.
    again = proof.connect(cluster, NAMESPACE)
    assert {s.id: s.status for s in again.compute.servers()} == servers
    assert sum(1 for _ in again.placement.resource_providers()) == providers > 0


def _other(cluster: Kubernetes, kind: str, name: str, uid: str) -> bool:
    found = cluster.kubectl("get", kind, name, "-n", NAMESPACE, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
    return found not in {"", uid}


def test_drift_outside_kubernetes_is_repaired(cluster: Kubernetes, conn: Connection, report: Report) -> None:
    """The SQL account and the catalog's endpoint are removed behind the operator's back."""
    started = time.monotonic()
    sql(cluster, NAMESPACE, "DROP USER 'placement'@'%'")
    until(
        "the SQL account to come back",
        lambda: "placement" in sql(cluster, NAMESPACE, "SELECT user FROM mysql.user"),
        180,
        2,
    )
    report.add(sql_account_repaired_seconds=round(time.monotonic() - started, 1))
    identity = cast("IdentityProxy", conn.identity)
    service = next(s for s in identity.services() if s.type == "placement")
    for endpoint in identity.endpoints(service_id=service.id):
        identity.delete_endpoint(endpoint)
    started = time.monotonic()
    until("the endpoints to come back", lambda: len(list(identity.endpoints(service_id=service.id))) >= 2, 300, 2)
    report.add(endpoints_repaired_seconds=round(time.monotonic() - started, 1))


def test_a_changed_option_rolls_only_nova(cluster: Kubernetes, cloud: Cloud, conn: Connection, report: Report) -> None:
    before = pods(cluster, NAMESPACE)
    option = {"DEFAULT": {"cpu_allocation_ratio": 3.5}}
    patch = json.dumps({"spec": {"nova": {"config": option}}})
    assert foresee() == (0, []), "a cloud that is Ready changes in nothing"
    live = cluster.get(ours("openstackcontrolplane"), cloud.name, "-n", NAMESPACE)
    # Whole, since the cloud was applied on the server: what a manifest no longer has goes.
    changed = {**live["spec"], "nova": {**live["spec"].get("nova", {}), "config": option}}
    started = time.monotonic()
    status, foreseen = foresee({**live, "spec": changed})
    report.add(plan_seconds=round(time.monotonic() - started, 1))
    assert status == 2
    started = time.monotonic()
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)
    until("Placement to show the new ratio", lambda: _ratio(conn) == 3.5, 240, 2)
    ready_again(cluster, cloud)
    report.add(option_changed_seconds=round(time.monotonic() - started, 1))
    rolled = {name for name, uid in before.items() if pods(cluster, NAMESPACE).get(name) != uid}
    assert rolled, "something of Nova was restarted"
    by_workload = {name: [pod for pod in rolled if pod.startswith(f"{name}-")] for name in foreseen}
    assert all(by_workload.values()), f"foreseen and not replaced: {by_workload}"
    assert {pod for found in by_workload.values() for pod in found} == rolled, f"not foreseen: {by_workload}"
    assert all(name.startswith("nova-") for name in rolled), f"only Nova's pods roll, not {sorted(rolled)}"
    assert not any("libvirt" in name for name in rolled), "guests' hypervisor is left alone"
    assert all(s.status == "ACTIVE" for s in conn.compute.servers())


def foresee(*manifests: dict[str, Any]) -> tuple[int, list[str]]:
    """Exit status of `plan` and the workloads whose pods it says are replaced."""
    command = [Path(sys.executable).with_name("openstack-operator"), "plan", "-n", NAMESPACE, "-o", "json"]
    bodies = [{**each, "metadata": {"name": each["metadata"]["name"], "namespace": NAMESPACE}} for each in manifests]
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}) if bodies else ""
    ended = subprocess.run(
        [*command, *(["-f", "-"] if bodies else [])],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode != 1, ended.stderr + ended.stdout
    changes = json.loads(ended.stdout)["changes"]
    return ended.returncode, [each["name"] for each in changes if each["replacesPods"]]


def _ratio(conn: Connection) -> float:
    for provider in conn.placement.resource_providers():
        for inventory_ in conn.placement.resource_provider_inventories(provider):
            if inventory_.resource_class == "VCPU":
                return float(inventory_.allocation_ratio)
    return 0.0


def test_a_bad_spec_leaves_everything_running(cluster: Kubernetes, cloud: Cloud) -> None:
    before = pods(cluster, NAMESPACE)
    fixed_option = '{"spec":{"placement":{"config":{"placement_database":{"connection":"sqlite://"}}}}}'
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", fixed_option)
    condition = until("InvalidSpec", lambda: _invalid(cluster, "placement", "placement"), 30)
    assert "spec.config.placement_database.connection" in condition["message"]
    assert pods(cluster, NAMESPACE) == before
    undo = '{"spec":{"placement":{"config":null}}}'
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", undo)
    ready_again(cluster, cloud)


def _invalid(cluster: Kubernetes, kind: str, name: str) -> dict[str, Any] | None:
    found = view.conditions(cluster.get(ours(kind), name, "-n", NAMESPACE)).get("Ready", {})
    return found if found.get("reason") == "InvalidSpec" else None


def test_a_node_changes_the_rows_of_its_own_chassis_alone(cluster: Kubernetes, cloud: Cloud) -> None:
    """With all that its node has: the certificate in its folder, and the addresses of relays and members."""
    until("ovn-controller to follow the relay", lambda: "ovn-relay" in _remote(cluster), 60)
    [pod, *_] = cluster.items("pods", "-n", NAMESPACE, "-l", _CONTROLLER)
    node, member = pod["spec"]["nodeName"], f"ssl:ovn-sb-0.ovn-sb.{NAMESPACE}.svc.cluster.local:16642"
    relay = f"ssl:ovn-relay.{NAMESPACE}.svc.cluster.local:16642"
    files = ("-p", "/etc/ovn-tls/tls.key", "-c", "/etc/ovn-tls/tls.crt", "-C", "/etc/ovn-tls/ca.crt")
    where = ("exec", "-n", NAMESPACE, pod["metadata"]["name"], "-c", "ovn-controller", "--")

    def sbctl(database: str, *words: str) -> str:
        return cluster.kubectl(
            *where, "ovn-sbctl", "--no-leader-only", "--timeout=10", f"--db={database}", *files, *words
        )

    sbctl(relay, "set", "Chassis", node, "other_config:e2e=true")
    sbctl(relay, "remove", "Chassis", node, "other_config", "e2e")
    encap = ("--id=@e", "create", "Encap", "chassis_name=elsewhere", "type=geneve", "ip=192.0.2.1")
    with pytest.raises(KubeError, match="RBAC rules for client"):
        sbctl(relay, "--", *encap, "--", "create", "Chassis", "name=elsewhere", "encaps=@e")
    with pytest.raises(KubeError, match="database connection failed"):
        sbctl(member, "show")


_CONTROLLER = "openstack.k8s.io/kind=ovnnetwork,app.kubernetes.io/component=controller"


def _remote(cluster: Kubernetes) -> str:
    """What the node's ovn-controller is connected to, empty where it is not."""
    names = [pod["metadata"]["name"] for pod in cluster.items("pods", "-n", NAMESPACE, "-l", _CONTROLLER)]
    command = ("exec", "-n", NAMESPACE, names[0], "-c", "ovn-controller", "--")
    ask = ("ovs-vsctl", "--timeout=5", "get", "Open_vSwitch", ".", "external_ids:ovn-remote")
    remote = cluster.kubectl(*command, *ask)
    control = ("ovn-appctl", "--timeout=5", "-t", "/run/ovn/ovn-controller.ctl")
    status = cluster.kubectl(*command, *control, "connection-status")
    return remote if status.strip() == "connected" else ""


def test_killed_at_any_moment_it_converges_to_the_same(session: Session, cloud: Cloud, report: Report) -> None:
    """A second cloud, without compute nodes, is deployed while the operator is killed at random moments."""
    cluster = session.cluster
    dice = random.Random(20261120)
    plane = deploy.control_plane(cluster, SAMPLES / "controlplane_two.yaml", SECOND)
    seen: dict[str, dict[str, str]] = {}
    started = time.monotonic()
    for _ in range(KILLS):
        time.sleep(dice.uniform(0.5, 6))
        cluster.kubectl(
            "delete", "pod", "-n", deploy.OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=openstack-operator",
            "--grace-period=0", "--force",
        )  # fmt: skip
        for name, values in passwords(cluster, SECOND).items():
            assert seen.setdefault(name, values) == values, f"{name} kept its passwords"
    killing = round(time.monotonic() - started, 1)
    view.wait(cluster, SECOND, plane["metadata"]["name"], session.console, 600)
    for name, values in passwords(cluster, SECOND).items():
        assert seen.setdefault(name, values) == values, f"{name} kept its passwords"
    report.add(kills=KILLS, killing_seconds=killing, killed_cloud_ready_seconds=round(time.monotonic() - started, 1))
    same = inventory(cluster, SECOND)
    missing = inventory(cluster, NAMESPACE) - same
    assert not same - inventory(cluster, NAMESPACE), "nothing that an undisturbed deployment does not have"
    # Nodes show consoles and read OVN through relays, too.
    nodes = (
        "ovn-relay",
        "compute",
        "libvirt",
        "chassis",
        "gateway",
        "ovn-controller",
        "metadata-agent",
        "discover-hosts",
        "migration",
        "nova-console",
    )
    extra = [name for _, name in missing if not any(word in name for word in nodes)]
    assert not extra, "nothing is missing but what runs on compute nodes"


def test_two_clouds_are_ready(cluster: Kubernetes, cloud: Cloud) -> None:
    planes = cluster.items("openstackcontrolplanes", "--all-namespaces")
    assert {p["metadata"]["namespace"]: view.ready(p) for p in planes} == {NAMESPACE: True, SECOND: True}


def test_a_control_plane_runs_where_pod_security_is_restricted(cluster: Kubernetes, cloud: Cloud) -> None:
    """The second cloud does: its namespace refuses everything else, and each of its pods was let in."""
    labels = cluster.get("namespace", SECOND)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    running = cluster.items("pods", "-n", SECOND, "--field-selector=status.phase=Running")
    assert {"keystone", "glance", "placement", "nova", "neutron", "mariadb", "rabbitmq"} <= {
        pod["metadata"]["labels"]["openstack.k8s.io/kind"] for pod in running
    }
    with pytest.raises(KubeError, match='violates PodSecurity "restricted'):
        cluster.kubectl("run", "privileged", "-n", SECOND, "--image=none", "--privileged", "--dry-run=server")


def test_deletion_removes_everything_in_order(session: Session, cloud: Cloud, report: Report) -> None:
    cluster = session.cluster
    kept = {("PersistentVolumeClaim", n) for _, n in inventory(cluster, SECOND, "persistentvolumeclaims")}
    started = time.monotonic()
    cluster.kubectl("delete", "openstackcontrolplane", "--all", "-n", SECOND, "--timeout=180s", timeout=200)
    left = until("everything but what is retained to go", lambda: _settled(cluster, kept), 120, 1)
    report.add(deletion_seconds=round(time.monotonic() - started, 1), retained=sorted("/".join(pair) for pair in left))
    cluster.kubectl("delete", "namespace", SECOND, "--timeout=120s", timeout=130)
    assert view.ready(cluster.get("openstackcontrolplane", cloud.name, "-n", NAMESPACE)), "the other cloud is untouched"
    assert proof.connect(cluster, NAMESPACE).authorize()


def _settled(cluster: Kubernetes, kept: set[tuple[str, str]]) -> set[tuple[str, str]] | None:
    """What is left once only volumes and the Secrets that belong to their data are."""
    left = inventory(cluster, SECOND)
    volumes = {pair for pair in left if pair[0] == "PersistentVolumeClaim"}
    secrets = {pair for pair in left if pair[0] == "Secret"}
    return left if left == volumes | secrets and volumes <= kept else None
