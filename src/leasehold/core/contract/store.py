"""The store contract: what every store must keep, as numbered clauses.

A store applies atomically what the core decides. The conformance suite (`leasehold.testing.
conformance`) has a test for each clause and cites it by number; a clause that a store cannot keep
is declared by raising UnsupportedError, never skipped in silence.

Clauses that hold for every method:

- ALL-1  One call is one atomic write: after a crash it has happened as a whole or not at all.
         Calls that may find any number of rows (recover, promote, delete_queue by force) are as
         many as they need, each within its budget of `core.model.budget`; whoever calls next goes
         on.
- ALL-2  When a call that writes returns, what it wrote is durable at the store's named level.
- ALL-3  Time is the store's own clock, which never steps back, whatever the wall clock does.
- CLK-1  The store's clock follows the wall clock while that moves as the machine's boot time does;
         a jump ahead only when every write for a minute has seen the same one
         (`core.rules.clock.tell_time`). A bad reading leaves nothing behind.
- CLK-2  While the wall clock is behind it, it goes on at half the pace of boot time.
- CLK-3  No lease ends because the clock jumped or the machine slept: the write in which the store's
         clock moves further than the machine was awake moves every running lease as far. Whoever
         sweeps first finds nothing, and a holder renews as ever, whatever its allowance.
- ALL-4  Every step follows `core.model.status.TRANSITIONS`, and is written to the job's history in
         the same write.
- ALL-5  Any number of threads may call at once.
- ALL-6  A closed store raises StoreClosedError.
- TXT-1  Text that is no UTF-8 (a lone surrogate) is not found, or refused with InvalidJobError,
         wherever it is asked for.
- TXT-2  An order about a job of such an id changes nothing, and the store goes on.
- TXT-3  No job that holds such text is accepted.

Clauses about jobs that depend on others, which hold whichever method ends, submits or replays them:

- DEP-1  A job is `blocked` until every job it depends on is completed; the write that completes the
         last makes it `pending`, or `scheduled` until it is due.
- DEP-2  A dependency that is completed already is satisfied at once. An unknown one is refused with
         UnknownDependencyError, and nothing is stored.
- DEP-3  Drafts of one call may depend on each other, in any order; a cycle is refused with
         CycleError. With `partial`, a draft whose dependency was refused is refused too. A draft
         that is answered as a duplicate stands for the job it is a duplicate of.
- DEP-4  When a dependency ends dead or cancelled, or had ended so before, its dependents' policy is
         applied once: `cancel`, `fail` (dead) or `ignore` (it counts as completed). Reason and
         history name the dependency (of several that ended in one write, the one submitted first),
         and what ends that way is a dependency of others in turn.
- DEP-5  One write deals with at most DEPENDENTS_AT_ONCE of them, and remembers what is left: the
         call goes on with further writes, and should it be cut short, any exchange and any sweep
         does. Nothing stays blocked for ever.
- DEP-6  A replayed job waits for its dependencies anew (not for those that were discarded, nor for
         later jobs under their ids: a dependency is the job that was named then): it is
         `blocked` while some have not ended, and refused with InvalidTransitionError if one has
         ended badly and that is not ignored. Jobs of one call are replayed dependencies first. Its
         own dependents, if they have ended, stay as they are.
- DEP-7  A job that an unfinished one depends on cannot be discarded: InvalidTransitionError. Nor is
         it forgotten by age.

Clauses about payloads and results that are kept apart, of which the store holds a `core.model.blob`
reference:

- BLO-2  A reference is kept as it is, codec and all, for the job and for every job of a schedule,
         and a search for its key as text finds the jobs whose payload it is.
- BLO-3  Under one idempotency key, two references to the same data are the same payload.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from leasehold.core.contract.metrics_store import MetricsStore
from leasehold.core.contract.operation_store import OperationStore
from leasehold.core.contract.paged_store import PagedStore
from leasehold.core.contract.pin_store import PinStore
from leasehold.core.contract.queue_rules import QueueRules
from leasehold.core.contract.retention_store import RetentionStore
from leasehold.core.contract.schedule_store import ScheduleStore
from leasehold.core.contract.settings_store import SettingsStore
from leasehold.core.contract.token_store import TokenStore
from leasehold.core.model.archive import ArchivedJob, ArchivePage
from leasehold.core.model.changes import ChangeFeed
from leasehold.core.model.graph import Graph
from leasehold.core.model.job import Attempt, Draft, HistoryEvent, Job
from leasehold.core.model.joblog import JobLog, LogLine
from leasehold.core.model.lease import (
    Exchange,
    Lease,
    LeaseRequest,
    Renewal,
    Renewed,
    Settled,
    Settlement,
    StuckJob,
    SweepReport,
)
from leasehold.core.model.records import (
    AuditRecord,
    Listener,
    Stats,
    Submitted,
    WorkerInfo,
    WorkerLife,
)
from leasehold.core.model.retention import CleanUp, PruneReport, RetentionPolicy, Scope
from leasehold.core.model.search import COUNTED_MAX, Count, HeavyField, JobFilter, Page
from leasehold.core.model.status import Event
from leasehold.core.rules.filter_orders import FilterOrders
from leasehold.core.rules.replies import RepeatableStore
from leasehold.errors import LeaseholdError, LeaseLostError


class Store(
    ScheduleStore,
    QueueRules,
    SettingsStore,
    TokenStore,
    PinStore,
    MetricsStore,
    PagedStore,
    RetentionStore,
    ChangeFeed,
    FilterOrders,
    OperationStore,
    RepeatableStore,
    Protocol,
):
    """Where jobs live.

    Further clauses: schedules in `core.contract.schedule_store`, queues and their rules in
    `core.contract.queue_rules`, settings in `core.contract.settings_store`, access from other
    machines in `core.contract.token_store`, pins in `core.contract.pin_store`, metrics in
    `core.contract.metrics_store`, pages in `core.contract.paged_store`, clean-ups and the
    archive in `core.contract.retention_store`, the change feed in `core.model.changes`, orders by
    filter in `core.rules.filter_orders`, operations in `core.contract.operation_store`, repeated
    requests in `core.rules.replies`. All of it can cross a network, but for what
    `core.contract.token_store` keeps for the server itself; what only a store on this
    machine can do is in `core.contract.local_store`.
    """

    # -- producers ---------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        """Store new jobs and answer each, in order.

        - SUB-1  All or nothing: an error in one draft raises it and stores none. With `partial`,
                 the good ones are stored and each bad one is answered by its error.
        - SUB-2  A job due now is `pending`, a later one `scheduled`; `depends_on` makes `blocked`.
        - SUB-3  An id that is taken raises DuplicateJobError, also within one call, unless SUB-4
                 answers first: a submit may be repeated with the same id and the same key.
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
        """Settle what was run and lease what comes next, in one write.

        - SET-1  A settlement counts only if job id and version match a running job: complete, fail,
                 snooze, release and cancel lead where `core.model.outcome.decide` says.
        - SET-2  A stale one changes nothing, leaves one `version_mismatch` event (if the job still
                 exists) and is answered by LeaseConflictError if another holder has the job now,
                 by LeaseLostError otherwise.
        - SET-3  An expired lease that nobody has recovered may still settle.
        - SET-4  One stale settlement does not hinder the others, nor the leases.
        - SET-5  Snooze and release take the attempt back.
        - SET-6  A result over the inline limit is a permanent failure with PayloadTooLargeError.
        - SET-7  A settlement that is sent again is answered as the first time, and nothing is
                 written: the attempt's record proves that this version was settled, and its end is
                 one that an outcome of this kind leads to. `run_at` is told while the job still
                 waits for it. Another kind is stale, and so is any once the record is gone (REC-2).
                 So is a completion with another result than the one that is kept: other data or
                 another codec, and of blobs (`core.model.blob`) other data. Pickles, of which one
                 value may have several, and results that are not kept any more do not differ.
        - LEA-1  Leases go to the best available jobs of these queues: highest effective priority
                 first (`core.model.priority`), then first available, first submitted. Narrowed by
                 `tasks` and `parent_id` where given, and without the queues and tasks of
                 `except_lanes`.
        - LEA-2  A leased job is `running`, with a version above every earlier one of its id, the
                 holder, an expiry, and one more attempt. The expiry is the request's
                 `lease_seconds_override`, else job.lease_seconds, else what the request says for
                 its task or in general, else STT-5; never more than STT-9 allows, and the lease
                 says how long it is.
        - LEA-3  Never two unexpired leases for one job, however many call at once.
        - LEA-4  Nothing is leased before its run_at: due jobs are promoted first, in the same
                 write.
        - LEA-5  A job past its start_by that was never leased is cancelled, with that reason,
                 instead of leased; sweeps cancel those that are pending, too, so many each.
        - LEA-6  At most `limit` leases; fewer only if no more are available, if the budget of the
                 write went to jobs that are not to be leased (LEA-5, `core.model.unreadable`) or
                 to full keys of a group (KEY-3), or
                 if the end of such a job frees its dependents: then `next_due_at` is now, listeners
                 hear `on_ready`, and the next exchange goes on.
        - EXC-1  The answer says what time it was for the store.
        - LEA-7  A job may be settled and leased again in one exchange.
        - BRK-1  After as many failures in a row as a failure's breaker says, whichever workers they
                 came from, no job of that task and queue is leased for its pause; `next_due_at`
                 knows when that ends. Other tasks are not affected.
        - BRK-2  Then one of them is leased as a probe, and no other for another pause.
        - BRK-3  A completed job of that task and queue ends the hold and the row of failures.
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
        - PRO-2  What is no JSON object, or over the inline limit, is refused with PayloadError.
        """

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        """Keep lines that the task logged; before them its worker has `dropped` so many.

        - LOG-1  Fenced like a settlement; a stale holder gets LeaseLostError, and leaves an event,
                 as SET-2.
        - LOG-2  The last LOG_LINES_MAX lines per job are kept, and how many came before them. A
                 line over LOG_LINE_LENGTH_MAX characters is cut, and says so.
        - LOG-3  A line keeps the time that it comes with, whenever it is written.
        """

    def tell(
        self, job_id: str, event: Event, *, worker: str | None, version: int, message: str
    ) -> None:
        """Write an event that changes nothing (heartbeat_failed, abandoned) to a job's history.

        An event that would change the status is refused with InvalidTransitionError; for a job that
        is no longer there, nothing is written.
        """

    # -- recovery ----------------------------------------------------------------------------

    def recover(self) -> SweepReport:
        """Take back every running job whose lease expired or whose holder is proved dead.

        - REC-1  Each becomes `pending`, or `dead` when its allowance is used up, or `cancelled`
                 when that was asked for; `core.model.outcome.decide_recovery` says which.
        - REC-2  Each leaves an attempt record with holder, version, expiry and last heartbeat, and
                 an error of type `WorkerLost` that says why. At most 100 attempt records are kept
                 per job, or as many as the setting `attempt_records_max` says.
        - REC-3  A worker that is merely busy, stopped or cut off keeps its jobs until they expire.
                 So does whoever leases under the name of a worker that died, from another process
                 than the one that registered it.
        - REC-4  Several sweeps at once are safe: each job is taken back once.
        - REC-5  No attempt is added or taken back.
        - REC-8  Those whose lease ended first are taken back first; of those that ended together,
                 those submitted first.
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
        - REC-7  If it is somebody's order, `actor`, it leaves an audit record with the job and its
                 worker, in the same write.
        """

    def stuck(
        self, silent_seconds: float | None, *, running_seconds: float | None = None
    ) -> list[StuckJob]:
        """Running jobs without a heartbeat for so long, or running for so long though it beats.

        - STK-1  Each bound counts unless it is None. Those silent for longest come first, then
                 those that run for longest.
        """

    def promote(self) -> int:
        """Make every due `scheduled` or `failed` job `pending`; answers how many."""

    # -- workers -----------------------------------------------------------------------------

    def register_worker(
        self, info: WorkerInfo, *, is_remote: bool = False, is_entered: bool = False
    ) -> WorkerLife:
        """Enter a worker in the registry, by the store's clock, and hold its sign of life.

        - WRK-1  It is in the registry, with how many leases it holds, until its life is closed or
                 `recover` removes it because it died.
        - WRK-7  The entry says which tasks a worker knows; that of a consumer, which ones it asked
                 for the last time.
        - WRK-2  An exchange whose request names a `consumer` enters its worker as one, or brings
                 its entry up to date, in the same write; the entry of a registered worker stays as
                 it is. Renewals are signs of life of both.
        - WRK-3  A consumer without a sign of life for SILENT_SECONDS (120) that holds no
                 lease is gone from the registry at once, and `recover` forgets it.
        - WRK-5  A worker that `is_remote` speaks through this process and is not in it: neither's
                 death proves anything of the other, and its jobs wait for their leases. The entry
                 is that of its `host`, `pid` and `started_at`: entering it again, from whichever
                 process, takes up the same entry, and closing that life ends it, but never the
                 entry of another registration under the same name. One that `is_entered` is
                 not entered once more: its life is there to be closed.
        - WRK-6  A consumer that serves no queue any more is gone at once, and nothing needs to be
                 leased to say so (`limit` 0). While a lease of its name is held, its entry stays:
                 there may be another consumer of that name. An entry of another process under
                 the same name stays, as does a registered worker's.
        """

    def workers(self) -> list[WorkerInfo]:
        """The registered workers and consumers, those that came first first.

        - WRK-4  Each names its current jobs, those leased first first, at most CURRENT_JOBS_MAX.
        """

    # -- people ------------------------------------------------------------------------------

    def cancel(
        self, job_ids: Sequence[str], *, reason: str, actor: str
    ) -> list[Job | LeaseholdError]:
        """Cancel jobs; one answer each, in order.

        - CAN-1  A waiting job is `cancelled` at once and will never run.
        - CAN-2  A running one is marked `cancel_requested`, its worker is woken, and it ends when
                 the attempt ends or its lease is lost. Asking again keeps the first reason.
        - CAN-3  A terminal one is answered by InvalidTransitionError, an unknown one by
                 JobNotFoundError.
        """

    def replay(
        self, job_ids: Sequence[str], *, reset_attempts: bool, actor: str
    ) -> list[Job | LeaseholdError]:
        """Give dead or cancelled jobs another chance; one answer each, in order.

        - RPL-1  The job is `pending` again, its payload untouched, its lease version kept; a
                 start_by is lifted, since a person has decided that it shall run.
        - RPL-2  With reset its attempts are 0 and its allowance is max_retries + 1; without, the
                 attempts are kept and the allowance grows by one.
        - RPL-3  Other statuses are answered by InvalidTransitionError.
        """

    def discard(self, job_ids: Sequence[str], *, actor: str) -> list[Job | LeaseholdError]:
        """Delete terminal jobs with all their records; answers with their last snapshots.

        - DIS-1  A job that has not ended is answered by InvalidTransitionError.
        - DIS-2  A later job under the same id never gets a lease version that was granted before.
        - DIS-3  Its idempotency key is free again.
        """

    def reprioritize(self, job_id: str, priority: int, *, actor: str) -> Job:
        """Change the priority of a waiting job; it keeps its place in time.

        - PRI-1  Raises InvalidTransitionError for a job that does not wait, JobNotFoundError for an
                 unknown one, InvalidJobError for a number outside 0 to 100.
        """

    def get(self, job_id: str) -> Job | None:
        """A snapshot, or None.

        - FAI-1  `failure_count`, `first_failed_at` and `last_failed_at` tell of every attempt that
                 failed or whose worker was lost, also of those without a record any more; snoozes,
                 releases and cancelled attempts are none. Replays and clean-ups of the history
                 leave them as they are, and the archive keeps them.
        """

    def position(self, job_id: str) -> int | None:
        """How many pending jobs of its queue are served before this one; None if it is not pending.

        - POS-1  0 is the next to be leased. Counting takes time with the position, not with the
                 queue: it is for people who ask, not for loops.
        """

    def graph(self, job_ids: Sequence[str]) -> Graph:
        """These jobs and all that are linked with them by dependencies, directly or not.

        - DEP-8  Every node says what it depends on and, if a dependency's end has ended it, which.
                 Jobs that do not exist (any more) are passed over.
        """

    def search(
        self,
        where: JobFilter,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
    ) -> Page:
        """Jobs that fit, the last submitted first, page by page.

        - SEA-1  Text is found in any case, in whatever script: "MÜNCHEN" by "münchen", "straße" by
                 "STRASSE", and the other way round.
        - SEA-2  What it is to go `without` is neither fetched nor carried: payloads and results are
                 empty and of the codec LEFT_OUT, metadata is None. Filters count all the same.
        - SEA-4  What no page gave as its cursor is refused with InvalidJobError.
        """

    def count(self, where: JobFilter, *, counted_max: int = COUNTED_MAX) -> Count:
        """How many jobs fit.

        - SEA-3  Exact up to `counted_max`, and at any number where a filter asks for nothing but
                 queues and statuses; beyond, the answer says that there are at least so many. A
                 bound outside 1 to COUNTED_MAX raises InvalidJobError.
        """

    def find_ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        """Ids of jobs that begin like this, in order; for people who type only their beginning.

        - FID-1  At most `limit` of them, the first ones; an index seek, however many jobs there are
                 and however short the prefix is.
        """

    def attempts(self, job_id: str) -> list[Attempt]:
        """The job's attempts, oldest first, the running one included."""

    def history(self, job_id: str) -> list[HistoryEvent]:
        """Everything that happened to the job, oldest first; empty once it was dropped (RET-8).

        - HIS-1  `sequence` has no gaps, and each event's `before` is the previous `after`.
        - HIS-2  Replaying it gives the job's status, lease version and attempts: `leased` spends
                 one, `snoozed` and `released` take it back, a reset makes them 0;
                 `HistoryEvent.attempts` says how many that left.
        - HIS-3  Every event has a message for people, in the words of `core.rules.messages`, and
                 an event about a lease names whose it is: leased by whom until when, completed by
                 whom after how long, recovered from whom and why, and a stale holder when it is
                 refused (SET-2), however long ago it held the job.
        """

    def log(self, job_id: str) -> JobLog:
        """What the job's tasks logged; empty for a job that is not there."""

    def stats(self, queue: str | None = None) -> Stats:
        """Counts and totals, from maintained counters: the jobs are never scanned."""

    def queues(self) -> list[str]:
        """The names of all queues that were created or ever held a job."""

    def audit_log(self, limit: int = 100) -> list[AuditRecord]:
        """The latest administrative actions, newest first, archived ones included."""

    # -- the store itself --------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Wake this listener from now on; call the answer to end it."""

    def now(self) -> datetime:
        """The store's clock."""

    def check(self) -> list[str]:
        """Look for damage and broken invariants; the problems found, none if all is well."""

    def describe(self) -> Mapping[str, Any]:
        """What this store is: kind, place, durability, versions. For people and for `doctor`.

        - BLO-1  A store that outlives its process says its `store_id`, small letters and digits:
                 the same for as long as it lives, and no other store's.
        """

    def close(self) -> None:
        """Release everything. Closing twice is harmless."""


__all__ = [
    "ArchivePage",
    "ArchivedJob",
    "Attempt",
    "AuditRecord",
    "CleanUp",
    "Draft",
    "Exchange",
    "Graph",
    "HistoryEvent",
    "Job",
    "JobFilter",
    "Lease",
    "LeaseRequest",
    "Listener",
    "Page",
    "PruneReport",
    "Renewal",
    "Renewed",
    "RetentionPolicy",
    "Scope",
    "Settled",
    "Settlement",
    "Stats",
    "Store",
    "StuckJob",
    "Submitted",
    "SweepReport",
    "WorkerInfo",
    "WorkerLife",
]
