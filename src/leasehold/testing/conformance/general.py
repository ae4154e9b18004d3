"""ALL: what holds for every method."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Cancel, Complete, Outcome, Release, Snooze
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.env import ManualClock
from leasehold.errors import LeaseholdError, StoreClosedError
from leasehold.testing.conformance.base import (
    FAILURE,
    FATAL,
    ConformanceBase,
    assert_history_replays,
    at_once,
    draft,
    events,
    get,
    lease_all,
    lease_one,
    said,
    settle,
    submit,
)
from leasehold.testing.conformance.cases import on_one_store

CALLS: dict[str, Callable[[Store], object]] = {
    "submit": lambda store: store.submit([draft()]),
    "exchange": lambda store: store.exchange(request=LeaseRequest(worker="worker")),
    "settle": lambda store: store.exchange([Settlement("job", 1, Complete())]),
    "renew": lambda store: store.renew("worker", [Renewal("job", 1, 60)]),
    "report_progress": lambda store: store.report_progress("job", 1, b"{}"),
    "append_log": lambda store: store.append_log("job", 1, said("line")),
    "recover": lambda store: store.recover(actor="me"),
    "promote": lambda store: store.promote(),
    "stuck": lambda store: store.stuck(60),
    "cancel": lambda store: store.cancel(["job"], reason="", actor="me"),
    "replay": lambda store: store.replay(["job"], reset_attempts=True, actor="me"),
    "discard": lambda store: store.discard(["job"], actor="me"),
    "reprioritize": lambda store: store.reprioritize("job", 1, actor="me"),
    "get": lambda store: store.get("job"),
    "search": lambda store: store.search(JobFilter()),
    "find_ids": lambda store: store.find_ids("job"),
    "attempts": lambda store: store.attempts("job"),
    "history": lambda store: store.history("job"),
    "log": lambda store: store.log("job"),
    "stats": lambda store: store.stats(),
    "queues": lambda store: store.queues(),
    "audit_page": lambda store: store.audit_page(),
    "workers": lambda store: store.workers(),
    "check": lambda store: store.check(),
}


class GeneralClauses(ConformanceBase):
    @pytest.fixture
    def closed(self, store: Store) -> Store:
        """A store that was closed, twice, while somebody held a lease."""
        submit(store, draft())
        lease_one(store)
        store.close()
        store.close()
        return store

    def test_all_1_a_call_that_fails_has_changed_nothing(self, store: Store) -> None:
        submit(store, draft("one"))
        before = store.stats()
        with pytest.raises(LeaseholdError):
            store.submit([draft("two"), draft("one")])
        with pytest.raises(LeaseholdError):
            store.reprioritize("one", 101, actor="me")
        assert store.stats() == before
        assert events(store, "one") == [Event.CREATED]
        assert store.check() == []

    def test_all_2_what_was_written_is_there_for_everybody(self, store: Store) -> None:
        submit(store, draft())
        (seen,) = at_once(1, lambda _: store.get("job"))
        assert seen == get(store)
        assert store.describe()["durability"], "a store names its level of durability"

    def test_all_3_the_clock_never_steps_back(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one"))
        before = store.now()
        clock.step_wall_clock(-3600)
        assert store.now() >= before
        submit(store, draft("two"))
        assert get(store, "two").created_at >= get(store, "one").created_at
        clock.step_wall_clock(3600)
        clock.advance(1)
        assert store.now() == before + timedelta(seconds=1)

    def test_all_4_every_way_through_the_table_is_written_down(
        self, store: Store, clock: ManualClock
    ) -> None:
        endings: list[Outcome] = [
            Complete(b"1"), FAILURE, FATAL, Snooze(1), Release(), Release(delay_seconds=1),
            Cancel("enough"),
        ]  # fmt: skip
        for number, ending in enumerate(endings):
            submit(store, draft(f"job-{number}", queue=f"queue-{number}"))
            settle(store, lease_one(store, queues=(f"queue-{number}",)), ending)
        clock.advance(10)
        assert store.promote() == 3
        store.replay(["job-2", "job-6"], reset_attempts=True, actor="me")
        for number in range(len(endings)):
            assert_history_replays(store, get(store, f"job-{number}"))
        assert events(store, "job-1") == [
            Event.CREATED, Event.LEASED, Event.FAILED, Event.PROMOTED,
        ]  # fmt: skip

    def test_all_5_many_threads_run_many_jobs(self, store: Store) -> None:
        each = 25

        def live(number: int) -> int:
            done = 0
            for index in range(each):
                submit(store, draft(f"{number}-{index}"))
                for lease in lease_all(store, limit=2, worker=f"worker-{number}"):
                    settle(store, lease, Complete())
                    done += 1
            return done

        done = sum(at_once(6, live))
        done += len([settle(store, lease, Complete()) for lease in lease_all(store)])
        assert done == 6 * each
        assert store.stats().counts[Status.COMPLETED] == store.stats().completed == 6 * each
        assert store.check() == []

    @on_one_store("name", CALLS)
    def test_all_6_a_closed_store_says_so(self, closed: Store, name: str) -> None:
        with pytest.raises(StoreClosedError):
            CALLS[name](closed)
