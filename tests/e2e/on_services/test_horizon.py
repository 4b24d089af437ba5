"""Horizon: a browser logs in, lists servers, opens a console, creates a network, and outlives the pods it talks to."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from openstack.connection import Connection

from tools.cloud import proof, view
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import ROOT, Kubernetes

from ..browser import Browser, BrowserError, browsing
from ..conftest import Report
from ..facts import ready_again
from ..waiting import server_reaches, until

HORIZONS = "horizons.openstack.k8s.io"
PODS = "openstack.k8s.io/kind=horizon,app.kubernetes.io/component=api"
NETWORK, SERVER = "drawn-by-hand", "seen-by-hand"
PICTURES = ROOT / "build" / "horizon"
LOGIN = "#id_password"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


def dashboard(cluster: Kubernetes, cloud: Cloud) -> str:
    """Its public URL, which ends with a slash."""
    return cluster.get(HORIZONS, "horizon", "-n", cloud.namespace)["status"]["endpoint"]


def administrator(cluster: Kubernetes, cloud: Cloud) -> tuple[str, str]:
    keystone = cluster.get("keystones.openstack.k8s.io", "keystone", "-n", cloud.namespace)
    name = keystone["spec"].get("bootstrap", {}).get("adminUser", "admin")
    secret = cluster.get("secret", keystone["status"]["published"]["adminSecret"], "-n", cloud.namespace)
    return name, base64.b64decode(secret["data"]["password"]).decode()


def log_in(browser: Browser, url: str, name: str, password: str) -> None:
    browser.open(f"{url}auth/login/")
    browser.find("#id_username").type(name)
    browser.find(LOGIN).type(password)
    browser.find("#loginBtn").click()
    assert browser.find(".user-name", 120).text == name


def pods(cluster: Kubernetes, cloud: Cloud) -> set[str]:
    """Names of the pods that are ready and stay."""
    found = cluster.items("pods", "-n", cloud.namespace, "-l", PODS)
    return {each["metadata"]["name"] for each in found if _is_ready(each)}


def _is_ready(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and view.conditions(pod).get("Ready", {}).get("status") == "True"


@pytest.fixture(scope="module")
def server(stood: Any) -> Iterator[Any]:
    """A server of the administrator's project."""
    cluster, namespace = stood[0].cluster, stood[1].namespace
    conn = proof.connect(cluster, namespace)
    guest, flavor, (network, _, group) = proof.image(conn), proof.flavor(conn), proof.networks(conn)
    made = conn.compute.create_server(
        name=SERVER,
        image_id=guest.id,
        flavor_id=flavor.id,
        networks=[{"uuid": network.id}],
        security_groups=[{"name": group.name}],
    )
    yield server_reaches(conn, made.id, "ACTIVE", 300)
    conn.compute.delete_server(made.id)


def test_a_user_logs_in_and_lists_servers(
    cluster: Kubernetes, cloud: Cloud, browser: Browser, conn: Connection, server: Any, report: Report
) -> None:
    url = dashboard(cluster, cloud)
    assert url.startswith("https://")
    log_in(browser, url, *administrator(cluster, cloud))
    # The dashboard begins with any project of the user.
    browser.open(f"{url}auth/switch/{conn.current_project_id}/?next=/project/instances/")
    row = f'tr[data-object-id="{server.id}"]'
    assert SERVER in browser.find(row, 120).text
    picture = browser.photograph(PICTURES / "instances.png")
    report.add(horizon_instances=str(picture.relative_to(ROOT)))
    cookies = {each["name"]: each for each in browser.send("GET", "/cookie")}
    assert (cookies["sessionid"]["httpOnly"], cookies["sessionid"]["secure"]) == (True, True)
    assert cookies["csrftoken"]["secure"] is True


def test_the_console_of_a_server_is_in_its_page(
    cluster: Kubernetes, cloud: Cloud, browser: Browser, server: Any, report: Report
) -> None:
    browser.open(f"{dashboard(cluster, cloud)}project/instances/{server.id}/?tab=instance_details__console")
    frame = browser.find("iframe#console_embed", 120)
    assert "token" in (frame.attribute("src") or "")
    with browser.inside(frame):
        # noVNC says so once QEMU has answered by the proxy.
        status = browser.find("#status", 120)
        until("the console to be connected", lambda: status.text.startswith("Connected"), 120, 1)
        browser.find("canvas", 60)
    picture = browser.photograph(PICTURES / "console.png")
    report.add(horizon_console=str(picture.relative_to(ROOT)))


def test_a_user_creates_a_network(cluster: Kubernetes, cloud: Cloud, browser: Browser, conn: Connection) -> None:
    networks: Any = conn.network
    try:
        browser.open(f"{dashboard(cluster, cloud)}project/networks/")
        browser.find("#networks__action_create", 120).click()
        browser.find("#id_net_name", 120).type(NETWORK)
        # The box itself may be hidden by the one that the theme draws.
        browser.run("const box = document.querySelector('#id_with_subnet'); if (box.checked) box.click();")
        browser.find(".modal .button-final", 60).click()
        found = until("the network", lambda: networks.find_network(NETWORK), 120, 1)
        browser.open(f"{dashboard(cluster, cloud)}project/networks/")
        assert NETWORK in browser.find(f'tr[data-object-id="{found.id}"]', 120).text
    finally:
        if (found := networks.find_network(NETWORK)) is not None:
            networks.delete_network(found)


def test_a_session_outlives_every_pod_that_served_it(cluster: Kubernetes, cloud: Cloud, browser: Browser) -> None:
    patch = json.dumps({"spec": {"horizon": {"replicas": 2}}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", cloud.namespace, "--type=merge", "-p", patch)
    until("two pods of the dashboard", lambda: len(pods(cluster, cloud)) == 2, 240, 2)
    page = f"{dashboard(cluster, cloud)}project/instances/"
    name, _ = administrator(cluster, cloud)
    before = pods(cluster, cloud)
    for pod in sorted(before):
        cluster.kubectl("delete", "pod", pod, "-n", cloud.namespace, "--grace-period=0", "--force")
        # Kubernetes may still send a connection to the pod that is gone.
        until("the page", lambda: _shows(browser, page, name), 120, 2)
        until("two pods again", lambda: len(pods(cluster, cloud)) == 2, 240, 2)
        assert _shows(browser, page, name), browser.source
    assert not before & pods(cluster, cloud)
    ready_again(cluster, cloud)


def _shows(browser: Browser, page: str, name: str) -> bool:
    """True if the page is that of the user; raises AssertionError if it asks for a login."""
    try:
        browser.open(page)
    except BrowserError:
        return False
    assert not browser.all(LOGIN), "the user was logged out"
    return any(each.text == name for each in browser.all(".user-name"))


def test_a_user_logs_out(cluster: Kubernetes, cloud: Cloud, browser: Browser) -> None:
    url = dashboard(cluster, cloud)
    browser.open(f"{url}project/instances/")
    browser.find(".user-menu .dropdown-toggle", 120).click()
    browser.find('.user-menu a[href="/auth/logout/"]', 60).click()
    browser.find(LOGIN, 120)
    browser.open(f"{url}project/instances/")
    browser.find(LOGIN, 120)
