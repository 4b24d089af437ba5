"""What runs in a member's pod: it tells the others what is on its disk, and starts mariadbd when and as `galera` says.

`python3 -m <package>.member COMMAND...`: COMMAND makes an empty database where there is none and becomes mariadbd.
It needs Python's own library alone, MariaDB's programs, and these variables: POD_NAME, POD_IP, GALERA_DOMAIN (the
headless Service), GALERA_NAME (the name in every member's certificate), GALERA_RECORD (the directory of the record).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from . import disk, galera, wire
from .galera import Act, Decision, Member, Record, Stage, View

TICK = 0.5
AGAIN = 5.0
"""Seconds before mariadbd is asked again how far the data are, once it could not tell."""
SILENT = 300.0
"""Seconds after which a server that answered once and does no more is taken for one that never will again."""
FAREWELL = 25.0
"""Seconds clients have to go to another member before this one ends."""
SOCKET = Path("/run/mysqld/mysqld.sock")
ACCOUNTS = Path("/run/mysqld/accounts.sql")

LOCAL_ACCOUNT = """\
CREATE USER IF NOT EXISTS mysql@localhost IDENTIFIED VIA unix_socket;
GRANT ALL PRIVILEGES ON *.* TO mysql@localhost;
"""
"""For the system's user that owns the files anyway: state transfers and this program need no password."""

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
"""Connections; nobody uses an idle one at the moment, and its owner looks before using it and makes a new one."""


def say(text: str) -> None:
    """A line in the log."""
    print(f"member: {text}", file=sys.stderr, flush=True)


