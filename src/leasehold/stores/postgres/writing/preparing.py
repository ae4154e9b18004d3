"""What has to be done before a write that is alone changes anything.

It folds in the counts of writes that went side by side, ends a minute that is over, and is the
first to notice that the server was started, its clock set back, or a dump restored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.rules.clock import HalfPace, new_pace
from leasehold.core.rules.sampling import end_minute
from leasehold.stores.postgres.leasing.recover import take_back_restored
from leasehold.stores.postgres.reading.figures import SpanShelf
from leasehold.stores.postgres.writing.marks import forget_old_marks
from leasehold.stores.postgres.writing.remembered import RAISE_VERSIONS
from leasehold.stores.postgres.writing.step import Step

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.database import Database

SET_PACE: Final = "UPDATE store_state SET pace_clock = $1, pace_server = $2"


def is_of_open_minute(database: Database, step: Step) -> bool:
    """Whether a write may count towards the minute that the store has open."""
    # A clock that stands still would never end the minute.
    is_open = step.found.open_minute >= step.now // MINUTE_MICROS
    return is_open and not _new_pace(database, step)


def _new_pace(database: Database, step: Step) -> HalfPace | None:
    return new_pace(step.found.pace, step.now, database.clock.read(step.found.server))


def prepare(database: Database, step: Step) -> None:
    """Do what is due before this write, which is alone.

    The first write after a start of the server raises lease versions above all that were ever
    granted, including those that the server has lost. If it is a restored dump, its leases are
    taken back: they may have been overtaken since.
    """
    if step.found.server_was_started:
        row: Any = step.execute(RAISE_VERSIONS).fetchone()
        step.found = step.found._replace(version_base=row[0], server_was_started=False)
    if pace := _new_pace(database, step):
        step.execute(SET_PACE, pace)
        database.clock.note(pace)
    if step.found.has_deltas:
        step.fold()
    minute = step.now // MINUTE_MICROS
    if minute > step.found.open_minute:
        end_minute(SpanShelf(step.db), minute)
        forget_old_marks(step)
    if step.found.was_restored:
        take_back_restored(step)
        step.found = step.found._replace(was_restored=False)
