"""Waiting for jobs to end, without polling and without a thread each.

A waiter registers a callback under the job's id. One thread looks a job up when a hint says that it
ended, and once right after the registration, so that no end can be missed between looking and
waiting. Hints may get lost, so every few seconds all awaited jobs are looked up anyway.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import Final

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.phrases import counted
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import TERMINAL, Status
from leasehold.env import Env
from leasehold.errors import (
    LeaseholdError,
    QueueClosedError,
    StoreClosedError,
    StoreCorruptError,
    StoreLostError,
)
from leasehold.forking import at_fork
from leasehold.interrupts import SHIELD
from leasehold.queue.missing import not_found

logger = logging.getLogger(__name__)

Ended = Job | LeaseholdError
"""The end of a wait: the ended job, or why its end can never be known."""

POLL_SECONDS: Final = 5.0
"""The interval of the poll that makes up for lost hints."""
_BREATH_SECONDS: Final = 0.005
"""The least time between two looks at all jobs, when hints without ids come in floods."""
_AT_ONCE: Final = 500
_WORTH_A_SEARCH: Final = 5
"""Fewer jobs than this are read one by one."""
_ENDED: Final = tuple(TERMINAL)


class Waiters:
    """The waiters of each job."""

    def __init__(self, store: Store, env: Env) -> None:
        self._store = store
        self._clock = env.clock
        self._closed = threading.Event()
        self._begin()
        _all_here.add(self)

    def _begin(self) -> None:
        self._condition = threading.Condition()
        self._waiting: dict[str, list[Callable[[Ended], None]]] = {}
        self._suspects: set[str] = set()
        self._look_at_all = False
        self._thread: threading.Thread | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._pid = os.getpid()

    def begin_anew_in_fork(self) -> None:
        """Called in a forked child: the thread and all waiters are the parent's."""
        is_closed, self._closed = self._closed.is_set(), threading.Event()
        if is_closed:
            self._closed.set()
        self._begin()

    def register(self, job_id: str, callback: Callable[[Ended], None]) -> None:
        """Call back once, from another thread, when the job has ended (or ended long ago)."""
        if self._pid != os.getpid():
            # Forked by other means than Python's: this raises if the store cannot be used here.
            # Otherwise all waiters would wait for a thread that does not exist here.
            self._store.now()
            self.begin_anew_in_fork()
        self.listen()  # Before the first look.
        # Ctrl-C often ends waits: it must leave the lock free, and a thread that can be joined.
        with SHIELD, self._condition:
            if self._closed.is_set():
                raise QueueClosedError(f"the queue is shut down: cannot wait for job {job_id}")
            self._waiting.setdefault(job_id, []).append(callback)
            self._suspects.add(job_id)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="leasehold-waiters", daemon=True
                )
                self._thread.start()
            self._condition.notify()

    def listen(self) -> None:
        """Listen for ends from now on, for callers that register where nothing may block."""
        if self._unsubscribe is None and not self._closed.is_set():
            # If two threads get here at once, each hint is received twice, which does no harm. The
            # lock is not held, since a store over a network may be slow.
            self._unsubscribe = self._store.subscribe(self)

    def forget(self, job_id: str, callback: Callable[[Ended], None]) -> None:
        """Cancel a registration."""
        with SHIELD, self._condition:
            callbacks = self._waiting.get(job_id, [])
            if callback in callbacks:
                callbacks.remove(callback)
            if not callbacks:
                self._waiting.pop(job_id, None)

    def wait(self, job_ids: Iterable[str], timeout: float | None) -> dict[str, Ended]:
        """Block until all these jobs have ended or the time is up; returns the ended ones."""
        ended: dict[str, Ended] = {}
        news = threading.Condition()

        def callback_for(job_id: str) -> Callable[[Ended], None]:
            def callback(outcome: Ended) -> None:
                with news:
                    ended[job_id] = outcome
                    if len(ended) == len(callbacks):
                        news.notify()

            return callback

        callbacks = {job_id: callback_for(job_id) for job_id in job_ids}
        end = None if timeout is None else self._clock.monotonic() + timeout
        try:
            for job_id, callback in callbacks.items():
                self.register(job_id, callback)
            with news:
                while len(ended) < len(callbacks):
                    left = None if end is None else end - self._clock.monotonic()
                    if left is not None and left <= 0:
                        break
                    self._clock.wait(news, left)
                return dict(ended)
        finally:
            for job_id, callback in callbacks.items():
                self.forget(job_id, callback)

    def close(self) -> None:
        """End every wait with QueueClosedError."""
        self._closed.set()
        with self._condition:
            self._condition.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    # -- hints from the store ----------------------------------------------------------------

    def on_ready(self) -> None:
        """Of no interest here."""

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        """Of no interest here."""

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        # Most jobs end without a waiter, which must cost their worker nothing.
        if not self._waiting:
            return
        with self._condition:
            if job_ids is None:
                self._look_at_all = True
            else:
                self._suspects.update(job_id for job_id in job_ids if job_id in self._waiting)
                if not self._suspects:
                    return
            self._condition.notify()

    # -- the one thread ----------------------------------------------------------------------

    def _run(self) -> None:
        next_poll = self._clock.monotonic() + POLL_SECONDS
        while not self._closed.is_set():
            with self._condition:
                while not (self._suspects or self._look_at_all or self._closed.is_set()):
                    left = next_poll - self._clock.monotonic()
                    if left <= 0:
                        # Unlike a hint, the poll also finds out which jobs are gone for good.
                        self._suspects.update(self._waiting)
                        next_poll = self._clock.monotonic() + POLL_SECONDS
                        break
                    self._clock.wait(self._condition, left if self._waiting else None)
                suspects, self._suspects = self._suspects, set()
                others = self._waiting.keys() - suspects if self._look_at_all else set()
                everything, self._look_at_all = self._look_at_all, False
            self._look(list(suspects), None)
            self._look(list(others), _ENDED)
            if everything:
                # Hints that name no job are gathered for a moment of real time, whatever clock is
                # in use: a flood of them must not cause a busy loop.
                self._closed.wait(_BREATH_SECONDS)
        self._end_all()

    def _look(self, job_ids: list[str], statuses: tuple[Status, ...] | None) -> None:
        """Notify the waiters of jobs that have ended or, without `statuses`, are gone."""
        for start in range(0, len(job_ids), _AT_ONCE):
            chunk = job_ids[start : start + _AT_ONCE]
            try:
                jobs = self._read(chunk, statuses)
            except StoreClosedError:
                self._closed.set()
                return
            except (StoreLostError, StoreCorruptError) as error:
                # The store will not come back on its own, and neither will an answer.
                for job_id in chunk:
                    self._tell(job_id, error)
                continue
            except LeaseholdError as error:
                logger.warning(
                    "cannot check whether %s has ended: %s", counted(len(chunk), "job"), error
                )
                return
            for job_id in chunk:
                job = jobs.get(job_id)
                if job is not None and job.is_terminal:
                    self._tell(job_id, job)
                elif job is None and statuses is None:
                    self._tell(job_id, not_found(self._store, job_id))

    def _read(self, job_ids: list[str], statuses: tuple[Status, ...] | None) -> dict[str, Job]:
        if len(job_ids) < _WORTH_A_SEARCH:
            found = [self._store.get(job_id) for job_id in job_ids]
        else:
            where = JobFilter(ids=tuple(job_ids), statuses=statuses)
            found = [*self._store.search(where, limit=len(job_ids)).jobs]
        return {job.id: job for job in found if job is not None}

    def _tell(self, job_id: str, outcome: Ended) -> None:
        with self._condition:
            callbacks = self._waiting.pop(job_id, [])
        for callback in callbacks:
            try:
                callback(outcome)
            except Exception:
                logger.exception("telling a waiter that job %s has ended failed", job_id)

    def _end_all(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        with self._condition:
            job_ids = list(self._waiting)
        for job_id in job_ids:
            self._tell(
                job_id, QueueClosedError(f"the queue was shut down while job {job_id} was awaited")
            )


_all_here: Final[weakref.WeakSet[Waiters]] = weakref.WeakSet()


def _begin_anew_in_fork() -> None:
    for waiters in list(_all_here):
        waiters.begin_anew_in_fork()


at_fork(after_in_child=_begin_anew_in_fork)
