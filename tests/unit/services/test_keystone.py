"""Keystone: keys that age without refusing a token, a bootstrap, and the administrator's files."""

from __future__ import annotations

import base64
from configparser import ConfigParser
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator import kube
from openstack_operator.parts.secrets.keys import fernet_key
from openstack_operator.plan import Object, Plan, Release, SpecError
from openstack_operator.services.keystone.keys import KeyRing, due, new_ring
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import ROTATED, plan
from openstack_operator.testing import context, granted
from tests.planning import planner

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONTRACTS = {
    "MariaDB": {"host": "mariadb.openstack", "port": "3306"},
    "Memcached": {"servers": "memcached-0:11211"},
}


planned = planner(plan, KEYSTONE, published=CONTRACTS)


def secret(made: Plan, name: str) -> Object:
    return next(obj for obj in made.objects if (obj["kind"], obj["metadata"]["name"]) == ("Secret", name))


@given(st.integers(3, 12), st.integers(1, 40))
def test_a_server_that_is_one_rotation_late_reads_every_new_token(keep: int, rotations: int) -> None:
    numbers = count()
    ring = new_ring(NOW, lambda: f"key{next(numbers)}")
    for _ in range(rotations):
        late = ring
        ring = ring.rotate(NOW, keep, lambda: f"key{next(numbers)}")
        # What signs now, others have held as their staged key since the rotation before.
        assert ring.keys[max(ring.keys)] == late.keys[0]
        # What signed before can still be read.
        assert late.keys[max(late.keys)] in ring.keys.values()
        assert len(ring.keys) <= keep
        assert len(set(ring.keys.values())) == len(ring.keys)


@pytest.mark.parametrize("password", ["p@ss", "p%40ss", "pa$word", "a/b", "ä"])
def test_a_login_that_migrations_cannot_read_is_refused(password: str, release: Release) -> None:
    """Keystone's alembic takes the percent sign in its URL for a reference, and the bootstrap job fails."""
    login = {"username": "keystone", "password": password}
    with pytest.raises(SpecError, match="may only have letters") as refused:
        planned(release, {"database": {"secretRef": {"name": "db"}}}, secrets={"db": login})
    assert refused.value.incomplete
    assert refused.value.path == "spec.database.secretRef"
    assert "'db'" in str(refused.value)
    assert password not in str(refused.value)


def test_other_logins_of_the_database_are_taken(release: Release) -> None:
    login = {"username": "key_stone", "password": "Az09-._~"}
    made = planned(release, {"database": {"secretRef": {"name": "db"}}}, secrets={"db": login})
    assert "key_stone:Az09-._~@" in kube.secret_data(secret(made, "keystone-config"))["keystone.conf"]


@given(st.integers(3, 12))
def test_a_ring_grows_to_its_size_and_stays(keep: int) -> None:
    numbers = count()
    ring = new_ring(NOW, lambda: str(next(numbers)))
    for _ in range(keep):
        ring = ring.rotate(NOW, keep, lambda: str(next(numbers)))
    assert len(ring.keys) == keep


def test_a_smaller_ring_drops_the_oldest_keys() -> None:
    ring = KeyRing({0: "staged", 3: "oldest", 4: "older", 5: "primary"}, NOW)
    assert ring.rotate(NOW, 3, lambda: "new").keys == {0: "new", 5: "primary", 6: "staged"}


@pytest.mark.parametrize(
    ("schedule", "then"),
    [
        ("0 0 * * 0", datetime(2026, 1, 4, tzinfo=UTC)),
        ("@daily", datetime(2026, 1, 2, tzinfo=UTC)),
        ("@monthly", datetime(2026, 2, 1, tzinfo=UTC)),
        ("30 4 29 2 *", datetime(2028, 2, 29, 4, 30, tzinfo=UTC)),
        # A pod whose kubelet is late must not fall two rotations behind.
        ("* * * * *", datetime(2026, 1, 1, 0, 10, tzinfo=UTC)),
    ],
)
def test_when_a_rotation_is_due(schedule: str, then: datetime) -> None:
    assert due(schedule, NOW, "spec") == then


@pytest.mark.parametrize("schedule", ["", "never", "61 * * * *", "0 0 30 2 *", "@reboot"])
def test_a_schedule_that_never_comes_names_its_field(schedule: str) -> None:
    with pytest.raises(SpecError, match=r"spec.fernet.rotationSchedule: .* is not a schedule"):
        due(schedule, NOW, "spec.fernet.rotationSchedule")


def test_a_fernet_key_is_32_bytes() -> None:
    drawn = (f"{number:032}" for number in range(4))
    one, other = fernet_key(lambda: next(drawn)), fernet_key(lambda: next(drawn))
    assert one != other
    assert len(base64.urlsafe_b64decode(one)) == len(base64.urlsafe_b64decode(other)) == 32
    # Half of it signs, the other half encrypts: neither is text of 6 bits a byte.
    assert any(byte > 127 for byte in base64.urlsafe_b64decode(one))


