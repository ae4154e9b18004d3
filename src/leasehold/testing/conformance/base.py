"""Fixtures and sentences that the conformance tests share."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, ClassVar, Final, TypeVar

import pytest

from leasehold.core.contract.local_store import local_part
from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import Connection
from leasehold.core.model.history import HistoryEvent
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease, LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Fail, JobError, Outcome
from leasehold.core.model.records import Submitted
from leasehold.core.model.retry import Constant
from leasehold.core.model.status import Event, Status, allowed
from leasehold.env import Env, ManualClock
from leasehold.errors import LeaseholdError, UnsupportedError

MakeStore = Callable[[Env], Store]

T = TypeVar("T")

RETRY_SECONDS = 5.0
FAILURE = Fail(JobError("OSError", "the line is dead"))
FATAL = Fail(JobError("ValueError", "no such person"), retryable=False)


SAID_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def said(*texts: str) -> list[LogLine]:
    """Log lines, a second apart."""
    return [LogLine(SAID_AT + timedelta(seconds=number), text) for number, text in enumerate(texts)]


NO_CURSORS: Final = ("", "moon", "-1", "1.5", "\u0663", str(2**63), "9" * 5000)
"""A cursor that no page ever gives."""


class ConformanceBase:
    """A store, and a clock that stands still until a test turns it."""

    not_kept: ClassVar[Mapping[str, str]] = {}
    """Clauses that the store declares not to keep as they are written, each with the reason."""

    @pytest.fixture(autouse=True)
    def _declared(self, request: pytest.FixtureRequest) -> None:
        named = re.match(r"test_([a-z]{3})_(\d+)_", request.node.name)
        clause = f"{named[1].upper()}-{named[2]}" if named else ""
        if clause in self.not_kept:
            pytest.skip(f"{clause} is declared not to be kept: {self.not_kept[clause]}")

    @pytest.fixture
    def make_store(self) -> MakeStore:
        raise NotImplementedError("override make_store: a function that makes a new, empty store")

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def env(self, clock: ManualClock) -> Env:
        return Env(clock=clock, random=Random(7))

    @pytest.fixture
    def store(self, make_store: MakeStore, env: Env) -> Iterator[Store]:
        store = make_store(env)
        yield store
        store.close()

    @pytest.fixture
    def connection(self, store: Store) -> Iterator[Connection]:
        """An application's connection, with a table of its own."""
        try:
            connection = local_part(store, "a connection").connect()
        except UnsupportedError as error:
            pytest.skip(f"declared by the store: {error}")
        connection.execute("CREATE TABLE app_row (n INTEGER)")
        yield connection
        connection.close()


def draft(job_id: str = "job", **options: Any) -> Draft:
    """A draft with a retry delay that can be foretold."""
    return Draft(**{"id": job_id, "task": "work", "retry": Constant(RETRY_SECONDS), **options})


def submit(store: Store, *drafts: Draft) -> list[Submitted]:
    """Submit drafts that must be accepted."""
    answers = store.submit(drafts)
    assert all(isinstance(answer, Submitted) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, Submitted)]


def lease_all(store: Store, limit: int = 1000, **options: Any) -> list[Lease]:
    """Lease as many jobs as there are."""
    request = LeaseRequest(**{"worker": "worker", "limit": limit, **options})
    return store.exchange(request=request).leases


def lease_one(store: Store, **options: Any) -> Lease:
    """Lease the one job that must be there."""
    leases = lease_all(store, limit=1, **options)
    assert len(leases) == 1, "a job should have been available"
    return leases[0]


def settle(store: Store, lease: Lease, outcome: Outcome) -> Settled:
    """Settle a lease that must still be held."""
    (answer,) = store.exchange([Settlement(lease.job_id, lease.version, outcome)]).settled
    assert isinstance(answer, Settled), answer
    return answer


def get(store: Store, job_id: str = "job") -> Job:
    """A job that must be there."""
    job = store.get(job_id)
    assert job is not None, f"job {job_id} is not there"
    return job


def job_of(answers: Sequence[Job | LeaseholdError]) -> Job:
    """The only answer, which must be a job."""
    (answer,) = answers
    assert isinstance(answer, Job), answer
    return answer


def events(store: Store, job_id: str = "job") -> list[Event]:
    """What happened to a job, in order."""
    return [event.event for event in store.history(job_id)]


def kill(store: Store, job_id: str = "job", **options: Any) -> Job:
    """Submit a job and let it fail for good."""
    submit(store, draft(job_id, **options))
    settle(store, lease_one(store), FATAL)
    return get(store, job_id)


def assert_history_replays(store: Store, job: Job) -> None:
    """HIS-1 and HIS-2 for one job, from nothing but its events."""
    history = store.history(job.id)
    status: Status | None = None
    version = attempts = 0
    for sequence, event in enumerate(history, start=1):
        assert event.sequence == sequence, "the sequence has a gap"
        assert event.before is status, f"{event} does not follow {status}"
        assert event.after is not None
        if event.after is not event.before:
            assert event.after in allowed(event.event, event.before), f"{event} is not allowed"
        status = event.after
        version = event.lease_version if event.event is Event.LEASED else version
        attempts = _attempts_after(event, attempts)
    assert (status, version, attempts) == (job.status, job.lease_version, job.attempts), history


def _attempts_after(event: HistoryEvent, attempts: int) -> int:
    spent = {Event.LEASED: 1, Event.SNOOZED: -1, Event.RELEASED: -1}
    expected = attempts + spent.get(event.event, 0)
    # A person may reset the attempts with a replay, or when taking the job from its holder.
    if event.event in (Event.REPLAYED, Event.RECOVERED, Event.DEAD, Event.CANCELLED):
        assert event.attempts in (expected, 0), f"{event} should leave {expected} attempts, or 0"
    else:
        assert event.attempts == expected, f"{event} should leave {expected} attempts"
    return event.attempts


def at_once(count: int, action: Callable[[int], T]) -> list[T]:
    """Let so many threads do something at the same moment; their answers, in order."""
    barrier = threading.Barrier(count)

    def one(number: int) -> T:
        barrier.wait(timeout=30)
        return action(number)

    usual = sys.getswitchinterval()
    # Threads that take turns at every chance meet in places where they otherwise rarely would.
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))
    finally:
        sys.setswitchinterval(usual)
