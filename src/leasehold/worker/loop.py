"""The worker's loop: settle what ended, lease what fits, hand it over, sleep until there is news.

All of the worker's decisions are made here, in one thread, a tick at a time; only timeouts are also
decided in another (`worker.overtime`), in turns with this one. Other threads only leave messages in
its `Inbox`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leasehold.core.model.lease import Exchange, Lease, Settlement
from leasehold.core.model.outcome import Outcome
from leasehold.core.model.phrases import counted
from leasehold.env import Env
from leasehold.errors import StoreError
from leasehold.observe import tracing
from leasehold.worker.copies import here, leave_copy
from leasehold.worker.cutting_short import CuttingShort
from leasehold.worker.emptiness import Emptiness
from leasehold.worker.executors.team import Team
from leasehold.worker.handing_over import HandingOver
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.hooks import Hooks
from leasehold.worker.inbox import Inbox
from leasehold.worker.inhand import InHand
from leasehold.worker.large import LargeData
from leasehold.worker.leases import LeaseManager
from leasehold.worker.overtime import Overtime
from leasehold.worker.pace import REST_SECONDS_MIN, RESTS_MAX, Pace
from leasehold.worker.reports import Reports
from leasehold.worker.safelog import safe_logger
from leasehold.worker.served import served_queues
from leasehold.worker.settling import Settling
from leasehold.worker.stopping import Stopping, StopReason
from leasehold.worker.task import TaskRegistry
from leasehold.worker.ticking import Ticking
from leasehold.worker.trouble import NOT_LET_IN, STORE_RETRY_SECONDS_MAX, StoreTrouble
from leasehold.worker.wear import Wear, replace_stuck, tell_worn
from leasehold.worker.worker_rules import WorkerRules

logger = safe_logger("leasehold.worker")

SLEEP_SECONDS_MAX: Final = 60.0
DUE_SECONDS_MIN: Final = 0.001


class Loop:
    """One worker's loop. It starts no thread of its own: the caller's thread runs `run`."""

    def __init__(
        self,
        rules: WorkerRules,
        registry: TaskRegistry,
        leases: LeaseManager,
        heartbeat: Heartbeat,
        inbox: Inbox,
        in_hand: InHand,
        stopping: Stopping,
        hooks: Hooks,
        env: Env,
        note_settings: Callable[[int], None] | None = None,
        large: LargeData | None = None,
    ) -> None:
        self._rules = rules
        self._note_settings = note_settings
        self.poll_interval_seconds = rules.poll_interval_seconds
        self._leases = leases
        self._heartbeat = heartbeat
        self._inbox = inbox
        self._in_hand = in_hand
        self._stopping = stopping
        self._env = env
        self._clock = env.clock
        self._team: Team
        self._pid: int
        self._may_replace_stuck = False
        self._reports = Reports(leases.store, env, inbox.wake, hooks.on_progress)
        self._ticking = Ticking(leases.store, env)
        self._emptiness = Emptiness(leases.store, rules.queues, rules.tasks)
        self.settling = Settling(hooks)
        self._cutting_short = CuttingShort(inbox, in_hand, self.settling, stopping)
        self._overtime = Overtime(
            leases.worker,
            self._cutting_short.stop_what_timed_out,
            in_hand.next_timeout,
            env.clock,
        )
        self._handing_over = HandingOver(
            rules,
            registry,
            leases,
            heartbeat,
            inbox,
            in_hand,
            hooks,
            env,
            self._reports,
            self.settling,
            large,
        )
        self._pace = Pace()
        self.started_jobs = 0
        self.exchanges = 0
        self._look_at = float("-inf")
        """When to look for jobs again, in monotonic time, if no hint comes first."""
        self._trouble = StoreTrouble(
            leases.worker, env.clock, stopping, until_empty=rules.until_empty
        )
        self._wear = Wear(
            slots=rules.slots, max_jobs=rules.max_jobs, max_memory_mb=rules.max_memory_mb
        )

    def run(self, team: Team, *, replace_stuck: bool) -> StopReason:
        """Work until it is time to stop and everything is settled.

        With `replace_stuck`, new threads are added for threads that do not stop; otherwise the loop
        ends, so that another process can run it.
        """
        self.begin(team, replace_stuck=replace_stuck)
        self._overtime.is_on = True
        while True:
            delay_seconds = self._tick_safely()
            if self._stopping.is_over(self._clock.monotonic(), self._has_work()):
                break
            self._inbox.sleep(delay_seconds)
        self._overtime.stop()
        if self.settling:
            logger.error(
                "worker %s stops with %s that the store did not take; their jobs are "
                "run again when their leases expire",
                self._leases.worker,
                counted(len(self.settling), "outcome"),
            )
        return self._stopping.reason

    def begin(self, team: Team, *, replace_stuck: bool) -> None:
        """Set the executors that run the jobs; a simulator then calls `tick` itself."""
        self._team = team
        self._pid = here()
        self._handing_over.begin(team, self._pid)
        self._cutting_short.begin(team)
        self._may_replace_stuck = replace_stuck

    def _tick_safely(self) -> float:
        try:
            return self.tick()
        except BaseException as error:
            if here() != self._pid:
                leave_copy(error)
            # The worker depends on this thread, so it survives whatever a hook or a logging handler
            # raises. A tick that breaks half-way loses nothing: the next tick does the remaining
            # steps.
            logger.exception(
                "worker %s: unexpected error in its main loop; it continues", self._leases.worker
            )
            return STORE_RETRY_SECONDS_MAX

    def tick(self) -> float:
        """Do everything that can be done now; returns the seconds until there may be more."""
        self._inbox.open()
        with self._overtime.turn:
            now = self._clock.monotonic()
            self._cutting_short.drop_what_was_lost()
            self._cutting_short.pass_on_cancels()
            self._cutting_short.stop_what_timed_out(now)
            self.started_jobs -= self._cutting_short.hand_back_what_waits(now)
            self._cutting_short.hand_back_what_must_end(now)
            self._collect()
            with self._overtime.away:
                self._reports.write_due()
            self._settle_and_lease(now)
            self._fire_schedules(now)
            self._recycle_if_worn(now)
            return self._seconds_until_next()

    # -- the steps of a tick -----------------------------------------------------------------

    def _collect(self) -> None:
        now = self._clock.monotonic()
        wait_for_end = not self._stopping.is_last_chance(now)
        if not wait_for_end:
            self._inbox.changes.extend(run for run in self._in_hand.held if run.outcome is not None)
        self.settling.add_all(
            self._in_hand.take_changes(self._inbox.changes, now, wait_for_end=wait_for_end)
        )
        if self._in_hand.settled_themselves:
            self._note_settled_themselves()

    def _note_settled_themselves(self) -> None:
        settled, self._in_hand.settled_themselves = self._in_hand.settled_themselves, []
        self._heartbeat.discard_all(lease for lease, _ in settled)
        for lease, answer in settled:
            self.settling.completed_itself(lease, answer)
        # Their slots are free, and no settlement is due that could lease new jobs on the way.
        self._inbox.jobs_may_be_ready = True

    def _settle_and_lease(self, now: float) -> None:
        """One write settles what ended and leases what fits."""
        wanted = self._jobs_wanted()
        look = wanted > 0 and (
            self._inbox.jobs_may_be_ready or bool(self.settling) or now >= self._look_at
        )
        if now < self._trouble.retry_at or not (look or self.settling):
            return
        if look:
            self._gather(now)
        self._let_most_run()
        wanted = self._jobs_wanted()
        look = wanted > 0 and (look or bool(self.settling))
        self._inbox.jobs_may_be_ready = False
        sent = self.settling.waiting()
        if self._reports.due_at is not None:
            with self._overtime.away:
                self._reports.write_last(lease for lease, _ in sent)
        settlements = [Settlement(lease.job_id, lease.version, outcome) for lease, outcome in sent]
        self._heartbeat.discard_all(lease for lease, _ in sent)
        self._heartbeat.expect()
        asked_at = self._clock.monotonic()
        try:
            with self._overtime.away:
                answer = self._leases.exchange(
                    settlements,
                    served_queues(self._leases.store, self._rules.queues) if look else (),
                    wanted if look else 0,
                    self._rules.tasks,
                    free_slots=self._free_slots(),
                    except_lanes=self._handing_over.passed_over() if look else (),
                )
        except Exception as error:
            # The outcomes are kept, so the leases under which they will be settled must be kept
            # too.
            self._heartbeat.add_all(lease for lease, _ in sent)
            if isinstance(error, StoreError):
                self._store_failed(error)
            elif isinstance(error, NOT_LET_IN):
                self._trouble.refused(error)
            elif sent:
                self._settle_each(sent)
            else:
                raise
            return
        self.exchanges += 1
        self._trouble.is_over()
        if look and len(answer.leases) == wanted:
            self._in_hand.more_came(asked_at=asked_at, ended=len(self._inbox.changes))
        leases = self._traced(sent, answer, asked_at) if tracing.is_on() else answer.leases
        # Threads get their next jobs before the bookkeeping is done.
        self._heartbeat.add_all(leases, asked_at)
        self.started_jobs += self._handing_over.hand_over(leases)
        self.settling.answered(sent, answer.settled)
        if self._note_settings is not None:
            self._note_settings(answer.settings_generation)
        if look:
            self._pace.exchanged(
                asked_at, self._clock.monotonic(), queue_was_emptied=len(answer.leases) < wanted
            )
            self._look_again(answer, wanted, asked_at)
            self._ticking.note(answer.next_tick_at, answer.at, asked_at)
            if self._rules.until_empty and not answer.leases:
                self._stop_if_empty()

    def _traced(
        self, sent: list[tuple[Lease, Outcome]], answer: Exchange, asked_at: float
    ) -> list[Lease]:
        """Log and trace an exchange; each new lease continues in its own span."""
        end = self._env.now_micros()
        begin = end - round((self._clock.monotonic() - asked_at) * 1e6)
        tracing.settled(sent, answer.settled, begin, end)
        return tracing.leased(answer.leases, begin, end)

    def _gather(self, now: float) -> None:
        """While jobs arrive one at a time, let several share the next exchange."""
        rest_seconds = self._pace.rest_seconds(now, jobs_arrive=self._inbox.jobs_may_be_ready)
        if rest_seconds > 0:
            self._inbox.rest(rest_seconds)
            self._collect()

    def _let_most_run(self) -> None:
        """While there is plenty to run, let some of the jobs end before the next exchange."""
        for _ in range(RESTS_MAX):
            if not self._in_hand.most_have_yet_to_run or self._stopping.is_asked:
                return
            self._inbox.rest(REST_SECONDS_MIN)
            self._collect()

    def _stop_if_empty(self) -> None:
        if self._has_work():
            return
        reason = self._emptiness.reason(self._handing_over.unrunnable.tasks, self._leases.worker)
        if reason is not None:
            self._stopping.ask(reason)

    def _settle_each(self, sent: list[tuple[Lease, Outcome]]) -> None:
        """One of these outcomes cannot be stored: its own job fails without delaying the others."""
        try:
            with self._overtime.away:
                for lease in self.settling.one_by_one(self._leases, sent):
                    self._heartbeat.discard_all([lease])
        except StoreError as error:
            self._store_failed(error)

    def _fire_schedules(self, now: float) -> None:
        if now < self._trouble.retry_at or self._stopping.is_asked:
            return
        try:
            with self._overtime.away:
                self._ticking.fire_if_due(now)
        except StoreError as error:
            self._store_failed(error)

    def _recycle_if_worn(self, now: float) -> None:
        if self._stopping.is_asked:
            return
        reason = self._wear.reason(now, started_jobs=self.started_jobs, stuck=self._in_hand.stuck)
        if reason is StopReason.STUCK and self._may_replace_stuck:
            self._wear.stuck_were_replaced()
            replace_stuck(self._team, self._in_hand)
            self._inbox.wake()
        elif reason is not None:
            tell_worn(self._leases.worker, reason, self._rules.slots, self._in_hand)
            self._stopping.ask(reason)
            self._inbox.wake()

    def _seconds_until_next(self) -> float:
        now = self._clock.monotonic()
        self._inbox.is_hungry = self._jobs_wanted() > 0
        self._overtime.expect(self._in_hand.next_timeout(now))
        moments = [
            now + SLEEP_SECONDS_MAX,
            self._in_hand.next_moment(now),
            self._stopping.next_moment(now),
            self._wear.next_moment(),
        ]
        if self._reports.due_at is not None:
            moments.append(self._reports.due_at)
        if not self._stopping.is_asked:
            moments.append(max(self._trouble.retry_at, self._ticking.look_at))
        if self.settling:
            moments.append(self._trouble.retry_at)
        elif self._inbox.is_hungry:
            moments.append(
                max(self._trouble.retry_at, now if self._inbox.jobs_may_be_ready else self._look_at)
            )
        return min(moments) - now

    # -- leasing -----------------------------------------------------------------------------

    def _jobs_wanted(self) -> int:
        """How many more jobs to lease now."""
        if self._stopping.is_asked:
            return 0
        wanted = self._rules.slots + self._in_hand.jobs_ahead - len(self._in_hand.occupying)
        return int(max(0, min(wanted, self._wear.jobs_left(self.started_jobs))))

    def _free_slots(self) -> int:
        """How many jobs would start at once. Jobs leased beyond that wait for a slot."""
        return max(0, self._rules.slots - len(self._in_hand.occupying))

    def _look_again(self, answer: Exchange, asked_for: int, now: float) -> None:
        """When to look for jobs again, if no hint comes first."""
        self._look_at = now
        if len(answer.leases) < asked_for:
            if self._handing_over.turn_to_passed_over():
                self._inbox.jobs_may_be_ready = True
            self._look_at += self.poll_interval_seconds
            if answer.next_due_at is not None and answer.at is not None:
                due_in = answer.next_due_at - answer.at
                # A store that keeps naming a time in the past must not make the loop spin.
                due_seconds = max(DUE_SECONDS_MIN, due_in.total_seconds())
                self._look_at = min(self._look_at, now + due_seconds)

    def _store_failed(self, error: StoreError) -> None:
        if self._trouble.failed(error, len(self.settling)):
            self._inbox.jobs_may_be_ready = True

    def _has_work(self) -> bool:
        return bool(self._in_hand.held or self.settling or self._inbox.changes)
