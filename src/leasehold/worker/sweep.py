"""The recovery sweep: takes jobs back from workers that were lost."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final, Protocol, runtime_checkable

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.job import DEFAULT_LEASE_SECONDS
from leasehold.core.model.lease import SweepReport
from leasehold.core.model.phrases import counted
from leasehold.core.model.settings import attempt_records_max
from leasehold.env import SYSTEM, Env
from leasehold.errors import StoreUnavailableError
from leasehold.worker.banner import shortened
from leasehold.worker.describe import describe_error
from leasehold.worker.hooks import Hooks
from leasehold.worker.lost import LostJobs
from leasehold.worker.safelog import safe_logger
from leasehold.worker.threads import OwnThread

logger = safe_logger("leasehold.worker")

CLOCK_JUMP_SECONDS: Final = 5.0
"""If the wall clock moves this much against the monotonic one, it was set or the machine slept."""


@runtime_checkable
class ProvesDeath(Protocol):
    """A store that knows at once, and cheaply, when a worker has died."""

    def dead_workers(self) -> set[str]:
        """The registered workers that are proved dead and not yet recovered."""


class SweepStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of the sweeps of one `RecoverySweep` so far."""

    is_running: bool = False
    is_paused: bool = False
    """Whether sweeps wait because the wall clock jumped."""
    total_scans: int = 0
    total_recovered: int = 0
    total_dead: int = 0
    total_cancelled: int = 0
    total_errors: int = 0
    last_scan: datetime | None = None
    last_report: SweepReport | None = None


class RecoverySweep(OwnThread):
    """Looks for lost jobs when it starts, at every interval, and at once when a worker is proved
    dead.

    Any number of workers may run one: the store takes each job back once, and the sweep that took
    it logs that and calls its hooks.
    """

    def __init__(
        self,
        store: Store,
        *,
        env: Env = SYSTEM,
        interval_seconds: float = 60.0,
        death_check_seconds: float = 0.7,
        pause_seconds: float = DEFAULT_LEASE_SECONDS,
        hooks: Hooks | None = None,
    ) -> None:
        super().__init__("leasehold-sweep")
        self._store = store
        self._env = env
        self._clock = env.clock
        self._interval_seconds = checked.above_zero("interval_seconds", interval_seconds)
        checked.above_zero("death_check_seconds", death_check_seconds)
        self._death_check_seconds = (
            death_check_seconds if isinstance(store, ProvesDeath) else float("inf")
        )
        self._pause_seconds = checked.above_zero("pause_seconds", pause_seconds)
        self._lost = LostJobs(store, hooks or Hooks())
        self._statistics = SweepStatistics()
        self._next_scan_at = 0.0
        self._paused_until = float("-inf")
        self._wall_minus_monotonic = self._clock_difference()

    def scan_and_recover(self) -> SweepReport:
        """Take back every job whose lease expired or whose holder is proved dead.

        The error of a failed scan is counted, logged and returned, not raised: the next scan finds
        the same jobs.
        """
        started = self._clock.monotonic()
        try:
            report = self._store.recover()
        except Exception as error:  # noqa: BLE001 - it is logged, and tried again.
            logger.failed("a recovery sweep failed; the next one tries again", error)
            report = SweepReport(
                errors=1,
                scan_ms=(self._clock.monotonic() - started) * 1000,
                last_error=describe_error(error),
            )
        self._count(report)
        if report.recovered or report.dead or report.cancelled:
            logger.warning(
                "recovery sweep: %s found, %d to be run again, %d dead, %d cancelled%s",
                counted(report.expired_found, "lost job"),
                report.recovered,
                report.dead,
                report.cancelled,
                _of_workers(report.workers_proved_dead),
            )
            self._lost.tell(report)
        return report

    def tune(self, *, interval_seconds: float, pause_seconds: float) -> None:
        """Use this interval, and this pause after a jump of the clock, from now on."""
        with self._condition:
            self._interval_seconds = interval_seconds
            self._pause_seconds = pause_seconds
            soonest = self._clock.monotonic() + interval_seconds
            self._next_scan_at = min(self._next_scan_at, soonest)
            self._condition.notify_all()

    def statistics(self) -> SweepStatistics:
        """The running totals."""
        return msgspec.structs.replace(
            self._statistics,
            is_running=self.is_running,
            is_paused=self._clock.monotonic() < self._paused_until,
        )

    def start(self) -> None:
        self._next_scan_at = self._clock.monotonic()
        self._wall_minus_monotonic = self._clock_difference()
        super().start()

    @property
    def checkpoints_max(self) -> int:
        """How many checkpoints and other attempt records the store keeps per job.

        The setting `attempt_records_max` determines it for all sweeps.
        """
        return attempt_records_max(self._store.settings().values)

    def _run(self) -> None:
        while not self._stopping:
            delay_seconds = self.step()
            with self._condition:
                if not self._stopping:
                    self._clock.wait(self._condition, delay_seconds)

    def step(self) -> float:
        """Scan if there is reason to; returns how long to wait before looking again."""
        self._watch_the_clock()
        now = self._clock.monotonic()
        if now < self._paused_until:
            return min(self._paused_until - now, self._death_check_seconds, self._interval_seconds)
        if now >= self._next_scan_at or self._somebody_died():
            self.scan_and_recover()
            self._next_scan_at = now + self._interval_seconds
        until_scan = self._next_scan_at - self._clock.monotonic()
        return max(0.0, min(until_scan, self._death_check_seconds))

    def _watch_the_clock(self) -> None:
        """Pause for one lease when the wall clock jumped.

        Leases are kept in wall-clock time: after a jump forward, or a machine's sleep, all of them
        look expired although their holders live and will renew them in a moment.
        """
        difference = self._clock_difference()
        jump = difference - self._wall_minus_monotonic
        self._wall_minus_monotonic = difference
        if abs(jump) > CLOCK_JUMP_SECONDS:
            self._paused_until = self._clock.monotonic() + self._pause_seconds
            logger.warning(
                "the wall clock jumped by %.1f s: no recovery sweep for %.0f s",
                jump,
                self._pause_seconds,
            )

    def _clock_difference(self) -> float:
        return self._clock.time_micros() / 1e6 - self._clock.monotonic()

    def _somebody_died(self) -> bool:
        if not isinstance(self._store, ProvesDeath):
            return False
        try:
            return bool(self._store.dead_workers())
        except StoreUnavailableError:
            return False  # The loop of the worker tells of it.
        except Exception as error:  # noqa: BLE001 - it is logged, and tried again.
            logger.failed(
                "dead workers cannot be detected; their leases still expire in time", error
            )
            return False

    def _count(self, report: SweepReport) -> None:
        with self._condition:
            before = self._statistics
            self._statistics = SweepStatistics(
                total_scans=before.total_scans + 1,
                total_recovered=before.total_recovered + report.recovered,
                total_dead=before.total_dead + report.dead,
                total_cancelled=before.total_cancelled + report.cancelled,
                total_errors=before.total_errors + report.errors,
                last_scan=self._env.now(),
                last_report=report,
            )


def _of_workers(names: Collection[str]) -> str:
    """The holders of the jobs. A host that goes down may take hundreds of workers with it."""
    if not names:
        return ""
    return f"; {counted(len(names), 'worker')} died: {shortened(sorted(names))}"
