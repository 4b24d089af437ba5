"""Ceph as a service uses it: cluster, client and pool."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ... import kube
from ...api import CEPH, CEPH_BESIDE, CephSource
from ...api.refs import find_by_type
from ...plan import Context, IgnoredFields, Incomplete, MissingReference, Plan, Step
from ..run.config import Config
from ..secrets.one_line import one_line

Use = Literal["volumes", "images", "vms", "backups"]
"""Kinds of data that services keep in Ceph; each is also the default name of its pool."""

DIRECTORY = "/etc/ceph"


@dataclass(frozen=True, kw_only=True, eq=False)
class Ceph(Step):
    """One client of a Ceph cluster, ready when the cluster is."""

    monitors: Sequence[str]
    """Address of each monitor, as `mon host` has them."""
    fsid: str
    user: str
    """`client.<id>`"""
    pool: str
    secret: str
    """Secret with `ceph.conf`, `keyring` and, for libvirt, `key` alone."""
    digest: str
    """Digest of all three: a rotated key gives another digest."""
    key: str
    folder: str = DIRECTORY
    """Folder of ceph.conf in a container."""

    @property
    def id(self) -> str:
        """The user without `client.`, as rbd_user and rbd_store_user want it."""
        return self.user.partition(".")[2]

    @property
    def conf(self) -> str:
        """Path of ceph.conf in a container that has the mounts."""
        return f"{self.folder}/ceph.conf"

    @property
    def secret_uuid(self) -> str:
        """UUID of this user's key in libvirt: the same for all services, since Cinder sends it to Nova."""
        return name_uuid(self.fsid, self.user)

    @property
    def mounts(self) -> list[kube.Mount]:
        """ceph.conf, and the keyring where Ceph's programs look for it."""
        keyring = f"{DIRECTORY}/ceph.{self.user}.keyring"
        conf, key = kube.files(self.secret, self.secret, self.folder, "ceph.conf", "keyring")
        return [conf, replace(key, path=keyring)]


def ceph_client(
    ctx: Context[Any],
    use: Use,
    source: CephSource,
    *,
    path: str,
    name: str = "ceph",
    folder: str = "",
) -> Ceph:
    """Return the client that `source`, the field `path` of the spec, describes; its condition is CephConnected. If the
    source names a Secret of the user's, the step is a Secret `<owner>-<name>` made from it.

    Raises MissingReference for a Secret that lacks something, Incomplete for a pool the CephStorage does not keep.
    """
    folder = folder or DIRECTORY
    if source.storage is None:
        return _of_secret(ctx, use, source, path=path, name=name, folder=folder)
    at = ctx.refs[source.storage]
    try:
        user, pool, secret = (at[f"{use}{field}"] for field in ("User", "Pool", "Secret"))
        client_files = ctx.secrets[secret]
    except KeyError:
        message = f"CephStorage {source.storage.name!r} has no client for {use}; add it to its pools"
        raise MissingReference(f"{path}.cephStorageRef", message) from None
    if source.pool not in (None, pool):
        message = f"CephStorage {source.storage.name!r} keeps {use} in {pool!r}; set that pool, or remove the field"
        raise Incomplete(f"{path}.pool", message)
    return Ceph(
        name="CephConnected",
        verdict=at.verdict,
        monitors=monitors(at["monitors"]),
        fsid=at["fsid"],
        user=user,
        pool=pool,
        secret=secret,
        digest=kube.digest(dict(client_files)),
        key=client_files["key"],
        folder=folder,
    )


def _of_secret(ctx: Context[Any], use: Use, source: CephSource, *, path: str, name: str, folder: str) -> Ceph:
    assert source.ceph_secret_ref is not None
    source_secret = source.ceph_secret_ref.name
    field = f"{path}.cephSecretRef"
    source_data = ctx.secrets.get(source_secret, {})
    cluster_data = source_data if source_data.keys() & _OF_CLUSTER else {**source_data, **_cluster_beside(ctx)}
    conf, fsid, monitors = coordinates(cluster_data, source_secret, field)
    client = source.ceph_client_ref.name if source.ceph_client_ref else ""
    user, key = login(source_data, source_secret, field, client)
    data = {"ceph.conf": conf, "keyring": keyring(user, key), "key": key}
    client_secret = kube.secret(ctx, ctx.name(name), data)
    return Ceph(
        name="CephConnected",
        objects=(client_secret,),
        monitors=monitors,
        fsid=fsid,
        user=user,
        pool=source.pool or use,
        secret=client_secret["metadata"]["name"],
        digest=kube.digest(data),
        key=key,
        folder=folder,
    )


def _cluster_beside(ctx: Context[Any]) -> dict[str, str]:
    """Return `ceph.conf` of the clients of the CephStorage in this namespace; empty without one that publishes any."""
    published = ctx.refs[CEPH_BESIDE].published if CEPH_BESIDE in ctx.refs else {}
    secrets = (ctx.secrets.get(name, {}) for key, name in published.items() if key.endswith("Secret"))
    return next(({"ceph.conf": data["ceph.conf"]} for data in secrets if "ceph.conf" in data), {})


_OF_CLUSTER = frozenset({"ceph.conf", "mon_host", "fsid"})
"""Keys of a user's Secret that say where the cluster is."""


