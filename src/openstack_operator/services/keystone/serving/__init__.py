"""The program that serves Keystone in any image, given to it beside its configuration, and options that suit it."""

from __future__ import annotations

from importlib import resources

from .... import parts
from ....api import Sections
from ....plan import Context
from ..model import KeystoneSpec

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
    # What keystone-manage or somebody's SQL changes has no mark (identity_application): it is seen after this time.
    "cache": {"expiration_time": 30},
    # oslo.log's own list; and nothing of the mount of a Secret, which Kubernetes makes readable by all who are in the
    # container: nobody else is, and it was a warning several times a request.
    "DEFAULT": {"default_log_levels": ",".join((*_LEVELS, "keystone.common.fernet_utils=ERROR"))},
    # All that bcrypt takes; with more, each login is a warning that says so. Ten rounds take a fourth of the CPU of
    # Keystone's twelve, and after a power cut all programs log in at once (docs/decisions/0016).
    "identity": {"max_password_length": 72, "password_hash_rounds": 10},
}


def cache(ctx: Context[KeystoneSpec]) -> Sections:
    """[cache]: without a server, too, a request works nothing out twice. That is nine tenths of what it costs."""
    cached = parts.cache(ctx)
    alone: Sections = {"cache": {"enabled": True, "backend": "dogpile.cache.null"}}
    return cached if cached["cache"]["enabled"] else alone


def programs() -> dict[str, str]:
    """Files of the program, by name."""
    package = resources.files(__package__ or "")
    names = ("identity_application.py", "identity_generation.py")
    return {name: package.joinpath(name).read_text(encoding="utf-8") for name in names}
