"""Judges how leases fare while the clocks of the machine are set, or stand still: S4.

A lease is promised in time that its holder was awake. So it never ends before that time is over,
and it is moved only when the store's clock has moved further than anybody was awake, by as much.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from leasehold.core.model.lease import StuckJob
from leasehold.core.model.status import Status
from leasehold.testing.simulator.model import Model, ModelJob, ViolationError, broken

TOLERANCE: Final = timedelta(seconds=0.25)
"""The clocks may differ by this much before it counts as a jump."""


def judge_moves(model: Model, renewed: Collection[tuple[str, int]]) -> ViolationError | None:
    """Follow the leases that a call has moved: all by the same, and no further than it may."""
    moves = set()
    for job in model.jobs.values():
        key = (job.id, job.version)
        held = model.held.get(key)
        if job.status is not Status.RUNNING or held is None or key in renewed:
            continue
        moved = follow(model, job, held)
        moves.add(moved)
        if moved:
            model.seen["moved with the clock"] += 1
            if moved < TOLERANCE or moved > most_moved(model):
                return broken("S4", job.id, f"moved by {moved} as the clock jumped {model.jumped}")
    if len(moves) > 1:
        return broken("S4", None, f"one call moved leases by {sorted(moves)}")
    return None


def follow(model: Model, job: ModelJob, held: StuckJob) -> timedelta:
    """Move a lease as far as the store has moved it."""
    assert job.expires_at is not None
    assert job.heartbeat_at is not None
    moved = held.lease_expires_at - job.expires_at
    if moved:
        job.expires_at += moved
        job.moved_by += moved
        job.heartbeat_at = min(job.heartbeat_at + moved, model.now)
    return moved


def judge_expired(model: Model, job: ModelJob) -> None:
    """The store says that a lease is over: so it must be, also by its holder's own watch."""
    assert job.expires_at is not None
    if job.expires_at > model.now:
        raise broken("S4", job.id, f"taken at {model.now}, though leased until {job.expires_at}")
    lived = model.awake - job.kept_since
    if lived < job.lease_seconds - 2 * TOLERANCE.total_seconds():
        raise broken("S4", job.id, f"taken after {lived} s awake of {job.lease_seconds} s")


def latest_expiry(model: Model, job: ModelJob) -> datetime:
    """When a lease that this call may have moved is over at the latest."""
    assert job.expires_at is not None
    return job.expires_at + most_moved(model)


def most_moved(model: Model) -> timedelta:
    """By how much this call may have moved leases."""
    return model.jumped + 2 * TOLERANCE if model.jumped > timedelta(0) else timedelta(0)
