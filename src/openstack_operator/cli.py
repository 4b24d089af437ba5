"""The command line: run the operator, or see on paper what it would do."""

# Each command imports what it needs: `version` answers in 50 ms, and `render` loads no HTTP client.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__
from .command_line import PERMISSIONS, command_line

if TYPE_CHECKING:
    from .offline import commands as offline
    from .plan import Permissions
    from .serve import Settings


def main(arguments: Sequence[str] | None = None) -> int:  # noqa: PLR0911  (a table of commands)
    """Runs one command and returns the exit status; 1 for input the operator would refuse."""
    parser = command_line()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as error:
        # Of `plan`, 2 says that something would change.
        is_plan = list(sys.argv[1:] if arguments is None else arguments)[:1] == ["plan"]
        raise SystemExit(1 if is_plan and error.code == 2 else error.code) from None
    releases = getattr(options, "releases", None)
    if releases and not Path(releases).is_dir():
        # Without it, the packaged releases would be used unnoticed.
        parser.error(f"argument --releases (RELEASES): there is no folder {str(releases)!r}")
    if execute := getattr(options, "execute", None):
        return execute(options)
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
        case "plan":
            return _plan(options)
        case "inject-labels":
            return _inject_labels(options)
        case "certify-injector":
            return _certify_injector(options)
        case _:
            print(__version__)
            return 0


def _run(options: argparse.Namespace) -> int:
    from .serve import serve

    return serve(run_settings(options))


def _permissions(options: argparse.Namespace) -> Permissions:
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


def _plan(options: argparse.Namespace) -> int:
    import logging

    import structlog

    from .preview import commands

    def parse(arguments: Sequence[str], env: Mapping[str, str]) -> commands.OperatorSettings:
        settings = run_settings(command_line(env).parse_args(arguments))
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
