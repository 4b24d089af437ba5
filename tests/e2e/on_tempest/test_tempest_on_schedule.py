"""A Tempest of its own, which logs in by an application credential and runs by the clock: the smoke tests of compute,
network, image and volume, and of scenarios.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud import proof, view
from tools.cloud.session import Cloud, Session
from tools.localcluster.kubernetes import Kubernetes

from ..conftest import Report
from ..outcomes import Outcome, differences
from ..waiting import until
from .expectations import EXPECTED, excluding
from .names import of_pattern
from .runs import TEMPESTS

NAME = "scheduled"
LOGIN = "tempest-app-credential"
API = "openstack.k8s.io/v1alpha1"
SMOKE = r"^tempest\.(api\.(compute|network|image|volume)|scenario)\..*\[.*\bsmoke\b.*\]"


PASSED = 74
"""Number of these tests that pass, as docs/evidence/suites.md has it."""


@pytest.fixture(scope="module")
def scheduled(stood: tuple[Session, Cloud]) -> Iterator[str]:
    """The namespace of a Tempest whose Secret has a credential that a small resource makes in Keystone."""
    cluster, namespace = stood[0].cluster, stood[1].namespace
    found = cluster.get("secret", "internal-bundle", "-n", namespace)
    url = f"https://keystone-api.{namespace}.svc.cluster.local:5000/v3"
    login = {
        "application_credential_name": "scheduled",
        "username": "admin",
        "auth_url": url,
        "application_credential_secret": secrets.token_hex(16),
    }
    meta = {"name": LOGIN, "namespace": namespace}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": login, "data": found["data"]},
        {
            "apiVersion": API,
            "kind": "KeystoneApplicationCredential",
            "metadata": {"name": NAME, "namespace": namespace},
            "spec": {
                "credential": "scheduled",
                "passwordSecretRef": {"name": LOGIN, "key": "application_credential_secret"},
            },
        },
        {
            "apiVersion": "tempest.openstack.c5c3.io/v1alpha1",
            "kind": "Tempest",
            "metadata": {"name": NAME, "namespace": namespace},
            "spec": {
                "schedule": "* * * * *",
                "keystone": {"authUrl": url, "appCredentialRef": {"name": LOGIN}},
                "tests": {
                    "services": ["compute", "identity", "image", "network", "volume"],
                    "includeRegex": SMOKE,
                    "excludeRegex": excluding(),
                    "image": proof.NAME,
                    "network": "public",
                    "timeout": "1h",
                },
                # The small guest has no SSH.
                "config": {"validation": {"run_validation": False}},
            },
        },
    )
    yield namespace
    for kind in (TEMPESTS, "keystoneapplicationcredentials.openstack.k8s.io"):
        cluster.kubectl("delete", f"{kind}/{NAME}", "-n", namespace, "--ignore-not-found")


def test_the_smoke_set_with_volumes_passes_on_schedule(
    cluster: Kubernetes, scheduled: str, report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    def tempest() -> dict[str, Any]:
        return cluster.get(TEMPESTS, NAME, "-n", scheduled)

    until("a run by the clock", lambda: tempest().get("status", {}).get("lastRun"), 3900, 5)
    cluster.kubectl("patch", f"{TEMPESTS}/{NAME}", "-n", scheduled, "--type=merge", '-p={"spec":{"suspend":true}}')
    status, condition = tempest()["status"], view.conditions(tempest())["TestsPassed"]
    pods = ("pods", "-n", scheduled, "-l", f"openstack.k8s.io/kind=tempest,app.kubernetes.io/instance={NAME}")
    ended = [pod for pod in cluster.items(*pods) if pod["status"]["phase"] == "Succeeded"]
    assert ended, condition["message"]
    outcome = Outcome.of(cluster.kubectl("logs", ended[0]["metadata"]["name"], "-n", scheduled))
    report.add(tempest_on_schedule={**status["results"], "duration": status["lastDuration"]})
    with capsys.disabled():
        print("", f"on schedule: {status['results']}, {status['lastDuration']}", *EXPECTED.listing(outcome), sep="\n")
    assert EXPECTED.surprises(outcome) == []
    assert differences(outcome, of_pattern(SMOKE)) == []
    assert len(outcome.passed) == PASSED
    assert condition["status"] == "True", condition["message"]
    for part in ("compute", "network", "image", "volume"):
        assert any(name.startswith(f"tempest.api.{part}.") for name in outcome.passed), part
    assert any(name.startswith("tempest.scenario.") for name in outcome.passed)
