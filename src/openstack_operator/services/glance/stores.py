"""Stores of images: the options of each, and what pods need to reach it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ... import kube, oslo
from ...api import CephSource, Sections
from ...parts.connect.ceph import Ceph, ceph_client
from ...parts.run.files import volume_claim, volume_source
from ...plan import Context, SpecError, Step
from .model import GlanceSpec, Store, stores

STATE = "/var/lib/glance"
CONFIG = "/etc/glance"


@dataclass(frozen=True, kw_only=True)
class StorePlan:
    """A store, as a step of the plan and as options."""

    sections: Sections
    steps: tuple[Step, ...] = ()
    client: Ceph | None = None
    mounts: Sequence[kube.Mount] = ()
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files beside glance-api.conf, by name."""


def store_plans(ctx: Context[GlanceSpec], user: Mapping[str, str]) -> list[StorePlan]:
    """Return every store; `user` are the keystoneauth options of this service's own user. Raises SpecError."""
    kinds = {"pvc": _volume, "ceph": _ceph, "swift": _swift, "s3": _s3}
    plans = [kinds[store.type](ctx, store, user, index) for index, store in enumerate(stores(ctx.spec))]
    keys: dict[str, str] = {}
    for client in (plan.client for plan in plans if plan.client):
        # A keyring is found by the name of its user.
        if keys.setdefault(client.user, client.key) != client.key:
            message = f"two stores use {client.user} with different keys; use another client for one"
            raise SpecError("spec.storage.backends", message)
    return plans


def sections(ctx: Context[GlanceSpec], plans: Sequence[StorePlan]) -> Sections:
    """Return the options of all stores, and of the two folders for unfinished uploads and imports."""
    image_stores = stores(ctx.spec)
    drivers = {"pvc": "file", "ceph": "rbd", "swift": "swift", "s3": "s3"}
    return oslo.merge(
        {
            "DEFAULT": {"enabled_backends": ",".join(f"{store.name}:{drivers[store.type]}" for store in image_stores)},
            "glance_store": {"default_backend": image_stores[0].name},
            "os_glance_staging_store": {"filesystem_store_datadir": f"{STATE}/staging"},
            "os_glance_tasks_store": {"filesystem_store_datadir": f"{STATE}/tasks"},
        },
        *(plan.sections for plan in plans),
    )


def _volume(ctx: Context[GlanceSpec], store: Store, _user: Mapping[str, str], _index: int) -> StorePlan:
    images = volume_claim(ctx, "images", ctx.spec.storage, "spec.storage")
    return StorePlan(
        sections={store.name: {"filesystem_store_datadir": f"{STATE}/images"}},
        steps=(Step(name="Storage", objects=(images,)),),
        mounts=(kube.Mount(name="images", path=STATE, volume=volume_source(images)),),
    )


def _ceph(ctx: Context[GlanceSpec], store: Store, _user: Mapping[str, str], index: int) -> StorePlan:
    several = bool(ctx.spec.storage.backends)
    path = f"spec.storage.backends[{index}].rbd" if several else "spec.storage.rbd"
    folder = f"/etc/ceph/{store.name}" if several else ""
    source = store.rbd or CephSource()
    client = ceph_client(ctx, "images", source, path=path, name=f"ceph-{store.name}", folder=folder)
    options = {
        "rbd_store_pool": client.pool,
        "rbd_store_user": client.id,
        "rbd_store_ceph_conf": client.conf,
        "rbd_store_chunk_size": 8,
        # Blocks of zeros take no room.
        "rbd_thin_provisioning": True,
    }
    return StorePlan(sections={store.name: options}, steps=(client,), client=client)


def _swift(ctx: Context[GlanceSpec], store: Store, user: Mapping[str, str], _index: int) -> StorePlan:
    swift = store.swift
    if "password" not in user and not (swift and swift.user):
        text = "Glance cannot use an application credential for Swift; set user and passwordRef"
        raise SpecError("spec.storage.swift", text)
    if swift and swift.auth_url and not swift.user:
        # The password of this service's own user is not for another Keystone.
        text = "another Keystone does not know this service's user; set user and passwordRef, or remove authUrl"
        raise SpecError("spec.storage.swift", text)
    name = swift.user if swift and swift.user else user["username"]
    password = ctx.secrets[swift.password_ref.name][swift.password_ref.key] if swift and swift.password_ref else ""
    account = {
        "user": f"{swift.project if swift else user['project_name']}:{name}",
        # The reader takes a percent sign for the beginning of a reference.
        "key": (password or user["password"]).replace("%", "%%"),
        "auth_address": swift.auth_url if swift and swift.auth_url else user["auth_url"],
        "auth_version": "3",
        "project_domain_name": "Default",
        "user_domain_name": "Default",
    }
    # All stores of a process share the contents of these files, so accounts are named after their stores.
    file = f"swift-{store.name}.conf"
    options = {
        "default_swift_reference": store.name,
        "swift_store_config_file": f"{CONFIG}/{file}",
        "swift_store_container": swift.container if swift else "glance",
        "swift_store_create_container_on_put": True,
        "swift_store_endpoint_type": "publicURL" if swift and swift.auth_url else "internalURL",
        **({"swift_store_cacert": user["cafile"]} if "cafile" in user and not (swift and swift.auth_url) else {}),
    }
    return StorePlan(sections={store.name: options}, files={file: oslo.render({store.name: account})})


def _s3(ctx: Context[GlanceSpec], store: Store, _user: Mapping[str, str], _index: int) -> StorePlan:
    s3 = store.s3
    if s3 is None:
        raise SpecError("spec.storage.s3", "type s3 needs a server; set url and both keys")
    access, secret = (ctx.secrets[ref.name][ref.key] for ref in (s3.access_key_ref, s3.secret_key_ref))
    options = {
        "s3_store_host": s3.url,
        "s3_store_access_key": oslo.Verbatim(access),
        "s3_store_secret_key": oslo.Verbatim(secret),
        "s3_store_bucket": s3.bucket,
        "s3_store_create_bucket_on_put": True,
        # Names of buckets in front of a server's name need entries in DNS that most servers do not have.
        "s3_store_bucket_url_format": "path",
        **({"s3_store_region_name": s3.region} if s3.region else {}),
    }
    return StorePlan(sections={store.name: options})
