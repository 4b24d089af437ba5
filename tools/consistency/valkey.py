"""A Valkey of three with sentinels, and a client that says what became of each transaction."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

from msgspec import structs

from tools.localcluster.kubernetes import KubeError

from . import checker
from .clients import CONNECT, PAUSE, Database, Door, now
from .history import Append, Operation, Outcome, Read, Transaction
from .site import MEMBERS, NAME, SIZED, Site

_ANSWER = 5.0
_SENTINEL = 26379
_SET = "mymaster"
_PIECE = 1000
"""Lists of a request in a final read."""
HARM = frozenset({checker.UNWRITTEN, checker.DUPLICATE, checker.DIVERGED, checker.INTERMEDIATE})
"""A cache may lose what it acknowledged when another server takes over, and with it what others have read."""


class RefusedError(Exception):
    """The server answers with an error."""


class ValkeySite(Site):
    """A Valkey."""

    kind = "Valkey"
    images = ("valkey",)
    spec: ClassVar = {
        "replicas": MEMBERS,
        "sentinel": {"enabled": True},
        # So much that it never drops what is still to be judged.
        "memory": "256Mi",
        "storageSize": "1Gi",
        "storageClassName": SIZED,
    }
    port = 6379

    def password(self) -> str:
        """Return the password of servers and sentinels. Raises KubeError."""
        return self.secret(f"{NAME}-credentials", "password")

    def sentinels(self) -> list[Door]:
        """Return the address of each sentinel. Raises KubeError."""
        return self.members(_SENTINEL)

    def primary(self) -> str:
        """Return the member that the sentinels name; empty while none does. Raises KubeError."""
        return Sentinels(self.sentinels(), self.password()).primary()


class Connection:
    """A connection to a server or a sentinel."""

    member = ""

    def __init__(self, door: Door, password: str) -> None:
        self.member = door.name
        self._socket = socket.create_connection((door.host, door.port), CONNECT)
        self._socket.settimeout(_ANSWER)
        self._file: BinaryIO = self._socket.makefile("rb")
        self.call("AUTH", password)

    def call(self, *words: str) -> Any:
        """Return the answer to a command. Raises RefusedError, OSError, or ValueError."""
        [answer] = self.calls([words])
        if isinstance(answer, RefusedError):
            raise answer
        return answer

    def calls(self, commands: Sequence[Sequence[str]]) -> list[Any]:
        """Return the answer to each command; errors are among them. Raises OSError or ValueError."""
        self._socket.sendall(b"".join(_encoded(words) for words in commands))
        return [self._answer() for _ in commands]

    def _answer(self) -> Any:
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("closed the connection")
        kind, text = line[:1], line[1:-2].decode()
        match kind:
            case b"+":
                return text
            case b"-":
                return RefusedError(text)
            case b":":
                return int(text)
            case b"$":
                return None if text == "-1" else self._bulk(int(text))
            case b"*":
                return None if text == "-1" else [self._answer() for _ in range(int(text))]
            case _:
                raise ValueError(f"no answer of Valkey: {line[:20]!r}")

    def _bulk(self, size: int) -> str:
        data = self._file.read(size + 2)
        if len(data) < size + 2:
            raise OSError("closed the connection")
        return data[:-2].decode()

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()


def _encoded(words: Sequence[str]) -> bytes:
    parts = [f"*{len(words)}\r\n".encode()]
    for word in words:
        data = word.encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


@dataclass(frozen=True)
class Sentinels:
    """The sentinels of a Valkey."""

    doors: Sequence[Door]
    password: str

    def primary(self) -> str:
        """Return the member that the first sentinel which answers names; empty if none does."""
        for door in self.doors:
            with (
                contextlib.suppress(OSError, ValueError, RefusedError),
                contextlib.closing(Connection(door, self.password)) as connection,
            ):
                host, _ = connection.call("SENTINEL", "GET-PRIMARY-ADDR-BY-NAME", _SET)
                return str(host).partition(".")[0]
        return ""


class ValkeyClient:
    """A client, which executes transactions at the primary."""

    def __init__(self, connect: Callable[[int], Connection], process: int) -> None:
        self._connect, self._process = connect, process
        self._turn = process
        self._connection: Connection | None = None
        self._member = ""
        self.wait = 0.0

    def execute(self, operations: Sequence[Operation]) -> Transaction:
        """Execute a transaction once, and return it with its outcome."""
        start, is_sent, results, problem = now(), False, list(operations), ""
        outcome, self.wait = Outcome.FAILED, 0.0
        try:
            connection = self._connection = self._connection or self._connect(self._turn)
            self._member = connection.member
            is_sent = True
            *_, answers = connection.calls([["MULTI"], *(_command(each) for each in operations), ["EXEC"]])
            if isinstance(answers, RefusedError):
                raise answers
            results = [_executed(each, answer) for each, answer in zip(operations, answers, strict=True)]
            outcome = Outcome.OK
        except (OSError, ValueError, RefusedError) as error:
            # An error instead of the answers says that nothing was executed.
            is_open = is_sent and not isinstance(error, RefusedError)
            outcome = Outcome.UNKNOWN if is_open else Outcome.FAILED
            problem = f"{type(error).__name__} {error}"[:120]
            self.close()
            self._turn += 1
            self.wait = PAUSE
        return Transaction(self._process, outcome, start, now(), tuple(results), error=problem, member=self._member)

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection:
            connection.close()


def _command(operation: Operation) -> list[str]:
    name = f"list:{operation.key}"
    return ["RPUSH", name, str(operation.value)] if isinstance(operation, Append) else ["LRANGE", name, "0", "-1"]


def _executed(operation: Operation, answer: Any) -> Operation:
    if isinstance(answer, RefusedError):
        raise ValueError(str(answer))
    if isinstance(operation, Append):
        return operation
    return structs.replace(operation, values=tuple(int(each) for each in answer))


@dataclass(frozen=True)
class Valkey(Database):
    """The data of a site."""

    servers: Sequence[Door]
    sentinels: Sentinels
    asks_sentinels: bool
    """True to take the server that sentinels name, as clients do; False to take any that calls itself the primary."""
    harm = HARM

    @classmethod
    def of(cls, site: ValkeySite, through: str) -> Valkey:
        """Return the data with doors for clients. Raises KubeError."""
        return cls(site.members(), Sentinels(site.sentinels(), site.password()), through == "door")

    def _chosen(self, turn: int) -> Door:
        if not self.asks_sentinels:
            return self.servers[turn % len(self.servers)]
        rotated = [
            self.sentinels.doors[(turn + n) % len(self.sentinels.doors)] for n in range(len(self.sentinels.doors))
        ]
        name = Sentinels(rotated, self.sentinels.password).primary()
        for door in self.servers:
            if door.name == name:
                return door
        raise RefusedError("no sentinel names a primary")

    def _connected(self, turn: int) -> Connection:
        connection = Connection(self._chosen(turn), self.sentinels.password)
        if connection.call("ROLE")[0] != "master":
            connection.close()
            raise RefusedError("a replica")
        return connection

    def prepare(self) -> None:
        """Delete all data. Raises KubeError if there is no primary."""
        try:
            with contextlib.closing(Connection(self._chosen(0), self.sentinels.password)) as connection:
                connection.call("FLUSHALL")
        except (OSError, ValueError, RefusedError) as error:
            raise KubeError(f"Valkey does not answer: {error}") from None

    def client(self, process: int) -> ValkeyClient:
        """Return a new client."""
        return ValkeyClient(self._connected, process)

    def read_all(self, member: Door, keys: int) -> Transaction:
        """Return what a member has at the end. Raises OSError if it does not answer."""
        start, lists = now(), dict[int, tuple[int, ...]]()
        try:
            with contextlib.closing(Connection(member, self.sentinels.password)) as connection:
                for first in range(0, keys, _PIECE):
                    piece = range(first, min(first + _PIECE, keys))
                    answers = connection.calls([_command(Read(key)) for key in piece])
                    lists |= {
                        key: tuple(int(each) for each in answer) for key, answer in zip(piece, answers, strict=True)
                    }
        except (TypeError, ValueError) as error:
            raise OSError(str(error)) from error
        reads = tuple(Read(key, lists[key]) for key in range(keys))
        return Transaction(-1, Outcome.OK, start, now(), reads, is_final=True, member=member.name)

    def facts(self) -> dict[str, str]:
        """Return the version and the settings on which the result depends. Raises KubeError."""
        try:
            with contextlib.closing(Connection(self._chosen(0), self.sentinels.password)) as connection:
                text = connection.call("INFO", "server")
                version = next(line for line in text.splitlines() if line.startswith("valkey_version:"))
                settings = ("appendfsync", "min-replicas-to-write", "min-replicas-max-lag")
                return {"version": version.partition(":")[2]} | {
                    name: connection.call("CONFIG", "GET", name)[1] for name in settings
                }
        except (OSError, ValueError, RefusedError) as error:
            raise KubeError(f"Valkey does not answer: {error}") from None
