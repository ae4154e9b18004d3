"""Whether a store can be written to, and quickly: locks that are held, seals left behind, and
transactions left open.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Protocol

from leasehold.core.model.durations import duration_text
from leasehold.observe.findings import Finding, Level

WRITE_SECONDS_WARNING: Final = 5.0
WRITE_SECONDS_CRITICAL: Final = 30.0

TRANSACTION_SECONDS_MAX: Final = 600.0
"""Transactions of applications and of backups of a small database take less."""


class WritingFacts(Protocol):
    """The part of `leasehold.observe.health.Facts` that a check needs."""

    @property
    def store(self) -> Mapping[str, Any]: ...

    @property
    def wall_clock(self) -> datetime: ...


def seal(facts: WritingFacts) -> Finding | None:
    """A store that was moved, or is part of a move that was cut short, accepts no writes."""
    if "seal" not in facts.store:
        return None
    refusal = facts.store["seal"]
    if refusal is None:
        return Finding(check="seal", level=Level.OK, found="the store accepts writes")
    found, _, advice = str(refusal).partition(": ")
    return Finding(
        check="seal",
        level=Level.CRITICAL,
        found=found,
        meaning="nothing can be submitted, leased or settled here; reads still work",
        advice=advice,
    )


def write_lock(facts: WritingFacts) -> Finding | None:
    """A write takes milliseconds: a process that keeps others waiting for seconds is stuck."""
    if "writing" not in facts.store:
        return None
    for held in facts.store["writing"]:
        seconds = (facts.wall_clock - datetime.fromisoformat(held["since"])).total_seconds()
        if seconds < WRITE_SECONDS_WARNING and not held["stopped"]:
            continue
        pid = held["pid"]
        stopped = " (stopped)" if held["stopped"] else ""
        return Finding(
            check="write_lock",
            level=Level.CRITICAL
            if held["stopped"] or seconds >= WRITE_SECONDS_CRITICAL
            else Level.WARNING,
            found=f"process {pid}{stopped} {held['what']} for {duration_text(seconds)}",
            meaning="no other process can submit, lease or settle until it continues or ends",
            advice=f"resume it: kill -CONT {pid}; or end it: kill -KILL {pid}"
            if held["stopped"]
            else f"look at process {pid}; if it is stuck, end it: {held.get('end', f'kill {pid}')}",
        )
    return Finding(check="write_lock", level=Level.OK, found="free")


def old_transaction(facts: WritingFacts) -> Finding | None:
    """A database keeps every row that was deleted while a transaction is open."""
    if "oldest_transaction" not in facts.store:
        return None
    oldest = facts.store["oldest_transaction"]
    if oldest is None or oldest["seconds"] < TRANSACTION_SECONDS_MAX:
        return Finding(check="old_transaction", level=Level.OK, found="none")
    pid, application = oldest["pid"], oldest["application"] or "no application name"
    return Finding(
        check="old_transaction",
        level=Level.WARNING,
        found=f"process {pid} of the server ({application}, {oldest['host']}) has had a "
        f"transaction open for {duration_text(oldest['seconds'])}",
        meaning="PostgreSQL cannot remove rows that were deleted since: tables grow, and leases "
        "become slower with each job unless the store has a Redis",
        advice=f"commit it or roll it back; if nobody needs it: SELECT pg_terminate_backend({pid})",
    )
