"""Messages to the worker's loop from other threads, and the one condition on which it sleeps.

The loop reads all of them in its next tick. A sender wakes the loop only if it is not about to look
anyway; with thousands of jobs a second, it nearly always is.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection

from leasehold.core.model.lease import Lease
from leasehold.core.model.records import WorkListener
from leasehold.env import Env
from leasehold.errors import LeaseLostError, StoreError
from leasehold.worker.context import StopCause
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.inhand import InHand
from leasehold.worker.run import Run


class Inbox:
    """The events that the loop has yet to handle."""

    def __init__(self, in_hand: InHand, env: Env) -> None:
        self._in_hand = in_hand
        self._clock = env.clock
        self._condition = threading.Condition()
        self._is_awake = False
        self.changes: deque[Run] = deque()
        """Runs whose outcome was decided or whose code has ended."""
        self.lost: deque[tuple[Lease, LeaseLostError | StoreError]] = deque()
        self.cancels: deque[tuple[Lease, str]] = deque()
        self.jobs_may_be_ready = True
        self.is_hungry = True
        """Whether the loop wants to be woken for new jobs."""

    def open(self) -> None:
        """Called at the start of a tick: later events need another one."""
        self._is_awake = False

    def sleep(self, seconds: float) -> None:
        """Wait for an event, but no longer than this."""
        with self._condition:
            if not self._is_awake and seconds > 0:
                self._clock.wait(self._condition, seconds)

    def rest(self, seconds: float) -> None:
        """Let events gather for a moment; they need not wake the loop, which will tick anyway."""
        self._is_awake = True
        self._clock.pause(seconds)

    def wake(self) -> None:
        with self._condition:
            self._is_awake = True
            self._condition.notify()

    def on_change(self, run: Run) -> None:
        """Called for every run that ends, so it must cost next to nothing."""
        self.changes.append(run)
        if not self._is_awake:
            self.wake()

    def on_lost(self, lease: Lease, error: LeaseLostError | StoreError) -> None:
        """Tell the code at once: the loop itself may be waiting for a store in trouble."""
        run = self._in_hand.find(lease)
        if run is not None:
            run.context.stop(StopCause.LEASE_LOST, str(error))
            self.lost.append((lease, error))
            self.wake()

    def on_cancel(self, lease: Lease, reason: str) -> None:
        self.cancels.append((lease, reason))
        self.wake()

    def on_ready(self) -> None:
        self.jobs_may_be_ready = True
        if self.is_hungry and not self._is_awake:
            self.wake()


class InboxListener(WorkListener):
    """The worker's `Listener`: passes the store's hints to the parts that they concern."""

    def __init__(self, inbox: Inbox, heartbeat: Heartbeat) -> None:
        self._inbox = inbox
        self._heartbeat = heartbeat

    def on_ready(self) -> None:
        self._inbox.on_ready()

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        # The answer to a renewal says which job, and why.
        self._heartbeat.hurry(job_ids)
