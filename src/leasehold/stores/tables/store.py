"""Verbs of the contract that are the same for every store on tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Protocol

from leasehold.core.model.failure import Failure
from leasehold.core.model.job import Attempt, HistoryEvent
from leasehold.core.model.joblog import JobLog
from leasehold.core.model.lease import StuckJob
from leasehold.core.model.pages import AuditPage, HistoryPage, LogPage
from leasehold.core.model.pins import Pin, PinKind
from leasehold.core.model.records import AuditRecord, Stats, WorkerInfo, WorkerTotals
from leasehold.core.model.refusals import check_page
from leasehold.core.model.retention import CleanUp
from leasehold.core.model.settings import SettingValue, StoredSettings
from leasehold.core.model.tokens import Token, TokenDraft
from leasehold.core.rules import failures, history, metrics
from leasehold.core.rules.lifetime import LifetimeReader, QueueLifetime, lifetimes
from leasehold.core.rules.metrics import WINDOW_SECONDS, DayPoint, MinutePoint, QueueMetrics
from leasehold.core.rules.pins import pin, unpin
from leasehold.core.rules.timeline import ResolutionName, Timeline, timeline
from leasehold.core.rules.tokens import create_token, revoke_token
from leasehold.env import from_micros
from leasehold.stores.tables import cleanup, pins, records, setting_verbs
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.history import JobHistory
from leasehold.stores.tables.lanes import stats
from leasehold.stores.tables.query import Reader
from leasehold.stores.tables.statements import Connection
from leasehold.stores.tables.stuck import stuck_jobs
from leasehold.stores.tables.tallies import TableFailures, worker_totals
from leasehold.stores.tables.tokens import Tokens, TokenShelf, make_key


class MetricsOf(Protocol):
    """The class of a store's `TableMetrics` over its `Spans`."""

    stats: str

    def __call__(self, db: Any, now: int, lost: Collection[str] = (), /) -> LifetimeReader: ...


