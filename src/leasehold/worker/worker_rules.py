"""A worker's options: its queues, how much it runs at a time, and when it stops on its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRules:
    """A worker's options."""

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
