"""What each cell of each table must hold, defined once, as SQL expressions.

SQLite stores whatever it is given: a bug, a bad disk or a newer version may leave anything in any
cell. `damaged_cells` finds cells that violate these definitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leasehold.core.model.codes import (
    EVENT_OF,
    POLICY_OF,
    STATUS_CODE,
    STATUS_OF,
)
from leasehold.core.model.histogram import BOUNDS
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.retention import COUNTED
from leasehold.core.model.span import BANDS, SUMMED, Measure
from leasehold.core.model.status import TERMINAL, Status
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.cleanup_store import Phase
from leasehold.core.rules.sampling import Resolution
from leasehold.stores.sqlite.schema.rows import WHOLE_MAX

# Kinds of cells: each is an expression that is true for a sound value and never NULL.


def between(least: int, most: int) -> str:
    return f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN {least} AND {most}"


def either(codes: Iterable[int]) -> str:
    return f"typeof({{0}}) = 'integer' AND {{0}} IN ({', '.join(map(str, codes))})"


def read_as(what: str) -> str:
    return f"typeof({{0}}) = 'text' AND reads_as('{what}', CAST({{0}} AS BLOB))"


def or_null(sort: str) -> str:
    return f"{{0}} IS NULL OR ({sort})"


WHOLE: Final = between(0, WHOLE_MAX)
SIGNED: Final = "typeof({0}) = 'integer'"
MOMENT: Final = between(0, MOMENT_MAX)
SECONDS: Final = f"typeof({{0}}) IN ('integer', 'real') AND {{0}} > 0 AND {{0}} <= {SECONDS_MAX}"
TEXT: Final = read_as("text")
# 32 bytes in hexadecimal: a shorter one could be guessed.
SIGNING_KEY: Final = "length({0}) = 64 AND {0} NOT GLOB '*[^0-9a-f]*'"
BYTES: Final = "typeof({0}) = 'blob'"
STATUS: Final = either(STATUS_OF)
ENDED: Final = either(STATUS_CODE[status] for status in sorted(TERMINAL))
WAITS: Final = either(
    STATUS_CODE[status] for status in (Status.SCHEDULED, Status.FAILED, Status.BLOCKED)
)
EVENT: Final = either(EVENT_OF)
_HOLD_MICROS: Final = round(SECONDS_MAX * 1e6)
# No circuit breaker holds for longer than the longest valid duration.
HELD_UNTIL: Final = f"""
    typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND
        (SELECT max(clock, 0) + {_HOLD_MICROS} FROM store_state)