def held(ring: KeyRing, release: Release, name: str = "keystone-fernet-keys") -> dict[tuple[str, str], Object]:
    data = {str(index): key for index, key in ring.keys.items()}
    found = kube.secret(context(KEYSTONE, release=release, published=CONTRACTS), name, data)
    return {("Secret", name): kube.annotated(found, {ROTATED: ring.rotated.isoformat()})}


@pytest.mark.proves("Keystone", "spec.fernet.rotationSchedule")
def test_keys_stay_until_their_time_and_the_plan_wakes_then(release: Release) -> None:
    ring = KeyRing({0: "a", 1: "b"}, NOW)
    children = held(ring, release) | held(ring, release, "keystone-credential-keys")
    made = planned(release, {"fernet": {"rotationSchedule": "@daily"}}, children=children, now=NOW + timedelta(hours=5))
    assert kube.secret_data(secret(made, "keystone-fernet-keys")) == {"0": "a", "1": "b"}
    assert made.outcome.wake == NOW + timedelta(days=1)


def test_keys_that_are_due_rotate_once_however_late(release: Release) -> None:
    children = held(KeyRing({0: "a", 1: "b"}, NOW), release)
    late = NOW + timedelta(days=60)
    made = planned(release, children=children, now=late, draw=lambda: "n" * 32)
    keys = secret(made, "keystone-fernet-keys")
    assert kube.secret_data(keys) == {"0": fernet_key(lambda: "n" * 32), "1": "b", "2": "a"}
    assert keys["metadata"]["annotations"][ROTATED] == late.isoformat()
    assert made.outcome.wake is not None
    assert made.outcome.wake > late


@pytest.mark.proves("Keystone", "spec.fernet.rotationSchedule")
def test_replicas_whose_clocks_are_ten_minutes_off_rotate_once_a_day(release: Release) -> None:
    ring, rotations = KeyRing({0: "a", 1: "b"}, NOW), list[int]()
    # Each minute around midnight; in between, one that every clock is asked at in turn.
    around = {day * 24 * 60 + minute for day in (1, 2) for minute in range(-40, 41)}
    for minute in sorted({*around, *range(23 * 60, 49 * 60, 29)}):
        # Whoever looks, the one that is early, the one that is right, or the one that is late.
        told = NOW + timedelta(minutes=minute + (10, 0, -10)[minute % 3])
        made = planned(release, {"fernet": {"rotationSchedule": "@daily"}}, children=held(ring, release), now=told)
        keys = secret(made, "keystone-fernet-keys")
        if (after := datetime.fromisoformat(keys["metadata"]["annotations"][ROTATED])) != ring.rotated:
            rotations.append(minute)
            ring = KeyRing({int(index): key for index, key in kube.secret_data(keys).items()}, after)
    assert len(rotations) == 2
    assert [abs(minute - day * 24 * 60) <= 10 for day, minute in enumerate(rotations, 1)] == [True, True]


def options(made: Plan) -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.read_string(kube.secret_data(secret(made, "keystone-config"))["keystone.conf"])
    return parser


def test_a_silent_cache_costs_less_than_a_tenth_of_a_second(release: Release) -> None:
    cache = options(planned(release))["cache"]
    assert cache["backend"] == "oslo_cache.memcache_pool"
    assert float(cache["memcache_socket_timeout"]) < 0.1
    assert cache.getint("memcache_dead_retry") == 10
    assert "memcache_pool_flush_on_reconnect" not in cache, "a flush answered late mixes up all later answers"


def test_the_other_way_to_talk_to_memcached_stays_selectable(release: Release) -> None:
    made = planned(release, {"cache": {"backend": "dogpile.cache.pymemcache"}})
    assert options(made)["cache"]["backend"] == "dogpile.cache.pymemcache"


def test_without_a_server_only_requests_remember(release: Release) -> None:
    contracts = CONTRACTS | {"Memcached": {"servers": ""}}
    cache = options(plan(context(KEYSTONE, release=release, published=contracts)))["cache"]
    assert (cache["enabled"], cache["backend"]) == ("true", "dogpile.cache.null")
    assert "memcache_servers" not in cache


def jobs(made: Plan) -> list[Object]:
    return [obj for obj in made.objects if "credential-migrate" in obj["metadata"]["name"]]


