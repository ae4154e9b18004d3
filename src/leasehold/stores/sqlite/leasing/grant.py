"""Granting leases: making them of rows, and their writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

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
from leasehold.core.rules.placing import RowKey
from leasehold.env import from_micros
from leasehold.stores.sqlite.leasing.ready import LEAVE, ReadyRows
from leasehold.stores.sqlite.schema.rows import seconds_of
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.granting import Granted, count_granted
from leasehold.stores.tables.order import Candidate

GRANT: Final = "INSERT INTO running VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 0, ?, ?)"


def read(
    step: Step, request: LeaseRequest, lanes: Mapping[int, OpenLane], jobs: Sequence[Candidate]
) -> tuple[list[Granted], list[tuple[Candidate, str]]]:
    """Make leases of rows; beside them, those of which none can be made, and why."""
    now, floor, worker = step.now, step.version_floor, request.worker
    acquired_at = from_micros(now)
    lengths: dict[float, tuple[float, datetime]] = {}
    """By the requested length, how long a lease is, and until when."""
    granted: list[Granted] = []
    unreadable: list[tuple[Candidate, str]] = []
    by_task = request.lease_seconds_by_task or {}
    override = request.lease_seconds_override
    default_seconds = request.lease_seconds or step.settings.lease_seconds
    for job in jobs:
        # To unpack it once is faster than to ask it by name, and this is done for every job.
        (
            _, _, _, _, available_at, version, attempts, events, job_id, payload, codec, priority,
            allowance, lease_seconds, timeout_seconds, deadline, _, retry, metadata, parent_id,
            _, limit_key, lane_number,
        ) = job  # fmt: skip
        try:
            lane = lanes[lane_number]
            queue, task = lane.queue.name, lane.task
            if lease_seconds is not None:
                seconds_of("lease_seconds", lease_seconds)
            if timeout_seconds is not None:
                seconds_of("timeout_seconds", timeout_seconds)
            asked = override or lease_seconds or by_task.get(task) or default_seconds
            length = lengths.get(asked)
            if length is None:
                seconds = min(asked, step.settings.extension_seconds_max)
                length = lengths[asked] = (seconds, from_micros(now + round(seconds * 1e6)))
            lease = Lease(
                job_id=job_id,
                version=max(version, floor) + 1,
                worker=worker,
                queue=queue,
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
            if (
                type(payload) is not bytes
                or type(job_id) is not str
                or not 0 <= priority <= 100
                or type(allowance) is not int
                or type(events) is not int
                or type(available_at) is not int
                or (limit_key is not None and type(limit_key) is not str)
            ):
                raise ValueError("id, payload, priority, allowance, key or its past are none")
        except UNREADABLE as error:
            unreadable.append((job, problem_of(error)))
            continue
        granted.append((job, lease))
    return granted, unreadable


def grant(step: Step, granted: Sequence[Granted], life: int) -> None:
    """Let the jobs run, under this life of their worker."""
    now = step.now
    waits: defaultdict[tuple[int, Measure], list[int]] = defaultdict(list)
    keys: list[RowKey] = []
    counted: list[tuple[int, int]] = []
    placed: list[int] = []
    """Jobs that may have a row in `place` to forget."""
    running: list[tuple[Any, ...]] = []
    for job, lease in granted:
        (
            tier, turn, seq, stands_in, available_at, _, _, events, _, _, _, priority, _, _, _,
            deadline, _, _, _, _, created_at, limit_key, lane,
        ) = job  # fmt: skip
        waits[lane, WAIT_OF_PRIORITY[priority]].append(now - available_at)
        keys.append((stands_in, tier, turn, seq))
        counted.append((lane, priority))
        if (
            turn != created_at
            or limit_key is not None
            or deadline is not None
            or tier != default_tier(priority)
        ):
            placed.append(seq)
        micros, n = round(lease.lease_seconds * 1e6), events + 1
        running.append(
            (seq, lease.version, lease.worker, now, now + micros, now, lease.attempt, n, n,
             available_at, micros, life)
        )  # fmt: skip
    step.executemany(LEAVE, keys)
    step.executemany(GRANT, running)
    count_granted(step, ReadyRows(step), granted, waits, counted, placed)
