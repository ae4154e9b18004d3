"""Prometheus' own checker, promtool: from the PATH, or out of Debian's package."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

PLACE = Path(tempfile.gettempdir()) / f"leasehold-promtool-{os.getuid()}"


def promtool() -> str:
    """Where it is; without it, a test is skipped here and fails where CI=true."""
    found = shutil.which("promtool") or _of_debian()
    if found is None:
        message = "promtool is not here: install Prometheus"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


@functools.cache
def _of_debian() -> str | None:
    tool = PLACE / "usr/bin/promtool"
    if not tool.exists() and shutil.which("apt-get") and shutil.which("dpkg"):
        # Unpacked beside and then renamed: several test processes may do it at once.
        with tempfile.TemporaryDirectory(dir=PLACE.parent, ignore_cleanup_errors=True) as folder:
            got = subprocess.run(
                ["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, check=False
            )
            packages = list(Path(folder).glob("prometheus_*.deb"))
            if got.returncode == 0 and packages:
                unpacked = Path(folder) / "unpacked"
                subprocess.run(["dpkg", "-x", packages[0], unpacked], check=True)
                try:
                    unpacked.rename(PLACE)
                except OSError:
                    assert tool.exists(), "another process was faster"
    return str(tool) if tool.exists() else None


def check(*arguments: str, stdin: bytes = b"") -> str:
    """Run it; what it finds wrong fails the test."""
    done = subprocess.run(
        [promtool(), "check", *arguments], input=stdin, capture_output=True, check=False
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said
