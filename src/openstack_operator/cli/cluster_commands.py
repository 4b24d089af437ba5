"""The part of the command line that looks at a cloud in a cluster, and steers it."""

# Each command imports what it needs, as in cli.py.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def add_commands(commands: Any) -> None:
    """Add the commands to the command line. The options of each have `execute`, which runs it."""
    status = commands.add_parser("status", help="show the clouds of a namespace and their services")
    _resource_options(status)
    _output_options(status)
    status.add_argument("-w", "--watch", action="store_true", help="refresh every two seconds")
    status.set_defaults(execute=_inspect)

    why = commands.add_parser("why", help="print why a cloud or a resource is not ready")
    _resource_options(why)
    _output_options(why)
    why.set_defaults(execute=_inspect)

    wait = commands.add_parser("wait", help="wait until a cloud or a resource is ready, or is deleted")
    _resource_options(wait)
    wait.add_argument("--for", choices=("Ready", "deleted"), default="Ready", dest="goal", help="%(default)s otherwise")
    wait.add_argument("--timeout", type=duration, default="10m", metavar="DURATION", help="such as 90s or 1h (10m)")
    wait.set_defaults(execute=_wait)

    config = commands.add_parser("config", help="print the options of a service and their sources, without secrets")
    _service_options(config)
    _output_options(config)
    config.set_defaults(execute=_config)

    logs = commands.add_parser("logs", help="print the logs of all pods of a service, without passwords")
    _service_options(logs)
    logs.add_argument("-f", "--follow", action="store_true", help="follow: print new lines as pods log them")
    logs.add_argument(
        "--since", type=duration, metavar="DURATION", help="only lines newer than this, such as 90s or 1h"
    )
    logs.add_argument(
        "--tail", type=int, metavar="LINES", help="last lines of each container (100; all of them with --since, or -1)"
    )
    logs.set_defaults(execute=_logs)

    _add_drawings(commands)
    _add_support(commands)


def _add_drawings(commands: Any) -> None:
    """Add the commands that draw a cloud."""
    graph = commands.add_parser("graph", help="draw a graph of the dependencies between resources")
    cluster_options(graph)
    graph.add_argument("-o", "--output", choices=("text", "mermaid", "svg"), default="text", help="%(default)s")
    graph.set_defaults(execute=_draw)

    timeline = commands.add_parser("timeline", help="draw a timeline of the last change of a cloud")
    cluster_options(timeline)
    timeline.add_argument("-o", "--output", choices=("text", "json", "svg"), default="text", help="%(default)s")
    timeline.set_defaults(execute=_draw)


def _add_support(commands: Any) -> None:
    """Add the commands for work on a cloud."""
    bundle = commands.add_parser("support-bundle", help="write the state of a cloud, without secrets, into an archive")
    bundle.add_argument("-o", "--output", type=Path, metavar="FILE", help="archive to write, a new file (.tar.gz)")
    cluster_options(bundle)
    bundle.add_argument(
        "--operator-namespace",
        default="openstack-operator",
        type=namespace,
        metavar="NAMESPACE",
        help="namespace of the operator, for its log (%(default)s)",
    )
    bundle.set_defaults(execute=_support_bundle)

    _add_actions(commands)


def _add_actions(commands: Any) -> None:
    """Add what does more than look."""
    shell = commands.add_parser("shell", help="run a shell, or one command, as the administrator of a cloud")
    shell.add_argument(
        "argv",
        nargs="*",
        metavar="COMMAND",
        help="a command after --, such as -- openstack server list; bash otherwise",
    )
    shell.add_argument(
        "--local", action="store_true", help="run on this machine instead of in the pod of the OpenStack client"
    )
    shell.add_argument(
        "--keystone", default="keystone", type=object_name, metavar="NAME", help="name of the Keystone (%(default)s)"
    )
    cluster_options(shell)
    shell.set_defaults(execute=_shell)

    pause = commands.add_parser("pause", help="pause the operator's work on a resource")
    _pause_options(pause)
    pause.add_argument(
        "--reason", metavar="TEXT", help="reason for the condition Paused (default: keep the present one)"
    )
    resume = commands.add_parser("resume", help="resume the operator's work on a paused resource")
    _pause_options(resume)


def add_plan(commands: Any) -> None:
    """Add what foresees a change of a cluster."""
    parser = commands.add_parser("plan", help="show what manifests would change in a cluster, without changing it")
    parser.set_defaults(execute=_plan)
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="manifest, folder of manifests, or - for standard input; repeatable; without one, what this version of"
        " the operator would change",
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="include subfolders")
    parser.add_argument(
        "-n",
        "--namespace",
        type=namespace,
        help="namespace of the cloud (default: the manifests', else the context's, else openstack)",
    )
    parser.add_argument("--context", help="context of the kubeconfig (default: current-context)")
    parser.add_argument(
        "--operator-namespace",
        default="openstack-operator",
        type=namespace,
        metavar="NAMESPACE",
        help="namespace of the operator's Deployment, for its options (%(default)s)",
    )
    parser.add_argument(
        "--releases",
        type=Path,
        help=("folder of release files that take precedence (default: those of the running operator)"),
    )
    parser.add_argument(
        "--cluster-domain", default="", metavar="DOMAIN", help="DNS domain of the cluster (default: cluster.local)"
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="output format; json is for scripts"
    )


