"""Which lanes have their order kept by the accelerator, and the thread that keeps it.

Normally none has: PostgreSQL finds the first job of a lane by a seek. But as long as somebody keeps
an old snapshot open, the server may remove no row that was deleted since, and each lease reads past
the rows of all jobs that were leased meanwhile. The keeper counts these rows, in the lanes that its
process leases from. Where there are too many, the lane is *indexed*: from the commit of a write
that has the store to itself, every write that lets a job enter the lane tells the accelerator, and
leases ask that. The keeper fills the lane there, again and again: what was lost on the way is found
by the next filling. When the rows are removed, the lane is indexed no more.

One process fills a lane at a time, under an advisory lock, which only saves work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import psycopg

from leasehold.core.contract.accelerator import ReadyIndex, Spot
from leasehold.errors import LeaseholdError
from leasehold.stores.postgres.leasing.fronts import SPOTS_KEPT, Fronts
from leasehold.stores.postgres.server.connection import SqlConnection, unnested
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.step import READY

logger = logging.getLogger("leasehold.store")

DEAD_ROWS_MAX: Final = 10_000
"""A lane is indexed when a lease reads past more dead rows than this: that takes about as long as
asking the accelerator, and confirming what it says.
"""
DEAD_ROWS_MIN: Final = 1_000
"""It is indexed no more when there are fewer."""
LANES_MAX: Final = 50
"""How many lanes are indexed at most, and looked at in one round."""

LOOK_SECONDS: Final = 2.0
"""How often the keeper looks."""
FILL_SECONDS: Final = 15.0
"""How old a filling may be."""
FILL_AGAIN_SECONDS: Final = 0.5
"""How old it is at least when the lane is filled again because leases asked for it."""
REST_FACTOR: Final = 5
"""After a round, the keeper rests this many times as long as it took."""
REFUSED_SECONDS: Final = 60.0
"""How long it waits before it changes again which lanes are indexed, if that was in vain."""

READ_PAST: Final = """
    EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON)
    SELECT tier FROM ready WHERE lane = {} ORDER BY lane, tier, turn, seq LIMIT 1
"""
FIRST: Final = """
    SELECT tier, turn, seq FROM ready WHERE lane = $1 ORDER BY lane, tier, turn, seq LIMIT $2
"""
MAY_FILL: Final = "SELECT pg_try_advisory_xact_lock(hashtextextended('leasehold index ' || $1, $2))"
INDEXED: Final = "SELECT lane FROM indexed_lane ORDER BY lane"
NAMES: Final = "SELECT id, queue, task FROM lane WHERE id = ANY($1)"
INDEX: Final = f"""
    INSERT INTO indexed_lane SELECT * FROM {unnested("bigint")}
    ON CONFLICT DO NOTHING RETURNING lane