"""

BASIS: Final = {
    "boot_id": TEXT,
    "basis_clock": MOMENT,
    "basis_awake": WHOLE,
    "basis_boot": WHOLE,
    "doubt_since": or_null(WHOLE),
    "doubt_by": WHOLE,
    "clock_repairs": WHOLE,
}
COUNTERS: Final = (*(str(status) for status in Status), *(f"pending_{band}" for band in BANDS))
TOTALS: Final = tuple(f"total_{name}" for name in SUMMED)
BREAKER: Final = {
    "failures_in_row": WHOLE,
    "held_until": or_null(HELD_UNTIL),
    "hold_micros": or_null(between(0, _HOLD_MICROS)),
}

_AUDIT: Final = {
    "n": WHOLE,
    "at": MOMENT,
    "actor": TEXT,
    "action": TEXT,
    "count": WHOLE,
    "detail": read_as("metadata"),
}

CELLS: Final[dict[str, dict[str, str]]] = {
    "store_state": {
        "one": either((1,)),
        **dict.fromkeys(
            ("version_floor", "next_seq", "queue_generation", "open_minute", "settings_generation"),
            WHOLE,
        ),
        "clock": MOMENT,
        **BASIS,
    },
    "meta": {"key": TEXT, "value": f"{TEXT} AND (key <> 'signing_key' OR {SIGNING_KEY})"},
    "lane": {
        "id": WHOLE,
        "queue": TEXT,
        "task": TEXT,
        **dict.fromkeys((*COUNTERS, *TOTALS), WHOLE),
        **BREAKER,
        "made_at": MOMENT,
        "deleted_after": or_null(WHOLE),
    },
    "job": {
        "seq": WHOLE,
        "id": TEXT,
        "lane": WHOLE,
        "priority": between(0, 100),
        "born": STATUS,
        "created_at": MOMENT,
        "max_retries": WHOLE,
        "allowance": WHOLE,
        **dict.fromkeys(
            ("timeout_seconds", "lease_seconds", "result_ttl_seconds"), or_null(SECONDS)
        ),
        "deadline": or_null(MOMENT),
        "start_by": or_null(MOMENT),
        "retry": or_null(read_as("retry")),
        "metadata": or_null(read_as("metadata")),
        **dict.fromkeys(("idempotency_key", "parent_id", "codec", "limit_key"), or_null(TEXT)),
        "payload": BYTES,
    },
    "ready": {
        "lane": SIGNED,
        "tier": WHOLE,
        "turn": SIGNED,
        **dict.fromkeys(("seq", "version", "attempts", "events"), WHOLE),
        "available_at": MOMENT,
        "parent_id": or_null(TEXT),
    },
    "place": {
        "seq": WHOLE,
        "tier": WHOLE,
        "turn": SIGNED,
        "crosses_at": or_null(MOMENT),
        "lane": or_null(SIGNED),
        "key_lane": or_null(WHOLE),
    },
    "rescoring": {"lane": SIGNED, "tier": SIGNED, "turn": SIGNED, "seq": WHOLE},
    "key_lane": {"id": WHOLE, "queue": TEXT, "key": TEXT, "lane": WHOLE, "running": WHOLE},
    "resting": {"queue": TEXT, "key": TEXT, "until": MOMENT},
    "waiting": {
        **dict.fromkeys(("seq", "version", "attempts", "events"), WHOLE),
        "status": WAITS,
        "due": or_null(MOMENT),
        "since": MOMENT,
        "reason": or_null(TEXT),
    },
    "running": {
        **dict.fromkeys(
            (
                *("seq", "version", "attempts", "events", "leased_event", "moved_by"),
                *("lease_micros", "life"),
            ),
            WHOLE,
        ),
        "worker": TEXT,
        **dict.fromkeys(("acquired_at", "expires_at", "heartbeat_at", "available_at"), MOMENT),
        "cancel_reason": or_null(TEXT),
    },
    "finished": {
        **dict.fromkeys(("seq", "version", "attempts", "events"), WHOLE),
        "status": ENDED,
        "finished_at": MOMENT,
        "started_at": or_null(MOMENT),
        "available_at": MOMENT,
        "result": or_null(BYTES),
        "result_codec": or_null(TEXT),
        "reason": or_null(TEXT),
    },
    "attempt": {
        **dict.fromkeys(
            (
                *("seq", "version", "number", "attempts", "leased_event", "ended_event"),
                "lease_micros",
            ),
            WHOLE,
        ),
        "worker": TEXT,
        "started_at": MOMENT,
        "ended_at": MOMENT,
        "outcome": EVENT,
        "after": STATUS,
        **dict.fromkeys(("message", "error_type", "error_message", "traceback"), or_null(TEXT)),
        "note": or_null(BYTES),
        "expires_at": or_null(MOMENT),
        "heartbeat_at": or_null(MOMENT),
    },
    "failed_job": {"seq": WHOLE, "count": WHOLE, "first_at": MOMENT, "last_at": MOMENT},
    "event": {
        **dict.fromkeys(("seq", "n", "attempts", "version"), WHOLE),
        "at": MOMENT,
        "event": EVENT,
        "before": STATUS,
        "after": STATUS,
        "worker": or_null(TEXT),
        "message": or_null(TEXT),
    },
    "idempotency": {
        "queue": TEXT,
        "key": TEXT,
        "seq": WHOLE,
        "digest": BYTES,
        "expires_at": MOMENT,
    },
    "progress": {"seq": WHOLE, "document": read_as("json")},
    "log": {"seq": WHOLE, "n": WHOLE, "at": MOMENT, "line": TEXT},
    "worker": {
        "id": TEXT,
        "host": or_null(TEXT),
        "pid": or_null(WHOLE),
        "queues": read_as("names"),
        "tasks": read_as("names"),
        "slots": WHOLE,
        "started_at": MOMENT,
        "heartbeat_at": MOMENT,
        "is_consumer": between(0, 1),
        "life": SIGNED,
        "app_version": or_null(TEXT),
    },
    "audit": _AUDIT,
    "audit_archive": _AUDIT,
    "dependent": {
        "seq": WHOLE,
        "policy": either(POLICY_OF),
        "due": MOMENT,
        "ended_by": or_null(WHOLE),
    },
    "dependency": {"seq": WHOLE, "n": WHOLE, "needs": WHOLE, "id": TEXT},
    "ended_dependents": {"seq": WHOLE, "up_to": WHOLE},
    "blocker": {"needs": WHOLE, "seq": WHOLE},
    "resolving": {"seq": WHOLE, "purged": between(0, 1)},
    "raised": {"seq": WHOLE, "base": between(0, 100)},
    "inheriting": {
        "seq": WHOLE,
        "compared_to": or_null(between(-1, WHOLE_MAX)),
        "is_suspect": between(0, 1),
    },
    "schedule": {
        "name": TEXT,
        "draft": read_as("schedule"),
        "created_at": MOMENT,
        "updated_at": MOMENT,
        **dict.fromkeys(("next_at", "due_at", "last_at", "missed_at"), or_null(MOMENT)),
        "paused": between(0, 1),
        "last_job_id": or_null(TEXT),
        "fired": WHOLE,
        "missed": WHOLE,
        "error": or_null(TEXT),
    },
    "queue": {
        "name": TEXT,
        "state": read_as("state"),
        "config": read_as("config"),
        **dict.fromkeys(("older_at", "newer_at"), or_null(MOMENT)),
        **dict.fromkeys(("older_ended", "newer_ended"), or_null(WHOLE)),
        **dict.fromkeys(("created_at", "changed_at"), or_null(MOMENT)),
        **dict.fromkeys(("created_by", "changed_by"), or_null(TEXT)),
    },
    "bucket": {"queue": TEXT, "name": TEXT, "full_at": between(0, MOMENT_MAX * 30)},
    "setting": {"name": TEXT, "value": read_as("json")},
    "pin": {"kind": TEXT, "name": TEXT, "at": MOMENT, "document": read_as("pin")},
    "token": {"name": TEXT, "digest": TEXT, "document": read_as("token")},
    "operation": {"number": WHOLE, "id": TEXT, "document": read_as("operation")},
    "operation_part": {"operation": WHOLE, "part": WHOLE, "document": read_as("part")},
    "cleanup": {
        "run": WHOLE,
        "mode": read_as("mode"),
        "actor": TEXT,
        "started_at": MOMENT,
        "active_at": MOMENT,
        "ended_at": or_null(MOMENT),
        **dict.fromkeys((*COUNTED, "writes", "lock_micros", "ended_up_to", "seq_up_to"), WHOLE),
        "phase": either(map(int, Phase)),
        "bound": or_null(WHOLE),
    },
    "archive": {
        **dict.fromkeys(("day", "seq", "attempts", "failure_count"), WHOLE),
        **dict.fromkeys(("id", "queue", "task"), TEXT),
        "status": ENDED,
        **dict.fromkeys(("created_at", "finished_at", "archived_at"), MOMENT),
        **dict.fromkeys(("started_at", "first_failed_at", "last_failed_at"), or_null(MOMENT)),
        **dict.fromkeys(
            ("error_type", "error_message", "reason", "result", "parent_id"), or_null(TEXT)
        ),
        "metadata": or_null(read_as("metadata")),
    },
    "pruned_key": {
        "seq": WHOLE,
        "id": TEXT,
        "status": ENDED,
        "queue": TEXT,
        "key": TEXT,
        "expires_at": MOMENT,
    },
    "measured": {
        "lane": WHOLE,
        "measure": either(map(int, Measure)),
        # For lane 0 it is the number of a worker.
        "bucket": f"{WHOLE} AND (lane = 0 OR {{0}} <= {len(BOUNDS)})",
        "jobs": WHOLE,
        "micros": WHOLE,
    },
    "span": {
        "resolution": either(map(int, Resolution)),
        "queue": TEXT,
        "at": WHOLE,
        **dict.fromkeys((*SUMMED, "pending_before", "pending", "deepest", "oldest_micros"), WHOLE),
        "measures": f"{BYTES} AND reads_as('measures', {{0}})",
    },
    "failure": {
        **dict.fromkeys(("fingerprint", "queue", "task", "error_type", "message", "frame"), TEXT),
        "count": WHOLE,
        "first_at": MOMENT,
        "last_at": MOMENT,
        "jobs": read_as("ids"),
        "hours": read_as("counts"),
    },
    "error_total": {
        "queue": TEXT,
        "error_type": TEXT,
        "attempts": WHOLE,
        "last_at": MOMENT,
    },
    "worker_total": {
        "id": WHOLE,
        "worker": TEXT,
        "queue": TEXT,
        **dict.fromkeys(("leased", "completed", "failed", "lost"), WHOLE),
        "first_at": MOMENT,
        "last_at": MOMENT,
    },
    "change": {
        "n": WHOLE,
        "kind": between(0, 4),
        "name": or_null(TEXT),
        "seq": or_null(WHOLE),
        "status": or_null(STATUS),
        "events": or_null(WHOLE),
    },
    "reply": {
        "n": WHOLE,
        "id": TEXT,
        "at": MOMENT,
        "data": f"{BYTES} AND reads_as('reply', {{0}})",
    },
}
"""The expressions by table and column."""
