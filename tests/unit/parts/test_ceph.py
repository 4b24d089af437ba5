"""What a service is told of Ceph, from a CephStorage or from a Secret of the user's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from openstack_operator.api import CephSource, Model, Resource, references, structural, whole_secrets
from openstack_operator.kube import secret_data
from openstack_operator.parts import written
from openstack_operator.parts.connect.ceph import Ceph, ceph_client, coordinates, keyring, login, monitors, on_ceph
from openstack_operator.plan import Incomplete, MissingReference, Release
from openstack_operator.testing import context

KEY = "AQBvaWJlAAAAABAAaGVsbG9oZWxsb2hlbGxvIQ=="


class Spec(Model):
    """A service that keeps images in Ceph."""

    rbd: CephSource = CephSource()
    """Where."""
    plain: ClassVar[int] = 0


TOY = Resource(kind="Toy", plural="toys", spec=Spec)
PUBLISHED = {
    "CephStorage": {
        "monitors": "[v2:10.0.0.1:3300,v1:10.0.0.1:6789],[v2:10.0.0.2:3300,v1:10.0.0.2:6789]",
        "fsid": "11111111-2222-3333-4444-555555555555",
        "imagesUser": "client.glance",
        "imagesPool": "images",
        "imagesSecret": "ceph-client-glance",
    }
}
CONF = "[global]\nfsid = 11111111-2222-3333-4444-555555555555\nmon host = 10.0.0.1:6789 10.0.0.2:6789 # two\n"
RING = f'[client.glance]\n\tkey = {KEY}\n\tcaps mon = "profile rbd"\n'


def found(
    spec: dict[str, Any], secrets: dict[str, dict[str, str]], use: Any = "images", *, beside: bool = False
) -> Ceph:
    """The client of a spec; a CephStorage `beside` a Secret is one that the spec does not name."""
    ctx = context(TOY, spec, release=Release("", "", {}), published=PUBLISHED, secrets=secrets)
    if not beside:
        ctx = replace(ctx, refs={ref: each for ref, each in ctx.refs.items() if not ref.optional})
    return ceph_client(ctx, use, ctx.spec.rbd, path="spec.rbd")


def of_storage(key: str = KEY) -> Ceph:
    return found({}, {"ceph-client-glance": {"ceph.conf": CONF, "keyring": RING, "key": key}})


def of_secret(conf: str = CONF, ring: str = RING, **source: Any) -> Ceph:
    data = {"ceph.conf": conf, "keyring": ring}
    return found({"rbd": {"cephSecretRef": {"name": "mine"}, **source}}, {"mine": data})


def test_a_cephstorage_is_meant_where_nobody_says_where() -> None:
    [(path, ref)] = references(Spec())
    assert (path, ref.kind, ref.name) == ("spec.rbd.cephStorageRef", "CephStorage", "ceph")
    mine = Spec.model_validate({"rbd": {"cephSecretRef": {"name": "mine"}}})
    [(_, beside)] = references(mine)
    assert beside.optional and beside.name == "ceph"
    assert [(path, ref.name) for path, ref in whole_secrets(mine)] == [("spec.rbd.cephSecretRef", "mine")]
    assert "cephStorageRef" in structural(Spec)["properties"]["rbd"]["properties"]


def test_a_client_of_a_cephstorage() -> None:
    client = of_storage()
    assert (client.id, client.user, client.pool) == ("glance", "client.glance", "images")
    assert len(client.monitors) == 2
    assert [mount.path for mount in client.mounts] == [client.conf, "/etc/ceph/ceph.client.glance.keyring"]
    assert of_storage("another").digest != client.digest


def test_a_ceph_user_has_one_name_in_libvirt_however_it_is_referenced() -> None:
    assert of_storage().secret_uuid == of_secret().secret_uuid
    assert of_storage().secret_uuid != of_secret(CONF.replace("1111-", "9999-")).secret_uuid


def test_a_client_the_cephstorage_does_not_have() -> None:
    with pytest.raises(MissingReference, match="no client for backups"):
        found({}, {}, "backups")


def test_another_pool_than_the_cephstorages() -> None:
    with pytest.raises(Incomplete, match=r"spec\.rbd\.pool.*'images'"):
        found({"rbd": {"pool": "other"}}, {"ceph-client-glance": {"key": KEY}})


def test_a_secret_becomes_one_of_ours() -> None:
    client = of_secret(CONF + "[client]\nkeyring = /etc/ceph/other.keyring\n", pool="pictures")
    [secret] = client.objects
    assert set(secret["data"]) == {"ceph.conf", "keyring", "key"}
    assert (client.pool, client.key, client.fsid[:8]) == ("pictures", KEY, "11111111")
    assert client.monitors == ("10.0.0.1:6789", "10.0.0.2:6789")
    assert "keyring" not in coordinates({"ceph.conf": "fsid=a\nmon_host=b\nkeyring=c"}, "", "")[0]


def test_missing_parts_of_a_ceph_secret_are_named() -> None:
    with pytest.raises(MissingReference, match=r"spec\.rbd\.cephSecretRef.*'fsid'"):
        of_secret("[global]\nmon host = a\n")
    with pytest.raises(MissingReference, match="'mon host'"):
        of_secret("[global]\nfsid = a\nmon-host =\n")
    with pytest.raises(MissingReference, match="holds 0 clients"):
        of_secret(ring="[client.glance]\n[mon.]\nkey = abc=\n")
    with pytest.raises(MissingReference, match="no key 'keyring'"):
        found({"rbd": {"cephSecretRef": {"name": "mine"}}}, {"mine": {"ceph.conf": CONF}})


def test_keyrings_as_ceph_writes_them() -> None:
    caps = {"mon": "profile rbd", "osd": "profile rbd pool=images"}
    assert login({"keyring": keyring("client.glance", KEY, caps)}, "s", "f") == ("client.glance", KEY)
    shown = f'[client.glance]\n        key = {KEY}\n        caps mon = "profile rbd"\n'
    assert login({"keyring": shown}, "s", "f") == ("client.glance", KEY)


def test_monitors() -> None:
    assert monitors("a, b;c  d") == ("a", "b", "c", "d")
    assert monitors("[v2:a:3300/0,v1:a:6789/0],[v2:b:3300/0]") == ("[v2:a:3300/0,v1:a:6789/0]", "[v2:b:3300/0]")


def test_a_rotated_key_is_another_configuration() -> None:
    ctx = context(TOY, {}, release=Release("", "", {}), published=PUBLISHED)
    conf = written(ctx, {"toy.conf": ""}, directory="/etc/toy")
    old, new = on_ceph(conf, of_storage()), on_ceph(conf, of_storage("another"))
    assert len({conf.digest, old.digest, new.digest}) == 3
    assert [mount.path for mount in old.mounts][1:] == [mount.path for mount in of_storage().mounts]


ROOK = {"mon_host": "[v2:10.0.0.1:3300,v1:10.0.0.1:6789]", "fsid": "11111111-2222-3333-4444-555555555555"}


def of_rook(data: dict[str, str], **source: Any) -> Ceph:
    return found({"rbd": {"cephSecretRef": {"name": "mine"}, **source}}, {"mine": data})


def test_a_ceph_secret_of_rook_is_accepted_as_it_is() -> None:
    named = {"cephClientRef": {"name": "glance", "namespace": "rook-ceph"}}
    secrets = [
        ({**ROOK, "userID": "glance", "userKey": KEY}, {}),
        ({**ROOK, "glance": KEY, "userID": "glance", "userKey": KEY}, named),
        ({**ROOK, "glance": f"{KEY}\n"}, named),
        ({"ceph.conf": CONF, "glance": KEY}, named),
    ]
    for data, source in secrets:
        client = of_rook(data, **source)
        assert (client.user, client.key, client.secret_uuid) == ("client.glance", KEY, of_secret().secret_uuid)
    assert of_rook(*secrets[0][:1]).monitors == (ROOK["mon_host"],)
    [secret] = of_rook(*secrets[0][:1]).objects
    assert f"mon host = {ROOK['mon_host']}\n" in secret_data(secret)["ceph.conf"]


OF_STORAGE = {"ceph.conf": f"{CONF}ms client mode = secure\n", "keyring": RING, "key": "of the storage"}


def of_key(data: dict[str, str], **source: Any) -> Ceph:
    """A Secret of a client, beside the CephStorage `ceph`."""
    spec = {"rbd": {"cephSecretRef": {"name": "mine"}, **source}}
    return found(spec, {"mine": data, "ceph-client-glance": OF_STORAGE}, beside=True)


@pytest.mark.parametrize(
    ("data", "source"),
    [
        ({"userID": "own", "userKey": KEY}, {}),
        ({"own": KEY}, {"cephClientRef": {"name": "own", "namespace": "rook-ceph"}}),
        ({"keyring": f"[client.own]\n\tkey = {KEY}\n"}, {}),
    ],
)
def test_a_key_alone_is_for_the_ceph_of_the_namespace(data: dict[str, str], source: Any) -> None:
    """As Rook writes the Secret of a CephClient."""
    client = of_key(data, **source)
    assert (client.user, client.key, client.pool) == ("client.own", KEY, "images")
    fsid = "11111111-2222-3333-4444-555555555555"
    assert (client.fsid, client.monitors) == (fsid, ("10.0.0.1:6789", "10.0.0.2:6789"))
    [secret] = client.objects
    # How its clients connect counts for this one, too.
    assert "ms client mode = secure" in secret_data(secret)["ceph.conf"]


def test_a_secret_with_a_cluster_is_for_that_cluster() -> None:
    data = {"userID": "own", "userKey": KEY, "mon_host": "192.0.2.1", "fsid": "a"}
    [secret] = of_key(data).objects
    assert "mon host = 192.0.2.1" in secret_data(secret)["ceph.conf"]
    with pytest.raises(MissingReference, match="nor 'fsid'"):
        of_key({"userID": "own", "userKey": KEY, "mon_host": "192.0.2.1"})


def test_a_key_alone_waits_for_the_ceph_of_the_namespace() -> None:
    with pytest.raises(MissingReference, match="or create CephStorage 'ceph'"):
        of_rook({"userID": "own", "userKey": KEY})


def test_missing_parts_of_a_copied_rook_secret_are_named() -> None:
    login_only = {"userID": "glance", "userKey": KEY}
    with pytest.raises(MissingReference, match=r"spec\.rbd\.cephSecretRef.*'ceph.conf', nor 'mon_host'.*rook-ceph-mon"):
        of_rook(login_only)
    with pytest.raises(MissingReference, match=r"'ceph.conf', nor 'fsid'"):
        of_rook({**login_only, "mon_host": "a"})
    with pytest.raises(MissingReference, match="nor 'userID' and 'userKey'"):
        of_rook({**ROOK, "userKey": KEY})
    with pytest.raises(MissingReference, match="nor the key of CephClient 'cinder'"):
        of_rook({**ROOK, **login_only}, cephClientRef={"name": "cinder"})


@pytest.mark.security
@pytest.mark.parametrize(
    ("login", "client", "field"),
    [
        ({"userID": "glance", "userKey": "a\n[client.admin]\n\tkey = b"}, {}, "userKey"),
        ({"userID": "glance\rrbd_store_pool = vms", "userKey": "a"}, {}, "userID"),
        ({"cinder": "a\r[client.admin]"}, {"cephClientRef": {"name": "cinder"}}, "cinder"),
    ],
)
def test_a_login_of_several_lines_is_refused(login: dict[str, str], client: Any, field: str) -> None:
    with pytest.raises(
        Incomplete, match=rf"spec\.rbd\.cephSecretRef: key '{field}' of Secret .* must be a single line"
    ):
        of_rook({**ROOK, **login}, **client)
