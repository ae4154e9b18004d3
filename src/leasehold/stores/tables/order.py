"""Pending jobs, as rows of `ready`: every one enters, moves, leaves and is read here.

`core.rules.placing` says where a job stands. Nearly all jobs stand where their own row in `job`
says; only the others have a row in `place`. `core.rules.serving` reads them in order, using only
seeks; `tables.rebalance` moves jobs to new places, and `tables.parking` handles those that do not
stand in their lanes.

Guard: a job's row has left the other state tables when it enters, and goes into one of them in the
write in which it leaves. The accounts of pending jobs are maintained here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Final, NamedTuple

from leasehold.core.model.priority import DEFAULT_SCORING, Scoring
from leasehold.core.rules import key_accounts
from leasehold.core.rules.measuring import count_entered, count_left
from leasehold.core.rules.placing import PendingEntry, Standing, entering, moving
from leasehold.core.rules.serving import Row
from leasehold.stores.tables.parking import TableKeyShelf
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep

AT_ITS_PLACE: Final = """
    ready.lane = coalesce(place.lane, job.lane)
    AND ready.tier = coalesce(place.tier, (100 - job.priority) * 1000)
    AND ready.turn = coalesce(place.turn, job.created_at) AND ready.seq = job.seq
"""
"""Joins a job to its row in `ready`, once it is joined to `place` if it has a row there."""
STANDING: Final = """
    ready.lane, ready.tier, ready.turn, ready.seq, ready.attempts, ready.available_at, job.priority,
    coalesce(raised.base, job.priority), job.created_at, job.deadline
"""
"""The columns of a Standing."""
FIND_STANDING: Final = f"""
    SELECT {STANDING} FROM job LEFT JOIN place ON place.seq = job.seq
        LEFT JOIN raised ON raised.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE job.seq = $1
"""


def standing_of(step: SqlConnection, seq: int) -> Standing | None:
    """The place of a job, if it is pending."""
    row = step.execute(FIND_STANDING, (seq,)).fetchone()
    return None if row is None else Standing(*row)


PLACE: Final = "ready.tier, ready.turn, ready.seq, ready.lane, ready.available_at"
CANDIDATE: Final = f"""
    {PLACE}, version, attempts, events, job.id, payload, codec, priority, allowance, lease_seconds,
    timeout_seconds, deadline, start_by, retry, metadata, job.parent_id, created_at, limit_key,
    job.lane
"""
"""The columns of a Candidate."""
# Most lanes have only one tier, which need not be looked up.
SPREAD: Final = """
    SELECT (SELECT min(tier) FROM ready WHERE lane = CAST($1 AS bigint)),
           (SELECT max(tier) FROM ready WHERE lane = CAST($1 AS bigint))
"""


class Candidate(NamedTuple):
    """A pending job as a lease reads it; its values may be damaged.

    A store may read further columns after these, known only to its own files.
    """

    tier: int
    turn: int
    seq: int
    stands_in: int
    """Its lane, or the number under which its key's parked jobs stand."""
    available_at: int
    version: int
    attempts: int
    events: int
    id: str
    payload: bytes
    codec: str | None
    priority: int
    allowance: int
    lease_seconds: float | None
    timeout_seconds: float | None
    deadline: int | None
    start_by: int | None
    retry: str | None
    metadata: str | None
    parent_id: str | None
    created_at: int
    limit_key: str | None
    lane: int


START_BY: Final = Candidate._fields.index("start_by")
LIMIT_KEY: Final = Candidate._fields.index("limit_key")
as_candidate: Final[Callable[[Row], Candidate]] = partial(tuple.__new__, Candidate)
"""Like `Candidate._make`, but without Python code, since it runs for every job."""


class Statements(NamedTuple):
    """The statements to read a lane; each takes the narrowing values, the lane, then the tier."""

    spread: str
    next_tier: str
    in_lane: str
    in_tier: str


class TableLaneReader:
    """See `leasehold.core.rules.serving.LaneReader`; the store defines how rows are fetched."""

    __slots__ = ("_db", "_narrow", "_statements")

    def __init__(self, db: Any, statements: Statements, narrow: tuple[str, ...] = ()) -> None:
        self._db: SqlConnection = db
        self._statements = statements
        self._narrow = narrow

    def has_one_tier(self, lane: int) -> bool:
        row = self._db.execute(self._statements.spread, (*self._narrow, lane)).fetchone()
        return bool(row[0] == row[1])

    def next_tier(self, lane: int, above: int, below: int) -> tuple[int, int] | None:
        where = (*self._narrow, lane, above, below)
        row: tuple[int, int] | None = self._db.execute(self._statements.next_tier, where).fetchone()
        return row


