"""The pending jobs of lanes as `core.rules.serving` reads them; every statement is a seek."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from leasehold.core.rules.serving import Row
from leasehold.stores.tables.statements import SqlConnection

PLACE: Final = "ready.tier, ready.turn, ready.seq, ready.lane, ready.available_at"
CANDIDATE: Final = f"""
    {PLACE}, version, attempts, events, job.id, payload, codec, priority, allowance, lease_seconds,
    timeout_seconds, deadline, start_by, retry, metadata, job.parent_id, created_at, limit_key,
    job.lane
"""
"""The columns of a Candidate."""
# Most lanes have one tier only, and need not be asked which.
SPREAD: Final = """
    SELECT (SELECT min(tier) FROM ready WHERE lane = CAST($1 AS bigint)),
           (SELECT max(tier) FROM ready WHERE lane = CAST($1 AS bigint))
"""


class Candidate(NamedTuple):
    """A pending job as a lease reads it; its values may be damaged.

    A store may read further columns behind these, which only its own files know.
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


as_candidate: Final[Callable[[Row], Candidate]] = partial(tuple.__new__, Candidate)
"""As `Candidate._make`, but nothing of it is Python code: it is done for every job."""


class Statements(NamedTuple):
    """How to look into a lane; each takes the values that narrow it, the lane, then the tier."""

    spread: str
    next_tier: str
    in_lane: str
    in_tier: str


class TableLaneReader:
    """See `leasehold.core.rules.serving.LaneReader`; how rows are fetched is the store's."""

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
