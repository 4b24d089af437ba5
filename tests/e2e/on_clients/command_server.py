"""Program that is the `openstack` command in a tenth of its time: it imports the client once, and forks for each call.

`command_server.py SOCKET` serves until it is ended; `SHIM`, a program of its own, is the command. DevStack has such a
server (openstack-cli-server) for the same reason: most of a suite of thousands of commands is Python's start.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import traceback
from typing import Any

LIMIT = 1 << 20
"""Bytes of a call: its arguments and its environment."""
SHIM = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect({path!r})
server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
call = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}}
socket.send_fds(server, [json.dumps(call).encode()], [0, 1, 2])
sys.exit(int(server.recv(16) or b"1"))
"""


def preload() -> None:
    """Import the client and all of its commands."""
    package = importlib.import_module("openstackclient")
    importlib.import_module("openstackclient.shell")
    for module in pkgutil.walk_packages(package.__path__, "openstackclient."):
        if ".tests" not in module.name:
            importlib.import_module(module.name)


def serve(path: str) -> None:
    """Answer calls until this process is ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(64)
        while True:
            caller, _ = listener.accept()
            if not os.fork():
                listener.close()
                os._exit(_answer(caller))
            caller.close()


def _answer(caller: socket.socket) -> int:
    """Run the command of one call in this process, and tell its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, descriptors, _, _ = socket.recv_fds(caller, LIMIT, 3)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    call = json.loads(data)
    os.chdir(call["folder"])
    os.environ.clear()
    os.environ.update(call["environment"])
    sys.argv = ["openstack", *call["arguments"]]
    status = _status()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    caller.sendall(str(status).encode())
    return status


def _status() -> int:
    shell: Any = importlib.import_module("openstackclient.shell")
    try:
        status = shell.main(sys.argv[1:])
    except SystemExit as end:
        status = end.code
    except BaseException:  # what the command itself would print, and exit with
        traceback.print_exc()
        return 1
    return status if isinstance(status, int) else int(status is not None)


if __name__ == "__main__":
    socket_path = sys.argv[1]
    # The client takes its name from here as it is imported.
    sys.argv = ["openstack"]
    preload()
    serve(socket_path)
