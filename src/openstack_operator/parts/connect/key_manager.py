"""The key manager of users' data: castellan's options for the Barbican that a service names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...api import Sections
from ...plan import Context, Step
from .sources import requires


def key_manager(ctx: Context[Any], user: Mapping[str, str]) -> Sections:
    """Return the options by which a service reads keys with the tokens of its users; none if it names no Barbican.

    `user` is the service's own login. It goes with a user's token, so that Barbican accepts one that has ended while a
    long request runs; by itself it reads no key.
    """
    ref = ctx.spec.barbican_ref
    if ref is None:
        return {}
    return {
        "key_manager": {"backend": "barbican"},
        "barbican": {
            # Without these two, castellan searches the catalog in the user's token, which may have none.
            "barbican_endpoint": ctx.refs[ref]["internalURL"],
            "barbican_api_version": "v1",
            # Glance's users get a token for this key manager from here.
            "auth_endpoint": user["auth_url"],
            "send_service_user_token": True,
            **({"verify_ssl_path": user["cafile"]} if "cafile" in user else {}),
        },
        "barbican_service_user": dict(user),
    }


def key_manager_steps(ctx: Context[Any]) -> tuple[Step, ...]:
    """Return the step that is ready when the Barbican is, if the spec names one."""
    ref = ctx.spec.barbican_ref
    return (requires(ctx, "Barbican", ref),) if ref else ()
