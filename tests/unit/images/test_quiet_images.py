"""What the images change so that logs tell of what is wrong, and of nothing else; builds try it with the programs."""

from __future__ import annotations

import logging
import re
import socket
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from images import patches

PROBE, CLIENT = "kube-probe/1.34", "openstacksdk/4.4.0"


def appended(name: str, **module: Any) -> dict[str, Any]:
    """Run what a patch appends to a module that has these names."""
    patch = patches.read(patches.FOLDER / name)
    added = "\n".join(
        line[1:] for line in patch.diff.splitlines() if line.startswith("+") and not line.startswith("+++")
    )
    exec(compile(added, name, "exec"), module)
    return module


class KeystoneError(Exception):
    code: int | None = None
    title = "Forbidden"


@pytest.fixture
def keystone() -> Callable[[Exception], logging.LogRecord]:
    """What is logged of an exception, as Keystone does it for every one but three."""
    logger, told = logging.Logger("keystone"), list[logging.LogRecord]()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record)

    logger.addHandler(Handler())
    names = {"LOG": SimpleNamespace(logger=logger), "exception": SimpleNamespace(Error=KeystoneError)}
    appended("keystone/02-refusals.patch", **names)

    def logged(error: Exception) -> logging.LogRecord:
        try:
            raise error
        except Exception:
            logger.exception(str(error))
        return told[-1]

    return logged


@pytest.mark.parametrize("code", [400, 403, 409])
def test_a_client_error_is_logged_as_one_line(keystone: Callable[[Exception], logging.LogRecord], code: int) -> None:
    error = KeystoneError("not 100% allowed")
    error.code = code
    record = keystone(error)
    assert (record.levelname, record.levelno, record.exc_info) == ("WARNING", logging.WARNING, None)
    assert record.getMessage() == f"{code} Forbidden: not 100% allowed"


def test_keystones_own_faults_are_errors_with_their_traceback(
    keystone: Callable[[Exception], logging.LogRecord],
) -> None:
    fault, unknown, bug = KeystoneError("no database"), KeystoneError("?"), TypeError("answered as 400")
    fault.code = 500
    for error in (fault, unknown, bug):
        record = keystone(error)
        assert (record.levelname, record.levelno) == ("ERROR", logging.ERROR)
        assert record.exc_info and record.exc_info[1] is error


@pytest.mark.parametrize(("agent", "status", "told"), [(PROBE, 200, 0), (PROBE, 503, 1), (CLIENT, 200, 1)])
def test_a_probe_that_succeeds_is_no_request(agent: str, status: int, told: int) -> None:
    logs: list[object] = []

    class RequestLog:
        def _log_req(self, req: object, res: object, start: float) -> None:
            logs.append((req, res, start))

        def write_log(self, environ: object, req_uri: str, status: str, size: int) -> None:
            logs.append((environ, req_uri, status, size))

    environ = {"HTTP_USER_AGENT": agent}
    appended("nova/02-probes.patch", RequestLog=RequestLog)
    RequestLog()._log_req(  # pyright: ignore[reportPrivateUsage]
        SimpleNamespace(environ=environ), SimpleNamespace(status_int=status), 0
    )
    assert len(logs) == told
    appended("placement/01-probes.patch", RequestLog=RequestLog)
    RequestLog().write_log(environ, "/", f"{status} Whatever", 2)
    assert len(logs) == 2 * told


def test_a_request_that_exploded_is_logged_whoever_asked() -> None:
    logs: list[object] = []

    class RequestLog:
        def _log_req(self, req: object, res: object, start: float) -> None:
            logs.append(res)

    appended("nova/02-probes.patch", RequestLog=RequestLog)
    # So Nova says that there is no answer.
    RequestLog()._log_req(  # pyright: ignore[reportPrivateUsage]
        SimpleNamespace(environ={"HTTP_USER_AGENT": PROBE}), {}, 0
    )
    assert logs == [{}]


def test_uwsgi_leaves_out_probes_that_succeed(root: Path) -> None:
    text = (root / "images" / "oslo" / "uwsgi.ini").read_text(encoding="utf-8")
    rules = re.findall(r"^(final-route\S*) = (.*)$", text, re.MULTILINE)
    # The first ends the rules for whoever else asked; the second holds for what was answered so.
    assert rules == [
        ("final-route-if-not", "startswith:${HTTP_USER_AGENT};kube-probe/ last:"),
        ("final-route-status", "200 donotlog:"),
    ]
    assert "disable-logging" not in text


def test_libvirt_is_not_asked_whether_it_listens(root: Path, tmp_path: Path) -> None:
    """A connection that ends without a word, or whose end overtakes libvirt's own, is an error in its log."""
    script = (root / "images" / "compute" / "nova-compute-start").read_text(encoding="utf-8")
    [line] = re.findall(r"^listens\(\) \{ .* \}$", script, re.MULTILINE)
    assert "until listens && " in script
    path = tmp_path / "libvirt-sock"
    asked = ["sh", "-c", f"{line.replace('/run/libvirt/libvirt-sock', str(path))}; listens"]
    with closing(socket.socket(socket.AF_UNIX)) as libvirt:
        libvirt.bind(str(path))
        assert subprocess.run(asked, check=False).returncode == 1
        libvirt.listen()
        assert subprocess.run(asked, check=False).returncode == 0
        libvirt.setblocking(False)
        with pytest.raises(BlockingIOError):
            libvirt.accept()
    assert subprocess.run(asked, check=False).returncode == 1
