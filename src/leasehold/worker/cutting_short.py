"""Runs that must end before their code does: lost, cancelled, timed out, or handed back."""

from __future__ import annotations

import logging

from leasehold.core.model.outcome import Cancel, Release
from leasehold.core.model.phrases import counted
from leasehold.worker.context import StopCause
from leasehold.worker.executors.team import KILLING, Team
from leasehold.worker.inbox import Inbox
from leasehold.worker.inhand import InHand, timeout_failure
from leasehold.worker.run import Run
from leasehold.worker.safelog import safe_logger
from leasehold.worker.settling import Settling
from leasehold.worker.stopping import AGAIN, Stopping

logger = safe_logger("leasehold.worker")


class CuttingShort:
    """Decides the outcomes of such runs, and stops their code."""

    def __init__(
        self, inbox: Inbox, in_hand: InHand, settling: Settling, stopping: Stopping
    ) -> None:
        self._inbox = inbox
        self._in_hand = in_hand
        self._settling = settling
        self._stopping = stopping
        self._team: Team

    def begin(self, team: Team) -> None:
        """Set the executors that run the jobs."""
        self._team = team

    def drop_what_was_lost(self) -> None:
        """Drop runs whose lease now belongs to another worker: nothing of them is settled."""
        while self._inbox.lost:
            lease, error = self._inbox.lost.popleft()
            run = self._in_hand.find(lease)
            if run is not None:  # Otherwise the store will judge its settlement, now under way.
                self._in_hand.forget(run)
                self._settling.lose(lease, error)
                run.decide(Release(reason="the lease was lost"))
                self._team.stop(run)

    def pass_on_cancels(self) -> None:
        """Tell runs that people have cancelled to stop."""
        while self._inbox.cancels:
            lease, reason = self._inbox.cancels.popleft()
            run = self._in_hand.find(lease)
            if run is not None and not run.context.cancelled:
                run.context.stop(StopCause.CANCELLED, reason)
                # Code that is killed or has not begun has no say; other code may still complete.
                if run.started is None or run.task.executor in KILLING:
                    run.decide(Cancel(reason))
                self._team.stop(run)

    def stop_what_timed_out(self, now: float) -> None:
        """Stop attempts that have run longer than their jobs' `timeout_seconds`."""
        for run in self._in_hand.timed_out(now):
            failure = timeout_failure(run.lease)
            if run.decide(failure):
                run.context.stop(StopCause.TIMED_OUT, failure.error.message)
                self._team.stop(run)

    def hand_back_what_waits(self, now: float) -> int:
        """Hand back jobs that have not begun, so that other workers run them; returns how many."""
        if self._stopping.begins_now(now):
            taken = self._taken_back(self._team.take_back(), "its worker stopped before it began")
            self._say_what_it_waits_for()
            return taken
        if self._in_hand.waited_too_long(now):
            return self._taken_back(self._team.take_back(["thread"]), "no slot was free in time")
        return 0

    def hand_back_what_must_end(self, now: float) -> None:
        """Hand back all jobs still held, once the grace of a stopping worker is over."""
        if self._stopping.grace_ends_now(now):
            for run in tuple(self._in_hand.held):
                if run.decide(Release(reason="its worker stopped")):
                    run.context.stop(StopCause.HANDED_BACK, "the worker stops")
                    self._team.stop(run)

    def _taken_back(self, runs: list[Run], reason: str) -> int:
        for run in runs:
            run.finish(Release(reason=reason))
        return len(runs)

    def _say_what_it_waits_for(self) -> None:
        running = sum(not run.ended for run in self._in_hand.held)
        if running:
            is_unexpected = self._stopping.is_unexpected_wait
            logger.log(
                logging.WARNING if is_unexpected else logging.INFO,
                "stopping: waiting for %s, at most %.0f s%s",
                counted(running, "job"),
                self._stopping.grace_seconds,
                AGAIN if self._stopping.is_interrupted or is_unexpected else "",
            )
