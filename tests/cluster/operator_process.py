"""A replica of the operator as a process of its own; what lies outside Kubernetes agrees with everything."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from openstack_operator.plan import Context
from openstack_operator.registry import ACTUATORS
from openstack_operator.serve import Settings, serve

ROOT = Path(__file__).parent.parent.parent


def change_nothing(_: Context[Any]) -> tuple[str, ...]:
    """Nothing had to be changed."""
    return ()


if __name__ == "__main__":
    namespace = sys.argv[1]
    remotes = [replace(actuator, ensure=change_nothing, remove=change_nothing) for actuator in ACTUATORS]
    settings = Settings(
        namespaces=(namespace,),
        lease_namespace=namespace,
        health_port=0,
        metrics_port=0,
        releases=ROOT / "releases",
        json_logs=False,
    )
    sys.exit(serve(settings, remotes))
