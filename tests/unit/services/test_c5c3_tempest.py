"""Fields of Tempest: each changes what it says, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from openstack_operator.api import ALLOWED_HOSTS
from openstack_operator.plan import Object, SpecError
from openstack_operator.release_files import ReleaseFiles
from tests.field_effects import POD, RELEASES, Leaves, check, pods, resulting_leaves, row, version
from tests.fields import description

KIND, RUN = "Tempest", "CronJob/tempest-run"
NIGHTLY = {"schedule": "0 2 * * *"}
FILES = "Secret/tempest-config"
ORDER, CONF = f"{FILES} run.json", f"{FILES} tempest.conf"
LOGIN: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "app", "annotations": {ALLOWED_HOSTS: "far"}},
    "stringData": {"application_credential_id": "i", "application_credential_secret": "s"},
}
SIZES = {"requests": {"cpu": "77m", "memory": "99Mi"}, "limits": {"cpu": "7", "memory": "7Gi"}}
APART = {"antiAffinity", "topologySpreadConstraints"}


def asked(field: str, value: Any, key: str) -> Any:
    """What a run is told, as a field of what its program reads."""
    return row(KIND, f"spec.tests.{field}", value, {f"{ORDER}.{key}": value})


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        row(
            KIND,
            "spec.schedule",
            "0 3 * * *",
            {f"{RUN} spec.schedule": "0 3 * * *", f"{RUN} ": True, "RunsReady": ""},
            f"{RUN} ",
        ),
        *(each for each in pods(KIND, "spec", RUN, NIGHTLY) if not str(each.id).endswith(tuple(APART))),
        row(
            KIND,
            "spec.defaultResources",
            SIZES,
            {
                f"{RUN} pod.containers[main].resources.{part}.{name}": amount
                for part, amounts in SIZES.items()
                for name, amount in amounts.items()
            },
            base=NIGHTLY,
        ),
        row(KIND, "spec.suspend", True, {f"{RUN} spec.suspend": True}, base=NIGHTLY),
        row(
            KIND,
            "spec.successfulJobsHistoryLimit",
            7,
            {f"{RUN} spec.successfulJobsHistoryLimit": 7},
            base=NIGHTLY,
        ),
        row(KIND, "spec.failedJobsHistoryLimit", 6, {f"{RUN} spec.failedJobsHistoryLimit": 6}, base=NIGHTLY),
        row(
            KIND,
            "spec.imageProfile",
            "kolla",
            {f"{RUN} pod.containers[main].image": re.compile("openstack.kolla/tempest:"), **version(RUN, "2025.1")},
            f"{RUN} pod.",
            base=NIGHTLY,
        ),
        row(
            KIND,
            "spec.dependsOn",
            [{"kind": "Nova", "name": "other", "condition": "APIReady"}],
            {
                "DependenciesReady": re.compile("^waiting for Nova/other to be APIReady; there is none"),
                f"{RUN} waits for": ["Dependencies"],
            },
            base=NIGHTLY,
        ),
        asked("services", ["volume"], "services"),
        asked("concurrency", 7, "concurrency"),
        asked("includeRegex", "smoke", "include"),
        asked("excludeRegex", "slow", "exclude"),
        asked("image", "cirros", "image"),
        asked("flavor", "m1.tiny", "flavor"),
        asked("network", "public", "network"),
        row(
            KIND,
            "spec.tests.timeout",
            "30m",
            # Ten more, in which the program says what came of it.
            {f"{ORDER}.seconds": 1800, f"{RUN} pod.activeDeadlineSeconds": 2400},
            base=NIGHTLY,
        ),
        row(
            KIND,
            "spec.config",
            {"auth": {"tempest_roles": "own"}},
            {f"{CONF} [auth] tempest_roles": "own"},
            f"{FILES} ",
        ),
        row(
            KIND,
            "spec.region",
            "North",
            {
                **{f"{CONF} [{name}] region": "North" for name in ("identity", "heat_plugin", "key_manager")},
                f"{CONF} [load_balancer] region": "North",
                f"{ORDER}.region": "North",
            },
        ),
        row(
            KIND,
            "spec.keystone.interface",
            "public",
            {f"{ORDER}.interface": "public", f"{CONF} [identity] v3_endpoint_type": "public"},
            CONF,
        ),
        row(
            KIND,
            "spec.keystone.keystoneRef.name",
            "other",
            {
                f"{ORDER}.url": "http://other-api.openstack.svc.cluster.local:5000/v3",
                "KeystoneUser/tempest-user spec.keystoneRef.name": "other",
                "uses Keystone/other": True,
                "uses Keystone/keystone": None,
            },
            f"{CONF} [identity] uri_v3",
        ),
        row(
            KIND,
            "spec.keystone",
            {"authUrl": "https://far:5000/v3", "appCredentialRef": {"name": "app"}},
            {
                f"{ORDER}.url": "https://far:5000/v3",
                f"{ORDER}.auth.identity.application_credential.id": "i",
                f"{CONF} [identity] uri_v3": "https://far:5000/v3",
                "KeystoneUser/tempest-user ": None,
                "uses Keystone/keystone": None,
            },
            "KeystoneUser/tempest-user ",
            "Secret/tempest-",
            "CredentialsReady",
            "IdentityReady",
        ),
        row(
            KIND,
            "spec.networkPolicies.enabled",
            True,
            {"NetworkPolicy/tempest ": True},
            "NetworkPolicy/tempest",
        ),
        row(
            KIND,
            "spec.networkPolicies.allowFrom",
            [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            {"NetworkPolicy/tempest spec.ingress[0].from[1].podSelector.matchLabels.app": "prometheus"},
            base={"networkPolicies": {"enabled": True}},
        ),
    ],
)
def test_a_field_changes(kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]) -> None:
    check(kind, base, path, value, expected, also, LOGIN)


@pytest.mark.parametrize(
    ("kind", "base", "path", "value", "expected", "also"),
    [
        *(row(KIND, f"spec.{field}", POD[field], {}, base=NIGHTLY, says="does nothing") for field in sorted(APART)),
        row(
            KIND,
            "spec.networkPolicies.nodes",
            ["192.0.2.0/24"],
            {},
            base={"networkPolicies": {"enabled": True}},
            says="does nothing",
        ),
    ],
)
def test_a_pod_that_is_alone_and_that_nobody_calls_needs_no_more(
    kind: str, base: Any, path: str, value: Any, expected: Leaves, also: tuple[str, ...]
) -> None:
    check(kind, base, path, value, expected, also)
    assert re.search(
        "a program's pods|programs with host networking",
        description(kind, path),
    )


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        pytest.param(kind, base, marks=pytest.mark.proves(kind, "spec.release"))
        for kind, base in (("OVNCluster", {}), ("Cortex", {}), ("Tempest", NIGHTLY))
    ],
)
def test_programs_are_those_of_the_release(kind: str, base: dict[str, Any], tmp_path: Path, root: Path) -> None:
    known = (root / "releases" / "2025.1.yaml").read_text(encoding="utf-8")
    (tmp_path / "2025.1.yaml").write_text(known)
    (tmp_path / "2099.1.yaml").write_text(
        known.replace(":build", ":next").replace('release: "2025.1"', 'release: "2099.1"')
    )
    found = resulting_leaves(kind, {**base, "release": "2099.1"}, releases=ReleaseFiles(tmp_path))
    assert {value.rpartition(":")[2] for field, value in found.items() if field.endswith("].image")} == {"next"}
    with pytest.raises(SpecError, match=r"spec\.release: there is no release '2098.1'; choose from"):
        resulting_leaves(kind, {**base, "release": "2098.1"}, releases=RELEASES)
    assert yaml.safe_load(known)["release"] == "2025.1"
