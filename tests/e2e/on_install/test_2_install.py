"""The chart, kustomize, OLM and Flux: each installs from the registry, upgrades, and leaves what the operator made."""

from __future__ import annotations

from tools.cloud import ways
from tools.cloud.session import MINIMAL
from tools.cloud.ways import NAME

from ..conftest import Report
from ..waiting import until
from . import flux, olm
from .conftest import Laboratory, make_memcached


# Helm takes over no definitions that another way made: it comes first.
def test_flux(laboratory: Laboratory) -> None:
    cluster, (first, second) = laboratory.cluster, laboratory.releases
    flux.install_flux(cluster)
    ways.prepare(cluster, first)
    cluster.apply(flux.authority(first), *flux.objects(flux.MANIFESTS / "operator.yaml", first))
    until("the definitions", lambda: laboratory.cluster.exists("crd", "memcacheds.openstack.k8s.io"), 240)
    make_memcached(cluster)
    laboratory.works(first)
    cluster.apply(*flux.objects(flux.MANIFESTS / "operator.yaml", second))
    laboratory.works(second)
    until("Flux to say that it is done", lambda: _is_ready(laboratory), 120)
    cluster.kubectl("-n", NAME, "delete", flux.RELEASE, NAME, "--timeout=120s", timeout=130)
    laboratory.is_uninstalled()


def _is_ready(laboratory: Laboratory) -> bool:
    live = laboratory.cluster.get(flux.RELEASE, NAME, "-n", NAME)
    return any(each["type"] == "Ready" and each["status"] == "True" for each in live["status"]["conditions"])


def test_the_chart_and_a_cloud(laboratory: Laboratory, report: Report) -> None:
    cluster, (first, second) = laboratory.cluster, laboratory.releases
    ways.prepare(cluster, first)
    ways.install_chart(cluster, first)
    make_memcached(cluster)
    laboratory.works(first)
    cloud = laboratory.session.converge(MINIMAL, timeout=900)
    ways.install_chart(cluster, second)
    laboratory.works(second)
    report.add(seconds_to_ready=cloud.seconds, proof=laboratory.session.prove(cloud))
    ways.uninstall_chart(cluster)
    laboratory.is_uninstalled()


def test_kustomize(laboratory: Laboratory) -> None:
    cluster, (first, second) = laboratory.cluster, laboratory.releases
    ways.prepare(cluster, first)
    ways.install_kustomize(cluster, first)
    laboratory.works(first)
    ways.install_kustomize(cluster, second)
    laboratory.works(second)
    ways.uninstall_kustomize(cluster, second)
    laboratory.is_uninstalled()


def test_olm(laboratory: Laboratory, report: Report) -> None:
    cluster, (first, second) = laboratory.cluster, laboratory.releases
    ways.prepare(cluster, first)
    olm.subscribe(cluster, first)
    laboratory.works(first)
    olm.subscribe(cluster, first, second)
    laboratory.works(second)
    phases = {each["metadata"]["name"]: each["status"]["phase"] for each in cluster.items(olm.VERSION, "-n", NAME)}
    report.add(olm_versions=phases)
    assert phases[f"{NAME}.v{second.version}"] == "Succeeded"
    olm.unsubscribe(cluster)
    laboratory.is_uninstalled()
