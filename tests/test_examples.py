"""The examples do what they say."""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def simulated_day() -> ModuleType:
    spec = importlib.util.spec_from_file_location("simulated_day", EXAMPLES / "simulated_day.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulated_day"] = module  # Its dataclasses look themselves up there.
    spec.loader.exec_module(module)
    return module


def test_on_a_busy_day_nothing_starves_and_deadlines_are_met(simulated_day: ModuleType) -> None:
    arrivals = simulated_day.day(jobs=600)
    plain = simulated_day.serve(arrivals, simulated_day.PLAIN)
    scored = simulated_day.serve(arrivals, simulated_day.SCORED)
    assert len(plain) == len(scored) == 600
    longest, deadlines_met = simulated_day.longest_wait, simulated_day.deadlines_met
    assert longest(scored, "low") < longest(plain, "low") / 2
    assert deadlines_met(scored) > deadlines_met(plain) + 0.1


def test_the_day_is_told_and_drawn(simulated_day: ModuleType) -> None:
    served = simulated_day.serve(simulated_day.day(jobs=100), simulated_day.SCORED)
    assert "effective" in simulated_day.table({"effective": served})
    picture = ET.fromstring(simulated_day.plot({"effective": served}))
    low = sum(each.arrival.kind == "low" for each in served)
    assert len(picture.findall("{http://www.w3.org/2000/svg}circle")) == low + 1


def shown(tmp_path: Path, example: str, *arguments: str) -> str:
    """What an example prints into a pipe, with a folder of its own for what is temporary."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, *arguments],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_service_runs_a_job_that_was_submitted_over_http(tmp_path: Path) -> None:
    # Not on a terminal it ends by itself.
    assert "'customer 1 owes 12.50'" in shown(tmp_path, "service.py")
    assert not list(tmp_path.glob("leasehold-*"))


def test_the_service_on_a_terminal_tells_where_to_look_until_it_is_interrupted(
    tmp_path: Path,
) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / "service.py"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    os.close(theirs)
    with os.fdopen(ours, "rb") as terminal:
        told = b""
        while b"until Ctrl-C" not in told:
            told += terminal.readline()
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # So a terminal ends that nobody writes to any more.
            while terminal.read(1024):
                pass
    process.wait(60)
    assert re.search(rb"Open http://\S+/dashboard/ in a browser, and log in with this token", told)
    assert not list(tmp_path.glob("leasehold-*"))


def test_the_tour_removes_its_store_unless_it_is_to_be_kept(tmp_path: Path) -> None:
    assert "The store is removed" in shown(tmp_path, "tour.py")
    assert not list(tmp_path.glob("leasehold-*"))
    assert "is still there to look at" in shown(tmp_path, "tour.py", "--keep")
    assert len(list(tmp_path.glob("leasehold-*"))) == 1
