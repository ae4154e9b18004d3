"""Looking at jobs, and giving orders about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold import (
    Event,
    InvalidFilterError,
    InvalidJobError,
    InvalidTransitionError,
    Job,
    JobFilter,
    JobNotFoundError,
    LeaseholdError,
    Status,
    TaskQueue,
)


def work(number: int = 0) -> int:
    return number


def kill(queue: TaskQueue, count: int = 1) -> None:
    for lease in queue.lease_many(count, wait=0):
        queue.nack(lease, f"broken {lease.job_id}", requeue=False)


def test_search_by_keywords_and_by_filter(still: TaskQueue) -> None:
    jobs = [still.submit(work, number, metadata={"odd": number % 2 == 1}) for number in range(600)]
    assert [job.id for job in still.search()] == [job.id for job in reversed(jobs)]
    assert len(list(still.search(metadata={"odd": True}, task=work))) == 300
    assert list(still.search(status="dead")) == []
    assert len(list(still.search(JobFilter(ids=(jobs[0].id,))))) == 1
    assert [job.id for job in still.search(ids=[jobs[5]])] == [jobs[5].id]
    page = still.search_page(queue="default", limit=10)
    assert len(page.jobs) == 10
    following = still.search_page(limit=10, cursor=page.next_cursor)
    assert following.jobs[0].id == jobs[-11].id


def test_a_wrong_filter_is_refused(still: TaskQueue) -> None:
    with pytest.raises(InvalidFilterError, match="no status"):
        still.search(status="finished")
    with pytest.raises(InvalidFilterError, match="no filter 'state'"):
        still.search(state="dead")  # type: ignore[call-arg]
    with pytest.raises(InvalidFilterError, match="not both"):
        still.search(JobFilter(), status="dead")


def test_stats_are_one_mapping(still: TaskQueue) -> None:
    still.submit(work)
    still.submit(work, queue="other", delay=60)
    stats = still.get_queue_stats()
    assert (stats["pending"], stats["scheduled"], stats["total_submitted"]) == (1, 1, 2)
    assert still.get_queue_stats("other")["total_submitted"] == 1
    assert sorted(still.queues()) == ["default", "other"]


def test_history_attempts_and_log(still: TaskQueue) -> None:
    job = still.submit(work)
    kill(still)
    assert [event.event for event in still.history(job)] == [
        Event.CREATED,
        Event.LEASED,
        Event.DEAD,
    ]
    assert [attempt.number for attempt in still.attempts(job)] == [1]
    assert still.log(job) == []


def test_cancel_one_and_many(still: TaskQueue) -> None:
    job = still.submit(work)
    still.submit_many([still.task(work).job(number) for number in range(3)])
    assert still.cancel(job, "why not").reason == "why not"
    with pytest.raises(InvalidTransitionError):
        still.cancel(job)
    assert still.cancel_many(task=work, reason="all") == 3
    assert still.get_queue_stats()["cancelled"] == 4


def test_cancel_many_without_a_filter_has_to_be_meant(still: TaskQueue) -> None:
    still.submit_many([still.task(work).job(number) for number in range(3)])
    with pytest.raises(InvalidFilterError, match="everything=True"):
        still.cancel_many()
    with pytest.raises(InvalidFilterError, match="everything=True"):
        still.cancel_many(JobFilter(), reason="an empty filter is none")
    assert still.get_queue_stats()["cancelled"] == 0
    assert still.cancel_many(everything=True) == 3


def test_the_position_of_an_unknown_job_is_an_error(still: TaskQueue) -> None:
    job = still.submit(work)
    assert still.position(job) == 0
    still.cancel(job)
    assert still.position(job) is None
    with pytest.raises(JobNotFoundError, match="nobody"):
        still.position("nobody")


def test_reprioritize(still: TaskQueue) -> None:
    first, second = still.submit(work), still.submit(work)
    assert still.reprioritize(second, "high").priority == 75
    assert [job.id for job in still.peek(limit=2)] == [second.id, first.id]
    with pytest.raises(InvalidJobError):
        still.reprioritize(first, 101)


def test_replay_and_its_alias(still: TaskQueue) -> None:
    job = still.submit(work, max_retries=2)
    kill(still)
    assert still.replay(job).status is Status.PENDING
    kill(still)
    assert still.retry(job, reset_attempts=True).attempts == 0
    with pytest.raises(InvalidTransitionError):
        still.replay(job)


def test_dead_letters_one_many_and_by_filter(still: TaskQueue) -> None:
    jobs = [still.submit(work, number, metadata={"even": number % 2 == 0}) for number in range(6)]
    kill(still, 6)
    letters = still.dead_letters
    assert len(letters) == 6
    assert {letter.id for letter in letters} == {job.id for job in jobs}
    assert letters.replay(jobs[0]) == 1
    assert letters.replay([jobs[1], jobs[2].id]) == 2
    assert letters.replay(metadata={"even": True}) == 1
    assert letters.discard(jobs[3]) == 1
    assert still.store.get(jobs[3].id) is None
    assert [letter.id for letter in letters.list(error_text="broken")] == [jobs[5].id]
    assert letters.purge() == 1
    assert len(letters) == 0


def test_a_named_letter_that_is_none_is_refused(still: TaskQueue) -> None:
    dead, alive = still.submit(work), still.submit(work)
    kill(still)
    with pytest.raises(InvalidTransitionError):
        still.dead_letters.replay([alive, dead])
    assert still.get_status(dead) is Status.PENDING
    with pytest.raises(JobNotFoundError):
        still.dead_letters.discard("nobody")


def test_orders_are_audited_under_the_actors_name(url: str) -> None:
    with TaskQueue(url, num_workers=0, actor="ada") as queue:
        job = queue.submit(work)
        kill(queue)
        queue.replay(job)
        [record] = [entry for entry in queue.audit_log() if entry.action == "replay"]
        assert (record.actor, record.count) == ("ada", 1)


def test_the_store_can_be_checked_described_and_copied(still: TaskQueue, tmp_path: Path) -> None:
    still.submit(work)
    assert still.check() == []
    assert still.describe()
    if "sqlite" in str(type(still.store)).lower():
        copy = tmp_path / "copy.db"
        still.backup(copy)
        with TaskQueue(copy, num_workers=0) as other:
            assert other.get_queue_stats()["pending"] == 1


def test_only_dead_letters_are_discarded_as_such(still: TaskQueue) -> None:
    done = still.submit("work")
    lease = still.lease(wait=0)
    assert lease is not None
    still.ack(lease)
    with pytest.raises(InvalidTransitionError, match="not a dead letter"):
        still.dead_letters.discard(done)
    assert still.discard(done).status is Status.COMPLETED
    with pytest.raises(JobNotFoundError):
        still.get(done)


def test_each_of_several_jobs_has_its_answer(still: TaskQueue) -> None:
    waiting, ended = still.submit(work), still.submit(work)
    still.cancel(ended)
    assert [answer_of(each) for each in still.cancel_each([ended, "nobody", waiting], "late")] == [
        "InvalidTransitionError", "JobNotFoundError", "cancelled",
    ]  # fmt: skip
    assert still.get(waiting).reason == "late"
    assert [answer_of(each) for each in still.replay_each(["nobody", waiting])] == [
        "JobNotFoundError", "pending",
    ]  # fmt: skip
    answers = still.reprioritize_each([waiting, ended, "nobody"], "high")
    assert [answer_of(each) for each in answers] == [
        "pending", "InvalidTransitionError", "JobNotFoundError",
    ]  # fmt: skip
    assert still.get(waiting).priority == 75
    with pytest.raises(InvalidJobError, match="urgent"):
        still.reprioritize_each([waiting], "urgent")  # type: ignore[arg-type]


def answer_of(answer: Job | LeaseholdError) -> str:
    return answer.status.value if isinstance(answer, Job) else type(answer).__name__


def test_the_beginning_of_an_id_finds_it(still: TaskQueue) -> None:
    for name in ("report-1", "report-2", "other"):
        still.submit(work, job_id=name)
    assert still.find_ids("rep") == ["report-1", "report-2"]
    assert still.find_ids("rep", limit=1) == ["report-1"]
