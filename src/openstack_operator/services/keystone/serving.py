"""The program that serves Keystone with any image, mounted beside its configuration, and the options for it."""

from __future__ import annotations

from ... import agents
from ...api import Sections
from ...parts.connect import caches
from ...plan import Context
from .model import KeystoneSpec

_LEVELS = (
    "amqp=WARN",
    "oslo_messaging=INFO",
    "oslo.messaging=INFO",
    "sqlalchemy=WARN",
    "iso8601=WARN",
    "urllib3.connectionpool=WARN",
    "urllib3.util.retry=WARN",
    "keystonemiddleware=WARN",
    "routes.middleware=WARN",
    "stevedore=WARN",
    "keystoneauth=WARN",
    "oslo.cache=INFO",
    "oslo_policy=INFO",
    "dogpile=INFO",
    "routes=INFO",
)
DEFAULTS: Sections = {
    # A change by keystone-manage or by hand has no mark (identity_application): processes see it after this time.
    "cache": {"expiration_time": 30},
    # oslo.log's own list; and no warnings, several with each request, that every user of the container can read the
    # mount of a Secret: the container has only one user.
    "DEFAULT": {"default_log_levels": ",".join((*_LEVELS, "keystone.common.fernet_utils=ERROR"))},
    # All that bcrypt takes; with more, each login is a warning that says so. Ten rounds take a fourth of the CPU of
    # Keystone's twelve, and after a power cut all programs log in at once (docs/decisions/0063).
    "identity": {"max_password_length": 72, "password_hash_rounds": 10},
}


def cache(ctx: Context[KeystoneSpec]) -> Sections:
    """Return [cache]: also without a server, a request computes nothing twice, which saves nine tenths of its cost."""
    shared = caches.cache(ctx)
    per_request: Sections = {"cache": {"enabled": True, "backend": "dogpile.cache.null"}}
    return shared if shared["cache"]["enabled"] else per_request


def programs() -> dict[str, str]:
    """Return the files of the program, by name."""
    paths = ("keystone/identity_application.py", "keystone/identity_generation.py", "api/wsgi_errors.py")
    return {path.rpartition("/")[2]: agents.text(path) for path in paths}
