"""The state of the store that a write finds, and a process's memory of it between writes.

Generations, the base of versions and the open minute change rarely: rules of queues and settings
read at one generation remain valid while it is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from leasehold.core.model.seals import check_unsealed
from leasehold.core.rules.clock import HalfPace
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.stores.postgres.rules.known import read_rules, read_settings
from leasehold.stores.postgres.server.clock import SERVER_MICROS
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.tables.moving import READ_SEAL

LANES_TOLD: Final = 50
"""How many lanes with failures each write gets by number."""
WAS_RESTORED: Final = "table_number <> tableoid::bigint"
_ANY_WRITE: Final = f"""
    clock, {SERVER_MICROS}, pace_clock, pace_server,
    version_base, queue_generation, settings_generation, alone_generation, open_minute,
    (SELECT min(crosses_at) FROM place WHERE crosses_at IS NOT NULL),
    (SELECT min(due) FROM waiting WHERE due IS NOT NULL),
    server_started_at <> pg_postmaster_start_time() OR {WAS_RESTORED}, {WAS_RESTORED}, store_id
"""
# The part that only a write that is alone changes. It is most of the cost of a look.
_WRITES_ALONE: Final = f"""
    EXISTS (SELECT 1 FROM blocker), EXISTS (SELECT 1 FROM resolving),
    EXISTS (SELECT 1 FROM inheriting), EXISTS (SELECT 1 FROM rescoring),
    (SELECT min(due_at) FROM schedule WHERE due_at IS NOT NULL),
    EXISTS (SELECT 1 FROM lane WHERE held_until IS NOT NULL),
    ARRAY(SELECT id FROM lane WHERE failures_in_row > 0 ORDER BY id LIMIT {LANES_TOLD}),
    EXISTS (SELECT 1 FROM meta WHERE key = 'followed_at')
"""
READ: Final = f"""
    SELECT {_ANY_WRITE}, {_WRITES_ALONE}, EXISTS (SELECT 1 FROM lane_delta) FROM store_state
"""
READ_REST: Final = f"SELECT {_ANY_WRITE} FROM store_state"
"""The remaining part, for a process that remembers the rest at a generation that is probably
current.
"""
# Guard of a write that does not read the state: the state is as this process remembers it.
AS_REMEMBERED: Final = f"""
    store_id = $1 AND version_base = $2 AND queue_generation = $3 AND settings_generation = $4
    AND server_started_at = pg_postmaster_start_time() AND NOT {WAS_RESTORED}
"""
# A restarted server may be a different one, or restored, and have forgotten the last versions. The
# next ones start from the time, in units of about a microsecond that stay exact in doubles: no
# store grants leases that fast, so they are above all that were ever granted.
RAISE_VERSIONS: Final = """
    UPDATE store_state SET server_started_at = pg_postmaster_start_time(),
        table_number = store_state.tableoid::bigint, version_base = greatest(
        version_base, (extract(epoch FROM clock_timestamp()) * 1048576)::bigint - last.number)
    FROM (SELECT nextval('lease_version') AS number) AS last RETURNING version_base
"""

READ_INDEXED: Final = """
    SELECT lane.id, lane.queue FROM indexed_lane JOIN lane ON lane.id = indexed_lane.lane
