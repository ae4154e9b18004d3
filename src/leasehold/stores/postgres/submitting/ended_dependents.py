"""The dependents of ended jobs; see `tables.ended_dependents`."""

from __future__ import annotations

from typing import Final

from leasehold.stores.postgres.server.connection import POSTGRES
from leasehold.stores.tables.ended_dependents import TableDependents

_UP_TO: Final = "coalesce((SELECT up_to FROM ended_dependents AS known WHERE known.seq = {0}), 0)"


class DependentsBook(TableDependents):
    """See `leasehold.core.rules.ended_dependents.DependentsBook`."""

    __slots__ = ()
    dialect = POSTGRES
    up_to = _UP_TO
    count_further = f"""
        SELECT count(*) FROM (
            SELECT 1 FROM dependency AS link
            WHERE link.needs = ANY($1) AND link.seq > {_UP_TO.format("link.needs")} LIMIT $2
        ) AS further
    """  # noqa: S608  # our own names
