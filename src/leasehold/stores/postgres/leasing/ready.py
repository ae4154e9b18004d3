"""The ready table in the words of this database; see `tables.order`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.rules.measuring import count_entered
from leasehold.stores.postgres.leasing.parking import KeyShelf
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.order import Newcomer, PendingJob, TableReady, keys_of

# A new job's place is the default one, unless it has a deadline or its queue a max_priority.
ENTER_NEW: Final = f"""
    INSERT INTO ready
    SELECT lane, (100 - priority) * 1000, turn, seq, 0, 0, 1, turn, parent_id
    FROM {unnested("bigint bigint bigint bigint text")}
        AS new (lane, priority, turn, seq, parent_id)
"""  # noqa: S608  # our own names
ENTER: Final = f"""
    INSERT INTO ready SELECT * FROM {
    unnested("bigint bigint bigint bigint bigint bigint bigint bigint text")
}
"""  # noqa: S608  # our own names
MOVE: Final = f"""
    UPDATE ready SET tier = to_tier, turn = to_turn FROM {
    unnested("bigint bigint bigint bigint bigint bigint")
} AS moved (to_tier, to_turn, lane, tier, turn, seq)
    WHERE ready.lane = moved.lane AND ready.tier = moved.tier AND ready.turn = moved.turn
        AND ready.seq = moved.seq
"""  # noqa: S608  # our own names
REMEMBER_PLACES: Final = f"""
    INSERT INTO place (seq, tier, turn, crosses_at)
    SELECT * FROM {unnested("bigint bigint bigint bigint")}
    ON CONFLICT (seq) DO UPDATE
    SET tier = excluded.tier, turn = excluded.turn, crosses_at = excluded.crosses_at
"""  # noqa: S608  # our own names
FORGET_PLACES: Final = "DELETE FROM place WHERE seq = ANY($1)"
LEAVE_BY_NUMBERS: Final = f"""
    DELETE FROM ready WHERE (lane, tier, turn, seq) IN ({keys_of("= ANY($1)")})
"""  # noqa: S608  # our own names


class ReadyRows(TableReady):
    """The ready table in one write."""

    __slots__ = ()
    shelf = KeyShelf
    enter_rows = ENTER
    move_rows = MOVE
    remember_places = REMEMBER_PLACES
    _step: Step

    def enter_new(self, newcomers: Sequence[Newcomer]) -> None:
        self._step.look_again()
        self._step.many(ENTER_NEW, newcomers)
        count_entered(self._step.count, newcomers)

    def _take_out(self, jobs: Sequence[PendingJob]) -> Sequence[tuple[int, int]]:
        self._step.execute(LEAVE_BY_NUMBERS, ([seq for seq, *_ in jobs],))
        return [(lane, priority) for _, lane, priority in jobs]

    def _forget_places(self, seqs: Sequence[int]) -> None:
        self._step.execute(FORGET_PLACES, (list(seqs),))
