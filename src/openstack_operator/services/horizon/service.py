"""Horizon: pods of the dashboard, its settings as data, its secret keys, and its static files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ... import agents, kube, parts
from ...api import KEYSTONE
from ...parts.connect import caches, sources
from ...parts.expose import exposure
from ...parts.secrets.key_ring import KeyRing, next_ring, read_ring
from ...parts.secrets.tls import peers
from ...plan import READY, Context, Incomplete, MissingReference, Plan, State, Step, Verdict
from .additions import additions
from .model import GLANCE, HorizonSpec
from .settings import PORT, SESSION_TIMEOUT, Site, document

_FOLDER = "/etc/horizon"
_PROGRAMS = ("dashboard_application.py", "dashboard_sessions.py", "dashboard_settings.py", "dashboard_static.py")
_KEY = "key"
_STATIC = "/var/lib/openstack-dashboard/static"
"""Folder of the static files in images that have them."""
_ENVIRONMENT = {"PYTHONWARNINGS": "ignore::UserWarning:oslo_policy.policy"}
"""A page asks of each of its buttons if the user may use it; oslo.policy warns of each that is for another scope."""
_BRANDING = "/etc/horizon-branding"
_AUTHORITIES = "authorities.pem"
_PLUGINS = ("heat_dashboard.enabled",)
"""Panels that Kolla's image has, and does not show by itself."""
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\\s]+-----END CERTIFICATE-----")


def plan(ctx: Context[HorizonSpec]) -> Plan:
    """Return everything that a Horizon consists of; published: internalURL, publicURL."""
    site = _site(ctx)
    state = _key_state(ctx, site)
    keys, conf = _keys(ctx, state.ring), state.conf
    waits = sources.waits(ctx)
    identity = sources.requires(ctx, "Identity", ctx.spec.keystone_ref or KEYSTONE)
    api = parts.api(
        ctx,
        "api",
        PORT,
        conf,
        settings=ctx.spec.api,
        after=(keys, identity, *waits),
        program=replace(_pod_extras(ctx, conf), memory="192Mi", workers=parts.Workers(threads=8)),
    )
    ends = state.ring.ends
    return Plan(
        *parts.policies(ctx),
        keys,
        conf,
        identity,
        *waits,
        api,
        _single_sign_on(ctx, site),
        wake=ends if ends and ends > ctx.now else None,
        endpoint=f"{api.public}/",
        published=api.published,
    )


def _site(ctx: Context[HorizonSpec]) -> Site:
    spec, name = ctx.spec, ctx.name("api")
    is_encrypted = spec.tls is not None and spec.tls.announced
    scheme = "https" if is_encrypted else "http"
    public = exposure.public_url(ctx, "api", PORT, spec.expose, scheme)
    has_proxy = exposure.through_proxy(spec.expose)
    public_name = spec.expose.host if has_proxy else exposure.public_host(ctx, name, spec.expose)
    hosts = [name, f"{name}.{ctx.namespace}", f"{name}.{ctx.namespace}.svc", ctx.host(name), "localhost", "127.0.0.1"]
    if public_name:
        hosts.append(public_name)
    elif spec.expose.type == "NodePort":
        # Without a name, clients use the address of any node.
        hosts = ["*"]
    glance = ctx.refs[spec.glance_ref or GLANCE]["publicURL"] if spec.image_upload == "Direct" else ""
    return Site(
        url=public or f"{scheme}://{ctx.host(name)}:{PORT}",
        has_public_url=bool(public),
        hosts=hosts,
        behind_proxy=spec.tls is not None or has_proxy,
        keystone=ctx.refs[spec.keystone_ref or KEYSTONE].published,
        has_tls_proxy=spec.tls is not None,
        glance=glance,
    )


@dataclass(frozen=True)
class _KeyState:
    ring: KeyRing
    conf: parts.Config


def _key_state(ctx: Context[HorizonSpec], site: Site) -> _KeyState:
    """Return the keys, one step further if the step before is done, and the configuration with them."""
    user = additions(ctx.spec.config)
    lifetime = timedelta(seconds=user.get("SESSION_TIMEOUT", SESSION_TIMEOUT))
    # Deleted, it stays so: that logs out whoever has a stolen key.
    stored = read_ring(ctx.secret("session-keys"), _KEY)
    ring = next_ring(
        stored,
        ctx.spec.secret_key_generation,
        lambda: ctx.draw() + ctx.draw(),
        all_read_it=stored is not None and _all_run_with(ctx, _config(ctx, site, stored, user)),
        retire=lambda old: _retired(old, ctx.now, lifetime),
    )
    return _KeyState(ring, _config(ctx, site, ring, user))


def _retired(ring: KeyRing, now: datetime, lifetime: timedelta) -> KeyRing:
    """Return the keys without the old ones, after the life of the sessions that the last pod with one has written."""
    # Later than that only by a clock that was put back since.
    if ring.ends is None or ring.ends > now + lifetime:
        return replace(ring, until=f"{now + lifetime:%Y-%m-%dT%H:%M:%S%z}")
    return ring.without_old_keys() if now >= ring.ends else ring


