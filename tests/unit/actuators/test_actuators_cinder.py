"""CinderVolumeType, CinderQuota and CinderBackend against a Block Storage API in memory."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from openstack_operator.actuators import ACTUATORS
from openstack_operator.actuators.cinder import connected
from openstack_operator.plan import Context, SpecError, Transient
from tests.unit.fake_http import Answer, Request, context, http_server

TYPE, QUOTA, BACKEND = ACTUATORS[4:7]
PROJECT = "0" * 32
BROKEN = Answer(500, {"computeFault": {"code": 500, "message": "GET /…/os-services: HTTP 500: it failed"}})


class Cloud:
    """Keystone and Cinder at one address."""

    def __init__(self) -> None:
        self.ids = (f"{number:032x}" for number in count(1))
        self.tokens: set[str] = set()
        self.logins = 0
        self.types: dict[str, dict[str, Any]] = {}
        self.classes: dict[str, int] = {"volumes": 10, "gigabytes": 1000, "snapshots": 10}
        self.sets: dict[str, dict[str, int]] = {}
        self.services: list[dict[str, Any]] = []
        self.pools: list[dict[str, Any]] = []
        self.volumes: list[str] = []
        """The host or cluster of each."""
        self.used: set[str] = set()
        """Types that have volumes."""
        self.encryptions: dict[str, dict[str, Any]] = {}
        """By the id of their type."""
        self.unencrypted: list[str] = []
        """Types that everybody could use when they got their encryption."""
        self.fault: Answer | None = None

    def answer(self, request: Request) -> Answer:
        if request.path == ("v3", "auth", "tokens"):
            self.logins += 1
            subject = next(self.ids)
            self.tokens.add(subject)
            token = {"user": {"id": "u"}, "project": {"id": PROJECT}}
            return Answer(201, {"token": token}, {"X-Subject-Token": subject})
        if request.headers.get("X-Auth-Token") not in self.tokens:
            return Answer(401, {"error": {"message": "no"}})
        match request.path:
            case ("v3", "domains"):
                return Answer(200, {"domains": [{"id": "default", "name": "Default"}]})
            case ("v3", "projects"):
                # As Keystone's database compares.
                known = request.query["name"].casefold() == "team"
                return Answer(200, {"projects": [{"id": "t" * 32, "name": "team"}] if known else []})
            case ("v3", project, *rest) if project == PROJECT:
                return self.fault or self.storage(request, tuple(rest))
            case _:
                return Answer(404)

    def storage(self, request: Request, path: tuple[str, ...]) -> Answer:
        assert request.headers.get("OpenStack-API-Version", "").startswith("volume 3.")
        match path:
            case ("types", *rest):
                return self.type(request, rest)
            case ("os-quota-class-sets", "default"):
                if request.method == "PUT":
                    self.classes |= request.body["quota_class_set"]
                return Answer(200, {"quota_class_set": {"id": "default", **self.classes}})
            case ("os-quota-sets", project):
                if request.method == "PUT":
                    self.sets.setdefault(project, {}).update(request.body["quota_set"])
                if request.method == "DELETE":
                    self.sets.pop(project, None)
                return Answer(200, {"quota_set": {"id": project, **self.classes, **self.sets.get(project, {})}})
            case ("os-services",):
                return Answer(200, {"services": self.services})
            case ("scheduler-stats", "get_pools"):
                return Answer(200, {"pools": self.pools})
            case ("volumes",):
                place = request.query.get("cluster_name") or request.query["host"]
                field = "cluster_name" if "cluster_name" in request.query else "host"
                found = [each for each in self.volumes if each.startswith(f"{field}:{place}#")]
                return Answer(200, {"volumes": [], "count": len(found)})
            case _:
                return Answer(404)

    def type(self, request: Request, rest: list[str]) -> Answer:
        match request.method, rest:
            case "GET", []:
                return Answer(200, {"volume_types": list(self.types.values())})
            case "POST", []:
                row = {"id": next(self.ids), **request.body["volume_type"]}
                self.types[row["id"]] = row
                return Answer(200, {"volume_type": row})
            case "PUT", [known]:
                values = request.body["volume_type"]
                row = self.types[known]
                row |= {"description": values["description"], "os-volume-type-access:is_public": values["is_public"]}
                return Answer(200, {})
            case "DELETE", [known]:
                if self.types[known]["name"] in self.used:
                    return Answer(400, {"badRequest": {"code": 400, "message": "Target volume type is still in use."}})
                del self.types[known]
                return Answer(202)
            case "POST", [known, "extra_specs"]:
                self.types[known]["extra_specs"] |= request.body["extra_specs"]
                return Answer(200, {})
            case "DELETE", [known, "extra_specs", key]:
                del self.types[known]["extra_specs"][key]
                return Answer(202)
            case _, [known, "encryption", *rest]:
                return self.encryption(request, known, rest)
            case _:
                return Answer(404)

    def encryption(self, request: Request, known: str, rest: list[str]) -> Answer:
        """As Cinder's volume_type_encryption.py answers."""
        row = self.types[known]
        if request.method == "GET":
            return Answer(200, self.encryptions.get(known, {}))
        if row["name"] in self.used:
            verb = {"POST": "create", "PUT": "update"}[request.method]
            message = f"Cannot {verb} encryption specs. Volume type in use."
            return Answer(400, {"badRequest": {"code": 400, "message": message}})
        if row.get("os-volume-type-access:is_public", row.get("is_public")):
            self.unencrypted.append(row["name"])
        stored = self.encryptions.get(known, {"encryption_id": next(self.ids), "volume_type_id": known})
        assert rest == ([stored["encryption_id"]] if request.method == "PUT" else [])
        self.encryptions[known] = {**stored, **request.body["encryption"]}
        return Answer(200, request.body)

    def named(self, name: str) -> dict[str, Any]:
        (row,) = [row for row in self.types.values() if row["name"] == name]
        return row


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def url(cloud: Cloud) -> Generator[str]:
    with http_server(cloud) as url:
        yield url


