"""The command line: run the operator, or see on paper what it would do."""

# Each command imports what it needs: `version` answers in 50 ms, and `render` loads no HTTP client.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__

if TYPE_CHECKING:
    from .offline import commands as offline
    from .plan import Permissions
    from .serve import Settings


def main(arguments: Sequence[str] | None = None) -> int:  # noqa: PLR0911  (a table of commands)
    """Runs one command and returns the exit status; 1 for input the operator would refuse."""
    parser = command_line()
    options = parser.parse_args(arguments)
    releases = getattr(options, "releases", None)
    if releases and not Path(releases).is_dir():
        # Without it, the packaged releases would be used unnoticed.
        parser.error(f"argument --releases (RELEASES): there is no folder {str(releases)!r}")
    match options.command:
        case "run":
            return _run(options)
        case "render":
            return _render(options)
        case "generate":
            return _generate(options)
        case "validate":
            return _validate(options)
        case "explain":
            return _explain(options)
        case "status" | "why":
            return _inspect(options)
        case "plan":
            return _plan(options)
        case "inject-labels":
            return _inject_labels(options)
        case "certify-injector":
            return _certify_injector(options)
        case _:
            print(__version__)
            return 0


def command_line(env: Mapping[str, str] = os.environ) -> argparse.ArgumentParser:
    """Understands every command; options that are not given count as the variables of `env` say."""
    parser = argparse.ArgumentParser(prog="openstack-operator", description="Runs OpenStack clouds on Kubernetes.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _run_options(commands.add_parser("run", help="serve the custom resources of the cluster KUBECONFIG names"), env)

    _manifest_options(commands.add_parser("render", help="print every object a manifest becomes, without a cluster"))
    validate = commands.add_parser("validate", help="say everything that is wrong with manifests, without a cluster")
    _manifest_options(validate)
    validate.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json is for programs")

    generate = commands.add_parser("generate", help="write CRDs, permissions, deployment and reference from the models")
    generate.add_argument("--root", type=Path, default=Path(), help="checkout to write to")
    generate.add_argument("--check", action="store_true", help="write nothing; fail where a file is stale")

    explain = commands.add_parser("explain", help="describe a kind or one of its fields: nova.cells.name")
    explain.add_argument("path", help="kind, or kind.field.field; kinds as kubectl takes them, status fields too")

    _inspection_options(commands.add_parser("status", help="show the clouds of a namespace and their services"))
    _inspection_options(commands.add_parser("why", help="say what keeps a cloud or a resource from being ready"))
    _plan_options(commands.add_parser("plan", help="show what manifests would change in a cluster, and change nothing"))

    _injector_options(commands.add_parser("inject-labels", help="give pods the labels of their nodes"))
    _log_options(commands.add_parser("certify-injector", help="keep the certificate of inject-labels' webhook good"))

    commands.add_parser("version", help="print the version")
    return parser


def _manifest_options(parser: argparse.ArgumentParser) -> None:
    """Options of what works on manifests."""
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
        "--releases", type=Path, default=os.environ.get("RELEASES"), help="folder of release files that win (RELEASES)"
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
        default=os.environ.get("CLUSTER_DOMAIN") or "cluster.local",
        metavar="DOMAIN",
        help="DNS domain of the cluster (CLUSTER_DOMAIN; %(default)s)",
    )
    _permission_options(parser)
    parser.add_argument("--strict", action="store_true", help="fail for warnings too")


def _inspection_options(parser: argparse.ArgumentParser) -> None:
    """Options of what looks at a cluster."""
    parser.add_argument(
        "resource", nargs="?", metavar="KIND[/NAME]", help="a resource; the clouds of the namespace otherwise"
    )
    parser.add_argument("-n", "--namespace", default="openstack", help="namespace of the cloud (%(default)s)")
    parser.add_argument("--context", help="context of the kubeconfig; its current one otherwise")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json is for programs")
    if parser.prog.endswith(" status"):
        parser.add_argument("-w", "--watch", action="store_true", help="look again every two seconds")


def _plan_options(parser: argparse.ArgumentParser) -> None:
    """Options of what foresees a change of a cluster."""
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="manifest, folder of manifests, or - for standard input; repeatable; without one, what this version of"
        " the operator would change",
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="folders within folders too")
    parser.add_argument("-n", "--namespace", help="namespace of the cloud; that of the manifests otherwise")
    parser.add_argument("--context", help="context of the kubeconfig; its current one otherwise")
    parser.add_argument(
        "--operator-namespace",
        default="openstack-operator",
        metavar="NAMESPACE",
        help="where the operator runs, whose options are read from its Deployment (%(default)s)",
    )
    parser.add_argument(
        "--releases", type=Path, help="folder of release files that win; those of the running operator otherwise"
    )
    parser.add_argument(
        "--cluster-domain", default="", metavar="DOMAIN", help="DNS domain of the cluster; cluster.local otherwise"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json is for programs")


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
        help="where the lease lies (POD_NAMESPACE)",
    )
    run.add_argument(
        "--releases", type=Path, default=env("RELEASES"), help="folder of release files that win over the packaged ones"
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
    _health_options(run, "/healthz /readyz; 0 is none", environment)
    _metrics_options(run, environment)
    _log_options(run, environment)


_PERMISSIONS = {
    "issuer-hosts": ("a name or network that issuers of the whole cluster may certify", "*.cloud.example.org"),
    "secret-store-keys": ("a key of ClusterSecretStores, beside those below the namespace", "shared/clouds/*"),
    "ingress-annotations": ("an annotation of Ingresses, beside the harmless ones", "example.org/*"),
    "allow-plain-text-to": ("a host or network that logins may be sent to without TLS", "192.0.2.0/24"),
    "priority-classes": ("a PriorityClass, beside those that do not begin with system-", "system-cluster-critical"),
}


def _permission_options(parser: argparse.ArgumentParser, env: Mapping[str, str] = os.environ) -> None:
    """Add the options for permissions beyond a namespace."""
    for name, (permission, example) in _PERMISSIONS.items():
        variable = name.upper().replace("-", "_")
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[entry for entry in env.get(variable, "").split(",") if entry],
            metavar="[NAMESPACE=]PATTERN",
            help=f"allow {permission}, such as openstack={example}; repeatable, {variable}=a,b",
        )


