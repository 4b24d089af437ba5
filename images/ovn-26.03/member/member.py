"""One member of a clustered OVN database: `member.py nb|sb`.

Reports its facts to the other members over HTTP, runs ovsdb-server, and rebuilds the cluster when raft cannot recover.
Needs OVN_ADDRESS, its stable host name, and OVN_SEED, the member that may create the first cluster. It reads the folder
/etc/ovn-raft again and again: `members` are all host names with commas, `force` is the member that the user chose to
rebuild the cluster, `cluster` the identity of the cluster that counts, `schemes` the protocols between members, the
desired one before one that some may still use.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from address import readdressed
from decision import Action, Decision, Facts, State, decide

RECORD = Path("/etc/ovn-raft")
DATA = Path("/var/lib/ovn")
RUN = Path("/run/ovn")
TLS = Path("/etc/ovn-tls")
ANY = "0.0.0.0"
"""Address at which it listens, unless OVN_LISTEN names another."""
PAUSE = 1.0
"""Seconds between two looks at the world."""
LOOKS = 5
"""Times in a row a decision that gives a cluster up must be the same: messages that are under way may change it."""


@dataclass(frozen=True)
class Database:
    """One of the two."""

    short: str
    name: str
    client: int
    raft: int
    facts: int

    @property
    def file(self) -> Path:
        return DATA / f"ovn{self.short}_db.db"

    @property
    def control(self) -> Path:
        return RUN / f"ovn{self.short}_db.ctl"


DATABASES = {
    "nb": Database("nb", "OVN_Northbound", 6641, 6643, 6661),
    "sb": Database("sb", "OVN_Southbound", 6642, 6644, 6662),
}


def say(text: str) -> None:
    """A line of the log."""
    print(f"ovn-db-member: {text}", flush=True)


def control(path: Path, method: str, *words: str) -> str | None:
    """The answer of a running server, None where there is none."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(3)
            connection.connect(str(path))
            connection.sendall(json.dumps({"id": 0, "method": method, "params": words}).encode())
            text, decoder = "", json.JSONDecoder()
            while piece := connection.recv(65536):
                text += piece.decode()
                with contextlib.suppress(ValueError):
                    return str(decoder.raw_decode(text)[0].get("result") or "")
    except OSError:
        pass
    return None


def facts_of_status(text: str) -> Facts:
    """Parse the output of `cluster/status`; the position in the log is not in it."""
    fields = dict(re.findall(r"^(Cluster ID|Server ID|Address|Status|Leader): (.*)$", text, re.MULTILINE))
    whole = {
        name: (re.search(r"\((.*)\)", fields.get(name, "")) or [""] * 2)[1] for name in ("Cluster ID", "Server ID")
    }
    # Servers are listed by the first four digits of their identities.
    servers = frozenset(re.findall(r"^ +([0-9a-f]{4}) \(", text, re.MULTILINE))
    status = fields.get("Status", "")
    joining = status.startswith("joining") or not whole["Cluster ID"]
    return Facts(
        state=State.JOINING if joining else State.MEMBER,
        led=not joining and status == "cluster member" and fields.get("Leader", "unknown") != "unknown",
        cluster=whole["Cluster ID"],
        server=whole["Server ID"][:4],
        servers=servers,
        scheme=fields.get("Address", "").partition(":")[0],
    )


def spoken(record: str, *, certified: bool) -> Sequence[str]:
    """Return the protocols between members: that of a new address before those that addresses of others may have.
    `record` is the entry `schemes` of the record.
    """
    return (record or "tcp,ssl").split(",") if certified else ["tcp"]


def target_scheme(schemes: Sequence[str]) -> str:
    """Return the protocol to go over to; empty while the record has no choice: a server with an early certificate may
    keep its address.
    """
    return "" if schemes == ["tcp", "ssl"] else schemes[0]


def empty(file: Path) -> bool:
    """Return True if there is no server, or one whose last record says that it has left: ovsdb-server does not open its
    file.
    """
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - 200))
            return b'"note":"left"' in log.read()
    except FileNotFoundError:
        return True


