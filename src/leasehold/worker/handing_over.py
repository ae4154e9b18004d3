"""Handing leases to the executors, and jobs that this worker cannot run back to the store."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final

from leasehold.core.model.job import COMMAND_TASK
from leasehold.core.model.lease import Lease
from leasehold.env import Env
from leasehold.errors import UnknownTaskError
from leasehold.worker.backing import WorkerBacking
from leasehold.worker.context import JobContext
from leasehold.worker.copies import here, leave_copy
from leasehold.worker.dependencies import fetch_results
from leasehold.worker.describe import message_of
from leasehold.worker.executors.team import COMMAND, Team
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.hooks import Hooks, call_hook
from leasehold.worker.inbox import Inbox
from leasehold.worker.inhand import InHand
from leasehold.worker.large import LargeData
from leasehold.worker.leases import LeaseManager
from leasehold.worker.left_to_others import LeftToOthers
from leasehold.worker.reports import Reports
from leasehold.worker.run import Host, Run
from leasehold.worker.safelog import safe_logger
from leasehold.worker.settling import Settling
from leasehold.worker.task import TaskDefinition, TaskRegistry
from leasehold.worker.unrunnable import Unrunnable
from leasehold.worker.worker_rules import WorkerRules

logger = safe_logger("leasehold.worker")

_TASK_OF: Final = attrgetter("task")


class HandingOver:
    """Turns leases into runs; part of the loop, and called only by its thread."""

    def __init__(
        self,
        rules: WorkerRules,
        registry: TaskRegistry,
        leases: LeaseManager,
        heartbeat: Heartbeat,
        inbox: Inbox,
        in_hand: InHand,
        hooks: Hooks,
        env: Env,
        reports: Reports,
        settling: Settling,
        large: LargeData | None,
    ) -> None:
        self._rules = rules
        self._registry = registry
        self._in_hand = in_hand
        self._hooks = hooks
        self._env = env
        self._settling = settling
        fetch = partial(fetch_results, leases.store, large=large)
        backing = WorkerBacking(leases.store, heartbeat, reports, in_hand, env.clock)
        self._host = Host(
            inbox.on_change,
            heartbeat.holds,
            lambda lease, pid: JobContext(lease, reports, env, fetch, large, backing, pid),
        )
        self.unrunnable = Unrunnable()
        self.others = LeftToOthers(leases.store, leases.worker, registry.may_import, env.clock)
        self._passed_over: tuple[tuple[str, str], ...] = ()
        self._team: Team
        self._pid: int

    def begin(self, team: Team, pid: int) -> None:
        """Set the executors that run the jobs, in this process."""
        self._team = team
        self._host.pid = self._pid = pid

    def hand_over(self, leases: list[Lease]) -> int:
        """Start a run for each lease and hand back the others; returns how many began."""
        begun = 0
        last: Run | None = None
        for _, group in groupby(leases, _TASK_OF):
            alike = list(group)
            found = self._find(alike)
            if found is None:
                continue
            task, start = found
            # Each step covers all of them: a step per job would cost noticeable time.
            host = self._host
            runs = [Run(lease, task, host) for lease in alike]
            self._in_hand.add_all(runs, task)
            on_start = self._hooks.on_start
            for run in runs:
                try:
                    start(run)
                except BaseException as error:  # noqa: BLE001 - no executor may harm the loop.
                    if here() != self._pid:
                        leave_copy(error)
                    self._in_hand.forget(run)
                    self._in_hand.give_up(run)
                    self._hand_back_unrunnable(run.lease, error)
                    continue
                begun += 1
                last = run
                if on_start is not None:
                    # The job does not wait for the hook, which may write a log line.
                    call_hook(on_start, run.lease)
        if last is not None:
            self._in_hand.batch_handed_over(last, self._env.clock.monotonic())
        return begun

    def _find(self, leases: list[Lease]) -> tuple[TaskDefinition, Callable[[Run], None]] | None:
        """The code for leases of one task, and how to start it; None if they were handed back."""
        try:
            task = self._find_task(leases[0])
            if here() != self._pid:
                leave_copy()  # Importing it has forked.
            start = self._team.starter(task)
            self.unrunnable.can_be_run(leases[0])
        except BaseException as error:  # noqa: BLE001 - importing a task runs anybody's code.
            if here() != self._pid:
                leave_copy(error)
            for lease in leases:
                self._hand_back_unrunnable(lease, error)
            return None
        return task, start

    def passed_over(self) -> tuple[tuple[str, str], ...]:
        """The queues and tasks whose jobs should not be leased now."""
        self._passed_over = self.unrunnable.lanes()
        return (*self.others.lanes(), *self._passed_over)

    def turn_to_passed_over(self) -> bool:
        """After a look that found little: whether to look at once for tasks it could not run
        before.
        """
        if self._passed_over:
            self.unrunnable.take_turn()
        return bool(self._passed_over)

    def _find_task(self, lease: Lease) -> TaskDefinition:
        if lease.task != COMMAND_TASK:
            return self._registry.find(lease.task)
        if not self._rules.allow_commands:
            raise UnknownTaskError(
                "this worker runs no commands: start it with --allow-commands, or in Python with "
                "allow_commands=True"
            )
        return COMMAND

    def _hand_back_unrunnable(self, lease: Lease, error: BaseException) -> None:
        reason = message_of(error)
        to_others = self.others.release(lease, reason)
        if to_others is not None:
            self._settling.add(lease, to_others)
            return
        release = self.unrunnable.release(lease, reason)
        self._settling.add(lease, release)
        logger.warning(
            "job %s is handed back for %.0f s: %s",
            lease.job_id,
            release.delay_seconds,
            reason,
            extra={"job_id": lease.job_id},
        )
