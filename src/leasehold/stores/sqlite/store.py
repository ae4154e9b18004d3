"""The SQLite store: the contract's verbs, each handed to the module that knows it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.contract.transactions import OwnConnection
from leasehold.core.model.archive import EVERYTHING, ArchivedJob, ArchivePage, ArchiveSpan
from leasehold.core.model.budget import PURGE_AT_ONCE
from leasehold.core.model.changes import Changes
from leasehold.core.model.graph import Graph
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.joblog import LogLine, check_progress
from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.lease import (
    Exchange,
    LeaseRequest,
    Renewal,
    Renewed,
    Settled,
    Settlement,
    SweepReport,
)
from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState
from leasehold.core.model.records import (
    Listener,
    Purged,
    Submitted,
    WorkerInfo,
    WorkerLife,
)
from leasehold.core.model.retention import (
    BATCH_MAX,
    DAILY,
    PruneReport,
    RetentionPolicy,
    Scope,
)
from leasehold.core.model.schedule import Fired, Schedule, ScheduleDraft
from leasehold.core.model.search import COUNTED_MAX, Count, HeavyField, JobFilter, Page
from leasehold.core.model.settings import StoredSettings
from leasehold.core.model.status import Event
from leasehold.core.rules import (
    fence,
    people,
    queue_orders,
    recovery,
    scheduling,
)
from leasehold.core.rules.filter_orders import (
    ORDERED_AT_ONCE,
    DiscardAll,
    Order,
    Ordered,
    carry_out,
    is_oldest_first,
    narrowed,
)
from leasehold.core.rules.moving import RowStore
from leasehold.core.rules.operations import Advance, Operation, OperationDraft, Plan, begin, stop
from leasehold.env import SYSTEM, Env
from leasehold.errors import LeaseholdError, LeaseLostError, QueueFullError
from leasehold.stores.sqlite.disk.connection import Durability
from leasehold.stores.sqlite.disk.lock import LOCK_TIMEOUT_SECONDS
from leasehold.stores.sqlite.keeping import archive, moving, pruning
from leasehold.stores.sqlite.leasing import recover, registry, renew
from leasehold.stores.sqlite.leasing.people import Desk
from leasehold.stores.sqlite.leasing.settle import exchange, exchange_once
from leasehold.stores.sqlite.leasing.state import Histories
from leasehold.stores.sqlite.reading import inspection, jobs, read
from leasehold.stores.sqlite.reading.metrics import Look
from leasehold.stores.sqlite.reading.tallies import Failures
from leasehold.stores.sqlite.rules import operations, queues, schedules, settings
from leasehold.stores.sqlite.rules.operations import OperationShelf
from leasehold.stores.sqlite.rules.schedules import Shelf
from leasehold.stores.sqlite.rules.tokens import Tokens
from leasehold.stores.sqlite.schema.rows import LenientReader
from leasehold.stores.sqlite.submitting import ended_dependents, entering, gate, linking
from leasehold.stores.sqlite.writing import transaction_verbs
from leasehold.stores.sqlite.writing.application import ApplicationConnection
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.transaction_verbs import HeldTransaction
from leasehold.stores.tables.pins import stops
from leasehold.stores.tables.store import TableStore

T = TypeVar("T")


class SQLiteStore(TableStore):
    """Jobs in one SQLite file, shared by any number of processes on one machine.

    `durability="full"` survives loss of power; `"normal"` survives the death of every process but
    may lose the last moments before a loss of power.
    """

    _database: Database
    _reader = LenientReader
    _tokens = Tokens
    _failures = Failures
    _metrics = Look

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        env: Env = SYSTEM,
        durability: Durability = "full",
        lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
    ) -> None:
        self._database = Database(
            path, env=env, durability=durability, lock_timeout_seconds=lock_timeout_seconds
        )

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self._database.files.database)!r})"

    def __str__(self) -> str:
        return os.path.abspath(self._database.files.database)

    # -- producers ---------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return entering.submit(self._database, drafts, partial=partial)

    def submit_once(
        self, request_id: str, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return entering.submit_once(self._database, request_id, drafts, partial=partial)

    def submit_within(
        self, connection: OwnConnection, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return entering.submit_within(self._database, connection, drafts, partial=partial)

    # -- holders -----------------------------------------------------------------------------

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        return exchange(self._database, settlements, request)

    def exchange_once(
        self,
        request_id: str,
        settlements: Sequence[Settlement] = (),
        request: LeaseRequest | None = None,
    ) -> Exchange:
        return exchange_once(self._database, request_id, settlements, request)

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        return self._database.write(lambda step: renew.renew(step, worker, renewals))

    def report_progress(self, job_id: str, version: int, progress: bytes) -> None:
        check_progress(job_id, progress)
        _raise(
            self._database.write(
                lambda step: renew.report_progress(step, job_id, version, progress)
            )
        )

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        _raise(
            self._database.write(
                lambda step: renew.append_log(step, job_id, version, lines, dropped)
            )
        )

    def tell(
        self, job_id: str, event: Event, *, worker: str | None, version: int, message: str
    ) -> None:
        self._database.write(
            lambda step: fence.tell(Histories(step), job_id, event, worker, version, message)
        )

    # -- recovery ----------------------------------------------------------------------------

    def recover(self) -> SweepReport:
        return recover.sweep(self._database)

    def recover_one(
        self,
        job_id: str,
        version: int,
        *,
        reset_attempts: bool,
        reason: str,
        actor: str | None = None,
    ) -> Settled:
        return self._database.write(
            lambda step: recovery.recover_one(
                recover.Holdings(step),
                job_id,
                version,
                reset_attempts=reset_attempts,
                reason=reason,
                actor=actor,
            )
        )

    def promote(self) -> int:
        return recover.promote(self._database)

    def repair_clock(self, *, actor: str) -> ClockRepair:
        return recover.repair_clock(self._database, actor)

    # -- workers -----------------------------------------------------------------------------

    def register_worker(
        self, info: WorkerInfo, *, is_remote: bool = False, is_entered: bool = False
    ) -> WorkerLife:
        if is_remote:
            return registry.register_remote_worker(self._database, info, is_entered=is_entered)
        return registry.register_worker(self._database, info)

    def dead_workers(self) -> set[str]:
        """Workers proved dead whose jobs are not taken back yet; never touches the database."""
        return {life.worker for life in self._database.deaths.find()}

    def _lost_workers(self, db: Any) -> set[str]:  # noqa: ARG002  # it is told by locks on files
        return self.dead_workers()

    # -- people ------------------------------------------------------------------------------

    def cancel(
        self, job_ids: Sequence[str], *, reason: str, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._database.write(
            lambda step: people.cancel(Desk(step), job_ids, reason=reason, actor=actor)
        )

    def replay(
        self, job_ids: Sequence[str], *, reset_attempts: bool, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._database.write(
            lambda step: people.replay(
                Desk(step), job_ids, reset_attempts=reset_attempts, actor=actor
            )
        )

    def discard(self, job_ids: Sequence[str], *, actor: str) -> list[Job | LeaseholdError]:
        ended_dependents.look_through(self._database, job_ids)
        return self._database.write(lambda step: people.discard(Desk(step), job_ids, actor=actor))

    def reprioritize(self, job_id: str, priority: int, *, actor: str) -> Job:
        return self._database.write(
            lambda step: people.reprioritize(Desk(step), job_id, priority, actor=actor)
        )

    def order(
        self,
        order: Order,
        where: JobFilter,
        *,
        actor: str,
        limit: int = ORDERED_AT_ONCE,
        cursor: str | None = None,
    ) -> Ordered:
        able = narrowed(order, where, limit)
        job_ids, following = jobs.fitting(
            self._database, able, limit, cursor, oldest_first=is_oldest_first(order)
        )
        if not job_ids:
            return Ordered()
        if isinstance(order, DiscardAll):
            ended_dependents.look_through(self._database, job_ids)
        done = self._database.write(lambda step: carry_out(Desk(step), order, able, job_ids, actor))
        return msgspec.structs.replace(done, next_cursor=following)

    def plan_operation(self, order: Order, where: JobFilter) -> Plan:
        return operations.plan(self._database, order, where)

    def begin_operation(self, draft: OperationDraft, *, actor: str) -> Operation:
        return self._database.write(lambda step: begin(OperationShelf(step), draft, actor))

    def advance_operation(self, operation_id: str, *, limit: int = ORDERED_AT_ONCE) -> Advance:
        return operations.advance(self._database, operation_id, limit)

    def stop_operation(self, operation_id: str, *, actor: str) -> Operation:
        return self._database.write(lambda step: stop(OperationShelf(step), operation_id, actor))

    def operations(self) -> list[Operation]:
        return self._database.look(operations.every)

    def operation(self, operation_id: str) -> Operation | None:
        return self._database.look(lambda db: operations.find(db, operation_id))

    # -- looking -----------------------------------------------------------------------------

    def get(self, job_id: str) -> Job | None:
        return jobs.get(self._database, job_id)

    def position(self, job_id: str) -> int | None:
        return jobs.position(self._database, job_id)

    def graph(self, job_ids: Sequence[str]) -> Graph:
        return self._database.look(lambda db: linking.graph(db, job_ids))

    def search(
        self,
        where: JobFilter,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
    ) -> Page:
        return jobs.search(self._database, where, limit, cursor, without)

    def count(self, where: JobFilter, *, counted_max: int = COUNTED_MAX) -> Count:
        return self._database.look(lambda db: read.count(db, where, counted_max))

    def find_ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        return self._database.look(lambda db: read.find_ids(db, prefix, limit))

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        return jobs.changes(self._database, cursor, limit)

    def queues(self) -> list[str]:
        return self._database.look(gate.queues)

    # -- queues ------------------------------------------------------------------------------

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        return queues.change(
            self._database, queue, lambda book: queue_orders.create(book, queue, config, actor)
        )

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        return queues.change(
            self._database, queue, lambda book: queue_orders.update(book, queue, changes, actor)
        )

    def set_queue_state(self, queue: str, state: QueueState, *, actor: str) -> QueueInfo:
        return queues.change(
            self._database, queue, lambda book: queue_orders.set_state(book, queue, state, actor)
        )

    def purge_queue(
        self, queue: str, where: JobFilter, *, actor: str, limit: int = PURGE_AT_ONCE
    ) -> Purged:
        return queues.purge(self._database, queue, where, limit, actor)

    def delete_queue(self, queue: str, *, force: bool, actor: str) -> int:
        return queues.delete(self._database, queue, actor, force=force)

    def queue_info(self, queue: str) -> QueueInfo | None:
        return self._database.look(
            lambda db: next(iter(queues.infos(db, self._database.now(db), queue)), None)
        )

    def list_queues(self) -> list[QueueInfo]:
        return self._database.look(lambda db: queues.infos(db, self._database.now(db)))

    def key_info(self, queue: str, key: str) -> KeyInfo:
        return self._database.look(
            lambda db: queues.key_info(db, self._database.now(db), queue, key)
        )

    # -- schedules ---------------------------------------------------------------------------

    def set_schedule(self, draft: ScheduleDraft, *, actor: str) -> Schedule:
        draft.check()
        self._database.disk.refuse_when_low([draft.job])
        return self._on_shelf(lambda shelf: scheduling.set_schedule(shelf, draft, actor))

    def schedules(self) -> list[Schedule]:
        return self._database.look(schedules.every)

    def get_schedule(self, name: str) -> Schedule | None:
        return self._database.look(lambda db: schedules.find(db, name))

    def remove_schedule(self, name: str, *, actor: str) -> Schedule:
        return self._on_shelf(lambda shelf: scheduling.remove_schedule(shelf, name, actor))

    def pause_schedule(self, name: str, *, paused: bool, actor: str) -> Schedule:
        return self._on_shelf(lambda shelf: scheduling.pause_schedule(shelf, name, paused, actor))

    def run_schedule(self, name: str, *, job_id: str, actor: str) -> Job:
        answer = self._on_shelf(lambda shelf: schedules.run(shelf, name, job_id, actor))
        if isinstance(answer, QueueFullError):
            raise answer
        return answer

    def fire_schedules(self) -> Fired:
        return self._on_shelf(schedules.fire)

    def _on_shelf(self, operation: Callable[[Shelf], T]) -> T:
        return self._database.write(lambda step: operation(schedules.shelf(self._database, step)))

    # -- settings ----------------------------------------------------------------------------

    def settings(self) -> StoredSettings:
        return self._database.look(lambda db: settings.load(db).stored({}, stops(db)))

    # -- retention ---------------------------------------------------------------------------

    def prune(
        self,
        policy: RetentionPolicy | None = None,
        *,
        run: int | None = None,
        scope: Scope = DAILY,
        limit: int = BATCH_MAX,
        actor: str,
    ) -> PruneReport:
        return pruning.prune(self._database, policy, run, scope, limit, actor)

    def archived(self, job_id: str) -> ArchivedJob | None:
        return self._database.look(lambda db: archive.find(db, job_id))

    def search_archive(
        self,
        where: JobFilter,
        *,
        span: ArchiveSpan = EVERYTHING,
        slowest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ArchivePage:
        return self._database.look(
            lambda db: archive.search(db, where, span, limit, cursor, slowest_first=slowest_first)
        )

    # -- applications' transactions ----------------------------------------------------------

    def connect(self) -> ApplicationConnection:
        return transaction_verbs.connect(self._database)

    def lend(self, connection: OwnConnection) -> AbstractAsyncContextManager[None] | None:  # noqa: ARG002  # none is awaited
        return None

    def owns(self, connection: OwnConnection) -> bool:
        return transaction_verbs.owns(self._database, connection)

    def address(self) -> str | None:
        return transaction_verbs.address(self._database)

    def open_transaction(self, job_id: str, version: int) -> HeldTransaction:
        return transaction_verbs.open_transaction(self._database, job_id, version)

    # -- the store itself --------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._database.check_process()
        return self._database.wake.subscribe(listener)

    def check(self) -> list[str]:
        return self._database.look(inspection.check)

    def backup(self, path: str) -> None:
        with self._database.read() as db:
            inspection.backup(db, Path(path))

    def row_store(self) -> RowStore:
        return moving.Rows(self._database)

    def describe(self) -> Mapping[str, Any]:
        return self._database.look(
            lambda db: inspection.describe(db, self._database.files, self._database.durability)
        )

    def close(self) -> None:
        self._database.close()


def _raise(error: LeaseLostError | None) -> None:
    if error is not None:
        raise error
