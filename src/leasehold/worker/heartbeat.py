"""The heartbeat: one write keeps all of a worker's leases alive, from a thread of its own.

The holder trusts its own clock, not the store's silence: each lease has a local deadline, counted
from the moment *before* its renewal was sent. A lease that could not be renewed by then is
abandoned, so that two workers never both believe that they hold a job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.lease import Lease, Renewal
from leasehold.core.model.phrases import counted
from leasehold.core.model.status import Event
from leasehold.env import SYSTEM, Env
from leasehold.errors import LeaseExpiredError, LeaseLostError, StoreError, StoreUnavailableError
from leasehold.worker.safelog import safe_logger
from leasehold.worker.threads import OwnThread

logger = safe_logger("leasehold.worker")

MARGIN_SHARE: Final = 0.1
MARGIN_SECONDS_MAX: Final = 5.0


def local_deadline(sent_at: float, lease_seconds: float) -> float:
    """Until when, by its own monotonic clock, a holder may assume that it holds a lease.

    >>> local_deadline(100.0, 300.0)
    395.0
    """
    return sent_at + lease_seconds - min(lease_seconds * MARGIN_SHARE, MARGIN_SECONDS_MAX)


class _Held(msgspec.Struct, eq=False, gc=False):
    lease: Lease
    renewed_at: float
    deadline: float
    suspended: bool = False
    """Whether it needs no renewals, thanks to its task's own transaction."""

    def renewed(self, sent_at: float, granted_seconds: float) -> None:
        self.renewed_at = sent_at
        # Near the limit on extensions the store grants less than was requested.
        self.deadline = local_deadline(sent_at, granted_seconds)


