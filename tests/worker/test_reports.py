from __future__ import annotations

import pytest

from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease
from leasehold.core.model.limits import LOG_LINES_MAX
from leasehold.env import Env, ManualClock
from leasehold.worker.context import JobContext
from leasehold.worker.leases import LeaseManager
from leasehold.worker.reports import WRITE_INTERVAL_SECONDS, Reports
from support.workers import MoodyStore, submit_to


class Desk:
    """Reports of one leased job, and how often the worker was woken for them."""

    def __init__(self, store: MoodyStore, env: Env) -> None:
        self.store = store
        self.env = env
        self.woken = 0
        self.reports = Reports(store, env, self._wake)
        submit_to(store, "t", id="job-1")
        self.lease: Lease = LeaseManager(store, "me").acquire()[0]

    def say(self, text: str) -> None:
        """What a task's context does when the task logs something."""
        JobContext(self.lease, self.reports, self.env).log(text)

    def _wake(self) -> None:
        self.woken += 1


@pytest.fixture
def desk(timed_store: MoodyStore, env: Env) -> Desk:
    return Desk(timed_store, env)


def test_many_reports_make_few_writes_and_the_last_one_counts(
    desk: Desk, clock: ManualClock
) -> None:
    for number in range(1000):
        clock.advance(0.001)
        desk.reports.progress(desk.lease, b'{"done":%d}' % number)
        desk.reports.write_due()
    assert desk.store.calls["report_progress"] <= 3
    desk.reports.write_last([desk.lease])
    assert desk.store.job("job-1").progress == {"done": 999}


def test_the_worker_is_woken_once_and_knows_when_to_write(desk: Desk, clock: ManualClock) -> None:
    assert desk.reports.due_at is None
    desk.say("one")
    desk.reports.write_due()
    desk.say("two")
    desk.say("three")
    assert desk.woken == 2
    assert desk.reports.due_at == clock.monotonic() + WRITE_INTERVAL_SECONDS
    desk.reports.write_due()
    assert desk.store.log("job-1").texts == ["one"]
    clock.advance(WRITE_INTERVAL_SECONDS)
    desk.reports.write_due()
    assert desk.store.log("job-1").texts == ["one", "two", "three"]
    assert desk.reports.due_at is None


def test_what_the_store_could_not_take_is_kept(desk: Desk, clock: ManualClock) -> None:
    desk.store.refused.add("report_progress")
    desk.reports.progress(desk.lease, b'{"done":1}')
    desk.say("first")
    desk.reports.write_due()
    desk.say("second")
    desk.store.refused.clear()
    clock.advance(1)
    desk.reports.write_due()
    assert desk.store.job("job-1").progress == {"done": 1}
    assert desk.store.log("job-1").texts == ["first", "second"]


def test_a_stale_report_is_dropped(desk: Desk, clock: ManualClock) -> None:
    desk.store.recover_one("job-1", desk.lease.version, reset_attempts=False, reason="test")
    desk.reports.progress(desk.lease, b'{"done":1}')
    desk.reports.write_due()
    assert desk.reports.due_at is None
    assert desk.store.job("job-1").progress is None


def test_a_flood_of_lines_is_bounded(desk: Desk) -> None:
    for number in range(LOG_LINES_MAX + 5):
        desk.say(str(number))
    desk.reports.write_last([desk.lease])
    log = desk.store.log("job-1")
    assert (len(log.lines), log.dropped) == (LOG_LINES_MAX, 5)
    assert log.texts[-1] == str(LOG_LINES_MAX + 4)


def test_lines_keep_the_time_at_which_they_were_said(desk: Desk, clock: ManualClock) -> None:
    desk.store.refused.add("append_log")
    said_at = []
    for text in ("one", "two", "three"):
        said_at.append(clock.now())
        desk.say(text)
        desk.reports.write_due()
        clock.advance(1)
    desk.store.refused.clear()
    desk.reports.write_last([desk.lease])
    lines = desk.store.log("job-1").lines
    assert [(line.at, line.text) for line in lines] == list(
        zip(said_at, ("one", "two", "three"), strict=True)
    )


def test_what_no_store_can_take_hurts_no_other_report(desk: Desk) -> None:
    def refuse() -> None:
        raise TypeError("that is no progress")

    submit_to(desk.store, "t", id="job-2")
    [other] = LeaseManager(desk.store, "me").acquire()
    desk.store.before["report_progress"] = refuse
    desk.reports.progress(desk.lease, b'{"done":1}')
    desk.reports.log(other, LogLine(desk.env.now(), "heard"))
    desk.reports.write_due()
    assert desk.store.log("job-2").texts == ["heard"]
    assert desk.reports.due_at is None


def test_a_hook_is_told_of_progress_that_was_written(desk: Desk, clock: ManualClock) -> None:
    told: list[tuple[str, object]] = []
    reports = Reports(
        desk.store, desk.env, lambda: None, lambda lease, done: told.append((lease.job_id, done))
    )
    reports.progress(desk.lease, b'{"done":1}')
    reports.progress(desk.lease, b'{"done":2,"total":4}')
    assert told == []
    clock.advance(WRITE_INTERVAL_SECONDS)
    reports.write_due()
    assert told == [("job-1", {"done": 2, "total": 4})]
    desk.store.recover_one("job-1", desk.lease.version, reset_attempts=False, reason="")
    reports.progress(desk.lease, b'{"done":3}')
    reports.write_last([desk.lease])
    assert len(told) == 1, "what a stale holder reports is written nowhere"
