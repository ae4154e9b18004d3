"""The PostgreSQL store: the contract's verbs, each delegated to its module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from functools import cached_property
from typing import Any, TypeVar, cast

from leasehold.core.contract.accelerator import Accelerator
from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.contract.transactions import Connection, OwnConnection
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import (
    Exchange,
    LeaseRequest,
    Settlement,
    SweepReport,
)
from leasehold.core.model.records import (
    Listener,
    Submitted,
)
from leasehold.core.model.tokens import Token
from leasehold.core.rules.moving import RowStore
from leasehold.env import SYSTEM, Env
from leasehold.errors import LeaseholdError
from leasehold.stores.postgres.clauses import WithoutLocalVerbs
from leasehold.stores.postgres.keeping import clock_repair, moving
from leasehold.stores.postgres.keeping.beliefs import ROWS_MIN, Beliefs
from leasehold.stores.postgres.keeping.blobs import TableBlobs
from leasehold.stores.postgres.keeping.cleanup import JobArchive, Pruning
from leasehold.stores.postgres.keeping.index_keeper import IndexKeeper
from leasehold.stores.postgres.leasing import held
from leasehold.stores.postgres.leasing.ends import Histories, HolderBook
from leasehold.stores.postgres.leasing.held import HeldTransaction
from leasehold.stores.postgres.leasing.lease import promote
from leasehold.stores.postgres.leasing.recover import Holdings, Registry, Sweep
from leasehold.stores.postgres.leasing.settle import exchange, exchange_once
from leasehold.stores.postgres.reading import inspection
from leasehold.stores.postgres.reading.feed import FEED
from leasehold.stores.postgres.reading.figures import MetricsReader
from leasehold.stores.postgres.reading.looking import LookingDatabase
from leasehold.stores.postgres.reading.read import Jobs
from leasehold.stores.postgres.rules.known import queues, read_settings
from leasehold.stores.postgres.rules.orders import OperationShelf, OrderDesk, QueueBook
from leasehold.stores.postgres.rules.schedules import ScheduleShelf
from leasehold.stores.postgres.submitting import submit
from leasehold.stores.postgres.submitting.dependencies import DependentsBook
from leasehold.stores.postgres.writing import application, own_connections
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.postgres.writing.turn import who_writes
from leasehold.stores.tables.statements import PlainReader
from leasehold.stores.tables.store import TableStore
from leasehold.stores.tables.tokens import TokenReader

T = TypeVar("T")


class PostgresStore(WithoutLocalVerbs, TableStore):
    """Jobs in one schema of a PostgreSQL database, shared by any number of machines."""

    _database: Database
    _reader = PlainReader
    _holder_book = HolderBook
    _histories = Histories
    _holdings = Holdings
    _registry = Registry
    _sweeper = Sweep
    _promote = staticmethod(promote)
    _desk = OrderDesk
    _dependents = DependentsBook
    _operations = OperationShelf
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
        self, url: str, *, env: Env = SYSTEM, accelerator: Accelerator | None = None
    ) -> None:
        self._database = Database(url, env=env, accelerator=accelerator)
        self._beliefs = Beliefs(self._database)
        self._index_keeper = IndexKeeper(self._database)
        replica = self._database.address.replica
        self._looking = None if replica is None else LookingDatabase(self._database, replica)

    def blob_store(self) -> TableBlobs:
        """Where its large payloads and results are kept by default."""
        return TableBlobs(self._database)

    def __repr__(self) -> str:
        return f"PostgresStore({self._database.address.shown!r})"

    def __str__(self) -> str:
        return self._database.address.shown

    # -- producers ---------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        self._before(drafts)
        return submit.submit(self._database, drafts, partial=partial)

    def submit_as(
        self, token: Token, digest: str, drafts: Sequence[Draft]
    ) -> list[Submitted | LeaseholdError]:
        self._before(drafts)
        check = self._token_check(token, digest)
        return submit.submit(self._database, drafts, partial=False, check=check)

    def submit_once(
        self, request_id: str, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        self._before(drafts)
        return submit.submit_once(self._database, request_id, drafts, partial=partial)

    def _before(self, drafts: Sequence[Draft]) -> None:
        # Tables may be filled long before there is a worker that looks.
        if len(drafts) >= ROWS_MIN:
            self._beliefs.correct_now_and_then()

    def repair_clock(self, *, actor: str) -> ClockRepair:
        return clock_repair.repair_clock(self._database, actor)

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
        return submit.submit_within(self._database, connection, drafts, partial=partial)

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

    def _write_as_holder(self, operation: Callable[[Step], T]) -> T:
        return self._database.write(operation, side_by_side=_always)

    # -- recovery ----------------------------------------------------------------------------

    def recover(self, *, actor: str | None = None) -> SweepReport:
        # This comes first, since the following steps might otherwise take long.
        self._beliefs.correct()
        # Consumers and services sweep, but have no worker.
        self._index_keeper.begin()
        return super().recover(actor=actor)

    # -- workers -----------------------------------------------------------------------------

    def dead_workers(self) -> set[str]:
        """Workers proved dead whose jobs have not yet been taken back."""
        # Workers call this every second, and no other call comes regularly.
        self._beliefs.correct_now_and_then()
        self._index_keeper.begin()
        registry = Registry(self._database)
        missing, dead = self._database.look(
            lambda db: (registry.missing(db), self._lost_workers(db))
        )
        registry.enter_again(missing)
        return dead

    def _lost_workers(self, db: Any) -> set[str]:
        return self._database.deaths.workers(db)

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
            indexed_lanes = inspection.indexed_lanes(db)
        if accelerator is not None:
            for name, known in accelerator.describe().items():
                described[name] = {**known, "indexed_lanes": indexed_lanes}
        return described

    def looking(self) -> PostgresStore:
        return self if self._looking is None else self._store_of_looks

    @cached_property
    def _store_of_looks(self) -> PostgresStore:
        """The same verbs, over a database that reads elsewhere; one, since it remembers figures."""
        store = copy(self)
        store._database = cast("Database", self._looking)  # noqa: SLF001  # its own copy
        return store

    def close(self) -> None:
        if self._looking is not None:
            self._looking.close()
        self._database.close()
        self._index_keeper.join()


def _always(_: Step) -> bool:
    """A holder writes only to the rows of its own leases."""
    return True