def wanting(url: str, entry: Any, **spec: Any) -> Context[Any]:
    published = {"internalURL": url, "adminSecret": "admin"}
    ctx = context(entry, spec, published, {"admin": {"username": "admin", "password": "pw"}})
    # Keystone publishes its address with the version of its API.
    refs = {
        ref: replace(at, published={**published, "internalURL": f"{url}/v3"}) if ref.kind == "Keystone" else at
        for ref, at in ctx.refs.items()
    }
    return replace(ctx, refs=refs)


def test_a_volume_type_is_made_once(cloud: Cloud, url: str) -> None:
    ctx = wanting(url, TYPE, name="fast", extraSpecs={"volume_backend_name": "fast"})
    assert TYPE.ensure(ctx) == ["volume type fast created"]
    assert TYPE.ensure(ctx) == []
    row = cloud.named("fast")
    assert row["extra_specs"] == {"volume_backend_name": "fast"}
    assert row["os-volume-type-access:is_public"] is True
    assert cloud.logins == 1


def test_a_volume_type_that_was_changed_by_hand_is_repaired(cloud: Cloud, url: str) -> None:
    ctx = wanting(url, TYPE, name="fast", description="SSDs", extraSpecs={"a": "1", "b": "2"})
    TYPE.ensure(ctx)
    row = cloud.named("fast")
    row |= {"description": "?", "os-volume-type-access:is_public": False}
    row["extra_specs"] = {"a": "9", "c": "3"}
    assert TYPE.ensure(ctx) == [
        "volume type fast repaired: description",
        "extra specs of fast repaired: a, b, 1 that the spec does not name",
        "access to volume type fast repaired: public",
    ]
    assert row["extra_specs"] == {"a": "1", "b": "2"}
    assert (row["description"], row["os-volume-type-access:is_public"]) == ("SSDs", True)
    assert TYPE.ensure(ctx) == []


LUKS = {"provider": "luks", "cipher": "aes-xts-plain64", "key_size": 256, "control_location": "front-end"}


def encryption(cloud: Cloud, name: str) -> dict[str, Any]:
    stored = cloud.encryptions.get(cloud.named(name)["id"], {})
    return {field: stored[field] for field in LUKS if field in stored}


def test_a_type_is_encrypted_before_anybody_gets_a_volume_of_it(cloud: Cloud, url: str) -> None:
    ctx = wanting(url, TYPE, name="safe", encryption={})
    assert TYPE.ensure(ctx) == [
        "volume type safe created",
        "encryption of volume type safe created",
        "access to volume type safe repaired: public",
    ]
    assert TYPE.ensure(ctx) == []
    assert encryption(cloud, "safe") == LUKS
    assert cloud.named("safe")["os-volume-type-access:is_public"] is True
    assert cloud.unencrypted == []


