"""The channel between one process and the store: a store to its caller, and where faults strike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.contract.local_store import local_part
from leasehold.core.contract.transactions import Connection, JobTransaction, OwnConnection
from leasehold.core.model.archive import EVERYTHING, ArchivedJob, ArchivePage, ArchiveSpan
from leasehold.core.model.budget import PURGE_AT_ONCE
from leasehold.core.model.changes import Changes
from leasehold.core.model.failure import Failure
from leasehold.core.model.graph import Graph
from leasehold.core.model.job import Attempt, Draft, HistoryEvent, Job
from leasehold.core.model.joblog import JobLog, LogLine
from leasehold.core.model.key_limits import KeyInfo
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
from leasehold.core.model.pages import AuditPage, HistoryPage, LogPage
from leasehold.core.model.pins import Pin, PinKind
from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState
from leasehold.core.model.records import (
    AuditRecord,
    Listener,
    Purged,
    Stats,
    Submitted,
    WorkerInfo,
    WorkerLife,
    WorkerTotals,
)
from leasehold.core.model.retention import (
    BATCH_MAX,
    DAILY,
    CleanUp,
    PruneReport,
    RetentionPolicy,
    Scope,
)
from leasehold.core.model.schedule import Fired, Schedule, ScheduleDraft
from leasehold.core.model.search import COUNTED_MAX, Count, HeavyField, JobFilter, Page
from leasehold.core.model.settings import SettingValue, StoredSettings
from leasehold.core.model.status import Event
from leasehold.core.model.tokens import Token, TokenDraft
from leasehold.core.rules.filter_orders import ORDERED_AT_ONCE, Order, Ordered
from leasehold.core.rules.lifetime import QueueLifetime
from leasehold.core.rules.metrics import WINDOW_SECONDS, DayPoint, MinutePoint, QueueMetrics
from leasehold.core.rules.operations import Advance, Operation, OperationDraft, Plan
from leasehold.core.rules.timeline import ResolutionName, Timeline
from leasehold.errors import (
    LeaseholdError,
    LeaseLostError,
    StoreUnavailableError,
    UnsupportedError,
)
from leasehold.testing.simulator.calllog import Call, Verdict, unwrap
from leasehold.testing.simulator.faults import IN_CALLS, Fault
from leasehold.testing.simulator.world import Process, ProcessCrashedError, World

DELAY_SECONDS_MAX = 20.0
LATE_SECONDS_MAX = 90.0
_CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)


class Channel:
    """The store as one incarnation of a process reaches it."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._incarnation = process.incarnation

    # -- a call and what may become of it ----------------------------------------------------

    def _call(self, method: str, **arguments: Any) -> Any:
        world = self._world
        world.check_alive(self._process, self._incarnation)
        call = world.log.invoke(self._process.worker_name, method, arguments, world.now)
        fault = self._fault()
        try:
            self._before(fault)
            answer = world.apply(call).answer
            self._after(fault, call)
        except StoreUnavailableError:
            call.verdict = Verdict.UNKNOWN
            call.returned_at = world.now
            raise
        call.returned_at = world.now
        call.answer = answer
        call.verdict = Verdict.FAIL if isinstance(answer, LeaseholdError) else Verdict.OK
        return unwrap(answer)

    def _fault(self) -> Fault | None:
        """At most one fault per call; all are drawn, so that leaving one out moves no other."""
        drawn = {fault: self._world.draw(fault, self._process.name) for fault in IN_CALLS}
        for fault, strike in drawn.items():
            spared = fault in _CRASHES and not self._process.may_crash
            if strike is not None and not spared:
                self._world.note(fault, strike)
                return fault
        return None

    def _before(self, fault: Fault | None) -> None:
        if fault is Fault.CRASH_BEFORE:
            self._crash()
        elif fault is Fault.REQUEST_LOST:
            self._pass_time(self._world.random.uniform(0.0, 2.0))
            raise StoreUnavailableError("the request was lost")
        elif fault is Fault.DELAYED:
            self._pass_time(self._world.random.uniform(0.0, DELAY_SECONDS_MAX))

    def _after(self, fault: Fault | None, call: Call) -> None:
        world = self._world
        if fault is Fault.CRASH_AFTER:
            self._crash()
        elif fault is Fault.REPLY_LOST:
            self._pass_time(world.random.uniform(0.0, 2.0))
            raise StoreUnavailableError("the reply was lost")
        elif fault is Fault.DUPLICATED:
            world.apply(call)
        elif fault is Fault.DUPLICATED_LATE:
            late = world.now + world.random.uniform(0.0, LATE_SECONDS_MAX)
            world.at(late, lambda: None if world.quiet else _apply(world, call))
        elif fault is Fault.REPLY_DELAYED:
            self._pass_time(world.random.uniform(0.0, DELAY_SECONDS_MAX))
        elif fault is Fault.PAUSED:
            world.pause(self._process)
            self._pass_time(0.0)

    def _crash(self) -> None:
        self._world.crash(self._process)
        raise ProcessCrashedError

    def _pass_time(self, seconds: float) -> None:
        """Let the world go on; this process may be dead when it comes back."""
        self._world.run_until(self._world.now + seconds)
        self._world.wait_while_paused(self._process)
        self._world.check_alive(self._process, self._incarnation)

    # -- the contract ------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return self._call("submit", drafts=list(drafts), partial=partial)  # type: ignore[no-any-return]

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        return self._call("exchange", settlements=list(settlements), request=request)  # type: ignore[no-any-return]

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        return self._call("renew", worker=worker, renewals=list(renewals))  # type: ignore[no-any-return]

    def report_progress(self, job_id: str, version: int, progress: bytes) -> None:
        self._call("report_progress", job_id=job_id, version=version, progress=progress)

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        self._call("append_log", job_id=job_id, version=version, lines=list(lines), dropped=dropped)

    def tell(
        self, job_id: str, event: Event, *, worker: str | None, version: int, message: str
    ) -> None:
        self._call(
            "tell", job_id=job_id, event=event, worker=worker, version=version, message=message
        )

    def recover(self) -> SweepReport:
        return self._call("recover")  # type: ignore[no-any-return]

    def recover_one(
        self,
        job_id: str,
        version: int,
        *,
        reset_attempts: bool,
        reason: str,
        actor: str | None = None,
    ) -> Settled:
        return self._call(  # type: ignore[no-any-return]
            "recover_one",
            job_id=job_id,
            version=version,
            reset_attempts=reset_attempts,
            reason=reason,
            actor=actor,
        )

    def stuck(
        self, silent_seconds: float | None, *, running_seconds: float | None = None
    ) -> list[StuckJob]:
        return self._call(  # type: ignore[no-any-return]
            "stuck", silent_seconds=silent_seconds, running_seconds=running_seconds
        )

    def promote(self) -> int:
        return self._call("promote")  # type: ignore[no-any-return]

    def cancel(
        self, job_ids: Sequence[str], *, reason: str, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._call("cancel", job_ids=list(job_ids), reason=reason, actor=actor)  # type: ignore[no-any-return]

    def replay(
        self, job_ids: Sequence[str], *, reset_attempts: bool, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._call(  # type: ignore[no-any-return]
            "replay", job_ids=list(job_ids), reset_attempts=reset_attempts, actor=actor
        )

    def discard(self, job_ids: Sequence[str], *, actor: str) -> list[Job | LeaseholdError]:
        return self._call("discard", job_ids=list(job_ids), actor=actor)  # type: ignore[no-any-return]

    def reprioritize(self, job_id: str, priority: int, *, actor: str) -> Job:
        return self._call("reprioritize", job_id=job_id, priority=priority, actor=actor)  # type: ignore[no-any-return]

    def get(self, job_id: str) -> Job | None:
        return self._call("get", job_id=job_id)  # type: ignore[no-any-return]

    def stats(self, queue: str | None = None) -> Stats:
        return self._call("stats", queue=queue)  # type: ignore[no-any-return]

    def now(self) -> datetime:
        return self._call("now")  # type: ignore[no-any-return]

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        return self._call("create_queue", queue=queue, config=config, actor=actor)  # type: ignore[no-any-return]

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        return self._call("update_queue", queue=queue, changes=changes, actor=actor)  # type: ignore[no-any-return]

    def set_queue_state(self, queue: str, state: QueueState, *, actor: str) -> QueueInfo:
        return self._call("set_queue_state", queue=queue, state=state, actor=actor)  # type: ignore[no-any-return]

    def purge_queue(
        self, queue: str, where: JobFilter, *, actor: str, limit: int = PURGE_AT_ONCE
    ) -> Purged:
        return self._call("purge_queue", queue=queue, where=where, actor=actor, limit=limit)  # type: ignore[no-any-return]

    def delete_queue(self, queue: str, *, force: bool, actor: str) -> int:
        return self._call("delete_queue", queue=queue, force=force, actor=actor)  # type: ignore[no-any-return]

    # -- what simulated processes read without faults, or never ask for ----------------------

    def position(self, job_id: str) -> int | None:
        return self._world.store.position(job_id)

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        return self._world.store.metrics(queue, window_seconds=window_seconds)

    def series(self, queue: str | None = None, *, minutes: int = 60) -> list[MinutePoint]:
        return self._world.store.series(queue, minutes=minutes)

    def daily(self, queue: str | None = None, *, days: int = 30) -> list[DayPoint]:
        return self._world.store.daily(queue, days=days)

    def timeline(
        self,
        metrics: Sequence[str],
        queue: str | None = None,
        *,
        since: datetime,
        until: datetime | None = None,
        resolution: ResolutionName = "minute",
    ) -> Timeline:
        return self._world.store.timeline(
            metrics, queue, since=since, until=until, resolution=resolution
        )

    def failures(
        self, queue: str | None = None, *, task: str | None = None, limit: int = 20
    ) -> list[Failure]:
        return self._world.store.failures(queue, task=task, limit=limit)

    def worker_totals(self, *, limit: int = 100) -> list[WorkerTotals]:
        return self._world.store.worker_totals(limit=limit)

    def lifetimes(self) -> list[QueueLifetime]:
        return self._world.store.lifetimes()

    def graph(self, job_ids: Sequence[str]) -> Graph:
        return self._world.store.graph(job_ids)

    def search(
        self,
        where: JobFilter,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
    ) -> Page:
        return self._world.store.search(where, limit=limit, cursor=cursor, without=without)

    def count(self, where: JobFilter, *, counted_max: int = COUNTED_MAX) -> Count:
        return self._world.store.count(where, counted_max=counted_max)

    def find_ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        return self._world.store.find_ids(prefix, limit=limit)

    def attempts(self, job_id: str) -> list[Attempt]:
        return self._world.store.attempts(job_id)

    def history(self, job_id: str) -> list[HistoryEvent]:
        return self._world.store.history(job_id)

    def log(self, job_id: str) -> JobLog:
        return self._world.store.log(job_id)

    def history_page(
        self, job_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        return self._world.store.history_page(job_id, limit=limit, cursor=cursor)

    def log_page(self, job_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        return self._world.store.log_page(job_id, limit=limit, cursor=cursor)

    def audit_page(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> AuditPage:
        return self._world.store.audit_page(since=since, before=before, limit=limit, cursor=cursor)

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        return self._world.store.changes(cursor, limit=limit)

    def order(
        self,
        order: Order,
        where: JobFilter,
        *,
        actor: str,
        limit: int = ORDERED_AT_ONCE,
        cursor: str | None = None,
    ) -> Ordered:
        return self._world.store.order(order, where, actor=actor, limit=limit, cursor=cursor)

    def plan_operation(self, order: Order, where: JobFilter) -> Plan:
        return self._world.store.plan_operation(order, where)

    def begin_operation(self, draft: OperationDraft, *, actor: str) -> Operation:
        return self._world.store.begin_operation(draft, actor=actor)

    def advance_operation(self, operation_id: str, *, limit: int = ORDERED_AT_ONCE) -> Advance:
        return self._world.store.advance_operation(operation_id, limit=limit)

    def stop_operation(self, operation_id: str, *, actor: str) -> Operation:
        return self._world.store.stop_operation(operation_id, actor=actor)

    def operations(self) -> list[Operation]:
        return self._world.store.operations()

    def operation(self, operation_id: str) -> Operation | None:
        return self._world.store.operation(operation_id)

    def submit_once(
        self, request_id: str, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return self._world.store.submit_once(request_id, drafts, partial=partial)

    def exchange_once(
        self,
        request_id: str,
        settlements: Sequence[Settlement] = (),
        request: LeaseRequest | None = None,
    ) -> Exchange:
        return self._world.store.exchange_once(request_id, settlements, request)

    def queue_info(self, queue: str) -> QueueInfo | None:
        return self._world.store.queue_info(queue)

    def list_queues(self) -> list[QueueInfo]:
        return self._world.store.list_queues()

    def settings(self) -> StoredSettings:
        return self._world.store.settings()

    def set_setting(self, name: str, value: SettingValue, *, actor: str) -> StoredSettings:
        return self._world.store.set_setting(name, value, actor=actor)

    def unset_setting(self, name: str, *, actor: str) -> StoredSettings:
        return self._world.store.unset_setting(name, actor=actor)

    def pins(self, kind: PinKind) -> list[Pin]:
        return self._world.store.pins(kind)

    def pin(self, kind: PinKind, name: str, text: str, *, actor: str) -> Pin:
        return self._world.store.pin(kind, name, text, actor=actor)

    def unpin(self, kind: PinKind, name: str, *, actor: str) -> Pin | None:
        return self._world.store.unpin(kind, name, actor=actor)

    def create_token(self, draft: TokenDraft, digest: str, *, actor: str) -> Token:
        return self._world.store.create_token(draft, digest, actor=actor)

    def tokens(self) -> list[Token]:
        return self._world.store.tokens()

    def find_token(self, digest: str) -> Token | None:
        return self._world.store.find_token(digest)

    def revoke_token(self, name: str, *, actor: str) -> Token:
        return self._world.store.revoke_token(name, actor=actor)

    def signing_key(self) -> bytes:
        return self._world.store.signing_key()

    def key_info(self, queue: str, key: str) -> KeyInfo:
        return self._world.store.key_info(queue, key)

    def queues(self) -> list[str]:
        return self._world.store.queues()

    def audit_log(self, limit: int = 100) -> list[AuditRecord]:
        return self._world.store.audit_log(limit)

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        return self._world.store.cleanups(limit)

    def archived(self, job_id: str) -> ArchivedJob | None:
        return self._world.store.archived(job_id)

    def search_archive(
        self,
        where: JobFilter,
        *,
        span: ArchiveSpan = EVERYTHING,
        slowest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ArchivePage:
        return self._world.store.search_archive(
            where, span=span, slowest_first=slowest_first, limit=limit, cursor=cursor
        )

    def prune(
        self,
        policy: RetentionPolicy | None = None,
        *,
        run: int | None = None,
        scope: Scope = DAILY,
        limit: int = BATCH_MAX,
        actor: str,
    ) -> PruneReport:
        return self._world.store.prune(policy, run=run, scope=scope, limit=limit, actor=actor)

    def workers(self) -> list[WorkerInfo]:
        return self._world.store.workers()

    def set_schedule(self, draft: ScheduleDraft, *, actor: str) -> Schedule:
        return self._world.store.set_schedule(draft, actor=actor)

    def schedules(self) -> list[Schedule]:
        return self._world.store.schedules()

    def get_schedule(self, name: str) -> Schedule | None:
        return self._world.store.get_schedule(name)

    def remove_schedule(self, name: str, *, actor: str) -> Schedule:
        return self._world.store.remove_schedule(name, actor=actor)

    def pause_schedule(self, name: str, *, paused: bool, actor: str) -> Schedule:
        return self._world.store.pause_schedule(name, paused=paused, actor=actor)

    def run_schedule(self, name: str, *, job_id: str, actor: str) -> Job:
        return self._world.store.run_schedule(name, job_id=job_id, actor=actor)

    def fire_schedules(self) -> Fired:
        return self._world.store.fire_schedules()

    def register_worker(
        self,
        info: WorkerInfo,
        *,
        is_remote: bool = False,  # noqa: ARG002  # nobody is registered here
        is_entered: bool = False,  # noqa: ARG002  # as above
    ) -> WorkerLife:
        raise UnsupportedError(
            f"{info.id}: proof of death needs real processes, which the simulator does not have"
        )

    def connect(self) -> Connection:
        raise UnsupportedError("the simulator has no database for tables of an application's own")

    def lend(self, connection: OwnConnection) -> AbstractAsyncContextManager[None] | None:
        return local_part(self._world.store, "a connection").lend(connection)

    def owns(self, connection: OwnConnection) -> bool:
        return local_part(self._world.store, "a connection").owns(connection)

    def submit_within(
        self, connection: OwnConnection, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return local_part(self._world.store, "a transaction").submit_within(
            connection, drafts, partial=partial
        )

    def open_transaction(self, job_id: str, version: int) -> JobTransaction:
        return local_part(self._world.store, "a transaction").open_transaction(job_id, version)

    def address(self) -> str | None:
        return None

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        raise UnsupportedError(f"{listener!r}: the simulator hands out hints itself")

    def repair_clock(self, *, actor: str) -> ClockRepair:
        return local_part(self._world.store, "a repair").repair_clock(actor=actor)

    def check(self) -> list[str]:
        return self._world.store.check()

    def backup(self, path: str) -> None:
        local_part(self._world.store, "a backup").backup(path)

    def describe(self) -> Mapping[str, Any]:
        return self._world.store.describe()

    def close(self) -> None:
        """The store outlives every process."""


def _apply(world: World, call: Call) -> None:
    world.apply(call)
