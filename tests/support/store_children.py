"""What the processes do that are killed: they use a store and tell of each acknowledgement."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from random import Random

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError, Outcome, Release, Snooze
from leasehold.core.model.records import Submitted
from leasehold.core.model.retry import Constant
from leasehold.core.model.status import Status
from leasehold.env import ClockReading, Env, SystemClock
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk import connection
from leasehold.stores.sqlite.writing.step import Step
from support.victims import open_as_worker, tell, wait_to_be_killed

ENOUGH_PENDING = 60
MAX_RETRIES = 2


def churn(path: str, name: str, seed: int, tell_fd: int) -> None:
    """Submit, lease, settle, cancel and sweep, for ever, as chance has it.

    Tells `S id` (submitted), `L id version` (leased), `E id version event` (settled),
    `R id version` (refused).
    """
    random = Random(seed)
    # So that many a checkpoint is cut short too.
    connection.WAL_PAGES_BEFORE_CHECKPOINT = 50  # type: ignore[misc]
    store = open_as_worker(path, name, random)
    child = _Child(store, name, random, tell_fd)
    while True:
        child.turn()


def churn_carelessly(path: str, name: str, seed: int, tell_fd: int) -> None:
    """The same with a fault: a submit is acknowledged a moment before it is carried out."""
    submit = SQLiteStore.submit

    def careless(store: SQLiteStore, drafts: Sequence[Draft]) -> list[Submitted | LeaseholdError]:
        threading.Timer(0.01, submit, (store, drafts)).start()
        return []

    SQLiteStore.submit = careless  # type: ignore[assignment, method-assign]
    churn(path, name, seed, tell_fd)


class _Child:
    def __init__(self, store: SQLiteStore, name: str, random: Random, tell_fd: int) -> None:
        self._store = store
        self._name = name
        self._random = random
        self._tell_fd = tell_fd
        self._held: list[Lease] = []
        self._submitted = 0

    def turn(self) -> None:
        draw = self._random.random()
        if draw < 0.05:
            self._store.recover()
        elif draw < 0.4 and self._store.stats().counts[Status.PENDING] < ENOUGH_PENDING:
            self._submit()
        elif draw < 0.45 and self._submitted:
            number = self._random.randrange(self._submitted)
            self._store.cancel([f"{self._name}-{number}"], reason="chance", actor=self._name)
        else:
            self._exchange()

    def _submit(self) -> None:
        count = self._random.randint(1, 4)
        drafts = [
            Draft(
                id=f"{self._name}-{self._submitted + number}",
                task=self._random.choice(["one", "two"]),
                max_retries=MAX_RETRIES,
                retry=Constant(0.001),
                delay_seconds=self._random.choice([None, None, 0.01]),
            )
            for number in range(count)
        ]
        self._store.submit(drafts)
        self._submitted += count
        tell(self._tell_fd, [f"S {draft.id}" for draft in drafts])

    def _exchange(self) -> None:
        settlements = [
            Settlement(lease.job_id, lease.version, self._outcome()) for lease in self._held
        ]
        limit = self._random.randint(0, 3)
        request = LeaseRequest(worker=self._name, limit=limit, lease_seconds=3600)
        answer = self._store.exchange(settlements, request)
        self._held = answer.leases
        lines = [f"L {lease.job_id} {lease.version}" for lease in answer.leases]
        for settlement, settled in zip(settlements, answer.settled, strict=True):
            about = f"{settlement.job_id} {settlement.version}"
            lines.append(
                f"E {about} {settled.event}" if isinstance(settled, Settled) else f"R {about}"
            )
        tell(self._tell_fd, lines)

    def _outcome(self) -> Outcome:
        draw = self._random.random()
        if draw < 0.6:
            return Complete(b'"done"')
        if draw < 0.8:
            return Fail(JobError("OSError", "bad luck"))
        return Snooze(0.001) if draw < 0.9 else Release()


def open_and_submit(path: str, job_id: str, tell_fd: int) -> None:
    """Open what may be a new store, submit a job, and wait to be killed."""
    store = SQLiteStore(path)
    store.submit([Draft(id=job_id, task="t")])
    tell(tell_fd, [f"S {job_id}"])
    wait_to_be_killed()


def fork_inside_a_write(path: str, tell_fd: int) -> None:
    """Fork while holding the write lock: the fork pauses, tells its pid, and outlives this."""
    store = SQLiteStore(path)

    def operation(_: Step) -> None:
        fork = os.fork()
        if fork == 0:
            wait_to_be_killed()
        tell(tell_fd, [f"S {fork}"])
        wait_to_be_killed()

    store._database.writer.run(operation)


class HastyClock(SystemClock):
    """A clock that all processes share, on which a minute takes a tenth of a second."""

    def __init__(self, start_micros: int) -> None:
        self._start_micros = start_micros

    def time_micros(self) -> int:
        now = super().time_micros()
        return now + (now - self._start_micros) * 600

    def reading(self) -> ClockReading:
        now = self.time_micros()
        return ClockReading(now, now, now, "hasty")


def churn_hastily(path: str, name: str, seed: int, tell_fd: int, start_micros: int) -> None:
    """The same through many minutes, so that many a look at the counters is cut short."""
    random = Random(seed)
    store = SQLiteStore(path, env=Env(clock=HastyClock(start_micros), random=random))
    child = _Child(store, name, random, tell_fd)
    while True:
        child.turn()