def test_a_type_whose_encryption_was_never_made_stays_private(cloud: Cloud, url: str) -> None:
    """The operator ended between the two: the type is there, its encryption is not."""
    TYPE.ensure(wanting(url, TYPE, name="safe", public=False))
    assert TYPE.ensure(wanting(url, TYPE, name="safe", encryption={})) == [
        "encryption of volume type safe created",
        "access to volume type safe repaired: public",
    ]
    assert cloud.unencrypted == []


def test_encryption_that_was_changed_by_hand_is_repaired(cloud: Cloud, url: str) -> None:
    ctx = wanting(url, TYPE, name="safe", encryption={})
    TYPE.ensure(ctx)
    cloud.encryptions[cloud.named("safe")["id"]] |= {"cipher": None, "key_size": 128}
    assert TYPE.ensure(ctx) == ["encryption of volume type safe repaired: cipher, key_size"]
    assert encryption(cloud, "safe") == LUKS
    cloud.encryptions.clear()
    # Nobody gets a volume of it before it is encrypted again.
    assert TYPE.ensure(ctx) == ["encryption of volume type safe created", "access to volume type safe repaired: public"]
    assert TYPE.ensure(ctx) == []


def test_encryption_of_a_used_type_stays_and_the_condition_names_the_remedy(cloud: Cloud, url: str) -> None:
    TYPE.ensure(wanting(url, TYPE, name="safe", encryption={}))
    TYPE.ensure(wanting(url, TYPE, name="plain"))
    cloud.used |= {"safe", "plain"}
    assert TYPE.ensure(wanting(url, TYPE, name="safe", encryption={})) == []
    why = r"HTTP 400: the encryption of a type with volumes cannot change; undo the change"
    with pytest.raises(SpecError, match=rf"^spec\.encryption: Cinder: PUT /…/types/…/encryption/…: {why}"):
        TYPE.ensure(wanting(url, TYPE, name="safe", encryption={"keySize": 128}))
    with pytest.raises(SpecError, match=rf"^spec\.encryption: Cinder: POST /…/types/…/encryption: {why}"):
        TYPE.ensure(wanting(url, TYPE, name="plain", encryption={}))
    assert encryption(cloud, "safe") == LUKS


def test_a_type_without_encryption_settings_keeps_an_administrators(cloud: Cloud, url: str) -> None:
    TYPE.ensure(wanting(url, TYPE, name="safe", encryption={}))
    assert TYPE.ensure(wanting(url, TYPE, name="safe")) == []
    assert encryption(cloud, "safe") == LUKS


def test_a_volume_type_goes_unless_volumes_have_it(cloud: Cloud, url: str) -> None:
    ctx = wanting(url, TYPE, name="fast")
    TYPE.ensure(ctx)
    cloud.used.add("fast")
    with pytest.raises(SpecError, match=r"spec\.name: Cinder: DELETE /…/types/…: HTTP 400: volumes have this type"):
        TYPE.remove(ctx)
    cloud.used.clear()
    TYPE.remove(ctx)
    TYPE.remove(ctx)
    assert cloud.types == {}


def test_the_quota_of_every_project(cloud: Cloud, url: str) -> None:
    ctx = wanting(url, QUOTA, limits={"volumes": 50, "gigabytes": -1})
    assert QUOTA.ensure(ctx) == ["quota of every project repaired: gigabytes, volumes"]
    assert QUOTA.ensure(ctx) == []
    assert cloud.classes == {"volumes": 50, "gigabytes": -1, "snapshots": 10}
    QUOTA.remove(ctx)
    assert cloud.classes["volumes"] == 50, "there is nothing every project could fall back to"


def test_the_quota_of_one_project(cloud: Cloud, url: str) -> None:
    ctx = wanting(url, QUOTA, project="team", limits={"volumes": 3})
    QUOTA.ensure(ctx)
    assert cloud.sets == {"t" * 32: {"volumes": 3}}
    QUOTA.remove(ctx)
    assert cloud.sets == {}
    with pytest.raises(SpecError, match=r"spec\.project: there is no project 'other'"):
        QUOTA.ensure(wanting(url, QUOTA, project="other", limits={"volumes": 3}))
    QUOTA.remove(wanting(url, QUOTA, project="other", limits={"volumes": 3}))


@pytest.mark.security
def test_removal_keeps_a_type_and_a_quota_of_another_resource(cloud: Cloud, url: str) -> None:
    kind, quota = wanting(url, TYPE, name="gold"), wanting(url, QUOTA, project="team", limits={"volumes": 3})
    TYPE.ensure(kind)
    QUOTA.ensure(quota)
    TYPE.remove(replace(kind, conflicting_fields=frozenset({"spec.name"})))
    QUOTA.remove(replace(quota, conflicting_fields=frozenset({"spec.project"})))
    assert cloud.named("gold")
    assert cloud.sets == {"t" * 32: {"volumes": 3}}


