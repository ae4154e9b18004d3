"""The verbs of holders of leases, and taking jobs back from lost ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leasehold.core.model.budget import RECOVERED_AT_ONCE, batched
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import (
    Exchange,
    LeaseRequest,
    Renewal,
    Renewed,
    Settled,
    Settlement,
    StuckJob,
    SweepReport,
)
from leasehold.core.model.lives import remote_life
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.status import Event
from leasehold.core.rules.recovery import recover_one
from leasehold.core.rules.replies import check_request_id
from leasehold.errors import LeaseLostError
from leasehold.interrupts import SHIELD
from leasehold.stores.memory import (
    feed,
    holding,
    leasing,
    queues,
    recovery,
    registry,
    replies,
)
from leasehold.stores.memory.verbs.burying import BuryingVerbs


class _Registration:
    """A worker's entry in the registry. Death cannot be proved here: it shares this process."""

    lock_fd: int | None = None

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave

    def close(self) -> None:
        self._leave()


class HoldingVerbs(BuryingVerbs):
    """Leases, workers and recovery."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        return self._run(leasing.exchange, settlements, request)

    def exchange_once(
        self,
        request_id: str,
        settlements: Sequence[Settlement] = (),
        request: LeaseRequest | None = None,
    ) -> Exchange:
        check_request_id(request_id)
        return self._run(replies.exchange_once, request_id, settlements, request)

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        return self._run(holding.renew, worker, renewals)

    def report_progress(self, job_id: str, version: int, progress: bytes) -> None:
        self._run(holding.report_progress, job_id, version, progress)

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        self._run(holding.append_log, job_id, version, lines, dropped)

    def tell(
        self, job_id: str, event: Event, *, worker: str | None, version: int, message: str
    ) -> None:
        self._run(holding.tell, job_id, event, worker, version, message)

    def recover(self) -> SweepReport:
        report = SweepReport()
        for jobs in batched(self._look(recovery.expired), RECOVERED_AT_ONCE):
            report = report.plus(self._run(recovery.recover, jobs))
        self._run(recovery.cancel_late_jobs)
        self._run(registry.forget_silent)
        self._run(feed.end_if_unfollowed)
        for queue in self._look(queues.being_deleted_now):
            self._bury(queue)
        return report

    def recover_one(
        self,
        job_id: str,
        version: int,
        *,
        reset_attempts: bool,
        reason: str,
        actor: str | None = None,
    ) -> Settled:
        return self._run(
            lambda state: recover_one(
                recovery.Holdings(state),
                job_id,
                version,
                reset_attempts=reset_attempts,
                reason=reason,
                actor=actor,
            )
        )

    def stuck(
        self, silent_seconds: float | None, *, running_seconds: float | None = None
    ) -> list[StuckJob]:
        return self._look(recovery.stuck, silent_seconds, running_seconds)

    def promote(self) -> int:
        promoted = 0
        while found := self._run(recovery.promote_some):
            promoted += found
        return promoted

    def register_worker(
        self,
        info: WorkerInfo,
        *,
        is_remote: bool = False,
        is_entered: bool = False,
    ) -> _Registration:
        # No death is proved here: a remote worker is only told apart in another way.
        number = remote_life(info).number if is_remote else None
        if number is None or not is_entered:
            number = self._run(registry.enter, info, number)
        return _Registration(lambda: self._leave(info.id, number))

    def workers(self) -> list[WorkerInfo]:
        return self._look(registry.workers)

    def _leave(self, worker: str, number: int) -> None:
        # Not through _run: a worker may leave in peace after its store was closed.
        with SHIELD, self._lock:
            registry.end(self._state, worker, number)
