"""Program that runs stestr, and prints a line for each test as Tempest's pods do: `stestr_log.py OPTIONS…`.

The Python of the virtual environment runs it, with the agents of this repository beside the packages there.
"""

from __future__ import annotations

import subprocess
import sys

import subunit  # pyright: ignore[reportMissingImports]
import testtools  # pyright: ignore[reportMissingImports]

from openstack_operator.agents.tempest.runner import Tally

NOTHING = 2
"""Exit status if no test ran."""


def main(options: list[str]) -> int:
    """Return 0 if stestr ran tests, with any result."""
    tally = Tally()
    command = [sys.executable, "-m", "stestr", *options, "--subunit"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        result = testtools.StreamToDict(tally)
        result.startTestRun()
        subunit.ByteStreamToStreamResult(process.stdout, non_subunit_name="stdout").run(result)
        result.stopTestRun()
    return 0 if sum(tally.counts.values()) else NOTHING


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
