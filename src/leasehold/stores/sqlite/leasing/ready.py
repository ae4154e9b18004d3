"""The ready table in the words of this database; see `tables.order`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leasehold.core.rules.measuring import count_entered
from leasehold.stores.sqlite.leasing.parking import KeyShelf
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.order import Newcomer, PendingJob, TableReady, keys_of

# A new job's place is the default one, unless it has a deadline or its queue a max_priority.
ENTER_NEW: Final = "INSERT INTO ready VALUES (?1, (100 - ?2) * 1000, ?3, ?4, 0, 0, 1, ?3, ?5)"
ENTER: Final = "INSERT INTO ready VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
LEAVE: Final = "DELETE FROM ready WHERE lane = ? AND tier = ? AND turn = ? AND seq = ?"
MOVE: Final = """
    UPDATE ready SET tier = ?, turn = ? WHERE lane = ? AND tier = ? AND turn = ? AND seq = ?
"""
REMEMBER_PLACE: Final = """
    INSERT INTO place (seq, tier, turn, crosses_at) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE
    SET tier = excluded.tier, turn = excluded.turn, crosses_at = excluded.crosses_at
"""
FORGET_PLACE: Final = "DELETE FROM place WHERE seq = ?"
LEAVE_BY_NUMBER: Final = f"""
    DELETE FROM ready WHERE (lane, tier, turn, seq) IN ({keys_of("= $1")})
    RETURNING (SELECT lane FROM job WHERE job.seq = ready.seq),
              (SELECT priority FROM job WHERE job.seq = ready.seq)
"""  # noqa: S608  # our own names


class ReadyRows(TableReady):
    """The ready table in one write."""

    __slots__ = ()
    shelf = KeyShelf
    enter_rows = ENTER
    move_rows = MOVE
    remember_places = REMEMBER_PLACE
    _step: Step

    def enter_new(self, newcomers: Sequence[Newcomer]) -> None:
        self._step.write_many(ENTER_NEW, newcomers)
        count_entered(self._step.count, newcomers)

    def _take_out(self, jobs: Sequence[PendingJob]) -> Sequence[tuple[int, int]]:
        numbers = [(seq,) for seq, *_ in jobs]
        out: list[Any] = self._step.executemany(LEAVE_BY_NUMBER, numbers).fetchall()
        return out

    def _forget_places(self, seqs: Sequence[int]) -> None:
        self._step.executemany(FORGET_PLACE, [(seq,) for seq in seqs])
