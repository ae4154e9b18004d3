"""What `run_worker` says: to whoever has set up logging, and to whoever has not."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from leasehold import JobIdFilter, Status, TaskQueue
from leasehold.codec import CallCodec
from leasehold.core.model.lease import Lease
from leasehold.env import Env, ManualClock
from leasehold.worker.hooks import Hooks
from leasehold.worker.joblines import LINES_PER_SECOND_MAX, JobLines
from leasehold.worker.loglines import LogLineFormatter
from leasehold.worker.task import TaskDefinition
from support.runs import WatchedRun

from .conftest import MakeQueue

APPLICATION = """
import logging
import sys
from leasehold import TaskQueue

queue = TaskQueue("app.db", num_workers=0)

@queue.task(name="add")
def add(one, two):
    return one + two

@queue.task(name="look")
def look():
    logging.getLogger("shop").info("looking")
    return {}["missing"]

if __name__ == "__main__":
    if "--own-logging" in sys.argv:
        logging.basicConfig(level=logging.ERROR, format="OWN %(message)s")
    add.submit(1, 2)
    look.submit()
    queue.run_worker(until_empty=True, **eval(sys.argv[1]))
    logging.getLogger("mine").warning("after")
"""


def lines_of(folder: Path, options: str = "{}", *arguments: str) -> str:
    (folder / "app.py").write_text(APPLICATION)
    done = subprocess.run(
        [sys.executable, "app.py", options, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr


def test_a_program_without_logging_sees_its_worker_at_work(tmp_path: Path) -> None:
    shown = lines_of(tmp_path)
    store = tmp_path / "app.db"
    assert re.search(
        rf"INFO     leasehold \S+: worker \S+ serves queue default of store {store} "
        r"with 4 slots\n",
        shown,
    )
    assert shown.count(f"INFO     created a new store: {store}\n") == 1
    assert "INFO     tasks: add, look\n" in shown
    assert re.search(r"INFO     job \S+ \(add\): attempt 1 starts\n", shown)
    assert re.search(r"INFO     job \S+ \(add\): completed in \d+\.\d\d s\n", shown)
    assert re.search(
        r"ERROR    job \S+ \(look\): attempt 1 failed with KeyError: 'missing'; it is dead: not "
        r"retried: KeyError counts as a bug in the task; name it in retryable= to try again\n"
        r"Traceback \(most recent call last\):\n(.*\n)+?KeyError: 'missing'\n",
        shown,
    )
    assert re.search(r"worker \S+ has stopped \(empty\): 1 completed, 1 failed\n", shown)
    assert shown.endswith("\nafter\n"), "its logging is as it was before"


def test_a_new_store_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "new.db"
    with caplog.at_level(logging.INFO, "leasehold"):
        for url in (path, f"sqlite:///{path}"):
            with TaskQueue(url, num_workers=0) as queue:
                queue.task(name="add")(max)
                queue.run_worker(until_empty=True)
    assert caplog.messages.count(f"created a new store: {path}") == 1


def test_level_and_format_can_be_set(tmp_path: Path) -> None:
    shown = lines_of(tmp_path, "{'log_level': 'ERROR', 'log_format': '<%(message)s>'}")
    assert shown.startswith("<job ")
    assert "starts" not in shown


def test_the_logging_of_a_program_is_respected(tmp_path: Path) -> None:
    shown = lines_of(tmp_path, "{}", "--own-logging")
    assert [line[:7] for line in shown.splitlines() if "job " in line] == ["OWN job"]
    assert "serves" not in shown


FORMAT = "%(job_id)s|%(name)s|%(message)s"


def test_a_format_may_name_the_job(tmp_path: Path) -> None:
    shown = lines_of(tmp_path, str({"log_level": "INFO", "log_format": FORMAT})).splitlines()
    [said] = [line for line in shown if "|shop|" in line]
    assert [line for line in shown if line.startswith(f"{said.split('|')[0]}|leasehold.worker")]
    assert [line for line in shown if re.match(r"-\|leasehold.worker\|tasks: ", line)]


def test_the_filter_names_the_job_whose_code_logs(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0)
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(JobIdFilter())
    handler.setFormatter(logging.Formatter("%(job_id)s %(message)s"))
    shop = logging.getLogger("shop.of.this.test")

    @queue.task(name="look")
    def look() -> None:
        shop.warning("inside")
        shop.warning("of its own", extra={"job_id": "another"})

    look.options(job_id="job-1").submit()
    shop.addHandler(handler)
    try:
        queue.run_worker(until_empty=True)
        shop.warning("outside")
    finally:
        shop.removeHandler(handler)
    assert stream.getvalue() == "job-1 inside\nanother of its own\n- outside\n"


def test_a_line_from_a_child_process_names_its_job_too(tmp_path: Path) -> None:
    (tmp_path / "pictures.py").write_text(
        """
import logging
from leasehold import TaskQueue

queue = TaskQueue("app.db", num_workers=0)

@queue.task(executor="process")
def render():
    logging.getLogger("shop").warning("rendering")
"""
    )
    script = """