def _injector_options(inject: argparse.ArgumentParser) -> None:
    inject.add_argument("--port", type=int, default=9443, help="where the webhook is served, over TLS")
    inject.add_argument(
        "--certificate",
        type=Path,
        default=Path("/etc/labels-injector"),
        help="folder with tls.crt and tls.key, read anew when they change",
    )
    _health_options(inject, "/healthz /readyz /metrics; 0 is none")
    _log_options(inject)


def _health_options(parser: argparse.ArgumentParser, answers: str, env: Mapping[str, str] = os.environ) -> None:
    default = int(env.get("HEALTH_PORT", "8080"))
    parser.add_argument("--health-port", type=int, default=default, help=answers)


def _metrics_options(run: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    env = environment.get
    run.add_argument(
        "--metrics-port",
        type=int,
        default=env("METRICS_PORT", "8443"),
        help="/metrics over HTTPS, for bearer tokens that may get it; 0 is none (METRICS_PORT)",
    )
    run.add_argument(
        "--metrics-certificate",
        type=Path,
        default=env("METRICS_CERTIFICATE") or None,
        metavar="FOLDER",
        help="folder with tls.crt and tls.key for --metrics-port, read anew when they change (METRICS_CERTIFICATE); "
        "without it the operator makes a certificate",
    )
    run.add_argument(
        "--metrics-insecure",
        action=argparse.BooleanOptionalAction,
        default=env("METRICS_INSECURE", "false") == "true",
        help="/metrics at the health port, in plain text and for everybody, in place of --metrics-port; for "
        "development (METRICS_INSECURE=true)",
    )


def _log_options(parser: argparse.ArgumentParser, environment: Mapping[str, str] = os.environ) -> None:
    env = environment.get
    parser.add_argument("--log-format", choices=("json", "console"), default=env("LOG_FORMAT", "json"))
    parser.add_argument("--log-level", choices=("debug", "info"), default=env("LOG_LEVEL", "info"))


def _run(options: argparse.Namespace) -> int:
    from .serve import serve

    return serve(run_settings(options))


def _permissions(options: argparse.Namespace) -> Permissions:
    """Return the permissions that the command line grants. Exits for a malformed entry."""
    from .plan import Permissions, wrong_entry

    entries_by_option = {name: tuple(getattr(options, name.replace("-", "_"))) for name in _PERMISSIONS}
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
        permissions=_permissions(options),
        **_logs(options),
    )


def _inject_labels(options: argparse.Namespace) -> int:
    from .injector.serve import inject, serve

    program = partial(inject, certificate=options.certificate, port=options.port, health_port=options.health_port)
    return serve(program, **_logs(options))


def _certify_injector(options: argparse.Namespace) -> int:
    from .injector.certificate import keep
    from .injector.serve import serve

    return serve(keep, **_logs(options))


def _logs(options: argparse.Namespace) -> dict[str, bool]:
    return {"json_logs": options.log_format == "json", "debug": options.log_level == "debug"}


def _render(options: argparse.Namespace) -> int:
    from .offline.commands import render

    return render(_manifests(options))


def _validate(options: argparse.Namespace) -> int:
    from .offline.commands import validate

    return validate(_manifests(options))


def _manifests(options: argparse.Namespace) -> offline.Options:
    from .offline.commands import Options

    return Options(
        files=options.file,
        recursive=options.recursive,
        namespace=options.namespace,
        releases=options.releases,
        serves=options.serves,
        cluster_domain=options.cluster_domain.strip("."),
        permissions=_permissions(options),
        strict=options.strict,
        as_json=getattr(options, "output", "text") == "json",
    )


def _inspect(options: argparse.Namespace) -> int:
    from .inspection import commands

    run = commands.status if options.command == "status" else commands.why
    return run(
        commands.Options(
            namespace=options.namespace,
            context=options.context,
            resource=options.resource,
            as_json=options.output == "json",
            watch=getattr(options, "watch", False),
        )
    )


def _plan(options: argparse.Namespace) -> int:
    from .preview import commands

    def parse(arguments: Sequence[str], env: Mapping[str, str]) -> commands.OperatorSettings:
        settings = run_settings(command_line(env).parse_args(arguments))
        return commands.OperatorSettings(
            cluster_domain=settings.cluster_domain, releases=settings.releases, permissions=settings.permissions
        )

    return commands.plan(
        commands.Options(
            parse=parse,
            files=options.file,
            recursive=options.recursive,
            namespace=options.namespace,
            context=options.context,
            operator_namespace=options.operator_namespace,
            releases=options.releases,
            cluster_domain=options.cluster_domain.strip("."),
            as_json=options.output == "json",
        )
    )


def _generate(options: argparse.Namespace) -> int:
    from .generate import generated, stale, write

    files = generated(options.root)
    if options.check:
        stale_paths = stale(options.root, files)
        for path in stale_paths:
            print(f"{path} is stale; run `make generate`", file=sys.stderr)
        return 1 if stale_paths else 0
    for path in write(options.root, files):
        print(path)
    return 0


def _explain(options: argparse.Namespace) -> int:
    from .explain import explained
    from .registry import RESOURCES

    try:
        print(explained(RESOURCES, options.path))
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
