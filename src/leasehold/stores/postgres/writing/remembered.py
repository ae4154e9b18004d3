"""The state of the store as a write finds it, and a process's memory of it between writes.

Generations, the base of versions and the open minute change rarely: the rules of queues and the
settings that were read at a generation are still true while it is the same.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from leasehold.core.model.seals import check_unsealed
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.stores.postgres.rules.known import read_rules, read_settings
from leasehold.stores.postgres.server.clock import SERVER_MICROS
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.tables.moving import READ_SEAL

LANES_TOLD: Final = 50
"""How many lanes with failures each write is told of by number."""
WAS_RESTORED: Final = "table_number <> tableoid::bigint"
_ANY_WRITE: Final = f"""
    clock, {SERVER_MICROS}, version_base, queue_generation, settings_generation,
    alone_generation, open_minute,
    (SELECT min(crosses_at) FROM place WHERE crosses_at IS NOT NULL),
    (SELECT min(due) FROM waiting WHERE due IS NOT NULL),
    server_started_at <> pg_postmaster_start_time() OR {WAS_RESTORED}, {WAS_RESTORED}, store_id
"""
# What only a write that has the store to itself changes. It is most of the cost of a look.
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
"""The same for a process that remembers the rest, at a generation that is probably the same."""
# Guard of a write that does not look at the state: it is as this process remembers it.
AS_REMEMBERED: Final = f"""
    store_id = $1 AND version_base = $2 AND queue_generation = $3 AND settings_generation = $4
    AND server_started_at = pg_postmaster_start_time() AND NOT {WAS_RESTORED}
"""
# A server that was started may be another one, or restored, and have forgotten the last versions.
# The next ones begin at the time, in units of about a microsecond that stay exact where numbers are
# doubles: no store grants leases as fast as that, so they are above all that were ever granted.
RAISE_VERSIONS: Final = """
    UPDATE store_state SET server_started_at = pg_postmaster_start_time(),
        table_number = store_state.tableoid::bigint, version_base = greatest(
        version_base, (extract(epoch FROM clock_timestamp()) * 1048576)::bigint - last.number)
    FROM (SELECT nextval('lease_version') AS number) AS last RETURNING version_base
"""

_NONE: Final = RuleBook()


class StateRow(NamedTuple):
    """What READ gives."""

    clock: int
    server: int
    version_base: int
    queue_generation: int
    settings_generation: int
    alone_generation: int
    """Of all that only a write that has the store to itself changes: `somebody_waits` and what
    follows it, but for `has_deltas`."""
    open_minute: int
    next_crossing: int | None
    """When the first pending job has to be placed anew."""
    next_due: int | None
    """When the first waiting job becomes available."""
    server_was_started: bool
    """Whether the server was started, or a dump restored, since the store was last written to."""
    was_restored: bool
    """Whether it was a dump: then its leases are to be taken back."""
    store_id: str
    """The store whose tables they are."""
    somebody_waits: bool
    """Whether any job may wait for another: if not, an end concerns no other job."""
    some_unresolved: bool
    """Whether jobs that ended may still block others."""
    some_inheriting: bool
    """Whether changes of priority have not reached everybody that inherits them."""
    some_rescoring: bool
    """Whether jobs have to be placed anew since what counts in their queue has changed."""
    next_tick: int | None
    """When the first schedule is to be looked at."""
    some_held: bool
    """Whether circuit breakers may hold back a lane."""
    failing_lanes: list[int]
    """Those whose circuit breakers have counted failures, which a completed job ends; the first
    LANES_TOLD of them."""
    is_followed: bool
    """Whether the change feed is kept."""
    has_deltas: bool
    """Whether writes that went side by side have counts that are not folded in yet; only a write
    that has the store to itself asks."""

    def now_with(self, rest: Sequence[Any]) -> StateRow:
        """The state as it is now, by what READ_REST gives; true if its generation is the same."""
        return StateRow(*rest, *self[len(rest) :])

    def may_be_failing(self, lanes: set[int]) -> bool:
        """Whether the breaker of any of these lanes may have counted failures."""
        failing = self.failing_lanes
        return len(failing) == LANES_TOLD or not lanes.isdisjoint(failing)


class Known(NamedTuple):
    """Rules and settings, as they were at a generation."""

    rules_at: int
    rules: RuleBook
    settings_at: int
    settings: SettingsInForce


class Remembered:
    """Belongs to one process; a write that finds another generation reads again."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._mutex = threading.Lock()
        self.known: Known | None = None
        """The rules and settings that were read last: a write will probably find the same."""
        self._workers: tuple[int, dict[tuple[str, int], int]] = (0, {})
        self.lanes_with_work: dict[tuple[str, ...], int | None] = {}
        """Of each set of queues, the one lane in which the last lease found all of its jobs. It is
        only a guess; it is forgotten once a minute."""
        self._last_state: StateRow | None = None
        self.last_state: StateRow | None = None
        """The state that the last write found, if the one before found the same generation: where
        many writes have the store to themselves, each write reads all of it at once."""

    def note(self, found: StateRow) -> None:
        """A write has found this, in a transaction that sees nothing but what is committed."""
        before, self._last_state = self._last_state, found
        is_calm = before is not None and before.alone_generation == found.alone_generation
        self.last_state = found if is_calm else None

    def worker_numbers(self, minute: int) -> dict[tuple[str, int], int]:
        """Of workers that were met in a lane in this minute; at its end some are forgotten."""
        if self._workers[0] != minute:
            self._workers = (minute, {})
            self.lanes_with_work = {}
        return self._workers[1]

    @property
    def rules(self) -> RuleBook:
        """Those that were read last."""
        return _NONE if self.known is None else self.known.rules

    def at(self, db: SqlConnection, found: StateRow) -> Known:
        """Rules and settings at these generations, which must be committed."""
        known = self.known
        at = (found.queue_generation, found.settings_generation)
        if known is None or (known.rules_at, known.settings_at) != at:
            # A seal comes with another generation: a process that has not met it looks for it here.
            row = db.execute(READ_SEAL).fetchone()
            check_unsealed(None if row is None else row[0], self._shown)
            known = Known(at[0], read_rules(db), at[1], read_settings(db))
            with self._mutex:
                self.known = known
        return known
