"""The PostgreSQL store: the contract's verbs, each handed to the module that knows it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from typing import Any, TypeVar, cast

import msgspec

from leasehold.core.contract.accelerator import Accelerator
from leasehold.core.contract.transactions import Connection, OwnConnection
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
from leasehold.stores.postgres.clauses import WithoutLocalVerbs
from leasehold.stores.postgres.keeping import archive, moving, pruning
from leasehold.stores.postgres.leasing import held, recover, registry, renew, sweep
from leasehold.stores.postgres.leasing.exchange import exchange, exchange_once
from leasehold.stores.postgres.leasing.held import HeldTransaction
from leasehold.stores.postgres.leasing.state import Histories
from leasehold.stores.postgres.reading import inspection, jobs, read
from leasehold.stores.postgres.reading.looking import LookingDatabase
from leasehold.stores.postgres.reading.metrics import Look
from leasehold.stores.postgres.reading.tallies import Failures
from leasehold.stores.postgres.rules import (
    operations,
    queue_changes,
    queues,
    schedules,
    settings,
)
from leasehold.stores.postgres.rules.operations import Desk, OperationShelf
from leasehold.stores.postgres.rules.schedules import Shelf
from leasehold.stores.postgres.server.life import SessionLife
from leasehold.stores.postgres.submitting import ended_dependents, entering, graph, lanes
from leasehold.stores.postgres.writing import application, own_connections
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.postgres.writing.turn import who_writes
from leasehold.stores.tables.query import PlainReader
from leasehold.stores.tables.store import TableStore
from leasehold.stores.tables.tokens import Tokens

T = TypeVar("T")


class PostgresStore(WithoutLocalVerbs, TableStore):
    """Jobs in one schema of a PostgreSQL database, shared by any number of machines."""

    _database: Database
    _reader = PlainReader
    _tokens = Tokens
    _failures = Failures
    _metrics = Look

    def __init__(
        self, url: str, *, env: Env = SYSTEM, accelerator: Accelerator | None = None
    ) -> None:
        self._database = Database(url, env=env, accelerator=accelerator)
        replica = self._database.address.replica
        self._looking = None if replica is None else LookingDatabase(self._database, replica)

    def __repr__(self) -> str:
        return f"PostgresStore({self._database.address.shown!r})"

    def __str__(self) -> str:
        return self._database.address.shown

    # -- producers ---------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return entering.submit(self._database, drafts, partial=partial)

    def submit_once(
        self, request_id: str, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return entering.submit_once(self._database, request_id, drafts, partial=partial)

    def connect(self) -> Connection:
        return application.connect(self._database)

    def address(self) -> str:
        url, accelerator = self._database.url, self._database.accelerator
        if accelerator is None:
            return url
        return f"{url}{'&' if '?' in url else '?'}{accelerator.parameter}"

    def lend(self, connection: OwnConnection) -> AbstractAsyncContextManager[None] | None:
        return own_connections.lend(connection)

    def owns(self, connection: OwnConnection) -> bool:
        return application.owns(self._database, connection)

    def submit_within(
        self, connection: OwnConnection, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return entering.submit_within(self._database, connection, drafts, partial=partial)

    def open_transaction(self, job_id: str, version: int) -> HeldTransaction:
        return held.open_transaction(self._database, job_id, version)

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
        return self._database.write(
            lambda step: renew.renew(step, worker, renewals), side_by_side=_always
        )

    def report_progress(self, job_id: str, version: int, progress: bytes) -> None:
        check_progress(job_id, progress)
        _raise(
            self._database.write(
                lambda step: renew.report_progress(step, job_id, version, progress),
                side_by_side=_always,
            )
        )

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        _raise(
            self._database.write(
                lambda step: renew.append_log(step, job_id, version, lines, dropped),
                side_by_side=_always,
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
        return sweep.sweep(self._database)

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
        return sweep.promote(self._database)

    # -- workers -----------------------------------------------------------------------------

    def register_worker(
        self, info: WorkerInfo, *, is_remote: bool = False, is_entered: bool = False
    ) -> SessionLife:
        if is_remote:
            return registry.register_remote(self._database, info, is_entered=is_entered)
        return registry.register(self._database, info)

    def dead_workers(self) -> set[str]:
        """Workers proved dead whose jobs are not taken back yet."""
        return self._database.look(self._lost_workers)

    def _lost_workers(self, db: Any) -> set[str]:
        return self._database.deaths.workers(db)

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
        with self._database.read() as db:
            return operations.every(db)

    def operation(self, operation_id: str) -> Operation | None:
        with self._database.read() as db:
            return operations.find(db, operation_id)

    # -- looking -----------------------------------------------------------------------------

    def get(self, job_id: str) -> Job | None:
        return jobs.get(self._database, job_id)

    def position(self, job_id: str) -> int | None:
        return jobs.position(self._database, job_id)

    def graph(self, job_ids: Sequence[str]) -> Graph:
        with self._database.read() as db:
            return graph.graph(db, job_ids)

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
        with self._database.read() as db:
            return read.count(db, where, counted_max)

    def find_ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        with self._database.read() as db:
            return read.find_ids(db, prefix, limit)

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        return jobs.changes(self._database, cursor, limit)

    def queues(self) -> list[str]:
        with self._database.read() as db:
            return lanes.queues(db)

    # -- queues ------------------------------------------------------------------------------

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        return queue_changes.change(
            self._database, queue, lambda book: queue_orders.create(book, queue, config, actor)
        )

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        return queue_changes.change(
            self._database, queue, lambda book: queue_orders.update(book, queue, changes, actor)
        )

    def set_queue_state(self, queue: str, state: QueueState, *, actor: str) -> QueueInfo:
        return queue_changes.change(
            self._database, queue, lambda book: queue_orders.set_state(book, queue, state, actor)
        )

    def purge_queue(
        self, queue: str, where: JobFilter, *, actor: str, limit: int = PURGE_AT_ONCE
    ) -> Purged:
        return queue_changes.purge(self._database, queue, where, limit, actor)

    def delete_queue(self, queue: str, *, force: bool, actor: str) -> int:
        return queue_changes.delete(self._database, queue, actor, force=force)

    def queue_info(self, queue: str) -> QueueInfo | None:
        with self._database.read() as db:
            return next(iter(queues.infos(db, self._database.now(db), queue)), None)

    def list_queues(self) -> list[QueueInfo]:
        with self._database.read() as db:
            return queues.infos(db, self._database.now(db))

    def key_info(self, queue: str, key: str) -> KeyInfo:
        with self._database.read() as db:
            return queues.key_info(db, self._database.now(db), queue, key)

    # -- schedules ---------------------------------------------------------------------------

    def set_schedule(self, draft: ScheduleDraft, *, actor: str) -> Schedule:
        draft.check()
        return self._on_shelf(lambda shelf: scheduling.set_schedule(shelf, draft, actor))

    def schedules(self) -> list[Schedule]:
        with self._database.read() as db:
            return schedules.every(db)

    def get_schedule(self, name: str) -> Schedule | None:
        with self._database.read() as db:
            return schedules.find(db, name)

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
        with self._database.read() as db:
            return settings.load(db).stored({})

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
        with self._database.read() as db:
            return archive.find(db, job_id)

    def search_archive(
        self,
        where: JobFilter,
        *,
        span: ArchiveSpan = EVERYTHING,
        slowest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ArchivePage:
        with self._database.read() as db:
            return archive.search(db, where, span, limit, cursor, slowest_first=slowest_first)

    # -- the store itself --------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._database.check_open()
        return self._database.session.subscribe(listener)

    def check(self) -> list[str]:
        with self._database.read() as db:
            return inspection.check(db)

    def row_store(self) -> RowStore:
        return moving.Rows(self._database)

    def describe(self) -> Mapping[str, Any]:
        accelerator = self._database.accelerator
        with self._database.read() as db:
            described = inspection.describe(db, self._database.address)
            described["writing"] = who_writes(self._database.turn.holders(db))
        return described if accelerator is None else {**described, **accelerator.describe()}

    def looking(self) -> PostgresStore:
        if self._looking is None:
            return self
        # The same verbs, over a database that reads elsewhere.
        store = copy(self)
        store._database = cast("Database", self._looking)  # noqa: SLF001  # its own copy
        return store

    def close(self) -> None:
        if self._looking is not None:
            self._looking.close()
        self._database.close()


def _raise(error: LeaseLostError | None) -> None:
    if error is not None:
        raise error


def _always(_: Step) -> bool:
    """A holder writes only to the rows of its own leases."""
    return True
