"""Databases of a backup: the member that each is read from, and the volume it is restored into."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube
from ...agents.mariadb.role import PRIMARY, READER
from ...api import PodSettings
from ...parts.connect.remote import MARIADB
from ...plan import Context, Object
from . import delegated
from .delegated import DelegatedDatabase
from .pods import DATA_FOLDER, Image, Run

_ROLE = "openstack.k8s.io/role"
_ACCOUNT = "backupSecret"
"""Name in a database's contract: the Secret with the login of the account that reads it."""
_TEMPLATE = "data"
"""Name of the claim template of members, and folder of their volumes."""
_FOLDER = "mysql"


@dataclass(frozen=True, kw_only=True)
class Database:
    """A MariaDB that is backed up."""

    name: str
    pod: str
    """The member to read from."""
    host: str
    image: Image
    account_secret: str
    """Secret with the login of the account that reads it."""
    trust_secret: str
    """Secret with the authority of its certificate; empty without TLS."""
    claim: Object
    """Volume claim of the first member, as another cluster can take it."""
    primary_host: str = ""
    """Name by which clients reach the primary."""
    members: Sequence[str] = ()
    """Names of the members, if there are several."""

    def login(self, ctx: Context[Any], host: str = "") -> dict[str, Any]:
        """Return the parameters by which a program logs in, at the primary unless another host is named."""
        return {
            "cloud": ctx.namespace,
            "database": self.name,
            "host": host or self.primary_host,
            "port": 3306,
            "user": READER,
            "tls": bool(self.trust_secret),
        }

    def login_mounts(self) -> list[kube.Mount]:
        """Return the mounts of a program that logs in."""
        return [kube.folder("credentials", self.account_secret, "/etc/backup/credentials"), *self.trust_mounts()]

    def trust_mounts(self) -> list[kube.Mount]:
        """Return the mount of the authority of its certificate, if it has one."""
        return [kube.folder("trust", self.trust_secret, "/etc/backup/trust")] if self.trust_secret else []

    def door(self, ctx: Context[Any]) -> Object:
        """Return the NetworkPolicy by which it accepts the pods of this resource, if it is closed."""
        pods = {"podSelector": {"matchLabels": kube.pods_of(ctx.kind, ctx.owner)}}
        rule = {"from": [pods], "ports": [{"port": 3306, "protocol": "TCP"}]}
        return kube.network_policy(ctx, ctx.name("uses", self.name), kube.pods_of("MariaDB", self.name), [rule])

    def run(self, ctx: Context[Any], stored: Mapping[str, Any]) -> Run:
        """Return the run that backs it up; it needs nothing of the record."""
        del stored
        parameters = {**self.login(ctx, self.host), "backup": ctx.owner, "datadir": DATA_FOLDER}
        claim = {"persistentVolumeClaim": {"claimName": f"{_TEMPLATE}-{self.pod}", "readOnly": True}}
        return Run(
            component=f"database-{self.name}",
            program="database",
            parameters=parameters,
            image=self.image,
            mounts=(
                kube.Mount(name=_TEMPLATE, path=DATA_FOLDER, volume=claim, sub_path=_FOLDER, read_only=True),
                *self.login_mounts(),
            ),
            beside={"statefulset.kubernetes.io/pod-name": self.pod},
        )

    def entry(self) -> dict[str, Any]:
        """Return its entry in a manifest, without results."""
        return {"name": self.name, "claim": self.claim, "image": self.image.dump()}

    def dump(self) -> dict[str, Any]:
        """Return JSON for `load`."""
        return {**vars(self), "image": self.image.dump()}

    @classmethod
    def load(cls, values: Mapping[str, Any]) -> Database:
        """Return what `dump` returned. Raises KeyError or TypeError for other values."""
        fields: dict[str, Any] = {**values, "image": Image.load(values["image"])}
        return cls(**fields)


def restore_run(
    entry: Mapping[str, Any],
    image: Image,
    settings: PodSettings,
    archive: Mapping[str, str],
    restore: str,
    compared: Mapping[str, Sequence[Any]],
) -> Run:
    """Return the run that fills the volume of a database from its entry in a manifest, and with `archive` from the
    changes since. `restore` is the uid of the restore: a later run of it changes nothing. The run compares rows with
    the data in snapshots of `images`, in `pools` and in northbound databases (`networks`).
    """
    name = entry["name"]
    claim = {"persistentVolumeClaim": {"claimName": entry["claim"]["metadata"]["name"]}}
    return Run(
        component=f"restore-{name}",
        program="replay" if archive else "restore",
        parameters={
            **archive,
            "restore": restore,
            "database": name,
            "snapshot": entry["snapshot"],
            "datadir": DATA_FOLDER,
            "server": entry["server"],
            "gtid": entry["gtid"],
            **compared,
        },
        image=delegated.as_its_user(entry, image),
        settings=settings,
        mounts=(kube.Mount(name=_TEMPLATE, path=DATA_FOLDER, volume=claim, sub_path=entry["folder"] or None),),
        memory="384Mi",
    )


