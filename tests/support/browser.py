"""A real browser for tests of pages: Chromium as it is installed, driven by playwright.

Found in this order: the program in LEASEHOLD_TEST_BROWSER; one on this machine; Debian's package,
installed by root. Where there is none, tests are skipped with a message; with CI=true they fail.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from support.debian import installed

BROWSER = "LEASEHOLD_TEST_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WAIT_MS = 60_000
# The sandbox of a browser needs more rights than a container gives; pages are our own.
OPTIONS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]


def _program() -> str | None:
    given = os.environ.get(BROWSER)
    return given or next((found for name in NAMES if (found := shutil.which(name))), None)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """The browser, until the block ends."""
    program = _program() or installed("chromium", _program)
    if program is None:
        message = "no browser: apt-get install chromium, or set LEASEHOLD_TEST_BROWSER"
        if os.environ.get("CI") == "true":
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=program, args=OPTIONS, timeout=WAIT_MS
        )
        yield chromium
        chromium.close()
