"""What pages say of few and of many: plurals, names that are counted, and nothing that is raw."""

from __future__ import annotations

from html import unescape

import pytest

from dashboard.conftest import People, asked
from dashboard.test_pages import dead
from dashboard.test_screens import opened, words
from leasehold import CancelAll
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Fail, JobError
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.search import JobFilter
from leasehold.dashboard.pages import failures
from leasehold.dashboard.theme import COOKIE


def test_one_is_one(people: People) -> None:
    dead(people, "lonely")
    client = people.somebody("operator")
    assert "1 dead letter of queue lonely" in client.get("dead-letters?queue=lonely").text
    job = people.queue.submit("a", queue="lonely")
    ask = client.get("confirm?order=drain-queue&queue=lonely").text
    assert "What it has finishes: 1 pending job and 0 running." in ask
    operations = people.queue.operations
    plan = operations.plan(CancelAll(), JobFilter(ids=(job.id,)))
    operation = operations.carry_out(operations.begin(plan))
    page = client.get("operation", params={"id": operation.id}).text
    assert "<title>Cancel 1 job ·" in page
    ask = client.get(f"confirm?order=undo-operation&operation={operation.id}").text
    assert "1 job was cancelled." in ask


def test_the_filter_of_an_operation_is_told_in_words() -> None:
    app, queue, _ = opened()
    queue.submit("a", queue="mail")
    plan = queue.operations.plan(CancelAll(), JobFilter(queues=("mail",)))
    operation = queue.operations.begin(plan)
    told = words(app, f"/operation?id={operation.id}")
    assert "Filter queues mail created before 20" in told
    assert "UTC" in told
    assert "{" not in asked(app, f"/operation?id={operation.id}").text.partition("<main")[2]


def test_a_saved_view_is_told_as_its_search() -> None:
    app, queue, _ = opened()
    queue.store.pin("view", "due", "q=queue%3Amail+status%3Adead", actor="ada")
    queue.store.pin("view", "odd", "q=a&q=b&%%", actor="ada")
    queue.store.pin("view", "all", "show=task", actor="ada")
    assert "view due search queue:mail status:dead" in words(app, "/audit")
    assert "view all search all jobs" in words(app, "/audit")


def test_of_many_names_all_can_be_read() -> None:
    app, queue, clock = opened()
    now = clock.now()
    tasks = tuple(f"shop.archive.task_{number:02}" for number in range(60))
    queue.store.register_worker(
        WorkerInfo(
            id="w", host="web-1", pid=7, queues=tasks[:12], slots=1, started_at=now,
            heartbeat_at=now, tasks=tasks,
        )
    )  # fmt: skip
    told = words(app, "/workers")
    assert "and 2 more" in told
    assert "task_09 and 50 more" in told
    for task in tasks:
        assert task in told


def test_a_job_that_failed_again_and_again_failed_like_no_others() -> None:
    app, queue, clock = opened()
    queue.submit("send", queue="mail", job_id="stubborn", max_retries=5)
    for _ in range(3):
        clock.advance(1)
        request = LeaseRequest(worker="w", queues=("mail",))
        [lease] = queue.store.exchange(request=request).leases
        outcome = Fail(JobError("Odd", "no"), retry_after_seconds=0.0)
        queue.store.exchange([Settlement(lease.job_id, lease.version, outcome)])
    assert "What failed: Odd, 3 attempts" in words(app, "/job?id=stubborn")
    clock.advance(1)
    queue.submit("send", queue="mail", job_id="other")
    request = LeaseRequest(worker="w", queues=("mail",), limit=2)
    for lease in queue.store.exchange(request=request).leases:
        outcome = Fail(JobError("Odd", "no"), retryable=False)
        queue.store.exchange([Settlement(lease.job_id, lease.version, outcome)])
    assert "It failed like others: Odd, 5 attempts" in words(app, "/job?id=other")


def test_the_failure_of_a_job_is_found_long_after_its_latest_jobs_are_others() -> None:
    app, queue, _ = opened()
    for number in range(20):
        queue.submit("send", queue="mail", job_id=f"job-{number}")
        [lease] = queue.store.exchange(request=LeaseRequest(worker="w", queues=("mail",))).leases
        outcome = Fail(JobError("Odd", f"no {number}"), retryable=False)
        queue.store.exchange([Settlement(lease.job_id, lease.version, outcome)])
    assert "It failed like others: Odd, 20 attempts" in words(app, "/job?id=job-0")
    queue.replay("job-0")
    assert "An earlier attempt failed: Odd, 20 attempts" in words(app, "/job?id=job-0")


def test_a_job_that_is_not_due_has_no_timeline_yet() -> None:
    app, queue, clock = opened()
    queue.submit("send", queue="mail", job_id="later", delay="1h")
    assert "Timeline" not in words(app, "/job?id=later")
    clock.advance(3660)
    assert "Timeline to scale waits 60s" in words(app, "/job?id=later")


def test_a_mistake_is_a_sentence_in_the_colours_that_were_chosen(people: People) -> None:
    client = people.somebody("operator")
    client.cookies.set(COOKIE, "dark")
    for path, told in (
        ("nowhere", "<p>There is no such page.</p>"),
        ("confirm?order=nothing", "<p>There is no order 'nothing'.</p>"),
        ("login", "Log in"),
    ):
        page = client.get(path).text
        assert 'data-theme="dark"' in page
        assert told in unescape(page)
    assert "There is no job 'gone'" in unescape(client.get("job?id=gone").text)


def test_a_rule_that_says_the_same_of_many_queues_is_one_line() -> None:
    app, queue, _ = opened()
    for number in range(40):
        queue.create_queue(f"quiet-{number}")
    told = words(app, "/health")
    assert "Depth ok in all 40 queues" in told
    assert "quiet-17" not in told


def test_the_dead_letters_of_a_large_group_are_counted_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failures, "COUNTED_MAX", 2)
    app, queue, _ = opened()
    for number in range(3):
        queue.submit("send", queue="mail", job_id=f"job-{number}", max_retries=0)
        [lease] = queue.store.exchange(request=LeaseRequest(worker="w", queues=("mail",))).leases
        queue.store.exchange([Settlement(lease.job_id, lease.version, Fail(JobError("Odd", "no")))])
    [group] = queue.failures()
    assert "Dead letters more than 2 " in words(app, f"/failure?fingerprint={group.fingerprint}")
    asked_for = f"/confirm?order=replay-group&fingerprint={group.fingerprint}"
    assert "Replay 3 jobs" in words(app, asked_for), "a plan counts all"
