"""Orders of people about jobs (`core.rules.people`), and operations on many of them.

Guard of every write to an operation: its record is read inside the write, and cannot change until
the write is over. The earlier state of its jobs is kept with it (`core.rules.undoing`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from leasehold.core.model.codes import EVENT_CODE
from leasehold.core.model.job import Job
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules import operations, queue_orders
from leasehold.core.rules.filter_orders import Order
from leasehold.core.rules.operations import Operation, Plan
from leasehold.core.rules.people import Replay
from leasehold.core.rules.undoing import OperationPart
from leasehold.env import from_micros, to_micros
from leasehold.stores.tables import dependents as table_dependents
from leasehold.stores.tables import order
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.dependents import TableDependents
from leasehold.stores.tables.ends import entry
from leasehold.stores.tables.job_states import Ending, JobState, TableHistories
from leasehold.stores.tables.linking import TableLinker, replay_order, waits_again_for
from leasehold.stores.tables.queues import TableQueueBook
from leasehold.stores.tables.statements import Kind, Query, Reader
from leasehold.stores.tables.step import TableStep
from leasehold.stores.verbs.people import PeopleVerbs

_DOCUMENT: Final = {"document": Kind.TEXT}
ALL: Final = Query(_DOCUMENT, "FROM operation ORDER BY number DESC")
BY_ID: Final = Query(_DOCUMENT, "FROM operation WHERE id = $1")
PART: Final = Query(
    _DOCUMENT,
    "FROM operation_part "
    "WHERE operation = (SELECT number FROM operation WHERE id = $1) AND part = $2",
)
ADD: Final = "INSERT INTO operation (id, document) VALUES ($1, $2)"
REPLACE: Final = "UPDATE operation SET document = $1 WHERE id = $2"
ADD_PART: Final = """
    INSERT INTO operation_part SELECT number, CAST($1 AS bigint), CAST($2 AS text)
    FROM operation WHERE id = $3
