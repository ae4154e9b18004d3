"""Handing leases over to the executors, and back to the store what this worker cannot run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
from leasehold.worker.run import Run
from leasehold.worker.safelog import safe_logger
from leasehold.worker.settling import Settling
from leasehold.worker.task import COMMAND_TASK, TaskDefinition, TaskRegistry
from leasehold.worker.unrunnable import Unrunnable
from leasehold.worker.worker_rules import WorkerRules

logger = safe_logger("leasehold.worker")


class HandingOver:
    """The way from a lease to a run; part of the loop, and called by its thread only."""

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
        self._holds = heartbeat.holds
        self._inbox = inbox
        self._in_hand = in_hand
        self._hooks = hooks
        self._env = env
        self._reports = reports
        self._settling = settling
        self._large = large
        self._fetch = partial(fetch_results, leases.store, large=large)
        self._backing = WorkerBacking(leases.store, heartbeat, reports, in_hand)
        self.unrunnable = Unrunnable()
        self.others = LeftToOthers(leases.store, leases.worker, registry.may_import, env.clock)
        self._passed_over: tuple[tuple[str, str], ...] = ()
        self._team: Team
        self._pid: int

    def begin(self, team: Team, pid: int) -> None:
        """From now on these run the jobs, in this process."""
        self._team = team
        self._pid = pid

    def hand_over(self, leases: list[Lease]) -> int:
        """Start a run for each lease; answers how many began, and hands back the others."""
        begun = 0
        last: Run | None = None
        # Values that are the same for all jobs are looked up once: this loop is hot.
        on_start, on_change, holds = self._hooks.on_start, self._inbox.on_change, self._holds
        reports, env, fetch = self._reports, self._env, self._fetch
        large, backing = self._large, self._backing
        add, starter = self._in_hand.add, self._team.starter
        name = ""
        task: TaskDefinition | None = None
        start: Callable[[Run], None] | None = None
        for lease in leases:
            try:
                if task is None or start is None or lease.task != name:
                    name, task, start = lease.task, None, None
                    task = self._find_task(lease)
                    if here() != self._pid:
                        leave_copy()  # Importing it has forked.
                    start = starter(task)
                    self.unrunnable.can_be_run(lease)
                context = JobContext(lease, reports, env, fetch, large, backing)
                run = Run(lease, task, context, on_change, holds)
                add(run)
                if on_start is not None:
                    call_hook(on_start, lease)
                start(run)
            except BaseException as error:  # noqa: BLE001 - importing a task runs anybody's code.
                if here() != self._pid:
                    leave_copy(error)
                self._hand_back_unrunnable(lease, error)
                continue
            begun += 1
            last = run
        if last is not None:
            self._in_hand.batch_handed_over(last, self._env.clock.monotonic())
        return begun

    def passed_over(self) -> tuple[tuple[str, str], ...]:
        """The queues and tasks whose jobs are not to be leased now."""
        self._passed_over = self.unrunnable.lanes()
        return (*self.others.lanes(), *self._passed_over)

    def turn_to_passed_over(self) -> bool:
        """The last look found little: whether to look at once for tasks it could not run before."""
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
        run = self._in_hand.find(lease)
        if run is not None:
            self._in_hand.forget(run)
            self._in_hand.give_up(run)
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
