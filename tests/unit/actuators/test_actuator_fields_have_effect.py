"""Each field of each small resource changes what is outside Kubernetes, what is read there, or what is left behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

from openstack_operator.actuators import ACTUATORS, sql
from openstack_operator.api import references
from openstack_operator.cli.offline.rules import evaluator
from openstack_operator.cli.offline.schema import validate, with_defaults
from openstack_operator.plan import Actuator, Drifted, Outcome, ResolvedRef, SpecError, Transient
from openstack_operator.testing import NOW
from tests.cluster.southbound import Southbound
from tests.toggling import Steps, dotted, leaves, schema_at, spec_schema, values
from tests.unit.actuators.test_actuators_cinder import Cloud
from tests.unit.actuators.test_actuators_database import MariaDB
from tests.unit.actuators.test_actuators_domain import Domains
from tests.unit.actuators.test_actuators_federation import Federation
from tests.unit.actuators.test_actuators_identity import Identity
from tests.unit.actuators.test_actuators_messaging import Broker
from tests.unit.fake_http import Answer, HttpService, context, http_server

LOGIN = {
    "username": "admin",
    "password": "adminpw",
    "root": "rootpw",
    "default_user": "admin",
    "default_pass": "adminpw",
}
SECRETS = {"admin": LOGIN, "p": {"k": "one", "toggled": "two"}, "toggled": {"k": "three"}}
PASSWORD = {"passwordSecretRef": {"name": "p", "key": "k"}}
SERVICE_USER = {"user": "glance", "passwordSecretRef": {"name": "p", "key": "k"}}
RULE = {"service": "compute", "method": "GET", "path": "/v2.1/servers"}
NODE = "node-1.example.org"
_BOOKKEEPING = {"ids", "tokens", "logins", "asked", "lock", "statements", "writes", "fault"}
"""What a server in memory knows of requests."""


@dataclass(frozen=True)
class World:
    """A server in memory, and resources of a kind that it serves, each with all fields around those to toggle."""

    server: Callable[[], Any]
    specs: tuple[Mapping[str, Any], ...]


class Tables(MariaDB):
    """A MariaDB whose schemas have tables."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = {name: {"toggled", "other"} for name in ("nova_api", "toggled", "other")}


class Storage(Cloud):
    """A Cinder with a backend."""

    def __init__(self) -> None:
        super().__init__()
        self.services = [{"host": "v-0@fast", "state": "up"}, {"host": "toggled", "state": "down"}]
        self.pools = [{"name": "c@fast#a", "capabilities": {"free_capacity_gb": 1, "total_capacity_gb": 2}}]
        self.volumes = ["cluster_name:toggled@fast#a"]
        self.sets = {}


class Chassis(Southbound):
    """The southbound database of an OVN with one node."""

    def __init__(self) -> None:
        super().__init__()
        self.register(NODE, "192.0.2.1", "physnet1:br-ex")


class Owners(Identity):
    """A Keystone with users who may own a credential; each takes the password that is tried first."""

    def __init__(self) -> None:
        super().__init__()
        self.add("domains", id="other", name="toggled")
        for domain, user, project in (
            ("default", "glance", "service"),
            ("default", "glance", "toggled"),
            ("default", "toggled", "service"),
            ("other", "glance", "service"),
        ):
            who = self.all("users", name=user, domain_id=domain) or [self.add("users", name=user, domain_id=domain)]
            where = self.all("projects", name=project, domain_id=domain)
            where = where or [self.add("projects", name=project, domain_id=domain)]
            self.assigned.add((who[0]["id"], where[0]["id"], self.one("roles", name="service")["id"]))

    def token(self, auth: Any) -> Answer:
        claim = auth["identity"]["password"]["user"]
        for row in self.all("users", name=claim["name"]):
            row.setdefault("password", claim["password"])
        if "scope" in auth and auth["scope"] != "unscoped":
            self.scope = auth["scope"]["project"]["name"]
        return super().token(auth)


