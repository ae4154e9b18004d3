"""How much every store keeps, in one place."""

from __future__ import annotations

from typing import Final

UNLIMITED: Final = 1 << 62
"""More slots than anybody uses."""
PAYLOAD_BYTES_MAX: Final = 256 * 1024
"""The limit for a payload, a result or a progress document stored inline."""
METADATA_LENGTH_MAX: Final = 16 * 1024
"""Total characters of the names and texts in a job's metadata."""
BLOB_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The limit for a payload or a result in a blob store, which passes through memory as a whole."""
DISK_RESERVE_BYTES: Final = 16 * 1024 * 1024
"""Submits are refused below this much free space, so that running jobs can still be settled."""
NAME_LENGTH_MAX: Final = 255
SECONDS_MAX: Final = 10 * 366 * 24 * 3600.0
ATTEMPT_RECORDS_MAX: Final = 100
"""Kept per job by default; the oldest are dropped first, and their history events stay."""
LOG_LINES_MAX: Final = 1000
"""Kept per job; the oldest are dropped first."""
LOG_LINE_LENGTH_MAX: Final = 4096
"""Characters of one log line; a longer one is cut."""
IDEMPOTENCY_SECONDS: Final = 24 * 3600
"""How long an idempotency key stands for the job that first used it."""
LEASE_SECONDS_MIN: Final = 1.0
"""For the lease of a job, a queue or the settings: a shorter one ends before it can be renewed, and
its job would be handed back again and again. A consumer may ask for less."""
EXTENSION_SECONDS_MAX: Final = 24 * 3600.0
"""How long one lease may be kept alive by renewals, so that no zombie lives for ever."""
