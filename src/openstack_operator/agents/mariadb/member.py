"""Program in a member's pod: it tells the others what is on its disk, and starts mariadbd when and as `galera` says.

`python3 -m <package>.member COMMAND...`: COMMAND makes an empty database if there is none, and becomes mariadbd.
It needs Python's own library alone, MariaDB's programs, and these variables: POD_NAME, POD_IP, GALERA_DOMAIN (the
headless Service), GALERA_NAME (the name in every member's certificate), GALERA_RECORD and GALERA_ROLE (the directories
of the record, and of the file with the label that says which member takes the clients).
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
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from . import disk, galera, sql, wire
from .galera import Act, Decision, Member, Record, Stage, View
from .tables import Tables

if TYPE_CHECKING:
    from .fence import Fence
    from .role import Role

TICK = 0.5
RETRY = 5.0
"""Seconds before the member asks mariadbd again how far the data are, once it could not say."""
SILENCE = 300.0
"""Seconds after which a server that answered once, and no longer does, counts as one that never will again."""
FAREWELL = 25.0
"""Seconds clients have to go to another member before this one ends."""
ACCOUNTS = Path("/run/mysqld/accounts.sql")

LOCAL_ACCOUNT = """\
SET SESSION sql_log_bin = 0;
CREATE USER IF NOT EXISTS mysql@localhost IDENTIFIED VIA unix_socket;
GRANT ALL PRIVILEGES ON *.* TO mysql@localhost;
"""
"""Account of the system's user that owns the files anyway: state transfers and this program need no password."""


def say(text: str) -> None:
    """Write a line to the log."""
    print(f"member: {text}", file=sys.stderr, flush=True)


def gives_data(processes: Path = Path("/proc")) -> bool:
    """Return True while Galera's script gives all of this member's data to another, which may take hours."""
    for command in processes.glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"wsrep_sst_" in command.read_bytes():
                return True
    return False