"""

_NONE: Final = RuleBook()


class StateRow(NamedTuple):
    """The row that READ returns."""

    clock: int
    server: int
    pace_clock: int
    pace_server: int
    version_base: int
    queue_generation: int
    settings_generation: int
    alone_generation: int
    """The generation of everything that only a write that is alone changes: `somebody_waits` and
    the fields after it, except `has_deltas`.
    """
    open_minute: int
    next_crossing: int | None
    """When the next pending job has to move."""
    next_due: int | None
    """When the first waiting job becomes available."""
    server_was_started: bool
    """Whether the server was started, or a dump restored, since the store was last written to."""
    was_restored: bool
    """Whether it was a dump, whose leases must be taken back."""
    store_id: str
    """The id of the store that owns the tables."""
    somebody_waits: bool
    """Whether any job may wait for another; if not, an end concerns no other job."""
    some_unresolved: bool
    """Whether ended jobs may still block others."""
    some_inheriting: bool
    """Whether changes of priority have not yet reached all jobs that inherit them."""
    some_rescoring: bool
    """Whether jobs have to move because the parameters of their queue have changed."""
    next_tick: int | None
    """When to look at the first schedule."""
    some_held: bool
    """Whether circuit breakers may hold back a lane."""
    failing_lanes: list[int]
    """The first LANES_TOLD lanes whose circuit breakers have counted failures, which a completed
    job resets.
    """
    is_followed: bool
    """Whether the change feed is being recorded."""
    has_deltas: bool
    """Whether concurrent writes have counts not yet folded in; only a write that is alone reads
    this, before it reads a counter.
    """

    @property
    def pace(self) -> HalfPace:
        """From where the store's time has gone on since the server's clock was set back."""
        return HalfPace(self.pace_clock, self.pace_server)

    def now_with(self, rest: Sequence[Any]) -> StateRow:
        """The present state, from the row of READ_REST; valid if its generation is the same."""
        return StateRow(*rest, *self[len(rest) :])

    def may_be_failing(self, lanes: set[int]) -> bool:
        """Whether the breaker of any of these lanes may have counted failures."""
        failing = self.failing_lanes
        return len(failing) == LANES_TOLD or not lanes.isdisjoint(failing)


class Known(NamedTuple):
    """Rules and settings at a generation."""

    rules_at: int
    rules: RuleBook
    settings_at: int
    settings: SettingsInForce
    indexed: Mapping[int, str]
    """The lanes of which an accelerator keeps the order, each with its queue, at the generation of
    the rules.
    """


class Remembered:
    """One process's memory; a write that finds another generation reads again."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self.known: Known | None = None
        """The rules and settings read last, which a write will probably find unchanged."""
        self._workers: tuple[int, dict[tuple[str, int], int]] = (0, {})
        self.lanes_with_work: dict[tuple[str, ...], int | None] = {}
        """For each set of queues, the one lane in which the last lease found all of its jobs. It is
        only a guess, forgotten once a minute.
        """
        self._last_state: StateRow | None = None
        self.last_state: StateRow | None = None
        """The state that the last write found, if the one before it found the same generation. If
        many writes are alone, each write reads all of the state at once.
        """

    def note(self, found: StateRow) -> None:
        """Remember the state found by a write, in a transaction that sees only committed rows."""
        before, self._last_state = self._last_state, found
        is_calm = before is not None and before.alone_generation == found.alone_generation
        self.last_state = found if is_calm else None

    def worker_numbers(self, minute: int) -> dict[tuple[str, int], int]:
        """Numbers of workers seen in a lane in this minute; at its end some are forgotten."""
        if self._workers[0] != minute:
            self._workers = (minute, {})
            self.lanes_with_work = {}
        return self._workers[1]

    @property
    def rules(self) -> RuleBook:
        """The rules read last."""
        return _NONE if self.known is None else self.known.rules

    def has_indexed(self, queues: Collection[str]) -> bool:
        """Whether any lane of these queues probably has its order kept by an accelerator."""
        known = self.known
        return known is not None and any(queue in queues for queue in known.indexed.values())

    def at(self, db: SqlConnection, found: StateRow) -> Known:
        """Rules and settings at these generations, which must be committed."""
        known = self.known
        at = (found.queue_generation, found.settings_generation)
        if known is None or (known.rules_at, known.settings_at) != at:
            # A seal comes with a new generation: a process that has not seen that generation checks
            # for one here.
            row = db.execute(READ_SEAL).fetchone()
            check_unsealed(None if row is None else row[0], self._shown)
            indexed: dict[int, str] = dict(db.execute(READ_INDEXED).fetchall())
            known = Known(at[0], read_rules(db), at[1], read_settings(db), indexed)
            self.known = known
        return known
