"""The runs that a worker has in hand: those whose lease it holds, and those that fill a slot.

The two are not the same. A job that timed out on a thread is settled at once, but fills its slot
until the thread ends; a job whose lease was lost cannot be settled here, but still runs.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from leasehold.core.model.durations import duration_text
from leasehold.core.model.lease import Lease, Settled
from leasehold.core.model.outcome import Fail, JobError, Outcome
from leasehold.worker.executors.team import KILLING
from leasehold.worker.measured import MeasuredLeases
from leasehold.worker.prefetch import JOBS_MAX, WORK_SECONDS, Prefetch
from leasehold.worker.run import Run
from leasehold.worker.task import TaskDefinition

START_SECONDS_MAX: Final = 0.1
"""A run that waits longer than this for a thread is handed back, for others to take."""


class InHand:
    """Bookkeeping for who decides in the worker: its loop, or `worker.overtime` in its turn. Only
    `find` may be called by others.
    """

    def __init__(self, prefetch: Prefetch, measured: MeasuredLeases | None = None) -> None:
        self._prefetch = prefetch
        self._measured = measured
        self.held: set[Run] = set()
        """Runs still to be settled under their lease."""
        self.occupying: set[Run] = set()
        """Runs whose code has not ended; all held jobs are among them."""
        self._timed: set[Run] = set()
        self._elsewhere = 0
        self.settled_themselves: list[tuple[Lease, Settled]] = []
        """Jobs that completed in their own transactions: nothing is left to settle."""
        self._batches: deque[tuple[float, Run]] = deque()
        self._handed_over_at = float("-inf")

    def add_all(self, runs: list[Run], task: TaskDefinition) -> None:
        """Add runs of one task, before they begin."""
        self.held.update(runs)
        self.occupying.update(runs)
        self._timed.update([run for run in runs if run.lease.timeout_seconds is not None])
        if task.executor != "thread":
            self._elsewhere += len(runs)

    def batch_handed_over(self, last: Run, now: float) -> None:
        """Remember when these runs began to wait for a thread; the last of them starts last."""
        self._handed_over_at = now
        if last.task.executor == "thread":
            self._batches.append((now, last))

    def find(self, lease: Lease) -> Run | None:
        """The held run of this lease. Any thread may call it: copying a set is atomic."""
        for run in tuple(self.held):
            if run.lease.version == lease.version and run.lease.job_id == lease.job_id:
                return run
        return None

    @property
    def jobs_ahead(self) -> int:
        """How many runs may wait beyond the slots. Only threads benefit from that."""
        return 0 if self._elsewhere else self._prefetch.jobs_ahead

    def more_came(self, *, asked_at: float, ended: int) -> None:
        """Handle an exchange that returned as many jobs as requested; `ended` runs ended meanwhile.

        If all runs had ended by then, the slots were idle meanwhile. Leasing more ahead pays if the
        runs were short: twice as many must get their threads in time.
        """
        if self.occupying or asked_at - self._handed_over_at <= WORK_SECONDS:
            self._prefetch.more_came(ran_dry=ended >= len(self.occupying))

    @property
    def most_have_yet_to_run(self) -> bool:
        """Whether many runs were leased ahead and more than half of them have yet to run.

        Such runs take almost no time, and an exchange costs as much as some hundred of them, so it
        pays to wait until more have ended.
        """
        ahead = self.jobs_ahead
        return ahead >= JOBS_MAX and len(self.occupying) > ahead // 2

    @property
    def stuck(self) -> int:
        """How many slots are filled by abandoned code."""
        return len(self.occupying) - len(self.held)

    def take_changes(
        self, changes: deque[Run], now: float, *, wait_for_end: bool
    ) -> list[tuple[Lease, Outcome]]:
        """Free the slots of ended runs, and return the settlements that are now due."""
        decided: list[tuple[Lease, Outcome]] = []
        run_seconds, slowest_seconds, runs = 0.0, 0.0, 0
        occupying, held, timed, measured = self.occupying, self.held, self._timed, self._measured
        while changes:  # Hot path: once or twice for every job.
            run = changes.popleft()
            task, ended, started = run.task, run.ended, run.started
            if ended and run in occupying:
                occupying.remove(run)
                if measured is not None and started is not None:
                    measured.measured(run.lease.task, now - started)
                if task.executor != "thread":
                    self._elsewhere -= 1
                elif started is not None and run.finished is not None:
                    seconds = run.finished - started
                    run_seconds += seconds
                    if seconds > slowest_seconds:
                        slowest_seconds = seconds
                    runs += 1
            if run in held and (
                # A run that can be killed is settled once it is dead, so that the next attempt
                # never runs beside it.
                ended or not wait_for_end or task.executor not in KILLING
            ):
                held.remove(run)
                if timed:
                    timed.discard(run)
                settled = run.settled
                if settled is not None:
                    self.settled_themselves.append((run.lease, settled))
                else:
                    assert run.outcome is not None, "it is not decided yet"
                    decided.append((run.lease, task.judge(run.outcome)))
        if runs:
            self._prefetch.measured(run_seconds, runs, slowest_seconds)
        return decided

    def forget(self, run: Run) -> None:
        """Forget a run that was settled or lost; it may still fill its slot."""
        self.held.discard(run)
        self._timed.discard(run)

    def give_up(self, run: Run) -> None:
        """Stop counting a run whose slot was replaced."""
        self.occupying.discard(run)
        if run.task.executor != "thread":
            self._elsewhere -= 1

    # -- time --------------------------------------------------------------------------------

    def timed_out(self, now: float) -> list[Run]:
        """Undecided runs that have exceeded their timeout, in a defined order."""
        timed_out = [run for run in self._timed if run.is_undecided and run.is_out_of_time(now)]
        # A set's order differs between processes; the simulator needs the same in each.
        return sorted(timed_out, key=lambda run: (run.lease.job_id, run.lease.version))

    def waited_too_long(self, now: float) -> bool:
        """Whether runs leased ahead did not get a thread in time."""
        self._drop_started()
        if not self._batches or now < self._batches[0][0] + START_SECONDS_MAX:
            return False
        self._batches.clear()
        self._prefetch.reset()
        return True

    def next_moment(self, now: float) -> float:
        """The earliest time at which a run will have timed out or waited too long."""
        self._drop_started()
        moment = self.next_timeout(now)
        if self._batches:
            moment = min(moment, self._batches[0][0] + START_SECONDS_MAX)
        return moment

    def next_timeout(self, now: float) -> float:
        """When the next run will have timed out, at the earliest."""
        moments = [
            # A run that has not started may start right now.
            (now if run.started is None else run.started) + (run.lease.timeout_seconds or 0.0)
            for run in self._timed
            if run.is_undecided
        ]
        return min(moments, default=float("inf"))

    def _drop_started(self) -> None:
        batches = self._batches
        while batches and (batches[0][1].started is not None or batches[0][1].ended):
            batches.popleft()


def timeout_failure(lease: Lease) -> Fail:
    """The outcome of an attempt that ran too long."""
    return Fail(
        JobError(
            "JobTimeoutError",
            f"ran longer than its timeout of {duration_text(lease.timeout_seconds or 0)}",
        )
    )
