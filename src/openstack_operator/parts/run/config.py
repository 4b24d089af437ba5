"""Configuration in three layers: our defaults, the user's options, the operator's own options."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube, oslo
from ...api import Sections, logins
from ...plan import Context, OptionsError, Step
from ..log_format import logs_json
from ..secrets.cache_certificate import cache_mounts
from ..secrets.tls import TRUST, authority, trusts
from .config_check import known_options

DIGEST_KEY = "digest-key"
"""Key in a Secret of configuration that keys the digest in pods' annotations; none of its files."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Config(Step):
    """A Secret of configuration files."""

    secret: str
    digest: str
    directory: str
    """Folder of the files in a container."""
    files: Sequence[str]
    extra_mounts: Sequence[kube.Mount] = ()
    """Further mounts of programs that read it, such as the key of a storage."""

    @property
    def mounts(self) -> list[kube.Mount]:
        """Each file at its place, among the files the image has there."""
        return [*kube.files("config", self.secret, self.directory, *self.files), *self.extra_mounts]


def options(ctx: Context[Any], fixed_options: Sections, *, defaults: Sections | None = None) -> Sections:
    """Return the merged sections, as the release knows them; `fixed_options` are those that only the operator sets.
    Raises OptionsError where the user sets one of them.
    """
    of_release = ctx.release.defaults.get((ctx.programs or ctx.kind).lower(), {})
    lost = {
        section: {name for name, value in values.items() if value is None} for section, values in of_release.items()
    }
    common = oslo.options.defaults(json_logs=logs_json(ctx))
    usual = oslo.merge(common, oslo.options.token_cache(fixed_options), defaults or {}, of_release)
    return layered(_without(usual, lost), ctx.spec.config, _without(fixed_options, lost), catalog=known_options(ctx))


def _without(sections: Sections, lost: Mapping[str, Collection[str]]) -> Sections:
    """Return the sections without options that a release lost."""
    return {
        section: {name: value for name, value in values.items() if name not in lost.get(section, ())}
        for section, values in sections.items()
    }


def layered(
    defaults: Sections,
    user: Sections,
    fixed_options: Sections,
    path: str = "spec.config",
    *,
    multiline: bool = True,
    catalog: oslo.KnownOptions | None = None,
) -> Sections:
    """Return the sections with later layers winning. Raises OptionsError if the user, in the field `path`, sets a fixed
    option, or writes a value that a file of options cannot hold; without `multiline`, as for MariaDB, each option has
    one line. The `catalog` has old names of options.
    """
    for section, values in user.items():
        if not _SECTION.fullmatch(section):
            raise OptionsError(f"{path}.{section!r}", "not a section name; remove brackets and spaces around it")
        for option, value in values.items():
            _check(f"{path}.{section}", option, value, multiline=multiline)
    if clashes := oslo.overlap(user, fixed_options, catalog):
        names = ", ".join(clashes)
        raise OptionsError(f"{path}.{clashes[0]}", f"the operator sets {names} itself; remove it from config")
    return oslo.merge(defaults, user, fixed_options)


# A line break in a name would start a section of its own, past the check for fixed options.
_SECTION = re.compile(r"[^\s\[\]]([^\x00-\x1f\x7f-\x9f\u2028\u2029\[\]]*[^\s\[\]])?")
_OPTION = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\[\]=:#;]+")
# Readers of configuration accept more than a line feed as the end of a line: the rest would be an option of its own,
# past the check for fixed options. A tab is none of them.
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def is_one_line(value: Any) -> bool:
    """Return True if a value is text, a number or a boolean that fits on one line of a configuration file."""
    return isinstance(value, (str, int, float)) and "\n" not in str(value) and not _CONTROL.search(str(value))


def _check(section: str, option: str, value: Any, *, multiline: bool) -> None:
    if not _OPTION.fullmatch(option):
        raise OptionsError(f"{section}.{option!r}", "not an option name; remove spaces, brackets, = and :")
    entries: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(entry, (str, int, float)) for entry in entries):
        raise OptionsError(f"{section}.{option}", "not a value; write text, a number, true, false or a list of these")
    if any(_CONTROL.search(str(entry)) for entry in entries):
        raise OptionsError(f"{section}.{option}", "holds a control character, such as a carriage return; remove it")
    if any(oslo.has_gap(str(entry)) for entry in entries):
        # oslo.config takes it for the end of the value, and does not read a file with an indented line behind it.
        raise OptionsError(f"{section}.{option}", "has an empty line; remove the line")
    if not multiline and not all(map(is_one_line, entries)):
        raise OptionsError(f"{section}.{option}", "has several lines; write it on one line")


def config(
    ctx: Context[Any],
    file: str,
    fixed_options: Sections,
    *,
    defaults: Sections | None = None,
    extra_files: Mapping[str, str] | None = None,
    suffix: str = "config",
    directory: str = "",
    extra_mounts: Sequence[kube.Mount] = (),
) -> Config:
    """Return Secret `<owner>-<suffix>` with `file` rendered from the three layers, and `extra_files` unchanged.

    It is a Secret since configuration holds passwords. Its pods also mount `extra_mounts`.
    """
    return written(
        ctx,
        {file: oslo.render(options(ctx, fixed_options, defaults=defaults)), **(extra_files or {})},
        suffix=suffix,
        directory=directory or f"/etc/{ctx.kind.lower()}",
        extra_mounts=extra_mounts,
    )


def written(
    ctx: Context[Any],
    data: Mapping[str, str],
    *,
    suffix: str = "config",
    directory: str,
    extra_mounts: Sequence[kube.Mount] = (),
    whole: bool = False,
) -> Config:
    """Return Secret `<owner>-<suffix>` with files unchanged. A pod that mounts all of the Secret needs it `whole`: with
    only the files. Its pods also mount `extra_mounts`.
    """
    name = kube.fitting(ctx.name(suffix))
    stored = kube.secret_data(ctx.children.get(("Secret", name)) or ctx.deleted_secrets.get(name))
    # The digest is in annotations of pods, which more people may read than Secrets: a password that a user chose could
    # be guessed with it.
    key = {} if whole else {DIGEST_KEY: stored.get(DIGEST_KEY) or ctx.draw()}
    secret = kube.secret(ctx, name, {**data, **key})
    trusted = trusts(ctx)
    variables = ctx.secrets.get(ref.name, {}) if (ref := getattr(ctx.spec, "env_secret_ref", None)) else {}
    return Config(
        name="Config",
        objects=(secret if whole else kube.remembered(secret),),
        secret=name,
        # Programs read the authorities they trust, and their environment, when they start.
        digest=kube.keyed_digest(key.get(DIGEST_KEY, ""), {**data, **trusted, **_prefixed(variables)}),
        directory=directory,
        files=tuple(data),
        extra_mounts=(*extra_mounts, *_trusted(ctx, trusted), *cache_mounts(ctx, data.values())),
    )


def _prefixed(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by names that no file has."""
    return {f"env/{name}": value for name, value in variables.items()}


def _trusted(ctx: Context[Any], secrets: Iterable[str]) -> Iterator[kube.Mount]:
    """Yield authorities as folders, without any other key of a user's Secret."""
    users = {ref.name for _, ref in logins(ctx.spec)}
    for name in secrets:
        volume = kube.fitting(f"trust-{name.replace('.', '-')}")
        files = {"ca.crt": authority(ctx.secrets[name])} if name in users else None
        yield kube.folder(volume, name, f"{TRUST}/{name}", files=files)
