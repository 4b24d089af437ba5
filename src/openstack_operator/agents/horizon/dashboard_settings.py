"""Horizon's settings: data that a file holds in JSON, and what takes more than data.

Horizon reads its settings from a module `local.local_settings`, which images have at different places; a module made
here takes that name. No text of the file is ever run: names of settings become variables, with values as JSON has them.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dashboard_sessions import TextOnly
else:
    # All files are in one folder, which is no package.
    from dashboard_sessions import TextOnly

FOLDER = Path(__file__).parent
DATA: dict[str, Any] = json.loads((FOLDER / "settings.json").read_text(encoding="utf-8"))
THEME = Path("/var/lib/horizon/theme")
"""Folder of a theme that was made of a user's files."""
BUNDLE = Path("/tmp/horizon-authorities.pem")  # noqa: S108  (a folder of the pod's own)

_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        name: {"level": "INFO"}
        for name in ("horizon", "horizon.operation_log", "openstack_auth", "openstack_dashboard", "dashboard_sessions")
    },
}


def authorities(paths: list[str], *, system: bool) -> str | None:
    """Return the path of all authorities that verify APIs in one file; None for those that the image trusts."""
    if not paths:
        return None
    if len(paths) == 1 and not system:
        return paths[0]
    system_file = ssl.get_default_verify_paths().cafile if system else None
    texts = [Path(path).read_text(encoding="utf-8") for path in (*paths, *([system_file] if system_file else []))]
    # Several processes start at once; none may see half a file.
    unfinished = BUNDLE.with_suffix(f".{os.getpid()}")
    unfinished.write_text("\n".join(texts), encoding="utf-8")
    unfinished.replace(BUNDLE)
    return str(BUNDLE)


def cache(servers: list[str], tls: dict[str, str]) -> dict[str, Any]:
    """Return CACHES: a server that does not answer costs a second, and is then left out for a while."""
    options: dict[str, Any] = {
        "serde": TextOnly(),
        "connect_timeout": 1,
        "timeout": 2,
        "ignore_exc": True,
        "no_delay": True,
        "retry_attempts": 1,
        "retry_timeout": 1,
        "dead_timeout": 30,
    }
    if tls:
        # Of the image: each connection reads the files as they are by then.
        options["tls_context"] = import_module("cache_tls").Context(**tls)
    backends = "django.core.cache.backends"
    return {
        "default": {"BACKEND": f"{backends}.memcached.PyMemcacheCache", "LOCATION": servers, "OPTIONS": options},
        # A megabyte of a page, which is made of the image's files alone: nobody else may say what it is.
        "template_fragments": {"BACKEND": f"{backends}.locmem.LocMemCache"},
    }


def values() -> dict[str, Any]:
    """Return the local settings."""
    theme = [("custom", "Custom", str(THEME))] if THEME.is_dir() else []
    return {
        **DATA["settings"],
        **({"AVAILABLE_THEMES": theme, "SELECTABLE_THEMES": theme, "DEFAULT_THEME": "custom"} if theme else {}),
        "CACHES": cache(DATA["cache"]["servers"], DATA["cache"]["tls"]),
        "COMPRESS_OFFLINE": True,
        "LOGGING": _LOGGING,
        "OPENSTACK_SSL_CACERT": authorities(DATA["authorities"]["files"], system=DATA["authorities"]["system"]),
        "SESSION_ENGINE": "dashboard_sessions",
        "STATIC_ROOT": os.environ["STATIC_FOLDER"],
    }


def load() -> None:
    """Load Horizon's settings, with these in the place of its local ones."""
    local = ModuleType("local.local_settings")
    vars(local).update(values())
    sys.modules[local.__name__] = local
    os.environ["DJANGO_SETTINGS_MODULE"] = "openstack_dashboard.settings"
    # Images that bring panels of other services, and do not show them by themselves.
    enabled = import_module("openstack_dashboard.local.enabled")
    for plugin in DATA["plugins"]:
        if find_spec(plugin.partition(".")[0]) is not None:
            enabled.__path__.extend(import_module(plugin).__path__)
    # By Django's own way: files of plugins look at its settings while they are loaded.
    settings: Any = import_module("django.conf").settings
    # This one has much that is Horizon's own.
    settings.HORIZON_CONFIG.update(DATA["horizonConfig"])
    # Horizon has them shown, of every library and in every process.
    warnings.filterwarnings("ignore", category=DeprecationWarning)