class TableStore(ABC):
    """What a store says with its own classes, it hands in as these attributes."""

    _database: TableDatabase
    _reader: Callable[[Any], Reader]
    _tokens: Callable[[Any], Tokens]
    _failures: Callable[[Any], TableFailures]
    _metrics: MetricsOf

    @abstractmethod
    def _lost_workers(self, db: Any) -> Collection[str]:
        """Workers proved dead whose jobs are not taken back yet."""

    # -- looking -----------------------------------------------------------------------------

    def stuck(
        self, silent_seconds: float | None, *, running_seconds: float | None = None
    ) -> list[StuckJob]:
        return self._database.look(
            lambda db: stuck_jobs(
                self._reader(db), self._database.now(db), silent_seconds, running_seconds
            )
        )

    def workers(self) -> list[WorkerInfo]:
        return self._database.look(
            lambda db: records.workers(self._reader(db), self._database.now(db))
        )

    def attempts(self, job_id: str) -> list[Attempt]:
        return self._database.look(
            lambda db: history.attempts_of(JobHistory(self._reader(db), job_id))
        )

    def history(self, job_id: str) -> list[HistoryEvent]:
        return self._database.look(
            lambda db: history.history_of(JobHistory(self._reader(db), job_id))
        )

    def history_page(
        self, job_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        return self._database.look(
            lambda db: history.page_of_history(JobHistory(self._reader(db), job_id), limit, cursor)
        )

    def log(self, job_id: str) -> JobLog:
        return self._database.look(lambda db: records.log(self._reader(db), job_id))

    def log_page(self, job_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        return self._database.look(
            lambda db: records.page_of_log(self._reader(db), job_id, limit, cursor)
        )

    def audit_log(self, limit: int = 100) -> list[AuditRecord]:
        return self._database.look(lambda db: records.audit_log(self._reader(db), limit))

    def audit_page(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> AuditPage:
        return self._database.look(
            lambda db: records.page_of_audit(self._reader(db), since, before, limit, cursor)
        )

    def stats(self, queue: str | None = None) -> Stats:
        return self._database.look(lambda db: stats(db, self._metrics.stats, queue))

    def now(self) -> datetime:
        return self._database.look(lambda db: from_micros(self._database.now(db)))

    # -- metrics -----------------------------------------------------------------------------

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        return self._database.look(
            lambda db: metrics.metrics(
                self._measured(db, self._lost_workers(db)), queue, window_seconds
            )
        )

    def series(self, queue: str | None = None, *, minutes: int = 60) -> list[MinutePoint]:
        return self._database.look(lambda db: metrics.series(self._measured(db), queue, minutes))

    def daily(self, queue: str | None = None, *, days: int = 30) -> list[DayPoint]:
        return self._database.look(lambda db: metrics.daily(self._measured(db), queue, days))

    def timeline(
        self,
        metrics: Sequence[str],
        queue: str | None = None,
        *,
        since: datetime,
        until: datetime | None = None,
        resolution: ResolutionName = "minute",
    ) -> Timeline:
        return self._database.look(
            lambda db: timeline(
                self._measured(db), metrics, queue, since=since, until=until, resolution=resolution
            )
        )

    def lifetimes(self) -> list[QueueLifetime]:
        return self._database.look(lambda db: lifetimes(self._measured(db, self._lost_workers(db))))

    def _measured(self, db: Connection, lost: Collection[str] = ()) -> LifetimeReader:
        return self._metrics(db, self._database.now(db), lost)

    def failures(
        self, queue: str | None = None, *, task: str | None = None, limit: int = 20
    ) -> list[Failure]:
        check_page(limit)
        return self._database.look(
            lambda db: failures.in_order(self._failures(db).all(), queue, task)[:limit]
        )

    def worker_totals(self, *, limit: int = 100) -> list[WorkerTotals]:
        check_page(limit)

        def look(db: Connection) -> list[WorkerTotals]:
            totals = worker_totals(self._reader(db), self._measured(db).open_minute())
            return metrics.in_order(totals)[:limit]

        return self._database.look(look)

    # -- settings ----------------------------------------------------------------------------

    def set_setting(self, name: str, value: SettingValue, *, actor: str) -> StoredSettings:
        return self._database.write(lambda step: setting_verbs.keep(step, name, value, actor))

    def unset_setting(self, name: str, *, actor: str) -> StoredSettings:
        return self._database.write(lambda step: setting_verbs.forget(step, name, actor))

    # -- pins --------------------------------------------------------------------------------

    def pins(self, kind: PinKind) -> list[Pin]:
        return self._database.look(lambda db: pins.pins(db, kind))

    def pin(self, kind: PinKind, name: str, text: str, *, actor: str) -> Pin:
        return self._database.write(lambda step: pin(pins.PinShelf(step), kind, name, text, actor))

    def unpin(self, kind: PinKind, name: str, *, actor: str) -> Pin | None:
        return self._database.write(lambda step: unpin(pins.PinShelf(step), kind, name, actor))

    # -- access from other machines ----------------------------------------------------------

    def create_token(self, draft: TokenDraft, digest: str, *, actor: str) -> Token:
        return self._database.write(
            lambda step: create_token(TokenShelf(step, self._tokens(step.db)), draft, digest, actor)
        )

    def tokens(self) -> list[Token]:
        return self._database.look(lambda db: self._tokens(db).every())

    def find_token(self, digest: str) -> Token | None:
        return self._database.look(lambda db: self._tokens(db).find(digest, self._database.now(db)))

    def revoke_token(self, name: str, *, actor: str) -> Token:
        return self._database.write(
            lambda step: revoke_token(TokenShelf(step, self._tokens(step.db)), name, actor)
        )

    def signing_key(self) -> bytes:
        with self._database.read() as db:
            known = self._tokens(db).signing_key()
        if known is None:
            self._database.write(lambda step: make_key(step, self._database.env))
            return self.signing_key()
        return known

    # -- retention ---------------------------------------------------------------------------

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        return self._database.look(lambda db: list(cleanup.latest(db, limit)))
