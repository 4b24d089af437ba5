"""The files of a kubeconfig: their fields, and how several of them become one."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import yaml

from .errors import KubeconfigError

Text = str | None
EntryT = TypeVar("EntryT", "Cluster", "User", "Context")


class Extension(msgspec.Struct):
    """Data of another program."""

    name: str = ""
    extension: Any = None


class Cluster(msgspec.Struct, rename="kebab"):
    """An API server."""

    server: Text = None
    tls_server_name: Text = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: Text = None
    certificate_authority_data: Text = None
    proxy_url: Text = None
    disable_compression: bool | None = None
    extensions: list[Extension] | None = None


class Variable(msgspec.Struct):
    """A variable in the environment of a program."""

    name: Text = None
    value: Text = None


class Exec(msgspec.Struct, rename="camel"):
    """A program that prints credentials."""

    command: Text = None
    args: list[str] | None = None
    env: list[Variable] | None = None
    api_version: Text = None
    install_hint: Text = None
    provide_cluster_info: bool | None = None
    interactive_mode: Text = None


class AuthProvider(msgspec.Struct):
    """A way to log in that kubectl itself has."""

    name: Text = None


class User(msgspec.Struct, rename="kebab"):
    """A login, and the user to act as afterwards."""

    client_certificate: Text = None
    client_certificate_data: Text = None
    client_key: Text = None
    client_key_data: Text = None
    token: Text = None
    token_file: Text = msgspec.field(name="tokenFile", default=None)
    impersonate: Text = msgspec.field(name="as", default=None)
    as_uid: Text = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str] | None] | None = None
    username: Text = None
    password: Text = None
    auth_provider: AuthProvider | None = None
    exec: Exec | None = None


class Context(msgspec.Struct, rename="kebab"):
    """A cluster, a user and a namespace."""

    cluster: Text = None
    user: Text = None
    namespace: Text = None


class _NamedCluster(msgspec.Struct):
    name: str = ""
    cluster: Cluster | None = None


class _NamedUser(msgspec.Struct):
    name: str = ""
    user: User | None = None


class _NamedContext(msgspec.Struct):
    name: str = ""
    context: Context | None = None


class _File(msgspec.Struct, rename="kebab"):
    kind: Text = None
    api_version: Text = msgspec.field(name="apiVersion", default=None)
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: Text = None


class Kubeconfig(msgspec.Struct):
    """All files together."""

    clusters: dict[str, Cluster]
    users: dict[str, User]
    contexts: dict[str, Context]
    current_context: str = ""


_FASTEST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_FASTEST):
    """Reads a date as the text it is, as kubectl does."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for letter, resolvers in cast("Any", yaml.SafeLoader).yaml_implicit_resolvers.items()
}


def paths() -> list[Path]:
    """Return the files to read: those of $KUBECONFIG, or ~/.kube/config if it is not set."""
    if listed := os.environ.get("KUBECONFIG"):
        return [Path(name) for name in dict.fromkeys(listed.split(os.pathsep)) if name]
    return [Path(os.environ.get("HOME") or "~").expanduser() / ".kube" / "config"]


def load(files: Sequence[Path]) -> Kubeconfig:
    """Return the contents of all files that exist; the first file that has a name wins. Raises KubeconfigError."""
    merged = Kubeconfig({}, {}, {})
    for path in files:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise KubeconfigError(f"kubeconfig {path}: cannot be read: {error.strerror or error}") from None
        file = _parse(path, content)
        clusters = [(each.name, each.cluster or Cluster()) for each in file.clusters or ()]
        users = [(each.name, each.user or User()) for each in file.users or ()]
        contexts = [(each.name, each.context or Context()) for each in file.contexts or ()]
        _resolve(path.absolute().parent, [each for _, each in clusters], [each for _, each in users])
        _add(path, "clusters", merged.clusters, clusters)
        _add(path, "users", merged.users, users)
        _add(path, "contexts", merged.contexts, contexts)
        merged.current_context = merged.current_context or file.current_context or ""
    return merged


def _resolve(folder: Path, clusters: Sequence[Cluster], users: Sequence[User]) -> None:
    """Make paths absolute, which are relative to their file."""
    for cluster in clusters:
        cluster.certificate_authority = _absolute(folder, cluster.certificate_authority)
    for user in users:
        user.client_certificate = _absolute(folder, user.client_certificate)
        user.client_key = _absolute(folder, user.client_key)
        user.token_file = _absolute(folder, user.token_file)
        if user.exec and os.sep in (user.exec.command or ""):
            # A name without a slash is looked up in PATH.
            user.exec.command = _absolute(folder, user.exec.command)


def _absolute(folder: Path, path: str | None) -> str | None:
    return str(folder / path) if path else path


def _add(path: Path, field: str, into: dict[str, EntryT], entries: Sequence[tuple[str, EntryT]]) -> None:
    """Add the entries of a file that no earlier file has. Raises KubeconfigError for two of one name."""
    names = [name for name, _ in entries]
    for name, entry in entries:
        if names.count(name) > 1:
            raise KubeconfigError(f"kubeconfig {path}: {field}: {name!r} occurs twice; remove one")
        into.setdefault(name, entry)


def _parse(path: Path, content: bytes) -> _File:
    """Return the fields of a file. Raises KubeconfigError, with the field that has a wrong type."""
    try:
        text = content.decode("utf-8-sig")
        # JSON may be indented by tabs, which YAML refuses.
        value = _json(text) if text.lstrip().startswith("{") else yaml.load(text, _Loader)  # noqa: S506  (a safe one)
        file = msgspec.convert(value or {}, _File)
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        problem = getattr(error, "problem", None) or "is not YAML"
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise KubeconfigError(f"kubeconfig {path}{line}: {problem}") from None
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"kubeconfig {path}: {error}") from None
    if (file.api_version or "v1", file.kind or "Config") != ("v1", "Config"):
        raise KubeconfigError(f"kubeconfig {path}: is {file.kind} of {file.api_version}, not Config of v1")
    return file


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return yaml.load(text, _Loader)  # noqa: S506  (a safe one)


def decoded(text: str | None, field: str) -> bytes:
    """Return data of a kubeconfig; empty for none. Raises KubeconfigError."""
    try:
        return base64.b64decode("".join((text or "").split()), validate=True)
    except binascii.Error:
        raise KubeconfigError(f"kubeconfig: {field} is not base64") from None
