"""The operator as it is shipped, except that what lies outside Kubernetes agrees with everything at once."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

from openstack_operator.plan import Context
from openstack_operator.registry import ACTUATORS
from openstack_operator.serve import Settings, serve


def agrees(_: Context[Any]) -> tuple[str, ...]:
    """Return no changes: all is as the spec says."""
    return ()


def main() -> int:
    """Serve all namespaces until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--health-port", type=int, required=True)
    parser.add_argument("--lease-namespace", help="where the lease lies; without it no lease is taken")
    options = parser.parse_args()
    remotes = [replace(actuator, ensure=agrees, remove=agrees) for actuator in ACTUATORS]
    # It measures itself, on a machine of its own.
    settings = Settings(lease_namespace=options.lease_namespace, health_port=options.health_port, metrics_insecure=True)
    return serve(settings, remotes)


if __name__ == "__main__":
    sys.exit(main())
