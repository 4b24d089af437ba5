"""Certificates of ten minutes, for twenty-five: nobody notices, and nothing starts anew."""

from __future__ import annotations

import json
import time

from tools.localcluster.kubernetes import Kubernetes

from ..conftest import Report
from ..waiting import until
from .hops import (
    NAMESPACE,
    SECRETS,
    SILENCE,
    asking,
    cache_hits,
    calm_silence,
    processes,
    programs,
    renewed,
    shown,
)

MINUTES, LIFE = 25, 10


def test_certificates_of_ten_minutes_serve_twenty_five(cluster: Kubernetes, report: Report) -> None:
    patch = json.dumps({"spec": {"certificateLifetime": f"{LIFE}m"}})
    for name in ("internal", "internal-ovn"):
        cluster.kubectl("patch", "pki", name, "-n", NAMESPACE, "--type=merge", "-p", patch)
    long = shown(cluster)
    pods, running = processes(cluster), programs()
    seen: dict[str, set[str]] = {name: set() for name in long}
    calm = calm_silence(cluster)
    with asking(cluster) as told:
        # Those there are would last a year.
        cluster.kubectl("delete", "secret", *SECRETS, "-n", NAMESPACE)
        renewed(cluster, long)
        end = time.monotonic() + MINUTES * 60
        while time.monotonic() < end:
            for name, digest in shown(cluster).items():
                seen[name].add(digest)
            # Long enough that asking is not most of the load.
            time.sleep(30)
    report.add(tls_short_certificates={name: len(digests) for name, digests in seen.items()})
    report.add(tls_short_failed_requests=len(told.failed), tls_short_answered_requests=told.answered)
    report.add(tls_short_longest_silence_seconds=round(told.silence, 1))
    # Each is renewed when some five of its minutes are left.
    assert min(len(digests) for digests in seen.values()) >= 2 * MINUTES // LIFE - 1, seen
    assert told.failed == []
    assert told.answered > MINUTES * 30
    assert processes(cluster) == pods
    assert programs() == running
    SILENCE.judge({"requests": told.silence}, {"requests": calm})
    # Clients of a Memcached that starts anew connect with the certificates they have by then.
    cluster.kubectl("delete", "pod", "memcached-server-0", "-n", NAMESPACE)
    with asking(cluster):
        until("a cache that is used", lambda: cache_hits(cluster) > 0, 180, 5)
