"""Settings of the operator, of its command line."""

# Imports what it needs where it needs it, as cli.py.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .command_line import PERMISSIONS

if TYPE_CHECKING:
    from .plan import Permissions
    from .serve import Settings


def permissions(options: argparse.Namespace) -> Permissions:
    """Return the permissions that the command line grants. Exits for a malformed entry."""
    from .plan import Permissions, wrong_entry

    entries_by_option = {name: tuple(getattr(options, name.replace("-", "_"))) for name in PERMISSIONS}
    for name, entries in entries_by_option.items():
        for entry in entries:
            if fault := wrong_entry(entry):
                variable = name.upper().replace("-", "_")
                sys.exit(f"openstack-operator {options.command}: --{name} ({variable}): {fault}")
    return Permissions(
        issuer_hosts=entries_by_option["issuer-hosts"],
        secret_store_keys=entries_by_option["secret-store-keys"],
        ingress_annotations=entries_by_option["ingress-annotations"],
        plain_text_to=entries_by_option["allow-plain-text-to"],
        priority_classes=entries_by_option["priority-classes"],
    )


def run_settings(options: argparse.Namespace) -> Settings:
    """Settings of `run`, from the command line and the environment. Exits for a network that is none."""
    from ipaddress import ip_network

    from .serve import Settings

    try:
        allowed = tuple(str(ip_network(network)) for network in options.allow_address)
    except ValueError as error:
        sys.exit(f"openstack-operator run: --allow-address (ALLOWED_ADDRESSES): {error}")

    return Settings(
        namespaces=tuple(options.namespace),
        lease_namespace=options.lease_namespace if options.leader_elect else None,
        health_port=options.health_port,
        metrics_port=options.metrics_port,
        metrics_certificate=options.metrics_certificate,
        metrics_insecure=options.metrics_insecure,
        releases=Path(options.releases) if options.releases else None,
        cluster_domain=options.cluster_domain.strip("."),
        build=options.build,
        allowed_addresses=allowed,
        permissions=permissions(options),
        **logs(options),
    )


def logs(options: argparse.Namespace) -> dict[str, bool]:
    """Return how a program logs, as options of what serves it."""
    return {"json_logs": options.log_format == "json", "debug": options.log_level == "debug"}
