"""The cost of encryption: the minimal cloud from apply to Ready with and without it, by turns, in one cluster.

`python -m tools.bench.encryption`, as root; takes the place of the embedded cluster, and removes it. Ends with 1 where
the goal is missed.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median

import yaml

from tools.cloud import deploy
from tools.cloud.session import MINIMAL, Session
from tools.localcluster.kubernetes import ROOT, module

_GOAL = 1.15
"""Times as long, at most."""
_REMOVAL = 300


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.bench.encryption", description="Measures what encryption costs.")
    parser.add_argument("--repeat", type=int, default=3, help="clouds of each sort, of which the median counts")
    repeat = parser.parse_args().repeat
    session = Session.start(MINIMAL)
    try:
        # The first cloud of a cluster reads every image from the disk, which would be somebody's disadvantage.
        _seconds(session, encrypted=True)
        pairs = [(_seconds(session, encrypted=True), _seconds(session, encrypted=False)) for _ in range(repeat)]
    finally:
        if session.cluster.kind != "existing":
            module("tools.localcluster", "down")
    encrypted, plain = (median(times) for times in zip(*pairs, strict=True))
    print(f"encrypted {[one for one, _ in pairs]}, median {encrypted} s; plain {[one for _, one in pairs]}, {plain} s")
    print(f"ratio {encrypted / plain:.2f}, goal {_GOAL}: {'met' if encrypted <= _GOAL * plain else 'MISSED'}")
    return int(encrypted > _GOAL * plain)


def _seconds(session: Session, *, encrypted: bool) -> float:
    """Return the seconds from apply to Ready of a cloud, which is deleted afterwards."""
    documents = deploy.documents(MINIMAL)
    plane = next(doc for doc in documents if doc["kind"] == "OpenStackControlPlane")
    plane["spec"]["tls"] = {"enabled": encrypted}
    sample = ROOT / "build" / "encryption.yaml"
    sample.parent.mkdir(exist_ok=True)
    sample.write_text(yaml.safe_dump_all(documents))
    cloud = session.converge(sample)
    removal = ("delete", "namespace", cloud.namespace, f"--timeout={_REMOVAL}s")
    session.cluster.kubectl(*removal, timeout=_REMOVAL + 10)
    return cloud.seconds


if __name__ == "__main__":
    sys.exit(main())
