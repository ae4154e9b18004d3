"""Graphs of jobs; see `tables.graph`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from leasehold.core.model.graph import Graph
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.tables.graph import graph_of

# Not by way of a job that is gone: its dependents have nothing to do with each other.
_LINKED: Final = f"""
    WITH RECURSIVE linked (seq) AS (
        SELECT seq FROM job WHERE {SQLITE.among("id", "$1")}
        UNION SELECT needs FROM linked JOIN dependency USING (seq) JOIN job ON job.seq = needs
        UNION SELECT dependency.seq FROM linked JOIN dependency ON needs = linked.seq
    )
"""  # noqa: S608  # our own names


def graph(db: apsw.Connection, job_ids: Sequence[str]) -> Graph:
    """These jobs and all that are linked with them."""
    return graph_of(db, _LINKED, SQLITE.listed(job_ids))
