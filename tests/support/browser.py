"""A real browser for tests of pages: Chromium as it is installed, driven by playwright.

Found in this order: the program in LEASEHOLD_TEST_BROWSER; one on this machine; Debian's package,
installed by root. Where there is none, tests are skipped with a message; with CI=true they fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

BROWSER = "LEASEHOLD_TEST_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WAIT_MS = 60_000
# The sandbox of a browser needs more rights than a container gives; pages are our own.
OPTIONS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]


def _program() -> str | None:
    given = os.environ.get(BROWSER)
    return given or next((found for name in NAMES if (found := shutil.which(name))), None)


def _installed() -> str | None:
    """Debian's package, installed by the first of the processes that test."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    with open(Path(tempfile.gettempdir()) / "leasehold-apt.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (program := _program()) is not None:
            return program
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-qq", "--no-install-recommends", "chromium"]
        if subprocess.run(install, check=False, env=quiet, stdout=subprocess.DEVNULL).returncode:
            subprocess.run(["apt-get", "update", "-qq"], check=False, stdout=subprocess.DEVNULL)
            subprocess.run(install, check=False, env=quiet, stdout=subprocess.DEVNULL)
    return _program()


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """The browser, until the block ends."""
    program = _program() or _installed()
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
