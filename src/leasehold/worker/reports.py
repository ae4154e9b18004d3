"""Progress and log lines on their way to the store, coalesced so that no task waits for a write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.model.joblog import LogLine, LogTail
from leasehold.core.model.lease import Lease
from leasehold.env import Env
from leasehold.errors import (
    LeaseLostError,
    StoreError,
    StoreUnavailableError,
)
from leasehold.worker.describe import describe_briefly
from leasehold.worker.hooks import call_hook
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")

WRITE_INTERVAL_SECONDS: Final = 0.5


class _Report:
    __slots__ = ("lease", "log", "progress")

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.progress: bytes | None = None
        self.log = LogTail()


class Reports:
    """The sink of every context in this process. The worker's own thread does the writing."""

    def __init__(
        self,
        store: Store,
        env: Env,
        wake: Callable[[], None],
        on_progress: Callable[[Lease, dict[str, Any]], None] | None = None,
    ) -> None:
        self._store = store
        self._on_progress = on_progress
        self._clock = env.clock
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, int], _Report] = {}
        # Held while reports are on their way to the store.
        self._writing = threading.Lock()
        self._written_at = float("-inf")

    def progress(self, lease: Lease, document: bytes) -> None:
        with self._lock:
            self._report(lease).progress = document

    def log(self, lease: Lease, line: LogLine) -> None:
        with self._lock:
            self._report(lease).log.add(line)

    def _report(self, lease: Lease) -> _Report:
        key = (lease.job_id, lease.version)
        report = self._waiting.get(key)
        if report is None:
            if not self._waiting:
                self._wake()
            report = self._waiting[key] = _Report(lease)
        return report

    @property
    def due_at(self) -> float | None:
        """The monotonic time at which to write waiting reports; None if there are none."""
        return self._written_at + WRITE_INTERVAL_SECONDS if self._waiting else None

    def write_due(self) -> None:
        """Write all waiting reports, unless some were written a moment ago."""
        if self._waiting and self._clock.monotonic() >= self._written_at + WRITE_INTERVAL_SECONDS:
            self._written_at = self._clock.monotonic()
            with self._writing:
                with self._lock:
                    reports, self._waiting = list(self._waiting.values()), {}
                self._write(reports)

    def write_last(self, leases: Iterable[Lease]) -> None:
        """Write the remaining reports of these leases before they are settled."""
        if self._waiting:
            self._write_of(leases)

    def write_now(self, lease: Lease) -> None:
        """Write the reports of this lease; when it returns, none of them is on its way."""
        self._write_of([lease])
        if (lease.job_id, lease.version) in self._waiting:
            raise StoreUnavailableError(
                f"the progress and log of job {lease.job_id} could not be written yet"
            )

    def _write_of(self, leases: Iterable[Lease]) -> None:
        with self._writing:
            with self._lock:
                found = [self._waiting.pop((lease.job_id, lease.version), None) for lease in leases]
            self._write([report for report in found if report is not None])

    def _write(self, reports: list[_Report]) -> None:
        for report in reports:
            lease = report.lease
            try:
                if report.progress is not None:
                    self._store.report_progress(lease.job_id, lease.version, report.progress)
                    self._tell(lease, report.progress)
                if report.log:
                    self._store.append_log(
                        lease.job_id,
                        lease.version,
                        list(report.log.lines),
                        dropped=report.log.dropped,
                    )
            except LeaseLostError:
                # The heartbeat or the settlement will detect it too, and act on it.
                logger.info(
                    "job %s: a report came after its lease was lost",
                    lease.job_id,
                    extra={"job_id": lease.job_id},
                )
            except StoreError as error:
                logger.warning(
                    "job %s: its progress and log could not be written yet: %s",
                    lease.job_id,
                    error,
                    extra={"job_id": lease.job_id},
                )
                self._keep(report)
            except Exception as error:  # noqa: BLE001 - one job's report hurts no other's.
                logger.warning(
                    "job %s: its progress or log was refused: %s",
                    lease.job_id,
                    describe_briefly(error),
                    extra={"job_id": lease.job_id},
                )

    def _tell(self, lease: Lease, progress: bytes) -> None:
        if self._on_progress is not None:
            call_hook(self._on_progress, lease, msgspec.json.decode(progress))

    def _keep(self, report: _Report) -> None:
        with self._lock:
            newer = self._waiting.get((report.lease.job_id, report.lease.version))
            if newer is None:
                self._waiting[report.lease.job_id, report.lease.version] = report
                return
            newer.progress = newer.progress or report.progress
            report.log.extend(newer.log.lines, newer.log.dropped)
            newer.log = report.log
