"""What a newcomer expects of a queue in the first hour."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold import (
    AsyncTaskQueue,
    InvalidJobError,
    NewJob,
    QueueClosedError,
    ResultTimeoutError,
    TaskQueue,
    UnknownTaskError,
)
from leasehold.testing import InlineQueue

from .conftest import MakeQueue

Script = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Runs the lines of a program in a folder of their own."""

    def run(lines: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "shop.py").write_text(textwrap.dedent(lines))
        return subprocess.run(
            [sys.executable, "shop.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )

    return run


# -- small things ------------------------------------------------------------------------------


def test_a_job_is_shown_in_a_line(still: TaskQueue) -> None:
    job = still.submit("mail", "x" * 1000, job_id="m-1").job()
    assert repr(job) == "Job('m-1', task='mail', queue='default', status='pending', attempts=0)"


def test_a_job_is_plain_data_for_a_web_handler(still: TaskQueue) -> None:
    job = still.submit("mail", "a@b.c", job_id="m-1", metadata={"tenant": "acme"})
    lease = still.lease(wait=0)
    assert lease is not None
    still.nack(lease, OSError("no answer"), requeue=False)
    told = json.loads(json.dumps(job.job().as_dict()))
    assert (told["id"], told["status"], told["result"]) == ("m-1", "dead", None)
    assert told["error"]["message"] == "no answer"
    assert told["payload"] == {"args": ["a@b.c"], "kwargs": {}}
    assert told["completed_at"] == "2030-01-01T00:00:00Z"


def test_a_prompt_completes_what_an_application_may_use(still: TaskQueue) -> None:
    names = dir(still)
    assert {"submit", "join", "start", "dead_letters", "schedules", "task"} <= set(names)
    assert not [name for name in names if name.startswith("_")]
    assert not {"bridge", "registry", "submit_call", "close"} & set(names)
    for other in (still.submit("work"), AsyncTaskQueue("memory://", num_workers=0)):
        assert "submit" in dir(other) or "result" in dir(other)
        assert not [name for name in dir(other) if name.startswith("_")]


def test_a_queue_that_was_shut_down_can_be_started_again(make_queue: MakeQueue, url: str) -> None:
    queue = make_queue(num_workers=1)

    @queue.task(name="double")
    def double(number: int) -> int:
        return 2 * number

    first = double.submit(1)
    assert first.result(timeout=60) == 2
    queue.shutdown()
    with pytest.raises(QueueClosedError, match=r"queue.start\(\) opens it again"):
        double.submit(2)
    queue.start()
    assert double.submit(3).result(timeout=60) == 6
    assert len(queue.schedules) == 0
    if url != "memory://":
        assert queue.get_result(first) == 2


# -- names -------------------------------------------------------------------------------------


def test_a_misspelled_task_is_refused_where_its_module_is_here(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=1)
    with pytest.raises(UnknownTaskError) as refused:
        queue.submit("json:scanne")
    assert "json:scanner" not in str(refused.value), "a module is no task"
    with pytest.raises(UnknownTaskError, match=r"'json' has no 'dmps'.*did you mean 'json:dumps'"):
        queue.submit("json:dmps", [])
    with pytest.raises(UnknownTaskError, match="'json' has no 'dmps'"):
        queue.submit_many([NewJob("json:dmps")])
    # Another program may have it.
    assert queue.submit("resize", "cat.png").job().task == "resize"
    assert queue.submit("elsewhere.tasks:resize", "cat.png").job().task == "elsewhere.tasks:resize"


def test_a_name_like_that_of_a_task_may_be_right_and_is_warned_of_once(
    make_queue: MakeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make_queue(num_workers=1)
    queue.task(name="report_v1")(print)
    for _ in range(2):
        assert queue.submit("report_v2").job().task == "report_v2"
    queue.submit("resize")
    warned = [each.getMessage() for each in caplog.records if "did you mean" in each.getMessage()]
    assert len(warned) == 1
    assert "no task 'report_v2' is known here: did you mean 'report_v1'? The job waits" in warned[0]


def test_a_renamed_task_runs_jobs_that_bear_its_old_name() -> None:
    queue = InlineQueue()

    @queue.task(name="greet", aliases=["hello", "old.module:hello"])
    def greet(name: str) -> str:
        return f"hello {name}"

    assert queue.submit("hello", "Ada").result() == "hello Ada"
    assert queue.submit("old.module:hello", "Ada").result() == "hello Ada"
    assert greet.submit("Ada").job().task == "greet"
    with pytest.raises(InvalidJobError, match="a task named 'hello' is already registered"):
        queue.task(name="other", aliases="hello")(print)


# -- the end of a program ----------------------------------------------------------------------


def test_join_waits_until_all_is_done(queue: TaskQueue) -> None:
    done: list[int] = []

    @queue.task(name="more")
    def more(left: int) -> None:
        done.append(left)
        if left:
            more.submit(left - 1)

    more.submit(3)
    more.options(delay=0.01).submit(0)
    queue.join(timeout="60s")
    assert sorted(done) == [0, 0, 1, 2, 3]
    more.options(delay="1h").submit(0)
    with pytest.raises(ResultTimeoutError, match=r"is scheduled.*is due at"):
        queue.join(timeout=0.01)


async def _joined(url: str) -> int:
    async with AsyncTaskQueue(url, num_workers=1) as queue:

        @queue.task(name="count")
        def count() -> int:
            return 1

        for _ in range(3):
            await count.submit()
        await queue.join(timeout=60)
        return (await queue.get_queue_stats())["completed"]


def test_join_can_be_awaited(url: str) -> None:
    import asyncio

    assert asyncio.run(_joined(url)) == 3


def test_jobs_that_stay_behind_are_counted(
    make_queue: MakeQueue, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make_queue(num_workers=1)
    queue.task(name="later")(len)
    queue.submit("later", [], delay="1h")
    with caplog.at_level(logging.WARNING, "leasehold"):
        queue.shutdown()
    if url == "memory://":
        expected = (
            "1 job that has not run is lost when this process ends, because memory:// keeps "
            "nothing (queue.join() waits for jobs)"
        )
    else:
        expected = "1 job that has not run stays in {}: the next run of this program, or a worker, "
        expected = expected.format(queue.store) + "runs it"
    assert caplog.messages == [expected]


def test_plain_functions_that_the_next_run_must_submit_first_are_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = TaskQueue(tmp_path / "jobs.db", num_workers=1)
    queue.task(name="later")(len)
    queue.submit("later", [], delay="1h")
    for _ in range(2):
        queue.submit(json.loads, "{}", delay="1h")
    queue.submit("unheard-of", delay="1h")
    with caplog.at_level(logging.WARNING, "leasehold"):
        queue.shutdown()
    assert caplog.messages == [
        (
            f"1 job that has not run stays in {queue.store}: the next run of this program, or a "
            "worker, runs it"
        ),
        (
            "2 more have a plain function as their task (json:loads): the next run of this program "
            "runs them only if it submits that function again. With @queue.task above the "
            "function, it runs them at once"
        ),
        (
            "1 more has a task that this program does not know: unheard-of; a worker that knows it "
            "can run it"
        ),
    ]


def test_a_plain_function_that_is_made_a_task_is_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = TaskQueue(tmp_path / "jobs.db", num_workers=1)
    queue.submit(json.loads, "{}", delay="1h")
    queue.task(json.loads)
    with caplog.at_level(logging.WARNING, "leasehold"):
        queue.shutdown()
    assert caplog.messages == [
        (
            f"1 job that has not run stays in {queue.store}: the next run of this program, or a "
            "worker, runs it"
        )
    ]


@pytest.mark.parametrize(
    ("known", "unknown", "lines"),
    [
        (
            2,
            1,
            [
                (
                    "2 jobs that have not run stay in {}: "
                    "the next run of this program, or a worker, runs them"
                ),
                (
                    "1 more has a task that this program does not know: helo0; "
                    "a worker that knows it can run it"
                ),
            ],
        ),
        (
            0,
            2,
            [
                (
                    "2 jobs that have not run stay in {} with tasks that this program does not "
                    "know: helo0 and helo1; a worker that knows them can run them"
                )
            ],
        ),
    ],
)
def test_jobs_that_the_next_run_cannot_run_are_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, known: int, unknown: int, lines: list[str]
) -> None:
    queue = TaskQueue(tmp_path / "jobs.db", num_workers=1)
    queue.task(name="later")(len)
    for _ in range(known):
        queue.submit("later", [], delay="1h")
    for number in range(unknown):
        queue.submit(f"helo{number}", delay="1h")
    queue.start()
    store = str(queue.store)
    with caplog.at_level(logging.WARNING, "leasehold"):
        queue.shutdown()
    assert caplog.messages == [line.format(store) for line in lines]


def test_an_application_that_submits_nothing_runs_what_an_earlier_run_left(
    script: Script, tmp_path: Path
) -> None:
    script(
        """
        from leasehold import TaskQueue
        TaskQueue("jobs.db", num_workers=0).submit("note", "left", delay=0.001)
        """
    )
    script(
        """
        import threading
        from leasehold import TaskQueue
        queue = TaskQueue("jobs.db", num_workers=1)
        ran = threading.Event()
        @queue.task(name="note")
        def note(text: str) -> None:
            open("note.json", "w").write('{"text": "%s"}' % text)
            ran.set()
        assert ran.wait(60)
        """
    )
    assert json.loads((tmp_path / "note.json").read_text()) == {"text": "left"}


def test_a_misspelled_task_is_refused_where_its_module_could_be_imported(
    make_queue: MakeQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "till.py").write_text("def slow(): ...\nraise SystemExit('this must not run')")
    monkeypatch.syspath_prepend(tmp_path)
    queue = make_queue(num_workers=1)
    with pytest.raises(UnknownTaskError, match=r"'till' has no 'slwo'.*did you mean 'till:slow'"):
        queue.submit("till:slwo")
    assert queue.submit("till:slow").job().task == "till:slow"
    assert "till" not in sys.modules
