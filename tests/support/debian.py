"""Servers and browsers from Debian's packages, where the tests may install them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def installed(package: str, find: Callable[[], T | None]) -> T | None:
    """What `find` finds once the package is there; the first of the processes that test installs
    it, the others wait. None where that cannot be done.
    """
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    with open(Path(tempfile.gettempdir()) / "leasehold-apt.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := find()) is not None:
            return found
        if not _apt_get("install", "--no-install-recommends", package):
            # The list of packages may be older than the packages.
            _apt_get("update")
            _apt_get("install", "--no-install-recommends", package)
    return find()


def _apt_get(*arguments: str) -> bool:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-qq", "-y", *arguments]
    return not subprocess.run(command, check=False, env=quiet, stdout=subprocess.DEVNULL).returncode
