"""Graphs of jobs; see `tables.graph`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.model.graph import Graph
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.tables.graph import graph_of

# Not by way of a job that is gone: its dependents have nothing to do with each other. One step of
# a recursion may name `linked` once only.
_LINKED: Final = """
    WITH RECURSIVE linked (seq) AS (
        SELECT seq FROM job WHERE id = ANY($1)
        UNION SELECT step.other FROM linked JOIN LATERAL (
            SELECT needs AS other FROM dependency JOIN job ON job.seq = needs
            WHERE dependency.seq = linked.seq
            UNION ALL SELECT dependency.seq FROM dependency WHERE needs = linked.seq
        ) AS step ON true
    )
"""


def graph(db: SqlConnection, job_ids: Sequence[str]) -> Graph:
    """These jobs and all that are linked with them."""
    return graph_of(db, _LINKED, list(job_ids))
