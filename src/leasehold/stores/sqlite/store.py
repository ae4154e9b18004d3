"""The SQLite store: the contract's verbs, each delegated to its module."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.contract.transactions import OwnConnection
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import (
    Exchange,
    LeaseRequest,
    Settlement,
)
from leasehold.core.model.records import (
    Listener,
    Submitted,
)
from leasehold.core.model.schedule import Schedule, ScheduleDraft
from leasehold.core.model.tokens import Token
from leasehold.core.rules.moving import RowStore
from leasehold.env import SYSTEM, Env
from leasehold.errors import LeaseholdError, StoreError
from leasehold.stores.sqlite.disk.files import Durability
from leasehold.stores.sqlite.disk.lock import LOCK_TIMEOUT_SECONDS
from leasehold.stores.sqlite.keeping import moving
from leasehold.stores.sqlite.keeping.cleanup import JobArchive, Pruning
from leasehold.stores.sqlite.leasing.ends import Histories, HolderBook
from leasehold.stores.sqlite.leasing.lease import promote
from leasehold.stores.sqlite.leasing.recover import Holdings, Registry, Sweep
from leasehold.stores.sqlite.leasing.settle import exchange, exchange_once
from leasehold.stores.sqlite.reading import inspection
from leasehold.stores.sqlite.reading.feed import FEED
from leasehold.stores.sqlite.reading.figures import MetricsReader
from leasehold.stores.sqlite.reading.read import Jobs
from leasehold.stores.sqlite.rules.known import TokenReader, queues, read_settings
from leasehold.stores.sqlite.rules.orders import OrderDesk, QueueBook
from leasehold.stores.sqlite.rules.schedules import ScheduleShelf
from leasehold.stores.sqlite.schema.rows import LenientReader
from leasehold.stores.sqlite.submitting import submit
from leasehold.stores.sqlite.submitting.dependencies import DependentsBook
from leasehold.stores.sqlite.writing import clock_repair, transaction_verbs
from leasehold.stores.sqlite.writing.application import ApplicationConnection, is_inside
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.transaction_verbs import HeldTransaction
from leasehold.stores.tables.orders import TableOperations
from leasehold.stores.tables.store import TableStore

logger = logging.getLogger("leasehold.store")

T = TypeVar("T")


class SQLiteStore(TableStore):
    """Jobs in one SQLite file, shared by any number of processes on one machine.

    `durability="full"` survives a loss of power; `"normal"` survives the death of every process,
    but may lose the last moments before a loss of power.
    """

    _database: Database
    _reader = LenientReader
    _holder_book = HolderBook
    _histories = Histories
    _holdings = Holdings
    _registry = Registry
    _sweeper = Sweep
    _promote = staticmethod(promote)
    _desk = OrderDesk
    _dependents = DependentsBook
    _operations = TableOperations
    _jobs = Jobs
    _feed = FEED
    _queue_names = staticmethod(queues)
    _metrics = MetricsReader
    _queue_book = QueueBook
    _schedules = ScheduleShelf
    _read_settings = staticmethod(read_settings)
    _tokens = TokenReader
    _archive = JobArchive()
    _pruning = Pruning

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
        return submit.submit(self._database, drafts, partial=partial)

    def submit_as(
        self, token: Token, digest: str, drafts: Sequence[Draft]
    ) -> list[Submitted | LeaseholdError]:
        check = self._token_check(token, digest)
        return submit.submit_after(self._database, check, drafts)

    def submit_once(
        self, request_id: str, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return submit.submit_once(self._database, request_id, drafts, partial=partial)

    def submit_within(
        self, connection: OwnConnection, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return transaction_verbs.submit_within(self._database, connection, drafts, partial=partial)

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

    # -- recovery ----------------------------------------------------------------------------

    def repair_clock(self, *, actor: str) -> ClockRepair:
        return clock_repair.repair_clock(self._database, actor)

    # -- workers -----------------------------------------------------------------------------

    def dead_workers(self) -> set[str]:
        """Workers proved dead whose jobs are yet to be taken back; never touches the database."""
        return {life.worker for life in self._database.deaths.find()}

    def _lost_workers(self, db: Any) -> set[str]:  # noqa: ARG002  # it is told by locks on files
        return self.dead_workers()

    # -- schedules ---------------------------------------------------------------------------

    def set_schedule(self, draft: ScheduleDraft, *, actor: str) -> Schedule:
        draft.check()
        self._database.disk.refuse_when_low([draft.job])
        return super().set_schedule(draft, actor=actor)

    def _place_the_rest(self) -> None:
        # A write must not wait for this thread's own transaction.
        if not is_inside(self._database.files.database):
            super()._place_the_rest()

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

    def backup(self, path: str, *, actor: str, replace: bool = False) -> None:
        with self._database.read() as db:
            inspection.backup(db, Path(path), replace=replace)
        detail = {"path": os.path.abspath(path)}
        try:
            self._database.write(lambda step: step.audit(actor, "backup", 0, detail))
        except StoreError as error:
            # A copy is most needed when the store accepts no more writes.
            logger.warning("the backup %s is not in the audit log: %s", path, error)

    def row_store(self) -> RowStore:
        return moving.Rows(self._database)

    def describe(self) -> Mapping[str, Any]:
        return self._database.look(
            lambda db: inspection.describe(db, self._database.files, self._database.durability)
        )

    def close(self) -> None:
        self._database.close()
