"""The change feed, as triggers of PostgreSQL; see `tables.feed`."""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.model.changes import CHANGES_KEPT
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.feed import Bounds, TableFeed, noted

_BOUNDS: Final = """
    SELECT (SELECT value::bigint FROM meta WHERE key = 'followed_from'),
           coalesce((SELECT max(n) FROM change),
                    (SELECT value::bigint FROM meta WHERE key = 'followed_from'), 0),
           (SELECT value FROM meta WHERE key = 'followed_at')
"""
_FOLLOW_FROM: Final = """
    INSERT INTO meta SELECT 'followed_from', last_value::text FROM change_n_seq
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
_TRIM: Final = "DELETE FROM change WHERE n <= $1"


class Feed(TableFeed):
    """The feed of a PostgreSQL store. Sweeps trim it, and what they have not is as good as gone.

    Some numbers are missing: of writes that were rolled back.
    """

    def bounds(self, db: SqlConnection) -> Bounds:
        row: Any = db.execute(_BOUNDS).fetchone()
        followed_from, latest, followed_at = row
        since = max(followed_from or 0, latest - CHANGES_KEPT)
        return Bounds(since, latest, None if followed_at is None else int(followed_at))

    def make_triggers(self, step: Step) -> None:
        step.execute(_FOLLOW_FROM)
        for each in noted():
            step.execute(
                f"CREATE FUNCTION {each.trigger}() RETURNS trigger LANGUAGE plpgsql "
                f"AS $body$ BEGIN {each.statement}; RETURN NULL; END $body$"
            )
            step.execute(
                f"CREATE TRIGGER {each.trigger} AFTER {each.what} ON {each.table} FOR EACH ROW "
                f"EXECUTE FUNCTION {each.trigger}()"
            )

    def drop_triggers(self, step: Step) -> None:
        for each in noted():
            step.execute(f"DROP FUNCTION IF EXISTS {each.trigger}() CASCADE")

    def trim(self, step: Step, latest: int) -> None:
        step.execute(_TRIM, (latest - CHANGES_KEPT,))


FEED: Final = Feed()
