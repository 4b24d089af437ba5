"""Programs of servers and sentinels, and what they are given."""

from __future__ import annotations

from collections.abc import Sequence

from ... import agents
from .config import CONF, PORT, STATE, TLS
from .config import TLS_PORT as SERVER_TLS_PORT

SENTINEL, TLS_PORT = 26379, 26380
SECRET_FOLDER = "/etc/valkey/secret"  # noqa: S105  (a path)


def env(*, certified: bool, peer_tls: bool) -> dict[str, str]:
    """Return the environment of all programs; `peer_tls` is True if servers and sentinels speak TLS to each other."""
    ports = (SERVER_TLS_PORT, TLS_PORT) if peer_tls else (PORT, SENTINEL)
    return {
        "STATE_FOLDER": STATE,
        "PASSWORD_FILE": f"{SECRET_FOLDER}/password",
        "CONF_FILE": CONF,
        "MEMBER_CONF_FILE": "/run/valkey.conf",
        **{name: str(port) for name, port in zip(("SERVER_PORT", "SENTINEL_PORT"), ports, strict=True)},
        **({"FLAGS": f"--tls --cacert {TLS}/ca.crt"} if peer_tls else {}),
        **({"TLS_FOLDER": TLS} if certified else {}),
    }


def start_server(words: Sequence[str], *, alone: bool) -> list[str]:
    """Return the command that starts a server; `words` are its own."""
    programs = ("valkey/start_single.sh",) if alone else ("valkey/ask.sh", "valkey/start_server.sh")
    return agents.shell("tls/reload_on_change.sh", "valkey/reload.sh", *programs, words=words, options="-c")


def start_sentinel(words: Sequence[str]) -> list[str]:
    """Return the command that starts a sentinel; `words` are its own."""
    programs = ("tls/reload_on_change.sh", "valkey/ask.sh", "valkey/start_sentinel.sh")
    return agents.shell(*programs, words=words, options="-c")


READY = agents.shell("valkey/ready.sh", options="-c")
STOP = agents.shell("valkey/ask.sh", "valkey/stop.sh", options="-c")
