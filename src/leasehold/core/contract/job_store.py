"""Submitting jobs, and leasing and settling them: the hot path of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from leasehold.core.model.job import Draft
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Exchange, LeaseRequest, Renewal, Renewed, Settlement
from leasehold.core.model.records import Submitted
from leasehold.core.model.status import Event
from leasehold.errors import LeaseholdError, LeaseLostError


class JobStore(Protocol):
    """The part of the store used by producers and by holders of leases."""

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        """Store new jobs; return one answer per draft, in order.

        - SUB-1  All or nothing: an error in one draft raises it and stores none. With `partial`,
                 the valid drafts are stored and each invalid one is answered by its error.
        - SUB-2  A job due now is `pending`, one due later is `scheduled`, one with `depends_on` is
                 `blocked`.
        - SUB-3  A taken id raises DuplicateJobError, also within one call, unless SUB-4 answers
                 first: a submit may be repeated with the same id and the same key.
        - SUB-4  A known idempotency key of that queue, within 24 hours, stores nothing and answers
                 with the first job and `is_duplicate`, also within one call; raises
                 IdempotencyConflictError if task, payload or codec differ.
        - SUB-5  Draft.check() is applied; a payload over the inline limit raises
                 PayloadTooLargeError.
        - SUB-6  Jobs of one call, and calls one after the other, are served first in, first out
                 within the same priority.
        """

    # -- holders -----------------------------------------------------------------------------

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        """Settle finished attempts and lease the next jobs, in one write.

        - SET-1  A settlement counts only if job id and version match a running job: complete, fail,
                 snooze, release and cancel lead where `core.model.outcome.decide` says.
        - SET-2  A stale settlement changes nothing, leaves one `version_mismatch` event (if the job
                 still exists) and is answered by LeaseConflictError if another holder has the job
                 now, by LeaseLostError otherwise.
        - SET-3  An expired lease that was not recovered yet may still settle.
        - SET-4  One stale settlement does not hinder the others, nor the leases.
        - SET-5  Snooze and release take the attempt back.
        - SET-6  A result over the inline limit is a permanent failure with PayloadTooLargeError.
        - SET-7  A settlement that is sent again is answered as the first time, and nothing is
                 written: the attempt's record proves that this version was settled, and its end is
                 one that an outcome of this kind leads to. `run_at` is included while the job still
                 waits for it. Another kind is stale, and so is any kind once the record is gone
                 (REC-2). So is a completion with another result than the stored one: other data or
                 another codec, and for blobs (`core.model.blob`) other data. Pickles, of which one
                 value may have several, and results that were dropped do not differ.
        - LEA-1  Leases go to the best available jobs of these queues: highest effective priority
                 first (`core.model.priority`), then first available, first submitted. Narrowed by
                 `tasks` and `parent_id` where given, and without the queues and tasks of
                 `except_lanes`.
        - LEA-2  A leased job is `running`, with a version above every earlier one of its id, the
                 holder, an expiry, and one more attempt. The length of the lease is the first that
                 is given of the request's `lease_seconds_override`, job.lease_seconds, and the
                 request's value for the task or in general; otherwise the value of STT-5. It is
                 never more than STT-9 allows, and the lease states its length.
        - LEA-3  Never two unexpired leases for one job, however many call at once.
        - LEA-4  Nothing is leased before its run_at: due jobs are promoted first, in the same
                 write.
        - LEA-5  A job past its start_by that was never leased is cancelled, with that reason,
                 instead of leased; sweeps cancel pending ones too, a bounded number each.
        - LEA-6  At most `limit` leases; fewer only if no more are available, if the budget of the
                 write went to jobs that are not to be leased (LEA-5, `core.model.unreadable`) or to
                 full keys of a group (KEY-3), or if the end of such a job frees its dependents:
                 then `next_due_at` is now, listeners hear `on_ready`, and the next exchange
                 continues.
        - EXC-1  The answer has the store's time.
        - LEA-7  A job may be settled and leased again in one exchange.
        - BRK-1  After as many failures in a row as a failure's breaker says, from any workers, no
                 job of that task and queue is leased for its pause; `next_due_at` takes the end of
                 the pause into account. Other tasks are not affected.
        - BRK-2  Then one of them is leased as a probe, and no other for another pause.
        - BRK-3  A completed job of that task and queue ends the pause and the run of failures.
        """

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        """Keep leases alive, and the worker's own registry entry with them.

        - REN-1  A renewal counts only if id, version and `running` match and the lease has not
                 expired; the new expiry is now + lease_seconds, at most `lease_extension_max`
                 after it was acquired (STT-9), and never earlier than it was before
                 (`core.model.lease.decide_renewal`). The answer says how many seconds that grants.
        - REN-2  A stale one is answered by LeaseConflictError or LeaseLostError and leaves an
                 event, as SET-2; an expired one by LeaseExpiredError. Nothing else is changed.
        - REN-3  The answer carries a pending cancel request.
        """

    def report_progress(self, job_id: str, version: int, progress: bytes) -> None:
        """Keep a JSON document as the running job's progress.

        - PRO-1  Fenced like a settlement; a stale holder gets LeaseLostError, and leaves an event,
                 as SET-2.
        - PRO-2  A value that is no JSON object, over the inline limit, or nested more than 64
                 deep is refused with PayloadError.
        """

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        """Store lines that the task logged; its worker `dropped` this many lines before them.

        - LOG-1  Fenced like a settlement; a stale holder gets LeaseLostError, and leaves an event,
                 as SET-2.
        - LOG-2  The last LOG_LINES_MAX lines per job are kept, with the number of lines before
                 them. A line over LOG_LINE_LENGTH_MAX characters is cut, and says so.
        - LOG-3  A line keeps its own time, whenever it is written.
        """

    def tell(
        self, job_id: str, event: Event, *, worker: str | None, version: int, message: str
    ) -> None:
        """Write an event that changes nothing (heartbeat_failed, abandoned) to a job's history.

        An event that would change the status is refused with InvalidTransitionError. For a job that
        no longer exists, nothing is written.
        """