WORLDS: dict[str, World] = {
    "MariaDBDatabase": World(
        Tables, ({"database": "nova_api", "user": "nova_api", "characterSet": "utf8mb4", **PASSWORD},)
    ),
    "RabbitMQVhost": World(Broker, ({"vhost": "nova", "user": "nova", "permissions": {}, **PASSWORD},)),
    "KeystoneUser": World(Identity, ({"user": "glance", **PASSWORD},)),
    "KeystoneService": World(
        Identity,
        ({"type": "image", "name": "glance", "endpoints": {"public": "http://a:1", "internal": "http://b:1"}},),
    ),
    "KeystoneDomain": World(Domains, ({"domain": "heat", "administrator": "root", **PASSWORD},)),
    "KeystoneApplicationCredential": World(
        Owners,
        (
            {"credential": "operator", "accessRules": [RULE], **PASSWORD},
            {"credential": "operator", "owner": SERVICE_USER, **PASSWORD},
        ),
    ),
    "KeystoneIdentityProvider": World(
        Federation,
        (
            {
                "name": "sso",
                "remoteIDs": ["https://sso.example.org"],
                "protocol": "openid",
                "mapping": [{"remote": [{"type": "OIDC-email"}], "local": [{"user": {"name": "{0}"}}]}],
            },
        ),
    ),
    "CinderVolumeType": World(Storage, ({"name": "fast", "encryption": {}},)),
    "CinderQuota": World(Storage, ({"limits": {"volumes": 5}}, {"project": "team", "limits": {"volumes": 5}})),
    "CinderBackend": World(
        Storage,
        ({"backend": "fast", "hosts": ["v-0@fast"]}, {"backend": "fast", "hosts": ["v-0@fast"], "cluster": "c"}),
    ),
    "OVNChassis": World(Chassis, ({},)),
}
VALUES: dict[str, Any] = {
    "MariaDBDatabase.spec.collation": "utf8mb4_bin",
    "KeystoneUser.spec.roles": ["member"],
    "KeystoneService.spec.region": "toggled",
    "CinderQuota.spec.project": "team",
    "CinderVolumeType.spec.encryption.cipher": "aes-cbc-plain64",
    "CinderVolumeType.spec.encryption.keySize": 128,
    "RabbitMQVhost.spec.permissions.routingKeys": {"toggled": "^a$"},
}
"""The other value of fields for which not every valid one will do."""
ONE_VALUE = {
    "CinderVolumeType.spec.encryption.provider",
    "CinderVolumeType.spec.encryption.controlLocation",
    "OVNChassis.spec.encapsulation.type",
}
"""Fields of which there is no other value."""
WRITTEN = {"OVNChassis.spec.hostname", "OVNChassis.spec.systemId"}
"""Fields that tell a user what the operator wrote, as their descriptions say."""
BY_KIND = {entry.resource.kind: entry for entry in ACTUATORS}
FIELDS = [(kind, steps) for kind, entry in BY_KIND.items() for steps in leaves(spec_schema(entry.resource))]


def test_every_kind_is_toggled() -> None:
    assert BY_KIND.keys() == WORLDS.keys()


@pytest.mark.seconds
@pytest.mark.parametrize(("kind", "steps"), FIELDS, ids=[f"{kind}.{dotted(steps)}" for kind, steps in FIELDS])
def test_a_field_changes_what_is_outside_or_left_behind(
    kind: str, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, world, field = BY_KIND[kind], WORLDS[kind], f"{kind}.{dotted(steps)}"
    schema = spec_schema(entry.resource)
    choices = [VALUES[field]] if field in VALUES else list(values(schema_at(schema, steps)))
    pairs = [
        (before, after)
        for spec in world.specs
        for before in [with_defaults(schema, dict(spec))]
        for value in choices
        for after in [with_defaults(schema, written(before, steps, value))]
        if before != after and not validate(schema, after, _RULES)
    ]
    if field in ONE_VALUE:
        assert len(choices) == 1
        return
    assert pairs, f"{field} has no other valid value among {choices}"
    tried = [pair for index in range(len(world.specs)) for pair in pairs[index * len(pairs) // len(world.specs) :][:3]]
    differs = any(
        outcome(entry, world, before, monkeypatch) != outcome(entry, world, after, monkeypatch)
        for before, after in tried
    )
    assert differs != (field in WRITTEN)


def written(node: Any, steps: Steps, value: Any) -> Any:
    """Return a spec with a value at a field; of a list, in its only entry, which has valid neighbors."""
    if not steps:
        return value
    step, *rest = steps
    if step == "[]":
        return [written((node or [{"physicalNetwork": "a", "bridge": "br-a"}])[0], tuple(rest), value)]
    return {**(node or {}), step: written((node or {}).get(step), tuple(rest), value)}


def outcome(entry: Actuator, world: World, spec: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what is on a new server after the resource was made, what is read there, and what its removal leaves;
    with what the resource refers to.
    """
    server = world.server()
    if isinstance(server, MariaDB):
        monkeypatch.setattr(sql, "Connection", server.connect)
        return _outcome(entry, server, spec, "http://mariadb")
    if isinstance(server, Southbound):
        with server.serving():
            return _outcome(entry, server, spec, f"tcp:127.0.0.1:{server.port}")
    remote: HttpService = server
    with http_server(remote) as url:
        return _outcome(entry, server, spec, url)


def _outcome(entry: Actuator, server: Any, spec: Mapping[str, Any], url: str) -> Any:
    contract = {"internalURL": url, "managementURL": f"{url}/", "adminSecret": "admin", "host": "db", "port": "3306"}
    ctx = context(entry, spec, {**contract, "southbound": url, "nodes": ""}, SECRETS)
    keystone = ResolvedRef({**contract, "internalURL": f"{url}/v3"})
    refs = {ref: keystone if ref.kind == "Keystone" else at for ref, at in ctx.refs.items()}
    ctx = replace(ctx, refs=refs, now=NOW, owner=NODE if entry.resource.of_node else "x")
    found: list[Any] = [references(ctx.spec), entry.external_kind(ctx.spec) if entry.external_kind else ""]
    for act in (entry.ensure, entry.observe, entry.remove):
        try:
            result = act(ctx) if act else None
        except (SpecError, Drifted, Transient) as error:
            result = str(error)
        found += [asdict(result) if isinstance(result, Outcome) else None, state(server, url)]
        if isinstance(result, str):
            found.append(result)
    return found


def state(server: Any, url: str) -> str:
    """Return all that a server keeps, as text."""
    kept = {name: value for name, value in vars(server).items() if name not in _BOOKKEEPING}
    if isinstance(server, MariaDB):
        del kept["rows"]
    if isinstance(server, Southbound):
        kept = {"tables": server.tables}
    return repr(kept).replace(url, "URL")


_RULES = evaluator()