"""
INDEX_NO_MORE: Final = "DELETE FROM indexed_lane WHERE lane = ANY($1) RETURNING lane"


class IndexKeeper:
    """Keeps the index of one store, in a thread of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread: threading.Thread | None = None
        self._may_change_at = 0.0

    def begin(self) -> None:
        """Start the thread if there is an accelerator; called by all who lease, now and then."""
        database = self._database
        if database.accelerator is None or database.fronts.is_over.is_set():
            return
        # A forked child has no thread yet.
        if self._thread is None or not self._thread.is_alive():
            fronts = database.fronts
            self._thread = threading.Thread(
                target=self._keep, args=(fronts,), name="leasehold-index", daemon=True
            )
            self._thread.start()

    def join(self) -> None:
        """Wait a moment for the end of the thread, when the store is closed."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(LOOK_SECONDS)

    def _keep(self, fronts: Fronts) -> None:
        clock = self._database.env.clock
        while not fronts.is_over.is_set():
            began, is_asked = clock.monotonic(), fronts.is_short.is_set()
            fronts.is_short.clear()
            try:
                self.look(FILL_AGAIN_SECONDS if is_asked else FILL_SECONDS)
            except (LeaseholdError, psycopg.Error) as error:
                # Leases and settlements meet it too, and say it.
                logger.debug("%s: no look at the index: %s", self._database.address.shown, error)
            took = clock.monotonic() - began
            fronts.is_over.wait(max(FILL_AGAIN_SECONDS, REST_FACTOR * took))
            fronts.is_short.wait(LOOK_SECONDS)

    def look(self, seconds_max: float = FILL_SECONDS) -> None:
        """One round: fill the indexed lanes that were not filled for so long, and change which
        lanes are indexed.
        """
        database, index = self._database, self._database.fronts.index
        if index is None:
            return
        leased_from, database.fronts.leased_from = database.fronts.leased_from, set()
        with database.beside_all() as db:
            indexed = {lane for (lane,) in db.execute(INDEXED)}
            looked_at = sorted(leased_from - indexed)[:LANES_MAX]
            slow = [lane for lane in looked_at if _dead_rows(db, lane) > DEAD_ROWS_MAX]
        old = [lane for lane in sorted(indexed) if _is_old(index, lane, seconds_max)]
        useless = [lane for lane in old if not self._fill(index, lane)]
        clock = database.env.clock
        more = slow[: LANES_MAX - len(indexed)]
        if (more or useless) and clock.monotonic() >= self._may_change_at:
            self._may_change_at = clock.monotonic() + REFUSED_SECONDS
            refused = self.change(more, useless)
            if refused:
                self.change([], refused)
            else:
                self._may_change_at = 0.0

    def change(self, more: Sequence[int], fewer: Sequence[int]) -> Sequence[int]:
        """Begin to index these lanes, and index those no more. Returns those of the former that the
        accelerator has refused.
        """

        def write(step: Step) -> tuple[list[int], list[int]]:
            # Another process may have been first.
            gone = [*_lanes(step.execute(INDEX_NO_MORE, (list(fewer),)))]
            left = LANES_MAX - len(step.execute(INDEXED).fetchall())
            new = [*_lanes(step.many(INDEX, [(lane,) for lane in more[: max(0, left)]]))]
            if new or gone:
                # All processes learn of it with their next write.
                step.rules_changed()
            return new, gone

        new, gone = self._database.write(write)
        index = self._database.fronts.index
        if index is None:
            return []
        index.forget(gone)
        self._log(new, "%s: an old transaction keeps rows of leased jobs in PostgreSQL; until it "
                  "ends, leases find the jobs of queue %r, task %r, through Redis")  # fmt: skip
        self._log(gone, "%s: leases find the jobs of queue %r, task %r, without Redis again")
        return [lane for lane in new if not self._fill(index, lane)]

    def _log(self, lanes: Collection[int], message: str) -> None:
        if lanes:
            with self._database.beside_all() as db:
                for _, queue, task in db.execute(NAMES, (list(lanes),)).fetchall():
                    logger.info(message, self._database.address.shown, queue, task)

    def _fill(self, index: ReadyIndex, lane: int) -> bool:
        """Fill a lane, unless another process does. Returns whether it is of use to index it: it
        is not if the accelerator refuses it, or if PostgreSQL is fast again.
        """
        database = self._database
        with database.beside_all() as db:
            row: Any = db.execute(MAY_FILL, (database.address.schema, lane)).fetchone()
            if not row[0]:
                return True

            def read() -> tuple[Sequence[Spot], bool]:
                spots: Any = db.execute(FIRST, (lane, SPOTS_KEPT)).fetchall()
                return spots, len(spots) < SPOTS_KEPT

            index.fill(lane, read)
            front = index.fronts([lane], 1).get(lane)
            if front is None:
                return database.fronts.index is None
            if front.spots:
                # Who waits for a job of which the index did not know may find it now.
                database.after_commit(READY)
            return _dead_rows(db, lane) >= DEAD_ROWS_MIN


def _is_old(index: ReadyIndex, lane: int, seconds_max: float) -> bool:
    """Whether the lane is not known, or was not filled for so long."""
    age = index.age_seconds(lane)
    return age is None or age >= seconds_max


def _lanes(rows: Iterable[Any] | None) -> Iterator[int]:
    return (lane for (lane,) in rows or ())


def _dead_rows(db: SqlConnection, lane: int) -> int:
    """How many rows a lease reads past to find the first job of a lane."""
    for _ in range(2):
        # The first look makes the server note the rows that nobody needs, which the second one and
        # all leases skip.
        row: Any = db.execute(READ_PAST.format(lane)).fetchone()
        plan: Any = row[0][0]["Plan"]
        read: int = plan["Plans"][0].get("Heap Fetches", 0)
        if read < DEAD_ROWS_MIN:
            break
    return read
