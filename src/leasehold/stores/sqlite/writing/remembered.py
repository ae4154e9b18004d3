"""A writer's memory from one write to the next, so that most writes learn the state for nothing.

The state of the store changes with every write in three numbers only. The rest (generations, the
open minute, the basis of the clock) is compared as a whole with the last reading: while it is the
same, so are the rules, the settings and the basis that were made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import apsw

from leasehold.core.model.seals import check_unsealed
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.clock import ClockBasis
from leasehold.core.rules.rule_book import RuleBook
from leasehold.env import Env
from leasehold.stores.sqlite.rules.known import KnownSettings, RuleCache
from leasehold.stores.sqlite.schema.rows import WHOLE_MAX
from leasehold.stores.sqlite.writing import own_state
from leasehold.stores.sqlite.writing.clock import BASIS
from leasehold.stores.tables.moving import READ_SEAL

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.step import Step

# A value that is no number is above all numbers: a place that cannot be read is left out.
READ_STATE: Final = f"""
    SELECT clock, version_floor, next_seq, EXISTS (SELECT 1 FROM blocker),
           EXISTS (SELECT 1 FROM resolving) + 2 * EXISTS (SELECT 1 FROM inheriting),
           (SELECT min(crosses_at) FROM place WHERE crosses_at <= {MOMENT_MAX}),
           EXISTS (SELECT 1 FROM rescoring),
           queue_generation, settings_generation, open_minute, {BASIS}
    FROM store_state
"""  # noqa: S608  # our own names
_CHANGING: Final = 7
"""So many of them may differ from write to write."""


NOTHING_LEFT: Final = (0, 0, None, 0)
"""What earlier writes have left to others, most of the time."""


class Remembered:
    """Belongs to one connection that writes."""

    def __init__(self) -> None:
        self._rules = RuleCache()
        self._settings = KnownSettings()
        self._steady: tuple[Any, ...] = ()
        self.rules = RuleBook()
        self.settings = self._settings.unset
        self.basis = ClockBasis()
        self.open_minute = 0
        self.worker_numbers: dict[tuple[str, int], int] = {}
        """Of this minute: idle workers are forgotten at its end."""
        self._step: Step | None = None
        """The last write, where it has left nothing behind."""
        self._step_at: tuple[apsw.Cursor | None, int] = (None, 0)
        """Of which connection, and at which version of the file for it."""

    def read(self, db: apsw.Connection, cursor: apsw.Cursor, env: Env) -> tuple[Any, ...]:
        """The state of the store, what changes of it; the rest is remembered here.

        Damage is put right first, in the write under way.
        """
        try:
            row: Any = cursor.execute(READ_STATE).fetchone()
            clock, floor, next_seq = row[:3]
            is_sound = (
                type(clock) is type(floor) is type(next_seq) is int
                and 0 <= clock <= MOMENT_MAX
                and 0 <= floor <= WHOLE_MAX
                and 0 < next_seq <= WHOLE_MAX
            )
        except (TypeError, ValueError):
            is_sound = False
        if not is_sound or row[_CHANGING:] != self._steady:
            if own_state.put_state_right(db, env) or not is_sound:
                row = db.execute(READ_STATE).fetchone()
            self._learn(db, row[_CHANGING:])
        changing: tuple[Any, ...] = row[:_CHANGING]
        return changing

    def keep(self, step: Step, cursor: apsw.Cursor) -> None:
        """Said after the commit of a write that knows all it has changed of the store's state: as
        long as nobody else writes, the next write need not ask for it.
        """
        self._step = step
        # Any other commit makes it another version, this connection's own among them.
        self._step_at = (cursor, step.db.data_version())

    def take_up(self, db: apsw.Connection, cursor: apsw.Cursor) -> Step | None:
        """That write, if the store is as it left it. Only inside the next one."""
        step = self._step
        if step is None:
            return None
        # Forgotten at once: a write that says nothing at its end may have changed anything.
        self._step = None
        return step if self._step_at == (cursor, db.data_version()) else None

    def _learn(self, db: apsw.Connection, steady: tuple[Any, ...]) -> None:
        # A seal comes with another generation, so a process that has not met it looks for it here.
        row: Any = db.execute(READ_SEAL).fetchone()
        check_unsealed(None if row is None else row[0], db.filename)
        generation, set_at, self.open_minute, *basis = steady
        self.rules = self._rules.at(db, generation)
        self.settings = self._settings.at(db, set_at)
        self.basis = ClockBasis(*basis)
        self.worker_numbers = {}
        self._steady = steady
