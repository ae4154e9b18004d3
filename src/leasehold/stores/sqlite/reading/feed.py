"""The change feed, as triggers of SQLite; see `tables.feed`."""

from __future__ import annotations

from typing import Any, Final

import apsw

from leasehold.core.model.changes import CHANGES_KEPT
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.feed import Bounds, TableFeed, noted

_TRIMMED_AT_ONCE: Final = 1000
TRIGGERS: Final = {
    each.trigger: (
        f"CREATE TRIGGER {each.trigger} AFTER {each.what} ON {each.table} "
        f"BEGIN {each.statement}; END"
    )
    for each in noted()
} | {
    "change_trimmed": (
        "CREATE TRIGGER change_trimmed AFTER INSERT ON change "
        f"WHEN NEW.n % {_TRIMMED_AT_ONCE} = 0 "
        f"BEGIN DELETE FROM change WHERE n <= NEW.n - {CHANGES_KEPT}; END"
    )
}
_BOUNDS: Final = """
    SELECT (SELECT min(n) FROM change), coalesce((SELECT seq FROM sqlite_sequence
        WHERE name = 'change'), 0), (SELECT CAST(value AS BLOB) FROM meta
            WHERE key = 'followed_at')
"""


class Feed(TableFeed):
    """The feed of a SQLite store, which its own triggers trim."""

    def bounds(self, db: apsw.Connection) -> Bounds:
        row: Any = db.execute(_BOUNDS).fetchone()
        oldest, latest, followed_at = row
        if followed_at is not None:
            # An invalid time counts as long ago: the next look writes it again.
            followed_at = int(followed_at) if followed_at.isdigit() else 0
        return Bounds(latest if oldest is None else oldest - 1, latest, followed_at)

    def make_triggers(self, step: Step) -> None:
        for statement in TRIGGERS.values():
            step.execute(statement)

    def drop_triggers(self, step: Step) -> bool:
        for trigger in TRIGGERS:
            step.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        return True

    def trim(self, step: Step, latest: int) -> None:
        """Does nothing: the trigger `change_trimmed` trims it."""


FEED: Final = Feed()
