"""The store contract: what every store must guarantee, as numbered clauses.

A store applies atomically what the core decides. The conformance suite (`leasehold.testing.
conformance`) has a test for each clause and cites it by number; a clause that a store cannot keep
is declared by raising UnsupportedError, never skipped in silence.

Clauses that hold for every method:

- ALL-1  One call is one atomic write: after a crash it has happened as a whole or not at all.
         Calls that may find any number of rows (recover, promote, delete_queue by force) are as
         many as they need, each within its budget of `core.model.budget`; the next call continues
         where one was cut short.
- ALL-2  When a call that writes returns, its write is durable at the store's named level.
- ALL-3  Time is the store's own clock, which never steps back, even if the wall clock does.
- CLK-1  The store's clock follows the wall clock while that moves as the machine's boot time does;
         a jump ahead only when every write for a minute has seen the same one
         (`core.rules.clock.tell_time`). A bad reading leaves nothing behind.
- CLK-2  While the wall clock is behind it, the store's clock runs at half the pace of boot time, or
         of the wall clock where no other can be asked.
- CLK-3  No lease ends because the clock jumped or the machine slept: when the store's clock moves
         further than the time the machine was awake, the same write moves every running lease as
         far. The first sweep finds nothing, and a holder renews as usual, with any allowance.
- ALL-4  Every step follows `core.model.status.TRANSITIONS`, and is written to the job's history in
         the same write.
- ALL-5  Any number of threads may call at once.
- ALL-6  A closed store raises StoreClosedError.
- TXT-1  Text that is not valid UTF-8 (a lone surrogate) is not found, or is refused with
         InvalidJobError, wherever a caller passes it.
- TXT-2  An order about a job with such an id changes nothing, and the store keeps working.
- TXT-3  No job that holds such text is accepted.
- TXT-4  Names are printable: nothing is named with a NUL. Such a name is treated everywhere as one
         that does not exist.

Clauses about jobs that depend on others; they hold for every method that ends, submits or replays
jobs:

- DEP-1  A job is `blocked` until every job it depends on is completed; the write that completes the
         last makes it `pending`, or `scheduled` until it is due.
- DEP-2  A dependency that is completed already is satisfied at once. An unknown one is refused with
         UnknownDependencyError, and nothing is stored.
- DEP-3  Drafts of one call may depend on each other, in any order; a cycle is refused with
         CycleError. With `partial`, a draft whose dependency was refused is refused too. A draft
         that is answered as a duplicate stands for the original job.
- DEP-4  When a dependency ends dead or cancelled, or had ended so before, its dependents' policy is
         applied once: `cancel`, `fail` (dead) or `ignore` (it counts as completed). Reason and
         history name the dependency (of several that ended in one write, the one submitted first),
         and a job that ends that way is a dependency of others in turn.
- DEP-5  One write handles at most DEPENDENTS_AT_ONCE of them, and remembers the rest: the call
         continues with further writes, and if it is cut short, any exchange or sweep continues it.
         Nothing stays blocked for ever.
- DEP-6  A replayed job waits for its dependencies again (not for those that were discarded, nor for
         later jobs under their ids: a dependency is the job that was named then): it is `blocked`
         while some have not ended, and the replay is refused with InvalidTransitionError if one has
         ended badly and its policy does not ignore that. Jobs of one call are replayed dependencies
         first. Its own dependents, if they have ended, stay ended.
- DEP-7  A dependency of an unfinished job cannot be discarded (InvalidTransitionError), and
         retention does not remove it.

Clauses about payloads and results kept outside the store, which holds a `core.model.blob` reference
to them:

- BLO-2  A reference is kept as it is, codec and all, for the job and for every job of a schedule,
         and a search for its key as text finds the jobs whose payload it is.
- BLO-3  Under one idempotency key, two references to the same data are the same payload.
- BLO-10  A reference names a blob that was written for this very job, or for this schedule. Any
         other reference is refused: in a submit or a schedule by InvalidJobError, in a result by a
         permanent failure with PayloadError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from leasehold.core.contract.job_store import JobStore
from leasehold.core.contract.metrics_store import MetricsStore
from leasehold.core.contract.operation_store import OperationStore
from leasehold.core.contract.paged_store import PagedStore
from leasehold.core.contract.people_store import PeopleStore
from leasehold.core.contract.pin_store import PinStore
from leasehold.core.contract.queue_rules import QueueRules
from leasehold.core.contract.reading_store import ReadingStore
from leasehold.core.contract.recovery_store import RecoveryStore
from leasehold.core.contract.retention_store import RetentionStore
from leasehold.core.contract.schedule_store import ScheduleStore
from leasehold.core.contract.settings_store import SettingsStore
from leasehold.core.contract.token_store import TokenStore
from leasehold.core.model.changes import ChangeFeed
from leasehold.core.model.records import Listener
from leasehold.core.rules.filter_orders import FilterOrders
from leasehold.core.rules.replies import RepeatableStore


class Store(
    JobStore,
    RecoveryStore,
    PeopleStore,
    ReadingStore,
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

    Further clauses: submits, leases and settlements in `core.contract.job_store`, workers and
    recovery in `core.contract.recovery_store`, orders of people in `core.contract.people_store`,
    reads in `core.contract.reading_store`, schedules in `core.contract.schedule_store`, queues and
    their rules in `core.contract.queue_rules`, settings in `core.contract.settings_store`, access
    from other machines in `core.contract.token_store`, pins in `core.contract.pin_store`, metrics
    in `core.contract.metrics_store`, pages in `core.contract.paged_store`, clean-ups and the
    archive in `core.contract.retention_store`, the change feed in `core.model.changes`, orders by
    filter in `core.rules.filter_orders`, operations in `core.contract.operation_store`, repeated
    requests in `core.rules.replies`. All of it can cross a network, except the calls that
    `core.contract.token_store` reserves for the server itself; operations that only a store on this
    machine has are in `core.contract.local_store`.
    """

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Wake this listener from now on; call the returned function to unsubscribe."""

    def now(self) -> datetime:
        """The store's clock."""

    def check(self) -> list[str]:
        """Look for damage and broken invariants; returns the problems found."""

    def describe(self) -> Mapping[str, Any]:
        """What this store is: kind, place, durability, versions. For people and for `doctor`.

        - BLO-1  A store that outlives its process includes its `store_id`, in small letters and
                 digits: it never changes, and no other store has it.
        """

    def close(self) -> None:
        """Release everything. Closing twice is harmless."""
