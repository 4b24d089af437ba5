"""Glance: an image service, and the stores it keeps images in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from urllib.parse import urlsplit

from ... import agents, kube, oslo, parts
from ...api import Sections
from ...parts.connect.ceph import on_ceph
from ...parts.connect.key_manager import key_manager
from ...parts.run.workloads import Api
from ...plan import Context, Plan, Step
from .model import GlanceSpec, may_spread, stores
from .stores import CONFIG, STATE, StorePlan, sections, store_plans

_SERVICE_TYPE = "image"
PORT = 9292
INTERNAL = "internal-api"
# Where Glance serves HTTP itself, as in Kolla's image, it would fork one process a core; uWSGI does not look.
DEFAULTS: Sections = {"DEFAULT": {"workers": 1}}
_CACHE = f"{STATE}/image-cache"
_SHOW_LOCATIONS = {"OS_DEFAULT__SHOW_IMAGE_DIRECT_URL": "true", "OS_DEFAULT__SHOW_MULTIPLE_LOCATIONS": "true"}
"""Nova and Cinder clone an image only if Glance shows its location, and register a snapshot by its location. A client
that may do so reads any image in the pool, so users have another API. oslo.config prefers these variables to its files.
"""
# Glance's own node, metadata services of cloud providers, and the API server: Glance compares whole names, so that each
# way to write one counts.
_NOT_THE_WEB = (
    "localhost,localhost.localdomain,127.0.0.1,0.0.0.0,::1,::,169.254.169.254,fd00:ec2::254,100.100.100.200,"
    "metadata.google.internal,metadata,kubernetes.default,kubernetes.default.svc"
)


def plan(ctx: Context[GlanceSpec]) -> Plan:
    """Return everything that a Glance consists of; published: internalURL, publicURL."""
    base = parts.foundation(ctx, service_type=_SERVICE_TYPE)
    image_stores = store_plans(ctx, base.auth)
    files = {**{name: text for store in image_stores for name, text in store.files.items()}, **parts.policy_files(ctx)}
    # Only signed images need Barbican, so that Glance does not wait for it.
    fixed_options = oslo.merge(
        base.sections, _glance_conf(ctx), sections(ctx, image_stores), key_manager(ctx, base.auth)
    )
    defaults = oslo.merge(DEFAULTS, _import_methods(ctx))
    conf = parts.config(ctx, "glance-api.conf", fixed_options, defaults=defaults, extra_files=files, directory=CONFIG)
    storage = tuple(dict.fromkeys(chain.from_iterable(store.steps for store in image_stores)))
    clients = [store.client for store in image_stores if store.client]
    manage = ["glance-manage", "--config-file", f"{CONFIG}/glance-api.conf", "db"]
    expansion = agents.shell("glance/extend_schema.sh", words=manage) if ctx.upgrades_from else [*manage, "sync"]
    sync = parts.schema(ctx, expansion, conf, after=base.schema)
    # Clients read them, the API does not: it need not wait.
    definitions = _definitions(ctx, conf, after=(sync,))
    after = (*base.steps, *storage, sync)
    api_conf = on_ceph(conf, *clients) if clients else conf
    has_ceph_store = any(store.type == "ceph" for store in stores(ctx.spec))
    has_internal_api = has_ceph_store and may_spread(ctx.spec)
    api = _api(ctx, "api", api_conf, image_stores, after, shows_locations=has_ceph_store and not has_internal_api)
    internal = _api(ctx, INTERNAL, api_conf, image_stores, after, shows_locations=True) if has_internal_api else api
    listed = replace(api, internal=internal.internal)
    entry = parts.catalog(ctx, _SERVICE_TYPE, "Image", listed, after=(*base.steps, api, internal))
    ceph_conf = (api_conf,) if clients else ()
    apis = (api, internal) if has_internal_api else (api,)
    completion = parts.completion(ctx, [*manage, "contract"], conf)
    ingress = [parts.IngressRule(INTERNAL, [PORT], "cloud")] if has_internal_api else []
    steps = (
        *parts.policies(ctx, *ingress),
        *base.steps,
        *storage,
        conf,
        *ceph_conf,
        sync,
        definitions,
        *apis,
        entry,
        *completion,
    )
    # In a cloud that had one API, services call it until the internal one is ready: then the catalog names that.
    called = api if _is_in_catalog(ctx, api) else internal
    published = {**base.credentials.published, **api.published, "internalURL": called.internal}
    preflight = parts.preflight(ctx, conf, *manage[1:3])
    return Plan(*steps, endpoint=api.public, published=published, preflight=preflight)


def _definitions(ctx: Context[GlanceSpec], conf: parts.Config, *, after: Sequence[Step]) -> Step:
    """Return the job that loads the metadata definitions of the image."""
    command = agents.shell("glance/load_metadefs.sh")
    env = {"CONFIG_FILE": f"{conf.directory}/glance-api.conf", "METADEFS": f"{conf.directory}/metadefs"}
    program = parts.ProgramSettings(env=env)
    return parts.job(ctx, "metadefs", command, conf, after=after, condition="Definitions", program=program)


def _is_in_catalog(ctx: Context[GlanceSpec], api: Api) -> bool:
    """Return True if the current internal endpoint in the catalog is this API; the scheme may differ."""
    entry = ctx.live("KeystoneService", "catalog") or {}
    endpoint = entry.get("spec", {}).get("endpoints", {}).get("internal", "")
    return urlsplit(endpoint).hostname == urlsplit(api.internal).hostname


def _api(
    ctx: Context[GlanceSpec],
    component: str,
    conf: parts.Config,
    image_stores: Sequence[StorePlan],
    after: Sequence[Step],
    *,
    shows_locations: bool,
) -> Api:
    """Return an Image API. One with locations shows where in Ceph an image is, and accepts a location as an image."""
    mounts = tuple(chain.from_iterable(store.mounts for store in image_stores))
    program = parts.ProgramSettings(
        mounts=(*mounts, *_cache_mount(ctx)),
        exposed=component != INTERNAL,
        env=_SHOW_LOCATIONS if shows_locations else {},
        self_url_env=_self_url_env(ctx),
        containers=_pruner(ctx, conf, mounts),
        large=True,
        release_component="api",
    )
    if not may_spread(ctx.spec):
        settings = ctx.spec.api.model_copy(update={"replicas": 1, "autoscaling": None})
        return _one_at_a_time(parts.api(ctx, component, PORT, conf, settings=settings, after=after, program=program))
    api = parts.api(ctx, component, PORT, conf, settings=ctx.spec.api, after=after, program=program)
    # A barrier if services call it: the catalog names it once it is ready.
    return replace(api, barrier=component == INTERNAL)


def _glance_conf(ctx: Context[GlanceSpec]) -> Sections:
    """Return the options that the operator sets for every kind of store."""
    default_store, conversion_format = stores(ctx.spec)[0], ctx.spec.conversion
    raw = conversion_format == "raw" or (conversion_format is None and default_store.type == "ceph")
    # A list in brackets; without them Glance refuses every import.
    conversion = {"image_import_opts": {"image_import_plugins": "[image_conversion]"}} if raw else {}
    conversion |= {"image_conversion": {"output_format": "raw"}} if raw else {}
    caching = ctx.spec.image_cache
    cache = {
        "image_cache_dir": _CACHE,
        "image_cache_driver": "sqlite",
        "image_cache_max_size": int(kube.amount(caching.size) * 0.9),
    }
    flavor = "keystone+cachemanagement" if caching.enabled else "keystone"
    return oslo.merge({"paste_deploy": {"flavor": flavor}}, conversion, {"DEFAULT": cache} if caching.enabled else {})


def _import_methods(ctx: Context[GlanceSpec]) -> Sections:
    """Return the methods by which users may import data: a copy of an image between stores needs two of them.

    The owner of the cloud turns `web-download` on, by `config`: with it, every user can let Glance read HTTP in the
    cluster's network, and the answer becomes an image.
    """
    methods = "[glance-direct,copy-image]" if len(stores(ctx.spec)) > 1 else "[glance-direct]"
    return {
        "DEFAULT": {"enabled_import_methods": methods},
        "import_filtering_opts": {"disallowed_hosts": f"[{_NOT_THE_WEB},kubernetes.default.svc.{ctx.domain}]"},
    }


def _self_url_env(ctx: Context[GlanceSpec]) -> str:
    """Return the variable for the URL of the pod that holds an upload; empty if pods share a volume."""
    shared = any(store.type == "pvc" for store in stores(ctx.spec))
    return "" if shared else "OS_DEFAULT__WORKER_SELF_REFERENCE_URL"


def _cache_mount(ctx: Context[GlanceSpec]) -> tuple[kube.Mount, ...]:
    cache = ctx.spec.image_cache
    if not cache.enabled:
        return ()
    return (kube.Mount(name="cache", path=_CACHE, volume={"emptyDir": {"sizeLimit": cache.size}}),)


def _pruner(ctx: Context[GlanceSpec], conf: parts.Config, mounts: Sequence[kube.Mount]) -> tuple[kube.Container, ...]:
    """Return the container that keeps the cache to its size, beside each API: nothing else sees that folder."""
    cache = _cache_mount(ctx)
    if not cache:
        return ()
    home = () if mounts else kube.scratch(STATE)
    return (
        kube.Container(
            entry=parts.release_entry(ctx, "api"),
            name="cache",
            command=agents.shell("glance/prune_cache.sh", options="-c"),
            mounts=(*conf.mounts, *kube.scratch("/tmp", "/run"), *home, *mounts, *cache),  # noqa: S108
            memory="16Mi",
        ),
    )


def _one_at_a_time(api: Api) -> Api:
    """Return the API with a strategy that starts a new pod once the old one has released the volume: on another node it
    could not mount it before, and the old one would run until the new one is ready.
    """
    objects = [
        {**obj, "spec": {**obj["spec"], "strategy": {"type": "Recreate"}}} if obj["kind"] == "Deployment" else obj
        for obj in api.objects
    ]
    return replace(api, objects=tuple(objects))
