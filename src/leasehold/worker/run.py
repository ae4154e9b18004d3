"""One attempt in this process: the lease, the code, the context, and how it ended."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from leasehold.core.model.lease import Lease, Settled
from leasehold.core.model.outcome import Outcome, Release
from leasehold.forking import at_fork
from leasehold.worker.copies import here, leave_copy

if TYPE_CHECKING:
    from leasehold.worker.context import JobContext
    from leasehold.worker.task import TaskDefinition


class Host:
    """The worker as its runs see it; one object for all of them."""

    __slots__ = ("deciding", "holds_lease", "new_context", "on_change", "pid")

    def __init__(
        self,
        on_change: Callable[[Run], None],
        holds_lease: Callable[[Lease], bool],
        new_context: Callable[[Lease, int], JobContext],
    ) -> None:
        self.on_change = on_change
        """Called when a run's outcome is decided and when its code has ended."""
        self.holds_lease = holds_lease
        self.new_context = new_context
        """Makes the context of a run, given the id of its process."""
        self.deciding = threading.Lock()
        """Held while an outcome is decided. A lock for each run would cost more."""
        self.pid = here()


class Run:
    """One leased job on its way through an executor.

    Its outcome is decided once, by the first of two: the executor when the code ends, or the worker
    when the attempt timed out, was cancelled or lost its lease. The slot is free only when the code
    itself has ended, which for a thread may be much later.
    """

    __slots__ = (
        "_host",
        "claimed",
        "concluded",
        "context_made",
        "ended",
        "finished",
        "lease",
        "outcome",
        "started",
        "task",
    )

    def __init__(self, lease: Lease, task: TaskDefinition, host: Host) -> None:
        self.lease = lease
        self.task = task
        self._host = host
        self.started: float | None = None
        """Monotonic time at which the executor began to run the code; None while it waits."""
        self.finished: float | None = None
        """Monotonic time at which the code ended, if the executor measures it."""
        self.outcome: Outcome | None = None
        self.ended = False
        self.claimed = False
        """Whether the code is completing its job in its own transaction: then its outcome is
        decided.
        """
        self.context_made: JobContext | None = None
        """Its context, if it has been made."""
        self.concluded = False
        """Whether the code has ended and may open no more transactions."""

    @property
    def pid(self) -> int:
        """The process in which it runs."""
        return self._host.pid

    @property
    def context(self) -> JobContext:
        """Its context, made on first use. Any thread may use it."""
        made = self.context_made
        if made is None:
            with _process.making_context:
                made = self.context_made
                if made is None:
                    made = self._host.new_context(self.lease, self._host.pid)
                    self.context_made = made
                    # The context is stored before this flag is read, and the flag is set before the
                    # context is read: one of the two threads always sees the other's write.
                    if self.concluded:
                        made.close_transactions()
        return made

    @property
    def settled(self) -> Settled | None:
        """The store's answer, once the code has completed its job in its own transaction."""
        made = self.context_made
        return None if made is None else made.settled

    def refusal(self) -> Outcome | None:
        """Called by the executor right before the code begins: the outcome, if it must not begin.

        The run may have waited for long, or the whole process may have been stopped: if the lease
        has expired meanwhile, the job may be running or done elsewhere.
        """
        if self.outcome is None and not self._host.holds_lease(self.lease):
            self.decide(Release(reason="its lease ran out before it began"))
        return self.outcome

    @property
    def is_undecided(self) -> bool:
        """Whether its outcome is still open; a run that completes its own job has decided it."""
        return self.outcome is None and not self.claimed

    def is_out_of_time(self, now: float) -> bool:
        """Whether its code has run for longer than the job's timeout."""
        seconds = self.lease.timeout_seconds
        return self.started is not None and seconds is not None and now >= self.started + seconds

    def decide(self, outcome: Outcome) -> bool:
        """Set the outcome unless there is one; False if there already was one."""
        with self._host.deciding:
            if not self.is_undecided:
                return False
            self.outcome = outcome
        self._host.on_change(self)
        return True

    def claim(self) -> bool:
        """Called when the code is about to complete its job in its own transaction; False if too
        late.
        """
        with self._host.deciding:
            self.claimed = self.outcome is None
            return self.claimed

    def finish(self, outcome: Outcome) -> None:
        """Called by the executor, exactly once: the code has ended with this outcome."""
        host = self._host
        if os.getpid() != host.pid:
            leave_copy()  # The last gate: a forked copy reports nothing and goes no further.
        with host.deciding:
            if self.outcome is None:
                self.outcome = outcome
            self.ended = True
        host.on_change(self)


class _Process:
    """One lock for all contexts of the process: few jobs use theirs, and making one is quick."""

    def __init__(self) -> None:
        self.making_context = threading.Lock()

    def begin_in_fork(self) -> None:
        """Called in a forked child, where a thread that held the lock does not exist."""
        self.making_context = threading.Lock()


_process: Final = _Process()
at_fork(after_in_child=_process.begin_in_fork)
