"""What runs in Tempest's pod: the cloud is looked at, tests run, and what came of them is left as the pod's last word.

`python3 -m <package>.runner`. It needs Python's own library, and Tempest with the libraries that it runs tests by.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from .cloud import Cloud, CloudError, found

GIVEN = Path(__file__).parent
WORK = Path("/tmp/tempest")  # noqa: S108  (an emptyDir)
LAST_WORD = Path("/dev/termination-log")
_MOST = 4096
"""Bytes of it that Kubernetes keeps."""

_TEST = re.compile(r"\w+(\.\w+)+\S*")
"""The name of a test; stestr's other words in a list of them are not like it."""

ENDED = {"success": "passed", "xfail": "passed", "skip": "skipped", "fail": "failed", "uxsuccess": "failed"}
"""What became of a test, in subunit's words and in ours. One that never ends has failed, too."""


class Tally:
    """Counts tests as they end, and says so on the log."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(("passed", "failed", "skipped"), 0)
        self.failures: list[str] = []

    def __call__(self, test: Mapping[str, Any]) -> None:
        """Takes in a test as testtools.StreamToDict has it."""
        outcome = "failed" if test["status"] == "inprogress" else ENDED.get(test["status"], "")
        if not outcome:
            return
        name = str(test["id"]).partition("[")[0]
        self.counts[outcome] += 1
        print(f"{outcome:9}{name}{_reason(test) if outcome == 'skipped' else ''}", flush=True)
        if outcome == "failed":
            self.failures.append(name)
            for detail in test["details"].values():
                if detail.content_type.type == "text":
                    print(detail.as_text(), flush=True)

    def last_word(self, error: str = "") -> str:
        """JSON of all, with as many names of failures as fit."""
        said: dict[str, Any] = {
            **self.counts,
            "total": sum(self.counts.values()),
            "error": error[:500],
            "failures": self.failures,
        }
        while len(text := json.dumps(said)) > _MOST:
            said["failures"] = said["failures"][:-1]
        return text


def _reason(test: Mapping[str, Any]) -> str:
    """Why a test was skipped, in one line."""
    reason = test["details"].get("reason")
    return f": {' '.join(reason.as_text().split())}" if reason else ""


def conf(options: Mapping[str, Mapping[str, Any]], given: str) -> str:
    """tempest.conf of a run: what was found, then what was given, since the last one counts."""
    lines = [line for section, values in options.items() for line in (f"[{section}]", *_lines(values), "")]
    return "\n".join([*lines, given])


def _lines(values: Mapping[str, Any]) -> Iterator[str]:
    for option, value in values.items():
        yield f"{option} = {value}"


def command(wanted: Mapping[str, Any]) -> list[str]:
    """What runs the tests, and writes subunit."""
    words = [*_selection(wanted), "--subunit", f"--concurrency={wanted['concurrency']}"]
    return words + ([f"--exclude-regex={wanted['exclude']}"] if wanted["exclude"] else [])


def _selection(wanted: Mapping[str, Any]) -> list[str]:
    words = ["tempest", "run", "--config-file", str(WORK / "tempest.conf")]
    return words + ([f"--regex={wanted['include']}"] if wanted["include"] else [])


def excluded(wanted: Mapping[str, Any], listed: str) -> list[str]:
    """Of the tests Tempest lists, a line each, those which excludeRegex leaves out, as stestr does."""
    names = [line for line in listed.splitlines() if _TEST.fullmatch(line)]
    return [name.partition("[")[0] for name in names if wanted["exclude"] and re.search(wanted["exclude"], name)]


def _tell_of_excluded(wanted: Mapping[str, Any]) -> None:
    """On the log. After a run, as stestr lists tests only where its repository is."""
    if wanted["exclude"]:
        words = [*_selection(wanted), "--list-tests"]
        listed = subprocess.run(words, cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        for name in excluded(wanted, listed.stdout.decode()):
            print(f"{'excluded':9}{name}", flush=True)


@contextmanager
def ended(process: subprocess.Popen[bytes], seconds: float) -> Generator[list[str]]:
    """Inside, the process and its workers are ended when their time is over or when this one is told to end; why is
    added to the list.
    """
    why: list[str] = []

    def end(reason: str) -> None:
        why.append(reason)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(seconds, end, [f"ended after spec.tests.timeout, {seconds / 60:.0f} minutes"])
    signal.signal(signal.SIGTERM, lambda number, frame: end("was told to end before it was done"))
    timer.start()
    try:
        yield why
    finally:
        timer.cancel()


def run(wanted: Mapping[str, Any], tally: Tally) -> str:
    """Runs the tests and tells why they did not come to their end, if they did not. Raises CloudError."""
    # Of the image, as Tempest is.
    import subunit  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    import testtools  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

    WORK.mkdir(exist_ok=True)
    with ExitStack() as end:
        options = found(Cloud(wanted), wanted, end)
        print(json.dumps({name: values for name, values in options.items() if name != "auth"}), flush=True)
        (WORK / "tempest.conf").write_text(conf(options, (GIVEN / "tempest.conf").read_text()))
        process = subprocess.Popen(command(wanted), cwd=WORK, stdout=subprocess.PIPE, start_new_session=True)
        with process, ended(process, wanted["seconds"]) as why:
            result = testtools.StreamToDict(tally)
            result.startTestRun()
            subunit.ByteStreamToStreamResult(process.stdout, non_subunit_name="stdout").run(result)
            result.stopTestRun()
        if not why:
            _tell_of_excluded(wanted)
        if not why and not tally.counts["passed"] + tally.counts["failed"] and process.returncode:
            why.append(f"tempest ended with {process.returncode}; its log says why")
    return "; ".join(why)


def main() -> int:
    """0 where tests ran, whatever came of them."""
    tally = Tally()
    try:
        error = run(json.loads((GIVEN / "run.json").read_text()), tally)
    except CloudError as reason:
        error = str(reason)
    text = tally.last_word(error)
    print(text, flush=True)
    LAST_WORD.write_text(text)
    return 0 if sum(tally.counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