def _config(ctx: Context[HorizonSpec], site: Site, ring: KeyRing, user: Mapping[str, Any]) -> parts.Config:
    trust, other_authorities = peers(ctx, site.keystone), _other_authorities(ctx)
    files = [*([trust] if trust else []), *([f"{_FOLDER}/{_AUTHORITIES}"] if other_authorities else [])]
    settings = document(
        ctx.spec,
        site,
        ring,
        user=user,
        memcached=caches.memcached(ctx),
        authorities=files,
        plugins=_PLUGINS if ctx.release.profile == "kolla" else (),
    )
    programs = {name: agents.text(f"horizon/{name}") for name in _PROGRAMS}
    bundle = {_AUTHORITIES: other_authorities} if other_authorities else {}
    return parts.written(ctx, {"settings.json": settings, **programs, **bundle}, directory=_FOLDER)


def _other_authorities(ctx: Context[HorizonSpec]) -> str:
    """Return the authorities of other Keystones, in PEM. Raise MissingReference if a file does not exist, Incomplete if
    it has no certificate. Nothing else of a Secret gets into pods: a user could name one of the operator's own.
    """
    texts: list[str] = []
    for index, each in enumerate(ctx.spec.other_keystones):
        if (ref := each.ca_secret_ref) is None:
            continue
        path, key = f"spec.otherKeystones[{index}].caSecretRef", ref.file_key
        text = ctx.secrets.get(ref.name, {}).get(key)
        if not text:
            raise MissingReference(f"{path}.key", f"Secret {ref.name!r} has no key {key!r}")
        certificates = _CERTIFICATE.findall(text)
        if not certificates:
            raise Incomplete(f"{path}.key", f"{key!r} of Secret {ref.name!r} has no certificate in PEM")
        texts += certificates
    return "\n".join([*texts, ""]) if texts else ""


def _all_run_with(ctx: Context[HorizonSpec], conf: parts.Config) -> bool:
    """Return True if all pods have this configuration."""
    live = ctx.live("Deployment", "api")
    if live is None or kube.Rollout(live).is_running:
        return False
    annotations = live["spec"]["template"]["metadata"].get("annotations") or {}
    return annotations.get(kube.CONFIG_DIGEST) == conf.digest


def _keys(ctx: Context[HorizonSpec], ring: KeyRing) -> Step:
    """Return Secret `<owner>-session-keys`. Without it, all users have to log in again."""
    secret = kube.secret(ctx, ctx.name("session-keys"), ring.data(_KEY))
    # A barrier: pods of one cloud never have two different first keys.
    return Step(name="SecretKey", objects=(secret,), guarded=True, barrier=True, verdict=_progress(ring))


def _progress(ring: KeyRing) -> Verdict:
    """Return the progress of a replacement: always READY, since no user is logged out."""
    if ring.is_waiting_for_readers:
        text = f"all pods receive secret key {ring.newest} before any of them writes sessions with it"
        return Verdict(State.READY, text, "Distributing")
    if ring.has_old_keys:
        until = f" until {ring.ends:%Y-%m-%d %H:%M} UTC" if ring.ends else ""
        text = f"pods write sessions with secret key {ring.active}; sessions with the one before it are valid{until}"
        return Verdict(State.READY, text, "Retiring")
    return READY


def _pod_extras(ctx: Context[HorizonSpec], conf: parts.Config) -> parts.ProgramSettings:
    """Return the folder of the static files, and the container that makes them if the image does not have them, or not
    those of the user's theme.
    """
    spec, entry = ctx.spec, parts.release_entry(ctx, "api")
    state = parts.state(ctx)
    branding = _files(spec.branding.config_map) if spec.branding.config_map else []
    if not branding and ctx.release.profile != "kolla":
        return parts.ProgramSettings(env={**_ENVIRONMENT, "STATIC_FOLDER": _STATIC}, large=spec.image_upload == "Proxy")
    env = {"STATIC_FOLDER": f"{state}/static"}
    prepare = kube.Container(
        entry=entry,
        name="static",
        command=entry.commands["prepare"],
        env={**env, "BASE_THEME": spec.branding.theme},
        mounts=(*conf.mounts, *kube.scratch("/tmp", "/run", state, large=True), *branding),  # noqa: S108
        memory="256Mi",
    )
    return parts.ProgramSettings(env={**_ENVIRONMENT, **env}, init=(prepare,), large=True)


def _files(config_map: str) -> list[kube.Mount]:
    volume = {"configMap": {"name": config_map, "defaultMode": 0o444}}
    return [kube.Mount(name="branding", path=_BRANDING, volume=volume, read_only=True)]


def _single_sign_on(ctx: Context[HorizonSpec], site: Site) -> Step:
    """Return the step that says if users of Keystone's identity providers can log in."""
    missing = site.federation.missing(site.url)
    if not missing:
        return Step(name="SingleSignOn", verdict=READY)
    if not site.has_public_url:
        text = "single sign-on does not work without an address of the dashboard; set spec.expose.host"
        return Step(name="SingleSignOn", verdict=Verdict(State.READY, text, "NoPublicAddress"))
    ref = ctx.spec.keystone_ref or KEYSTONE
    text = f"single sign-on does not work here: add {missing} to spec.federation.trustedDashboards"
    return Step(name="SingleSignOn", verdict=Verdict(State.READY, f"{text} of Keystone/{ref.name}", "NotTrusted"))