@functools.lru_cache(maxsize=1)
def last_entry(file: Path, size: int) -> tuple[int, int]:
    """Term and index of the last entry of a raft log of that size (ovsdb(5), "Clustered Database Format")."""
    term = index = 0
    with file.open("rb") as log:
        text = log.read(size)
    for line in text.splitlines():
        if not line.startswith(b"{"):
            continue
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            if "prev_index" in record:
                term, index = record.get("prev_term", 0), record["prev_index"]
            if "index" in record:
                # An entry that was replaced comes again with its old index and a later term.
                term, index = record.get("term", term), record["index"]
    return term, index


def ask(host: str, port: int) -> Facts | None:
    """Return the report of another member, None where it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{host}:{port}/", timeout=1) as answer:
            report: dict[str, Any] = json.load(answer)
        fields = {name: report[name] for name in ("led", "cluster", "server", "term", "index")}
        fields["scheme"] = report.get("scheme", "")
        return Facts(state=State(report["state"]), servers=frozenset(report["servers"]), **fields)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def listening(
    database: Database, *, plain: bool, tls: Path = TLS, host: str = ANY
) -> tuple[dict[str, object], list[str]]:
    """Return the addresses at which its server listens, and its options for TLS, as `ovn-remotes` has them."""
    probed = {"inactivity-probe": 60000}
    remotes: dict[str, object] = {f"punix:{RUN}/ovn{database.short}_db.sock": {}}
    if plain:
        remotes[f"ptcp:{database.client}:{host}"] = probed
    if not (tls / "tls.crt").exists():
        return remotes, []
    remotes[f"pssl:{10000 + database.client}:{host}"] = probed
    files = {"private-key": "tls.key", "certificate": "tls.crt", "ca-cert": "ca.crt"}
    return remotes, [f"--{option}={tls / file}" for option, file in files.items()]


@dataclass
class Member:
    """This member."""

    database: Database
    address: str
    seed: str
    server: subprocess.Popen[bytes] | None = None
    report: dict[str, Any] = field(default_factory=dict[str, Any])
    role: str = ""
    stopping: bool = False

    def record(self, key: str) -> str:
        """An entry of the record, empty where there is none."""
        try:
            return (RECORD / key).read_text().strip()
        except OSError:
            return ""

    @property
    def members(self) -> Sequence[str]:
        return [host for host in self.record("members").split(",") if host]

    @property
    def schemes(self) -> Sequence[str]:
        """The protocols between members."""
        return spoken(self.record("schemes"), certified=(TLS / "tls.crt").exists())

    def at(self, scheme: str, host: str) -> str:
        """Return the address of a member for raft."""
        return f"{scheme}:{host}:{self.database.raft}"

    def facts(self) -> Facts:
        """Return the facts of this member. It reads the log only where that matters: without a leader."""
        file, self.role = self.database.file, ""
        if empty(file):
            return Facts(State.EMPTY)
        answer = control(self.database.control, "cluster/status", self.database.name)
        if not answer or "Status:" not in answer:
            return Facts(State.BUSY)
        facts = facts_of_status(answer)
        self.role = "leader" if facts.led and "\nRole: leader\n" in answer else ""
        if facts.state is State.MEMBER and not facts.led:
            term, index = last_entry(file, file.stat().st_size)
            facts = replace(facts, term=term, index=index)
        return facts

    def tell(self, facts: Facts, why: str) -> None:
        """Set the report that others read."""
        text = {**asdict(facts), "servers": sorted(facts.servers), "role": self.role, "why": why}
        if text != self.report:
            self.report = text
            say(json.dumps(text))

    def tool(self, *words: str | Path) -> None:
        """Runs ovsdb-tool; raises CalledProcessError."""
        subprocess.run(["ovsdb-tool", *map(str, words)], check=True)

    def start(self) -> None:
        """The server runs with what the disk holds."""
        database = self.database
        RUN.mkdir(parents=True, exist_ok=True)
        settings = RUN / f"ovn{database.short}_db.json"
        host = os.environ.get("OVN_LISTEN", ANY)
        remotes, certificate = listening(database, plain=os.environ.get("OVN_PLAIN") != "no", host=host)
        settings.write_text(json.dumps({"remotes": remotes, "databases": {str(database.file): {}}}))
        logs = ["-vconsole:info", "-vfile:off", "-vsyslog:off"]
        self.server = subprocess.Popen(
            ["ovsdb-server", f"--config-file={settings}", f"--unixctl={database.control}", *certificate, *logs]
        )

    def stop(self) -> None:
        """The server has ended."""
        if self.server:
            self.server.terminate()
            self.server.wait()
            self.server = None

    def make(self, action: Action) -> None:
        """The disk holds what was decided. The old file is replaced in one move: there is always a whole one."""
        file, fresh = self.database.file, self.database.file.with_suffix(".new")
        self.tell(Facts(State.BUSY), f"{action}s")
        fresh.unlink(missing_ok=True)
        here = self.at(self.schemes[0], self.address)
        # 5 s: shorter timers lose the leader whenever the processor is busy.
        create = ["--election-timer=5000", "create-cluster", fresh]
        if action is Action.CREATE:
            self.tool(*create, f"/usr/share/ovn/ovn-{self.database.short}.ovsschema", here)
        elif action is Action.REBUILD:
            alone = file.with_suffix(".alone")
            alone.unlink(missing_ok=True)
            self.stop()
            self.tool("cluster-to-standalone", alone, file)
            self.tool(*create, alone, here)
            alone.unlink()
        else:
            peers = [self.at(how, host) for host in self.members if host != self.address for how in self.schemes]
            self.tool("join-cluster", fresh, self.database.name, here, *peers)
        self.stop()
        if file.exists():
            backup = file.with_suffix(".before")
            backup.unlink(missing_ok=True)
            os.link(file, backup)
        fresh.rename(file)

    def act(self, action: Action) -> None:
        """Something is done that changes what the disk holds; leaving goes on by itself, and ends with an empty one."""
        if action is Action.LEAVE:
            control(self.database.control, "cluster/leave", self.database.name)
        elif action is Action.READDRESS:
            self.stop()
            readdressed(self.database.file, self.at(self.schemes[0], self.address))
            self.start()
        else:
            self.make(action)
            self.start()

    def look(self, pool: ThreadPoolExecutor) -> Decision:
        """Return the next move."""
        mine = self.facts()
        heard = {self.address: mine}
        believed, forced = self.record("cluster"), self.record("force")
        scheme = target_scheme(self.schemes)
        moves = scheme not in {"", mine.scheme}
        if not mine.led or moves or (believed and believed != mine.cluster):
            # What the members say is only worth something together with what this one says at that time.
            self.tell(mine, str(self.report.get("why", "")))
            peers = [host for host in self.members if host != self.address]
            answers = pool.map(ask, peers, [self.database.facts] * len(peers))
            heard |= {host: facts for host, facts in zip(peers, answers, strict=True) if facts}
        choices = {"seed": self.seed, "forced": forced, "cluster": believed, "scheme": scheme}
        decision = decide(self.address, self.members, heard, **choices)
        self.tell(mine, decision.why)
        return decision

    def run(self) -> int:
        """Serves until it is stopped; the exit status of the server."""
        last, times = Action.SERVE, 0
        if not empty(self.database.file):
            self.start()
        with ThreadPoolExecutor(8) as pool:
            while not self.stopping:
                if self.server and (status := self.server.poll()) is not None:
                    return status
                decision = self.look(pool)
                times = times + 1 if decision.action is last else 1
                last = decision.action
                is_first_cluster = decision.action is Action.CREATE and self.seed == self.address
                if decision.action in {Action.SERVE, Action.WAIT}:
                    pass
                elif decision.action is Action.JOIN or is_first_cluster or times >= LOOKS:
                    say(f"{self.database.name}: {decision.why}")
                    self.act(decision.action)
                time.sleep(PAUSE if self.report.get("led") else PAUSE / 2)
        self.stop()
        return 0


def facts_server_class() -> type[http.server.ThreadingHTTPServer]:
    """Return the server of the facts, which takes clients of the families that the database takes."""

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in os.environ.get("OVN_LISTEN", ANY) else socket.AF_INET

    return Server


def serve(member: Member) -> None:
    """Others hear what this member says of itself."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(member.report).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Do not log: each member asks every second."""

    server = facts_server_class()(("", member.database.facts), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main() -> int:
    member = Member(DATABASES[sys.argv[1]], os.environ["OVN_ADDRESS"], os.environ.get("OVN_SEED", ""))

    def stop(*_: object) -> None:
        member.stopping = True
        if member.server:
            member.server.terminate()

    signal.signal(signal.SIGTERM, stop)
    member.tell(Facts(State.BUSY), "starts")
    serve(member)
    return member.run()


if __name__ == "__main__":
    sys.exit(main())