def on_ceph(conf: Config, *clients: Ceph) -> Config:
    """Return the configuration as a step of its own for pods that log in to Ceph: they mount its files, and are
    replaced for a new key. The step that starts them must come after the clients.
    """
    mounts = [mount for client in clients for mount in client.mounts]
    return replace(
        conf,
        objects=(),
        after=(conf, *clients),
        digest=kube.digest([conf.digest, *(client.digest for client in clients)]),
        extra_mounts=(*conf.extra_mounts, *{mount.path: mount for mount in mounts}.values()),
    )


def keyring(user: str, key: str, caps: Mapping[str, str] | None = None) -> str:
    """Return a keyring as Ceph reads it."""
    lines = [f"[{user}]", f"\tkey = {key}", *(f'\tcaps {daemon} = "{cap}"' for daemon, cap in (caps or {}).items())]
    return "\n".join([*lines, ""])


def coordinates(data: Mapping[str, str], secret: str, field: str) -> tuple[str, str, tuple[str, ...]]:
    """Return ceph.conf, fsid and monitors of a user's Secret: of its `ceph.conf`, or of `mon_host` and `fsid`, as Rook
    keeps them. Raises MissingReference.
    """
    text = data["ceph.conf"] if "ceph.conf" in data else _conf(data, secret, field)
    # The operator decides where the key is in a container.
    lines = [line for line in text.splitlines() if _option(line)[0] != "keyring"]
    options = dict(map(_option, lines))
    for option, example in (("fsid", "fsid = <what `ceph fsid` says>"), ("mon_host", "mon host = 192.0.2.10:6789")):
        if not options.get(option):
            message = (
                f"ceph.conf of Secret {secret!r} lacks {option.replace('_', ' ')!r}; add a line such as {example!r}"
            )
            raise MissingReference(field, message)
    return "\n".join([*lines, ""]), options["fsid"].lower(), monitors(options["mon_host"])


def login(data: Mapping[str, str], secret: str, field: str, client: str = "") -> tuple[str, str]:
    """Return user and key of a user's Secret: from its keyring, which must hold one client, or from where Rook keeps
    them, under `userID` and `userKey` or under the name of its CephClient (`client`). Raises MissingReference, and
    Incomplete for a value of several lines.
    """
    if "keyring" not in data:
        return _of_rook(data, secret, field, client)
    users = logins(data["keyring"])
    if len(users) != 1:
        message = f"keyring of Secret {secret!r} holds {len(users)} clients with a key; it must be one [client.…]"
        raise MissingReference(field, message)
    return users[0]


def logins(ring: str) -> list[tuple[str, str]]:
    """Return user and key of each client in a keyring, as `ceph auth get` and `ceph-authtool` write it."""
    keys = dict[str, str]()
    user = ""
    for line in map(str.strip, ring.splitlines()):
        if line.startswith("["):
            user = line[1:-1] if line.startswith("[client.") and line.endswith("]") else ""
        name, _, value = line.partition("=")
        if user and name.rstrip() == "key" and _KEY.fullmatch(key := value.strip()):
            keys.setdefault(user, key)
    return list(keys.items())


_KEY = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_MONITOR = re.compile(r"\[[^\[\]]*\]|[^\s,;\[\]]+")


def monitors(text: str) -> tuple[str, ...]:
    """Return the monitors of `mon host`: addresses, or both addresses of one in brackets."""
    return tuple(_MONITOR.findall(text))


def _option(line: str) -> tuple[str, str]:
    """Return name and value of a line of ceph.conf. To Ceph, spaces, dashes and underscores in names are the same."""
    name, _, value = line.partition("=")
    return re.sub(r"[\s_-]+", "_", name.strip().lower()), re.split(r"\s[#;]", value.strip())[0].strip()


def _conf(data: Mapping[str, str], secret: str, field: str) -> str:
    if missing := [key for key in ("mon_host", "fsid") if not data.get(key)]:
        hint = f"which Rook has in its Secrets rook-ceph-config and rook-ceph-mon; or create CephStorage {CEPH.name!r}"
        message = f"Secret {secret!r} has no key 'ceph.conf', nor {missing[0]!r}; add 'mon_host' and 'fsid', {hint}"
        raise MissingReference(field, message)
    return f"[global]\nfsid = {data['fsid'].strip()}\nmon host = {data['mon_host'].strip()}\n"


def _of_rook(data: Mapping[str, str], secret: str, field: str, client: str) -> tuple[str, str]:
    keys = {data["userID"]: data["userKey"]} if {"userID", "userKey"} <= data.keys() else data
    user = client or data.get("userID", "")
    if user not in keys:
        hint = f"nor the key of CephClient {client!r}" if client else "nor 'userID' and 'userKey'"
        raise MissingReference(field, f"Secret {secret!r} has no key 'keyring', {hint}")
    name = one_line(user, field, secret, "userID")
    return f"client.{name}", one_line(keys[user].strip(), field, secret, user if keys is data else "userKey")


def name_uuid(*words: str) -> str:
    """Return a UUID derived from the words (RFC 9562, version 8)."""
    digits = hashlib.sha256("/".join(words).encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def ignored_clients(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return the fields of a CephClient that no source of data uses: its Secret has all that is read."""
    advice: dict[str, str] = {}
    for path, source in find_by_type(ctx.spec, CephSource):
        place = path.removeprefix("spec.").replace("[", ".").replace("]", "")
        field = f"{place}.cephClientRef"
        if source.storage:
            advice[field] = "the CephStorage sets the client; remove it"
        advice[f"{field}.namespace"] = "the operator reads only the Secret in this namespace; remove it"
    return advice
