"""The memory store: the contract's methods, each one verb under one lock.

A verb runs inside the shield against interrupts: Ctrl-C finds it done, or not begun.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from itertools import islice
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import msgspec

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.contract.transactions import Connection, JobTransaction, OwnConnection
from leasehold.core.model.archive import EVERYTHING, ArchivedJob, ArchivePage, ArchiveSpan
from leasehold.core.model.budget import BURIED_AT_ONCE, PURGE_AT_ONCE, RECOVERED_AT_ONCE, batched
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
from leasehold.core.model.lives import remote_life
from leasehold.core.model.pages import AuditPage, HistoryPage, LogPage
from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState
from leasehold.core.model.records import (
    AuditRecord,
    Listener,
    Purged,
    Stats,
    Submitted,
    WorkerInfo,
    WorkerTotals,
)
from leasehold.core.model.refusals import check_page
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
from leasehold.core.model.stored import moment
from leasehold.core.model.tokens import Token, TokenDraft
from leasehold.core.rules import failures, metrics, people, scheduling
from leasehold.core.rules.dependencies import SortedOut
from leasehold.core.rules.filter_orders import (
    ORDERED_AT_ONCE,
    Order,
    Ordered,
    carry_out,
    is_oldest_first,
    narrowed,
)
from leasehold.core.rules.lifetime import QueueLifetime, lifetimes
from leasehold.core.rules.metrics import WINDOW_SECONDS, DayPoint, MinutePoint, QueueMetrics
from leasehold.core.rules.operations import (
    Advance,
    Found,
    Operation,
    OperationDraft,
    Plan,
    known_as,
    to_look_for,
)
from leasehold.core.rules.recovery import recover_one
from leasehold.core.rules.replies import check_request_id, digest_of_submit
from leasehold.core.rules.settings_in_force import setting_to_set, setting_to_unset
from leasehold.core.rules.timeline import ResolutionName, Timeline, timeline
from leasehold.env import SYSTEM, Env, from_micros
from leasehold.errors import LeaseholdError, LeaseLostError, StoreClosedError, UnsupportedError
from leasehold.interrupts import SHIELD, Interrupted
from leasehold.stores.memory import (
    dependents,
    feed,
    holding,
    inspection,
    leasing,
    operations,
    pruning,
    queues,
    reading,
    recovery,
    registry,
    replies,
    settings,
    submission,
    tokens,
)
from leasehold.stores.memory.admin import Desk
from leasehold.stores.memory.heaps import HeapFigures
from leasehold.stores.memory.metrics import Look
from leasehold.stores.memory.record import snapshot
from leasehold.stores.memory.schedules import Shelf, fire_due
from leasehold.stores.memory.state import News, State

CAPACITY_DEFAULT: Final = 1_000_000

P = ParamSpec("P")
T = TypeVar("T")

_NO_NEWS: Final[tuple[None, list[Listener]]] = (None, [])

logger = logging.getLogger("leasehold.stores.memory")


class MemoryStore:
    """Jobs in this process's memory: fast, ordered, and gone when the process ends.

    It holds at most `capacity` jobs that have not ended, and as many that have: beyond, a submit
    raises QueueFullError, and the job that ended first is forgotten before its `retention` is over.
    Dead letters are not forgotten to make room: when they alone are that many, a submit raises
    QueueFullError. It forgets by itself, whether somebody prunes or not.

    >>> store = MemoryStore()
    >>> store.submit([Draft(id="one", task="greet")])
    [Submitted(id='one', status=<Status.PENDING: 'pending'>, is_duplicate=False)]
    >>> [lease.job_id for lease in store.exchange(request=LeaseRequest(worker="me")).leases]
    ['one']
    """

    def __init__(
        self,
        env: Env = SYSTEM,
        capacity: int | None = CAPACITY_DEFAULT,
        retention: RetentionPolicy | None = None,
    ) -> None:
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity must be at least 1, or None for no limit, not {capacity}")
        self._state = State(env, capacity, retention)
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._closed = False

    def __repr__(self) -> str:
        return "MemoryStore()"

    def __str__(self) -> str:
        return "memory://"

    # -- producers ---------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        if not partial:
            for draft in drafts:
                draft.check()
            return list(self._run(submission.submit, drafts))
        sorted_out = SortedOut.of(drafts)
        return sorted_out.woven(
            self._run(submission.submit, sorted_out.good, sorted_out.refused, partial=True)
        )

    # -- the application's own transactions --------------------------------------------------

    def connect(self) -> Connection:
        raise self._no_transactions()

    def lend(self, connection: OwnConnection) -> AbstractAsyncContextManager[None] | None:  # noqa: ARG002 - none can be.
        return None

    def owns(self, connection: OwnConnection) -> bool:  # noqa: ARG002 - none can be.
        return False

    def submit_once(
        self, request_id: str, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        check_request_id(request_id)
        if not partial:
            for draft in drafts:
                draft.check()
        sorted_out = SortedOut.of(drafts)

        def submit(state: State) -> list[Submitted | LeaseholdError]:
            return list(
                submission.submit(state, sorted_out.good, sorted_out.refused, partial=partial)
            )

        digest = digest_of_submit(drafts, partial=partial)
        return sorted_out.woven(self._run(replies.submit_once, request_id, digest, submit))

    def submit_within(
        self,
        connection: OwnConnection,  # noqa: ARG002 - none would do.
        drafts: Sequence[Draft],  # noqa: ARG002
        *,
        partial: bool = False,  # noqa: ARG002
    ) -> list[Submitted | LeaseholdError]:
        raise self._no_transactions()

    def open_transaction(self, job_id: str, version: int) -> JobTransaction:  # noqa: ARG002
        raise self._no_transactions()

    def address(self) -> str | None:
        return None

    def _no_transactions(self) -> UnsupportedError:
        return UnsupportedError(
            "a memory store has no database for tables of your own, so there is no transaction to "
            "share: use a SQLite file"
        )

    # -- holders -----------------------------------------------------------------------------

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

    # -- recovery ----------------------------------------------------------------------------

    def recover(self) -> SweepReport:
        report = SweepReport()
        for jobs in batched(self._look(recovery.expired), RECOVERED_AT_ONCE):
            report = report.plus(self._run(recovery.recover, jobs))
        self._run(recovery.cancel_late_jobs)
        self._run(registry.forget_consumers)
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

    # -- workers -----------------------------------------------------------------------------

    def register_worker(
        self,
        info: WorkerInfo,
        *,
        is_remote: bool = False,
        is_entered: bool = False,
    ) -> _Registration:
        # Nobody's death is proved here: a remote one is only told apart in another way.
        number = remote_life(info).number if is_remote else None
        if number is None or not is_entered:
            number = self._run(registry.enter, info, number)
        return _Registration(lambda: self._leave(info.id, number))

    def workers(self) -> list[WorkerInfo]:
        return self._look(registry.workers)

    # -- people ------------------------------------------------------------------------------

    def cancel(
        self, job_ids: Sequence[str], *, reason: str, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._run(
            lambda state: people.cancel(Desk(state), job_ids, reason=reason, actor=actor)
        )

    def replay(
        self, job_ids: Sequence[str], *, reset_attempts: bool, actor: str
    ) -> list[Job | LeaseholdError]:
        return self._run(
            lambda state: people.replay(
                Desk(state), job_ids, reset_attempts=reset_attempts, actor=actor
            )
        )

    def discard(self, job_ids: Sequence[str], *, actor: str) -> list[Job | LeaseholdError]:
        return self._run(lambda state: people.discard(Desk(state), job_ids, actor=actor))

    def reprioritize(self, job_id: str, priority: int, *, actor: str) -> Job:
        return self._run(
            lambda state: people.reprioritize(Desk(state), job_id, priority, actor=actor)
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
        oldest_first = is_oldest_first(order)
        job_ids, following = self._look(
            reading.find_fitting, able, limit, cursor, oldest_first=oldest_first
        )
        if not job_ids:
            return Ordered()
        done = self._run(lambda state: carry_out(Desk(state), order, able, job_ids, actor))
        return msgspec.structs.replace(done, next_cursor=following)

    def plan_operation(self, order: Order, where: JobFilter) -> Plan:
        return self._look(operations.plan, order, where)

    def begin_operation(self, draft: OperationDraft, *, actor: str) -> Operation:
        return self._run(operations.begin, draft, actor)

    def advance_operation(self, operation_id: str, *, limit: int = ORDERED_AT_ONCE) -> Advance:
        asked = known_as(operation_id, self.operation(operation_id))
        look = to_look_for(asked, limit)
        found = None
        if look is not None:
            found = Found(*self._look(reading.find_fitting, *look[:-1], oldest_first=look[-1]))
        return self._run(operations.advance, asked, found)

    def stop_operation(self, operation_id: str, *, actor: str) -> Operation:
        return self._run(operations.stop, operation_id, actor)

    def operations(self) -> list[Operation]:
        return self._look(operations.every)

    def operation(self, operation_id: str) -> Operation | None:
        return self._look(operations.find, operation_id)

    def get(self, job_id: str) -> Job | None:
        return self._look(reading.get, job_id)

    def position(self, job_id: str) -> int | None:
        return self._look(reading.position, job_id)

    def graph(self, job_ids: Sequence[str]) -> Graph:
        return self._look(dependents.graph, job_ids)

    def search(
        self,
        where: JobFilter,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
    ) -> Page:
        return self._look(reading.search, where, limit, cursor, without)

    def count(self, where: JobFilter, *, counted_max: int = COUNTED_MAX) -> Count:
        return self._look(reading.count, where, counted_max)

    def find_ids(self, prefix: str, *, limit: int = 10) -> list[str]:
        return self._look(reading.find_ids, prefix, limit)

    def attempts(self, job_id: str) -> list[Attempt]:
        return self._look(reading.attempts, job_id)

    def history(self, job_id: str) -> list[HistoryEvent]:
        return self._look(reading.history, job_id)

    def log(self, job_id: str) -> JobLog:
        return self._look(reading.log, job_id)

    def history_page(
        self, job_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        return self._look(reading.page_of_history, job_id, limit, cursor)

    def log_page(self, job_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        return self._look(reading.page_of_log, job_id, limit, cursor)

    def audit_page(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> AuditPage:
        return self._look(reading.page_of_audit, since, before, limit, cursor)

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        return self._look(feed.changes, cursor, limit)

    def stats(self, queue: str | None = None) -> Stats:
        return self._look(State.stats, queue)

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        return self._look(lambda state: metrics.metrics(Look(state), queue, window_seconds))

    def series(self, queue: str | None = None, *, minutes: int = 60) -> list[MinutePoint]:
        return self._look(lambda state: metrics.series(Look(state), queue, minutes))

    def daily(self, queue: str | None = None, *, days: int = 30) -> list[DayPoint]:
        return self._look(lambda state: metrics.daily(Look(state), queue, days))

    def timeline(
        self,
        metrics: Sequence[str],
        queue: str | None = None,
        *,
        since: datetime,
        until: datetime | None = None,
        resolution: ResolutionName = "minute",
    ) -> Timeline:
        return self._look(
            lambda state: timeline(
                Look(state), metrics, queue, since=since, until=until, resolution=resolution
            )
        )

    def failures(
        self, queue: str | None = None, *, task: str | None = None, limit: int = 20
    ) -> list[Failure]:
        check_page(limit)
        return self._look(
            lambda state: failures.in_order(state.failures.by_fingerprint.values(), queue, task)[
                :limit
            ]
        )

    def worker_totals(self, *, limit: int = 100) -> list[WorkerTotals]:
        check_page(limit)
        return self._look(lambda state: metrics.in_order(state.worked.totals())[:limit])

    def lifetimes(self) -> list[QueueLifetime]:
        return self._look(lambda state: lifetimes(Look(state)))

    def queues(self) -> list[str]:
        return self._look(lambda state: sorted(state.queues))

    def audit_log(self, limit: int = 100) -> list[AuditRecord]:
        return self._look(
            lambda state: [record for _, record in islice(state.audits(), max(0, limit))]
        )

    # -- schedules ---------------------------------------------------------------------------

    def set_schedule(self, draft: ScheduleDraft, *, actor: str) -> Schedule:
        draft.check()
        return self._run(lambda state: scheduling.set_schedule(Shelf(state), draft, actor))

    def schedules(self) -> list[Schedule]:
        return self._look(
            lambda state: [known.detached() for _, known in sorted(state.schedules.items())]
        )

    def get_schedule(self, name: str) -> Schedule | None:
        return self._look(lambda state: Shelf(state).find(name))

    def remove_schedule(self, name: str, *, actor: str) -> Schedule:
        return self._run(lambda state: scheduling.remove_schedule(Shelf(state), name, actor))

    def pause_schedule(self, name: str, *, paused: bool, actor: str) -> Schedule:
        return self._run(lambda state: scheduling.pause_schedule(Shelf(state), name, paused, actor))

    def run_schedule(self, name: str, *, job_id: str, actor: str) -> Job:
        def verb(state: State) -> Job:
            refusal = scheduling.run_schedule(Shelf(state), name, job_id, actor)
            if refusal is not None:
                raise refusal
            return snapshot(state.records[job_id])

        return self._run(verb)

    def fire_schedules(self) -> Fired:
        return self._run(lambda state: Fired(fire_due(state), moment(state.next_tick)))

    # -- queues with rules -------------------------------------------------------------------

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        info = self._change_queue(queue, queues.create, config, actor)
        self._place_anew(queue)
        return info

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        info = self._change_queue(queue, queues.update, changes, actor)
        self._place_anew(queue)
        return info

    def _place_anew(self, queue: str) -> None:
        """What counts in a queue has changed: others do what they do while jobs are placed anew."""
        while self._run(queues.place_anew, queue):
            pass

    def set_queue_state(self, queue: str, state: QueueState, *, actor: str) -> QueueInfo:
        return self._change_queue(queue, queues.set_state, state, actor)

    def purge_queue(
        self, queue: str, where: JobFilter, *, actor: str, limit: int = PURGE_AT_ONCE
    ) -> Purged:
        return self._run(queues.purge, queue, where, actor, limit)

    def delete_queue(self, queue: str, *, force: bool, actor: str) -> int:
        if self._change_queue(queue, queues.delete, actor, force):
            return 0
        return self._bury(queue)

    def _change_queue(
        self,
        queue: str,
        verb: Callable[Concatenate[State, str, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Let a verb change a queue, and tell followers so."""

        def change(state: State) -> T:
            answer = verb(state, queue, *args, **kwargs)
            state.note_change("queue", queue)
            return answer

        return self._run(change)

    def _bury(self, queue: str) -> int:
        """Finish deleting a queue, so many jobs under each hold of the lock."""
        buried = 0
        done = False
        while not done:
            found = self._look(queues.waiting_in, queue)
            for jobs in batched(found, BURIED_AT_ONCE) if found else ((),):
                more, done = self._change_queue(queue, queues.bury, jobs, buried)
                buried += more
        return buried

    def queue_info(self, queue: str) -> QueueInfo | None:
        return self._look(queues.info, queue)

    def list_queues(self) -> list[QueueInfo]:
        return self._look(queues.infos)

    def key_info(self, queue: str, key: str) -> KeyInfo:
        return self._look(queues.key_info, queue, key)

    # -- settings ----------------------------------------------------------------------------

    def settings(self) -> StoredSettings:
        return self._look(settings.settings)

    def set_setting(self, name: str, value: SettingValue, *, actor: str) -> StoredSettings:
        return self._run(
            lambda state: settings.carry_out(
                state, setting_to_set(state.settings.values, name, value), actor
            )
        )

    def unset_setting(self, name: str, *, actor: str) -> StoredSettings:
        return self._run(
            lambda state: settings.carry_out(
                state, setting_to_unset(state.settings.values, name), actor
            )
        )

    # -- access from other machines -----------------------------------------------------------

    def create_token(self, draft: TokenDraft, digest: str, *, actor: str) -> Token:
        return self._run(tokens.create, draft, digest, actor)

    def tokens(self) -> list[Token]:
        return self._look(tokens.every)

    def find_token(self, digest: str) -> Token | None:
        return self._look(tokens.find, digest)

    def revoke_token(self, name: str, *, actor: str) -> Token:
        return self._run(tokens.revoke, name, actor)

    def signing_key(self) -> bytes:
        return self._look(lambda state: state.signing_key)

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
        return self._run(pruning.prune, policy, run, scope, limit, actor)

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        return self._look(
            lambda state: [each.record for each in islice(reversed(state.cleanups), limit)]
        )

    def archived(self, job_id: str) -> ArchivedJob | None:
        return self._look(lambda state: state.archive.find(job_id))

    def search_archive(
        self,
        where: JobFilter,
        *,
        span: ArchiveSpan = EVERYTHING,
        slowest_first: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ArchivePage:
        return self._look(
            lambda state: state.archive.search(
                where, span, limit, cursor, slowest_first=slowest_first
            )
        )

    # -- the store itself --------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        with SHIELD, self._lock:
            self._check_open()
            self._listen([*self._listeners, listener])

        def end() -> None:
            with SHIELD, self._lock:
                self._listen([each for each in self._listeners if each is not listener])

        return end

    def now(self) -> datetime:
        return self._look(lambda state: from_micros(state.now))

    def repair_clock(self, *, actor: str) -> ClockRepair:
        raise UnsupportedError(
            f"a memory store lives no longer than its process, so {actor} can start it anew "
            "once the clock is right"
        )

    def check(self) -> list[str]:
        return self._look(inspection.problems)

    def backup(self, path: str) -> None:
        raise UnsupportedError(
            f"nothing was written to {path}: the memory store cannot be backed up. "
            "Use a SQLite store for jobs that must outlive the process."
        )

    def describe(self) -> Mapping[str, Any]:
        return self._look(
            lambda state: {
                "kind": "memory",
                "place": "this process",
                "durability": "none: jobs end with the process",
                "jobs": len(state.records),
                "capacity": state.capacity,
                "heap": _heap_document(state),
            }
        )

    def heap(self, queue: str | None = None) -> HeapFigures:
        """How healthy the heaps of a queue are, or of all, and when they are rebuilt."""
        return self._look(State.heap_figures, queue)

    def close(self) -> None:
        with SHIELD, self._lock:
            self._closed = True
            self._listen([])

    # -- under the lock ----------------------------------------------------------------------

    def _look(
        self, verb: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Let a verb look at the state that changes nothing."""
        with SHIELD, self._lock:
            if self._closed:
                self._check_open()
            self._state.look()
            return verb(self._state, *args, **kwargs)

    def _run(
        self, verb: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Let a verb work on the state alone, then wake whom it concerns."""
        state = self._state
        links = state.links
        with SHIELD:
            with self._lock:
                if self._closed:
                    self._check_open()
                # A clean-up reports each job that its call removes (RET-1): nothing goes before it.
                state.tick(forgets=verb is not pruning.prune)
                answer = verb(state, *args, **kwargs)
                if links.ended or links.lowered or links.changed:
                    dependents.resolve(state)
                if state.is_overfull:
                    state.make_room()
                news, listeners = self._take_news() if state.news else _NO_NEWS
            if news is not None:
                _publish(news, listeners)
        if links.ended or links.lowered or links.changed:
            self._resolve_the_rest()
        return answer

    def _take_news(self) -> tuple[News | None, list[Listener]]:
        news = self._state.news
        if news is None or not news:
            return None, []
        self._state.news = News()
        return news, self._listeners

    def _resolve_the_rest(self) -> None:
        """Go on with dependents, and others, that were too many for one hold of the lock."""
        links = self._state.links
        while links.ended or links.lowered or links.changed:
            with SHIELD:
                with self._lock:
                    dependents.resolve(self._state)
                    self._state.make_room()
                    news, listeners = self._take_news()
                if news is not None:
                    _publish(news, listeners)

    def _listen(self, listeners: list[Listener]) -> None:
        # Lists are replaced, never changed: whoever goes through one is not disturbed.
        self._listeners = listeners
        self._state.news = News() if listeners else None

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError("this memory store is closed: its jobs are gone")

    def _leave(self, worker: str, number: int) -> None:
        # Not through _run: a worker may leave in peace after its store was closed.
        with SHIELD, self._lock:
            registry.end(self._state, worker, number)


class _Registration:
    """A worker's entry in the registry. Death cannot be proved here: it shares this process."""

    lock_fd: int | None = None

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave

    def close(self) -> None:
        self._leave()


def _heap_document(state: State) -> dict[str, Any]:
    figures = state.heap_figures(None)
    return {**msgspec.structs.asdict(figures), "live": figures.live, "health": figures.health}


def _publish(news: News, listeners: list[Listener]) -> None:
    for listener in listeners:
        try:
            if news.ready:
                listener.on_ready()
            if news.ended:
                listener.on_ended(news.ended)
            if news.cancel_requested:
                listener.on_cancel_requested(news.cancel_requested)
        except (Exception, Interrupted):
            # The write is done and its caller must hear so, whatever a listener makes of it.
            logger.exception("a listener of the memory store failed: %r", listener)
