"""Pings of an address that are counted one by one."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType

from tools.chaos.journal import FOREVER

INTERVAL = 0.2
"""Seconds from one ping to the next."""
_REPLY = re.compile(r"^\[(?P<time>[\d.]+)\].* icmp_seq=(?P<number>\d+) .*time=")


@dataclass
class Pinger:
    """A program that pings an address from `with` to its end."""

    address: str
    replies: dict[int, float] = field(default_factory=dict[int, float])
    """When each answer came, in seconds since 1970, by the number of the ping; known at the end."""
    sent: int = 0

    def __enter__(self) -> Pinger:
        words = ["ping", "-D", "-n", "-i", str(INTERVAL), self.address]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.send_signal(2)
        output, _ = self._process.communicate(timeout=30)
        self.replies = {
            int(found["number"]): float(found["time"]) for found in map(_REPLY.match, output.splitlines()) if found
        }
        summary = re.search(r"(\d+) packets transmitted", output)
        assert summary, f"ping of {self.address} tells nothing: {output[-200:]}"
        self.sent = int(summary[1])

    @property
    def lost(self) -> int:
        """Number of pings without an answer."""
        return self.sent - len(self.replies)

    @property
    def lost_in_a_row(self) -> int:
        """Largest number of pings without an answer, one after the other."""
        # The last one may have been on its way.
        numbers = [0, *sorted(self.replies), max(self.sent, 1)]
        return max(later - earlier - 1 for earlier, later in pairwise(numbers))

    def silence(self, since: float = 0.0, until: float = FOREVER) -> float:
        """Return the longest time in seconds between two answers, of which the later came in a span of time (seconds
        since 1970). On a busy machine pings are sent late, too. Raises ValueError if there was none.
        """
        pairs = pairwise(sorted(self.replies.values()))
        return round(max(later - earlier for earlier, later in pairs if since <= later <= until), 1)

    def gaps(self) -> list[tuple[float, int]]:
        """Return when answers failed to come, and how many."""
        numbers = sorted(self.replies)
        return [(self.replies[a], b - a - 1) for a, b in pairwise(numbers) if b - a > 1]
