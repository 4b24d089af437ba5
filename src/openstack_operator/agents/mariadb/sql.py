"""Questions of a member to the server beside it."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable
from pathlib import Path

SOCKET = Path("/run/mysqld/mysqld.sock")
STATUS = """\
SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_status', 'wsrep_ready', 'wsrep_cluster_size',
'wsrep_local_state_comment', 'wsrep_local_state_uuid', 'wsrep_last_committed');
SELECT 'encrypted', @@wsrep_provider_options LIKE '%socket.ssl = YES%';
SELECT 'end';
"""
CLIENTS = """\
SELECT IF(command = 'Sleep' AND time_ms > 500 AND trx_id IS NULL, 'idle', 'busy'), id
FROM information_schema.PROCESSLIST LEFT JOIN information_schema.INNODB_TRX ON trx_mysql_thread_id = id
WHERE user NOT IN ('system user', 'event_scheduler') AND id <> CONNECTION_ID();
SELECT 'end';
"""
"""Connections; an idle one is not in use at the moment, and its owner looks before using it and makes a new one."""
_REMOTE_CLIENTS = """\
SET SESSION time_zone = 'SYSTEM';
SELECT id, CASE WHEN trx_id IS NOT NULL THEN TIMESTAMPDIFF(SECOND, trx_started, NOW())
WHEN command = 'Sleep' THEN -1 ELSE time_ms / 1000 END
FROM information_schema.PROCESSLIST LEFT JOIN information_schema.INNODB_TRX ON trx_mysql_thread_id = id
WHERE host LIKE '%:%' AND command <> 'Binlog Dump' AND user NOT IN ('{}', 'unauthenticated user');
SELECT 'end';
"""


def remote_clients(reader: str) -> str:
    """Return a question for the connections through the network, and the seconds of their transaction or statement; -1
    for those that have neither. Left out are those of the account `reader`, and those that are still to log in.

    Only these have a port. Replicas that a user has elsewhere read what was committed, in order, from any member. The
    beginning of a transaction is in the zone of the system, and NOW() in that of the session.
    """
    return _REMOTE_CLIENTS.format(reader)


class Sql:
    """Questions to the local server, through one client that stays connected."""

    def __init__(self) -> None:
        self._client: Process | None = None

    async def status(self) -> dict[str, str] | None:
        """Return wsrep's status variables; None while the server does not answer."""
        rows = await self.rows(STATUS)
        return None if rows is None else dict(rows)

    async def rows(self, statements: str) -> list[tuple[str, str]] | None:
        """Return two columns of each row of statements of which the last one selects 'end'; None while the server does
        not answer.
        """
        if not SOCKET.exists():
            return None
        try:
            return await asyncio.wait_for(self._ask(statements), 3)
        except (OSError, TimeoutError, EOFError):
            await self.close()
            return None

    async def _ask(self, statements: str) -> list[tuple[str, str]]:
        if self._client is None:
            program = ["mariadb", "--no-defaults", f"--socket={SOCKET}", "--batch", "--skip-column-names", "--force"]
            self._client = await asyncio.create_subprocess_exec(
                *program, "--unbuffered", stdin=PIPE, stdout=PIPE, stderr=asyncio.subprocess.DEVNULL
            )
        client, rows = self._client, list[tuple[str, str]]()
        assert client.stdin and client.stdout
        client.stdin.write(statements.encode())
        await client.stdin.drain()
        while (line := (await client.stdout.readline()).decode()) != "end\n":
            if not line:
                raise EOFError
            name, _, value = line.rstrip("\n").partition("\t")
            rows.append((name, value))
        return rows

    async def kill(self, numbers: Iterable[str]) -> None:
        """End connections."""
        if kills := "".join(f"KILL CONNECTION {number};" for number in numbers):
            # Outside the primary component, a session takes KILL only if it reads what may be old, too.
            await self.rows(f"SET SESSION wsrep_dirty_reads = ON;\n{kills} SELECT 'end';\n")

    async def close(self) -> None:
        """End the client."""
        client, self._client = self._client, None
        if client and client.returncode is None:
            client.kill()
        if client:
            await client.wait()
