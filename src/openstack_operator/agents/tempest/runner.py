"""Program of Tempest's pod: it looks up a cloud's options, runs tests, and leaves their result as termination message.

`python3 -m <package>.runner` reads tempest.conf and run.json beside itself. It needs Python's own library, and Tempest
with the libraries by which that runs tests.
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

from .cloud import Cloud, CloudError, discover

CONFIG = Path(__file__).parent
WORK = Path("/tmp/tempest")  # noqa: S108  (an emptyDir)
TERMINATION_LOG = Path("/dev/termination-log")
_MAX_MESSAGE = 4096
"""Bytes of it that Kubernetes keeps."""

_TEST = re.compile(r"\w+(\.\w+)+\S*")
"""Name of a test; other lines of stestr's list do not look like one."""

OUTCOMES = {"success": "passed", "xfail": "passed", "skip": "skipped", "fail": "failed", "uxsuccess": "failed"}
"""Outcomes of tests: subunit's word, and the one of the status. A test that never ends has failed, too."""


class Tally:
    """Counter of tests, which writes each to the log as it ends."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(("passed", "failed", "skipped"), 0)
        self.failures: list[str] = []

    def __call__(self, test: Mapping[str, Any]) -> None:
        """Count a test in the form of testtools.StreamToDict."""
        outcome = "failed" if test["status"] == "inprogress" else OUTCOMES.get(test["status"], "")
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

    def message(self, error: str = "") -> str:
        """Return JSON of all, with as many names of failures as fit."""
        result: dict[str, Any] = {
            **self.counts,
            "total": sum(self.counts.values()),
            "error": error[:500],
            "failures": self.failures,
        }
        while len(text := json.dumps(result)) > _MAX_MESSAGE:
            result["failures"] = result["failures"][:-1]
        return text


def _reason(test: Mapping[str, Any]) -> str:
    """Return the reason why a test was skipped, in one line."""
    reason = test["details"].get("reason")
    return f": {' '.join(reason.as_text().split())}" if reason else ""


def conf(options: Mapping[str, Mapping[str, Any]], planned: str) -> str:
    """Return tempest.conf of a run: options of the cloud, then those of the plan, since the last one counts."""
    lines = [line for section, values in options.items() for line in (f"[{section}]", *_lines(values), "")]
    return "\n".join([*lines, planned])


def without_passwords(options: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the options that the log may have."""
    return {
        section: {name: value for name, value in values.items() if "password" not in name}
        for section, values in options.items()
    }


def _lines(values: Mapping[str, Any]) -> Iterator[str]:
    for option, value in values.items():
        text = str(value)
        if not text.isprintable():
            # A user of the cloud chooses names: with a new line, one would set other options.
            raise CloudError(f"the cloud has no plain text for {option}: {text!a}; rename it")
        # For oslo.config a single one begins the name of an option.
        yield f"{option} = {text.replace('$', 2 * '$')}"


def command(settings: Mapping[str, Any]) -> list[str]:
    """Return the command that runs the tests and writes subunit."""
    words = [*_selection(settings), "--subunit", f"--concurrency={settings['concurrency']}"]
    return words + ([f"--exclude-regex={settings['exclude']}"] if settings["exclude"] else [])


def _selection(settings: Mapping[str, Any]) -> list[str]:
    words = ["tempest", "run", "--config-file", str(WORK / "tempest.conf")]
    return words + ([f"--regex={settings['include']}"] if settings["include"] else [])


def excluded(settings: Mapping[str, Any], tests: str) -> list[str]:
    """Return which of the tests that Tempest lists, a line each, excludeRegex leaves out, as stestr does."""
    names = [line for line in tests.splitlines() if _TEST.fullmatch(line)]
    return [name.partition("[")[0] for name in names if settings["exclude"] and re.search(settings["exclude"], name)]


def _log_excluded(settings: Mapping[str, Any]) -> None:
    """Write excluded tests to the log, after a run: stestr lists tests only in a folder with its repository."""
    if settings["exclude"]:
        words = [*_selection(settings), "--list-tests"]
        tests = subprocess.run(words, cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        for name in excluded(settings, tests.stdout.decode()):
            print(f"{'excluded':9}{name}", flush=True)


@contextmanager
def limit(process: subprocess.Popen[bytes], seconds: float) -> Generator[list[str]]:
    """Kill the process and its workers when their time is over, or when Kubernetes ends this one, and add the reason to
    the list that this yields.
    """
    reasons: list[str] = []

    def end(reason: str) -> None:
        reasons.append(reason)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(seconds, end, [f"stopped after spec.tests.timeout, {seconds / 60:.0f} minutes"])
    signal.signal(signal.SIGTERM, lambda number, frame: end("Kubernetes stopped the run before it finished"))
    timer.start()
    try:
        yield reasons
    finally:
        timer.cancel()


def trusting(authorities: str, folder: Path) -> dict[str, str]:
    """Return variables with which Python programs trust the authorities of a file. The plug-in of Heat calls the API by
    gabbi, which trusts what certifi names, and no option or variable changes that: a module in `folder` does, which
    Python loads at its start (site, sitecustomize).
    """
    (folder / "sitecustomize.py").write_text(f"import certifi\ncertifi.where = lambda: {authorities!r}\n")
    return {"PYTHONPATH": str(folder), "SSL_CERT_FILE": authorities}


def run(settings: Mapping[str, Any], tally: Tally) -> str:
    """Run the tests, and return why they did not reach their end; empty if they did. Raise CloudError."""
    # The image has them, as it has Tempest.
    import subunit  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    import testtools  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

    WORK.mkdir(exist_ok=True)
    with ExitStack() as end:
        options = discover(Cloud(settings), settings, end)
        print(json.dumps(without_passwords(options)), flush=True)
        (WORK / "tempest.conf").write_text(conf(options, (CONFIG / "tempest.conf").read_text()))
        env = {**os.environ, **(trusting(settings["trust"], WORK) if settings["trust"] else {})}
        process = subprocess.Popen(command(settings), cwd=WORK, stdout=subprocess.PIPE, start_new_session=True, env=env)
        with process, limit(process, settings["seconds"]) as reasons:
            result = testtools.StreamToDict(tally)
            result.startTestRun()
            subunit.ByteStreamToStreamResult(process.stdout, non_subunit_name="stdout").run(result)
            result.stopTestRun()
        if not reasons:
            _log_excluded(settings)
        if not reasons and not tally.counts["passed"] + tally.counts["failed"] and process.returncode:
            reasons.append(f"tempest ended with {process.returncode}; its log says why")
    return "; ".join(reasons)


def main() -> int:
    """Return 0 if tests ran, with any result."""
    tally = Tally()
    try:
        error = run(json.loads((CONFIG / "run.json").read_text()), tally)
    except CloudError as reason:
        error = str(reason)
    text = tally.message(error)
    print(text, flush=True)
    TERMINATION_LOG.write_text(text)
    return 0 if sum(tally.counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
