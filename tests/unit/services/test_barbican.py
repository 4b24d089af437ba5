"""Barbican: what must hold besides its goldens, above all that no secret becomes unreadable."""

from __future__ import annotations

from configparser import ConfigParser
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.parts.secrets.key_ring import KeyRing, read_ring
from openstack_operator.plan import Incomplete, MissingReference, Object, Plan, Release, key
from openstack_operator.services.barbican.keks import ring_from_config
from openstack_operator.services.barbican.model import BARBICAN
from openstack_operator.services.barbican.service import plan
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import plan as cloud
from openstack_operator.testing import context
from tests.planning import draws, objects, rolled_out

PUBLISHED = {
    "MariaDB": {"host": "mariadb", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq", "port": "5672"},
    "Memcached": {"servers": "memcached:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
}
Objects = dict[tuple[str, str], Object]


def pods(children: Objects) -> list[Object]:
    """A pod of each Deployment, as its template has it."""
    return [obj["spec"]["template"] for (kind, _), obj in children.items() if kind == "Deployment"]


def planned(release: Release, children: Objects, *ending: Object, **spec: Any) -> Plan:
    """`ending` are further pods."""
    facts = {"secrets": [], "pods": [*pods(children), *ending]}
    ctx = context(
        BARBICAN,
        spec,
        release=release,
        published=PUBLISHED,
        children=children,
        draw=draws(),
        facts=facts,
    )
    return plan(ctx)


def ring(made: Plan) -> KeyRing:
    stored = read_ring(kube.secret_data(objects(made)["Secret", "barbican-kek"]), "kek")
    assert stored is not None
    return stored


def configured(made: Plan) -> list[str]:
    """Values of `kek`, in their order."""
    text = kube.secret_data(objects(made)["Secret", "barbican-config"])["barbican.conf"]
    return [line.partition(" = ")[2] for line in text.splitlines() if line.startswith("kek = ")]


def rewraps(made: Plan) -> list[str]:
    return [name for kind, name in objects(made) if kind == "Job" and "rewrap" in name]


def test_a_key_is_made_once_and_outlives_the_service(release: Release) -> None:
    first = planned(release, {})
    again = planned(release, rolled_out(first))
    assert ring(again) == ring(first)
    annotations = objects(first)["Secret", "barbican-kek"]["metadata"]["annotations"]
    assert annotations.items() >= {kube.IRREPLACEABLE: "true", kube.RETAIN: "true"}.items()


def test_programs_can_read_with_a_new_key_before_one_writes_with_it(release: Release) -> None:
    first = planned(release, {})
    (old,) = configured(first)
    given = planned(release, rolled_out(first), kekGeneration=2)
    assert configured(given)[0] == old
    assert len(configured(given)) == 2
    # The pods roll out: nothing changes until all have both keys.
    rolling = {
        name: {**obj, "status": {**obj["status"], "updatedReplicas": 0}} if name[0] == "Deployment" else obj
        for name, obj in rolled_out(given).items()
    }
    assert configured(planned(release, rolling, kekGeneration=2)) == configured(given)
    switched = planned(release, rolled_out(given), kekGeneration=2)
    assert configured(switched) == configured(given)[::-1]
    assert rewraps(given) == []
    assert len(rewraps(switched)) == 1


def test_a_pod_that_is_ending_counts_as_well(release: Release) -> None:
    """It serves for some seconds, and on a node that is cut off for longer."""
    first = rolled_out(planned(release, {}))
    (old, _) = pods(first)
    given = planned(release, first, kekGeneration=2)
    assert configured(planned(release, rolled_out(given), old, kekGeneration=2)) == configured(given)
    switched = planned(release, rolled_out(given), kekGeneration=2)
    last = planned(release, rolled_out(switched), old, kekGeneration=2)
    assert len(configured(last)) == 2, "an old pod could still encrypt with the old key"


def test_an_evicted_pod_does_not_count(release: Release) -> None:
    first = rolled_out(planned(release, {}))
    evicted = {**pods(first)[0], "status": {"phase": "Failed"}}
    given = planned(release, first, kekGeneration=2)
    assert configured(planned(release, rolled_out(given), evicted, kekGeneration=2)) == configured(given)[::-1]


def test_keys_come_back_from_the_configuration(release: Release) -> None:
    first = rolled_out(planned(release, {}))
    first.pop(("Secret", "barbican-kek"))
    again = planned(release, first)
    assert configured(again) == [key_in_config(first)]
    assert ring(again).keys.keys() == {1}


def key_in_config(children: Objects) -> str:
    conf = kube.secret_data(children["Secret", "barbican-config"])["barbican.conf"]
    return next(line.partition(" = ")[2] for line in conf.splitlines() if line.startswith("kek = "))


def test_a_barbican_that_lost_its_key_gets_no_other_one(release: Release) -> None:
    first = rolled_out(planned(release, {}))
    for name in ("barbican-kek", "barbican-config"):
        first.pop(("Secret", name))
    with pytest.raises(Incomplete, match="restore it from a backup"):
        planned(release, first)


def test_an_emptied_secret_is_no_reason_for_another_key(release: Release) -> None:
    first = rolled_out(planned(release, {}))
    key = key_in_config(first)
    first["Secret", "barbican-kek"] = {**first["Secret", "barbican-kek"], "data": {}}
    assert configured(planned(release, first)) == [key]


def test_keys_of_an_unfinished_replacement_come_back_in_their_order() -> None:
    assert ring_from_config("[x]\nkek = b\nkek = a\n", 2) == KeyRing({2: "b", 1: "a"}, 2)
    assert ring_from_config("kek = b\nkek = a\n", 1) == KeyRing({2: "b", 1: "a"}, 2)
    assert ring_from_config("[DEFAULT]\n", 1) is None


def test_the_old_key_goes_when_nothing_is_encrypted_with_it(release: Release) -> None:
    given = planned(release, rolled_out(planned(release, {})), kekGeneration=2)
    switched = planned(release, rolled_out(given), kekGeneration=2)
    done = rolled_out(switched)
    (job,) = rewraps(switched)
    unfinished = {**done, ("Job", job): {**done["Job", job], "status": {}}}
    assert len(configured(planned(release, unfinished, kekGeneration=2))) == 2
    last = planned(release, done, kekGeneration=2)
    assert configured(last) == configured(switched)[:1]
    assert ring(last).keys.keys() == {2}
    assert rewraps(last) == []


def test_each_generation_has_a_job_of_its_own(release: Release) -> None:
    children, jobs = rolled_out(planned(release, {})), list[str]()
    for generation in (2, 3):
        for _ in range(3):
            made = planned(release, children, kekGeneration=generation)
            children = rolled_out(made)
            jobs += rewraps(made)
        assert ring(planned(release, children, kekGeneration=generation)).keys.keys() == {generation}
    assert len(set(jobs)) == 2


@pytest.mark.proves("OpenStackControlPlane", "spec.barbican.enabled", "spec.barbican.*")
def test_a_cloud_runs_one_if_it_is_enabled(release: Release) -> None:
    off = {key(obj) for obj in cloud(context(CONTROL_PLANE, {}, release=release)).objects}
    assert ("Barbican", "barbican") not in off
    spec = {"barbican": {"enabled": True, "replicas": 3}}
    made = {key(obj): obj for obj in cloud(context(CONTROL_PLANE, spec, release=release)).objects}
    assert made["Barbican", "barbican"]["spec"]["replicas"] == 3
    assert made["Barbican", "barbican"]["spec"]["tls"]["pkiRef"] == {"name": "internal"}


VAULT = {
    "url": "https://vault.example.org:8200",
    "roleIdRef": {"name": "vault", "key": "role-id"},
    "secretIdRef": {"name": "vault", "key": "secret-id"},
}
LOGIN = {"vault": {"role-id": "role\n", "secret-id": "pa$s"}, "ca": {"ca.crt": "PEM"}, "empty": {}}


def with_vault(release: Release, **vault: Any) -> Plan:
    spec = {"vault": {**VAULT, **vault}}
    return plan(context(BARBICAN, spec, release=release, published=PUBLISHED, secrets=LOGIN, draw=lambda: "drawn"))


def conf_of(made: Plan) -> ConfigParser:
    parser = ConfigParser(interpolation=None, default_section="none", strict=False)
    parser.read_string(kube.secret_data(objects(made)["Secret", "barbican-config"])["barbican.conf"])
    return parser


def test_new_secrets_go_to_the_vault_and_old_ones_stay_readable(release: Release) -> None:
    conf = conf_of(with_vault(release))
    assert conf["secretstore"]["stores_lookup_suffix"] == "simple_crypto,vault"
    stores = {name: dict(conf[f"secretstore:{name}"]) for name in ("simple_crypto", "vault")}
    assert stores == {
        "simple_crypto": {
            "secret_store_plugin": "store_crypto",
            "crypto_plugin": "simple_crypto",
            "global_default": "false",
        },
        "vault": {"secret_store_plugin": "vault_plugin", "global_default": "true"},
    }
    assert conf["simple_crypto_plugin"]["kek"]
    assert dict(conf["vault_plugin"]) == {
        "vault_url": VAULT["url"],
        "use_ssl": "true",
        "kv_mountpoint": "secret",
        "approle_role_id": "role",
        "approle_secret_id": "pa$$s",
        "root_token_id": "",
    }
    back = conf_of(with_vault(release, newSecrets="database"))
    assert [back[f"secretstore:{name}"]["global_default"] for name in ("simple_crypto", "vault")] == ["true", "false"]


def test_a_barbican_without_a_vault_has_one_store_and_tries_none(release: Release) -> None:
    made = planned(release, {})
    assert conf_of(made)["secretstore"]["enable_multiple_secret_stores"] == "false"
    assert not any(name.startswith("barbican-check-vault") for kind, name in objects(made) if kind == "Job")


def test_programs_wait_until_the_vault_was_tried_at_this_address(release: Release) -> None:
    def job(made: Plan) -> str:
        [name] = [name for kind, name in objects(made) if kind == "Job" and name.startswith("barbican-check-vault")]
        return name

    made = with_vault(release)
    steps = {step.name: step for step in made.condition}
    assert steps["Vault"].barrier
    assert all(steps["Vault"] in steps[name].after for name in ("API", "Worker"))
    assert len({job(with_vault(release, **each)) for each in ({}, {"mount": "kv"}, {"namespace": "a"})}) == 3


@pytest.mark.security
def test_of_the_secret_with_the_vaults_authorities_nothing_else_gets_into_pods(release: Release) -> None:
    made = with_vault(release, caSecretRef={"name": "ca"})
    assert conf_of(made)["vault_plugin"]["ssl_ca_crt_file"] == "/etc/openstack-vault/ca.crt"
    for obj in objects(made).values():
        if obj["kind"] in {"Deployment", "Job"} and "db-purge" not in obj["metadata"]["name"]:
            volumes = {each["name"]: each for each in obj["spec"]["template"]["spec"]["volumes"]}
            assert volumes["vault"]["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    with pytest.raises(MissingReference, match=r"spec\.vault\.caSecretRef"):
        with_vault(release, caSecretRef={"name": "empty"})


@pytest.mark.security
@pytest.mark.parametrize("url", ["http://vault.example.org", "https://user:word@vault.example.org", "vault"])
def test_a_vault_is_reached_by_tls_alone(url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        BARBICAN.spec.model_validate({"vault": {**VAULT, "url": url}})


def test_a_cron_job_purges_secrets_of_deleted_projects_unless_disabled(release: Release) -> None:
    made = objects(planned(release, {}))
    job = made["CronJob", "barbican-purge"]["spec"]
    (container,) = job["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"][-1] == "30"
    assert job["concurrencyPolicy"] == "Forbid"
    assert ("CronJob", "barbican-purge") not in objects(planned(release, {}, purge={"enabled": False}))


@pytest.mark.security
def test_a_key_of_several_lines_is_refused(release: Release) -> None:
    children = objects(planned(release, {}))
    data = {"kek.1": "a\rhost_href = b", "active": "1"}
    children["Secret", "barbican-kek"] = kube.secret(context(BARBICAN, release=release), "barbican-kek", data)
    with pytest.raises(
        Incomplete, match=r"'kek\.1' of Secret 'barbican-kek' must be a single line; restore the previous"
    ):
        planned(release, children)
