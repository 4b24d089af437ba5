"""A cloud with volumes that is upgraded to each release in turn, by way of 2025.2, while its server is pinged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools.chaos.servers import Guest, only_guest
from tools.cloud import deploy
from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.kubernetes import ROOT, Kubernetes, module

from ..conftest import CABLED, Report, stands
from ..on_infrastructure.pinger import Pinger
from .releases import HEAT, NEW, only, versions
from .test_upgrade import patched, upgraded

BETWEEN = "2025.2"
LOST_IN_A_ROW = 3
"""Pings, of which there are five a second."""


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud with volumes, Ready, in a cluster that has the images of all three releases."""
    with stands(MINIMAL, _change) as found:
        changed = ROOT / "build" / MINIMAL.name
        images = [image for release in (BETWEEN, NEW) for image in deploy.images(changed, release)]
        module("images", "build", *images)
        module("images", "load", *images)
        deploy.install(found[0].cluster, releases=[BETWEEN, NEW])
        yield found


def _change(spec: dict[str, Any]) -> None:
    spec["ovn"] = {**spec["ovn"], **CABLED}
    spec["ceph"] = {"enabled": True}
    spec["cinder"] = {"enabled": True}


@pytest.fixture(scope="module")
def guest(stood: tuple[Session, Cloud]) -> Guest:
    """A server that answers at its floating IP."""
    return only_guest(stood[0].cluster, stood[1].namespace)


@pytest.mark.parametrize("release", [BETWEEN, NEW])
def test_cloud_upgrades_to_the_next_release(
    stood: tuple[Session, Cloud], cluster: Kubernetes, cloud: Cloud, guest: Guest, release: str, report: Report
) -> None:
    boot = guest.boot()
    with Pinger(guest.floating) as pinger:
        patched(cluster, cloud, release=release)
        seconds = upgraded(cluster, cloud, release)
    figures = {"seconds": seconds, "pings": pinger.sent, "lost": pinger.lost, "lost_in_a_row": pinger.lost_in_a_row}
    print(f"    {release}: {figures}")
    report.add(**{f"upgrade_to_{release}": figures})
    assert versions(cluster, cloud) == only(release, HEAT)
    assert guest.boot() == boot
    assert pinger.lost_in_a_row <= LOST_IN_A_ROW
    assert stood[0].prove(cloud)["reply"]
