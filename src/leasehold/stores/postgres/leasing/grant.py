"""Granting leases: making them of rows, which have two columns more than a Candidate (`order`), and
their writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from leasehold.core.model.lease import Lease, LeaseRequest
from leasehold.core.model.priority import default_tier
from leasehold.core.model.span import WAIT_OF_PRIORITY, Measure
from leasehold.core.model.stored import (
    UNREADABLE,
    metadata_of,
    problem_of,
    retry_of,
)
from leasehold.core.rules.leasing import OpenLane
from leasehold.core.rules.serving import Row
from leasehold.env import from_micros
from leasehold.stores.postgres.leasing.ready import ReadyRows
from leasehold.stores.postgres.server.arrays import RowPlaces
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.granting import Granted, count_granted
from leasehold.stores.tables.order import Candidate

# The rows of `ready` were read in this write, and locked: they were not moved since. All that is
# the same in both tables stays inside the server.
GRANT: Final = f"""
    WITH leased AS (
        DELETE FROM ready USING {unnested("tid bigint bigint")} AS taken (row, version, micros)
        WHERE ready.ctid = taken.row
        RETURNING seq, taken.version, attempts, events, available_at, micros)
    INSERT INTO running
    SELECT seq, version, $4::text, $5::bigint, $5::bigint + micros, $5::bigint, attempts + 1,
           events + 1, events + 1, available_at, NULL, micros, $6::integer
    FROM leased
"""  # noqa: S608  # our own names


def read(
    step: Step, request: LeaseRequest, lanes: Mapping[int, OpenLane], jobs: Sequence[Candidate]
) -> tuple[list[Granted], list[tuple[Candidate, str]]]:
    """Make leases of rows; beside them, those of which none can be made, and why."""
    now, worker = step.now, request.worker
    acquired_at = from_micros(now)
    lengths: dict[float, tuple[float, datetime]] = {}
    """By the requested length, how long a lease is, and until when."""
    granted: list[Granted] = []
    unreadable: list[tuple[Candidate, str]] = []
    by_task = request.lease_seconds_by_task or {}
    override = request.lease_seconds_override
    default_seconds = request.lease_seconds or step.settings.lease_seconds
    # With a new number of the sequence it is above all versions that were ever granted.
    base = step.found.version_base
    for job in jobs:
        # Taken apart at once: to ask for each by its name takes as long as to make the lease.
        columns: Row = job
        (
            _, _, _, _, _, _, attempts, _, job_id, payload, codec, priority, allowance, own_seconds,
            timeout_seconds, deadline, _, retry, metadata, parent_id, _, _, lane_number, number, _,
        ) = columns  # fmt: skip
        lane = lanes[lane_number]
        task = lane.task
        asked = override or own_seconds or by_task.get(task) or default_seconds
        length = lengths.get(asked)
        if length is None:
            seconds = min(asked, step.settings.extension_seconds_max)
            length = lengths[asked] = (seconds, from_micros(now + round(seconds * 1e6)))
        try:
            lease = Lease(
                job_id=job_id,
                version=base + number,
                worker=worker,
                queue=lane.queue.name,
                task=task,
                payload=payload,
                codec=codec or "json",
                priority=priority,
                attempt=attempts + 1,
                allowance=allowance,
                acquired_at=acquired_at,
                expires_at=length[1],
                lease_seconds=length[0],
                timeout_seconds=timeout_seconds,
                deadline=None if deadline is None else from_micros(deadline),
                retry=None if retry is None else retry_of(retry),
                metadata=None if metadata is None else metadata_of(metadata),
                parent_id=parent_id,
            )
        except UNREADABLE as error:
            unreadable.append((job, problem_of(error)))
            continue
        granted.append((job, lease))
    return granted, unreadable


def grant(step: Step, granted: Sequence[Granted], life: int) -> None:
    """Let the jobs run, under this life of their worker."""
    if not granted:
        return
    now = step.now
    worker = granted[0][1].worker
    waits: defaultdict[tuple[int, Measure], list[int]] = defaultdict(list)
    rows, counted, lengths, grants = RowPlaces(), [], [], {}
    placed: list[int] = []
    """Jobs that may have a row in `place` to forget."""
    for job, lease in granted:
        columns: Row = job
        (
            tier, turn, seq, _, available_at, _, _, _, job_id, _, _, priority, _, _, _, deadline, _,
            _, _, _, created_at, limit_key, lane, _, row,
        ) = columns  # fmt: skip
        rows.append(row)
        counted.append((lane, priority))
        lengths.append(round(lease.lease_seconds * 1e6))
        waits[lane, WAIT_OF_PRIORITY[priority]].append(now - available_at)
        grants[lease.version] = (job_id, seq, lane, lease.queue, worker, lease.attempt, now)
        if (
            turn != created_at
            or limit_key is not None
            or deadline is not None
            or tier != default_tier(priority)
        ):
            placed.append(seq)
    step.execute(GRANT, (rows, list(grants), lengths, worker, now, life))
    step.grants.add(grants)
    count_granted(step, ReadyRows(step), granted, waits, counted, placed)
