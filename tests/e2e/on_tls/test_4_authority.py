"""An authority gives way to another, while the cloud is used."""

from __future__ import annotations

import time

import pytest

from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import KubeError, Kubernetes

from ..conftest import Report
from ..facts import ready_again
from ..waiting import until
from .hops import (
    DATABASE,
    PKIS,
    SILENCE,
    TRUST,
    asking,
    bundle,
    calm_silence,
    file_of,
    inside,
    of_ovn,
    programs,
    replaced_by_another,
    rotations,
    shown,
)

STAYING = ("mariadbd", "beam.smp", "ovsdb-server", "memcached")


def test_another_authority_takes_over_without_an_outage(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    before = {name: bundle(cluster, name) for name in PKIS}
    old = "".join(file_of(cluster, "ovn-client-tls", name) for name in ("tls.crt", "tls.key"))
    running, leaves = programs(*STAYING), shown(cluster)
    calm = calm_silence(cluster)
    started = time.monotonic()
    with asking(cluster) as told:
        replaced_by_another(cluster)
        until("both authorities", lambda: all(before[n] != bundle(cluster, n) for n in PKIS), 60, 1)
        until("the new ones alone", lambda: rotations(cluster) == {"Ready"}, 2400, 10)
        ready_again(cluster, cloud, 420)
    report.add(tls_authority_seconds=round(time.monotonic() - started, 1))
    report.add(tls_authority_failed_requests=told.failed, tls_authority_answered_requests=told.answered)
    report.add(
        tls_authority_longest_silence_seconds=round(told.silence, 1), tls_authority_silence_before=round(calm, 1)
    )
    assert programs(*STAYING) == running
    assert not set(leaves.values()) & set(shown(cluster).values())
    for name in PKIS:
        assert bundle(cluster, name).count("BEGIN CERTIFICATE") == 1
        assert bundle(cluster, name) != before[name]
    # Those who were believed before are not any more, neither as a client nor as a server.
    with pytest.raises(KubeError, match=r"UNKNOWN_CA|unknown ca|alert|reset|Broken pipe"):
        of_ovn(cluster, "16641", "given", given=old)
    with pytest.raises(KubeError, match="CERTIFICATE_VERIFY_FAILED"):
        inside(cluster, DATABASE, "given", given=before["internal"])
    assert inside(cluster, DATABASE, TRUST)
    assert told.failed == []
    SILENCE.judge({"requests": told.silence}, {"requests": calm})
