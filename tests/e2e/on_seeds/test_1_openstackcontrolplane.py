"""The OpenStackControlPlane of the seeds: three of each server, Ceph, a dashboard, and cert-manager's certificates."""

from __future__ import annotations

from tools.operators import issuers

from ..conftest import Report
from .conftest import applied, manifest, standing, used

KIND, NAME = "openstackcontrolplanes.openstack.k8s.io", "my-cloud"


def test_cloud_becomes_ready_and_a_server_answers_with_a_volume(report: Report) -> None:
    path = manifest("openstackcontrolplane.openstack.k8s.io")
    with standing(path, "cert-manager") as cluster:
        issuers.ready(cluster, *issuers.private("openstack-ca"))
        report.add(seeds_openstackcontrolplane_ready_seconds=applied(cluster, path, KIND, NAME, 900))
        facts = used(cluster)
        report.add(seeds_openstackcontrolplane=facts)
        assert facts["reply"]
        assert facts["attached"]
