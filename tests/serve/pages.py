"""What the tests of the pages in Chromium share: the browser's settings, pictures, and waiting.

They need Debian's chromium (``apt-get install chromium``), or a browser that GRAPHRAG_CHROMIUM names; else they are skipped.
GRAPHRAG_SCREENSHOTS=FOLDER keeps pictures of each view.
"""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.load.search import processor_seconds
from tests.runtime.cluster import Database

CHROMIUM = os.environ.get("GRAPHRAG_CHROMIUM") or shutil.which("chromium")
PICTURES = os.environ.get("GRAPHRAG_SCREENSHOTS")
IN_CHROMIUM = [
    pytest.mark.chromium,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
# As root there is no sandbox; software draws WebGL, and not the rest by way of it; nothing is asked of other hosts.
ARGUMENTS = (
    "--no-sandbox --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"
    " --use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader --ignore-gpu-blocklist"
    " --disable-gpu-rasterization --disable-gpu-compositing"
).split()
READER = "token-of-who-may-read"
QUESTION = "What did Ada Lovelace write on the Analytical Engine?"
JAPANESE = "東京タワーは1958年に完成した。高さは333メートルである。設計者は内藤多仲である。"
Open = Callable[..., Any]


def refuse(route: Any) -> None:
    route.fulfill(status=504, json={"status": 504, "code": "57014", "detail": "the request took too long", "hint": ""})


def wait(page: Any, holds: Callable[[], bool], what: str = "") -> None:
    """Wait until what this process sees of the page is so."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, what
        page.wait_for_timeout(50)


def picture(page: Any, name: str) -> None:
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{PICTURES}/{name}.png")


def until(page: Any, expression: str) -> None:
    """Wait until JavaScript says so. Playwright's own waiting evaluates strings in the page, whose policy forbids it."""
    wait(page, lambda: page.evaluate(expression), expression)


class Spent:
    """What views take of processors; a server on another machine counts as nothing."""

    def __init__(self, page: Any, db: Database) -> None:
        self._client, self._db = page.context.new_cdp_session(page), db
        self._client.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._before = self._seconds()
        self.by_view: dict[str, float] = {}

    def on(self, view: str) -> None:
        """Have all that came since the last call be a view's."""
        now = self._seconds()
        self.by_view[view], self._before = now - self._before, now

    def _seconds(self) -> float:
        metrics = self._client.send("Performance.getMetrics")["metrics"]
        sessions = self._db.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
        (page,) = (metric["value"] for metric in metrics if metric["name"] == "TaskDuration")
        return float(page) + sum(processor_seconds(pid) for (pid,) in sessions)


def drawn(page: Any, condition: str = "true") -> None:
    """Wait until the graph is drawn and arranged."""
    until(
        page,
        "document.querySelector('#canvas')?.labels && !document.querySelector('#canvas').hasAttribute('aria-busy')"
        f" && ({condition})",
    )
    page.wait_for_timeout(200)


def labels(page: Any) -> list[dict[str, Any]]:
    return list(
        page.evaluate(
            "document.querySelector('#canvas').labels.map((one) => ({text: one.text, x: one.x, y: one.y, left: one.left,"
            " top: one.top, width: one.width, height: one.height, isDim: one.isDim}))"
        )
    )


def says(page: Any, text: str) -> None:
    page.wait_for_selector(f"#legend:has-text('{text}')")
