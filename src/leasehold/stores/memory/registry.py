"""The registry: workers, which register themselves, and consumers, which their leases register."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import nsmallest

import msgspec

from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.lives import is_remote, remote_life
from leasehold.core.model.records import CURRENT_JOBS_MAX, CurrentJob, WorkerInfo, listed_workers
from leasehold.core.rules.recovery import silent_since
from leasehold.env import from_micros, to_micros
from leasehold.interrupts import SHIELD
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import State


class _Registration:
    """A worker's entry in the registry. It shares this process: its death cannot be proved."""

    lock_fd: int | None = None

    def __init__(self, leave: Callable[[], None]) -> None:
        self.close = leave


class RegistryVerbs(LockedState):
    """Workers, which register themselves."""

    def register_worker(
        self, info: WorkerInfo, *, is_remote: bool = False, is_entered: bool = False
    ) -> _Registration:
        # Death is never proved here: a remote worker only gets its number in another way.
        number = remote_life(info).number if is_remote else None
        if number is None or not is_entered:
            number = self._write(lambda state: _enter(state, info, number))
        return _Registration(partial(self._leave, info.id, number))

    def _leave(self, worker: str, number: int) -> None:
        """End a registration; a later one under the same name continues."""
        # Not through _run: a worker may leave even after its store was closed.
        with SHIELD, self._lock:
            if self._state.registrations.get(worker) == number:
                del self._state.registrations[worker]
                leave(self._state, worker)


def _enter(state: State, info: WorkerInfo, number: int | None) -> int:
    """Enter a worker, under a new or a given number; returns the number that ends it."""
    now = from_micros(state.now)
    state.workers[info.id] = msgspec.structs.replace(info, started_at=now, heartbeat_at=now)
    state.note_change("worker", info.id)
    if number is None:
        state.registered += 1
        number = state.registered
    state.registrations[info.id] = number
    return number


def leave(state: State, worker: str) -> None:
    """Forget a worker."""
    if state.workers.pop(worker, None) is not None:
        state.note_change("worker", worker)


def note_consumer(state: State, request: LeaseRequest) -> None:
    """Enter the leasing worker as a consumer, or record that it still is or no longer is one."""
    consumer = request.consumer
    assert consumer is not None
    known = state.workers.get(request.worker)
    if known is not None and not known.is_consumer:
        return
    if not consumer.queues:
        is_its_own = known is not None and (known.host, known.pid) == (consumer.host, consumer.pid)
        # Another consumer with that name may hold a job.
        if is_its_own and not any(
            record.worker == request.worker for record in state.running.values()
        ):
            leave(state, request.worker)
        return
    if request.limit <= 0:
        return
    now = from_micros(state.now)
    state.workers[request.worker] = WorkerInfo(
        id=request.worker,
        host=consumer.host,
        pid=consumer.pid,
        queues=consumer.queues,
        slots=request.limit,
        started_at=now if known is None else known.started_at,
        heartbeat_at=now,
        is_consumer=True,
        tasks=request.tasks or (),
    )
    if known is None:
        state.note_change("worker", request.worker)


def workers(state: State) -> list[WorkerInfo]:
    """The workers in the registry, with their leases."""
    held: dict[str | None, list[Record]] = {}
    for record in state.running.values():
        held.setdefault(record.worker, []).append(record)
    infos = [
        msgspec.structs.replace(
            info, running=len(held.get(info.id, ())), jobs=_current_jobs(held.get(info.id, []))
        )
        for info in state.workers.values()
    ]
    remote = {name for name, number in state.registrations.items() if is_remote(number)}
    return listed_workers(infos, from_micros(state.now), remote)


def _current_jobs(records: list[Record]) -> tuple[CurrentJob, ...]:
    leased_first = nsmallest(
        CURRENT_JOBS_MAX, records, key=lambda each: (each.acquired_at, each.seq)
    )
    return tuple(
        CurrentJob(
            id=record.id,
            queue=record.draft.queue,
            task=record.draft.task,
            attempts=record.attempts,
            leased_at=from_micros(record.acquired_at),
            lease_expires_at=from_micros(record.expires_at),
        )
        for record in leased_first
    )


def forget_silent(state: State) -> None:
    """Forget those of whom nothing was heard for long, and who hold nothing."""
    consumers_since, workers_since = silent_since(state.now)
    holding = {record.worker for record in state.running.values()}
    for info in list(state.workers.values()):
        since = consumers_since if info.is_consumer else workers_since
        if info.id not in holding and to_micros(info.heartbeat_at) < since:
            state.registrations.pop(info.id, None)
            leave(state, info.id)