def observed(
    ctx: Context[Any], facts: Sequence[Mapping[str, Any]]
) -> tuple[list[Database | DelegatedDatabase], list[str]]:
    """Return the databases that this operator or mariadb-operator runs, and names of others."""
    databases: list[Database | DelegatedDatabase] = []
    foreign: list[str] = []
    for fact in facts:
        if fact["workloads"]:
            databases.append(own_database(ctx, fact))
        elif live := delegated.resource_of(fact):
            databases.append(delegated.observed(fact["name"], live))
        else:
            foreign.append(f"MariaDB/{fact['name']}: this operator does not run its server")
    return databases, foreign


def server_image(facts: Sequence[Mapping[str, Any]]) -> Image | None:
    """Return the image of the server of a database, which has restic; None before there is one."""
    for fact in facts:
        if fact["workloads"]:
            return Image.of(fact["workloads"][0]["spec"]["template"]["spec"])
    lives = filter(None, map(delegated.resource_of, facts))
    return next((delegated.image_of(live) for live in lives if live["spec"].get("image")), None)


def is_published(fact: Mapping[str, Any]) -> bool:
    """Return True once a database has said how its clients and its backups reach it."""
    return {"host", _ACCOUNT} <= fact["published"].keys() and bool(fact["claims"])


def not_ready(facts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield names of databases of which no member can be read from now."""
    for fact in facts:
        if fact["workloads"]:
            is_ready = bool(_ready_pods(fact)) and _have_account(fact) and bool(fact["claims"])
        else:
            live = delegated.resource_of(fact)
            # Its resource may have been deleted by hand a moment ago.
            is_ready = delegated.is_ready(live) if live else MARIADB not in fact["published"]
        if not is_ready:
            yield f"MariaDB/{fact['name']}"


def own_database(ctx: Context[Any], fact: Mapping[str, Any]) -> Database:
    """Return a database that this operator runs."""
    stateful_set: Object = fact["workloads"][0]
    pod, size = _source(fact), stateful_set["spec"].get("replicas") or 1
    service, name = stateful_set["spec"]["serviceName"], stateful_set["metadata"]["name"]
    return Database(
        name=fact["name"],
        pod=pod,
        # The certificate of a single server has perhaps no other name.
        host=fact["published"]["host"] if len(_members(fact)) == 1 else f"{pod}.{ctx.host(service)}",
        image=Image.of(stateful_set["spec"]["template"]["spec"]),
        account_secret=fact["published"][_ACCOUNT],
        trust_secret=fact["published"].get("trustSecret", ""),
        claim=first_claim(fact["claims"], stateful_set),
        primary_host=fact["published"]["host"],
        members=[f"{name}-{number}.{ctx.host(service)}" for number in range(size)] if size > 1 else (),
    )


def first_claim(claims: Sequence[Object], stateful_set: Object) -> Object:
    """Return the volume claim of the first member. Others of the namespace may have its labels, too."""
    templates: Sequence[Object] = stateful_set["spec"].get("volumeClaimTemplates") or ()
    of_first = {f"{each['metadata']['name']}-{stateful_set['metadata']['name']}-0" for each in templates}
    by_name = {claim["metadata"]["name"]: claim for claim in claims}
    return by_name[min(by_name.keys() & of_first or by_name)]


def _members(fact: Mapping[str, Any]) -> list[Object]:
    """Return the pods of a database, and no others with their labels."""
    stateful_set = fact["workloads"][0]
    name, size = stateful_set["metadata"]["name"], stateful_set["spec"].get("replicas") or 1
    names = {f"{name}-{number}" for number in range(size)}
    return [pod for pod in fact["pods"] if pod["metadata"]["name"] in names]


def _ready_pods(fact: Mapping[str, Any]) -> list[Object]:
    return [pod for pod in _members(fact) if kube.conditions(pod).get("Ready", {}).get("status") == "True"]


def _have_account(fact: Mapping[str, Any]) -> bool:
    """Return True if all pods read the password of the account that backups use. Those of an earlier version do not
    make the account.
    """
    secret, stateful_set = fact["published"].get(_ACCOUNT), fact["workloads"][0]
    volumes, status = stateful_set["spec"]["template"]["spec"].get("volumes") or (), stateful_set.get("status") or {}
    is_named = any((volume.get("secret") or {}).get("secretName") == secret for volume in volumes)
    return bool(secret) and is_named and status.get("updatedReplicas") == status.get("replicas")


def _source(fact: Mapping[str, Any]) -> str:
    """Return a member that no client uses, if there is one; empty if none is ready."""
    pods = sorted(_ready_pods(fact), key=lambda pod: pod["metadata"]["name"])
    non_primaries = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(_ROLE) != PRIMARY]
    return str((non_primaries or pods)[0]["metadata"]["name"]) if pods else ""


def dump(databases: Sequence[Database | DelegatedDatabase]) -> str:
    """Return JSON for `load`."""
    return json.dumps([database.dump() for database in databases], sort_keys=True)


def load(text: str) -> list[Database | DelegatedDatabase]:
    """Return what `dump` returned."""
    return [(DelegatedDatabase if "resource" in values else Database).load(values) for values in json.loads(text)]
