"""One attempt in this process: the lease, the code, the context, and how it ended."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from leasehold.core.model.lease import Lease
from leasehold.core.model.outcome import Outcome, Release
from leasehold.worker.copies import leave_copy

if TYPE_CHECKING:
    from leasehold.worker.context import JobContext
    from leasehold.worker.task import TaskDefinition


class Run:
    """One leased job on its way through an executor.

    Its outcome is decided once, by the first of two: the executor when the code ends, or the worker
    when the attempt timed out, was cancelled or lost its lease. The slot is free only when the code
    itself has ended, which for a thread may be much later.
    """

    __slots__ = (
        "_holds_lease",
        "_lock",
        "_on_change",
        "claimed",
        "context",
        "ended",
        "finished",
        "lease",
        "outcome",
        "started",
        "task",
    )

    def __init__(
        self,
        lease: Lease,
        task: TaskDefinition,
        context: JobContext,
        on_change: Callable[[Run], None],
        holds_lease: Callable[[Lease], bool] | None = None,
    ) -> None:
        self.lease = lease
        self.task = task
        self.context = context
        self.started: float | None = None
        """Monotonic time at which the executor began to run the code; None while it waits."""
        self.finished: float | None = None
        """Monotonic time at which the code ended, where the executor measures it."""
        self.outcome: Outcome | None = None
        self.ended = False
        self.claimed = False
        """Whether the code is completing its job by itself: then its outcome is decided."""
        self._on_change = on_change
        self._holds_lease = holds_lease
        self._lock = threading.Lock()

    @property
    def verdict(self) -> Outcome:
        """The outcome as the store is to hear it."""
        assert self.outcome is not None, "it is not decided yet"
        return self.task.judge(self.outcome)

    def refusal(self) -> Outcome | None:
        """Asked by the executor right before the code begins: the outcome, if it must not begin.

        It may have waited for long, or the whole process may have stood still: a job whose lease
        has run out meanwhile may run, or be done, elsewhere.
        """
        if (
            self.outcome is None
            and self._holds_lease is not None
            and not self._holds_lease(self.lease)
        ):
            self.decide(Release(reason="its lease ran out before it began"))
        return self.outcome

    def decide(self, outcome: Outcome) -> bool:
        """Set the outcome unless there is one; False if it came too late."""
        with self._lock:
            if self.outcome is not None or self.claimed:
                return False
            self.outcome = outcome
        self._on_change(self)
        return True

    def claim(self) -> bool:
        """Said for the code that is about to complete its job by itself; False if too late."""
        with self._lock:
            self.claimed = self.outcome is None
            return self.claimed

    def finish(self, outcome: Outcome) -> None:
        """Said by the executor, exactly once: the code has ended, with this outcome."""
        if os.getpid() != self.context.pid:
            leave_copy()  # The last gate: a forked copy reports nothing and goes no further.
        with self._lock:
            if self.outcome is None:
                self.outcome = outcome
            self.ended = True
        self._on_change(self)