"""
_ALL_BUT: Final = "(SELECT number FROM operation ORDER BY number DESC LIMIT 1 OFFSET $1)"
FORGET_PARTS: Final = f"DELETE FROM operation_part WHERE operation <= {_ALL_BUT}"
FORGET: Final = f"DELETE FROM operation WHERE number <= {_ALL_BUT}"

D = TypeVar("D")

_operation: Final = msgspec.json.Decoder(Operation)
_part: Final = msgspec.json.Decoder(OperationPart)


class TableOperations:
    """See `leasehold.core.rules.operation_shelf.OperationShelf`."""

    to_change: ClassVar[Query] = BY_ID
    """Finds an operation and locks it against other processes until this write is over."""

    def __init__(self, step: TableStep, reader: Reader) -> None:
        self._execute = step.execute
        self._reader = reader
        self.now = step.now
        self.audit = step.audit

    def find(self, operation_id: str) -> Operation | None:
        return _one(_operation, self._reader, self.to_change, operation_id)

    def add(self, operation: Operation) -> None:
        self._execute(ADD, (operation.id, _text(operation)))

    def replace(self, operation: Operation) -> None:
        self._execute(REPLACE, (_text(operation), operation.id))

    def add_part(self, operation_id: str, number: int, part: OperationPart) -> None:
        self._execute(ADD_PART, (number, _text(part), operation_id))

    def part(self, operation_id: str, number: int) -> OperationPart | None:
        return _one(_part, self._reader, PART, operation_id, number)

    def forget_all_but(self, operations: int, with_parts: int) -> None:
        self._execute(FORGET_PARTS, (with_parts,))
        self._execute(FORGET, (operations,))


def _text(document: msgspec.Struct) -> str:
    return msgspec.json.encode(document).decode()


def _one(
    decoder: msgspec.json.Decoder[D], reader: Reader, query: Query, *values: str | int
) -> D | None:
    return next(iter(_documents(decoder, reader, query, *values)), None)


def _documents(
    decoder: msgspec.json.Decoder[D], reader: Reader, query: Query, *values: str | int
) -> list[D]:
    """The contents of the rows, without unreadable ones."""
    found = []
    for (document,) in reader.sound_rows(query, *values):
        try:
            found.append(decoder.decode(document))
        except UNREADABLE:
            continue
    return found


REQUEST_CANCEL: Final = "UPDATE running SET cancel_reason = $1 WHERE seq = $2"
ALLOW_AGAIN: Final = "UPDATE job SET allowance = $1, start_by = NULL WHERE seq = $2"
ALLOW: Final = "UPDATE job SET allowance = $1 WHERE seq = $2"
SET_PRIORITY: Final = "UPDATE job SET priority = $1 WHERE seq = $2"
MET_SINCE: Final = "SELECT DISTINCT seq FROM event WHERE {} AND {} AND at > $3"


class TableDesk(TableHistories):
    """See `leasehold.core.rules.people.OrderDesk`."""

    queue_book: ClassVar[type[TableQueueBook]]
    dependents: ClassVar[type[TableDependents]]
    linker: ClassVar[type[TableLinker]]

    def __init__(self, step: Any) -> None:
        super().__init__(step)
        self._ending: list[Ending] = []
        """Jobs to end, gathered until needed."""

    @abstractmethod
    def _read(self, job_ids: Sequence[str]) -> Sequence[Job]:
        """Snapshots of the given jobs that exist."""

    def find_all(self, job_ids: Sequence[str]) -> dict[str, tuple[JobState, Job]]:
        self._end_all()
        states = self.standing_by_id(job_ids)
        return {job.id: (states[job.id], job) for job in self._read(list(states))}

    def _end_all(self) -> None:
        self.end(self._ending)
        self._ending = []

    def met_since(
        self, jobs: Sequence[JobState], events: Collection[Event], at: datetime
    ) -> set[str]:
        ids = {job.seq: job.id for job in jobs}
        among, listed = self.dialect.among, self.dialect.listed
        statement = MET_SINCE.format(among("seq", "$1"), among("event", "$2"))
        codes = [EVENT_CODE[event] for event in events]
        values = (listed(list(ids)), listed(codes), to_micros(at))
        return {ids[seq] for (seq,) in self._step.execute(statement, values).fetchall()}

    def request_cancel(self, job: JobState, reason: str) -> None:
        self._step.execute(REQUEST_CANCEL, (reason, job.seq))

    def wake_holder(self, job: JobState) -> None:
        self._step.hints.cancel_requested.append(job.id)

    def end_waiting(self, job: JobState, after: Status, reason: str) -> None:
        self._ending.append(Ending(job, after, reason))

    def forget(self, jobs: Sequence[JobState]) -> None:
        self._end_all()
        queue_orders.forget(self.queue_book(self._step), [job.seq for job in jobs])

    def allow(self, job: JobState, allowance: int) -> None:
        self._step.execute(ALLOW, (allowance, job.seq))

    def waits_again_for(self, handle: JobState, job: Job) -> list[int]:
        return waits_again_for(self._step, handle.seq, job)

    def replay(self, job: JobState, replay: Replay, waits_for: Sequence[int]) -> None:
        step = self._step
        self.remove([job])
        table_dependents.replayed(step, job.seq)
        step.execute(ALLOW_AGAIN, (replay.allowance, job.seq))
        if waits_for:
            self.linker(step).block_again(
                job.seq, waits_for, version=job.lease_version, attempts=replay.attempts,
                events=job.events + 1,
            )  # fmt: skip
        else:
            again = entry(step, job.seq, job.lease_version, replay.attempts, job.events + 1)
            self.ready(step).enter([again])
        step.record(
            job.seq, job.events + 1, Event.REPLAYED, job.status, replay.status,
            attempts=replay.attempts, version=job.lease_version, message=replay.message,
        )  # fmt: skip
        step.move(job.lane, job.status, replay.status)
        step.hints.ready = True

    def needed_by(self, job: JobState) -> str | None:
        return self.dependents(self._step).needed_by(job.seq)

    def erase(self, job: JobState) -> None:
        self.erase_all([job.seq])

    def reprioritize(self, job: JobState, before: int, after: int) -> None:
        step = self._step
        standing = order.standing_of(step, job.seq)
        step.execute(SET_PRIORITY, (after, job.seq))
        if standing is not None:
            self.ready(step).reprioritize(standing, after)
        self.linker.links.bases(step).reprioritized(job.seq, before)
        step.hints.ready = True

    def replay_order(self, job_ids: Sequence[str]) -> list[int]:
        return replay_order(self._step, self.dialect, job_ids)

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self._end_all()
        self._step.audit(actor, action, count, detail)


class TablePeopleVerbs(PeopleVerbs):
    """What orders look for, and where operations are."""

    _database: TableDatabase
    _reader: Callable[[Any], Reader]
    _dependents: type[TableDependents]
    _operations: type[TableOperations]

    def _operation_shelf(self, write: TableStep) -> TableOperations:
        return self._operations(write, self._reader(write.db))

    def _before_discarding(self, job_ids: Sequence[str]) -> None:
        self._dependents.look_through(self._database, job_ids)

    def plan_operation(self, order: Order, where: JobFilter) -> Plan:
        # A moment inside the turn: every earlier writer has committed by now, including
        # applications with their own transactions. So the count sees every job of that moment.
        now = from_micros(self._write(lambda step: step.now))
        fitting = self._look(lambda db: self._jobs(db).count_by_status(where))
        return operations.plan(self._database.env.new_id(), order, where, now, fitting)

    def operations(self) -> list[Operation]:
        return self._look(lambda db: _documents(_operation, self._reader(db), ALL))

    def operation(self, operation_id: str) -> Operation | None:
        return self._look(lambda db: _one(_operation, self._reader(db), BY_ID, operation_id))
