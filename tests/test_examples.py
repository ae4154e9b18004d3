"""The examples do what they say."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
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


def test_the_service_runs_a_job_that_was_submitted_over_http() -> None:
    # Not on a terminal it ends by itself.
    done = subprocess.run(
        [sys.executable, EXAMPLES / "service.py"],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "'customer 1 owes 12.50'" in done.stdout