def test_credential_keys_rotate_once_everything_is_encrypted_with_the_newest(release: Release) -> None:
    ring = KeyRing({0: "a", 1: "b"}, NOW)
    late = NOW + timedelta(days=60)
    children = held(KeyRing({0: "a", 1: "b"}, late), release) | held(ring, release, "keystone-credential-keys")
    assert not jobs(planned(release, children=children, now=NOW))

    made = planned(release, children=children, now=late)
    assert kube.secret_data(secret(made, "keystone-credential-keys")) == {"0": "a", "1": "b"}
    (job,) = jobs(made)
    main = job["spec"]["template"]["spec"]["containers"][0]
    assert main["command"] == ["keystone-manage", "credential_migrate"]
    assert "/etc/keystone/credential-keys" in {mount["mountPath"] for mount in main["volumeMounts"]}
    # It is the job that wakes the plan, not the time that has passed.
    assert made.outcome.wake == due("0 0 * * 0", late, "")

    running = children | {("Job", job["metadata"]["name"]): job}
    assert jobs(planned(release, children=running, now=late)) == [job]
    done = children | {("Job", job["metadata"]["name"]): granted(job)}
    rotated = planned(release, children=done, now=late, draw=lambda: "n" * 32)
    keys = secret(rotated, "keystone-credential-keys")
    assert kube.secret_data(keys) == {"0": fernet_key(lambda: "n" * 32), "1": "b", "2": "a"}
    assert not jobs(rotated)

    # The next rotation has a migration of its own, even where the job of the last one still lies about.
    later = done | {("Secret", "keystone-credential-keys"): keys}
    (another,) = jobs(planned(release, children=later, now=late + timedelta(days=60)))
    assert another["metadata"]["name"] != job["metadata"]["name"]


@pytest.mark.proves("Keystone", "spec.credentialKeys.maxActiveKeys")
@pytest.mark.parametrize("limit", [3, 5])
def test_as_many_credential_keys_stay_as_the_spec_says(limit: int, release: Release) -> None:
    late, name = NOW + timedelta(days=60), "keystone-credential-keys"
    full = KeyRing({index: f"k{index}" for index in range(limit)}, NOW)
    children = held(KeyRing({0: "a", 1: "b"}, late), release) | held(full, release, name)
    spec = {"credentialKeys": {"maxActiveKeys": limit}}
    (job,) = jobs(planned(release, spec, children=children, now=late))
    done = children | {("Job", job["metadata"]["name"]): granted(job)}
    keys = kube.secret_data(secret(planned(release, spec, children=done, now=late), name))
    # The oldest one goes, the staged one becomes the newest, and a new one is staged.
    assert sorted(map(int, keys)) == [0, *range(2, limit + 1)]
    assert keys[str(limit)] == "k0"

    roomy = {"credentialKeys": {"maxActiveKeys": limit + 1}}
    assert "1" in kube.secret_data(secret(planned(release, roomy, children=done, now=late), name))


def test_a_rotation_rolls_no_pod(release: Release) -> None:
    before = planned(release, children=held(KeyRing({0: "a", 1: "b"}, NOW), release))
    after = planned(release, children=held(KeyRing({0: "c", 1: "b", 2: "a"}, NOW), release))
    api = [next(obj for obj in made.objects if obj["metadata"]["name"] == "keystone-api") for made in (before, after)]
    assert api[0] == api[1]


def test_keys_of_stored_credentials_outlive_their_keystone(release: Release) -> None:
    made = planned(release)
    assert kube.RETAIN in secret(made, "keystone-credential-keys")["metadata"]["annotations"]
    assert kube.RETAIN not in secret(made, "keystone-fernet-keys")["metadata"]["annotations"]


def test_the_users_own_administrator(release: Release) -> None:
    ref = {"name": "mine", "key": "pw"}
    spec = {"bootstrap": {"adminUser": "root", "adminProject": "ops", "adminPasswordSecretRef": ref}}
    made = planned(release, spec, secrets={"mine": {"pw": "chosen"}})
    data = kube.secret_data(secret(made, "keystone-admin"))
    assert data == {"username": "root", "project": "ops", "password": "chosen", "salt": "drawn"}


def test_a_password_that_changed_is_told_to_keystone(release: Release) -> None:
    def job(password: str, salt: str = "drawn") -> str:
        spec = {"bootstrap": {"adminPasswordSecretRef": {"name": "mine"}}}
        made = planned(release, spec, secrets={"mine": {"password": password}}, draw=lambda: salt)
        return next(obj["metadata"]["name"] for obj in made.objects if obj["kind"] == "Job")

    assert job("one") == job("one") != job("other")
    # Who may read jobs but no secrets cannot try passwords out against the digest.
    assert job("one") != job("one", "another-salt-of-32-characters-xx")


