"""The part of the command line about backups."""

# Each command imports what it needs, as in main.py.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
from typing import Any

from .cluster_commands import cluster_options, duration, namespace, object_name


def add_backup(commands: Any) -> None:
    """Add the commands to the command line. The options of each have `execute`, which runs it."""
    backup = commands.add_parser("backup", help="list, take, verify and restore backups of a cloud")
    actions = backup.add_subparsers(dest="action", required=True, metavar="ACTION")

    listing = actions.add_parser("list", help="show schedules, how far their archives reach, and backups")
    cluster_options(listing)
    listing.set_defaults(execute=_list)

    run = actions.add_parser("run", help="take a backup now")
    run.add_argument(
        "name", nargs="?", type=object_name, metavar="NAME", help="name of the OpenStackBackup (default: of the time)"
    )
    sources = run.add_mutually_exclusive_group()
    sources.add_argument(
        "--schedule", type=object_name, metavar="SCHEDULE", help="schedule whose repository and include to use"
    )
    _repository_options(sources)
    run.add_argument("--verify", action="store_true", help="restore the backup as a test once it is complete")
    _create_options(run)
    run.set_defaults(execute=_run)

    verify = actions.add_parser("verify", help="restore a backup as a test, in a pod beside the cloud")
    verify.add_argument("name", type=object_name, metavar="BACKUP", help="name of an OpenStackBackup")
    cluster_options(verify)
    _wait_options(verify)
    verify.set_defaults(execute=_verify)

    _add_restore(actions)


def _add_restore(actions: Any) -> None:
    restore = actions.add_parser(
        "restore",
        help="make the cloud of a backup again, in a namespace without a cloud; or single schemas of one that runs",
    )
    restore.add_argument(
        "name", nargs="?", type=object_name, metavar="NAME", help="name of the OpenStackRestore (default: of the time)"
    )
    restore.add_argument(
        "--backup", type=object_name, metavar="BACKUP", help="backup to restore (default: the newest before --time)"
    )
    restore.add_argument(
        "--time", metavar="TIME", help="second in UTC up to which to restore, such as 2026-11-30T08:15:00Z"
    )
    restore.add_argument(
        "--cloud",
        type=namespace,
        metavar="NAMESPACE",
        help="namespace that the cloud had, where --repository-of is looked for, too (default: that of -n)",
    )
    restore.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="SCHEMA",
        help="restore this schema of a MariaDB, such as keystone, into the cloud of the namespace; can be repeated",
    )
    restore.add_argument(
        "--database", type=object_name, metavar="MARIADB", help="MariaDB with the schemas, if the backup has several"
    )
    restore.add_argument(
        "--confirm", type=namespace, metavar="NAMESPACE", help="with --only: confirm that the cloud there is changed"
    )
    _repository_options(restore.add_mutually_exclusive_group())
    _create_options(restore)
    restore.set_defaults(execute=_restore)


def _repository_options(parser: Any) -> None:
    parser.add_argument(
        "--repository-of",
        metavar="SCHEDULE|BACKUP",
        help="schedule or backup whose repository to use (default: that of all schedules)",
    )
    parser.add_argument(
        "-f", "--file", metavar="FILE", help="manifest with the repository, of a schedule, a backup or a restore"
    )


def _create_options(parser: argparse.ArgumentParser) -> None:
    cluster_options(parser)
    _wait_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the manifest, and create nothing")


def _wait_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="wait for the end, and print each condition that changes")
    parser.add_argument(
        "--timeout", type=duration, default="1d", metavar="DURATION", help="with --wait, such as 90m or 6h (1d)"
    )


def _shared(options: argparse.Namespace) -> dict[str, Any]:
    """Return what all but `list` have."""
    return {name: getattr(options, name) for name in ("name", "namespace", "context", "wait", "timeout")}


def _list(options: argparse.Namespace) -> int:
    from .backups import listing

    return listing.show_backups(listing.Options(namespace=options.namespace, context=options.context))


def _run(options: argparse.Namespace) -> int:
    from .backups import commands

    schedule = f"openstackbackupschedule/{options.schedule}" if options.schedule else options.repository_of
    return commands.run_backup(
        commands.NewBackup(
            **_shared(options),
            repository_of=schedule,
            file=options.file,
            verify=options.verify,
            dry_run=options.dry_run,
        )
    )


def _verify(options: argparse.Namespace) -> int:
    from .backups import commands

    return commands.verify_backup(commands.Options(**_shared(options)))


def _restore(options: argparse.Namespace) -> int:
    from .backups import restoring

    return restoring.restore_cloud(
        restoring.NewRestore(
            **_shared(options),
            backup=options.backup,
            time=options.time,
            cloud=options.cloud,
            only=tuple(options.only),
            database=options.database,
            confirm=options.confirm,
            repository_of=options.repository_of,
            file=options.file,
            dry_run=options.dry_run,
        )
    )
