"""`config`: the options that the programs of a service read, and where each comes from, without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from ...kube import INSTANCE, KIND
from ...kube.masking import MASK, Mask, decode_content, is_secret_option, parse_options, secret_values
from ...kube.quotes import mask_passwords
from ...oslo import render
from ...plan import Object
from ...release_files import ReleaseFiles, packaged
from ...runtime.kubernetes.client import Client
from ...runtime.kubernetes.kinds import SECRET
from .logs import matching_pods
from .secret_options import SecretOptions
from .selection import ServiceOptions, chosen, kinds_of, labels_of
from .session import run
from .snapshot import OURS, check_complete, list_objects, read
from .state import printed, subject

_OPERATOR = "operator"
_URLS = ("connection", "transport_url")
"""Options of which all but the password may be shown."""
_PATH = re.compile(r"/[\w./-]+")


@dataclass(frozen=True, kw_only=True)
class Options(ServiceOptions):
    """Options of the command line. The program is one whose pods read the files."""

    as_json: bool = False


class Option(NamedTuple):
    """An option of a configuration file."""

    secret: str
    file: str
    section: str
    name: str
    value: str
    """Masked."""
    source: str
    """`operator`, or the resource and the path of its spec in which the user set it."""


class _Masking(NamedTuple):
    """A mask over the values of options."""

    mask: Mask
    judge: SecretOptions

    def over(self, section: str, name: str, value: str) -> str:
        """Return the value of an option without what is secret in it."""
        if not self.judge.is_secret(section, name):
            # The mask knows what is secret by its name: also the roles in `service_token_roles`.
            return mask_passwords(value) if is_secret_option(name) else self.mask.over(value)
        if value.lower() in ("true", "false", ""):
            return self.mask.over(value)
        is_url = name.lower().endswith(_URLS) and "://" in value
        is_path = name.lower().endswith("file") and _PATH.fullmatch(value)
        return self.mask.over(value) if is_url or is_path else MASK


def config(options: Options) -> int:
    """Print the configuration. Returns 0, or 2 if there is no such service or program."""
    return run(options.context, lambda client: _config(client, options))


async def _config(client: Client, options: Options) -> int:
    snapshot = await read(client, options.namespace, kinds_of(options.service), with_workloads=False)
    refusals = [*snapshot.unreadable]
    secrets = await list_objects(client, SECRET, options.namespace, {"labelSelector": OURS}, refusals)
    check_complete(refusals)
    resources = chosen(snapshot, options.service, whole=True)
    names = None
    if options.program:
        names = _mounted(matching_pods(snapshot, options.service, options.program))
        if not names:
            raise LookupError(f"{options.service} has no pods of a program {options.program!r} with configuration")
    listed, unreadable = effective(resources, secrets, names)
    if options.as_json:
        print(json.dumps([each._asdict() for each in listed], indent=2))
    else:
        print("\n".join([*_lines(listed), *(f"# not shown: {each}" for each in unreadable)]))
    return 0


def effective(
    resources: Sequence[Object], secrets: Sequence[Object], names: frozenset[str] | None = None
) -> tuple[list[Option], list[str]]:
    """Return the options in the configuration of resources, from all Secrets of the operator in the namespace; with
    `names` only those of these Secrets. The second list names the files of another form than sections of options.
    """
    mask = Mask(text for each in secrets for text in secret_values(each))
    lists = ReleaseFiles(packaged()).all_options()
    options: list[Option] = []
    unreadable: list[str] = []
    for live in resources:
        judge = SecretOptions(lists, live["kind"])
        for secret in secrets:
            labels, name = secret["metadata"].get("labels") or {}, secret["metadata"]["name"]
            if (labels.get(KIND), labels.get(INSTANCE)) != labels_of(live) or (names is not None and name not in names):
                continue
            contents = {file: decode_content(text) for file, text in (secret.get("data") or {}).items()}
            files = {file: content for file, content in contents.items() if isinstance(content, Mapping)}
            unreadable += [f"Secret/{name}, {file}" for file in contents if files and file not in files and "." in file]
            for file, sections in files.items():
                options += _options(live, name, file, cast("Any", sections), _Masking(mask, judge))
    return options, unreadable


def _options(
    live: Object, secret: str, file: str, sections: Mapping[str, Object], masking: _Masking
) -> Iterator[Option]:
    set_by_user = list(_settings(live.get("spec") or {}, "spec"))
    for section, values in sections.items():
        for name, value in values.items():
            paths = (path for path, settings in set_by_user if settings.get(section[1:-1], {}).get(name) == value)
            path = next(paths, "")
            source = f"user: {subject(live)}, {path}" if path else _OPERATOR
            for each in value if isinstance(value, list) else [value]:
                value_shown = masking.over(section[1:-1], name, each)
                yield Option(secret, file, section[1:-1], name, value_shown, source)


def _settings(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Mapping[str, Any]]]]:
    """Yield the options that a spec sets, by their sections, with the path of each `config` in it."""
    if isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            yield from _settings(each, f"{path}[{index}]")
    elif isinstance(value, Mapping):
        for name, each in cast("Object", value).items():
            if name == "config" and isinstance(each, Mapping):
                sections = {name: options for name, options in each.items() if isinstance(options, Mapping)}
                # As they are in a file.
                yield f"{path}.config", parse_options(render(sections))
            else:
                yield from _settings(each, f"{path}.{name}")


def _mounted(pods: Iterable[Object]) -> frozenset[str]:
    """Return the names of the Secrets that pods mount."""
    names: set[str] = set()
    for pod in pods:
        for volume in (pod.get("spec") or {}).get("volumes") or ():
            sources = [volume, *(volume.get("projected") or {}).get("sources", ())]
            secrets = [each["secret"] for each in sources if "secret" in each]
            names |= {each.get("secretName") or each.get("name", "") for each in secrets}
    return frozenset(names)


def _lines(options: Sequence[Option]) -> Iterator[str]:
    file = section = None
    for each in options:
        if (each.secret, each.file) != file:
            if file:
                yield ""
            file, section = (each.secret, each.file), None
            yield printed(f"# Secret/{each.secret}, {each.file}")
        if each.section != section:
            section = each.section
            yield printed(f"[{section}]")
        yield printed(f"{f'{each.name} = {each.value}':<60}  # {each.source}")
