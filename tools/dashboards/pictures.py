"""Take pictures of the pages of dashboards, in a browser without a window: `python -m tools.dashboards.pictures`.

`python -m tools.dashboards.live` writes the pages to build/dashboards; the pictures are beside them.
"""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.dashboards.pictures")

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.e2e.browser import browsing
from tools.localcluster.kubernetes import ROOT

PAGES = ROOT / "build" / "dashboards"
_WIDTH, _FIRST_HEIGHT = 1280, 800
_HEIGHT = "return document.documentElement.scrollHeight"


def take(pages: Sequence[Path]) -> Iterator[Path]:
    """Write a PNG of each page beside it, and yield it."""
    with browsing() as browser:
        for page in pages:
            browser.send("POST", "/window/rect", {"width": _WIDTH, "height": _FIRST_HEIGHT})
            browser.open(page.resolve().as_uri())
            # The window has a frame, whose height is that of nothing in the page.
            height = int(browser.run(_HEIGHT)) + 150
            browser.send("POST", "/window/rect", {"width": _WIDTH, "height": height})
            yield browser.photograph(page.with_suffix(".png"))


def main() -> int:
    """Return 1 if there is no page."""
    argparse.ArgumentParser(prog="python -m tools.dashboards.pictures", description=__doc__).parse_args()
    pages = sorted(PAGES.glob("*.html"))
    if not pages:
        print(f"{PAGES}: no pages; `python -m tools.dashboards.live` writes them", file=sys.stderr)
        return 1
    for picture in take(pages):
        print(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
