"""The checker: goes through the call log in the store's own order, then through the final reads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import Exchange, Settled, SweepReport
from leasehold.core.model.records import Submitted
from leasehold.errors import LeaseholdError
from leasehold.testing.simulator import judge_clock, judge_final, judge_leases, judge_people
from leasehold.testing.simulator.calllog import Applied, CallLog
from leasehold.testing.simulator.model import Model, ViolationError, broken

JUDGES: Final[dict[str, Callable[..., None]]] = {
    "submit": judge_people.judge_submit,
    "exchange": judge_leases.judge_exchange,
    "renew": judge_leases.judge_renew,
    "report_progress": judge_leases.judge_report,
    "append_log": judge_leases.judge_report,
    "tell": judge_leases.judge_tell,
    "recover": judge_leases.judge_recover,
    "recover_one": judge_leases.judge_recover_one,
    "stuck": judge_leases.judge_stuck,
    "cancel": judge_people.judge_cancel,
    "replay": judge_people.judge_replay,
    "discard": judge_people.judge_discard,
    "reprioritize": judge_people.judge_reprioritize,
    "get": judge_people.judge_get,
    "stats": judge_people.judge_stats,
}
MAY_REFUSE: Final = frozenset(
    {"submit", "report_progress", "append_log", "tell", "recover_one", "reprioritize"}
)
"""Methods that raise their refusal; the others answer it."""


class Checker:
    """Judges one run. `check` raises the first ViolationError it finds."""

    def __init__(self, log: CallLog, store: Store) -> None:
        self._log = log
        self._store = store
        self._quiet_from: int | None = None
        self._clock: datetime | None = None
        self._moved_leases = False
        """Whether the call before has certainly moved what leases there were to move."""
        self.model = Model(now=store.now())

    def quiet_from_now(self, sweep_by: timedelta) -> None:
        """Faults have stopped: expired leases must be swept within this time from now on."""
        self._quiet_from = len(self._log.applied)
        self.model.sweep_by = sweep_by

    def check(self) -> Model:
        """Judge everything, to the quiet end of the run: by then every job must have ended too."""
        number = -1
        try:
            for applied in self._log.applied:
                number = applied.number
                self._judge(applied)
            self.model.now = self._store.now()
            judge_final.judge_final(self.model, self._log, self._store)
        except ViolationError as violation:
            violation.at = number
            raise
        return self.model

    def _judge(self, applied: Applied) -> None:
        if self._clock is not None and applied.at < self._clock:
            raise broken("S4", None, f"the store's clock went back to {applied.at}")
        if _wrote(applied):
            self._clock = applied.at
        wrongly_moved = self._follow_the_clock(applied)
        if applied.number == self._quiet_from:
            self.model.quiet_since = applied.at
        self.model.check_overdue()
        answer: Any = applied.answer
        if isinstance(answer, LeaseholdError) and applied.method not in MAY_REFUSE:
            raise broken("S5", None, f"{applied.method} raised {answer!r}")
        judge = JUDGES.get(applied.method)
        if judge is not None:
            judge(self.model, answer, **applied.arguments)
        if wrongly_moved is not None:
            raise wrongly_moved

    def _follow_the_clock(self, applied: Applied) -> ViolationError | None:
        model = self.model
        awake = applied.reading.awake / 1e6
        if self._moved_leases:
            model.jumped = timedelta(0)
        # The observations of a call that only looks are made up for by the next writing call.
        jumped = applied.at - model.now - timedelta(seconds=awake - model.awake)
        model.jumped += max(jumped, timedelta(0))
        if model.quiet_since is not None:
            # No sweep could run in the time by which the clock jumped.
            model.quiet_since += max(jumped, timedelta(0))
        self._moved_leases = applied.method in ("renew", "recover") or _wrote(applied)
        model.now, model.awake, model.held = applied.at, awake, applied.leases
        renewed = {
            (renewal.job_id, renewal.version) for renewal in applied.arguments.get("renewals", ())
        }
        return judge_clock.judge_moves(model, renewed)


def _wrote(applied: Applied) -> bool:
    """Whether the call certainly changed something: nothing may precede an event dated by it."""
    answer = applied.answer
    if isinstance(answer, Exchange):
        return bool(answer.leases) or any(isinstance(each, Settled) for each in answer.settled)
    if applied.method == "submit" and isinstance(answer, list):
        return any(isinstance(each, Submitted) and not each.is_duplicate for each in answer)
    return isinstance(answer, SweepReport) and answer.expired_found > 0
