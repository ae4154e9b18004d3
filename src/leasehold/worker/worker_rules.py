"""How a worker works: its queues, how much at a time, and when it stops by itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRules:
    """How a worker works."""

    queues: tuple[str, ...]
    tasks: tuple[str, ...] | None
    slots: int
    poll_interval_seconds: float
    max_jobs: int | None
    max_memory_mb: float | None
    allow_commands: bool
    until_empty: bool = False
    """Stop when there is nothing left to do."""
    app_version: str | None = None
    """The version of the application whose tasks it runs."""
