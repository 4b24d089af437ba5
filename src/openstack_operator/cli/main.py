"""The command line: run the operator, or see on paper what it would do."""

# Each command imports what it needs: `version` answers in 50 ms, and `render` loads no HTTP client.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from . import terminal
from .cluster_commands import run
from .command_line import command_line
from .settings import logs, permissions, run_settings

if TYPE_CHECKING:
    from .offline import commands as offline

_ALLOCATIONS = 100_000
"""Objects that a command allocates between two garbage collections."""
_SERVERS = frozenset({"run", "inject-labels", "certify-injector"})
"""Commands that run until they are stopped."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status; 1 for input that the operator would refuse."""
    return terminal.run(partial(_main, arguments))


def _main(arguments: Sequence[str] | None) -> int:  # noqa: PLR0911, PLR0912  (a table of commands)
    parser = command_line()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as error:
        # Of `plan`, 2 says that something would change.
        words = [word for word in (sys.argv[1:] if arguments is None else arguments) if word != "--no-color"]
        is_plan = words[:1] == ["plan"]
        raise SystemExit(1 if is_plan and error.code == 2 else error.code) from None
    if options.no_color:
        terminal.forbid_colors()
    releases = getattr(options, "releases", None)
    if releases and not Path(releases).is_dir():
        # Without it, the packaged releases would be used unnoticed.
        parser.error(f"argument --releases (RELEASES): there is no folder {str(releases)!r}")
    if options.command not in _SERVERS:
        # Garbage collection takes a tenth of the time of such a command, and its imports leave no garbage.
        gc.set_threshold(_ALLOCATIONS)
        # No model needs a plug-in of pydantic. To look for some, it reads the metadata of each installed package.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if hasattr(options, "execute"):
        return run(options)
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
        case "inject-labels":
            return _inject_labels(options)
        case "certify-injector":
            return _certify_injector(options)
        case "completion":
            return _completion(options.shell)
        case _:
            print(__version__)
            return 0


def _run(options: argparse.Namespace) -> int:
    from ..serve import serve

    return serve(run_settings(options))


def _inject_labels(options: argparse.Namespace) -> int:
    from ..injector.serve import inject, serve

    program = partial(inject, certificate=options.certificate, port=options.port, health_port=options.health_port)
    return serve(program, **logs(options))


def _certify_injector(options: argparse.Namespace) -> int:
    from ..injector.certificate import keep
    from ..injector.serve import serve

    return serve(keep, **logs(options))


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
        permissions=permissions(options),
        strict=options.strict,
        as_json=getattr(options, "output", "text") == "json",
    )


def _generate(options: argparse.Namespace) -> int:
    from ..generate import generated, stale, write

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
    from ..registry import RESOURCES
    from .explain import explained

    try:
        print(explained(RESOURCES, options.path))
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 1
    return 0


def _completion(shell: str) -> int:
    try:
        import shtab
    except ImportError:
        print("openstack-operator: completion needs the extra `cli`: docs/reference/cli.md", file=sys.stderr)
        return 1
    print(shtab.complete(command_line(), shell))
    return 0
