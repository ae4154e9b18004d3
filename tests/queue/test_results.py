from __future__ import annotations

import threading
from pathlib import Path

import pytest

from leasehold import (
    JobCancelledError,
    JobFailedError,
    JobNotFoundError,
    PermanentError,
    QueueClosedError,
    ResultTimeoutError,
    Retry,
    Snooze,
    Status,
    TaskQueue,
    current_job,
)

WAIT = 30


def echo(value: object = None) -> object:
    return value


def explode(message: str) -> None:
    raise PermanentError(message)


def until_cancelled() -> None:
    context = current_job()
    context.progress(1, total=2)
    context.wait(WAIT)
    context.check()


def twice() -> str | Retry:
    return "second" if current_job().attempt == 2 else Retry(after=0)


def snoozing() -> str | Snooze:
    context = current_job()
    return "awake" if context.fencing_token > 1 and context.attempt == 1 else Snooze(0)


def test_a_dead_job_raises_its_error_with_the_workers_traceback(queue: TaskQueue) -> None:
    job = queue.submit(explode, "no luck")
    with pytest.raises(JobFailedError, match="no luck") as caught:
        job.result(WAIT)
    assert caught.value.error_type.endswith("PermanentError")
    assert "in explode" in (caught.value.traceback or "")
    assert "in explode" in caught.value.__notes__[0]
    assert job.status() is Status.DEAD


def test_a_cancelled_job_raises_with_its_reason(still: TaskQueue) -> None:
    job = still.submit(echo)
    assert job.cancel("changed my mind").status is Status.CANCELLED
    with pytest.raises(JobCancelledError, match="changed my mind"):
        job.result(0)


def test_a_running_job_is_cancelled_through_its_context(queue: TaskQueue) -> None:
    started = threading.Event()
    job = queue.task(name="wait")(until_cancelled).submit()
    while job.status() is not Status.RUNNING:
        started.wait(0.001)
    job.cancel("enough")
    with pytest.raises(JobCancelledError, match="enough"):
        job.result(WAIT)


def test_no_result_in_time_is_a_timeout_error(still: TaskQueue) -> None:
    job = still.submit(echo)
    with pytest.raises(TimeoutError, match="pending"):
        job.result(0)
    with pytest.raises(ResultTimeoutError, match="nor has 1 other"):
        still.wait([job, still.submit(echo)], 0)


def test_an_unknown_id_is_job_not_found(still: TaskQueue) -> None:
    for ask in (
        lambda: still.get("nobody"),
        lambda: still.get_status("nobody"),
        lambda: still.get_result("nobody", 5),
        lambda: still.wait("nobody"),
        lambda: still.history("nobody"),
        lambda: still.cancel("nobody"),
    ):
        with pytest.raises(JobNotFoundError):
            ask()


def test_wait_takes_one_or_many_in_order(queue: TaskQueue) -> None:
    jobs = [queue.submit(echo, number) for number in range(20)]
    ended = queue.wait(jobs, WAIT)
    assert [job.result for job in ended] == list(range(20))
    assert queue.wait(jobs[0].id, WAIT).id == jobs[0].id
    assert queue.wait([], WAIT) == []


def test_retries_and_snoozes_end_well(queue: TaskQueue) -> None:
    assert queue.submit(twice).result(WAIT) == "second"
    assert queue.submit(snoozing).result(WAIT) == "awake"


def test_a_handle_knows_its_job(still: TaskQueue) -> None:
    job = still.submit(echo, 1)
    again = still.submit(echo, 1, idempotency_key="k")
    assert job != again
    assert again == still.submit(echo, 1, idempotency_key="k")
    assert len({job, again}) == 2
    assert job.progress is None
    assert still.get_status(job) is Status.PENDING
    assert still.get(job.job()).id == job.id


def test_shutdown_ends_every_wait(still: TaskQueue) -> None:
    job = still.submit(echo)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            job.wait()
        except QueueClosedError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not still._waiters._waiting:
        thread.join(0.001)
    still.shutdown()
    thread.join(WAIT)
    assert len(raised) == 1


def test_workers_start_with_the_first_use_and_find_what_was_left(tmp_path: Path) -> None:
    url = tmp_path / "jobs.db"
    with TaskQueue(url, num_workers=0) as first:
        job_id = first.submit(echo, "kept").id
    with TaskQueue(url, num_workers=1, import_tasks=[__name__]) as second:
        assert second.get_result(job_id, WAIT) == "kept"


def test_commands_run_where_they_are_allowed(url: str, tmp_path: Path) -> None:
    output_dir = tmp_path / "output" if url == "memory://" else None
    with TaskQueue(url, num_workers=1, allow_commands=True, output_dir=output_dir) as queue:
        good = queue.submit_command('echo "hello $NAME"', env={"NAME": "you"}).wait(WAIT)
        bad = queue.submit_command(["false"], max_retries=0).wait(WAIT)
    assert (good.status, bad.status) == (Status.COMPLETED, Status.DEAD)
    [printed] = [path.read_text() for path in tmp_path.rglob("*") if _holds(path, "hello")]
    assert printed == "hello you\n"


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and "output" in str(path) and text in path.read_text()


def test_commands_need_a_place_for_their_output() -> None:
    with pytest.raises(ValueError, match="output_dir"):
        TaskQueue("memory://", allow_commands=True)


def test_a_queue_that_is_only_made_runs_nothing(queue: TaskQueue) -> None:
    assert queue.workers() == []
    queue.submit(echo)
    assert [worker.slots for worker in queue.workers()] == [2]
