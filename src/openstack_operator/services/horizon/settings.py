"""Horizon's settings as data, from the spec and from what Keystone and Glance publish."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ...oslo.options import Memcached
from ...parts.secrets.key_ring import KeyRing
from .additions import HORIZON_CONFIG
from .model import HorizonSpec

PORT = 8080
_UPLOADS = {"Proxy": "legacy", "Direct": "direct", "Off": "off"}
SESSION_TIMEOUT = 3600
"""Seconds after which a session ends in which nothing is done; Horizon's own default."""


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Identity providers of a Keystone, as it publishes them."""

    providers: Sequence[Mapping[str, str]] = ()
    """Each with `name`, `protocol` and `label`."""
    dashboards: Sequence[str] = ()
    """URLs of dashboards to which it gives tokens."""

    @classmethod
    def of(cls, published: Mapping[str, str]) -> Federation:
        """Return those of a Keystone; none if it publishes none."""
        document: Mapping[str, Any] = json.loads(published.get("federation") or "{}")
        return cls(providers=document.get("providers", ()), dashboards=document.get("dashboards", ()))

    def missing(self, url: str) -> str:
        """Return the URL at which the dashboard gets tokens, if Keystone would refuse it; empty otherwise."""
        origin = f"{url}/auth/websso/"
        return origin if self.providers and origin not in self.dashboards else ""


@dataclass(frozen=True, kw_only=True)
class Site:
    """The places of a dashboard and of what it calls."""

    url: str
    """Public URL, without a path; the one inside the cluster if there is none."""
    hosts: Sequence[str]
    """Names by which clients call it; `*` for any."""
    behind_proxy: bool
    """True if a proxy says with which scheme a client came."""
    keystone: Mapping[str, str]
    """Contract of the Keystone."""
    has_public_url: bool = True
    has_tls_proxy: bool = False
    """True if each pod has a TLS proxy, which says from which address a client came."""
    glance: str = ""
    """Public URL of the Glance to which browsers upload."""

    @property
    def is_encrypted(self) -> bool:
        """True if browsers call it with HTTPS."""
        return self.url.startswith("https:")

    @property
    def federation(self) -> Federation:
        """Identity providers of the Keystone."""
        return Federation.of(self.keystone)

    @property
    def providers(self) -> Sequence[Mapping[str, str]]:
        """Identity providers whose users can log in here."""
        return () if self.federation.missing(self.url) else self.federation.providers


def fixed_settings(spec: HorizonSpec, site: Site, keys: KeyRing) -> dict[str, Any]:
    """Return the settings that the operator decides."""
    key, *fallbacks = keys.in_order
    return {
        **_places(spec, site),
        **_single_sign_on(site),
        "SECRET_KEY": key,
        "SECRET_KEY_FALLBACKS": fallbacks,
        "ALLOWED_HOSTS": list(site.hosts),
        "CSRF_COOKIE_SECURE": site.is_encrypted,
        "DISALLOW_IFRAME_EMBED": True,
        "LANGUAGE_COOKIE_SECURE": site.is_encrypted,
        "SESSION_COOKIE_HTTPONLY": True,
        "SESSION_COOKIE_SECURE": site.is_encrypted,
        **({"SECURE_PROXY_SSL_HEADER": ["HTTP_X_FORWARDED_PROTO", "https"]} if site.behind_proxy else {}),
        **({"SECURE_PROXY_ADDR_HEADER": "HTTP_X_FORWARDED_FOR"} if site.has_tls_proxy else {}),
        "DEBUG": False,
        "DEFAULT_THEME": spec.branding.theme,
        **({"SITE_BRANDING": spec.branding.title} if spec.branding.title else {}),
        "HORIZON_IMAGES_UPLOAD_MODE": _UPLOADS[spec.image_upload],
        "STATIC_URL": "/static/",
        "WEBROOT": "/",
    }


def _places(spec: HorizonSpec, site: Site) -> dict[str, Any]:
    """Return the Keystones. APIs of another cloud have no address in this Kubernetes cluster, hence the public ones."""
    keystone = site.keystone["internalURL"]
    further_keystones = [[each.auth_url, each.name] for each in spec.other_keystones]
    return {
        "OPENSTACK_KEYSTONE_URL": keystone,
        "OPENSTACK_ENDPOINT_TYPE": "publicURL" if further_keystones else "internalURL",
        "OPENSTACK_SSL_NO_VERIFY": False,
        **({"AVAILABLE_REGIONS": [[keystone, spec.region], *further_keystones]} if further_keystones else {}),
    }


def _single_sign_on(site: Site) -> dict[str, Any]:
    """Return the choices of the login page. A browser goes to the public URL of Keystone, and what it brings back is
    verified at this Keystone, whichever page it comes from.
    """
    providers = site.providers
    if not providers:
        return {"WEBSSO_ENABLED": False}
    names = {f"{each['name']}_{each['protocol']}": each for each in providers}
    return {
        "WEBSSO_ENABLED": True,
        "WEBSSO_CHOICES": [
            ["credentials", "Keystone credentials"],
            *([name, each["label"]] for name, each in names.items()),
        ],
        "WEBSSO_IDP_MAPPING": {name: [each["name"], each["protocol"]] for name, each in names.items()},
        "WEBSSO_KEYSTONE_URL": site.keystone["publicURL"],
        "WEBSSO_USE_HTTP_REFERER": False,
    }


def headers(site: Site) -> dict[str, str]:
    """Return headers of every page. Horizon's scripts stand within its pages, and AngularJS makes functions of text;
    what CSP still prevents are scripts, forms and requests of other sites, and being shown in their pages.

    Consoles of servers are at addresses of Nova's, so that any may be shown in a page.
    """
    anywhere = "https:" if site.is_encrypted else "http: https:"
    policy = {
        "default-src": "'self'",
        "script-src": "'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "font-src": "'self' data:",
        "connect-src": " ".join(["'self'", *([_origin(site.glance)] if site.glance else [])]),
        "frame-src": anywhere,
        # A login with an identity provider is a form whose answer leads to Keystone, and from there to the provider.
        "form-action": f"'self' {anywhere}" if site.providers else "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'self'",
        "object-src": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def document(
    spec: HorizonSpec,
    site: Site,
    keys: KeyRing,
    *,
    user: Mapping[str, Any],
    memcached: Memcached,
    authorities: Sequence[str],
    plugins: Sequence[str],
) -> str:
    """Return settings.json. `authorities` are paths of files; with other Keystones, those that the image trusts count,
    too. `plugins` are packages with panels that the image does not show by itself.
    """
    settings = {name: value for name, value in user.items() if name != HORIZON_CONFIG}
    return json.dumps(
        {
            "settings": {**settings, **fixed_settings(spec, site, keys)},
            "horizonConfig": user.get(HORIZON_CONFIG, {}),
            "headers": headers(site),
            "cache": {"servers": memcached.servers.split(","), "tls": _tls(memcached)},
            "authorities": {"files": list(authorities), "system": bool(spec.other_keystones)},
            "plugins": list(plugins),
        },
        indent=2,
        sort_keys=True,
    )


def _tls(memcached: Memcached) -> dict[str, str]:
    files = {"certfile": "tls.crt", "keyfile": "tls.key"} if memcached.certificate else {}
    certificate = {name: f"{memcached.certificate}/{file}" for name, file in files.items()}
    return {"cafile": memcached.trust, **certificate} if memcached.trust else {}