class Heartbeat(OwnThread):
    """Renews every lease that it is given until it is told to forget it.

    `on_lost` is called once for a lease that is lost or abandoned, `on_cancel` when somebody asked
    to stop its job, `on_beat` after each beat; all from the heartbeat's own thread. It also beats
    while nothing is held, to keep the worker's registry entry alive. `stop` leaves leases that are
    still held unchanged.
    """

    def __init__(
        self,
        store: Store,
        worker: str,
        *,
        env: Env = SYSTEM,
        interval_seconds: float = 30.0,
        failure_threshold: int = 3,
        on_lost: Callable[[Lease, LeaseLostError | StoreError], None],
        on_cancel: Callable[[Lease, str], None],
        on_beat: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(f"{checked.text('worker', worker)}-heartbeat")
        self._store = store
        self._worker = worker
        self._clock = env.clock
        self._interval_seconds = checked.above_zero("interval_seconds", interval_seconds)
        self._failure_threshold = checked.at_least(1, "failure_threshold", failure_threshold)
        self._on_lost = on_lost
        self._on_cancel = on_cancel
        self._on_beat = on_beat
        self._held: dict[tuple[str, int], _Held] = {}
        # Held while renewals are in flight. It is reentrant because a simulated store runs the rest
        # of its process inside a call.
        self._renewing = threading.RLock()
        self._hurry: set[str] = set()
        self._early: list[Collection[str] | None] | None = None
        """Hints that arrive while leases are being requested, and may concern their jobs."""
        self._wait_seconds = interval_seconds
        self.consecutive_failures = 0

    def tune(self, *, interval_seconds: float, failure_threshold: int) -> None:
        """Use this interval and this tolerance of failures from now on."""
        with self._condition:
            self._interval_seconds = interval_seconds
            self._failure_threshold = failure_threshold
            self._condition.notify_all()

    # -- the leases it keeps alive -----------------------------------------------------------

    def expect(self) -> None:
        """Leases are being requested; `add_all` will be called with them.

        A job can be cancelled as soon as the store has written its lease, before this process knows
        of it: a hint that arrives meanwhile is kept until the answer names the leases.
        """
        with self._condition:
            self._early = []

    def add(self, lease: Lease, sent_at: float | None = None) -> None:
        """Keep this lease alive. `sent_at` is the monotonic time before the lease was requested."""
        self.add_all([checked.instance("lease", lease, Lease)], sent_at)

    def add_all(self, leases: Iterable[Lease], sent_at: float | None = None) -> None:
        if sent_at is None:
            sent_at = self._clock.monotonic()
        shortest = self._interval_seconds
        seconds, deadline = 0.0, sent_at
        with self._condition:
            held = self._held
            for lease in leases:
                if lease.lease_seconds != seconds:  # Those of one exchange are mostly alike.
                    seconds = lease.lease_seconds
                    deadline = local_deadline(sent_at, seconds)
                    shortest = min(shortest, seconds / 3)
                held[lease.job_id, lease.version] = _Held(lease, sent_at, deadline)
            early, self._early = self._early, None
            for job_ids in early or ():
                self._hurry_held(job_ids)
            if shortest < self._wait_seconds:
                # The thread would sleep longer than this lease allows: make it recompute.
                self._condition.notify_all()

    def discard(self, lease: Lease) -> None:
        """Forget a lease before it is settled: from now on no renewal of it is in flight."""
        self.discard_all([checked.instance("lease", lease, Lease)])

    def discard_all(self, leases: Iterable[Lease]) -> None:
        # A renewal that reached the store after the settlement would look like that of a stale
        # holder.
        with self._renewing, self._condition:
            forget = self._held.pop
            for lease in leases:
                forget((lease.job_id, lease.version), None)

    def suspend(self, lease: Lease) -> bool:
        """Neither renew nor abandon a lease until `resume`; False if it is no longer held.

        From now on no renewal of it is in flight.
        """
        with self._renewing, self._condition:
            held = self._held.get((lease.job_id, lease.version))
            if held is not None:
                held.suspended = True
            return held is not None

    def resume(self, lease: Lease) -> None:
        """Keep a suspended lease alive again, and renew it at once."""
        with self._condition:
            held = self._held.get((lease.job_id, lease.version))
            if held is not None:
                held.suspended = False
                self._hurry.add(lease.job_id)
                self._condition.notify_all()

    def holds(self, lease: Lease) -> bool:
        """Whether a lease is held, and its local deadline has not passed. Any thread may ask."""
        held = self._held.get((lease.job_id, lease.version))
        return held is not None and (held.suspended or self._clock.monotonic() < held.deadline)

    def __len__(self) -> int:
        return len(self._held)

    # -- beating -----------------------------------------------------------------------------

    def beat(self, min_age_seconds: float = 0.0, job_ids: Collection[str] = ()) -> None:
        """Renew, in one write, every lease whose last renewal is at least this long ago.

        Leases of `job_ids` are renewed whatever their age.
        """
        self._abandon_overdue()
        sent_at = self._clock.monotonic()
        try:
            with self._renewing:
                due = self._due(sent_at - min_age_seconds, job_ids)
                answers = self._store.renew(
                    self._worker,
                    [Renewal(h.lease.job_id, h.lease.version, h.lease.lease_seconds) for h in due],
                )
        except StoreError as error:
            self._beat_failed(error)
            return
        self.consecutive_failures = 0
        for held, answer in zip(due, answers, strict=True):
            if isinstance(answer, LeaseLostError):
                self._lose(held, answer)
                continue
            held.renewed(sent_at, answer.granted_seconds)
            if answer.cancel_requested is not None:
                self._on_cancel(held.lease, answer.cancel_requested)
        # A slow store may have answered after a deadline that its answer did not move.
        self._abandon_overdue()

    def _due(self, renewed_before: float, job_ids: Collection[str]) -> list[_Held]:
        with self._condition:
            return [
                held
                for held in self._held.values()
                if not held.suspended
                and (held.renewed_at <= renewed_before or held.lease.job_id in job_ids)
            ]

    def _kept(self) -> list[_Held]:
        """The leases that need renewals."""
        return [held for held in self._held.values() if not held.suspended]

    def hurry(self, job_ids: Collection[str] | None = None) -> None:
        """Beat at once for the held ones of these jobs, or for all: one may have been cancelled."""
        with self._condition:
            if self._early is not None:
                self._early.append(job_ids)
            self._hurry_held(job_ids)

    def _hurry_held(self, job_ids: Collection[str] | None) -> None:
        held = {job_id for job_id, _ in self._held}
        wanted = held if job_ids is None else held.intersection(job_ids)
        if wanted:
            self._hurry |= wanted
            self._condition.notify_all()

    def _beat_failed(self, error: StoreError) -> None:
        with self._condition:
            held = self._kept()
        if not held:
            # This failure does not count: the next lease will be granted by a store that works
            # again.
            self.consecutive_failures = 0
            if not isinstance(error, StoreUnavailableError):  # The worker's loop reports it.
                logger.warning("a heartbeat of worker %s failed: %s", self._worker, error)
            return
        self.consecutive_failures += 1
        logger.warning(
            "heartbeat %d of %d failed for %s of worker %s: %s",
            self.consecutive_failures,
            self._failure_threshold,
            counted(len(held), "lease"),
            self._worker,
            error,
        )
        self._tell(held, Event.HEARTBEAT_FAILED, str(error))
        if self.consecutive_failures >= self._failure_threshold:
            self._abandon(held, error)
        else:
            self._abandon_overdue()

    def _abandon_overdue(self) -> None:
        now = self._clock.monotonic()
        with self._condition:
            overdue = [held for held in self._kept() if held.deadline <= now]
        if overdue:
            self._abandon(
                overdue,
                LeaseExpiredError(f"worker {self._worker} could not renew the lease in time"),
            )

    def _abandon(self, held: list[_Held], error: LeaseLostError | StoreError) -> None:
        lost = [one for one in held if self._lose(one, error)]
        self._tell(lost, Event.ABANDONED, str(error))

    def _lose(self, held: _Held, error: LeaseLostError | StoreError) -> bool:
        lease = held.lease
        with self._condition:
            if held.suspended or self._held.pop((lease.job_id, lease.version), None) is None:
                return False  # It was settled meanwhile, or is being settled.
        logger.warning(
            "job %s: lease %d is lost: %s",
            lease.job_id,
            lease.version,
            error,
            extra={"job_id": lease.job_id},
        )
        self._on_lost(lease, error)
        return True

    def _tell(self, held: list[_Held], event: Event, message: str) -> None:
        """Write it to the jobs' history if the store allows; nothing depends on it."""
        try:
            for one in held:
                lease = one.lease
                self._store.tell(
                    lease.job_id, event, worker=self._worker, version=lease.version, message=message
                )
        except StoreError as error:
            logger.info(
                "could not add %s to the history of %s: %s", event, counted(len(held), "job"), error
            )

    # -- its thread --------------------------------------------------------------------------

    def _run(self) -> None:
        last_beat = self._clock.monotonic()
        while True:
            with self._condition:
                self._sleep_until_due(last_beat)
                if self._stopping:
                    return
                hurry, self._hurry = self._hurry, set()
                # A lease of a moment ago needs no renewal yet, and may be settled while one is on
                # its way, which would look like a stale holder.
                min_age_seconds = self._wait_seconds / 2
            last_beat = self._clock.monotonic()
            try:
                self.beat(min_age_seconds, hurry)
                if self._on_beat is not None:
                    self._on_beat()
            except Exception as error:
                # The leases depend on this thread, so it survives a fault in a store or a callback.
                logger.exception("a heartbeat of worker %s failed unexpectedly", self._worker)
                self._beat_failed(StoreError(f"the heartbeat failed unexpectedly: {error!r}"))

    def _sleep_until_due(self, last_beat: float) -> None:
        while not self._stopping and not self._hurry:
            kept = self._kept()
            shortest = min((h.lease.lease_seconds for h in kept), default=None)
            interval = self._interval_seconds
            if shortest is not None:
                interval = min(interval, shortest / 3)
            self._wait_seconds = interval
            due = last_beat + interval
            deadline = min((h.deadline for h in kept), default=due)
            left = min(due, deadline) - self._clock.monotonic()
            if left <= 0:
                return
            self._clock.wait(self._condition, left)