class Supervisor:
    """Supervisor of one member."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = command
        self.domain, self.address = os.environ["GALERA_DOMAIN"], os.environ["POD_IP"]
        self.directory, self.certificate_name = Path(os.environ["GALERA_RECORD"]), os.environ["GALERA_NAME"]
        self.me = Member(os.environ["POD_NAME"], Stage.PREPARING)
        self.peers: dict[str, Member] = {}
        self.record = Record(())
        self.decision = Decision(Act.WAIT, "starts")
        self.refusals: dict[str, int] = {}
        self.server: Process | None = None
        self.sql, self.tables = sql.Sql(), Tables(disk.DATA, sql.SOCKET)
        self.fence = self._make_fence()
        self.trouble, self.prepared_at = "", 0.0
        self.takes_queries: bool | None = None
        """None while mariadbd does not say it."""
        self.ready, self.size = False, 0
        self.local, self.encrypted = "", False
        self.ending = asyncio.Event()
        self.start_position: str | None = None
        self.bootstraps: tuple[str, ...] | None = None  # of the component that it starts into
        self.outside: Member | None = None
        """This member while it served outside the primary component; None if it has been started since."""
        self.view_at_start: View | None = None
        self.desynced_since: float | None = None
        self.whole_since: float | None = None
        self.alone_since = self.stage_since = self.heard_at = time.monotonic()

    def _make_fence(self) -> Fence | None:
        """Return the fence; None in a pod of an operator without it, whose container started again before the roll-out
        came to it: there this file is, and neither that of the fence nor its variable.
        """
        if (directory := os.environ.get("GALERA_ROLE")) is None:
            return None
        from .fence import Fence  # noqa: PLC0415  (the file may be missing)

        return Fence(Path(directory), self.sql, self._ask_roles)

    async def run(self) -> None:
        """Run until Kubernetes ends the pod."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self.ending.set)
        await asyncio.start_server(self._answer, port=galera.PORT)
        listener = wire.Listener(self._answer)
        self.me = disk.recall(self.me)
        await self.tables.find_version()
        while not self.ending.is_set():
            await listener.follow()
            await self._look()
            if self.fence and self.takes_queries is not None:
                await (self.fence.end_misplaced() if self.takes_queries else self.fence.end_refused())
            await self._decide()
            try:
                await asyncio.wait_for(self.ending.wait(), TICK if self.me.status != galera.PRIMARY else 2 * TICK)
            except TimeoutError:
                continue
        await self._see_off()
        await self._end(signal.SIGTERM)
        listener.close()

    async def _decide(self) -> None:
        record = self.record = disk.read_record(self.directory)
        if self.me.status == galera.PRIMARY:
            if self.outside and await self._has_strayed():
                say("ends: the others began without what it has last")
                await self._end(signal.SIGKILL)
                return
            self.peers, self.outside = {}, None
            self.alone_since, self.whole_since = time.monotonic(), None
            memory = ("", record.token, self.bootstraps)
            if (self.me.vote, self.me.last_order, self.me.bootstraps) != memory or not disk.MEMORY.exists():
                self.me = replace(self.me, vote="", vote_mark="", last_order=record.token, bootstraps=self.bootstraps)
                disk.memorize(self.me)
        else:
            self.outside = self.me if self.me.stage is Stage.SERVING else None
            self.peers = await self._ask_peers()
            if any(member.status == galera.PRIMARY for member in self.peers.values()):
                self.alone_since, self.whole_since = time.monotonic(), None
        now = time.monotonic()
        if self.whole_since is None and galera.is_whole(self.me, [self.me, *self.peers.values()]):
            self.whole_since = now
        since = self.stage_since
        if self.me.stage is Stage.STARTING and self.me.view != self.view_at_start:
            # It is part of a primary component and receives data, which may take long.
            since = max(since, self.alone_since)
        decision = galera.decide(
            self.me,
            self.peers.values(),
            record,
            galera.Elapsed(
                without_primary=now - self.alone_since,
                since_all_answered=now - (self.whole_since or now),
                in_stage=now - since,
                as_idle_donor=now - self.desynced_since if self.desynced_since else 0.0,
            ),
            self.refusals,
        )
        if self.trouble:
            decision = replace(decision, why=self.trouble)
        if (decision.act, decision.why.partition("; for ")[0]) != (
            self.decision.act,
            self.decision.why.partition("; for ")[0],
        ):
            say(f"{decision.act.value}: {decision.why}")
        self.decision = decision
        await self._carry_out(decision, record)

    async def _has_strayed(self) -> bool:
        """Learn the bootstraps of the component that it is back in; return True if it has what the others lack."""
        peers = (await self._ask_peers()).values()
        self.bootstraps = disk.merged_bootstraps(self.me, peers)
        return self.outside is not None and disk.has_strayed(self.outside, peers)

    async def _carry_out(self, decision: Decision, record: Record) -> None:
        marks = {self.me.name: self.me.mark, **{name: member.mark for name, member in self.peers.items()}}
        vote = (decision.vote, marks.get(decision.vote, self.me.vote_mark) if decision.vote else "")
        if vote != (self.me.vote, self.me.vote_mark):
            self.me = replace(self.me, vote=vote[0], vote_mark=vote[1], ballot=self.me.ballot + 1)
            disk.memorize(self.me)
        match decision.act:
            case Act.START:
                if disk.has_strayed(self.me, self.peers.values()):
                    say("takes all data from the others: they began without what it has last")
                    disk.forget_position()
                    self.start_position = None
                self.bootstraps = disk.merged_bootstraps(self.me, self.peers.values())
                await self._start(["mariadbd"], record)
            case Act.BOOTSTRAP | Act.INITIALIZE:
                command = ["mariadbd"] if decision.act is Act.BOOTSTRAP else self.command
                self.bootstraps = disk.with_bootstrap(self.me)
                ACCOUNTS.write_text(LOCAL_ACCOUNT, encoding="utf-8")
                disk.allow_bootstrap()
                await self._start(command, record, f"--init-file={ACCOUNTS}", "--wsrep-new-cluster", leads=True)
            case Act.RESTART:
                # Killed, not stopped: it keeps what it knows of its last view.
                await self._end(signal.SIGKILL)
            case _:
                if decision.release:
                    await self._release()

    async def _start(self, command: Sequence[str], record: Record, *options: str, leads: bool = False) -> None:
        self._enter(Stage.STARTING, leads=leads)
        self.view_at_start = self.me.view
        sql.SOCKET.unlink(missing_ok=True)
        hosts = ",".join(f"{name}.{self.domain}" for name in record.members)
        addresses = [f"--wsrep-cluster-address=gcomm://{hosts}", f"--wsrep-node-address={self.address}"]
        position = [f"--wsrep-start-position={self.start_position}"] if self.start_position else []
        name = f"--wsrep-node-name={self.me.name}"
        self.server = await asyncio.create_subprocess_exec(*command, *addresses, name, *position, *options)

    async def _see_off(self) -> None:
        """Make clients go to another member, as far as they do so in time. New ones do by themselves: Kubernetes sends
        none to a pod that is to end, and the operator names another primary. Those that are connected would stay until
        the end, in the middle of what they do.
        """
        until = time.monotonic() + FAREWELL
        while self.ready and self.size > 1 and time.monotonic() < until:
            if not (rows := await self.sql.rows(sql.CLIENTS)):
                return
            await self.sql.kill(identity for use, identity in rows if use == "idle")
            # Once another member takes clients, those that are still here have no time left for anything new.
            if self.fence:
                await self.fence.end_misplaced(asks=True)
            # Until all have gone, those that came to the next primary already are ahead of those that are still here.
            await asyncio.sleep(TICK / 2)

    async def _end(self, stop_signal: signal.Signals) -> None:
        server, self.server = self.server, None
        self.takes_queries, self.ready, self.desynced_since = None, False, None
        await self.sql.close()
        if server is not None:
            if server.returncode is None:
                server.send_signal(stop_signal)
            await server.wait()
        self._enter(Stage.PREPARING)

    def _enter(self, stage: Stage, *, status: str = "", leads: bool = False) -> None:
        if (stage, status) != (self.me.stage, self.me.status):
            self.stage_since = time.monotonic()
        self.me = replace(self.me, stage=stage, status=status, leads=leads)

    async def _look(self) -> None:
        """Find out the state of this member."""
        if self.server is None:
            if self.me.stage is Stage.PREPARING and time.monotonic() - self.prepared_at > RETRY * bool(self.trouble):
                await self._prepare()
            return
        if self.server.returncode is not None:
            say(f"mariadbd ended with status {self.server.returncode}")
            await self._end(signal.SIGKILL)
            return
        self.me = replace(self.me, view=disk.last_view())
        wsrep = await self.sql.status()
        if wsrep is None:
            # What it said last stands: one that is busy must not be taken for one that still starts.
            self.takes_queries, self.ready = None, False
            return
        self.heard_at = time.monotonic()
        status = wsrep.get("wsrep_cluster_status", galera.DISCONNECTED)
        self._enter(Stage.SERVING, status=status)
        takes_queries = self.takes_queries = status == galera.PRIMARY and wsrep.get("wsrep_ready") == "ON"
        peers = await self._ask_peers() if takes_queries and self.tables.are_unknown else {}
        self.ready = takes_queries and self.tables.are_current(peers.values())
        self.size, self.local = int(wsrep.get("wsrep_cluster_size", 0)), wsrep.get("wsrep_local_state_comment", "")
        self.encrypted = wsrep.get("encrypted") == "1"
        is_idle_donor = (
            status == galera.PRIMARY and not takes_queries and self.local.startswith("Donor") and not gives_data()
        )
        self.desynced_since = (self.desynced_since or time.monotonic()) if is_idle_donor and self.size > 1 else None
        uuid, seqno = wsrep.get("wsrep_local_state_uuid", galera.ZERO), int(wsrep.get("wsrep_last_committed", -1))
        self.me = replace(self.me, data=True, uuid=uuid, seqno=seqno, safe=False, tables=self.tables.noted)

    async def _prepare(self) -> None:
        """Find out how far the data are."""
        if disk.clear_unfinished():
            say("removed the files of an unfinished state transfer")
        state, data = disk.grastate(), disk.has_data()
        uuid, seqno = state.get("uuid") or galera.ZERO, int(state.get("seqno") or -1)
        self.start_position, self.trouble = None, self.tables.refusal()
        if self.trouble:
            self.prepared_at = time.monotonic()
            return
        if data and (uuid == galera.ZERO or seqno < 0):
            position = await self._recover()
            if position is None:
                return
            uuid, seqno = position
            # Without it a member that was killed would receive everything again.
            self.start_position = f"{uuid}:{seqno}" if uuid != galera.ZERO else None
        self.me = replace(
            self.me,
            stage=Stage.WAITING,
            data=data,
            uuid=uuid if data else galera.ZERO,
            seqno=seqno if data else -1,
            safe=data and state.get("safe_to_bootstrap") == "1",
            view=disk.last_view() if data else None,
            version=self.tables.version,
            tables=self.tables.noted,
        )

    async def _recover(self) -> tuple[str, int] | None:
        # It connects to no other member, but refuses to start without an address.
        options = ["--wsrep-recover", "--wsrep-cluster-address=gcomm://", "--disable-log-error", "--skip-networking"]
        process = await asyncio.create_subprocess_exec("mariadbd", *options, stdout=PIPE, stderr=STDOUT)
        text = (await process.communicate())[0].decode(errors="replace")
        positions = re.findall(r"WSREP: Recovered position: ([-0-9a-f]+):(-?\d+)", text)
        if not positions:
            errors = [line for line in text.splitlines() if "ERROR" in line and "Aborting" not in line]
            self.trouble = f"cannot read its last transaction: {errors[-1] if errors else 'no output'}"
            say(self.trouble)
            self.prepared_at = time.monotonic()
            return None
        self.trouble = ""
        return positions[-1][0], int(positions[-1][1])

    async def _ask_peers(self) -> dict[str, Member]:
        peers: dict[str, Member] = {}
        for facts in (await self._ask_facts()).values():
            with contextlib.suppress(ValueError):
                member = galera.member(facts)
                peers[member.name] = member
        return peers

    async def _ask_facts(self) -> dict[str, Any]:
        """Return what each of the other members publishes, as far as they answer."""
        names = [name for name in self.record.members if name != self.me.name]
        bodies = await asyncio.gather(*(self._get(name, "/") for name in names))
        facts: dict[str, Any] = {}
        for name, body in zip(names, bodies, strict=True):
            with contextlib.suppress(ValueError):
                facts[name] = json.loads(body)
        return facts

    async def _ask_roles(self) -> dict[str, Role]:
        from .role import reported_role  # noqa: PLC0415  (the file may be missing)

        return {name: reported_role(facts) for name, facts in (await self._ask_facts()).items()}

    async def _release(self) -> None:
        """Take a vote back, if its receiver answers that it has not used it."""
        if await self._get(self.me.vote, f"/release?by={self.me.name}&ballot={self.me.ballot}"):
            self.me = replace(self.me, vote="", vote_mark="")
            disk.memorize(self.me)

    async def _get(self, name: str, path: str) -> bytes:
        return await wire.ask(f"{name}.{self.domain}", path, self.certificate_name if self.record.encrypted else "")

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                method, path = await wire.read_request(reader)
                is_peer = not self.record.encrypted or wire.has_name(writer, self.certificate_name)
                status, body = self._page(path, is_peer=is_peer) if method == "GET" else ("405 Method Not Allowed", "")
                head = f"HTTP/1.0 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write((head + body).encode())
                await writer.drain()
        except (OSError, EOFError, TimeoutError, ValueError):
            pass
        finally:
            writer.close()

    def _page(self, path: str, *, is_peer: bool) -> tuple[str, str]:
        url = urlsplit(path)
        match url.path:
            case "/":
                why = self.tables.trouble or self.decision.why
                state: dict[str, Any] = {"why": why, "act": self.decision.act.value, "ready": self.ready}
                state |= {"size": self.size, "local": self.local, "encrypted": self.encrypted, **disk.volume_space()}
                if self.fence:
                    role = self.fence.role(serves=self.ready)
                    state |= {"role": role.name, "role_age": role.age, "role_term": role.term}
                # Who joins its component learns them from the first moment on.
                state |= {"bootstraps": self.bootstraps} if self.me.status == galera.PRIMARY else {}
                return "200 OK", json.dumps({**galera.published(self.me), **state}, ensure_ascii=True)
            case "/alive":
                is_silent = self.me.stage is Stage.SERVING and time.monotonic() - self.heard_at > SILENCE
                return ("503 Service Unavailable" if is_silent else "200 OK"), "{}"
            case "/ready":
                return ("200 OK" if self.ready else "503 Service Unavailable"), "{}"
            case "/release" if is_peer:
                query = parse_qs(url.query)
                if not self.me.is_unbound:
                    return "409 Conflict", "{}"
                # From here on the vote does not count here, whatever was read of it before.
                self.refusals[query.get("by", [""])[0]] = int(query.get("ballot", ["0"])[0])
                return "200 OK", "{}"
            case _:
                return "404 Not Found", "{}"


if __name__ == "__main__":
    asyncio.run(Supervisor(sys.argv[1:]).run())
