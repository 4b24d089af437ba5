"""The commands of the command line with their options, and what the environment says of options that are not given."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from .cluster_commands import add_commands, add_plan


def command_line(env: Mapping[str, str] = os.environ) -> argparse.ArgumentParser:
    """Understands every command; options that are not given count as the variables of `env` say."""
    parser = argparse.ArgumentParser(prog="openstack-operator", description="Runs OpenStack clouds on Kubernetes.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _run_options(commands.add_parser("run", help="serve the custom resources of the cluster KUBECONFIG names"), env)

    render = commands.add_parser("render", help="print every object a manifest becomes, without a cluster")
    _manifest_options(render, env)
    validate = commands.add_parser("validate", help="say everything that is wrong with manifests, without a cluster")
    _manifest_options(validate, env)
    validate.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json is for programs")

    generate = commands.add_parser("generate", help="write CRDs, permissions, deployment and reference from the models")
    generate.add_argument("--root", type=Path, default=Path(), help="checkout to write to")
    generate.add_argument("--check", action="store_true", help="write nothing; fail where a file is stale")

    explain = commands.add_parser("explain", help="describe a kind or one of its fields: nova.cells.name")
    explain.add_argument("path", help="kind, or kind.field.field; kinds as kubectl takes them, status fields too")

    add_commands(commands)
    add_plan(commands)

    _injector_options(commands.add_parser("inject-labels", help="give pods the labels of their nodes"), env)
    certify = commands.add_parser("certify-injector", help="renew the certificate of the webhook of inject-labels")
    _log_options(certify, env)

    commands.add_parser("version", help="print the version")
    return parser


def _manifest_options(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    """Options of what works on manifests."""
    env = environment.get
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE",
        help="manifest, folder of manifests, or - for standard input; repeatable",
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="folders within folders too")
    parser.add_argument("-n", "--namespace", default="openstack", help="for manifests that name none")
    parser.add_argument(
        "--releases", type=Path, default=env("RELEASES"), help="folder of release files that win (RELEASES)"
    )
    parser.add_argument(
        "--serves",
        action="append",
        default=[],
        metavar="KIND",
        help="a kind of another operator that the cluster has, such as PodMonitor.monitoring.coreos.com; repeatable; "
        "none says that it has no others",
    )
    parser.add_argument(
        "--cluster-domain",
        default=env("CLUSTER_DOMAIN") or "cluster.local",
        metavar="DOMAIN",
        help="DNS domain of the cluster (CLUSTER_DOMAIN; %(default)s)",
    )
    _permission_options(parser, environment)
    parser.add_argument("--strict", action="store_true", help="fail for warnings too")


def _run_options(run: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    """Options of `run`; each can be set in the environment too, as a Deployment does it."""
    env = environment.get
    run.add_argument(
        "--namespace",
        action="append",
        default=[name for name in env("WATCH_NAMESPACES", "").split(",") if name],
        help="serve this namespace only; repeatable, WATCH_NAMESPACES=a,b; all of them otherwise",
    )
    run.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=env("LEADER_ELECT", "false") == "true",
        help="take a lease before acting, so that replicas may stand by (LEADER_ELECT=true)",
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
        help="folder of release files that win over the packaged ones (RELEASES)",
    )
    run.add_argument(
        "--cluster-domain",
        default=env("CLUSTER_DOMAIN", ""),
        metavar="DOMAIN",
        help="DNS domain of the cluster (CLUSTER_DOMAIN); that of /etc/resolv.conf otherwise",
    )
    run.add_argument(
        "--build",
        default=env("OPERATOR_BUILD", ""),
        help="tells builds of one version apart in status.operatorVersion, as 0.1.0+BUILD (OPERATOR_BUILD)",
    )
    run.add_argument(
        "--allow-address",
        action="append",
        default=[network for network in env("ALLOWED_ADDRESSES", "").split(",") if network],
        metavar="NETWORK",
        help="connect to servers in this network that resources name, though it is loopback or link-local; repeatable, "
        "ALLOWED_ADDRESSES=a,b",
    )
    _permission_options(run, environment)
    _health_options(run, "port of /healthz and /readyz (HEALTH_PORT); 0 for none", environment)
    _metrics_options(run, environment)
    _log_options(run, environment)


PERMISSIONS = {
    "issuer-hosts": ("a name or network that issuers of the whole cluster may certify", "*.cloud.example.org"),
    "secret-store-keys": ("a key of ClusterSecretStores, beside those below the namespace", "shared/clouds/*"),
    "ingress-annotations": ("an annotation of Ingresses, beside the harmless ones", "example.org/*"),
    "allow-plain-text-to": ("a host or network that logins may be sent to without TLS", "192.0.2.0/24"),
    "priority-classes": ("a PriorityClass, beside those that do not begin with system-", "system-cluster-critical"),
}


def _permission_options(parser: argparse.ArgumentParser, env: Mapping[str, str]) -> None:
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


def _injector_options(inject: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    inject.add_argument("--port", type=int, default=9443, help="where the webhook is served, over TLS")
    inject.add_argument(
        "--certificate",
        type=Path,
        default=Path("/etc/labels-injector"),
        help="folder with tls.crt and tls.key, read again when they change",
    )
    _health_options(inject, "port of /healthz, /readyz and /metrics (HEALTH_PORT); 0 for none", environment)
    _log_options(inject, environment)


def _health_options(parser: argparse.ArgumentParser, answers: str, env: Mapping[str, str]) -> None:
    default = int(env.get("HEALTH_PORT", "8080"))
    parser.add_argument("--health-port", type=int, default=default, help=answers)


def _metrics_options(run: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    env = environment.get
    run.add_argument(
        "--metrics-port",
        type=int,
        default=env("METRICS_PORT", "8443"),
        help="port of /metrics by HTTPS, for bearer tokens that may get it (METRICS_PORT); 0 for none",
    )
    run.add_argument(
        "--metrics-certificate",
        type=Path,
        default=env("METRICS_CERTIFICATE") or None,
        metavar="FOLDER",
        help="folder with tls.crt and tls.key for --metrics-port, read again when they change (METRICS_CERTIFICATE); "
        "without it the operator makes a certificate",
    )
    run.add_argument(
        "--metrics-insecure",
        action=argparse.BooleanOptionalAction,
        default=env("METRICS_INSECURE", "false") == "true",
        help="/metrics at the health port, in plain text and for everybody, in place of --metrics-port; for "
        "development (METRICS_INSECURE=true)",
    )


def _log_options(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    env = environment.get
    parser.add_argument(
        "--log-format", choices=("json", "console"), default=env("LOG_FORMAT", "json"), help="(LOG_FORMAT)"
    )
    parser.add_argument("--log-level", choices=("debug", "info"), default=env("LOG_LEVEL", "info"), help="(LOG_LEVEL)")
