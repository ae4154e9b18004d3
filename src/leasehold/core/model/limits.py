"""How much every store keeps, in one place."""

from __future__ import annotations

from typing import Final

UNLIMITED: Final = 1 << 62
"""More slots than anybody takes."""
PAYLOAD_BYTES_MAX: Final = 256 * 1024
"""For a payload, a result or a progress document kept inline."""
METADATA_LENGTH_MAX: Final = 16 * 1024
"""Characters of all the names and texts in a job's metadata."""
BLOB_BYTES_MAX: Final = 1024 * 1024 * 1024
"""For a payload or a result kept in a blob store: it passes through memory as a whole."""
DISK_RESERVE_BYTES: Final = 16 * 1024 * 1024
"""Submits are refused below this much free space, so that what runs can still be settled."""
NAME_LENGTH_MAX: Final = 255
SECONDS_MAX: Final = 10 * 366 * 24 * 3600.0
ATTEMPT_RECORDS_MAX: Final = 100
"""Kept per job unless it is set otherwise; the oldest go first, their history events stay."""
LOG_LINES_MAX: Final = 1000
"""Kept per job; the oldest go first."""
LOG_LINE_LENGTH_MAX: Final = 4096
"""Characters of one log line; a longer one is cut."""
IDEMPOTENCY_SECONDS: Final = 24 * 3600
"""How long an idempotency key stands for the job that first used it."""
LEASE_SECONDS_MIN: Final = 1.0
"""For the lease of a job, a queue or the settings: a shorter one ends before it can be renewed, and
its job would be handed back again and again. A consumer may ask for less."""
EXTENSION_SECONDS_MAX: Final = 24 * 3600.0
"""How long one lease may be kept alive by renewals, so that no zombie lives for ever."""
