"""Glance: an image service with its images on a volume."""

from __future__ import annotations

from dataclasses import replace

from ... import kube, oslo, parts
from ...api import Sections
from ...plan import Context, NotBuilt, Plan, Step
from .model import GlanceSpec

STATE = "/var/lib/glance"
# Where Glance serves HTTP itself, as in Kolla's image, it would fork one process a core; uWSGI does not look.
DEFAULTS: Sections = {"DEFAULT": {"workers": 1}}


def glance_conf() -> Sections:
    """A file store, and the two that tasks and staged uploads need."""
    return {
        "DEFAULT": {"enabled_backends": "file:file"},
        "glance_store": {"default_backend": "file"},
        "file": {"filesystem_store_datadir": f"{STATE}/images"},
        "os_glance_staging_store": {"filesystem_store_datadir": f"{STATE}/staging"},
        "os_glance_tasks_store": {"filesystem_store_datadir": f"{STATE}/tasks"},
        "paste_deploy": {"flavor": "keystone"},
    }


def plan(ctx: Context[GlanceSpec]) -> Plan:
    """Everything a Glance is made of; published: internalURL, publicURL."""
    if ctx.spec.storage_type != "pvc":
        raise NotBuilt("spec.storageType", f"{ctx.spec.storage_type} is not built yet; use pvc")
    base = parts.foundation(ctx)
    conf = parts.config(ctx, "glance-api.conf", oslo.merge(base.sections, glance_conf()), defaults=DEFAULTS)
    claim = _claim(ctx)
    volume = kube.Mount(
        name="images", path=STATE, volume={"persistentVolumeClaim": {"claimName": claim.objects[0]["metadata"]["name"]}}
    )
    sync = parts.job(ctx, "db-sync", ["glance-manage", "db_sync"], conf, after=base.schema, condition="Schema")
    api = parts.api(
        ctx,
        "api",
        9292,
        conf,
        settings=ctx.spec.api,
        after=(*base.steps, claim, sync),
        mounts=(volume,),
        home=False,
    )
    if ctx.spec.storage.access_mode == "ReadWriteOnce":
        api = _one_at_a_time(api)
    entry = parts.catalog(ctx, "image", "Image", api, after=(*base.steps, api))
    return Plan(*base.steps, claim, conf, sync, api, entry, endpoint=api.public, published=api.published)


def _one_at_a_time(api: parts.Api) -> parts.Api:
    """The same API whose new pod starts when the old one has let go of the volume: on another node it could not have it
    before, and the old one would be kept until the new one is ready.
    """
    recreated = [
        {**obj, "spec": {**obj["spec"], "strategy": {"type": "Recreate"}}} if obj["kind"] == "Deployment" else obj
        for obj in api.objects
    ]
    return replace(api, objects=tuple(recreated))


def _claim(ctx: Context[GlanceSpec]) -> Step:
    """The volume of the images."""
    storage = ctx.spec.storage
    wanted = kube.obj(
        ctx,
        "PersistentVolumeClaim",
        ctx.name("images"),
        spec={
            "accessModes": [storage.access_mode],
            "storageClassName": storage.storage_class,
            "resources": {"requests": {"storage": storage.size}},
        },
    )
    wanted = kube.annotated(wanted, {kube.FIELD: "spec.storage.size"})
    if storage.retention == "Retain":
        wanted = kube.retained(wanted)
    return Step(name="Storage", objects=(wanted,))
