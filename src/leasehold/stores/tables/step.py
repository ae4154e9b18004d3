"""The state of an operation inside a write: connection, time, counters, and hints to listeners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from leasehold.core.model.budget import DEPENDENTS_AT_ONCE, INHERITED_AT_ONCE, SHOWN_AT_ONCE
from leasehold.core.model.codes import EVENT_CODE, STATUS_CODE
from leasehold.core.model.outcome import JobError
from leasehold.core.model.status import Event, Status
from leasehold.core.rules.measuring import Measured
from leasehold.core.rules.placing import RowKey
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.core.rules.starting import StartBook
from leasehold.env import Env
from leasehold.stores.tables.statements import Execute, SqlConnection


class Hints:
    """The listeners to wake after the commit. Losing a hint costs time, never a job, so nothing may
    depend on one.
    """

    __slots__ = ("cancel_requested", "ended", "entered", "left", "ready", "unresolved")

    def __init__(self) -> None:
        self.ready = False
        self.ended: list[str] = []
        self.unresolved = False
        """Whether this write left dependents to another one; the table `resolving` names them."""
        self.cancel_requested: list[str] = []
        self.entered: list[RowKey] = []
        """Where jobs stand now that stood elsewhere, or nowhere, in lanes of which an accelerator
        keeps the order; only a store that has one fills these.
        """
        self.left: list[RowKey] = []
        """Where leased jobs stood, in such lanes."""

    def __bool__(self) -> bool:
        return bool(
            self.ready
            or self.unresolved
            or self.ended
            or self.cancel_requested
            or self.entered
            or self.left
        )

    def clear(self) -> None:
        self.ready = self.unresolved = False
        self.ended = []
        self.cancel_requested = []
        self.entered = []
        self.left = []

    def take(self, other: Hints) -> None:
        """Add the hints of another object, and leave it empty."""
        if other.ready:
            self.ready, other.ready = True, False
        if other.unresolved or other.ended or other.cancel_requested:
            self.unresolved = self.unresolved or other.unresolved
            self.ended += other.ended
            self.cancel_requested += other.cancel_requested
            other.clear()


READY: Final = Hints()
"""Only the hint that there are jobs to lease."""
READY.ready = True

NEXT_GENERATION: Final = "UPDATE store_state SET queue_generation = queue_generation + 1"
NEXT_SETTINGS: Final = "UPDATE store_state SET settings_generation = settings_generation + 1"
QUEUE_OF_LANE: Final = "SELECT queue FROM lane WHERE id = $1"
QUEUE_OF_KEY: Final = "SELECT queue FROM key_lane WHERE id = $1"

Row = tuple[Any, ...]


class TableStep(ABC):
    """One write, from BEGIN to COMMIT.

    Every write creates one, so immutable defaults are class attributes.
    """

    db: SqlConnection
    execute: Execute
    many: Callable[[str, Sequence[Any]], Any]
    """Executes a statement about many rows, as the database wants it."""
    alone = True
    """Whether this write is alone, as it always is in a store where writes take turns."""
    somebody_waits = False
    """Whether any job may wait for another; if not, an end concerns no other job."""
    some_unresolved = False
    """Whether ended jobs may still block others."""
    dependents_left = DEPENDENTS_AT_ONCE
    """How many more dependents this write may handle."""
    shown_left = SHOWN_AT_ONCE
    """How many more parked jobs this write may show to leases."""
    some_inheriting = False
    """Whether earlier writes have left changes of bases unfinished."""
    inherited_left = INHERITED_AT_ONCE
    """How many more jobs this write may compare with their dependents."""
    next_crossing: int | None = None
    """When the next pending job has to move, as far as earlier writes know."""
    some_rescoring = False
    """Whether jobs have to move because the parameters of their queue have changed."""
    insert_events: ClassVar[str]
    """For `many`: the rows of `event`."""
    insert_reply: ClassVar[str]
    """Stores a reply, replacing an earlier one under the same id."""
    add_audit: ClassVar[str] = """
        INSERT INTO audit (at, actor, action, count, detail) VALUES ($1, $2, $3, $4, $5)
    """

    def __init__(self, env: Env, now: int, rules: RuleBook, settings: SettingsInForce) -> None:
        self.random = env.random
        self.now = now
        """The store's clock, the same for the whole write."""
        self.rules = rules
        """The queues that have rules, by name."""
        self.settings = settings
        """The stored settings."""
        self.new_lanes: set[tuple[str, str]] = set()
        """Queue and task of the lanes that this write has created, even if undone."""
        self.succeeded: set[int] = set()
        """Lanes in which a job was completed: their circuit breakers close."""
        self.moved: dict[int, tuple[int, int]] = {}
        """The change of pending and running jobs by lane; only while queues have rules."""
        self.hints = Hints()
        self.ended: list[str] = []
        """Jobs that ended in this operation, each of which `dependents.resolve` must check."""
        self.lowered: set[int] = set()
        """Jobs that lost a dependent that may have raised their priority."""
        self.inheriting: list[tuple[int, int, int]] = []
        """A heap of jobs whose base has changed: the negated base, the job's number, and the number
        up to which its dependencies were compared with it.
        """
        self.measured = Measured()
        self.failed: list[tuple[int, str, JobError]] = []
        """Attempts that failed in this operation: lane, job and error."""
        self.worker_numbers: dict[tuple[str, int], int] = {}
        """Numbers of workers in lanes, as seen by earlier writes of this minute."""
        self.newly_shown: set[int] = set()
        """Jobs that leases can now see because their key has a free slot."""
        self._queues_of_lanes: dict[int, str | None] = {}
        """Their look-ups in this write."""
        self._tally: defaultdict[int, defaultdict[str, int]] = defaultdict(_counters)

    # -- what each store does in its own way ---------------------------------------------------

    @property
    @abstractmethod
    def buckets(self) -> StartBook:
        """The token buckets, as this write finds them."""

    @abstractmethod
    def look_again(self) -> None:
        """Called when jobs' places or held lanes change: rows read ahead are stale."""

    @abstractmethod
    def changed(self, statement: str, values: Sequence[Any]) -> int:
        """Execute a statement; returns how many rows it has changed."""

    def due_at(self, moments: Iterable[int]) -> None:  # noqa: B027  # not every store keeps it
        """Record the due times of jobs that have begun to wait."""

    def now_stand(self, keys: Iterable[RowKey]) -> None:  # noqa: B027  # as above
        """Record where pending jobs stand now that stood elsewhere, or nowhere."""

    def versions_erased(self, versions: Iterable[int]) -> None:  # noqa: B027  # as above
        """Record the last lease versions of erased jobs: if an id is used again, its leases must
        not repeat a version granted before.
        """

    def must_be_alone(self) -> None:  # noqa: B027  # as above
        """Called before anything that other writes must not do at the same time."""

    @abstractmethod
    def flush(self) -> None:
        """Write the counters and measurements."""

    @abstractmethod
    def write_counters(self) -> None:
        """Write the counters, for a later read in the same write."""

    def write_counters_of_work(self) -> None:
        """The same for a read that needs only the lanes that have pending jobs and are not held
        back.
        """
        self.write_counters()

    @abstractmethod
    def _load_rules(self) -> RuleBook: ...

    @abstractmethod
    def _load_settings(self) -> SettingsInForce: ...

    @abstractmethod
    def _number_of(self, worker: str, lane: int) -> int:
        """The number of a worker in a lane, assigned if it has none yet."""

    def storable(self, text: str) -> str:
        """A message as the database can hold it."""
        return text

    def storable_rows(self, rows: list[Row], texts: slice) -> list[Row]:  # noqa: ARG002  # as above
        """The same of the messages in rows."""
        return rows

    def attempts_failed(self, failed: Sequence[tuple[int, str, JobError]]) -> None:
        """Count failed attempts, each with those that failed in the same way."""
        self.failed += failed

    # -- counting ------------------------------------------------------------------------------

    def jobs_ended(self, job_ids: Sequence[str]) -> None:
        """Record ended jobs: their dependents will be handled, and waiting callers woken."""
        self.ended += job_ids
        self.hints.ended += job_ids

    def count(self, lane: int, name: str, by: int = 1) -> None:
        """Change a lane's counter (a column of `lane`)."""
        self._tally[lane][name] += by

    def count_new(self, lane: int, status: Status, in_band: str, jobs: int) -> None:
        """Count jobs that were submitted to a lane."""
        tally = self._tally[lane]
        tally[status] += jobs
        tally["total_submitted"] += jobs
        tally[in_band] += jobs

    def count_alike(self, lane: int, ones: Mapping[str, int]) -> None:
        """Add these to a lane's counters."""
        tally = self._tally.get(lane)
        if tally is None:
            self._tally[lane] = defaultdict(int, ones)
            return
        for name, by in ones.items():
            tally[name] += by

    def move(self, lane: int, before: Status, after: Status, jobs: int = 1) -> None:
        """Count jobs of a lane from one status to another."""
        tally = self._tally[lane]
        tally[before] -= jobs
        tally[after] += jobs

    def worked(self, worker: str, lane: int, names: Sequence[str], jobs: int) -> None:
        """Count jobs of a lane for a worker, under the names that are counted by worker."""
        number = self.worker_numbers.get((worker, lane)) or self._number_of(worker, lane)
        self.measured.worked(number, names, jobs)

    def _note_moves(self, lane: int, tally: Mapping[str, int]) -> None:
        pending, running = self.moved.get(lane, (0, 0))
        self.moved[lane] = (pending + tally.get("pending", 0), running + tally.get("running", 0))

    def queue_of(self, lane: int) -> str | None:
        """The queue of a lane, or of a key's parked jobs."""
        if lane not in self._queues_of_lanes:
            statement = QUEUE_OF_LANE if lane > 0 else QUEUE_OF_KEY
            row = self.execute(statement, (abs(lane),)).fetchone()
            self._queues_of_lanes[lane] = None if row is None else row[0]
        return self._queues_of_lanes[lane]

    def record(
        self,
        seq: int,
        n: int,
        event: Event,
        before: Status,
        after: Status,
        *,
        attempts: int,
        worker: str | None = None,
        version: int = 0,
        message: str = "",
    ) -> None:
        """Write one history event."""
        row = (
            seq, n, self.now, EVENT_CODE[event], STATUS_CODE[before], STATUS_CODE[after], attempts,
            worker, version, self.storable(message) or None,
        )  # fmt: skip
        self.many(self.insert_events, [row])

    # -- what others have to know of -----------------------------------------------------------

    def rules_changed(self) -> None:
        """Make every process read the rules of the queues again."""
        self.execute(NEXT_GENERATION)
        self.rules = self._load_rules()

    def settings_changed(self) -> None:
        """Make every process read the settings again."""
        self.execute(NEXT_SETTINGS)
        self.settings = self._load_settings()

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        """Write an audit record."""
        document = msgspec.json.encode(detail).decode()
        row = (self.now, self.storable(actor), action, count, document)
        self.execute(self.add_audit, row)


def _counters() -> defaultdict[str, int]:
    return defaultdict(int)
