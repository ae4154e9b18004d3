"""Granting leases: what the rows of a lease come to, and what is written for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from leasehold.core.lease import Lease, LeaseRequest
from leasehold.core.leasing import OpenLane
from leasehold.core.priority import default_tier
from leasehold.core.status import Status
from leasehold.env import from_micros
from leasehold.stores.sqlite.leasing import parking, ready
from leasehold.stores.sqlite.leasing.order import Candidate
from leasehold.stores.sqlite.schema.rows import (
    UNREADABLE,
    metadata_of,
    problem_of,
    retry_of,
    seconds_of,
)
from leasehold.stores.sqlite.writing.step import Step

GRANT: Final = "INSERT INTO running VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 0)"


class Grants:
    """The leases, and what is to be written for them."""

    __slots__ = ("granted", "leases", "left", "numbers", "of_keys", "placed", "taken", "waits")

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.numbers: list[tuple[int, int]] = []
        """Number and lane of each."""
        self.taken: list[ready.Key] = []
        self.granted: list[tuple[Any, ...]] = []
        self.placed: list[int] = []
        self.left: list[tuple[int, int]] = []
        self.of_keys: Counter[tuple[str, str, int]] = Counter()
        self.waits: dict[int, list[int]] = {}


def read(
    step: Step, request: LeaseRequest, lanes: Mapping[int, OpenLane], jobs: Sequence[Candidate]
) -> tuple[Grants, list[tuple[int, str]]]:
    """Make leases of rows; beside them, the numbers of those of which none can be made, and why."""
    now, floor, worker = step.now, step.version_floor, request.worker
    acquired_at = from_micros(now)
    expiries: dict[float, tuple[int, datetime]] = {}
    grants = Grants()
    unreadable: list[tuple[int, str]] = []
    by_task = request.lease_seconds_by_task or {}
    default_seconds = request.lease_seconds or step.settings.lease_seconds
    for job in jobs:
        try:
            lane = lanes[job.lane]
            queue, task = lane.queue.name, lane.task
            if job.lease_seconds is not None:
                seconds_of("lease_seconds", job.lease_seconds)
            if job.timeout_seconds is not None:
                seconds_of("timeout_seconds", job.timeout_seconds)
            seconds = job.lease_seconds or by_task.get(task) or default_seconds
            expiry = expiries.get(seconds)
            if expiry is None:
                micros = now + round(seconds * 1e6)
                expiry = expiries[seconds] = (micros, from_micros(micros))
            lease = Lease(
                job_id=job.id,
                version=max(job.version, floor) + 1,
                worker=worker,
                queue=queue,
                task=task,
                payload=job.payload,
                codec=job.codec or "json",
                priority=job.priority,
                attempt=job.attempts + 1,
                allowance=job.allowance,
                acquired_at=acquired_at,
                expires_at=expiry[1],
                lease_seconds=seconds,
                timeout_seconds=job.timeout_seconds,
                deadline=None if job.deadline is None else from_micros(job.deadline),
                retry=None if job.retry is None else retry_of(job.retry),
                metadata=None if job.metadata is None else metadata_of(job.metadata),
                parent_id=job.parent_id,
            )
            if (
                type(job.payload) is not bytes
                or type(job.id) is not str
                or not 0 <= job.priority <= 100
                or type(job.allowance) is not int
            ):
                raise ValueError("id, payload, priority or allowance are none")
            n = job.events + 1
            waited = now - job.available_at
        except UNREADABLE as error:
            unreadable.append((job.seq, problem_of(error)))
            continue
        tier, turn, seq, stands_in, available_at, *_ = job
        grants.leases.append(lease)
        grants.taken.append((stands_in, tier, turn, seq))
        if job.limit_key is not None:
            grants.placed.append(seq)
            grants.of_keys[queue, job.limit_key, job.lane] += 1
        elif (
            job.deadline is not None or turn != job.created_at or tier != default_tier(job.priority)
        ):
            grants.placed.append(seq)
        grants.granted.append(
            (seq, lease.version, worker, now, expiry[0], now, lease.attempt, n, n, available_at)
        )
        grants.numbers.append((seq, job.lane))
        grants.left.append((job.lane, job.priority))
        if job.lane in grants.waits:
            grants.waits[job.lane].append(waited)
        else:
            grants.waits[job.lane] = [waited]
    return grants, unreadable


def grant(step: Step, grants: Grants) -> None:
    """Let the jobs run."""
    for lane, waited in grants.waits.items():
        step.move(lane, Status.PENDING, Status.RUNNING, len(waited))
        step.measured.waited(step.count, lane, waited)
    ready.leave(step, grants.taken, grants.left, grants.placed)
    step.executemany(GRANT, grants.granted)
    if grants.of_keys and step.rules.key_limits:
        parking.granted(step, grants.of_keys)
        step.newly_shown.difference_update(grants.placed)
