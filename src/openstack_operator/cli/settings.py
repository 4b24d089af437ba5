"""Options of the operator itself, and the settings that they become."""

# Imports what it needs where it needs it, as cli.py.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..plan import Permissions
    from ..serve import Settings


PERMISSIONS = {
    "issuer-hosts": ("name or network that cluster-wide issuers may certify", "*.cloud.example.org"),
    "secret-store-keys": ("key of ClusterSecretStores outside the namespace's folder", "shared/clouds/*"),
    "ingress-annotations": ("annotation of Ingresses in addition to the safe ones", "example.org/*"),
    "service-annotations": ("annotation of Services in addition to those of load balancers", "example.org/*"),
    "pod-metadata": ("annotation or label of pods in addition to the safe ones", "example.org/*"),
    "allow-plain-text-to": ("host or network that may receive logins without TLS", "192.0.2.0/24"),
    "priority-classes": ("PriorityClass that begins with system-", "system-cluster-critical"),
}


def operator_command_line(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of `run` alone, with defaults from that environment."""
    parser = argparse.ArgumentParser(prog="openstack-operator")
    add_run_options(parser.add_subparsers(dest="command", required=True).add_parser("run"), environment)
    return parser


def add_run_options(run: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    """Add the options of `run`. Each can be set in the environment, too, as a Deployment does."""
    env = environment.get
    run.add_argument(
        "--namespace",
        action="append",
        default=[name for name in env("WATCH_NAMESPACES", "").split(",") if name],
        help="serve this namespace only; repeatable, WATCH_NAMESPACES=a,b (default: all)",
    )
    run.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=env("LEADER_ELECT", "false") == "true",
        help="elect a leader by a lease, for several replicas (LEADER_ELECT=true)",
    )
    run.add_argument(
        "--lease-namespace",
        default=env("POD_NAMESPACE", "openstack-operator"),
        help="namespace of the lease (POD_NAMESPACE)",
    )
    run.add_argument(
        "--releases",
        type=Path,
        default=env("RELEASES"),
        help="folder of release files that override the packaged ones (RELEASES)",
    )
    run.add_argument(
        "--cluster-domain",
        default=env("CLUSTER_DOMAIN", ""),
        metavar="DOMAIN",
        help="DNS domain of the cluster (CLUSTER_DOMAIN; default: from /etc/resolv.conf)",
    )
    run.add_argument(
        "--build",
        default=env("OPERATOR_BUILD", ""),
        help="build ID appended to the version in status.operatorVersion, as 0.1.0+BUILD (OPERATOR_BUILD)",
    )
    run.add_argument(
        "--allow-address",
        action="append",
        default=[network for network in env("ALLOWED_ADDRESSES", "").split(",") if network],
        metavar="NETWORK",
        help="allow connections to this loopback or link-local network; repeatable, ALLOWED_ADDRESSES=a,b",
    )
    add_permission_options(run, environment)
    add_health_options(run, "port of /healthz and /readyz (HEALTH_PORT); 0 for none", environment)
    _add_metrics_options(run, environment)
    add_log_options(run, environment)


def add_permission_options(parser: argparse.ArgumentParser, env: Mapping[str, str]) -> None:
    """Add the options for permissions beyond a namespace."""
    for name, (permission, example) in PERMISSIONS.items():
        variable = name.upper().replace("-", "_")
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[entry for entry in env.get(variable, "").split(",") if entry],
            metavar="[NAMESPACE=]PATTERN",
            help=f"allow {permission}, such as openstack={example}; repeatable, {variable}=a,b",
        )
    add_node_labels(parser, env)


def add_node_labels(parser: argparse.ArgumentParser, env: Mapping[str, str]) -> None:
    """Add the choice of the labels that give nodes their roles."""
    parser.add_argument(
        "--node-labels",
        choices=("legacy", "restricted"),
        default=env.get("NODE_LABELS", "legacy"),
        help="node role labels: openstack-compute-node and so on (legacy), or the same with "
        "prefix node-restriction.kubernetes.io/, which kubelets cannot set (restricted) (NODE_LABELS)",
    )


def add_health_options(parser: argparse.ArgumentParser, answers: str, env: Mapping[str, str]) -> None:
    """Add the port of health probes, with what answers there."""
    default = int(env.get("HEALTH_PORT", "8080"))
    parser.add_argument("--health-port", type=int, default=default, help=answers)


def _add_metrics_options(run: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    env = environment.get
    run.add_argument(
        "--metrics-port",
        type=int,
        default=env("METRICS_PORT", "8443"),
        help="HTTPS port of /metrics, for authorized bearer tokens (METRICS_PORT); 0 for none",
    )
    run.add_argument(
        "--metrics-certificate",
        type=Path,
        default=env("METRICS_CERTIFICATE") or None,
        metavar="FOLDER",
        help="folder with tls.crt and tls.key for --metrics-port, reloaded on change "
        "(METRICS_CERTIFICATE; default: self-signed)",
    )
    run.add_argument(
        "--metrics-insecure",
        action=argparse.BooleanOptionalAction,
        default=env("METRICS_INSECURE", "false") == "true",
        help="for development: serve /metrics on the health port, without TLS or login, instead "
        "of --metrics-port (METRICS_INSECURE=true)",
    )


def add_log_options(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    """Add the options of a program's log."""
    env = environment.get
    parser.add_argument(
        "--log-format", choices=("json", "console"), default=env("LOG_FORMAT", "json"), help="(LOG_FORMAT)"
    )
    parser.add_argument("--log-level", choices=("debug", "info"), default=env("LOG_LEVEL", "info"), help="(LOG_LEVEL)")


def permissions(options: argparse.Namespace) -> Permissions:
    """Return the permissions that the command line grants. Exits for a malformed entry."""
    from ..plan import Permissions, wrong_entry

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
        service_annotations=entries_by_option["service-annotations"],
        pod_metadata=entries_by_option["pod-metadata"],
        plain_text_to=entries_by_option["allow-plain-text-to"],
        priority_classes=entries_by_option["priority-classes"],
        node_labels=options.node_labels,
    )


def run_settings(options: argparse.Namespace) -> Settings:
    """Return the settings of `run`, from the command line and the environment. Exits for text that is not a network."""
    from ipaddress import ip_network

    from ..serve import Settings

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
