"""Workers, and recovering jobs from lost ones."""

from __future__ import annotations

from typing import Protocol

from leasehold.core.model.lease import Settled, StuckJob, SweepReport
from leasehold.core.model.records import WorkerInfo, WorkerLife


class RecoveryStore(Protocol):
    """The part of the store that knows which workers are alive."""

    def recover(self, *, actor: str | None = None) -> SweepReport:
        """Take back every running job whose lease expired or whose holder is proved dead.

        - REC-1  Each becomes `pending`, or `dead` when its allowance is used up, or `cancelled`
                 when that was requested; `core.model.outcome.decide_recovery` says which.
        - REC-2  Each leaves an attempt record with holder, version, expiry and last heartbeat, and
                 an error of type `WorkerLost` that says why. At most 100 attempt records are kept
                 per job, or as many as the setting `attempt_records_max` says.
        - REC-3  A worker that is merely busy, stopped or cut off keeps its jobs until its leases
                 expire. So does a process that leases under the name of a dead worker that another
                 process had registered.
        - REC-4  Concurrent sweeps are safe: each job is taken back once.
        - REC-5  No attempt is added or taken back.
        - REC-8  Jobs whose lease ended first are taken back first; among leases that ended
                 together, the first submitted.
        - REC-9  If a person (`actor`) ordered it, it leaves an audit record with the number of jobs
                 taken back, even if that is 0.
        - REC-10  The report lists the lost attempts in that order, up to LOST_TOLD_MAX: the worker
                 that was lost, the error of REC-2, and what became of the job. Of several sweeps,
                 one reports an attempt.
        """

    def recover_one(
        self,
        job_id: str,
        version: int,
        *,
        reset_attempts: bool,
        reason: str,
        actor: str | None = None,
    ) -> Settled:
        """Take a job from its holder although its lease has not expired.

        - REC-6  Fenced by version: raises LeaseLostError if the lease has moved on. The job becomes
                 what REC-1 says; with reset, it has its full allowance again first.
        - REC-7  If a person (`actor`) ordered it, it leaves an audit record with the job and its
                 worker, in the same write.
        """

    def stuck(
        self, silent_seconds: float | None, *, running_seconds: float | None = None
    ) -> list[StuckJob]:
        """Running jobs without a heartbeat for too long, or running for too long despite
        heartbeats.

        - STK-1  Each bound applies unless it is None. The jobs silent for longest come first, then
                 those running for longest.
        """

    def promote(self) -> int:
        """Make every due `scheduled` or `failed` job `pending`; returns how many."""

    # -- workers -----------------------------------------------------------------------------

    def register_worker(
        self, info: WorkerInfo, *, is_remote: bool = False, is_entered: bool = False
    ) -> WorkerLife:
        """Enter a worker in the registry, by the store's clock, and hold its sign of life.

        - WRK-1  It is in the registry, with how many leases it holds, until its life is closed or
                 `recover` removes it: because it died, or a day after its last sign of life if it
                 holds no lease.
        - WRK-7  The entry lists the tasks that a worker knows; a consumer's entry lists those of
                 its latest request.
        - WRK-2  An exchange whose request names a `consumer` enters its worker as one, or brings
                 its entry up to date, in the same write; the entry of a registered worker stays
                 unchanged. Renewals are signs of life of both.
        - WRK-3  A consumer without a sign of life for SILENT_SECONDS (120) that holds no
                 lease is gone from the registry at once, and `recover` forgets it.
        - WRK-5  A worker that `is_remote` speaks through this process and is not in it: the death
                 of either proves nothing about the other, and its jobs wait for their leases to
                 expire. The entry is known by its `host`, `pid` and `started_at`: entering it
                 again, from any process, takes up the same entry, and closing that life ends it,
                 but never the entry of another registration under the same name. A worker that
                 `is_entered` is not entered again: the existing life is returned, to be closed.
        - WRK-8  A worker that `is_remote`, is silent for SILENT_SECONDS and holds no lease is left
                 out: its death cannot be proved. Its next sign of life brings it back, within a
                 day; `recover` forgets it after that.
        - WRK-6  A consumer that serves no queue any more is removed at once; it can say so without
                 leasing anything (`limit` 0). While a lease of its name is held, its entry stays:
                 there may be another consumer of that name. An entry of another process under the
                 same name stays, as does a registered worker's.
        """

    def workers(self) -> list[WorkerInfo]:
        """The registered workers and consumers.

        - WRK-9  They come in the order of their latest registration, and of their names where that
                 was the same moment.
        - WRK-4  Each names its current jobs in the order in which they were leased, at most
                 CURRENT_JOBS_MAX.
        """
