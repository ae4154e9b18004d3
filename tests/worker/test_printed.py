# ruff: noqa: T201 - printing is what it is about.
"""What tasks print and log is kept with their jobs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold import TaskQueue, current_job
from leasehold.worker.printed import SWITCH

logger = logging.getLogger("shop")


def talk(word: str) -> None:
    print("first", word)
    print("second")
    logger.warning("logged %s", word)
    current_job().log("by the context")
    sys.stdout.write("without a line end")


async def talk_on(word: str) -> None:
    talk(word)


TALK = ["first x", "second", "WARNING shop: logged x", "by the context", "without a line end"]


def test_threads_event_loops_and_children_keep_what_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with TaskQueue(tmp_path / "jobs.db", num_workers=2) as queue:
        tasks = (
            queue.task(name="thread")(talk),
            queue.task(name="loop")(talk_on),
            queue.task(name="child", executor="process")(talk),
        )
        jobs = [task.submit("x") for task in tasks]
        for job in jobs:
            job.result(timeout=120)
        assert [queue.log(job) for job in jobs] == [TALK, TALK, TALK]
    # It is said as before, too, by what runs in this process.
    assert capsys.readouterr().out.count("first x\nsecond\n") >= 2


def fail() -> None:
    with current_job().transaction():
        print("so far")
        try:
            raise KeyError("cart")
        except KeyError:
            logger.exception("no cart")
        raise RuntimeError("it ends here")


def test_a_failure_keeps_what_was_said_before_it(tmp_path: Path) -> None:
    with TaskQueue(tmp_path / "jobs.db", num_workers=1) as queue:
        job = queue.task(name="fail", max_retries=0)(fail).submit().wait(timeout=120)
        said = queue.log(job)
    assert said[:3] == ["so far", "ERROR shop: no cart", "Traceback (most recent call last):"]
    assert said[-1] == "KeyError: 'cart'"


def test_what_others_say_is_nobodys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with TaskQueue(tmp_path / "jobs.db", num_workers=1) as queue:
        job = queue.task(name="silent")(int).submit("7")
        print("of the program")
        assert job.result(timeout=120) == 7
        assert queue.log(job) == []
    assert "of the program" in capsys.readouterr().out


def test_standard_output_is_given_back(tmp_path: Path) -> None:
    before, factory = sys.stdout, logging.getLogRecordFactory()
    with TaskQueue(tmp_path / "jobs.db", num_workers=1):
        assert sys.stdout is not before
        assert sys.stdout.encoding == before.encoding
    assert sys.stdout is before
    assert logging.getLogRecordFactory() is factory


def test_it_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    with TaskQueue(tmp_path / "jobs.db", num_workers=1) as queue:
        job = queue.task(name="talk")(talk).submit("x")
        job.result(timeout=120)
        assert queue.log(job) == ["by the context"]


STOPPED_MEANWHILE = """
import os
import subprocess
import sys
from leasehold.worker.printed import begin_keeping, end_keeping

class Stream:
    def __init__(self, stream):
        self.stream = stream
        self.pieces = 0

    def write(self, text):
        self.pieces += 1
        if self.pieces == 1:
            end_keeping()  # As the last worker does, in another thread.
        return self.stream.write(text)

    def flush(self):
        self.stream.flush()

sys.stdout = stream = Stream(sys.stdout)
begin_keeping()
print("one", "two", flush=True)
begin_keeping()
print("three")
assert sys.stdout is not stream
end_keeping()
assert sys.stdout is stream
"""


def test_a_worker_that_stops_while_a_job_prints_does_not_crash_the_process() -> None:
    """The interpreter's `print` does not hold the stream on which it prints."""
    ended = subprocess.run(
        [sys.executable, "-c", STOPPED_MEANWHILE],
        env={**os.environ, "PYTHONMALLOC": "debug", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "one two\nthree\n"), ended.stderr
