"""The commands of the command line with their options, and what the environment says of options that are not given."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from .backup_commands import add_backup
from .cluster_commands import add_commands, add_plan
from .parser import Parser
from .settings import add_health_options, add_log_options, add_permission_options, add_run_options

_INTERNAL = frozenset({"run", "generate", "inject-labels", "certify-injector"})
"""Commands of the operator's pods, and of its developers."""


def command_line(env: Mapping[str, str] = os.environ) -> Parser:
    """Return the parser of every command. Variables of `env` give the defaults of options."""
    parser = Parser(prog="openstack-operator", description="Runs OpenStack clouds on Kubernetes.")
    parser.internal = _INTERNAL
    parser.add_argument("--no-color", action="store_true", help="print no colors, as with NO_COLOR in the environment")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_run_options(commands.add_parser("run", help="run the operator in the cluster that KUBECONFIG names"), env)

    render = commands.add_parser("render", help="print the objects the operator would create from manifests, offline")
    _manifest_options(render, env)
    validate = commands.add_parser("validate", help="check manifests and print every error, offline")
    _manifest_options(validate, env)
    validate.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="output format; json is for scripts"
    )

    generate = commands.add_parser("generate", help="write CRDs, permissions, deployment and reference from the models")
    generate.add_argument("--root", type=Path, default=Path(), help="checkout to write to")
    generate.add_argument("--check", action="store_true", help="write nothing; fail if a file is stale")

    explain = commands.add_parser("explain", help="describe a kind or a field, such as nova.cells.name")
    explain.add_argument("path", help="kind or kind.field.field, including status; kinds as for kubectl")

    add_commands(commands)
    add_plan(commands)
    add_backup(commands)

    _injector_options(
        commands.add_parser("inject-labels", help=("serve the webhook that copies node labels to pods")), env
    )
    certify = commands.add_parser("certify-injector", help="renew the certificate of the inject-labels webhook")
    add_log_options(certify, env)

    completion = commands.add_parser("completion", help="print a completion script for a shell")
    completion.add_argument("shell", choices=("bash", "zsh"), help="shell that reads the script")

    commands.add_parser("version", help="print the version")
    return parser


def _manifest_options(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    """Add the options of commands that read manifests."""
    env = environment.get
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE",
        help="manifest, folder of manifests, or - for standard input; repeatable",
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="include subfolders")
    parser.add_argument("-n", "--namespace", default="openstack", help="namespace of manifests that set none")
    parser.add_argument(
        "--releases", type=Path, default=env("RELEASES"), help="folder of release files that take precedence (RELEASES)"
    )
    parser.add_argument(
        "--serves",
        action="append",
        default=[],
        metavar="KIND",
        help="kind of another operator that the cluster serves, such as PodMonitor.monitoring.coreos.com, "
        "or none; repeatable",
    )
    parser.add_argument(
        "--cluster-domain",
        default=env("CLUSTER_DOMAIN") or "cluster.local",
        metavar="DOMAIN",
        help="DNS domain of the cluster (CLUSTER_DOMAIN; %(default)s)",
    )
    add_permission_options(parser, environment)
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")


def _injector_options(inject: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    inject.add_argument("--port", type=int, default=9443, help="address and port of the webhook (HTTPS)")
    inject.add_argument(
        "--certificate",
        type=Path,
        default=Path("/etc/labels-injector"),
        help="folder with tls.crt and tls.key, reloaded on change",
    )
    add_health_options(inject, "port of /healthz, /readyz and /metrics (HEALTH_PORT); 0 for none", environment)
    add_log_options(inject, environment)