def keys_of(which: str) -> str:
    """Selects the keys in `ready` of these jobs; `which` follows their number."""
    return f"""
        SELECT coalesce(place.lane, job.lane), coalesce(place.tier, (100 - priority) * 1000),
               coalesce(turn, created_at), job.seq
        FROM job LEFT JOIN place USING (seq) WHERE job.seq {which}
    """


COUNT_EVENT: Final = f"""
    UPDATE ready SET events = events + 1 WHERE (lane, tier, turn, seq) IN ({keys_of("= $1")})
"""
# A parked job does not stand in its own lane.
HOME: Final = "SELECT lane FROM job WHERE seq = $1"

Newcomer = tuple[int, int, int, int, str | None]
"""lane, priority, the time now, number and parent_id of a newly submitted job."""
PendingJob = tuple[int, int, int]
"""number, lane and own priority of a job; a store that reads them again ignores the last."""


class TableReady(ABC):
    """The ready table in one write."""

    __slots__ = ("_step",)
    shelf: ClassVar[type[TableKeyShelf]]
    enter_rows: ClassVar[str]
    """For `many`, like the next two."""
    move_rows: ClassVar[str]
    remember_places: ClassVar[str]

    def __init__(self, step: Any) -> None:
        self._step: TableStep = step

    @abstractmethod
    def enter_new(self, newcomers: Sequence[Newcomer]) -> None:
        """Enter jobs submitted in this write, each at its default place."""

    @abstractmethod
    def _take_out(self, jobs: Sequence[PendingJob]) -> Sequence[tuple[int, int]]:
        """Delete the rows of these jobs; returns the lane and priority of each."""

    @abstractmethod
    def _forget_places(self, seqs: Sequence[int]) -> None: ...

    def enter(self, entries: Sequence[PendingEntry]) -> None:
        """Enter jobs that come from other states or need a place of their own."""
        step = self._step
        step.look_again()
        keys, places = entering(entries, step.now, cache(self._scoring_of))
        rows = [
            (*key, each.version, each.attempts, each.events, each.available_at, each.parent_id)
            for key, each in zip(keys, entries, strict=True)
        ]
        step.many(self.enter_rows, rows)
        step.now_stand(keys)
        step.many(self.remember_places, places)
        count_entered(step.count, [(each.lane, each.priority) for each in entries])
        if step.rules.key_limits:
            key_accounts.enter(self.shelf(step), keys)

    def left(self, counted: Sequence[tuple[int, int]], placed: Sequence[int]) -> None:
        """Count jobs whose rows a lease has just taken as no longer pending.

        `counted` has the lane and priority of each; `placed` are those with a place of their own.
        """
        if placed:
            self._forget_places(placed)
        count_left(self._step.count, counted)

    def leave_by_numbers(self, jobs: Sequence[PendingJob]) -> None:
        """Remove jobs, wherever they stand."""
        step = self._step
        step.look_again()
        seqs = [seq for seq, *_ in jobs]
        shelf = self.shelf(step)
        counted = shelf.counted_among(seqs) if step.rules.key_limits else {}
        count_left(step.count, self._take_out(jobs))
        self._forget_places(seqs)
        key_accounts.left(shelf, counted.values())

    def reprioritize(self, before: Standing, priority: int) -> None:
        """Move a job to where its new own priority puts it, and count it there."""
        step = self._step
        self.move([before._replace(priority=priority, base=priority)])
        home: Any = step.execute(HOME, (before.seq,)).fetchone()
        count_left(step.count, [(home[0], before.priority)])
        count_entered(step.count, [(home[0], priority)])

    def count_event(self, seq: int) -> None:
        """Count one more history event of a job that stays pending."""
        self._step.look_again()
        self._step.execute(COUNT_EVENT, (seq,))

    def move(self, standings: Sequence[Standing]) -> None:
        """Move pending jobs to where they belong now, given these values."""
        step = self._step
        shelf = self.shelf(step)
        counted = shelf.counted_among([each.seq for each in standings])
        moves = moving(standings, counted, step.now, cache(self._scoring_of))
        step.look_again()
        step.many(self.move_rows, moves.moved)
        step.now_stand((lane, tier, turn, seq) for tier, turn, lane, _, _, seq in moves.moved)
        step.many(self.remember_places, moves.placed)
        if moves.unplaced:
            self._forget_places(moves.unplaced)
        if counted:
            key_accounts.moved(shelf, counted.values())

    def _scoring_of(self, lane: int) -> Scoring:
        """The parameters of the queue of a lane."""
        step = self._step
        rule = step.rules.get(step.queue_of(lane) or "") if step.rules else None
        return DEFAULT_SCORING if rule is None else rule.config.scoring