@pytest.mark.security
def test_a_quota_of_a_project_that_keystone_takes_for_another_is_refused(cloud: Cloud, url: str) -> None:
    QUOTA.ensure(wanting(url, QUOTA, project="team", limits={"volumes": 3}))
    thief = wanting(url, QUOTA, project="Team", limits={"volumes": 0})
    with pytest.raises(SpecError, match=r"spec\.project: Keystone takes 'Team' for the name of a project"):
        QUOTA.ensure(thief)
    # The engine logs that limits are left behind.
    with pytest.raises(SpecError, match=r"spec\.project"):
        QUOTA.remove(thief)
    assert cloud.sets["t" * 32]["volumes"] == 3


def pool(name: str, **capabilities: Any) -> dict[str, Any]:
    return {"name": name, "capabilities": capabilities}


def backend(url: str, **spec: Any) -> Context[Any]:
    return wanting(url, BACKEND, backend="fast", hosts=["v-0@fast", "v-1@fast"], **spec)


def details(ctx: Context[Any]) -> Any:
    assert BACKEND.observe is not None
    assert BACKEND.ensure(ctx) == ()
    return BACKEND.observe(ctx).details


def test_a_backend_that_reports(cloud: Cloud, url: str) -> None:
    cloud.services = [{"host": "v-0@fast", "state": "down"}, {"host": "v-1@fast", "state": "up"}]
    cloud.pools = [
        pool("cinder@fast#a", free_capacity_gb=10.7, allocated_capacity_gb=3, total_capacity_gb=20.0),
        pool("cinder@fast#b", free_capacity_gb=1.5, allocated_capacity_gb=1, total_capacity_gb=2.0),
        pool("cinder@slow#a", free_capacity_gb=500, allocated_capacity_gb=0, total_capacity_gb=500),
    ]
    cloud.volumes = ["cluster_name:cinder@fast#a", "cluster_name:cinder@fast#b", "cluster_name:cinder@slow#a"]
    assert details(backend(url, cluster="cinder")) == {
        "status": "Ready",
        "availableCapacity": "12Gi",
        "allocatedCapacity": "4Gi",
        "totalCapacity": "22Gi",
        "volumes": 2,
    }


def test_volumes_of_a_backend_without_a_cluster_are_those_of_its_hosts(cloud: Cloud, url: str) -> None:
    cloud.services = [{"host": "v-0@fast", "state": "up"}]
    cloud.pools = [pool("v-0@fast#x", free_capacity_gb="infinite", total_capacity_gb="unknown")]
    cloud.volumes = ["host:v-0@fast#x", "host:v-1@fast#x", "host:v-1@fast#x"]
    assert details(backend(url)) == {"status": "Ready", "volumes": 3}


def test_a_backend_nobody_hears_of(cloud: Cloud, url: str) -> None:
    assert details(backend(url))["message"] == "no cinder-volume reports for it"
    cloud.services = [{"host": "v-0@fast", "state": "down"}]
    cloud.pools = [pool("cinder@fast#a", free_capacity_gb=1)]
    assert details(backend(url, cluster="cinder"))["status"] == "Down"
    cloud.services = [{"host": "v-0@fast", "state": "up"}]
    cloud.pools = []
    found = details(backend(url, cluster="cinder"))
    assert (found["status"], found["volumes"]) == ("Down", 0)
    assert "has not reported its capacity" in found["message"]


def test_a_cinder_that_cannot_be_asked(cloud: Cloud, url: str) -> None:
    cloud.fault = BROKEN
    with pytest.raises(Transient, match="GET /…/os-services: HTTP 500: it failed"):
        details(backend(url))
    with pytest.raises(Transient, match="has not published its internalURL"):
        TYPE.ensure(replace(wanting(url, TYPE, name="fast"), refs={}))


def test_a_token_that_ran_out_is_renewed(cloud: Cloud, url: str) -> None:
    ctx = wanting(url, TYPE, name="fast")
    TYPE.ensure(ctx)
    cloud.tokens.clear()
    assert TYPE.ensure(ctx) == []
    assert cloud.logins == 2
    assert vars(connected(ctx)) == vars(connected(ctx)), "the same connections and the same session"