class Sql:
    """Questions to the local server, through one client that stays connected."""

    def __init__(self) -> None:
        self._client: Process | None = None

    async def status(self) -> dict[str, str] | None:
        """wsrep's status variables; None while the server does not answer."""
        rows = await self.rows(STATUS)
        return None if rows is None else dict(rows)

    async def rows(self, statements: str) -> list[tuple[str, str]] | None:
        """Two columns of each row of statements of which the last one selects 'end'; None while the server does not
        answer.
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
        client, found = self._client, list[tuple[str, str]]()
        assert client.stdin and client.stdout
        client.stdin.write(statements.encode())
        await client.stdin.drain()
        while (line := (await client.stdout.readline()).decode()) != "end\n":
            if not line:
                raise EOFError
            name, _, value = line.rstrip("\n").partition("\t")
            found.append((name, value))
        return found

    async def close(self) -> None:
        """Ends the client."""
        client, self._client = self._client, None
        if client and client.returncode is None:
            client.kill()
        if client:
            await client.wait()


def giving(processes: Path = Path("/proc")) -> bool:
    """Whether Galera's script for it gives all of this member's data to another, which may take hours."""
    for command in processes.glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"wsrep_sst_" in command.read_bytes():
                return True
    return False


class Supervisor:
    """One member."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = command
        self.domain, self.address = os.environ["GALERA_DOMAIN"], os.environ["POD_IP"]
        self.directory, self.name = Path(os.environ["GALERA_RECORD"]), os.environ["GALERA_NAME"]
        self.me = Member(os.environ["POD_NAME"], Stage.PREPARING)
        self.others: dict[str, Member] = {}
        self.known = Record(())
        self.decision = Decision(Act.WAIT, "starts")
        self.refused: dict[str, int] = {}
        self.server: Process | None = None
        self.sql = Sql()
        self.trouble = ""
        self.prepared_at = 0.0
        self.ready = False
        self.size = 0
        self.local, self.encrypted = "", False
        self.ending = asyncio.Event()
        self.recovered: str | None = None
        self.started_in: View | None = None
        self.desynced_since: float | None = None
        self.together_since: float | None = None
        self.alone_since = self.stage_since = self.heard_at = time.monotonic()

    async def run(self) -> None:
        """Until the pod is told to end."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self.ending.set)
        await asyncio.start_server(self._answer, port=galera.PORT)
        listener = wire.Listener(self._answer)
        self.me = disk.remembered(self.me)
        while not self.ending.is_set():
            await listener.follow()
            await self._look()
            await self._decide()
            try:
                await asyncio.wait_for(self.ending.wait(), TICK if self.me.status != galera.PRIMARY else 2 * TICK)
            except TimeoutError:
                continue
        await self._see_off()
        await self._end(signal.SIGTERM)
        listener.close()

    async def _decide(self) -> None:
        known = self.known = disk.record(self.directory)
        if self.me.status == galera.PRIMARY:
            self.others = {}
            self.alone_since, self.together_since = time.monotonic(), None
            if (self.me.vote, self.me.seen) != ("", known.token):
                self.me = replace(self.me, vote="", vote_mark="", seen=known.token)
                disk.memorize(self.me)
        else:
            names = [name for name in known.members if name != self.me.name]
            answers = await asyncio.gather(*(self._ask(name) for name in names))
            self.others = {member.name: member for member in answers if member}
            if any(member.status == galera.PRIMARY for member in self.others.values()):
                self.alone_since, self.together_since = time.monotonic(), None
        now = time.monotonic()
        if self.together_since is None and galera.whole(self.me, [self.me, *self.others.values()]):
            self.together_since = now
        since = self.stage_since
        if self.me.stage is Stage.STARTING and self.me.view != self.started_in:
            # It is part of a primary component and receives data, which may take long.
            since = max(since, self.alone_since)
        decision = galera.decide(
            self.me,
            self.others.values(),
            known,
            waited=now - self.alone_since,
            together=now - (self.together_since or now),
            running=now - since,
            desynced=now - self.desynced_since if self.desynced_since else 0.0,
            refused=self.refused,
        )
        if self.trouble:
            decision = replace(decision, why=self.trouble)
        if (decision.act, decision.why.partition("; for ")[0]) != (
            self.decision.act,
            self.decision.why.partition("; for ")[0],
        ):
            say(f"{decision.act.value}: {decision.why}")
        self.decision = decision
        await self._carry_out(decision, known)

    async def _carry_out(self, decision: Decision, known: Record) -> None:
        marks = {self.me.name: self.me.mark, **{name: member.mark for name, member in self.others.items()}}
        voted = (decision.vote, marks.get(decision.vote, self.me.vote_mark) if decision.vote else "")
        if voted != (self.me.vote, self.me.vote_mark):
            self.me = replace(self.me, vote=voted[0], vote_mark=voted[1], ballot=self.me.ballot + 1)
            disk.memorize(self.me)
        match decision.act:
            case Act.START:
                await self._start(["mariadbd"], known)
            case Act.BOOTSTRAP | Act.INITIALIZE:
                command = ["mariadbd"] if decision.act is Act.BOOTSTRAP else self.command
                ACCOUNTS.write_text(LOCAL_ACCOUNT, encoding="utf-8")
                disk.allow()
                await self._start(command, known, f"--init-file={ACCOUNTS}", "--wsrep-new-cluster", leads=True)
            case Act.RESTART:
                # Killed, not stopped: it keeps what it knows of its last view.
                await self._end(signal.SIGKILL)
            case _:
                if decision.release:
                    await self._release()

    async def _start(self, command: Sequence[str], known: Record, *options: str, leads: bool = False) -> None:
        self._enter(Stage.STARTING, leads=leads)
        self.started_in = self.me.view
        SOCKET.unlink(missing_ok=True)
        hosts = ",".join(f"{name}.{self.domain}" for name in known.members)
        where = [f"--wsrep-cluster-address=gcomm://{hosts}", f"--wsrep-node-address={self.address}"]
        position = [f"--wsrep-start-position={self.recovered}"] if self.recovered else []
        name = f"--wsrep-node-name={self.me.name}"
        self.server = await asyncio.create_subprocess_exec(*command, *where, name, *position, *options)

    async def _see_off(self) -> None:
        """Clients have gone to another member, as far as they do so in time. New ones do by themselves: Kubernetes
        sends none to a pod that is to end, and the operator names another primary. Those that are connected would stay
        until the end, in the middle of what they do.
        """
        until = time.monotonic() + FAREWELL
        while self.ready and self.size > 1 and time.monotonic() < until:
            if not (rows := await self.sql.rows(CLIENTS)):
                return
            kills = "".join(f"KILL CONNECTION {identity};" for use, identity in rows if use == "idle")
            if kills:
                await self.sql.rows(f"{kills} SELECT 'end';\n")
            await asyncio.sleep(TICK)

    async def _end(self, how: signal.Signals) -> None:
        server, self.server = self.server, None
        self.ready, self.desynced_since = False, None
        await self.sql.close()
        if server is not None:
            if server.returncode is None:
                server.send_signal(how)
            await server.wait()
        self._enter(Stage.PREPARING)

    def _enter(self, stage: Stage, *, status: str = "", leads: bool = False) -> None:
        if (stage, status) != (self.me.stage, self.me.status):
            self.stage_since = time.monotonic()
        self.me = replace(self.me, stage=stage, status=status, leads=leads)

    async def _look(self) -> None:
        """What is true of this member now."""
        if self.server is None:
            if self.me.stage is Stage.PREPARING and time.monotonic() - self.prepared_at > AGAIN * bool(self.trouble):
                await self._prepare()
            return
        if self.server.returncode is not None:
            say(f"mariadbd ended with status {self.server.returncode}")
            await self._end(signal.SIGKILL)
            return
        self.me = replace(self.me, view=disk.last_view())
        found = await self.sql.status()
        if found is None:
            # What it said last stands: one that is busy must not be taken for one that still starts.
            self.ready = False
            return
        self.heard_at = time.monotonic()
        status = found.get("wsrep_cluster_status", galera.DISCONNECTED)
        self._enter(Stage.SERVING, status=status)
        self.ready = status == galera.PRIMARY and found.get("wsrep_ready") == "ON"
        self.size, self.local = int(found.get("wsrep_cluster_size", 0)), found.get("wsrep_local_state_comment", "")
        self.encrypted = found.get("encrypted") == "1"
        idle = status == galera.PRIMARY and not self.ready and self.local.startswith("Donor") and not giving()
        self.desynced_since = (self.desynced_since or time.monotonic()) if idle and self.size > 1 else None
        uuid, seqno = found.get("wsrep_local_state_uuid", galera.ZERO), int(found.get("wsrep_last_committed", -1))
        self.me = replace(self.me, data=True, uuid=uuid, seqno=seqno, safe=False)

    async def _prepare(self) -> None:
        """Finds out how far the data are."""
        if disk.clear_unfinished():
            say("removed what an unfinished state transfer left")
        state, data = disk.saved(), disk.has_data()
        uuid, seqno = state.get("uuid") or galera.ZERO, int(state.get("seqno") or -1)
        self.recovered = None
        if data and (uuid == galera.ZERO or seqno < 0):
            found = await self._recover()
            if found is None:
                return
            uuid, seqno = found
            # Without it a member that was killed would receive everything anew.
            self.recovered = f"{uuid}:{seqno}" if uuid != galera.ZERO else None
        self.me = replace(
            self.me,
            stage=Stage.WAITING,
            data=data,
            uuid=uuid if data else galera.ZERO,
            seqno=seqno if data else -1,
            safe=data and state.get("safe_to_bootstrap") == "1",
            view=disk.last_view() if data else None,
        )

    async def _recover(self) -> tuple[str, int] | None:
        # It connects to nobody, but refuses to start without an address.
        options = ["--wsrep-recover", "--wsrep-cluster-address=gcomm://", "--disable-log-error", "--skip-networking"]
        process = await asyncio.create_subprocess_exec("mariadbd", *options, stdout=PIPE, stderr=STDOUT)
        text = (await process.communicate())[0].decode(errors="replace")
        found = re.findall(r"WSREP: Recovered position: ([-0-9a-f]+):(-?\d+)", text)
        if not found:
            told = [line for line in text.splitlines() if "ERROR" in line and "Aborting" not in line]
            self.trouble = f"cannot find out how far its data are: {told[-1] if told else 'it says nothing'}"
            say(self.trouble)
            self.prepared_at = time.monotonic()
            return None
        self.trouble = ""
        return found[-1][0], int(found[-1][1])

    async def _ask(self, name: str) -> Member | None:
        body = await self._get(name, "/")
        try:
            return galera.member(json.loads(body)) if body else None
        except ValueError:
            return None

    async def _release(self) -> None:
        """Takes a vote back, where its receiver answers that it has not used it."""
        if await self._get(self.me.vote, f"/release?by={self.me.name}&ballot={self.me.ballot}"):
            self.me = replace(self.me, vote="", vote_mark="")
            disk.memorize(self.me)

    async def _get(self, name: str, path: str) -> bytes:
        return await wire.ask(f"{name}.{self.domain}", path, self.name if self.known.encrypted else "")

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                method, target, *_ = [*(await reader.readline()).decode(errors="replace").split(), "", ""]
                while (await reader.readline()).strip():
                    pass
                member = not self.known.encrypted or wire.bears(writer, self.name)
                status, body = self._page(target, member=member) if method == "GET" else ("405 Method Not Allowed", "")
                head = f"HTTP/1.0 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write((head + body).encode())
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass
        finally:
            writer.close()

    def _page(self, target: str, *, member: bool) -> tuple[str, str]:
        url = urlsplit(target)
        match url.path:
            case "/":
                more: dict[str, Any] = {"why": self.decision.why, "act": self.decision.act.value, "ready": self.ready}
                more |= {"size": self.size, "local": self.local, "encrypted": self.encrypted, **disk.room()}
                return "200 OK", json.dumps({**galera.published(self.me), **more}, ensure_ascii=True)
            case "/alive":
                silent = self.me.stage is Stage.SERVING and time.monotonic() - self.heard_at > SILENT
                return ("503 Service Unavailable" if silent else "200 OK"), "{}"
            case "/ready":
                return ("200 OK" if self.ready else "503 Service Unavailable"), "{}"
            case "/release" if member:
                asked = parse_qs(url.query)
                if not self.me.unbound:
                    return "409 Conflict", "{}"
                # From here on the vote does not count here, whatever was read of it before.
                self.refused[asked.get("by", [""])[0]] = int(asked.get("ballot", ["0"])[0])
                return "200 OK", "{}"
            case _:
                return "404 Not Found", "{}"


if __name__ == "__main__":
    asyncio.run(Supervisor(sys.argv[1:]).run())
