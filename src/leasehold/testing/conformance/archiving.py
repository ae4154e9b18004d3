"""RET-12, RET-13: the archive's record of a deleted job, and searching it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.archive import ArchiveSpan
from leasehold.core.model.job import Job
from leasehold.core.model.lease import Settlement
from leasehold.core.model.outcome import Complete, JobError
from leasehold.core.model.retention import (
    Scope,
)
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidCursorError,
    InvalidFilterError,
    InvalidPageError,
)
from leasehold.testing.conformance.base import (
    FAILURE,
    ConformanceBase,
    draft,
    get,
    kill,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.retaining import DAY, EMERGENCY, clean, complete


class ArchivingClauses(ConformanceBase):
    def test_ret_12_what_is_remembered(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(metadata={"tenant": "acme"}, parent_id="parent", queue="mail"))
        settle(store, lease_one(store, queues=("mail",)), FAILURE)
        clock.advance(10)
        lease = lease_one(store, queues=("mail",))
        clock.advance(2)
        result = '"' + "é" * 300 + '"'
        settle(store, lease, Complete(result.encode()))
        job = get(store)
        clean(store, scope=EMERGENCY)
        old = store.archived("job")
        assert old is not None
        assert (old.id, old.queue, old.task, old.status) == ("job", "mail", "work", job.status)
        assert (old.created_at, old.started_at) == (job.created_at, job.started_at)
        assert (old.completed_at, old.archived_at) == (job.completed_at, store.now())
        assert (old.attempts, old.retries, old.run_seconds) == (2, 1, 2.0)
        assert old.error == JobError("OSError", "the line is dead")
        assert old.result_summary == result[:200]
        assert (old.metadata, old.parent_id) == ({"tenant": "acme"}, "parent")
        assert store.archived("nobody") is None

    def test_ret_12_without_result_or_start(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("stopped"), draft("secret", result_ttl_seconds=1), draft("pickled"))
        store.cancel(["stopped"], reason="no need", actor="me")
        leases = lease_all(store)
        secret = Settlement("secret", leases[0].version, Complete(b'"secret"'))
        pickled = Settlement("pickled", leases[1].version, Complete(b"abc", codec="pickle"))
        store.exchange([secret, pickled])
        clock.advance(1)
        clean(store, scope=EMERGENCY)
        found = {job.id: job for job in store.search_archive(JobFilter()).jobs}
        assert (found["stopped"].reason, found["stopped"].run_seconds) == ("no need", None)
        assert [job.result_summary for job in found.values()] == [None, None, None]

    def test_ret_12_the_latest_of_an_id(self, store: Store) -> None:
        for result in (b"1", b"2"):
            submit(store, draft())
            settle(store, lease_one(store), Complete(result))
            clean(store, scope=EMERGENCY)
        old = store.archived("job")
        assert old is not None
        assert old.result_summary == "2"
        assert len(store.search_archive(JobFilter(ids=("job",))).jobs) == 2

    def test_ret_13_the_archive_is_searched(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("a", queue="x", metadata={"n": 1}), draft("b", parent_id="p"))
        lease_and_complete_all(store, ("x", "default"))
        kill(store, "c", task="other")
        first = clock.now()
        clean(store, scope=Scope(emergency=True, dead=True))
        clock.advance(DAY)
        submit(store, draft("d"))
        complete(store, "d")
        clean(store, scope=EMERGENCY)
        for where, names in [
            (JobFilter(), ["d", "c", "b", "a"]),
            (JobFilter(ids=("a", "d")), ["d", "a"]),
            (JobFilter(queues=("x",)), ["a"]),
            (JobFilter(tasks=("other",)), ["c"]),
            (JobFilter(statuses=(Status.DEAD,)), ["c"]),
            (JobFilter(metadata={"n": 1}), ["a"]),
            (JobFilter(metadata={"n": 2}), []),
            (JobFilter(parent_id="p"), ["b"]),
            (JobFilter(error_text="NO SUCH"), ["c"]),
            (JobFilter(created_from=first + timedelta(1)), ["d"]),
            (JobFilter(created_before=first + timedelta(1)), ["c", "b", "a"]),
        ]:
            assert [job.id for job in store.search_archive(where).jobs] == names, where
        today, yesterday = clock.now().date(), first.date()
        since, until = ArchiveSpan(first_day=today), ArchiveSpan(last_day=yesterday)
        assert [job.id for job in store.search_archive(JobFilter(), span=since).jobs] == ["d"]
        page = store.search_archive(JobFilter(), span=until, limit=2)
        assert [job.id for job in page.jobs] == ["c", "b"]
        page = store.search_archive(JobFilter(), span=until, limit=2, cursor=page.next_cursor)
        assert ([job.id for job in page.jobs], page.next_cursor) == (["a"], None)

    def test_ret_13_not_for_what_it_does_not_keep(self, store: Store) -> None:
        for where in (
            JobFilter(text="x"),
            JobFilter(priority_min=1),
            JobFilter(idempotency_key="key"),
            JobFilter(limit_key="key"),
            JobFilter(has_parent=True),
        ):
            with pytest.raises(InvalidFilterError, match="the archive keeps no"):
                store.search_archive(where)
        for cursor in ("nonsense", "1.2", "1.2.-3", "\u0663.1.2", f"1.2.{'9' * 19}"):
            with pytest.raises(InvalidCursorError, match="cursor"):
                store.search_archive(JobFilter(), cursor=cursor)
        with pytest.raises(InvalidPageError, match="limit"):
            store.search_archive(JobFilter(), limit=0)


def lease_and_complete_all(store: Store, queues: tuple[str, ...]) -> list[Job]:
    """Complete all pending jobs; answers with the jobs."""
    leases = lease_all(store, queues=queues)
    store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])
    return [get(store, lease.job_id) for lease in leases]