def cluster_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--namespace", type=namespace, help="namespace of the cloud (default: the context's, else openstack)"
    )
    parser.add_argument("--context", help="context of the kubeconfig (default: current-context)")


def _resource_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "resource",
        nargs="?",
        type=_resource,
        metavar="KIND[/NAME]",
        help="a resource (default: the clouds of the namespace)",
    )
    cluster_options(parser)


def _service_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", type=_resource, metavar="SERVICE", help="a service, such as nova or nova/NAME")
    parser.add_argument(
        "program", nargs="?", metavar="PROGRAM", help="one of its programs, such as api or conductor (default: all)"
    )
    cluster_options(parser)


def _output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="output format; json is for scripts"
    )
    # Also before the command, where it has a default.
    parser.add_argument("--no-color", action="store_true", default=argparse.SUPPRESS, help="print no colors")


def _pause_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("resource", nargs="?", type=_resource, metavar="KIND/NAME", help="a resource")
    parser.add_argument("--all", action="store_true", help="every resource of the namespace")
    cluster_options(parser)
    parser.set_defaults(execute=_pause, fault=parser.error)


def run(options: argparse.Namespace) -> int:
    """Run the command of the options, in the namespace of the context unless they name one. Returns its exit status."""
    if options.namespace is None and options.command != "plan":
        from .inspection.session import namespace_of

        options.namespace = namespace_of(options.context)
    return options.execute(options)


def namespace(text: str) -> str:
    """Return the name of a namespace. Raises ArgumentTypeError for what none can have."""
    if not re.fullmatch("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name of a namespace: use a-z, 0-9 and -")
    return text


def object_name(text: str) -> str:
    """Return the name of an object. Raises ArgumentTypeError for what none can have."""
    if not re.fullmatch("[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name of a resource: use a-z, 0-9, - and .")
    return text


def _resource(text: str) -> str:
    """Return KIND or KIND/NAME. Raises ArgumentTypeError for a name that no object can have."""
    _, slash, name = text.partition("/")
    if slash and (name in {".", ".."} or re.search("[/%?#]", name) or not name.isprintable()):
        raise argparse.ArgumentTypeError(f"{name!r} is not a name of a resource: use a-z, 0-9, - and .")
    return text


def _plan(options: argparse.Namespace) -> int:
    import logging

    import structlog

    from .preview import commands
    from .settings import operator_command_line, run_settings

    def parse(arguments: Sequence[str], env: Mapping[str, str]) -> commands.OperatorSettings:
        settings = run_settings(operator_command_line(env).parse_args(arguments))
        return commands.OperatorSettings(
            cluster_domain=settings.cluster_domain, releases=settings.releases, permissions=settings.permissions
        )

    # The passes log what they apply; here they apply nothing.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
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


def duration(text: str) -> float:
    """Return the seconds of a duration. Raises ValueError for a text that is none."""
    if not re.fullmatch("([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?", text) or not text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write one such as 90s, 10m or 1h")
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    return float(sum(int(count) * units[unit] for count, unit in re.findall("([0-9]{1,9})([dhms])", text)))


def _wait(options: argparse.Namespace) -> int:
    from .inspection import waiting

    return waiting.wait(
        waiting.Options(
            resource=options.resource,
            namespace=options.namespace,
            context=options.context,
            is_deletion=options.goal == "deleted",
            timeout=options.timeout,
        )
    )


def _config(options: argparse.Namespace) -> int:
    from .inspection import configuration

    return configuration.config(
        configuration.Options(
            service=options.service,
            program=options.program or "",
            namespace=options.namespace,
            context=options.context,
            as_json=options.output == "json",
        )
    )


def _logs(options: argparse.Namespace) -> int:
    from .inspection import logs

    return logs.logs(
        logs.Options(
            service=options.service,
            program=options.program or "",
            namespace=options.namespace,
            context=options.context,
            follow=options.follow,
            since=options.since,
            tail=options.tail,
        )
    )


def _draw(options: argparse.Namespace) -> int:
    from .inspection import pictures

    draw = pictures.draw_graph if options.command == "graph" else pictures.draw_timeline
    return draw(pictures.Options(namespace=options.namespace, context=options.context, format=options.output))


def _support_bundle(options: argparse.Namespace) -> int:
    from .inspection import support_bundle

    return support_bundle.support_bundle(
        support_bundle.Options(
            namespace=options.namespace,
            context=options.context,
            operator_namespace=options.operator_namespace,
            file=options.output,
        )
    )


def _shell(options: argparse.Namespace) -> int:
    from .inspection import shell

    return shell.shell(
        shell.Options(
            command=options.argv,
            namespace=options.namespace,
            context=options.context,
            keystone=options.keystone,
            is_local=options.local,
        )
    )


def _pause(options: argparse.Namespace) -> int:
    from .inspection import pausing

    if bool(options.resource) == options.all:
        options.fault("name a resource, or use --all")
    if options.resource and not options.resource.partition("/")[2]:
        options.fault(f"name one resource: {options.resource}/NAME")
    run = pausing.pause if options.command == "pause" else pausing.resume
    return run(
        pausing.Options(
            resource=options.resource,
            namespace=options.namespace,
            context=options.context,
            reason=getattr(options, "reason", None),
        )
    )
