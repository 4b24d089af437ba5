"""One member of a clustered OVN database: `member.py nb|sb`.

Tells the other members over HTTP what it holds, runs ovsdb-server, and makes the cluster anew when raft cannot recover.
Needs OVN_ADDRESS, its stable host name, and OVN_SEED, the member that may create the first cluster. The folder
/etc/ovn-raft is read again and again: `members` are all host names with commas, `force` is who was told to make the
cluster anew, `cluster` the identity of the cluster to be believed in, `schemes` how members speak with each other, what
is wanted before what some may still do.
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
    """What `cluster/status` says; the position in the log is not in it."""
    found = dict(re.findall(r"^(Cluster ID|Server ID|Address|Status|Leader): (.*)$", text, re.MULTILINE))
    whole = {name: (re.search(r"\((.*)\)", found.get(name, "")) or [""] * 2)[1] for name in ("Cluster ID", "Server ID")}
    # Servers are listed by the first four digits of their identities.
    servers = frozenset(re.findall(r"^ +([0-9a-f]{4}) \(", text, re.MULTILINE))
    status = found.get("Status", "")
    joining = status.startswith("joining") or not whole["Cluster ID"]
    return Facts(
        state=State.JOINING if joining else State.MEMBER,
        led=not joining and status == "cluster member" and found.get("Leader", "unknown") != "unknown",
        cluster=whole["Cluster ID"],
        server=whole["Server ID"][:4],
        servers=servers,
        scheme=found.get("Address", "").partition(":")[0],
    )


def spoken(told: str, *, certified: bool) -> Sequence[str]:
    """How members speak with each other: what a new address begins with before what others' addresses may. `told` is
    what the record says.
    """
    return (told or "tcp,ssl").split(",") if certified else ["tcp"]


def wanted(schemes: Sequence[str]) -> str:
    """What to go over to; empty while nobody was told: one that had a certificate early may keep its address."""
    return "" if schemes == ["tcp", "ssl"] else schemes[0]


def empty(file: Path) -> bool:
    """Whether there is no server, or one whose last word is that it has left: ovsdb-server does not open its file."""
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
    """What another member says of itself, None where it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{host}:{port}/", timeout=1) as answer:
            told: dict[str, Any] = json.load(answer)
        known = {name: told[name] for name in ("led", "cluster", "server", "term", "index")}
        known["scheme"] = told.get("scheme", "")
        return Facts(state=State(told["state"]), servers=frozenset(told["servers"]), **known)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def listening(database: Database, *, plain: bool, tls: Path = TLS) -> tuple[dict[str, object], list[str]]:
    """Where its server listens, and by what options it finds what it shows there, as `ovn-remotes` has it."""
    probed = {"inactivity-probe": 60000}
    remotes: dict[str, object] = {f"punix:{RUN}/ovn{database.short}_db.sock": {}}
    if plain:
        remotes[f"ptcp:{database.client}:0.0.0.0"] = probed
    if not (tls / "tls.crt").exists():
        return remotes, []
    remotes[f"pssl:{10000 + database.client}:0.0.0.0"] = probed
    files = {"private-key": "tls.key", "certificate": "tls.crt", "ca-cert": "ca.crt"}
    return remotes, [f"--{option}={tls / file}" for option, file in files.items()]


@dataclass
class Member:
    """This member."""

    database: Database
    address: str
    seed: str
    server: subprocess.Popen[bytes] | None = None
    told: dict[str, Any] = field(default_factory=dict[str, Any])
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
        """How members speak with each other."""
        return spoken(self.record("schemes"), certified=(TLS / "tls.crt").exists())

    def at(self, scheme: str, host: str) -> str:
        """Where raft finds a member."""
        return f"{scheme}:{host}:{self.database.raft}"

    def facts(self) -> Facts:
        """What this member holds. The log is only read where it matters: without a leader."""
        file, self.role = self.database.file, ""
        if empty(file):
            return Facts(State.EMPTY)
        answer = control(self.database.control, "cluster/status", self.database.name)
        if not answer or "Status:" not in answer:
            return Facts(State.BUSY)
        found = facts_of_status(answer)
        self.role = "leader" if found.led and "\nRole: leader\n" in answer else ""
        if found.state is State.MEMBER and not found.led:
            term, index = last_entry(file, file.stat().st_size)
            found = replace(found, term=term, index=index)
        return found

    def tell(self, facts: Facts, why: str) -> None:
        """Sets what others hear."""
        text = {**asdict(facts), "servers": sorted(facts.servers), "role": self.role, "why": why}
        if text != self.told:
            self.told = text
            say(json.dumps(text))

    def tool(self, *words: str | Path) -> None:
        """Runs ovsdb-tool; raises CalledProcessError."""
        subprocess.run(["ovsdb-tool", *map(str, words)], check=True)

    def start(self) -> None:
        """The server runs with what the disk holds."""
        database = self.database
        RUN.mkdir(parents=True, exist_ok=True)
        settings = RUN / f"ovn{database.short}_db.json"
        remotes, certificate = listening(database, plain=os.environ.get("OVN_PLAIN") != "no")
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
            others = [self.at(how, host) for host in self.members if host != self.address for how in self.schemes]
            self.tool("join-cluster", fresh, self.database.name, here, *others)
        self.stop()
        if file.exists():
            kept = file.with_suffix(".before")
            kept.unlink(missing_ok=True)
            os.link(file, kept)
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
        """What to do next."""
        mine = self.facts()
        heard = {self.address: mine}
        believed, forced = self.record("cluster"), self.record("force")
        scheme = wanted(self.schemes)
        moves = scheme not in {"", mine.scheme}
        if not mine.led or moves or (believed and believed != mine.cluster):
            # What the members say is only worth something together with what this one says at that time.
            self.tell(mine, str(self.told.get("why", "")))
            others = [host for host in self.members if host != self.address]
            answers = pool.map(ask, others, [self.database.facts] * len(others))
            heard |= {host: facts for host, facts in zip(others, answers, strict=True) if facts}
        told = {"seed": self.seed, "forced": forced, "cluster": believed, "scheme": scheme}
        decision = decide(self.address, self.members, heard, **told)
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
                first = decision.action is Action.CREATE and self.seed == self.address
                if decision.action in {Action.SERVE, Action.WAIT}:
                    pass
                elif decision.action is Action.JOIN or first or times >= LOOKS:
                    say(f"{self.database.name}: {decision.why}")
                    self.act(decision.action)
                time.sleep(PAUSE if self.told.get("led") else PAUSE / 2)
        self.stop()
        return 0


def serve(member: Member) -> None:
    """Others hear what this member says of itself."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(member.told).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Every second somebody asks; that is no news."""

    server = http.server.ThreadingHTTPServer(("", member.database.facts), Handler)
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
