"""The dependents of ended jobs; see `tables.ended_dependents`."""

from __future__ import annotations

from typing import Final

from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.tables.ended_dependents import TableDependents

# What cannot be read says nothing: all are looked at then.
_UP_TO: Final = """
    coalesce((SELECT up_to FROM ended_dependents AS known
              WHERE known.seq = {0} AND typeof(up_to) = 'integer'), 0)
"""


class DependentsBook(TableDependents):
    """See `leasehold.core.rules.ended_dependents.DependentsBook`."""

    __slots__ = ()
    dialect = SQLITE
    up_to = _UP_TO
    count_further = f"""
        SELECT count(*) FROM (
            SELECT 1 FROM json_each($1) AS each JOIN dependency AS link ON link.needs = each.value
            WHERE link.seq > {_UP_TO.format("each.value")} LIMIT $2)
    """  # noqa: S608  # our own names
