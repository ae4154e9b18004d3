"""Series against a naive count: random verbs over hours, on both stores and their twins."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError, Outcome, Release
from leasehold.core.model.retention import RetentionPolicy
from leasehold.core.model.retry import Constant
from leasehold.core.model.span import COUNTED, MINUTES_KEPT
from leasehold.core.model.status import Event, Status
from leasehold.env import Env, ManualClock
from leasehold.errors import LeaseholdError
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore
from support.effort import drawn

QUEUES = ("a", "b")
Open = Callable[[Env, Path], list[Store]]


def memory(env: Env, _: Path) -> list[Store]:
    keep = RetentionPolicy(completed_seconds=None, dead_seconds=None, cancelled_seconds=None)
    return [MemoryStore(env, retention=keep)]


def sqlite(env: Env, folder: Path) -> list[Store]:
    """Two stores on one file, as two processes have them: either may end a minute."""
    return [SQLiteStore(folder / "jobs.db", env=env, durability="normal") for _ in range(2)]


verbs = st.lists(
    st.tuples(
        st.sampled_from(["submit", "refused", "lease", "settle", "cancel", "discard", "wait"]),
        st.integers(0, 1),
        st.sampled_from(QUEUES),
        st.integers(1, 3),
        # Mostly within a minute, sometimes far beyond.
        st.sampled_from([0.0, 0.0, 1.5, 29.0, 61.0, 600.0]),
    ),
    max_size=40,
)


class Naive:
    """Uses a store and counts what happened by looking at the answers, minute by minute."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.counted: defaultdict[str, Counter[tuple[datetime, str]]] = defaultdict(Counter)
        self.runs: defaultdict[str, list[float]] = defaultdict(list)
        self.jobs: dict[str, str] = {}
        self.held: list[Lease] = []

    def count(self, queue: str, name: str, by: int = 1) -> None:
        minute = self.clock.now().replace(second=0, microsecond=0)
        self.counted[queue][minute, name] += by

    def do(self, verb: str, store: Store, queue: str, number: int) -> None:
        getattr(self, verb)(store, queue, number)

    def wait(self, store: Store, queue: str, number: int) -> None:
        """Nothing happens, for as long as it takes."""

    def submit(self, store: Store, queue: str, number: int) -> None:
        drafts = [
            Draft(
                id=f"job-{len(self.jobs) + n}", task=f"task-{n}", queue=queue, max_retries=1,
                retry=Constant(0.001),
            )
            for n in range(number)
        ]  # fmt: skip
        store.submit(drafts)
        self.jobs.update((draft.id, queue) for draft in drafts)
        self.count(queue, "submitted", number)

    def refused(self, store: Store, queue: str, number: int) -> None:
        drafts = [Draft(id="twice", task="t", queue=queue)] * 2
        with pytest.raises(LeaseholdError):
            store.submit(drafts)

    def lease(self, store: Store, queue: str, number: int) -> None:
        request = LeaseRequest(worker="w", queues=(queue,), limit=number, lease_seconds=1e6)
        leases = store.exchange(request=request).leases
        self.held += leases
        self.count(queue, "leased", len(leases))

    def settle(self, store: Store, queue: str, number: int) -> None:
        outcomes: list[Outcome] = [Complete(), Fail(JobError("E", "no")), Release()]
        settlements = []
        for lease, outcome in zip(self.held[:number], outcomes, strict=False):
            settlements.append(Settlement(lease.job_id, lease.version, outcome))
        ended, self.held = self.held[:number], self.held[number:]
        for lease, settled in zip(ended, store.exchange(settlements).settled, strict=True):
            assert isinstance(settled, Settled)
            if settled.event is Event.COMPLETED:
                self.count(lease.queue, "completed")
            elif settled.event in (Event.FAILED, Event.DEAD):
                self.count(lease.queue, "failed")
                name = "retried" if settled.event is Event.FAILED else "dead"
                self.count(lease.queue, name)
            elif settled.event is Event.CANCELLED:
                self.count(lease.queue, "cancelled")
            if settled.event in (Event.COMPLETED, Event.FAILED, Event.DEAD):
                took = (self.clock.now() - lease.acquired_at).total_seconds()
                self.runs[lease.queue].append(took)

    def cancel(self, store: Store, queue: str, number: int) -> None:
        for answer in store.cancel(list(self.jobs)[-number:], reason="", actor="me"):
            if not isinstance(answer, LeaseholdError) and answer.status is Status.CANCELLED:
                self.count(answer.queue, "cancelled")

    def discard(self, store: Store, queue: str, number: int) -> None:
        for answer in store.discard(list(self.jobs)[:number], actor="me"):
            if not isinstance(answer, LeaseholdError):
                self.count(answer.queue, "cleaned")

    def compare(self, store: Store, queue: str) -> None:
        points = store.series(queue, minutes=MINUTES_KEPT)
        found = Counter(
            {(point.at, name): getattr(point, name) for point in points for name in COUNTED}
        )
        assert +found == +self.counted[queue]
        metrics = store.metrics(queue, window_seconds=MINUTES_KEPT * 60)
        assert metrics.run.count == len(self.runs[queue])
        if self.runs[queue]:
            mean = sum(self.runs[queue]) / len(self.runs[queue])
            assert metrics.run.mean_seconds == pytest.approx(mean)
        by_day: Counter[str] = Counter()
        for day in store.daily(queue, days=10):
            for name in COUNTED:
                by_day[name] += getattr(day, name)
        assert dict(by_day) == {name: metrics.totals[name] for name in COUNTED}


@pytest.mark.parametrize("opened", [memory, sqlite])
@settings(max_examples=drawn(40), deadline=None)
@given(script=verbs)
def test_series_are_what_a_naive_count_says(
    opened: Open, script: list[tuple[str, int, str, int, float]]
) -> None:
    clock = ManualClock(datetime(2030, 1, 1, 23, 50, 30, tzinfo=UTC))
    with tempfile.TemporaryDirectory() as folder:
        stores = opened(Env(clock=clock, random=Random(3)), Path(folder))
        naive = Naive(clock)
        for verb, which, queue, number, seconds in script:
            naive.do(verb, stores[which % len(stores)], queue, number)
            clock.advance(seconds)
        for queue in QUEUES:
            naive.compare(stores[-1], queue)
        for store in stores:
            assert store.check() == []
            store.close()
