"""RabbitMQVhost against a management API in memory."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from openstack_operator.actuators import ACTUATORS
from openstack_operator.actuators.http import IDLE, Api
from openstack_operator.actuators.messaging import matches
from openstack_operator.actuators.queues import Suspects, usable
from openstack_operator.plan import Context, MissingReference, SpecError, Transient
from tests.unit.fake_http import Answer, Request, context, http_server
from tests.unit.polling import TIMEOUT

VHOST = ACTUATORS[1]
PASSWORD = "s3'c r&et%"
ALL = {"configure": ".*", "write": ".*", "read": ".*"}


def stored(password: str, salt: bytes = b"salt", algorithm: str = "sha256") -> str:
    return base64.b64encode(salt + hashlib.new(algorithm, salt + password.encode()).digest()).decode()


class Broker:
    """What RabbitMQ 4 keeps, and how it answers."""

    def __init__(self) -> None:
        self.vhosts: dict[str, Any] = {"/": {}}
        self.users: dict[str, Any] = {"admin": {"password_hash": stored("adminpw"), "tags": ["administrator"]}}
        self.permissions: dict[tuple[str, str], Any] = {}
        self.topics: dict[tuple[str, str], dict[str, Any]] = {}
        """Of topic exchanges, by virtual host and user, and by exchange."""
        self.policies: dict[tuple[str, str], Any] = {}
        self.queues: dict[str, Any] = {}
        """Of nova-cell1, by name: what the list says, and under `status` what its members say."""
        self.nodes: list[dict[str, Any]] = [{"name": "rabbit@rabbitmq-server-0.rabbitmq-members", "mem_alarm": False}]
        self.flags: dict[str, Any] = {}
        self.states = {"rabbit@rabbitmq-server-0.rabbitmq-members": "running"}
        """Of a virtual host that was just made, by node."""
        self.writes = 0
        self.fault: Answer | None = None

    def answer(self, request: Request) -> Answer:
        user, _, password = base64.b64decode(request.headers["Authorization"].split()[1]).decode().partition(":")
        if not matches(password, self.users.get(user, {}).get("password_hash", "")):
            return Answer(401, {"error": "not_authorized", "reason": "Login failed"})
        self.writes += request.method != "GET"
        if self.fault and request.method != "GET":
            return self.fault
        match request.path:
            case ("api", "vhosts", name, "start", node) if request.method == "POST":
                self.vhosts[name]["cluster_state"][node] = "running"
                return Answer(204)
            case ("api", "vhosts", name) if request.method == "PUT":
                self.vhosts[name] = {**request.body, "cluster_state": dict(self.states)}
                return Answer(201)
            case ("api", "vhosts", name):
                return self.row(request, self.vhosts, name, request.body)
            case ("api", "users", name):
                return self.row(request, self.users, name, self.user(request.body))
            case ("api", "permissions", vhost, name):
                if vhost not in self.vhosts or name not in self.users:
                    return Answer(404, {"error": "Object Not Found"})
                return self.row(request, self.permissions, (vhost, name), request.body)
            case ("api", "topic-permissions", vhost, name) if name not in self.users:
                return Answer(404, {"error": "Object Not Found"})
            case ("api", "topic-permissions", vhost, name) if request.method == "PUT":
                self.topics.setdefault((vhost, name), {})[request.body["exchange"]] = request.body
                return Answer(201)
            case ("api", "topic-permissions", vhost, name) if request.method == "DELETE":
                self.topics.pop((vhost, name))
                return Answer(204)
            case ("api", "topic-permissions", vhost, name):
                return Answer(200, list(self.topics.get((vhost, name), {}).values()))
            case ("api", "policies", vhost, name):
                return self.row(request, self.policies, (vhost, name), request.body)
            case ("api", "feature-flags"):
                return Answer(200, [{"name": name, **flag} for name, flag in self.flags.items()])
            case ("api", "feature-flags", name, "enable") if self.flags[name].get("unsupported"):
                return Answer(400, {"error": "bad_request", "reason": "unsupported"})
            case ("api", "feature-flags", name, "enable"):
                self.flags[name]["state"] = "enabled"
                return Answer(204)
            case ("api", "nodes"):
                return Answer(200, self.nodes)
            case ("api", "definitions", name) if name in self.vhosts:
                return Answer(200, {})
            case ("api", "queues", "nova"):
                return Answer(200, [{"name": "conductor", "messages": 1}])
            case ("api", "queues", "nova-cell1"):
                return Answer(200, [{k: v for k, v in q.items() if k != "status"} for q in self.queues.values()])
            case ("api", "queues", "quorum", "nova-cell1", name, "status"):
                return Answer(200, self.queues[name]["status"])
            case ("api", "queues", "nova-cell1", name) if request.query and self.queues[name].get("used"):
                return Answer(400, {"error": "bad_request", "reason": "in use"})
            case ("api", "queues", "nova-cell1", name):
                return self.row(request, self.queues, name, request.body)
            case _:
                return Answer(404)

    def user(self, body: Any) -> Any:
        return body and {"password_hash": stored(body["password"]), "tags": [t for t in [body["tags"]] if t]}

    def row(self, request: Request, rows: dict[Any, Any], key: Any, body: Any) -> Answer:
        if request.method == "PUT":
            rows[key] = body
            return Answer(201)
        if key not in rows:
            return Answer(404, {"error": "Object Not Found"})
        if request.method == "DELETE":
            del rows[key]
            self.permissions = {k: v for k, v in self.permissions.items() if key not in k}
            self.topics = {k: v for k, v in self.topics.items() if key not in k}
            return Answer(204)
        return Answer(200, rows[key])


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def ctx(broker: Broker) -> Generator[Context[Any]]:
    with http_server(broker) as url:
        yield wanted(url)


def wanted(url: str, *, user: str = "nova-cell1", password: str = PASSWORD, admin: str = "adminpw") -> Context[Any]:
    return context(
        VHOST,
        {"vhost": "nova-cell1", "user": user, "passwordSecretRef": {"name": "p", "key": "k"}},
        {"managementURL": f"{url}/", "adminSecret": "a"},
        {"a": {"default_user": "admin", "default_pass": admin}, "p": {"k": password}},
    )


def clustered(ctx: Context[Any]) -> Context[Any]:
    refs = {ref: replace(r, published={**r.published, "clustered": "true"}) for ref, r in ctx.refs.items()}
    return replace(ctx, refs=refs)


def follower(**changes: Any) -> dict[str, Any]:
    return {"Raft State": "follower", "Last Log Index": 0, "Term": 0, **changes}


def queue(name: str, *members: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {name: {"name": name, "type": "quorum", "durable": True, "status": list(members), **more}}


def look(broker: Broker, ctx: Context[Any], now: float) -> list[str]:
    """What comes out of a look at a queue that never began, at that time."""
    broker.queues = queue("conductor", follower(), follower(), follower())
    url = ctx.refs[ctx.spec.rabbitmq_ref].published["managementURL"].rstrip("/")
    return usable(Api("RabbitMQ", f"{url}/api", seconds=60, auth=("admin", "adminpw")), "nova-cell1", lambda: now)


def has_suspect(broker: Broker, ctx: Context[Any], now: float) -> None:
    """It is seen for the first time then, and not deleted."""
    with pytest.raises(Transient, match="a queue in nova-cell1 has no leader yet"):
        look(broker, ctx, now)
    assert broker.queues


def test_a_queue_that_never_began_is_deleted_when_it_is_seen_again(broker: Broker, ctx: Context[Any]) -> None:
    broker.queues = queue("conductor", follower(), follower(), follower())
    with http_server(broker) as url:
        api = Api("RabbitMQ", f"{url}/api", seconds=60, auth=("admin", "adminpw"))
        for moment in (100.0, 101.0):
            with pytest.raises(Transient, match="a queue in nova-cell1 has no leader yet"):
                usable(api, "nova-cell1", lambda moment=moment: moment)
        assert broker.queues, "it may only just be made"
        assert usable(api, "nova-cell1", lambda: 104.0) == [
            "queue of nova-cell1 deleted: no member has an entry or leads"
        ]
        assert not broker.queues
        broker.queues = queue("conductor", follower(), follower(), follower())
        with pytest.raises(Transient, match="a queue in nova-cell1 has no leader yet"):
            usable(api, "nova-cell1", lambda: 105.0)
        assert broker.queues, "its client made it again, which takes a moment"
        broker.queues = {}
        assert usable(api, "nova-cell1", lambda: 106.0) == []


@pytest.mark.parametrize("then", [{}, queue("other"), queue("conductor", messages=0)], ids=("gone", "other", "alive"))
def test_a_suspect_queue_that_disappears_is_forgotten(broker: Broker, then: dict[str, Any]) -> None:
    broker.queues = queue("conductor", follower(), follower(), follower())
    with http_server(broker) as url:
        api = Api("RabbitMQ", f"{url}/api", seconds=60, auth=("admin", "adminpw"))
        with pytest.raises(Transient, match="a queue in nova-cell1 has no leader yet"):
            usable(api, "nova-cell1", lambda: 100.0)
        broker.queues = then
        assert usable(api, "nova-cell1", lambda: 101.0) == [], "its client may have deleted it, and made it again"
        broker.queues = queue("conductor", follower(), follower(), follower())
        with pytest.raises(Transient, match="a queue in nova-cell1 has no leader yet"):
            usable(api, "nova-cell1", lambda: 110.0)


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
def test_suspect_queues_are_forgotten_with_the_resource(broker: Broker, ctx: Context[Any], policy: str) -> None:
    ctx = clustered(replace(ctx, spec=ctx.spec.model_copy(update={"deletion_policy": policy})))
    VHOST.ensure(ctx)
    has_suspect(broker, ctx, 100.0)
    VHOST.remove(ctx)
    broker.queues = {}
    VHOST.ensure(ctx)
    has_suspect(broker, ctx, 200.0)


def test_suspect_queues_stay_when_a_resource_without_the_virtual_host_goes(broker: Broker, ctx: Context[Any]) -> None:
    VHOST.ensure(ctx)
    has_suspect(broker, ctx, 100.0)
    VHOST.remove(replace(ctx, conflicting_fields=frozenset({"spec.vhost"})))
    assert look(broker, ctx, 104.0), "it was seen long enough"


def test_a_virtual_host_that_is_made_anew_has_no_suspects(broker: Broker, ctx: Context[Any]) -> None:
    """As in a new broker of the same address."""
    VHOST.ensure(ctx)
    has_suspect(broker, ctx, 100.0)
    without_vhost(broker)
    VHOST.ensure(ctx)
    has_suspect(broker, ctx, 200.0)


def test_suspects_of_virtual_hosts_that_nobody_looks_at_are_forgotten() -> None:
    suspects = Suspects()
    suspects.update("broker", "gone", ["a"], 100.0)
    suspects.update("broker", "vhost", ["a"], 100.0 + IDLE)
    assert len(suspects) == 2
    assert suspects.update("broker", "vhost", ["a"], 101.0 + IDLE) == {"a": 100.0 + IDLE}
    assert len(suspects) == 1
    assert suspects.update("broker", "gone", ["a"], 102.0 + IDLE) == {"a": 102.0 + IDLE}
    for name in ("vhost", "gone"):
        suspects.forget("broker", name, "a")
    assert len(suspects) == 0


def test_threads_share_what_is_suspect() -> None:
    """The second one comes while the first one has in its hands what was seen before, and must not miss it."""
    suspects, lock, turn, seen = Suspects(), threading.Lock(), threading.Event(), list[Mapping[str, float]]()
    suspects.update("broker", "vhost", ["a"], 100.0)

    def look() -> None:
        seen.append(suspects.update("broker", "vhost", ["a"], 102.0))
        turn.set()

    second = threading.Thread(target=look)

    class Asked:
        """The lock, which tells when the second one wants it."""

        def __enter__(self) -> None:
            if threading.current_thread() is second:
                turn.set()
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    class Names(list[str]):
        def __iter__(self) -> Iterator[str]:
            second.start()
            assert turn.wait(TIMEOUT), "the second one neither waits nor is done"
            return super().__iter__()

    suspects._lock = Asked()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    first = suspects.update("broker", "vhost", Names(["a"]), 101.0)
    second.join()
    assert [first, *seen] == [{"a": 100.0}] * 2


@pytest.mark.parametrize(
    "members",
    [
        [follower(**{"Raft State": "leader", "Last Log Index": 3, "Term": 1}), follower()],
        # Without a majority: whoever is away may have what the others lack.
        [follower(), {"Raft State": "noproc"}, {"Raft State": "noproc"}],
        [follower(), {"Raft State": "nodedown"}, follower()],
        # It has entries: its members will agree, or wait for one that is away.
        [follower(**{"Last Log Index": 7, "Term": 2}), follower(**{"Last Log Index": 7, "Term": 2})],
        [follower(Term=1), follower(), follower()],
        [],
    ],
)
def test_a_queue_that_may_hold_something_is_left_alone(
    broker: Broker, ctx: Context[Any], members: list[dict[str, Any]]
) -> None:
    broker.queues = queue("conductor", *members)
    VHOST.ensure(clustered(ctx))
    assert VHOST.ensure(clustered(ctx)) == []
    assert broker.queues


def test_no_member_is_asked_about_a_queue_whose_messages_are_counted(broker: Broker, ctx: Context[Any]) -> None:
    broker.queues = {"conductor": {"name": "conductor", "type": "quorum", "durable": True, "messages": 0}}
    VHOST.ensure(clustered(ctx))
    assert broker.queues


def test_unused_queues_from_before_clustering_are_deleted(broker: Broker, ctx: Context[Any]) -> None:
    broker.queues = queue("reply_a", type="classic", durable=False) | queue(
        "reply_b", type="classic", durable=False, used=True
    )
    broker.queues |= queue("mine", type="classic", durable=True)
    VHOST.ensure(ctx)
    assert set(broker.queues) == {"reply_a", "reply_b", "mine"}, "a single member needs no replicas"
    assert VHOST.ensure(clustered(ctx)) == ["queue of nova-cell1 deleted: not replicated, and without consumers"]
    assert set(broker.queues) == {"reply_b", "mine"}


def test_queue_limit_of_the_spec_becomes_a_policy(broker: Broker, ctx: Context[Any]) -> None:
    limited = replace(ctx, spec=ctx.spec.model_copy(update={"queue_limit": "1Mi"}))
    VHOST.ensure(limited)
    made = broker.policies["nova-cell1", "limit"]
    assert made["definition"] == {"max-length-bytes": 1048576, "overflow": "drop-head"}
    assert VHOST.ensure(limited) == []
    VHOST.ensure(ctx)
    assert not broker.policies


def healthy(broker: Broker, password: str = PASSWORD) -> bool:
    user = broker.users["nova-cell1"]
    return (
        "stopped" not in broker.vhosts["nova-cell1"]["cluster_state"].values()
        and user["tags"] == []
        and matches(password, user["password_hash"])
        and broker.permissions["nova-cell1", "nova-cell1"] == ALL
    )


@pytest.mark.parametrize("algorithm", ["md5", "sha256", "sha512"])
def test_a_broker_may_hash_passwords_in_another_way(broker: Broker, ctx: Context[Any], algorithm: str) -> None:
    VHOST.ensure(ctx)
    made = {"password_hash": stored(PASSWORD, algorithm=algorithm), "tags": []}
    broker.users["nova-cell1"] = {**made, "hashing_algorithm": f"rabbit_password_hashing_{algorithm}"}
    before = broker.writes
    assert VHOST.ensure(ctx) == []
    assert broker.writes == before
    broker.users["nova-cell1"]["password_hash"] = stored("other", algorithm=algorithm)
    assert VHOST.ensure(ctx) == ["user nova-cell1 repaired: password"]


def test_everything_is_made_once(broker: Broker, ctx: Context[Any]) -> None:
    assert VHOST.ensure(ctx) == [
        "virtual host nova-cell1 created",
        "user nova-cell1 created",
        "permissions of nova-cell1 in nova-cell1 created",
    ]
    assert healthy(broker)
    assert broker.vhosts["nova-cell1"]["default_queue_type"] == "quorum"
    writes = broker.writes
    assert VHOST.ensure(ctx) == []
    assert broker.writes == writes


def without_user(broker: Broker) -> None:
    del broker.users["nova-cell1"]
    broker.permissions.clear()
    broker.topics.clear()


def without_vhost(broker: Broker) -> None:
    del broker.vhosts["nova-cell1"]
    broker.permissions.clear()


def with_another_password(broker: Broker) -> None:
    broker.users["nova-cell1"]["password_hash"] = stored("other")


def with_no_password(broker: Broker) -> None:
    broker.users["nova-cell1"]["password_hash"] = ""


def as_administrator(broker: Broker) -> None:
    broker.users["nova-cell1"]["tags"] = ["administrator"]


def with_fewer_permissions(broker: Broker) -> None:
    broker.permissions["nova-cell1", "nova-cell1"] = {**ALL, "write": ""}


def with_a_virtual_host_that_is_stopped(broker: Broker) -> None:
    states = broker.vhosts["nova-cell1"]["cluster_state"]
    broker.vhosts["nova-cell1"]["cluster_state"] = dict.fromkeys(states, "stopped")


@pytest.mark.parametrize(
    "drift",
    [
        without_user,
        without_vhost,
        with_a_virtual_host_that_is_stopped,
        with_another_password,
        with_no_password,
        as_administrator,
        with_fewer_permissions,
    ],
)
def test_drift_is_repaired(broker: Broker, ctx: Context[Any], drift: Any) -> None:
    VHOST.ensure(ctx)
    drift(broker)
    assert VHOST.ensure(ctx)
    assert healthy(broker)
    assert VHOST.ensure(ctx) == []


LIMITS = {"configure": "^nova$", "write": "^nova$", "read": ""}
KEYS = {"nova": r"^compute\."}


def limited(ctx: Context[Any], keys: Mapping[str, str] = KEYS) -> Context[Any]:
    spec = {**ctx.spec.model_dump(by_alias=True), "permissions": {**LIMITS, "routingKeys": keys}}
    return replace(ctx, spec=VHOST.resource.spec.model_validate(spec))


def limits(broker: Broker) -> tuple[Any, dict[str, str]]:
    at = "nova-cell1", "nova-cell1"
    return broker.permissions[at], {name: row["write"] for name, row in broker.topics.get(at, {}).items()}


def test_a_user_may_do_what_is_said(broker: Broker, ctx: Context[Any]) -> None:
    assert VHOST.ensure(limited(ctx))[2:] == [
        "routing keys of nova-cell1 in nova-cell1 repaired: nova",
        "permissions of nova-cell1 in nova-cell1 created",
    ]
    assert limits(broker) == (LIMITS, KEYS)
    writes = broker.writes
    assert VHOST.ensure(limited(ctx)) == []
    assert broker.writes == writes


def with_everything_allowed(broker: Broker) -> None:
    broker.permissions["nova-cell1", "nova-cell1"] = ALL


def with_every_routing_key(broker: Broker) -> None:
    broker.topics.clear()


def with_other_routing_keys(broker: Broker) -> None:
    broker.topics["nova-cell1", "nova-cell1"]["nova"]["write"] = ".*"


def with_routing_keys_of_more_exchanges(broker: Broker) -> None:
    broker.topics["nova-cell1", "nova-cell1"]["other"] = {"exchange": "other", "write": "^x$", "read": ".*"}


@pytest.mark.parametrize(
    "drift",
    [
        without_user,
        with_everything_allowed,
        with_every_routing_key,
        with_other_routing_keys,
        with_routing_keys_of_more_exchanges,
    ],
)
def test_permissions_and_limits_of_a_user_are_repaired(broker: Broker, ctx: Context[Any], drift: Any) -> None:
    VHOST.ensure(limited(ctx))
    drift(broker)
    assert VHOST.ensure(limited(ctx))
    assert limits(broker) == (LIMITS, KEYS)
    assert VHOST.ensure(limited(ctx)) == []


def test_limits_that_are_taken_back_are_gone(broker: Broker, ctx: Context[Any]) -> None:
    VHOST.ensure(limited(ctx))
    VHOST.ensure(ctx)
    assert limits(broker) == (ALL, {})
    assert VHOST.ensure(ctx) == []


def test_a_virtual_host_that_stops_right_after_creation_is_started(broker: Broker, ctx: Context[Any]) -> None:
    """As members do that notice only now that the one before it was deleted; a member that is away has no state."""
    broker.states = {f"rabbit@rabbitmq-server-{number}.members": "stopped" for number in range(2)}
    VHOST.ensure(ctx)
    assert broker.vhosts["nova-cell1"]["cluster_state"] == dict.fromkeys(broker.states, "running")
    with_a_virtual_host_that_is_stopped(broker)
    said = "virtual host nova-cell1 repaired: members where it is stopped"
    assert VHOST.ensure(ctx) == [said]


def test_a_new_password_in_the_secret_reaches_the_broker(broker: Broker, ctx: Context[Any]) -> None:
    VHOST.ensure(ctx)
    rotated = replace(ctx, secrets={**ctx.secrets, "p": {"k": "new"}})
    assert VHOST.ensure(rotated) == ["user nova-cell1 repaired: password"]
    assert healthy(broker, "new")


def test_removal_takes_user_and_vhost_and_forgives_absence(broker: Broker, ctx: Context[Any]) -> None:
    VHOST.ensure(ctx)
    VHOST.remove(replace(ctx, secrets={"a": ctx.secrets["a"]}))
    VHOST.remove(ctx)
    assert set(broker.vhosts) == {"/"}
    assert set(broker.users) == {"admin"}


def test_a_virtual_host_that_is_retained_outlives_its_user(broker: Broker, ctx: Context[Any]) -> None:
    kept = replace(ctx, spec=ctx.spec.model_copy(update={"deletion_policy": "Retain"}))
    VHOST.ensure(kept)
    VHOST.remove(kept)
    assert ctx.spec.vhost in broker.vhosts
    assert broker.users.keys() == {"admin"}


@pytest.mark.security
def test_removal_keeps_virtual_host_and_user_of_another_resource(broker: Broker, ctx: Context[Any]) -> None:
    VHOST.ensure(ctx)
    VHOST.remove(replace(ctx, conflicting_fields=frozenset({"spec.vhost", "spec.user"})))
    assert healthy(broker)
    VHOST.remove(replace(ctx, conflicting_fields=frozenset({"spec.user"})))
    assert (set(broker.vhosts), set(broker.users)) == ({"/"}, {"admin", "nova-cell1"})


@pytest.mark.security
def test_the_administrator_is_nobodys_user(broker: Broker, ctx: Context[Any]) -> None:
    taken = replace(ctx, spec=ctx.spec.model_copy(update={"user": "admin"}))
    with pytest.raises(SpecError, match=r"spec\.user: 'admin' administers"):
        VHOST.ensure(taken)
    VHOST.remove(taken)
    assert "admin" in broker.users


def test_an_unreachable_or_refusing_broker_is_tried_again(ctx: Context[Any]) -> None:
    with pytest.raises(Transient, match="unreachable"):
        VHOST.ensure(wanted("http://127.0.0.1:1"))
    refused = replace(ctx, secrets={**ctx.secrets, "a": {"default_user": "admin", "default_pass": "wrong-secret"}})
    with pytest.raises(Transient, match="401") as caught:
        VHOST.ensure(refused)
    assert "wrong-secret" not in str(caught.value)
    with pytest.raises(Transient, match="has not published its managementURL"):
        VHOST.ensure(replace(ctx, refs={}))
    with pytest.raises(Transient, match="no key 'default_user'"):
        VHOST.ensure(replace(ctx, secrets={}))


@pytest.mark.parametrize("status", [500, 503, 429, 409, 403])
def test_trouble_of_the_broker_is_transient(broker: Broker, ctx: Context[Any], status: int) -> None:
    broker.fault = Answer(status, {"reason": "trouble"})
    with pytest.raises(Transient, match=f"HTTP {status}: "):
        VHOST.ensure(ctx)


@pytest.mark.security
def test_a_refusal_by_the_broker_names_the_field_and_hides_the_password(broker: Broker, ctx: Context[Any]) -> None:
    broker.fault = Answer(400, {"error": "bad_request", "reason": "vhost limit of 1 is reached"})
    with pytest.raises(SpecError, match=r"spec\.vhost: .*raise vhost_max"):
        VHOST.ensure(ctx)
    broker.vhosts["nova-cell1"] = {}
    broker.fault = Answer(400, {"error": "bad_request", "reason": f"weak password {PASSWORD}"})
    with pytest.raises(SpecError, match=r"spec\.user: ") as caught:
        VHOST.ensure(ctx)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("value", ["", "two\nlines"])
def test_a_password_that_cannot_work_is_refused(ctx: Context[Any], value: str) -> None:
    with pytest.raises(SpecError, match=r"spec\.passwordSecretRef: ") as caught:
        VHOST.ensure(replace(ctx, secrets={**ctx.secrets, "p": {"k": value}}))
    assert not value or value not in str(caught.value)


def test_a_missing_password_is_a_missing_reference(ctx: Context[Any]) -> None:
    with pytest.raises(MissingReference, match=r"spec\.passwordSecretRef: there is no Secret 'p' with a key 'k'"):
        VHOST.ensure(replace(ctx, secrets={**ctx.secrets, "p": {}}))


@pytest.mark.security
def test_names_are_quoted_in_addresses(broker: Broker, ctx: Context[Any]) -> None:
    odd = ctx.spec.model_copy(update={"vhost": "../users/admin", "user": "a/b?c#d"})
    VHOST.ensure(replace(ctx, spec=odd))
    assert "../users/admin" in broker.vhosts
    assert "a/b?c#d" in broker.users
    VHOST.remove(replace(ctx, spec=odd))
    assert set(broker.users) == {"admin"}


def test_hashes_as_rabbitmq_documents_them() -> None:
    # The worked example of https://www.rabbitmq.com/docs/passwords: password test12, salt 908D C60A.
    assert matches("test12", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")
    assert not matches("test13", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")
    assert not matches("x", "not base64!")


def test_an_alarm_that_blocks_publishers_is_reported_after_the_rest_is_done(broker: Broker, ctx: Context[Any]) -> None:
    broker.nodes[0] |= {"disk_free_alarm": True, "disk_free": 300 << 20, "disk_free_limit": 500_000_000}
    with pytest.raises(
        Transient, match=r"rabbitmq-server-0: 300 MiB of its volume are free, less than the limit of 476"
    ):
        VHOST.ensure(ctx)
    assert "nova-cell1" in broker.vhosts
    broker.nodes[0] |= {"disk_free_alarm": False, "mem_alarm": True}
    with pytest.raises(Transient, match="rabbitmq-server-0: its memory limit is reached"):
        VHOST.ensure(ctx)
    broker.nodes[0]["mem_alarm"] = False
    VHOST.ensure(ctx)


def test_feature_flags_are_enabled_once_every_member_supports_them(broker: Broker, ctx: Context[Any]) -> None:
    VHOST.ensure(ctx)
    old = {"state": "enabled", "stability": "required"}
    new = {"state": "disabled", "stability": "stable"}
    trial = {"state": "disabled", "stability": "experimental"}
    broker.flags = {"quorum_queue": old, "message_containers": new | {"unsupported": True}, "khepri_db": trial}
    writes = broker.writes
    assert VHOST.ensure(ctx) == []
    broker.flags["message_containers"].pop("unsupported")
    assert VHOST.ensure(ctx) == ["feature flags enabled: 1"]
    assert VHOST.ensure(ctx) == []
    assert broker.writes == writes + 2
    assert broker.flags["khepri_db"]["state"] == "disabled"
