"""The dashboard for uWSGI: Horizon with its settings, and the headers of each page that protect its users."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dashboard_settings import DATA, load
else:
    # All files are in one folder, which is no package.
    from dashboard_settings import DATA, load

load()

from django.core.wsgi import get_wsgi_application  # noqa: E402  # pyright: ignore[reportMissingImports]

__all__ = ["application"]

HEALTH = "/healthcheck"
HEADERS: list[tuple[str, str]] = list(DATA["headers"].items())
dashboard = get_wsgi_application()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request as Horizon does. Kubelet calls pods by their address, which is no host of Horizon's."""
    if environ.get("PATH_INFO") == HEALTH:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"OK\n"]

    def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
        names = {name.lower() for name, _ in headers}
        return start_response(status, [*headers, *(each for each in HEADERS if each[0].lower() not in names)], *rest)

    return dashboard(environ, start)
