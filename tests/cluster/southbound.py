"""A southbound database of OVN small enough to live in a test: RFC 7047 over loopback, everything in memory."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

Row = dict[str, Any]
_NONE = {"external_ids": ["map", []], "other_config": ["map", []], "nb_cfg": 0, "nb_cfg_timestamp": 0}


@dataclass
class Southbound:
    """Tables as the client sees them."""

    tables: dict[str, list[Row]] = field(default_factory=lambda: {"SB_Global": [{"nb_cfg": 0}]})
    port: int = 0
    said: list[str] = field(default_factory=list[str])
    """Methods of all messages."""
    ended: bool = False

    def register(self, name: str, ip: str, mappings: str = "", *, nb_cfg: int = 0, beat: int = 0) -> None:
        """What ovn-controller does when it starts, or was told something new."""
        config = ["map", [["ovn-bridge-mappings", mappings]]]
        self.forget(name)
        beats = {"nb_cfg": nb_cfg, "nb_cfg_timestamp": beat}
        self.tables.setdefault("Chassis", []).append(_NONE | {"name": name, "other_config": config})
        self.tables.setdefault("Chassis_Private", []).append(_NONE | {"name": name} | beats)
        self.tables.setdefault("Encap", []).append({"chassis_name": name, "type": "geneve", "ip": ip})

    def forget(self, name: str) -> None:
        for rows in self.tables.values():
            rows[:] = [row for row in rows if name not in (row.get("name"), row.get("chassis_name"))]

    def names(self) -> dict[str, list[str]]:
        """Nodes by table."""
        return {
            table: [row.get("name") or row["chassis_name"] for row in rows]
            for table, rows in self.tables.items()
            if table != "SB_Global"
        }

    def done(self, operation: Row) -> Row:
        rows = self.tables.setdefault(operation["table"], [])
        chosen = [row for row in rows if all(row[name] == value for name, _, value in operation["where"])]
        if operation["op"] == "select":
            return {"rows": [{name: row[name] for name in operation["columns"]} for row in chosen]}
        if operation["op"] == "delete":
            rows[:] = [row for row in rows if row not in chosen]
        else:
            [[column, how, (_, pairs)]] = operation["mutations"]
            assert how == "insert"
            for row in chosen:
                old = dict(row[column][1])
                row[column] = ["map", [*row[column][1], *([k, v] for k, v in pairs if k not in old)]]
        return {"count": len(chosen)}

    @contextmanager
    def serving(self, tls: ssl.SSLContext | None = None) -> Generator[str]:
        """What clients connect to, until the end."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port = listening.getsockname()[1]
            thread = Thread(target=self._serve, args=(listening, tls), daemon=True)
            thread.start()
            yield f"{'ssl' if tls else 'tcp'}:127.0.0.1:{self.port}"
            self.ended = True
            # The last client, so that nobody is waited for.
            socket.create_connection(("127.0.0.1", self.port)).close()
            thread.join(5)

    def _serve(self, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        while not self.ended:
            client, _ = listening.accept()
            with suppress(OSError), client, self._secured(client, tls) as connection:
                self._speak(connection)

    @staticmethod
    def _secured(client: socket.socket, tls: ssl.SSLContext | None) -> socket.socket:
        return tls.wrap_socket(client, server_side=True) if tls else client

    def _speak(self, connection: socket.socket) -> None:
        # As a server does to a client that says nothing for a while; the answer comes in two pieces.
        connection.sendall(b'{"method": "echo", "params": ["there?"], "id": "echo"}')
        text, asked = "", None
        while asked is None or "reply" not in self.said:
            if not (chunk := connection.recv(65536)):
                return
            text += chunk.decode()
            while text:
                try:
                    message, end = json.JSONDecoder().raw_decode(text)
                except ValueError:
                    break
                text = text[end:].lstrip()
                self.said.append(message.get("method") or "reply")
                asked = message if message.get("method") == "transact" else asked
        self.said.clear()
        database, *operations = asked["params"]
        assert database == "OVN_Southbound"
        answer = json.dumps({"id": asked["id"], "error": None, "result": [self.done(each) for each in operations]})
        connection.sendall(answer[:20].encode())
        connection.sendall(answer[20:].encode())