import pictures
pictures.render.options(job_id="one").submit()
pictures.queue.run_worker(until_empty=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert re.search(r"^\S+ \S+ WARNING  rendering \(job one\)$", done.stderr, re.MULTILINE)


def test_a_record_that_a_filter_has_seen_names_no_job_in_our_lines() -> None:
    record = logging.LogRecord("shop", logging.INFO, "", 0, "sent", (), None)
    JobIdFilter().filter(record)
    assert LogLineFormatter().format(record).endswith("INFO     sent")


def test_thousands_of_jobs_have_a_few_lines_and_a_sum(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    lines = JobLines(Env(clock))
    told: list[Lease] = []
    with caplog.at_level(logging.INFO, "leasehold.worker.joblines"):
        hooks = lines.before(Hooks(on_start=told.append))
        lease = WatchedRun(TaskDefinition("work", print, CallCodec(print)), b"[]").lease
        assert hooks.on_start is not None
        for _ in range(1000):
            hooks.on_start(lease)
        assert len(caplog.records) == LINES_PER_SECOND_MAX
        lines.sum_up()
        assert len(caplog.records) == LINES_PER_SECOND_MAX, "the second is not over"
        clock.advance(1)
        lines.sum_up()
        assert caplog.messages[-1] == "too many jobs to log one by one: another 950 started"
        hooks.on_start(lease)
        assert caplog.messages[-1] == "job job-1 (work): attempt 1 starts"
    assert len(told) == 1001, "the application's own hook hears of every job"


def test_lines_that_nobody_reads_cost_nothing(caplog: pytest.LogCaptureFixture) -> None:
    hooks = Hooks()
    with caplog.at_level(logging.WARNING, "leasehold.worker.joblines"):
        assert JobLines(Env()).before(hooks) is hooks


def test_jobs_that_fail_alike_show_their_traceback_once(
    make_queue: MakeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make_queue(num_workers=0)

    @queue.task(name="fail")
    def fail() -> None:
        raise ValueError("alike")

    for _ in range(3):
        fail.submit()
    with caplog.at_level(logging.INFO):
        queue.run_worker(until_empty=True, slots=1)
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(failures) == 3
    assert [bool(record.exc_text) for record in failures] == [True, False, False]
    assert failures[1].message.endswith("(the traceback is the one above)")


def test_a_job_of_an_unknown_task_is_handed_back_with_one_line(
    make_queue: MakeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make_queue(num_workers=0)
    queue.submit("unknown", job_id="one")
    with caplog.at_level(logging.INFO):
        queue.run_worker(until_empty=True, slots=1)
    lines = [line for line in caplog.messages if "job one" in line]
    assert len(lines) == 1, lines
    assert lines[0].startswith("job one is handed back for 1 s: no task named 'unknown'")
    assert (
        "has stopped (the remaining jobs need other workers): 1 handed back" in caplog.messages[-1]
    )


def test_a_worker_serves_the_queues_of_its_tasks(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0)

    @queue.task(name="send", queue="mail")
    def send() -> str:
        return "sent"

    job = send.submit()
    other = queue.submit(abs, -1)
    queue.run_worker(until_empty=True)
    assert job.result(timeout=0) == "sent"
    assert other.status() is Status.COMPLETED


def test_a_star_means_every_queue_those_to_come_included(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=1, queues="*")

    @queue.task(name="work")
    def work() -> str:
        return "done"

    for name in ("one", "two"):
        assert work.options(queue=name).submit().result(timeout=60) == "done"
    assert queue.workers()[0].queues == ("*",)
    waiting = queue.submit("unknown", queue="three", delay=0.0)
    assert "No worker serves" not in str(queue.why(waiting))
    assert queue.get(work.submit()).queue == "default"


def test_a_worker_of_every_queue_says_so(
    make_queue: MakeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make_queue(num_workers=0, queues="*")
    with caplog.at_level(logging.INFO):
        queue.run_worker(until_empty=True)
    assert f" serves all queues of store {queue.store} with 4 slots" in caplog.text


def test_a_task_whose_queue_is_not_served_is_warned_of(
    make_queue: MakeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make_queue(num_workers=0, queues=["work"])

    @queue.task(name="send", queue="mail")
    def send() -> None: ...

    queue.run_worker(until_empty=True)
    assert (
        "task send belongs to queue 'mail', which this worker does not serve (work)" in caplog.text
    )
    caplog.clear()
    for number in range(6):
        queue.task(name=f"note{number}", queue="notes")(lambda: None)
    queue.run_worker(until_empty=True)
    assert (
        "tasks send, note0, note1, note2, note3 and 2 others belong to queues 'mail' and 'notes', "
        "which this worker does not serve (work): name them"
    ) in caplog.text
    assert caplog.text.count("does not serve") == 1
    caplog.clear()
    queue.run_worker(until_empty=True, queues=["work", "mail", "notes"])
    assert "does not serve" not in caplog.text


def test_a_worker_without_tasks_says_so(
    make_queue: MakeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    make_queue(num_workers=0).run_worker(until_empty=True)
    assert "no task is registered with this worker, so it runs nothing" in caplog.text
