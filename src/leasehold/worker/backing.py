"""The worker's part in the transactions of its tasks."""

from __future__ import annotations

from leasehold.core.contract.local_store import LocalVerbs, local_part
from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import JobTransaction
from leasehold.core.model.lease import Lease
from leasehold.env import Clock
from leasehold.errors import LeaseLostError
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.inhand import InHand, timeout_failure
from leasehold.worker.reports import Reports


class PlainBacking:
    """For a caller that runs one attempt at a time, with no other writer for the job."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def open(self, lease: Lease) -> JobTransaction:
        local = local_part(self._store, "a transaction of your own")
        return local.open_transaction(lease.job_id, lease.version)

    def claim(self, lease: Lease) -> bool:  # noqa: ARG002 - there is no other decision.
        return True

    def gave_up(self, lease: Lease) -> None:
        """The lease is unchanged."""


class WorkerBacking:
    """Keeps the worker's own writes about a job out of the way of that job's transaction.

    A renewal or a report that waits for the transaction would come after the job's completion, and
    look like a stale holder's.
    """

    def __init__(
        self,
        store: Store,
        heartbeat: Heartbeat,
        reports: Reports,
        in_hand: InHand,
        clock: Clock,
    ) -> None:
        self._store = store
        self._heartbeat = heartbeat
        self._reports = reports
        self._in_hand = in_hand
        self._clock = clock

    def open(self, lease: Lease) -> JobTransaction:
        self.make_way(lease)
        try:
            local = local_part(self._store, "a transaction of your own")
            return local.open_transaction(lease.job_id, lease.version)
        except BaseException:
            self.gave_up(lease)
            raise

    def make_way(self, lease: Lease) -> None:
        """Make sure that nothing about this lease is on its way to the store."""
        if not self._heartbeat.suspend(lease):
            raise LeaseLostError(f"this worker has lost its lease of job {lease.job_id}")
        try:
            self._reports.write_now(lease)
        except BaseException:
            self.gave_up(lease)
            raise

    def claim(self, lease: Lease) -> bool:
        run = self._in_hand.find(lease)
        if run is None:
            return False
        # The worker's loop may be late: on SQLite it waits for this very transaction.
        if run.is_out_of_time(self._clock.monotonic()):
            run.decide(timeout_failure(lease))
        return run.claim()

    def gave_up(self, lease: Lease) -> None:
        self._heartbeat.resume(lease)

    def address(self) -> str | None:
        """The URL by which a child process finds the store."""
        return self._store.address() if isinstance(self._store, LocalVerbs) else None