@pytest.mark.parametrize("lost", [{"0": "a"}, {"1": "b"}, {}, {"mine": "x"}])
def test_a_ring_somebody_took_of_is_completed(release: Release, lost: dict[str, str]) -> None:
    bare = kube.secret(context(KEYSTONE, release=release, published=CONTRACTS), "keystone-fernet-keys", lost)
    made = planned(release, children={("Secret", "keystone-fernet-keys"): bare}, draw=lambda: "n" * 32)
    keys = secret(made, "keystone-fernet-keys")
    kept = {index: key for index, key in lost.items() if index.isdecimal()}
    assert kube.secret_data(keys) == {"0": fernet_key(lambda: "n" * 32), "1": fernet_key(lambda: "n" * 32)} | kept
    assert keys["metadata"]["annotations"][ROTATED] == NOW.isoformat()


def test_clouds_yaml_has_both_sides(release: Release) -> None:
    live = {"kind": "Service", "spec": {"ports": [{"port": 5000, "nodePort": 30500}]}}
    spec = {"region": "North", "expose": {"type": "NodePort", "host": "cloud.example.org"}}
    made = planned(release, spec, children={("Service", "keystone-api"): live})
    clouds = yaml.safe_load(kube.secret_data(secret(made, "keystone-clouds"))["clouds.yaml"])["clouds"]
    assert clouds["openstack"]["auth"]["auth_url"] == "http://keystone-api.openstack.svc.cluster.local:5000/v3"
    assert clouds["openstack-public"]["auth"]["auth_url"] == "http://cloud.example.org:30500/v3"
    assert {cloud["region_name"] for cloud in clouds.values()} == {"North"}


def test_no_password_stands_in_a_command_or_in_what_is_published(release: Release) -> None:
    made = planned(release, draw=lambda: "s3cr3t-" * 5)
    for obj in made.objects:
        if obj["kind"] != "Secret":
            assert "s3cr3t" not in str(obj), obj["metadata"]["name"]
    assert "s3cr3t" not in str(made.outcome)


def test_the_client_is_called_keystoneclient(release: Release) -> None:
    names = {obj["metadata"]["name"] for obj in planned(release).objects if obj["kind"] == "Deployment"}
    assert "keystoneclient" in names


def test_the_client_has_settings_of_its_own(release: Release) -> None:
    spec = {"replicas": 3, "image": "example.org/keystone:1", "client": {"image": "example.org/client:1"}}
    run = next(obj for obj in planned(release, spec).objects if obj["metadata"]["name"] == "keystoneclient")
    assert run["spec"]["replicas"] == 1
    assert run["spec"]["template"]["spec"]["containers"][0]["image"] == "example.org/client:1"
    gone = planned(release, {"client": {"replicas": 0}})
    run = next(obj for obj in gone.objects if obj["metadata"]["name"] == "keystoneclient")
    assert run["spec"]["replicas"] == 0


def test_the_region_of_the_bootstrap_is_the_region(release: Release) -> None:
    made = planned(release, {"bootstrap": {"region": "eu-west"}, "region": "RegionOne"})
    assert made.outcome.published["region"] == "eu-west"
    entry = next(obj for obj in made.objects if obj["kind"] == "KeystoneService")
    assert entry["spec"]["region"] == "eu-west"
    assert planned(release, {"bootstrap": {}, "region": "far"}).outcome.published["region"] == "far"


def test_federation_that_is_off_changes_nothing(release: Release) -> None:
    off = planned(release, {"federation": {"enabled": False}})
    assert list(off.objects) == list(planned(release).objects)


def test_no_two_requests_share_a_process(release: Release) -> None:
    """Keystone keeps the token of a request in an object that all threads of a process have."""
    for image_profile in ("debian", "kolla"):
        made = plan(context(KEYSTONE, {"imageProfile": image_profile}, release=release, published=CONTRACTS))
        deployment = next(obj for obj in made.objects if obj["metadata"]["name"] == "keystone-api")
        (command,) = [
            each["command"]
            for each in deployment["spec"]["template"]["spec"]["containers"]
            if "uwsgi" in each["command"]
        ]
        assert command[command.index("--threads") + 1] == "1"
        # As many as there are from the start: none is ended and started with each burst of requests.
        assert command[command.index("--processes") + 1] == "2"
        assert not [word for word in command if word.startswith("--cheaper")]


def test_caches_know_the_state_of_the_database(release: Release) -> None:
    """Whatever Memcached does: each key has the mark of that state, which any image is taught by a file."""
    made = planned(release)
    deployment = next(obj for obj in made.objects if obj["metadata"]["name"] == "keystone-api")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][container["command"].index("--module") + 1] == "identity_application:application"
    assert container["command"][container["command"].index("--pythonpath") + 1] == "/etc/keystone"
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {f"/etc/keystone/identity_{name}.py" for name in ("application", "generation")} <= mounted


def test_a_secret_as_a_folder_is_no_warning(release: Release) -> None:
    conf = kube.secret_data(secret(planned(release), "keystone-config"))["keystone.conf"]
    assert "keystone.common.fernet_utils=ERROR" in conf
